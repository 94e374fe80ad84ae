"""Our own log as lines of JSON: export, and the importer that installs it again.

A bundle holds one trajectory, or a piece of it:

    {"strandline":"bundle/1","trajectory_id":..,"standing":..,"first":1,"last":n,"head":n,
     "chain":"sha256:..","incarnation":"..","reducer_version":1}
    {"blob":"sha256:..","length":..,"part":1,"parts":2,"data":"<base64 of at most 1 MiB>"}
    {"event":{every field of the envelope, the payload as JSON}}
    {"end":true,"events":n,"head":n,"chain":"sha256:.."}

A blob stands before the first event that names it, once. A piece that does not begin at event 1
also has `chain_before`, the chain value its first event continues. `chain` of the header is the
value at `last`.

INVARIANTS
1. What was exported installs to the same sequence numbers, digests and chain (INS-1), and exports
   again to the same lines between the header and the end.
2. A bundle is read twice: the first pass checks every digest, the chain, the blobs and the end
   line and stores nothing; only then is anything installed.
3. Neither pass holds more than one batch, whatever the length of the log.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec
import orjson

from core.canonical import canonical, digest_raw, digest_text, sha256
from core.errors import ImportRefused, IntegrityConflict, InvalidInput, NotFound, TooLarge
from core.events import registry
from core.events.envelope import (
    JSON_MEDIA_TYPE,
    BlobRef,
    Event,
    Issuer,
    Standing,
    chain_start,
    chain_value,
    event_digest,
    payload_identity,
)
from core.events.fields import Usage
from core.events.model_call import ModelReplied
from core.events.prepare import check_envelope
from core.events.task import TaskStarted
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import BLOB_BYTES_MAX, EVENTS_PER_APPEND_MAX, IMPORT_VALUE_BYTES_MAX, MIB
from core.strictjson import check_depth, loads
from ingest.base import Findings, Progress, Sniff, TrajectoryReport, no_progress
from ingest.document import around
from store.ports import BlobStore, Head, InstallCommand, RecoveryStore

FORMAT = "bundle/1"
_PART_BYTES = MIB
_BATCH_BYTES = 2 * MIB
_READ_EVENTS = 500


class Header(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """First line."""

    strandline: str
    trajectory_id: str
    standing: Standing
    first: int
    last: int
    head: int
    """Head of the log it was exported from."""
    chain: str
    """Chain value at `last`."""
    incarnation: str
    reducer_version: int
    chain_before: str | None = None


class BlobLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of a blob."""

    blob: str
    length: int
    part: int
    parts: int
    data: str


class EventBody(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Every field of the envelope; the payload as JSON."""

    trajectory_id: str
    sequence_number: int
    recorded_at: int
    event_id: str
    type: str
    schema_version: int
    issuer: Issuer
    owner_epoch: int
    control_epoch: int
    record_version: int
    reducer_version: int
    payload_digest: str
    payload_length: int
    digest: str
    chain: str
    worker: str | None = None
    occurred_at: int | None = None
    step: int | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_ref: BlobRef | None = None
    refs: tuple[BlobRef, ...] = ()


class EventLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event."""

    event: EventBody


class EndLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Last line: without it the bundle is cut off."""

    end: bool
    events: int
    head: int
    """Last sequence number in the bundle."""
    chain: str


_ENCODER = msgspec.json.Encoder()
_HEADER = msgspec.json.Decoder(Header)
_EVENT = msgspec.json.Decoder(EventLine)
_BLOB = msgspec.json.Decoder(BlobLine)
_END = msgspec.json.Decoder(EndLine)


# --- export ----------------------------------------------------------------------------------


def export(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str,
    trajectory_id: str,
    out: BinaryIO,
    *,
    after: int = 0,
    upto: int | None = None,
    progress: Progress = no_progress,
) -> int:
    """Write the events after < n <= upto (default: all) as a bundle; how many there were.

    Raises NotFound for an unknown trajectory or a missing blob, CorruptAt for one whose bytes
    changed, InvalidInput for an empty range.
    """
    head = store.head(tenant, trajectory_id)
    last = head.sequence_number if upto is None else min(upto, head.sequence_number)
    if not 0 <= after < last:
        raise InvalidInput(
            f"{trajectory_id} has no events after {after} up to {last}", field="range"
        )
    chain = head.chain if last == head.sequence_number else _chain_at(store, head, last)
    before = _chain_at(store, head, after) if after else None
    header = Header(
        strandline=FORMAT,
        trajectory_id=trajectory_id,
        standing=head.standing,
        first=after + 1,
        last=last,
        head=head.sequence_number,
        chain=digest_text(chain),
        incarnation=store.facts().incarnation,
        reducer_version=_reducer_version(store, head, last),
        chain_before=digest_text(before) if before is not None else None,
    )
    written = _line(out, header)
    sent: set[str] = set()
    at = after
    while at < last:
        page = store.events(tenant, trajectory_id, after=at, upto=last, limit=_READ_EVENTS)
        if not page:
            raise NotFound(f"{trajectory_id} has no event {at + 1}", missing=True)
        for event in page:
            for ref in _blob_refs(event):
                if ref.digest not in sent:
                    sent.add(ref.digest)
                    written += _write_blob(blobs, tenant, ref, out)
            written += _line(out, EventLine(_body(event)))
        at = page[-1].sequence_number
        progress(written, 0, at - after)
    _line(out, EndLine(True, last - after, last, digest_text(chain)))
    return last - after


def _chain_at(store: RecoveryStore, head: Head, number: int) -> bytes:
    found = store.events(head.tenant, head.trajectory_id, after=number - 1, upto=number, limit=1)
    if not found:
        raise NotFound(f"{head.trajectory_id} has no event {number}")
    return found[0].chain


def _reducer_version(store: RecoveryStore, head: Head, number: int) -> int:
    found = store.events(head.tenant, head.trajectory_id, after=number - 1, upto=number, limit=1)
    return found[0].reducer_version if found else 0


def _line(out: BinaryIO, value: msgspec.Struct) -> int:
    data = _ENCODER.encode(value) + b"\n"
    out.write(data)
    return len(data)


def _blob_refs(event: Event) -> Iterator[BlobRef]:
    if event.payload_ref is not None:
        yield event.payload_ref
    yield from event.refs


def _write_blob(blobs: BlobStore, tenant: str, ref: BlobRef, out: BinaryIO) -> int:
    data = blobs.read(tenant, ref.digest)
    parts = max(1, -(-len(data) // _PART_BYTES))
    written = 0
    for part in range(parts):
        piece = data[part * _PART_BYTES : (part + 1) * _PART_BYTES]
        encoded = base64.b64encode(piece).decode()
        written += _line(out, BlobLine(ref.digest, len(data), part + 1, parts, encoded))
    return written


def _body(event: Event) -> EventBody:
    return EventBody(
        trajectory_id=event.trajectory_id,
        sequence_number=event.sequence_number,
        recorded_at=event.recorded_at,
        event_id=event.event_id,
        type=event.type,
        schema_version=event.schema_version,
        issuer=event.issuer,
        owner_epoch=event.owner_epoch,
        control_epoch=event.control_epoch,
        record_version=event.record_version,
        reducer_version=event.reducer_version,
        payload_digest=digest_text(event.payload_digest),
        payload_length=event.payload_length,
        digest=digest_text(event.digest),
        chain=digest_text(event.chain),
        worker=event.worker,
        occurred_at=event.occurred_at,
        step=event.step,
        operation_id=event.operation_id,
        attempt_id=event.attempt_id,
        invocation_id=event.invocation_id,
        payload=msgspec.Raw(event.payload) if event.payload is not None else msgspec.UNSET,
        payload_ref=event.payload_ref,
        refs=event.refs,
    )


# --- reading ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Blob:
    """A blob being put together from its parts."""

    digest: str
    length: int
    parts: int
    data: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _Item:
    """One thing of a bundle in its order: an event, or a whole blob."""

    line: int
    event: Event | None = None
    blob: bytes | None = None
    digest: str = ""


class Bundle:
    """A bundle on a seekable private file; each `items()` is one pass over it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self._number = 0
        self._start = 0
        self._line = b""
        self._checked = False
        self._laid_out = False
        """Some payload does not stand there as its canonical bytes."""
        self.header = self._read_header()

    @property
    def position(self) -> int:
        """Bytes read so far in this pass."""
        return self._start + len(self._line)

    def _next(self) -> bytes | None:
        self._start += len(self._line)
        self._line = self._file.readline(IMPORT_VALUE_BYTES_MAX + 1)
        self._number += 1
        if len(self._line) > IMPORT_VALUE_BYTES_MAX:
            raise self.refused("the line is longer than 64 MiB")
        if not self._line:
            return None
        if not self._line.endswith(b"\n"):
            raise self.refused("the line has no end: the bundle is cut off here", "truncated")
        return self._line

    def _rewind(self) -> None:
        self._file.seek(0)
        self._number, self._start, self._line = 0, 0, b""

    def refused(self, why: str, reason: str = "shape", column: int = 1) -> ImportRefused:
        """A refusal at the present line."""
        at = column - 1
        return ImportRefused(
            f"line {self._number}: {why}",
            where=f"line {self._number}, column {column} (byte {self._start + at})",
            line=self._number,
            column=column,
            offset=self._start + at,
            around=around(self._line, at),
            reason=reason,
        )

    def _decode(self, decoder: msgspec.json.Decoder[Any], line: bytes) -> Any:
        try:
            if decoder is not _BLOB and not self._checked:
                check_depth(line)
            return decoder.decode(line)
        except InvalidInput as error:
            raise self.refused(str(error), str(error.data.get("reason"))) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.refused(f"not a line of a bundle: {error}") from error

    def _read_header(self) -> Header:
        self._rewind()
        line = self._next()
        if line is None:
            raise self.refused("the bundle is empty", "empty")
        header: Header = self._decode(_HEADER, line)
        if header.strandline != FORMAT:
            raise self.refused(f"it is a {header.strandline[:40]}; this version reads {FORMAT}")
        try:
            parse_trajectory_id(header.trajectory_id)
        except InvalidInput as error:
            raise self.refused(str(error)) from error
        if not 1 <= header.first <= header.last <= header.head:
            raise self.refused("its first, last and head do not fit together")
        if header.first > 1 and header.chain_before is None:
            raise self.refused("a piece needs chain_before, the value its first event continues")
        return header

    def items(self) -> Iterator[_Item]:
        """One pass: blobs and events in order, each checked against its digest and the chain.

        Raises ImportRefused with the line; at the end also for what is missing. Once a pass has
        come to the end, the private file is known to be good and later ones do not check again.
        """
        self._rewind()
        self._next()
        header = self.header
        chain = (
            chain_start(header.trajectory_id)
            if header.chain_before is None
            else self._digest(header.chain_before)
        )
        expected, events = header.first, 0
        pending: _Blob | None = None
        while (line := self._next()) is not None:
            if line.startswith(b'{"blob"'):
                pending, whole = self._part(line, pending)
                if whole is not None:
                    yield _Item(self._number, blob=whole[1], digest=whole[0])
                continue
            if pending is not None:
                raise self.refused(f"the blob {pending.digest} lacks parts")
            if line.startswith(b'{"end"'):
                self._end(line, events, expected - 1, chain)
                self._checked = True
                return
            event = self._event(line, expected, chain)
            chain, expected, events = event.chain, expected + 1, events + 1
            yield _Item(self._number, event=event)
        raise self.refused(
            f"the bundle ends after {events} events without its end line: it is cut off",
            "truncated",
        )

    def _digest(self, text: str) -> bytes:
        try:
            return digest_raw(text)
        except InvalidInput as error:
            raise self.refused(str(error)) from error

    def _part(
        self, line: bytes, pending: _Blob | None
    ) -> tuple[_Blob | None, tuple[str, bytes] | None]:
        """(blob still being read, blob that is whole)."""
        part: BlobLine = self._decode(_BLOB, line)
        if pending is None:
            if not 0 <= part.length <= BLOB_BYTES_MAX:
                raise self.refused(f"the blob {part.blob[:80]} is larger than 64 MiB")
            pending = _Blob(part.blob, part.length, part.parts)
        if (part.blob, part.length, part.parts) != (
            pending.digest,
            pending.length,
            pending.parts,
        ) or part.part != len(pending.data) + 1:
            raise self.refused(f"this is not the next part of the blob {pending.digest[:80]}")
        try:
            piece = base64.b64decode(part.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.refused(f"its data is not base64: {error}") from error
        pending.data.append(piece)
        if sum(map(len, pending.data)) > pending.length:
            raise self.refused(f"the blob {pending.digest[:80]} is longer than it says")
        if part.part < part.parts:
            return pending, None
        whole = b"".join(pending.data)
        if len(whole) != part.length or digest_text(sha256(whole)) != part.blob:
            raise self.refused(f"the bytes of the blob {part.blob[:80]} have another digest")
        return None, (part.blob, whole)

    def _event(self, line: bytes, expected: int, chain: bytes) -> Event:
        body: EventBody = self._decode(_EVENT, line).event
        if body.trajectory_id != self.header.trajectory_id:
            raise self.refused(f"the event belongs to {body.trajectory_id[:100]}")
        if body.sequence_number != expected:
            raise self.refused(
                f"event {expected} is expected here, this is {body.sequence_number}", "gap"
            )
        payload = self._payload(body)
        event = Event(
            trajectory_id=body.trajectory_id,
            sequence_number=body.sequence_number,
            recorded_at=body.recorded_at,
            event_id=body.event_id,
            type=body.type,
            schema_version=body.schema_version,
            issuer=body.issuer,
            owner_epoch=body.owner_epoch,
            control_epoch=body.control_epoch,
            record_version=body.record_version,
            reducer_version=body.reducer_version,
            digest=self._digest(body.digest),
            chain=self._digest(body.chain),
            payload_digest=self._digest(body.payload_digest),
            payload_length=body.payload_length,
            worker=body.worker,
            payload=payload,
            payload_ref=body.payload_ref,
            occurred_at=body.occurred_at,
            step=body.step,
            operation_id=body.operation_id,
            attempt_id=body.attempt_id,
            invocation_id=body.invocation_id,
            refs=body.refs,
        )
        if not self._checked:
            self._check(event, chain)
        return event

    def _payload(self, body: EventBody) -> bytes | None:
        ref = body.payload_ref
        if isinstance(body.payload, msgspec.UnsetType) == (ref is None):
            raise self.refused("an event has either a payload or a payload_ref")
        if ref is not None:
            if (ref.digest, ref.length) != (body.payload_digest, body.payload_length):
                raise self.refused("payload_ref and payload_digest name different bytes")
            return None
        assert not isinstance(body.payload, msgspec.UnsetType)
        raw = bytes(body.payload)
        if self._checked and not self._laid_out:
            return raw  # As the first pass found it; the store holds it to its digest.
        if not _is_canonical(raw):
            self._laid_out = True
            # Somebody may have laid out the line anew; the canonical bytes decide.
            try:
                raw = canonical(loads(raw))
            except InvalidInput as error:
                raise self.refused(f"the payload is not canonical JSON: {error}") from error
        if digest_text(sha256(raw)) != body.payload_digest or len(raw) != body.payload_length:
            raise self.refused(
                f"the payload of event {body.sequence_number} has another digest than it says",
                "digest",
            )
        return raw

    def _check(self, event: Event, before: bytes) -> None:
        known = (event.payload_digest, event.payload_length, JSON_MEDIA_TYPE)
        try:
            check_envelope(event)
            identity = known if event.payload is not None else payload_identity(event)
            digest = event_digest(event.trajectory_id, event, identity)
        except (InvalidInput, TooLarge, ValueError, TypeError) as error:
            raise self.refused(f"event {event.sequence_number}: {error}") from error
        if digest != event.digest:
            raise self.refused(
                f"event {event.sequence_number} does not have the digest it says: a field was "
                "changed",
                "digest",
            )
        chain = chain_value(
            before,
            digest,
            sequence_number=event.sequence_number,
            recorded_at=event.recorded_at,
            issuer=event.issuer,
            owner_epoch=event.owner_epoch,
            worker=event.worker,
            control_epoch=event.control_epoch,
            record_version=event.record_version,
            reducer_version=event.reducer_version,
        )
        if chain != event.chain:
            raise self.refused(
                f"the chain breaks at event {event.sequence_number}: it does not continue the "
                "event before it",
                "chain",
            )

    def _end(self, line: bytes, events: int, last: int, chain: bytes) -> None:
        end: EndLine = self._decode(_END, line)
        header = self.header
        if (end.events, end.head, last) != (events, last, header.last):
            raise self.refused(
                f"the end line speaks of {end.events} events up to {end.head}, the header of "
                f"{header.last - header.first + 1} up to {header.last}, and {events} were found: "
                "the bundle is damaged",
                "count",
            )
        if end.chain != digest_text(chain) or header.chain != end.chain:
            raise self.refused("the chain at the end is another than the lines give", "chain")
        if self._file.read(1):
            raise self.refused("there are bytes after the end line", "trailing")


def _is_canonical(raw: bytes) -> bool:
    """Whether these are the canonical bytes of what they say; a key that stands twice is not."""
    try:
        return canonical(orjson.loads(raw)) == raw
    except (orjson.JSONDecodeError, InvalidInput):
        return False


# --- the importer ----------------------------------------------------------------------------


class NativeBundle:
    """The importer of our own export; it installs."""

    name = "strandline"
    version = 1
    title = "Strandline's own export (bundle/1)"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """The first line names the format."""
        if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b'{"strandline":"bundle/'):
            return Sniff(1.0, "its first line says it is a bundle of this program")
        return None

    def install(
        self,
        store: RecoveryStore,
        blobs: BlobStore,
        tenant: str,
        file: BinaryIO,
        size: int,
        *,
        findings: Findings,
        progress: Progress = no_progress,
    ) -> tuple[TrajectoryReport, int]:
        """Check all of a bundle, then install it; (report, lines).

        Raises ImportRefused, IntegrityConflict (another history is held), NotAllowed (the
        trajectory is held here and is no replica).
        """
        bundle = Bundle(file, size)
        held = _held(store, tenant, bundle.header.trajectory_id)
        checked = _first_pass(bundle, held, findings, progress)
        if held is not None:
            _refuse_other_history(store, tenant, bundle, held, checked)
            if held.standing != "replica" and bundle.header.last <= held.sequence_number:
                findings.notes.append(
                    f"this store holds the original ({held.standing}); nothing was installed"
                )
                return _report(bundle, held, checked.title, "unchanged", 0), checked.lines
        fresh = _second_pass(store, blobs, tenant, bundle, progress)
        now = store.head(tenant, bundle.header.trajectory_id)
        if now.staged:
            findings.notes.append(
                f"{now.staged} events up to {now.staged_to} wait beyond a gap: install the piece "
                f"that begins at event {now.sequence_number + 1}"
            )
        outcome = "unchanged" if not fresh else "imported" if held is None else "appended"
        return _report(bundle, now, checked.title, outcome, fresh), checked.lines


@dataclass(slots=True)
class _Checked:
    """What the first pass learned."""

    title: str
    lines: int
    chain_at_held: bytes | None
    bodies: dict[str, bytes] = field(default_factory=dict)
    """The first blob before the next event: it may be its payload."""
    replies: dict[str, Usage | None] = field(default_factory=dict)
    """Usage of replies whose payload is a blob, by its digest."""


def _held(store: RecoveryStore, tenant: str, trajectory_id: str) -> Head | None:
    try:
        return store.head(tenant, trajectory_id)
    except NotFound:
        return None


def _first_pass(
    bundle: Bundle, held: Head | None, findings: Findings, progress: Progress
) -> _Checked:
    checked = _Checked(bundle.header.trajectory_id, 1, None)
    meet = min(held.sequence_number, bundle.header.last) if held is not None else 0
    named: dict[str, int] = {}
    have: set[str] = set()
    events = 0
    for item in bundle.items():
        checked.lines = item.line + 1
        if item.blob is not None:
            have.add(item.digest)
            if not checked.bodies:  # An event's payload stands before its other blobs.
                checked.bodies[item.digest] = item.blob
            continue
        event = item.event
        assert event is not None
        events += 1
        for ref in _blob_refs(event):
            if ref.digest not in have:
                named.setdefault(ref.digest, event.sequence_number)
        if event.sequence_number == meet:
            checked.chain_at_held = event.chain
        _notice(bundle, event, findings, checked)
        checked.bodies.clear()
        if events % _READ_EVENTS == 0:
            progress(bundle.position // 2, bundle.size, 0)
    if named:
        digest, number = next(iter(named.items()))
        raise ImportRefused(
            f"event {number} names the blob {digest}, which does not stand before it in the bundle",
            where=f"event {number}",
            reason="blob",
        )
    return checked


def _notice(bundle: Bundle, event: Event, findings: Findings, checked: _Checked) -> None:
    """Count one event; a payload that a known schema cannot read refuses the bundle."""
    findings.became["event", event.type] += 1
    if not registry.is_known(event.type, event.schema_version):
        findings.gap(
            f"{event.type} version {event.schema_version}",
            "this version does not know it: kept and shown, and boundaries after it are not "
            "reconstructed",
        )
        return
    ref, body = event.payload_ref, event.payload
    if ref is not None:
        body = checked.bodies.get(ref.digest)
    if body is None:
        if event.type == "ModelReplied" and ref is not None:
            _count_tokens(checked.replies.get(ref.digest), findings)
        return
    try:
        payload = registry.decode(event.type, event.schema_version, body)
    except InvalidInput as error:
        raise bundle.refused(f"event {event.sequence_number}: {error}") from error
    if isinstance(payload, TaskStarted):
        checked.title = payload.title
    if isinstance(payload, ModelReplied):
        if ref is not None:
            checked.replies[ref.digest] = payload.usage
        _count_tokens(payload.usage, findings)


def _count_tokens(usage: Usage | None, findings: Findings) -> None:
    findings.token_rules["as the log's ModelReplied states them"] += 1
    findings.tokens.count(usage)


def _refuse_other_history(
    store: RecoveryStore, tenant: str, bundle: Bundle, held: Head, checked: _Checked
) -> None:
    """IntegrityConflict, with its incident, where the bundle contradicts what is held."""
    meet = min(held.sequence_number, bundle.header.last)
    if checked.chain_at_held is None or meet == 0:
        return
    if _chain_at(store, held, meet) == checked.chain_at_held:
        return
    for item in bundle.items():
        event = item.event
        if event is None:
            continue
        number = event.sequence_number
        if number > meet or _chain_at(store, held, number) != event.chain:
            raise _recorded(store, tenant, held, event)
    raise IntegrityConflict("the bundle contradicts the log held here")


def _recorded(store: RecoveryStore, tenant: str, held: Head, event: Event) -> IntegrityConflict:
    """The store's own refusal of the first event that differs, which keeps an incident."""
    message = (
        f"event {event.sequence_number} of the bundle differs from the one held here: these are "
        "two histories of one trajectory; nothing was installed"
    )
    if held.standing == "replica":
        command = InstallCommand(
            tenant, event.trajectory_id, (event,), request_id="install.conflict"
        )
        try:
            store.install(command).result()
        except IntegrityConflict:
            pass
    return IntegrityConflict(
        message,
        where=f"event {event.sequence_number}",
        sequence_number=event.sequence_number,
        trajectory_id=event.trajectory_id,
    )


def _second_pass(
    store: RecoveryStore, blobs: BlobStore, tenant: str, bundle: Bundle, progress: Progress
) -> int:
    """Install in bounded batches; how many events were new."""
    fresh, done = 0, 0
    batch: list[Event] = []
    waiting: list[bytes] = []
    weight = 0

    def flush() -> int:
        nonlocal weight, done
        if waiting:
            blobs.put_many(tenant, waiting)
            waiting.clear()
        new = 0
        if batch:
            number = batch[0].sequence_number
            command = InstallCommand(
                tenant,
                bundle.header.trajectory_id,
                tuple(batch),
                request_id=f"install.{number}",
            )
            ack = store.install(command).result()
            new = sum(1 for one in ack.duplicates if not one)
            done += len(batch)
            batch.clear()
        weight = 0
        progress((bundle.size + bundle.position) // 2, bundle.size, done)
        return new

    for item in bundle.items():
        if item.blob is not None:
            waiting.append(item.blob)
            weight += len(item.blob)
        elif item.event is not None:
            batch.append(item.event)
            weight += len(item.event.payload or b"") + 600
        if len(batch) >= EVENTS_PER_APPEND_MAX or weight >= _BATCH_BYTES:
            fresh += flush()
    return fresh + flush()


def _report(
    bundle: Bundle, head: Head, title: str, outcome: str, appended: int
) -> TrajectoryReport:
    return TrajectoryReport(
        id=bundle.header.trajectory_id,
        title=title,
        outcome=outcome,  # type: ignore[arg-type]
        events=bundle.header.last - bundle.header.first + 1,
        appended=appended,
        head=head.sequence_number,
        chain=digest_text(head.chain),
    )
