"""What was imported, as the Import page and the page of one source show it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app import links
from app.presenters.format import count, plural, size
from app.presenters.terminal import one_line
from app.sources import Made, SourceRow
from core.acts import Act
from core.instants import Instant
from store.ports import SourceSegment

ORIGINALS_SHOWN = 20
#: What fills a redacted place up to its length; a title needs no more than that there was one.
_STARS = re.compile(r"(?<=\])\*{4,}")


@dataclass(frozen=True, slots=True)
class MadeLine:
    """One trajectory of a source."""

    trajectory_id: str
    title: str
    href: str
    events: str
    sub: bool
    """It is a sub-agent's, within the source."""
    withdrawn: Act | None
    superseded_href: str
    superseded_by: str


@dataclass(frozen=True, slots=True)
class Hidden:
    """What redaction did to a source: (mark, words)."""

    grade: str
    text: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One source in the list."""

    name: str
    known_as: str
    """Its source id, where that says more than the name."""
    href: str
    format: str
    outdated: bool
    own: MadeLine
    subs: int
    read_at: Instant
    size: str
    originals: str
    hidden: Hidden


@dataclass(frozen=True, slots=True)
class Original:
    """One kept original."""

    digest: str
    href: str
    size: str
    items: str


@dataclass(frozen=True, slots=True)
class SourceDetail:
    """One source on a page of its own."""

    line: SourceLine
    importer: str
    reading_digest: str
    made: tuple[MadeLine, ...]
    more: int
    rules: tuple[tuple[str, str], ...]
    originals: tuple[Original, ...]
    more_originals: int
    withdrawn: bool
    """Every trajectory of it is."""


def line(row: SourceRow) -> SourceLine:
    """One source in the list."""
    name = one_line(row.source.name, 200)
    known_as = one_line(row.source_id, 200)
    return SourceLine(
        name=name.rpartition("/")[2] or name,
        known_as=known_as if known_as != name.rpartition("/")[2] else "",
        href=links.import_source(row.own.trajectory_id),
        format=one_line(row.format, 60),
        outdated=row.outdated,
        own=_made(row.own, sub=False),
        subs=len(row.made) - 1 + row.more,
        read_at=row.read_at,
        size=size(row.source.reading_length),
        originals=plural(row.originals, "kept original"),
        hidden=hidden(row.redacted, row.unredacted, row.originals),
    )


def rederived(done: int, refused: int) -> str:
    """What deriving again did."""
    said = plural(done, "source") + " derived again" if done else "Nothing was derived again"
    return f"{said}; {plural(refused, 'source')} refused" if refused else said


def hidden(redacted: dict[str, int], unredacted: int, originals: int) -> Hidden:
    """What redaction did: nothing found is not the same as not looked for."""
    places = sum(redacted.values())
    found = plural(places, "secret") + " hidden" if places else "none found"
    if not unredacted:
        return Hidden("established" if places else "", found)
    if unredacted >= originals and not places:
        return Hidden("unknown", "not looked for")
    return Hidden("unknown", f"{found}; not looked for in {unredacted} of {originals} originals")


def detail(row: SourceRow) -> SourceDetail:
    """One source on its page."""
    segments: Sequence[SourceSegment] = row.source.segments
    return SourceDetail(
        line=line(row),
        importer=f"{row.source.importer} {row.source.version}",
        reading_digest=row.source.reading_digest,
        made=tuple(_made(one, sub=number > 0) for number, one in enumerate(row.made)),
        more=row.more,
        rules=tuple(
            (one_line(name, 60), count(places)) for name, places in sorted(row.redacted.items())
        ),
        originals=tuple(
            Original(
                segment.blob,
                links.api_blob(segment.blob),
                size(segment.length),
                count(segment.items),
            )
            for segment in segments[:ORIGINALS_SHOWN]
        ),
        more_originals=max(0, len(segments) - ORIGINALS_SHOWN),
        withdrawn=all(one.withdrawn is not None for one in row.made),
    )


def _made(one: Made, *, sub: bool) -> MadeLine:
    return MadeLine(
        trajectory_id=one.trajectory_id,
        title=_STARS.sub("***", one_line(one.title or one.trajectory_id, 100)),
        href=links.trajectory(one.trajectory_id),
        events=plural(one.head, "event"),
        sub=sub,
        withdrawn=one.withdrawn,
        superseded_href=links.trajectory(one.superseded_by) if one.superseded_by else "",
        superseded_by=one.superseded_by or "",
    )
