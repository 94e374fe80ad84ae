"""From a growing file of JSON lines to logs that grow with it, one kept segment after another.

    known segments compared -> next whole lines -> kept as one blob -> derived -> appended

INVARIANTS
1. A segment's events and the source row that names its bytes go in by one transaction; a crash
   leaves whole segments, and the next reading completes what a sub-agent's log lacks (APP-4).
2. Every append states the head it was decided on: of two readers of one file the second finds
   its events stored, or looks again (WHO-3).
3. A byte that changed within the known range is a conflict, kept as an incident; nothing of that
   reading is appended (WHO-3).
4. Memory is bounded by a segment and by what the run remembers, not by the file.
"""

from __future__ import annotations

import copy
import hashlib
import io
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import BinaryIO

import msgspec

from core.canonical import canonical, digest_raw, digest_text, sha256
from core.errors import (
    HeadMoved,
    ImportRefused,
    IntegrityConflict,
    NotFound,
    StrandlineError,
)
from core.events.prepare import prepare
from core.limits import MIB
from ingest import document, faults, lines, redact
from ingest.base import (
    BuiltEvent,
    Grown,
    Line,
    LogImporter,
    LogRun,
    LogSegment,
    Outcome,
    Progress,
    Refusal,
    Report,
    TrajectoryReport,
    no_progress,
)
from ingest.build import SourceKey
from ingest.redact import Rules, Tally
from store.ports import Ack, AppendCommand, BlobStore, ImportSource, RecoveryStore, SourceSegment

_RETRIES = 5
#: Bad lines a report names; the rest is counted.
_BAD_LINES_NAMED = 50
#: Last segments that are compared where only the ends of the known range are.
_EDGE_SEGMENTS = 2
#: Runs kept in memory between readings, so that a growing source is not derived again each time.
_RUNS_KEPT_MAX = 16
#: A source longer than this is not derived again to find the line that an importer failed on.
_FAULT_BYTES_MAX = 64 * MIB
#: Bytes of a changed line that are offered where the line itself was too long to be kept.
_SHOWN_BYTES = 4096

#: Prefix of a state key: the digest of a companion file, or nothing where there was none.
_COMPANION = "companion"
#: State key: path or name of the source at its first reading.
_WHERE = "where"
#: State key: the session that its name or its bytes state.
_SESSION = "session"
#: First and last bytes of a source that are looked at for the session they state.
_ENDS_BYTES = 256 * 1024
#: Other sources of one session that a report names.
_OTHERS_NAMED = 3

#: Append one command; waits while the store is busy.
Append = Callable[[AppendCommand], Ack]


@dataclass(slots=True)
class LogSource:
    """One source of a log format on its way in."""

    report: Report
    file: BinaryIO
    size: int
    """Bytes of the whole source; those below `offset` are not in `file`."""
    explicit: str | None
    """Source id that the caller gives; it outranks what the source says of itself."""
    fallback: str
    """Source id of a source that states none: its path, or `upload:<name>`."""
    upload: bool
    """The fallback is a mere name: the first line tells two sources of one name apart."""
    where: str
    """Path or name, for the importer."""
    companion: Callable[[str], bytes | None]
    progress: Progress
    rotates: bool = False
    """A file whose first line differs from the known one is a source of its own."""
    at_work: bool = False
    """The writer is at work: lines that may still be added to wait."""
    offset: int = 0
    """Bytes that `file` leaves out; the sender has compared them with what it sent before."""
    edges: bool = False
    """Compare only the ends of the known range, where a run of it is at hand; the caller compares
    all of it now and then."""
    before: dict[str, int] | None = None
    """Events of each trajectory before this reading."""
    session: str | None = None
    """The session that its name or its bytes state."""
    notes: list[str] = field(default_factory=list)
    """What to say of its identity."""

    def read(self, start: int, length: int) -> bytes:
        """Bytes of the source; fewer where it ends."""
        self.file.seek(start - self.offset)
        return self.file.read(length)

    def digest(self, start: int, length: int) -> bytes:
        """SHA-256 of bytes of the source, a chunk at a time."""
        self.file.seek(start - self.offset)
        state = hashlib.sha256()
        while length > 0 and (chunk := self.file.read(min(MIB, length))):
            state.update(chunk)
            length -= len(chunk)
        return state.digest()


@dataclass(slots=True)
class Reading:
    """How far one source has been derived, and the run that did it."""

    importer: LogImporter
    source_id: str
    name: str
    """As shown to people."""
    run: LogRun
    state: dict[str, str] = field(default_factory=dict)
    """What the source row remembers besides: digests of companions."""
    segments: tuple[SourceSegment, ...] = ()
    committed: int = 0
    """So many of them the source row names; those after made no event yet."""
    position: int = 0
    """Bytes derived."""
    newlines: int = 0
    items: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Events of each trajectory, the source's own first."""
    titles: dict[str, str] = field(default_factory=dict)
    subs: dict[str | None, None] = field(default_factory=dict)
    """Names of the sub-agents that were met; None: the source's own trajectory."""
    last: dict[str, BuiltEvent] = field(default_factory=dict)
    raw: dict[int, bytes] = field(default_factory=dict)
    """Segment -> SHA-256 of its bytes as they stand in the file."""
    left_out: dict[int, str] = field(default_factory=dict)
    """Segment -> digest of its bytes in the file, where these are one line too long to be kept."""
    bad: list[Refusal] = field(default_factory=list)
    bad_count: int = 0
    repaired: int = 0
    first: str = ""
    """Digest of the first line."""
    marks: list[str] = field(default_factory=list)
    """Rules each segment was read under (redact.Rules.mark)."""
    tally: Tally = field(default_factory=Tally)
    """What was redacted, by rule."""
    hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def own(self) -> str:
        """The trajectory of the source itself."""
        key = SourceKey(self.importer.name, self.importer.version, self.source_id)
        return key.trajectory_id

    def feed(
        self,
        data: bytes,
        found: tuple[Line, ...],
        blob: str,
        mark: str,
        *,
        length: int | None = None,
    ) -> tuple[Grown, ...]:
        """Derive one segment; `length`: of it in the source, where `data` stands in for it."""
        segment = LogSegment(len(self.segments), blob, len(data), self.position, found)
        grown = self.run.feed(segment)
        self.marks.append(mark)
        length = len(data) if length is None else length
        self.segments += (SourceSegment(blob, length, len(found)),)
        self.position += length
        self.newlines += data.count(b"\n")
        self.items += len(found)
        self.hash.update(data)
        if not self.first and found:
            self.first = digest_text(sha256(found[0].data))
        for line in found:
            if line.value is None:
                self.bad_count += 1
                if len(self.bad) < _BAD_LINES_NAMED:
                    self.bad.append(_bad_line(line))
        for one in grown:
            self.counts[one.trajectory_id] = self.counts.get(one.trajectory_id, 0) + len(one.events)
            self.titles[one.trajectory_id] = one.title
            self.subs[one.sub] = None
            if one.events:
                self.last[one.trajectory_id] = one.events[-1]
        return grown

    def again(self, data: bytes, part: SourceSegment, mark: str) -> tuple[Grown, ...]:
        """Derive the next segment of those that are known, from its kept bytes."""
        if len(self.segments) in self.left_out:
            return self.feed(data, (lines.stood_in(data),), part.blob, mark, length=part.length)
        return self.feed(data, self.lines_of(data), part.blob, mark)

    def lines_of(self, data: bytes) -> tuple[Line, ...]:
        """The lines of the next segment."""
        found, repaired = lines.read_lines(data, self.newlines + 1, begins=self.position == 0)
        self.repaired += repaired
        return found


def _bad_line(line: Line) -> Refusal:
    if not line.kept:
        return Refusal(f"line {line.number}", line.why, line=line.number)
    return Refusal(
        where=f"line {line.number}",
        why=f"it is kept as it is, and could not be read: {line.why}",
        line=line.number,
        around=document.printable(line.data[:60]),
    )


class Runs:
    """Runs of sources that grow, kept between two readings; safe from any thread.

    A run is taken out by whoever reads on, and given back if all went well: a reading that failed
    leaves none, and the next derives it anew from the kept originals.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], Reading] = OrderedDict()

    def take(self, tenant: str, row: ImportSource) -> Reading | None:
        """The run that stands where this row says; None if there is none."""
        with self._lock:
            reading = self._kept.pop((tenant, row.source_id), None)
        if reading is None or reading.segments[: reading.committed] != row.segments:
            return None
        return reading

    def give(self, tenant: str, stored_id: str, reading: Reading) -> None:
        """Keep a run for the next reading."""
        with self._lock:
            self._kept[tenant, stored_id] = reading
            self._kept.move_to_end((tenant, stored_id))
            while len(self._kept) > _RUNS_KEPT_MAX:
                self._kept.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Logs:
    """Imports of log formats into one tenant of one store."""

    store: RecoveryStore
    blobs: BlobStore
    tenant: str
    runs: Runs
    rules: Rules
    append: Append
    revise: Callable[[LogImporter, str], None] | None = None
    """Called for a source that this version does not know: an older one may."""

    def take(self, source: LogSource, importer: LogImporter) -> None:
        """Everything for one source; its report says what became of it.

        Raises ImportRefused, IntegrityConflict.
        """
        source_id = self._identify(source, importer)
        source.report.source, source.report.known_bytes = source_id, 0
        for _ in range(_RETRIES):
            try:
                self._take(source, importer, source_id)
                return
            except HeadMoved:
                continue  # Another reading of the same source was first: look again.
        raise ImportRefused("other imports of this source kept coming first; import it again")

    # --- identity ----------------------------------------------------------------------------

    def _identify(self, source: LogSource, importer: LogImporter) -> str:
        """The source id: given, native, or made of where the source is."""
        if source.offset:
            return source.explicit or source.fallback
        base = source.explicit or importer.native_id(source.read(0, 64 * 1024), source.where)
        if base is None:
            base = source.fallback
            first = self._first(source, self.rules) if source.upload else ""
            if first:
                base = f"{base}#{first[7:23]}"
        row = self._row(importer, base)
        if row is None or self._begins_as(source, row):
            return base
        other = f"{base}#{self._first(source, self.rules)[7:23]}"
        return other if source.rotates or self._row(importer, other) is not None else base

    def _first(self, source: LogSource, rules: Rules) -> str:
        line = lines.first_line(source.file, source.size)
        return "" if line is None else digest_text(sha256(redact.redact(line, rules)[0]))

    def _begins_as(self, source: LogSource, row: ImportSource) -> bool:
        """Whether the first line is the known one, or is not whole."""
        mark = marks_of(row)[0]
        then = self.rules.under(mark)
        if then is not None and self._first(source, then) in ("", row.state["first"]):
            return True
        if then is not None and not then.own:
            return False
        line = lines.first_line(source.file, source.size)
        kept = self.blobs.open(self.tenant, row.segments[0].blob)
        with kept:
            known = lines.first_line(kept, row.segments[0].length)
        return line is None or known is None or redact.agrees(line, known, mark, self.rules)

    def _row(self, importer: LogImporter, source_id: str) -> ImportSource | None:
        return self.store.import_source(self.tenant, stored_id(importer, source_id))

    # --- one reading -------------------------------------------------------------------------

    def _take(self, source: LogSource, importer: LogImporter, source_id: str) -> None:
        row = self._row(importer, source_id)
        if row is None and self.revise is not None:
            self.revise(importer, source_id)
            row = self._row(importer, source_id)
        source.notes.clear()
        if row is None and not source.offset:
            row = self._known_elsewhere(source, importer, source_id)
        elif row is not None and not source.rotates:
            self._name_others(source, importer, row.state.get(_SESSION), row.source_id)
        known = sum(part.length for part in row.segments) if row is not None else 0
        if source.offset > known:
            raise ImportRefused(
                f"{known:,} bytes of this source are known here, and the first {source.offset:,} "
                "were left out; send it whole",
                where=f"byte {known}",
                offset=known,
                reason="offset",
            )
        reading = (
            self._begin(source, importer, source_id, None)
            if row is None
            else self._continue(source, importer, row)
        )
        if source.before is None:
            source.before = dict(reading.counts)
        short = source.size < reading.position
        try:
            if not short:
                self._grow(source, reading)
        finally:
            self._tell(source, reading, source.before)
        notes = source.report.findings.notes
        notes += source.notes
        if short:
            notes.append(
                f"the file is shorter than what is known of it ({source.size:,} of "
                f"{reading.position:,} bytes) and equal so far; what was imported stays"
            )
        if not reading.counts:
            raise ImportRefused(
                "it holds no whole line that becomes an event yet",
                where="line 1",
                line=1,
                reason="no_events",
            )
        self.runs.give(self.tenant, stored_id(importer, reading.source_id), reading)

    def _begin(
        self, source: LogSource, importer: LogImporter, source_id: str, row: ImportSource | None
    ) -> Reading:
        state: dict[str, str] = {}
        if row is not None:
            state = {key: row.state[key] for key in row.state if key.startswith(_COMPANION)}
        session = source.session if row is None else row.state.get(_SESSION)
        if session is not None:
            state[_SESSION] = session

        def companion(suffix: str) -> bytes | None:
            """As it was at the first reading; what was not there then is not there later."""
            key = _COMPANION + suffix
            if row is None and key not in state:
                data = source.companion(suffix)
                state[key] = ""
                if data is not None:
                    data = redact.redact(data, self.rules)[0]
                    state[key] = self.blobs.put(self.tenant, data).digest
            digest = state.get(key, "")
            return self.blobs.read(self.tenant, digest) if digest else None

        # As it was named at its first reading, which decides what was derived of it.
        where = source.where if row is None else row.state.get(_WHERE, source.where)
        state[_WHERE] = where
        run = importer.start(source_id, where, companion)
        reading = Reading(importer, source_id, source.report.path, run, state)
        if row is not None:
            reading.left_out = left_out_of(row)
        return reading

    def rederive(self, row: ImportSource, importer: LogImporter, report: Report) -> Reading:
        """The source of an older version's row, derived from its kept originals by this importer.

        What an earlier attempt left unfinished is completed.
        """
        source = LogSource(
            report=report,
            file=io.BytesIO(),
            size=row.reading_length,
            explicit=None,
            fallback=row.state["source"],
            upload=False,
            where=row.state.get(_WHERE, row.name),
            companion=lambda suffix: None,
            progress=no_progress,
        )
        reading = self._begin(source, importer, row.state["source"], row)
        reading.name = row.name
        reading.tally = tally_of(row)
        known = self._row(importer, row.state["source"])
        stored = len(known.segments) if known is not None else 0
        heads: dict[str, int] = {}
        before: dict[str, int] = {}
        for index, (part, mark) in enumerate(zip(row.segments, marks_of(row), strict=True)):
            data = self.blobs.read(self.tenant, part.blob)
            grown = reading.again(data, part, mark)
            if index < stored:
                self._complete(reading, grown, heads)
                reading.committed = len(reading.segments)
                before = dict(reading.counts)
            else:
                self._store(reading, grown, data)
        self._tell(source, reading, before)
        return reading

    def _known_elsewhere(
        self, source: LogSource, importer: LogImporter, source_id: str
    ) -> ImportSource | None:
        """The source that these bytes are already, under another name.

        They are one with a source of the very same bytes, and with one that states the same
        session where either begins with all of the other.
        """
        native = None
        if source.explicit is None:
            native = importer.native_id(source.read(0, 64 * 1024), source.where)
        stated = self._stated(source, importer)
        source.session = native or stated
        if native is None or native != stated:
            row = self._same_bytes(source, importer)
            if row is not None and (native is None or row.state.get(_SESSION) in (None, native)):
                if native is None or not row.state["source"].startswith("session:"):
                    return row
        key = stored_id(importer, source_id)
        others: list[ImportSource] = []
        if source.explicit is None and source.session is not None:
            others = self._others(importer, source.session, key)
        for row in others:
            if self._first_change(source, row, {}, edges=False) is None:
                found = self._of_now(importer, row)
                if found is not None:
                    source.notes.append(
                        f"it is what was imported from {row.name}: {row.trajectory_id}"
                    )
                    return found
        self._name_others(source, importer, source.session, key)
        return None

    def _stated(self, source: LogSource, importer: LogImporter) -> str | None:
        start = max(0, source.size - _ENDS_BYTES)
        tail = source.read(start, source.size - start)
        return importer.stated_id(source.read(0, _ENDS_BYTES), tail)

    def _others(self, importer: LogImporter, session: str, key: str) -> list[ImportSource]:
        """Sources beside the one of this key that state the session, the newest version first."""
        found = self.store.import_by_session(self.tenant, importer.name, session)
        others = [row for row in found if row.source_id != key and row.version <= importer.version]
        return sorted(others, key=lambda row: -row.version)

    def _of_now(self, importer: LogImporter, row: ImportSource) -> ImportSource | None:
        """What this version of the importer knows of a source."""
        if row.version < importer.version and self.revise is not None:
            self.revise(importer, row.state["source"])
        return self._row(importer, row.state["source"])

    def _name_others(
        self, source: LogSource, importer: LogImporter, session: str | None, key: str
    ) -> None:
        """Say which other sources state the session of this one."""
        if session is None:
            return
        others = [
            row for row in self._others(importer, session, key) if row.version == importer.version
        ]
        source.notes += [
            f"it states the session of {row.trajectory_id}, which was imported from {row.name}"
            for row in others[:_OTHERS_NAMED]
        ]
        if len(others) > _OTHERS_NAMED:
            source.notes.append(
                f"{len(others) - _OTHERS_NAMED:,} more sources state the same session"
            )

    def _same_bytes(self, source: LogSource, importer: LogImporter) -> ImportSource | None:
        """The source that holds these very bytes."""
        state, at, number = hashlib.sha256(), 0, 1
        while at < source.size:
            piece = lines.next_piece(source.file, at, source.size)
            if piece.long is not None:
                state.update(piece.long.stand_in(number, at))
                at, number = at + piece.long.length, number + 1
                continue
            if not piece.data:
                break
            state.update(redact.redact(piece.data, self.rules)[0])
            at, number = at + len(piece.data), number + piece.data.count(b"\n")
        digest = "sha256:" + state.hexdigest()
        found = self.store.import_by_reading(self.tenant, importer.name, digest)
        return found if found is not None and found.version == importer.version else None

    def _continue(self, source: LogSource, importer: LogImporter, row: ImportSource) -> Reading:
        """The run where the row says, after the known range was compared."""
        reading = self.runs.take(self.tenant, row)
        raw = reading.raw if reading is not None else {}
        edges = source.edges and reading is not None
        self._compare(source, importer, row, raw, edges=edges)
        if reading is not None and not self._still_pending(source, reading):
            reading, raw = None, {}
        if reading is None:
            reading = self._begin(source, importer, row.state["source"], row)
            reading.tally = tally_of(row)
            heads: dict[str, int] = {}
            for part, mark in zip(row.segments, marks_of(row), strict=True):
                data = self.blobs.read(self.tenant, part.blob)
                grown = reading.again(data, part, mark)
                self._complete(reading, grown, heads)
                source.progress(reading.position, max(source.size, reading.position), 0)
            self._check(reading)
            reading.committed = len(reading.segments)
        reading.raw = raw
        source.report.source = reading.source_id
        return reading

    def _compare(
        self,
        source: LogSource,
        importer: LogImporter,
        row: ImportSource,
        raw: dict[int, bytes],
        *,
        edges: bool,
    ) -> None:
        """IntegrityConflict where the file no longer begins with what was kept."""
        changed = self._first_change(source, row, raw, edges=edges)
        if changed is not None:
            raise self._changed(source, importer, row, changed)

    def _first_change(
        self, source: LogSource, row: ImportSource, raw: dict[int, bytes], *, edges: bool
    ) -> tuple[int, int, int, bytes] | None:
        """Where the source differs from what is known of `row`, as far as both go: segment, its
        first byte, bytes of it that were not compared, and the bytes after; None: nowhere."""
        at = 0
        left_out = left_out_of(row)
        for index, (part, mark) in enumerate(zip(row.segments, marks_of(row), strict=True)):
            start, at = at, at + part.length
            if start >= source.size:
                break
            if index in left_out:
                # Of a part of it nothing can be said: its bytes were not kept.
                if start < source.offset or at > source.size:
                    continue
                if digest_text(source.digest(start, part.length)) != left_out[index]:
                    return index, start, 0, source.read(start, _SHOWN_BYTES)
                continue
            if at <= source.offset or (edges and 0 < index < len(row.segments) - _EDGE_SEGMENTS):
                continue
            skip = max(0, source.offset - start)
            data = source.read(start + skip, part.length - skip)
            if len(data) < part.length:
                if not self._agrees_in_part(data, skip, part, mark):
                    return index, start, skip, data
                continue
            found = sha256(data)
            if raw.get(index) == found:
                continue
            if not self._agrees(data, part, mark):
                return index, start, 0, data
            raw[index] = found
        return None

    def _still_pending(self, source: LogSource, reading: Reading) -> bool:
        """Whether what was read and is in no row yet stands there unchanged."""
        at = sum(part.length for part in reading.segments[: reading.committed])
        for index in range(reading.committed, len(reading.segments)):
            length = reading.segments[index].length
            if at < source.offset or source.digest(at, length) != reading.raw[index]:
                return False
            at += length
        return True

    def _agrees(self, data: bytes, part: SourceSegment, mark: str) -> bool:
        """Whether these bytes of the file are what was kept of them."""
        then = self.rules.under(mark)
        if then is not None:
            if digest_text(sha256(redact.redact(data, then)[0])) == part.blob:
                return True
            if not then.own:
                return False
        return redact.agrees(data, self.blobs.read(self.tenant, part.blob), mark, self.rules)

    def _agrees_in_part(self, data: bytes, skip: int, part: SourceSegment, mark: str) -> bool:
        """The same for bytes from `skip` on of a file that ends within the segment, or of one
        whose sender left out what is before; a last line that is not whole is compared as it is."""
        kept = self.blobs.read(self.tenant, part.blob)[skip:]
        whole = data.rfind(b"\n") + 1 if len(data) < len(kept) else len(data)
        rest = data[whole:]
        return redact.agrees(data[:whole], kept[:whole], mark, self.rules) and (
            kept[whole:].startswith(rest) or b"[redacted" in kept[whole : whole + len(rest) + 64]
        )

    def _complete(self, reading: Reading, grown: tuple[Grown, ...], heads: dict[str, int]) -> None:
        """Append what a crash between two appends of one segment left out."""
        for one in grown:
            name, after = one.trajectory_id, reading.counts[one.trajectory_id]
            before = after - len(one.events)
            head = heads.get(name)
            if head is None:
                head = heads[name] = self._head(name)
            if head >= after:
                continue
            if head < before or one.sub is None:
                raise _underivable(name, head)
            missing = one.events[head - before :]
            self._append(reading, Grown(name, one.sub, one.title, missing), None)
            heads[name] = after

    def _check(self, reading: Reading) -> None:
        """The events derived again from the kept originals are the ones that are stored."""
        for name, count in reading.counts.items():
            head = self._head(name)
            if head > count:
                raise HeadMoved("another import of this source was first")
            if not count:
                continue
            again = reading.last[name]
            digest = prepare(name, again.event, again.payload).digest
            stored = self.store.events(self.tenant, name, after=count - 1, upto=count, limit=1)
            if not stored or stored[0].digest != digest:
                raise _underivable(name, count)

    def _head(self, trajectory_id: str) -> int:
        try:
            return self.store.head(self.tenant, trajectory_id).sequence_number
        except NotFound:
            return 0

    # --- what is new -------------------------------------------------------------------------

    def _grow(self, source: LogSource, reading: Reading) -> None:
        """Read on from where the reading stands to the end of the source."""
        report, size = source.report, source.size
        while True:
            start = reading.position
            piece = lines.next_piece(source.file, start - source.offset, size - source.offset)
            if piece.long is not None:
                held = 0
                self._leave_out(reading, piece.long)
                source.progress(reading.position, size, sum(reading.counts.values()))
                if not piece.more:
                    break
                continue
            raw, data, found, held = self._whole(source, reading, piece)
            if not data:
                break
            blob = digest_text(sha256(data))
            try:
                grown = reading.feed(data, found, blob, self.rules.mark)
            except StrandlineError:
                raise
            except Exception as error:
                raise self._fault(error, reading, data) from error
            reading.raw[len(reading.segments) - 1] = sha256(raw)
            self._store(reading, grown, data)
            source.progress(reading.position, size, sum(reading.counts.values()))
            if not piece.more and reading.position == start + len(piece.data):
                break
            if not piece.more and held:
                break
        report.bytes_read = reading.position - source.offset
        report.waiting_bytes = piece.unfinished
        report.waiting_lines = held + (1 if piece.unfinished else 0)

    def _leave_out(self, reading: Reading, line: lines.LongLine) -> None:
        """Derive and store what stands in for a line that is too long."""
        data = line.stand_in(reading.newlines + 1, reading.position)
        index = len(reading.segments)
        reading.left_out[index] = line.digest
        reading.raw[index] = digest_raw(line.digest)
        found = (lines.stood_in(data),)
        blob = digest_text(sha256(data))
        grown = reading.feed(data, found, blob, self.rules.mark, length=line.length)
        self._store(reading, grown, data)

    def _whole(
        self, source: LogSource, reading: Reading, piece: lines.Piece
    ) -> tuple[bytes, bytes, tuple[Line, ...], int]:
        """(bytes in the file, bytes to keep, lines, lines held back) of the next segment."""
        raw = piece.data
        data, hidden = redact.redact(raw, self.rules)
        found = reading.lines_of(data)
        fits = lines.fitting(found)
        if fits < len(found):
            # The others are read next, as a segment of their own.
            keep = found[fits].start
            raw, data, found = raw[:keep], data[:keep], found[:fits]
            hidden = [one for one in hidden if one.end <= keep]
        held = 0
        if found and (piece.more or source.at_work) and fits == len(found):
            held = min(reading.importer.waiting(found), len(found))
        if piece.more and held == len(found):
            held = 0  # One reply longer than a segment: its parts are stated apart.
        if held:
            keep = found[len(found) - held].start if held < len(found) else 0
            raw, data, found = raw[:keep], data[:keep], found[: len(found) - held]
            hidden = [one for one in hidden if one.end <= keep]
        reading.tally.add(hidden)
        return raw, data, found, held

    def _store(self, reading: Reading, grown: tuple[Grown, ...], data: bytes) -> None:
        """Append what a segment added, with the source row in the first append.

        The row of segments that became no event waits for the next event: an append of nothing
        could not say which head it was decided on.
        """
        bodies = [built.blob for one in grown for built in one.events if built.blob is not None]
        self.blobs.put_many(self.tenant, [*bodies, data])
        for one in grown:
            if one.events:
                row = self._next_row(reading) if reading.committed < len(reading.segments) else None
                self._append(reading, one, row)
                reading.committed = len(reading.segments)

    def _append(self, reading: Reading, grown: Grown, row: ImportSource | None) -> None:
        name = grown.trajectory_id
        prepared = tuple(prepare(name, built.event, built.payload) for built in grown.events)
        head = reading.counts.get(name, 0) - len(prepared)
        known = sum(part.length for part in reading.segments[: reading.committed])
        parts = [reading.segments[-1].blob, str(reading.position), name, str(head)]
        self.append(
            AppendCommand(
                tenant=self.tenant,
                trajectory_id=name,
                issuer="importer",
                door="import",
                request_id=f"import.{sha256(canonical(parts)).hex()[:40]}",
                events=prepared,
                expected_head=head,
                source=row,
                source_length=known if row is not None else None,
                creates="imported" if head == 0 else None,
            )
        )

    def _next_row(self, reading: Reading) -> ImportSource:
        own = reading.own
        return ImportSource(
            source_id=stored_id(reading.importer, reading.source_id),
            importer=reading.importer.name,
            version=reading.importer.version,
            trajectory_id=own if own in reading.counts else next(iter(reading.counts)),
            name=reading.name,
            reading_digest="sha256:" + reading.hash.copy().hexdigest(),
            reading_length=reading.position,
            segments=reading.segments,
            state=reading.state | _remembered(reading),
        )

    # --- what went wrong, and the report -----------------------------------------------------

    def _fault(self, error: Exception, reading: Reading, data: bytes) -> ImportRefused:
        """The refusal of a source whose importer failed on this segment, with the line.

        The line is found by deriving the source again, the segment line by line.
        """
        first = reading.newlines + 1
        pieces = list(io.BytesIO(data))
        last = reading.newlines + len(pieces)
        if reading.position > _FAULT_BYTES_MAX:
            return faults.refusal(error, reading.name, line=first, last=last)

        def companion(suffix: str) -> bytes | None:
            digest = reading.state.get(_COMPANION + suffix, "")
            return self.blobs.read(self.tenant, digest) if digest else None

        importer = reading.importer
        run = importer.start(reading.source_id, reading.state[_WHERE], companion)
        again = Reading(importer, reading.source_id, reading.name, run)
        again.left_out = reading.left_out
        for part in reading.segments:
            again.again(self.blobs.read(self.tenant, part.blob), part, "")
        for line in pieces:
            try:
                again.feed(line, again.lines_of(line), digest_text(sha256(line)), "")
            except Exception:
                first = last = again.newlines + 1
                break
        return faults.refusal(error, reading.name, line=first, last=last)

    def _changed(
        self,
        source: LogSource,
        importer: LogImporter,
        row: ImportSource,
        at: tuple[int, int, int, bytes],
    ) -> IntegrityConflict:
        """The conflict of a changed known range, after its incident was kept.

        `at`: segment, its first byte, bytes of it that were not compared, and the bytes after.
        """
        index, start, skip, data = at
        kept = self.blobs.read(self.tenant, row.segments[index].blob)
        marks = marks_of(row)
        rules = self.rules.under(marks[index]) or self.rules
        offered = kept[:skip] + redact.redact(data, rules)[0]
        differs = next(
            (at for at, (a, b) in enumerate(zip(kept, offered, strict=False)) if a != b),
            min(len(kept), len(offered)),
        )
        reading = self._begin(source, importer, row.state["source"], row)
        for part, mark in zip(row.segments[:index], marks, strict=False):
            reading.again(self.blobs.read(self.tenant, part.blob), part, mark)
        line = reading.newlines + 1 + kept.count(b"\n", 0, differs)
        name = row.trajectory_id
        self._keep_incident(reading, row.segments[index], kept, digest_text(sha256(offered)))
        head = self.store.head(self.tenant, name)
        source.report.trajectories[:] = [
            TrajectoryReport(
                id=name,
                title=row.name,
                outcome="conflict",
                events=head.sequence_number,
                appended=0,
                head=head.sequence_number,
                chain=digest_text(head.chain),
            )
        ]
        where = f"line {line} (byte {start + differs})"
        return IntegrityConflict(
            f"{where} is not what was imported from this source before; nothing was appended. If "
            "this is another run, import it under a name of its own (--as NAME)",
            where=where,
            trajectory_id=name,
        )

    def _keep_incident(
        self, reading: Reading, part: SourceSegment, kept: bytes, offered: str
    ) -> None:
        """Offer the store an event of the changed segment: its refusal keeps the incident."""
        blob = part.blob
        for one in reading.again(kept, part, ""):
            for built in one.events[:1]:
                changed = msgspec.structs.replace(
                    built.event,
                    refs=tuple(
                        msgspec.structs.replace(ref, digest=offered) if ref.digest == blob else ref
                        for ref in built.event.refs
                    ),
                )
                if changed == built.event:
                    changed = msgspec.structs.replace(built.event, refs=())
                event = prepare(one.trajectory_id, changed, built.payload)
                command = AppendCommand(
                    tenant=self.tenant,
                    trajectory_id=one.trajectory_id,
                    issuer="importer",
                    door="import",
                    request_id=f"import.conflict.{sha256(event.digest).hex()[:20]}",
                    events=(event,),
                )
                try:
                    self.append(command)
                except IntegrityConflict:
                    return

    def _tell(self, source: LogSource, reading: Reading, before: dict[str, int]) -> None:
        """What the report says of a reading, also of one that ended early."""
        report = source.report
        report.format = reading.run.layout or report.format
        report.lines_read, report.items = reading.newlines, reading.items
        report.findings = copy.deepcopy(reading.run.findings)
        report.redacted = copy.deepcopy(reading.tally)
        if reading.repaired:
            report.findings.notes.append(
                f"{reading.repaired:,} lines hold half of a surrogate pair, shown as U+FFFD; the "
                "kept original holds it"
            )
        report.known_bytes, report.segments = reading.position, len(reading.segments)
        report.refused[:] = reading.bad
        if reading.bad_count > len(reading.bad):
            more = reading.bad_count - len(reading.bad)
            report.refused.append(
                Refusal("further lines", f"{more:,} more lines are kept and could not be read")
            )
        report.trajectories[:] = []
        for name, count in reading.counts.items():
            try:
                head = self.store.head(self.tenant, name)
            except NotFound:
                continue  # The reading ended before anything of it was stored.
            appended = min(count, head.sequence_number) - before.get(name, 0)
            fresh: Outcome = "appended" if before.get(name) else "imported"
            report.trajectories.append(
                TrajectoryReport(
                    id=name,
                    title=reading.titles[name],
                    outcome=fresh if appended else "unchanged",
                    events=count,
                    appended=appended,
                    head=head.sequence_number,
                    chain=digest_text(head.chain),
                )
            )
        if any(one.appended for one in report.trajectories):
            report.outcome = "appended" if before else "imported"
        elif report.trajectories:
            report.outcome = "unchanged"


def stored_id(importer: LogImporter, source_id: str) -> str:
    """The key of the source row: another importer or version is another source."""
    return f"{importer.name}/{importer.version}:{source_id}"


def marks_of(row: ImportSource) -> list[str]:
    """The rules each segment was read under, as the row remembers them: `mark*count ...`."""
    if "rules" not in row.state:
        return ["0"] * len(row.segments)  # read before there were rules
    marks: list[str] = []
    for run in row.state["rules"].split():
        mark, _, count = run.partition("*")
        marks.extend([mark] * int(count))
    return marks


def tally_of(row: ImportSource) -> Tally:
    """What was redacted in a source so far."""
    known = msgspec.json.decode(row.state.get("redacted", "{}"), type=dict[str, int])
    hidden = known.pop("", 0)
    return Tally(Counter(known), hidden)


def left_out_of(row: ImportSource) -> dict[int, str]:
    """Segments whose bytes were too long to be kept, with the digest of these."""
    known = msgspec.json.decode(row.state.get("left_out", "{}"), type=dict[str, str])
    return {int(index): digest for index, digest in known.items()}


def _remembered(reading: Reading) -> dict[str, str]:
    """What the source row holds besides the segments."""
    named = {"source": reading.source_id, "first": reading.first}
    subs = sorted(sub for sub in reading.subs if sub is not None)
    if subs:
        named["subs"] = msgspec.json.encode(subs).decode()
    if reading.left_out:
        left_out = {str(index): digest for index, digest in sorted(reading.left_out.items())}
        named["left_out"] = msgspec.json.encode(left_out).decode()
    return named | redaction_state(reading.marks, reading.tally)


def trajectories_of(row: ImportSource) -> tuple[str, ...]:
    """Every trajectory that was made of a source: its own, then those of sub-agents within it."""
    subs = msgspec.json.decode(row.state.get("subs", "[]"), type=list[str])
    source_id = row.state["source"]
    return (
        row.trajectory_id,
        *(
            name
            for sub in subs
            if (
                name := SourceKey(
                    row.importer, row.version, f"{source_id}#agent:{sub}"
                ).trajectory_id
            )
            != row.trajectory_id
        ),
    )


def redaction_state(marks: list[str], tally: Tally) -> dict[str, str]:
    """What a source row remembers of redaction: `rules` of each segment, and how often by rule."""
    runs = [f"{mark}*{len(list(same))}" for mark, same in groupby(marks)]
    known = {"rules": " ".join(runs)}
    if tally.places:
        counts = dict(sorted(tally.places.items())) | {"": tally.bytes}
        known["redacted"] = msgspec.json.encode(counts).decode()
    return known


def _underivable(trajectory_id: str, at: int) -> IntegrityConflict:
    return IntegrityConflict(
        "the kept originals no longer give the events that were stored from them; nothing was "
        "imported",
        where=f"event {at}",
        trajectory_id=trajectory_id,
    )
