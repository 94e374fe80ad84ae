"""What was imported: one row for each source, for the Import page and the API."""

from __future__ import annotations

from dataclasses import dataclass

from core.acts import Act, Supersede
from core.errors import NotFound
from core.instants import Instant
from core.principal import Principal
from ingest import registry
from ingest.base import Importer, LogImporter
from ingest.logs import marks_of, tally_of, trajectories_of
from runtime.service import Runtime
from store.ports import ImportSource

#: Sub-agents of one source that a row looks up; the rest is counted.
SUBS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Made:
    """One trajectory of a source."""

    trajectory_id: str
    title: str
    head: int
    withdrawn: Act | None
    superseded_by: str | None
    last_act: int
    """Number of the newest act about it; 0: none."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source."""

    source: ImportSource
    source_id: str
    """As the person knows it: a name, a path, a session."""
    format: str
    read_at: Instant
    originals: int
    redacted: dict[str, int]
    """Rule -> places."""
    unredacted: int
    """Kept originals whose secrets nobody looked for."""
    made: tuple[Made, ...]
    more: int
    """Further trajectories of it."""
    outdated: bool
    """An older version of the importer made its newest revision."""

    @property
    def own(self) -> Made:
        """The source's own trajectory."""
        return self.made[0]


@dataclass(frozen=True, slots=True)
class SourcePage:
    """Some of the sources, by source id."""

    rows: tuple[SourceRow, ...]
    after: str | None
    """Give it for the next ones; None: there are none."""


def page(runtime: Runtime, who: Principal, *, after: str, limit: int) -> SourcePage:
    """The sources beyond `after`."""
    found = runtime.all_sources(who, after=after, limit=limit + 1)
    rows = tuple(row(runtime, who, source, at) for source, at in found[:limit])
    return SourcePage(rows, found[limit - 1][0].source_id if len(found) > limit else None)


def of_trajectory(runtime: Runtime, who: Principal, trajectory_id: str) -> SourceRow:
    """The source that a trajectory is the own one of; NotFound where there is none."""
    runtime.head(who, trajectory_id)
    found = runtime.sources(who, trajectory_id)
    if not found:
        raise NotFound(
            "this trajectory is not the own one of an imported source", trajectory_id=trajectory_id
        )
    return row(runtime, who, found[0], 0)


def row(runtime: Runtime, who: Principal, source: ImportSource, read_at: Instant) -> SourceRow:
    """One source with what became of its trajectories."""
    names = trajectories_of(source)
    made = tuple(
        one for name in names[: SUBS_SHOWN + 1] if (one := _made(runtime, who, name)) is not None
    )
    known = _versions().get(source.importer)
    own = made[0]
    return SourceRow(
        source=source,
        source_id=source.state.get("source", source.source_id),
        format=known[1] if known is not None else source.importer,
        read_at=read_at,
        originals=len(source.segments),
        redacted=dict(tally_of(source).places),
        unredacted=sum(mark == "0" for mark in marks_of(source)),
        made=made,
        more=max(0, len(names) - SUBS_SHOWN - 1),
        outdated=known is not None
        and source.version < known[0]
        and own.superseded_by is None
        and own.withdrawn is None,
    )


def _made(runtime: Runtime, who: Principal, trajectory_id: str) -> Made | None:
    """One trajectory; None for a sub-agent whose log was cut off before its first event."""
    try:
        head = runtime.head(who, trajectory_id)
    except NotFound:
        return None
    standing = runtime.standing_of(who, trajectory_id)
    summary = runtime.summary(who, trajectory_id) or {}
    by = standing.superseded.body if standing.superseded is not None else None
    return Made(
        trajectory_id,
        str(summary.get("title") or ""),
        head.sequence_number,
        standing.withdrawn,
        by.by if isinstance(by, Supersede) else None,
        standing.last,
    )


def _versions() -> dict[str, tuple[int, str]]:
    """Importer -> (its version now, its name for people)."""
    importers: tuple[Importer | LogImporter, ...] = (*registry.IMPORTERS, *registry.LOG_IMPORTERS)
    return {one.name: (one.version, one.title) for one in importers}


def wire(one: SourceRow) -> dict[str, object]:
    """As JSON."""
    return {
        "source_id": one.source.source_id,
        "source": one.source_id,
        "name": one.source.name,
        "importer": one.source.importer,
        "version": one.source.version,
        "read_at": one.read_at,
        "bytes": one.source.reading_length,
        "originals": one.originals,
        "redacted": one.redacted,
        "unredacted_originals": one.unredacted,
        "outdated": one.outdated,
        "trajectories": [
            {
                "trajectory_id": made.trajectory_id,
                "title": made.title,
                "head": made.head,
                "withdrawn": made.withdrawn is not None,
                "superseded_by": made.superseded_by,
            }
            for made in one.made
        ],
        "more_trajectories": one.more,
    }
