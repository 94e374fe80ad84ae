"""From a named file or an uploaded stream to a trajectory and its report.

    sniff -> read and validate all of it -> build -> blobs durable -> one append -> report

INVARIANTS
1. Nothing of a source is stored before all of it was validated, and its events go in by one
   append, which creates the trajectory too: all of them, or nothing (APP-4).
2. Its originals are durable before any event that points at them (APP-3).
3. The same bytes change nothing, whatever their name; a grown source appends what it grew by; one
   that contradicts what was kept is a conflict, kept as an incident, and appends nothing (WHO-3).
4. What goes wrong with a source, be it by a defect of its importer, is in its report; what goes
   wrong with the store is raised.
"""

from __future__ import annotations

import errno
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from core.acts import about
from core.canonical import canonical, digest_text, sha256
from core.errors import (
    Busy,
    Corrupt,
    HeadMoved,
    ImportRefused,
    IntegrityConflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    StoreFull,
    StrandlineError,
    TooLarge,
)
from core.events.envelope import NewEvent
from core.events.prepare import Prepared, prepare
from core.limits import IMPORT_BYTES_MAX, IMPORT_VALUE_BYTES_MAX, MIB
from ingest import document, faults, files, redact, redact_own, registry
from ingest.base import (
    Built,
    Findings,
    Importer,
    Kept,
    LogImporter,
    Parsed,
    Progress,
    Refusal,
    Report,
    Source,
    TrajectoryReport,
    no_progress,
)
from ingest.logs import Logs, LogSource, Runs, marks_of, redaction_state, stored_id
from ingest.native import NativeBundle
from ingest.redact import NO_RULES, Rules
from ingest.rederive import Rederiving
from store.ports import (
    Ack,
    AppendCommand,
    BlobStore,
    ImportSource,
    RecoveryStore,
    SourceSegment,
)

_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 8 * 1024
_RETRIES = 5
#: A full queue is waited for this long in all, half a minute, before the import gives up.
_BUSY_SECONDS = 0.2
_BUSY_TRIES = 150
#: What is in the name of a trajectory, packed or not; another file that is none is passed over
#: where it lies in a folder, and refused only where somebody named it.
_TRAJECTORY_NAMES = (".json", ".ndjson", ".traj")
#: What only describes a trajectory beside it, which is read with that one.
_BESIDE = (".meta.json",)
_NO_TRAJECTORY = ("unknown_format", "container", "binary", "empty")


def import_path(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str,
    path: str | os.PathLike[str],
    *,
    as_name: str | None = None,
    progress: Progress = no_progress,
    spool: Path | None = None,
    runs: Runs | None = None,
    hide: bool = True,
) -> Iterator[Report]:
    """Import a file, or every file in a folder; one report per file, as each is done.

    `as_name` replaces the path as the identity of the source: another name, another trajectory.
    `spool` is the folder for private copies (default: `tmp` of the data folder). `runs` keeps what
    was derived of growing sources for their next reading. `hide`: secrets are redacted, by the
    built-in rules and those of the data folder. Raises InvalidInput where the latter cannot be
    read.
    """
    importing = _importing(store, blobs, tenant, spool, runs, hide=hide)
    try:
        for found in files.walk(path):
            if isinstance(found, files.Skipped):
                report = Report(path=found.name, outcome="skipped")
                report.refused.append(Refusal(found.name, found.why))
                yield report
                continue
            with found.file:
                explicit = as_name
                if as_name is not None and found.in_folder:
                    explicit = f"{as_name}/{found.name}"
                named = Named(found.name, explicit, found.identity)
                yield importing.run(named, found.file, opened=found, progress=progress)
    except ImportRefused as error:
        report = Report(path=files.show(os.fspath(path)))
        report.refused.append(Refusal.of(error))
        yield report


def import_opened(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str,
    opened: files.OpenedFile,
    how: Following,
    *,
    progress: Progress = no_progress,
    runs: Runs,
    spool: Path | None = None,
) -> Report:
    """Take in what is new of a file that is followed; the caller closes it.

    What `progress` raises ends the reading after a whole segment.
    """
    importing = _importing(store, blobs, tenant, spool, runs, hide=how.hide)
    named = Named(opened.name, how.source, opened.identity)
    return importing.run(named, opened.file, opened=opened, progress=progress, following=how)


def import_stream(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str,
    name: str,
    stream: BinaryIO,
    *,
    identity: str | None = None,
    path: str | None = None,
    following: Following | None = None,
    offset: int = 0,
    beside: Beside | None = None,
    progress: Progress = no_progress,
    spool: Path | None = None,
    runs: Runs | None = None,
    hide: bool = True,
) -> Report:
    """Import one upload, copied to a private file first; `name` is what its sender calls it.

    Two uploads of one name with different tasks are two trajectories. `identity` is the source id
    a sender gives; `path` is where the file lies with its sender: the same as if it had been
    imported by that path here, `beside` what lies beside it there. `following` is set where the
    sender follows the file; the stream may then leave out its first `offset` bytes, which are
    known here and which the sender compared with what it had sent of them.
    """
    importing = _importing(store, blobs, tenant, spool, runs, hide=hide)
    shown = files.show(name)
    with tempfile.TemporaryFile(dir=importing.spool) as private:
        try:
            _copy(stream, private, progress)
        except ImportRefused as error:
            report = Report(path=shown)
            report.refused.append(Refusal.of(error))
            return report
        named = Named(shown, identity, path)
        return importing.run(
            named,
            private,
            opened=None,
            progress=progress,
            following=following,
            offset=offset,
            beside=beside,
        )


def rederive(
    store: RecoveryStore, blobs: BlobStore, tenant: str, *, actor: str, after: str = ""
) -> Iterator[tuple[str, Report]]:
    """Derive every source again that an older version of its importer read, by source id beyond
    `after`; the stored source id and the report of each.

    `actor` is whose act it is that the new revisions stand for the old ones.
    """
    importing = _importing(store, blobs, tenant, None, None, hide=True)
    work = Rederiving(store, blobs, tenant, importing.append_when_free, actor)
    for found in work.outdated(after):
        began = time.monotonic_ns()
        try:
            report = work.run(found)
        except (ImportRefused, IntegrityConflict, NotFound, Corrupt) as error:
            report = Report(path=found.row.name, format=found.importer.title)
            report.refused.append(Refusal("the kept originals", str(error)))
        except StrandlineError:
            raise
        except Exception as error:
            report = Report(path=found.row.name, format=found.importer.title)
            report.refused.append(Refusal.of(faults.refusal(error, found.row.name)))
        report.elapsed_us = (time.monotonic_ns() - began) // 1000
        yield found.row.source_id, report


def _importing(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str,
    spool: Path | None,
    runs: Runs | None,
    *,
    hide: bool,
) -> _Importing:
    where = Path(store.facts().path)
    folder = where if where.is_dir() else where.parent
    rules = Rules(own=redact_own.load(folder)) if hide else NO_RULES
    copies = spool or folder / "tmp"
    return _Importing(
        store, blobs, tenant, copies if copies.is_dir() else None, runs or Runs(), rules
    )


def _copy(stream: BinaryIO, private: BinaryIO, progress: Progress) -> None:
    total = 0
    while chunk := stream.read(MIB):
        total += len(chunk)
        if total > IMPORT_BYTES_MAX:
            raise ImportRefused(
                f"an upload is at most {IMPORT_BYTES_MAX:,} bytes (512 MiB); import larger files "
                "with the command, by their path",
                where=f"byte {IMPORT_BYTES_MAX}",
                reason="too_large",
            )
        private.write(chunk)
        progress(total, 0, 0)
    private.flush()


Beside = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Following:
    """How a file that is followed is read this time."""

    source: str | None = None
    """Source id it goes by already; None: as for any import."""
    at_work: bool = True
    """Its writer may be at work: what may still be added to waits."""
    edges: bool = False
    """Compare only the ends of what is known."""
    hide: bool = True
    """Secrets are redacted."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a source is called."""

    name: str
    """As shown to people."""
    explicit: str | None = None
    """Source id that the caller gives."""
    path: str | None = None
    """Where the file lies, resolved: its source id, where it states none itself."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One source on its way in."""

    report: Report
    file: BinaryIO
    size: int
    """Bytes."""
    named: Named
    opened: files.OpenedFile | None
    """The file that was named, where it is not a private copy."""
    progress: Progress
    following: Following | None = None
    offset: int = 0
    beside: Beside | None = None

    def refuse_if_changed(self, digest: str) -> None:
        """ImportRefused if the named file is no longer what was read."""
        if self.opened is not None:
            files.refuse_if_changed(self.opened, digest)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A whole document as it was read."""

    raw: bytes
    raw_digest: str
    """Of the file; never stored."""
    digest: str
    """Of what is left after redaction."""
    parsed: Parsed
    hidden: list[redact.Found]


@dataclass(frozen=True, slots=True)
class _Importing:
    """One import into one tenant of one store."""

    store: RecoveryStore
    blobs: BlobStore
    tenant: str
    spool: Path | None
    runs: Runs
    rules: Rules

    def run(
        self,
        named: Named,
        file: BinaryIO,
        *,
        opened: files.OpenedFile | None,
        progress: Progress,
        following: Following | None = None,
        offset: int = 0,
        beside: Beside | None = None,
    ) -> Report:
        """Everything for one source."""
        began = time.monotonic_ns()
        name = named.name
        report = Report(path=name, rules=self.rules.mark)
        try:
            size = file.seek(0, os.SEEK_END)
            report.bytes_read = size
            job = _Job(report, file, size, named, opened, progress, following, offset, beside)
            self._run(job)
        except ImportRefused as error:
            report.refused.append(Refusal.of(error))
            if not report.trajectories:
                report.findings = Findings()
            if error.data.get("reason") == faults.REASON:
                report.outcome = "refused"
            if error.data.get("reason") in _NO_TRAJECTORY and opened is not None:
                base = name.rpartition("/")[2].lower()
                is_named = any(part in base for part in _TRAJECTORY_NAMES)
                is_named = is_named and not base.endswith(_BESIDE)
                report.outcome = "refused" if is_named or not opened.in_folder else "skipped"
        except IntegrityConflict as error:
            report.outcome = "conflict"
            where = str(error.data.get("where") or "the known range")
            report.refused.append(Refusal(where, str(error)))
        except (InvalidInput, NotAllowed, TooLarge) as error:
            report.refused.append(Refusal("the whole file", str(error)))
        except StrandlineError:
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(
                    "the disk is full, and this import needs room for a copy; nothing was stored"
                ) from error
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            report.refused.append(Refusal("the whole file", f"it cannot be read: {why}"))
        except Exception as error:
            report.refused.append(Refusal.of(faults.refusal(error, name)))
            report.outcome = "refused"
        if following is None:
            self._say_withdrawn(report)
        report.elapsed_us = (time.monotonic_ns() - began) // 1000
        return report

    def _say_withdrawn(self, report: Report) -> None:
        """A note for each trajectory that lists leave out."""
        for one in report.trajectories:
            withdrawn = about(self.store.acts(self.tenant, trajectory_id=one.id)).withdrawn
            if withdrawn is not None:
                report.findings.notes.append(
                    f"{one.id} was withdrawn ({withdrawn.reason or 'no reason given'}), so no list "
                    f"shows it; `strandline reinstate {one.id}` brings it back"
                )

    def _run(self, job: _Job) -> None:
        found = self._recognise(job) if not job.offset else self._known_log(job)
        if isinstance(found, NativeBundle):
            self._install(job, found)
            return
        if registry.is_log(found):
            self._logs().take(self._log_source(job), found)
            return
        self._run_document(job, cast(Importer, found))

    def _run_document(self, job: _Job, found: Importer) -> None:
        report = job.report
        reading = self._read_document(job, found)
        parsed = reading.parsed
        report.format, report.lines_read, report.items = parsed.layout, parsed.lines, parsed.items
        report.redacted.add(reading.hidden)
        job.progress(job.size, job.size, 0)
        named = job.named
        source_id = named.explicit or named.path or f"upload:{named.name}#{parsed.discriminator}"
        for _ in range(_RETRIES):
            try:
                self._import(job, found, reading, source_id)
                return
            except HeadMoved:
                continue  # Another import of the same source was first: look again.
        raise ImportRefused("other imports of this source kept coming first; import it again")

    def _recognise(self, job: _Job) -> registry.Known:
        file, size = job.file, job.size
        if size == 0:
            raise ImportRefused("the file is empty (0 bytes)", where="byte 0", reason="empty")
        file.seek(0)
        # A refusal shows some of these bytes. Own rules wait for whole lines.
        head = redact.redact(file.read(_HEAD_BYTES), Rules(self.rules.builtin))[0]
        file.seek(max(0, size - _TAIL_BYTES))
        found = registry.recognise(head, file.read(_TAIL_BYTES), job.report.path)
        is_log = found is not None and registry.is_log(found[0])
        document.recognise_foreign_bytes(head, first_line_only=is_log)
        if not head.strip() and size <= _HEAD_BYTES:
            raise ImportRefused(
                "the file is empty: it holds only white space", where="byte 0", reason="empty"
            )
        # A log format looks only at what is new of it.
        if size > IMPORT_VALUE_BYTES_MAX and not is_log:
            document.refuse_long_lines(file, size, lambda done: job.progress(done, size, 0))
        file.seek(0)
        if found is None:
            raise ImportRefused(
                "its format is not known to this version, which reads: "
                + "; ".join(registry.titles()),
                where="line 1",
                line=1,
                around=document.printable(head[:60]),
                reason="unknown_format",
            )
        importer, sniff = found
        job.report.format, job.report.format_why = importer.title, sniff.reason
        return importer

    # --- log formats -------------------------------------------------------------------------

    def _known_log(self, job: _Job) -> LogImporter:
        """The importer of a source whose first bytes were left out."""
        source_id = job.named.explicit or ""
        for importer in registry.LOG_IMPORTERS:
            if self.store.import_source(self.tenant, stored_id(importer, source_id)) is not None:
                job.report.format = importer.title
                job.report.format_why = "it is known by its name"
                return importer
        raise ImportRefused(
            f"the bytes below {job.offset} of this source are not stored here; send it whole",
            where="byte 0",
            reason="offset",
        )

    def _logs(self) -> Logs:
        return Logs(
            self.store,
            self.blobs,
            self.tenant,
            self.runs,
            self.rules,
            self.append_when_free,
            self._revise,
        )

    def _revise(self, importer: Importer | LogImporter, source_id: str) -> None:
        """Let this version's revision begin with what an older version of the importer knows."""
        work = Rederiving(self.store, self.blobs, self.tenant, self.append_when_free, "importer")
        found = work.older(importer, source_id)
        if found is not None:
            work.run(found)

    def _log_source(self, job: _Job) -> LogSource:
        named, following = job.named, job.following
        beside = job.opened.beside if job.opened is not None else job.beside
        return LogSource(
            report=job.report,
            file=job.file,
            size=job.offset + job.size,
            explicit=named.explicit,
            fallback=named.path or f"upload:{named.name}",
            upload=named.path is None,
            where=named.path or named.name,
            companion=beside if beside is not None else _nothing_beside,
            progress=job.progress,
            rotates=following is not None,
            at_work=following is not None and following.at_work,
            edges=following is not None and following.edges,
            offset=job.offset,
        )

    def _prepare_source(self, data: bytes) -> bytes:
        """The bytes of a source as they are kept and read, of the same length."""
        return data

    # --- foreign formats ---------------------------------------------------------------------

    def _read_document(self, job: _Job, importer: Importer) -> _Reading:
        """A whole document, without its secrets."""
        raw = document.read_whole(job.file, job.size, "the file")
        data, hidden = redact.redact(raw, self.rules)
        parsed = importer.parse(Source(job.report.path, io.BytesIO(data), len(data)))
        return _Reading(raw, digest_text(sha256(raw)), digest_text(sha256(data)), parsed, hidden)

    def _import(self, job: _Job, importer: Importer, reading: _Reading, source_id: str) -> None:
        parsed = reading.parsed
        known = self.store.import_by_reading(self.tenant, importer.name, reading.digest)
        if known is None or known.version != importer.version:
            if known is not None and known.version < importer.version:
                source_id = _given_id(known)
            self._revise(importer, source_id)
            known = self.store.import_source(
                self.tenant, _stored_id(importer.name, importer.version, source_id)
            )
        key_id = _given_id(known) if known is not None else source_id
        kept = self._kept(known)
        if known is not None and any(mark != self.rules.mark for mark in marks_of(known)):
            data = redact.as_known(
                reading.raw, self.rules, marks_of(known), [part.data for part in kept]
            )
            parsed = importer.parse(Source(job.report.path, io.BytesIO(data), len(data)))
        try:
            built = parsed.build(key_id, kept)
        except IntegrityConflict as error:
            assert known is not None
            self._keep_incident(job.report, parsed, key_id, known)
            raise self._explained(error, known) from error
        job.report.findings = built.findings
        job.refuse_if_changed(reading.raw_digest)
        source = self._source(job, built, known, key_id=key_id, reading=reading)
        trajectory = self._commit(job, built, source, known)
        job.report.source = key_id
        job.report.trajectories[:] = [trajectory]
        job.report.outcome = trajectory.outcome

    def _explained(self, error: IntegrityConflict, known: ImportSource) -> IntegrityConflict:
        """The conflict, with the own rules as its likely cause where they are no longer there."""
        if all(self.rules.under(mark) is not None for mark in marks_of(known)):
            return error
        return IntegrityConflict(
            f"{error} It was read before under other rules of {redact_own.FILE}: where one of them "
            "was taken out or changed, put it back",
            **error.data,
        )

    def _source(
        self, job: _Job, built: Built, known: ImportSource | None, *, key_id: str, reading: _Reading
    ) -> ImportSource:
        """What to remember of this reading."""
        segments = known.segments if known is not None else ()
        marks = marks_of(known) if known is not None else []
        if built.segment is not None:
            marks.append(self.rules.mark)
            blob = digest_text(sha256(built.segment))
            segments += (SourceSegment(blob, len(built.segment), built.segment_items),)
        return ImportSource(
            source_id=_stored_id(built.importer, built.version, key_id),
            importer=built.importer,
            version=built.version,
            trajectory_id=built.trajectory_id,
            name=job.report.path,
            reading_digest=reading.digest,
            reading_length=job.size,
            segments=segments,
            state=dict(built.state)
            | {"source": key_id}
            | redaction_state(marks, job.report.redacted),
        )

    def _kept(self, known: ImportSource | None) -> tuple[Kept, ...]:
        if known is None:
            return ()
        return tuple(
            Kept(self.blobs.read(self.tenant, part.blob), part.blob, part.items)
            for part in known.segments
        )

    def _commit(
        self, job: _Job, built: Built, source: ImportSource, known: ImportSource | None
    ) -> TrajectoryReport:
        """Store what is new; HeadMoved if somebody else was first."""
        identity = built.trajectory_id
        if known is not None:
            self._check_known(built)
        fresh = built.events[built.known :]
        if not fresh:
            head = self.store.head(self.tenant, identity)
            return TrajectoryReport(
                id=identity,
                title=built.title,
                outcome="unchanged",
                events=head.sequence_number,
                appended=0,
                head=head.sequence_number,
                chain=digest_text(head.chain),
            )
        prepared = []
        for number, one in enumerate(fresh, 1):
            prepared.append(prepare(identity, one.event, one.payload))
            if number % 1000 == 0:
                job.progress(job.size, job.size, number)
        bodies = [one.blob for one in fresh if one.blob is not None]
        if built.segment is not None:
            bodies.append(built.segment)
        self.blobs.put_many(self.tenant, bodies)
        ack = self._append(identity, tuple(prepared), source, built.known, first=known is None)
        job.progress(job.size, job.size, len(fresh))
        fresh_count = sum(1 for one in ack.duplicates if not one)
        return TrajectoryReport(
            id=identity,
            title=built.title,
            outcome="unchanged" if not fresh_count else "imported" if known is None else "appended",
            events=ack.sequence_numbers[-1],
            appended=fresh_count,
            head=ack.head,
            chain=digest_text(ack.chain),
        )

    def _check_known(self, built: Built) -> None:
        """The events derived again from the kept originals are the ones that are stored."""
        head = self.store.head(self.tenant, built.trajectory_id)
        if head.sequence_number > built.known:
            raise HeadMoved("another import of this source was first")
        stored = self.store.events(
            self.tenant, built.trajectory_id, after=built.known - 1, upto=built.known, limit=1
        )
        again = built.events[built.known - 1]
        digest = prepare(built.trajectory_id, again.event, again.payload).digest
        if not stored or stored[0].digest != digest:
            raise IntegrityConflict(
                "the kept originals no longer give the events that were stored from them; nothing "
                "was imported",
                where=f"event {built.known}",
                trajectory_id=built.trajectory_id,
            )

    def _append(
        self,
        identity: str,
        prepared: tuple[Prepared, ...],
        source: ImportSource,
        head: int,
        *,
        first: bool,
    ) -> Ack:
        request = sha256(canonical([source.source_id, source.reading_digest, head])).hex()[:40]
        command = AppendCommand(
            tenant=self.tenant,
            trajectory_id=identity,
            issuer="importer",
            door="import",
            request_id=f"import.{request}",
            events=prepared,
            expected_head=head,
            source=source,
            creates="imported" if first else None,
        )
        return self.append_when_free(command)

    def append_when_free(self, command: AppendCommand) -> Ack:
        """Append; a full queue is waited for."""
        for _ in range(_BUSY_TRIES):
            try:
                return self.store.append(command).result()
            except Busy:
                time.sleep(_BUSY_SECONDS)
        return self.store.append(command).result()

    def _keep_incident(
        self,
        report: Report,
        parsed: Parsed,
        key_id: str,
        known: ImportSource,
    ) -> None:
        """Offer the store the first event that differs: its refusal keeps the incident."""
        head = self.store.head(self.tenant, known.trajectory_id)
        report.trajectories[:] = [
            TrajectoryReport(
                id=known.trajectory_id,
                title=known.name,
                outcome="conflict",
                events=head.sequence_number,
                appended=0,
                head=head.sequence_number,
                chain=digest_text(head.chain),
            )
        ]
        offered = self._first_difference(parsed.build(key_id, ()), known.trajectory_id)
        if offered is None:
            return
        command = AppendCommand(
            tenant=self.tenant,
            trajectory_id=known.trajectory_id,
            issuer="importer",
            door="import",
            request_id=f"import.conflict.{sha256(offered.digest).hex()[:20]}",
            events=(offered,),
        )
        try:
            self.store.append(command).result()
        except IntegrityConflict:
            return

    def _first_difference(self, built: Built, trajectory_id: str) -> Prepared | None:
        """The first event of a reading whose payload is not the stored one, without its refs."""
        at = 0
        for start in range(0, len(built.events), 500):
            for one in built.events[start : start + 500]:
                stored = self.store.event_by_id(self.tenant, trajectory_id, one.event.event_id)
                if stored is None:
                    continue
                at = stored.sequence_number
                bare: NewEvent = _without_refs(one.event)
                offered = prepare(trajectory_id, bare, one.payload)
                if offered.payload_digest != stored.payload_digest:
                    return offered
        return (
            None
            if at == 0
            else prepare(
                trajectory_id, _without_refs(built.events[0].event), built.events[0].payload
            )
        )

    # --- our own bundles ---------------------------------------------------------------------

    def _install(self, job: _Job, importer: NativeBundle) -> None:
        if job.opened is None:
            self._install_private(job, importer, job.file)
            return
        # Two passes must see the same bytes, so a file of somebody else's is copied first.
        with tempfile.TemporaryFile(dir=self.spool) as private:
            job.file.seek(0)
            while chunk := job.file.read(MIB):
                private.write(chunk)
            private.flush()
            job.refuse_if_changed(files.digest_of(private))
            self._install_private(job, importer, private)

    def _install_private(self, job: _Job, importer: NativeBundle, file: BinaryIO) -> None:
        report = job.report
        report.rules = ""
        trajectory, lines = importer.install(
            self.store,
            self.blobs,
            self.tenant,
            file,
            job.size,
            findings=report.findings,
            progress=job.progress,
        )
        report.trajectories[:] = [trajectory]
        report.outcome, report.lines_read = trajectory.outcome, lines
        report.items = trajectory.events


def _nothing_beside(_: str) -> bytes | None:
    """What lies beside an upload."""
    return None


def _stored_id(importer: str, version: int, source_id: str) -> str:
    """The key of the source row: another importer or version is another source."""
    return f"{importer}/{version}:{source_id}"


def _given_id(known: ImportSource) -> str:
    return known.state["source"]


def _without_refs(event: NewEvent) -> NewEvent:
    return NewEvent(
        event_id=event.event_id,
        type=event.type,
        schema_version=event.schema_version,
        payload=event.payload,
        payload_ref=event.payload_ref,
        occurred_at=event.occurred_at,
        step=event.step,
        operation_id=event.operation_id,
        attempt_id=event.attempt_id,
        invocation_id=event.invocation_id,
    )
