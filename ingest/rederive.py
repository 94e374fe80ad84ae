"""A newer importer reads the kept originals again: a further revision that stands for the old one.

    outdated sources -> kept originals -> events under the newer version -> append -> supersede

INVARIANTS
1. The old trajectory stays as it is; the new one has an id of its own, points at the same kept
   originals, and a recorded act says that it stands for the old one.
2. Doing it again changes nothing; what was cut off is completed.
3. What was withdrawn is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from core.acts import Supersede, about, encode
from core.canonical import canonical, digest_text, sha256
from core.errors import NotFound
from core.events.prepare import prepare
from ingest import registry
from ingest.base import Importer, Kept, LogImporter, Report, TrajectoryReport
from ingest.build import SourceKey
from ingest.logs import Logs, Runs
from ingest.redact import NO_RULES
from store.ports import Ack, ActCommand, AppendCommand, BlobStore, ImportSource, RecoveryStore

_PAGE = 200
Append = Callable[[AppendCommand], Ack]


@dataclass(frozen=True, slots=True)
class Outdated:
    """A source that was read by an older version of its importer."""

    row: ImportSource
    importer: Importer | LogImporter


@dataclass(frozen=True, slots=True)
class Rederiving:
    """Re-derivation in one tenant of one store."""

    store: RecoveryStore
    blobs: BlobStore
    tenant: str
    append: Append
    actor: str
    """Whose act the superseding is: a person, or `importer` where a reading of it came first."""

    def outdated(self, after: str = "") -> Iterator[Outdated]:
        """Sources whose newest revision an older importer made, by source id, beyond `after`."""
        while page := self.store.sources(self.tenant, after=after, limit=_PAGE):
            for row, _ in page:
                importer = _importer(row.importer)
                if importer is not None and self._is_outdated(row, importer):
                    yield Outdated(row, importer)
            after = page[-1][0].source_id

    def older(self, importer: Importer | LogImporter, source_id: str) -> Outdated | None:
        """What an older version knows of this source and this one has not derived again."""
        for version in range(importer.version - 1, 0, -1):
            row = self.store.import_source(self.tenant, f"{importer.name}/{version}:{source_id}")
            if row is not None:
                return Outdated(row, importer) if self._is_outdated(row, importer) else None
        return None

    def run(self, found: Outdated) -> Report:
        """Derive one source again. Raises IntegrityConflict, ImportRefused, Corrupt errors where
        the kept originals cannot be read."""
        row, importer = found.row, found.importer
        report = Report(path=row.name, format=importer.title, format_why="it was read before")
        report.source, report.bytes_read = row.state["source"], row.reading_length
        if registry.is_log(importer):
            subs = self._log(row, importer, report)
        else:
            subs = self._document(row, cast(Importer, importer), report)
        for sub in subs:
            self._supersede(row, importer, sub)
        return report

    def _is_outdated(self, row: ImportSource, importer: Importer | LogImporter) -> bool:
        if row.version >= importer.version:
            return False
        standing = about(self.store.acts(self.tenant, trajectory_id=row.trajectory_id))
        if standing.withdrawn is not None:
            return False
        if standing.superseded is None:
            return True
        by = standing.superseded.body
        return isinstance(by, Supersede) and by.version < importer.version

    def _log(self, row: ImportSource, importer: LogImporter, report: Report) -> list[str | None]:
        logs = Logs(self.store, self.blobs, self.tenant, Runs(), NO_RULES, self.append)
        reading = logs.rederive(row, importer, report)
        # The source's own trajectory last: it says that all of this was done.
        return sorted(reading.subs, key=lambda sub: (sub is None, sub or ""))

    def _document(self, row: ImportSource, importer: Importer, report: Report) -> list[str | None]:
        source_id = row.state["source"]
        kept = tuple(
            Kept(self.blobs.read(self.tenant, part.blob), part.blob, part.items)
            for part in row.segments
        )
        built = importer.rebuild(source_id, kept)
        report.findings, report.items = built.findings, sum(part.items for part in row.segments)
        source = ImportSource(
            source_id=f"{importer.name}/{importer.version}:{source_id}",
            importer=importer.name,
            version=importer.version,
            trajectory_id=built.trajectory_id,
            name=row.name,
            reading_digest=row.reading_digest,
            reading_length=row.reading_length,
            segments=row.segments,
            state={**row.state, **built.state},
        )
        self.blobs.put_many(self.tenant, [one.blob for one in built.events if one.blob is not None])
        request = sha256(canonical([source.source_id, row.reading_digest, 0])).hex()[:40]
        ack = self.append(
            AppendCommand(
                tenant=self.tenant,
                trajectory_id=built.trajectory_id,
                issuer="importer",
                door="import",
                request_id=f"import.{request}",
                events=tuple(
                    prepare(built.trajectory_id, one.event, one.payload) for one in built.events
                ),
                source=source,
                creates="imported",
            )
        )
        fresh = sum(1 for one in ack.duplicates if not one)
        report.outcome = "imported" if fresh else "unchanged"
        report.trajectories.append(
            TrajectoryReport(
                id=built.trajectory_id,
                title=built.title,
                outcome=report.outcome,
                events=len(built.events),
                appended=fresh,
                head=ack.head,
                chain=digest_text(ack.chain),
            )
        )
        return [None]

    def _supersede(
        self, row: ImportSource, importer: Importer | LogImporter, sub: str | None
    ) -> None:
        """Record that the new revision stands for the old one, where there is an old one."""
        source_id = row.state["source"] + (f"#agent:{sub}" if sub is not None else "")
        old = SourceKey(importer.name, row.version, source_id).trajectory_id
        new = SourceKey(importer.name, importer.version, source_id).trajectory_id
        try:
            self.store.head(self.tenant, old)
        except NotFound:
            return
        body = Supersede(by=new, importer=importer.name, version=importer.version)
        self.store.act(
            ActCommand(
                tenant=self.tenant,
                kind="supersede",
                body=body,
                actor=self.actor,
                request_id=f"supersede.{new}",
                request_digest=sha256(canonical([old]) + encode(body)),
                trajectory_id=old,
            )
        ).result()


def _importer(name: str) -> Importer | LogImporter | None:
    known: tuple[Importer | LogImporter, ...] = (*registry.IMPORTERS, *registry.LOG_IMPORTERS)
    return next((one for one in known if one.name == name), None)
