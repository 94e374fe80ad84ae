"""Rows of the event table to events and back, in the order of one column list.

Deliberate oddity: values are bound as bytearray instead of bytes, and an absent value as an empty
one that the statement turns into NULL. The driver looks for an adapter of every bytes and every
None it binds, which for an event took as long as storing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from core.errors import CorruptAt, InvalidInput
from core.events.envelope import BlobRef, Event, NewEvent
from core.events.prepare import Prepared
from store.state import NewRow, Piece

#: What the producer stated and what follows from it: encoded in the caller's thread.
STATED = (
    "event_id",
    "type",
    "schema_version",
    "digest",
    "payload_digest",
    "payload_length",
    "payload",
    "payload_ref",
    "occurred_at",
    "step",
    "operation_id",
    "attempt_id",
    "invocation_id",
    "refs",
    "mark",
    "binding",
)
#: What the store sets.
STAMPED = (
    "tenant",
    "trajectory_key",
    "sequence_number",
    "recorded_at",
    "issuer",
    "owner_epoch",
    "worker",
    "control_epoch",
    "record_version",
    "reducer_version",
    "chain",
)
COLUMNS = STAMPED + STATED
SELECT_EVENT = f"SELECT {', '.join(COLUMNS)} FROM events"
#: For the fold: without what only proves the log.
SELECT_FOLD = (
    "SELECT sequence_number, recorded_at, issuer, owner_epoch, worker, control_epoch, event_id, "
    "type, schema_version, payload, payload_ref, occurred_at, step, operation_id, attempt_id, "
    "invocation_id FROM events"
)

#: What stands for NULL in a column that may be absent; no value of it is ever that.
ABSENT_NUMBER, ABSENT_TEXT, ABSENT_BYTES = -1, "", bytearray()
_ABSENT = dict.fromkeys(("occurred_at", "step"), "-1")
_ABSENT |= dict.fromkeys(("worker", "operation_id", "attempt_id", "invocation_id"), "''")
_ABSENT |= dict.fromkeys(("payload", "payload_ref", "refs", "binding"), "x''")
MARKS = ", ".join(f"NULLIF(?, {_ABSENT[name]})" if name in _ABSENT else "?" for name in COLUMNS)

_REF = msgspec.json.Decoder(BlobRef)
_REFS = msgspec.json.Decoder(tuple[BlobRef, ...])
Decoded = TypeVar("Decoded")
_encode = msgspec.json.encode
_INT_MAX = 2**63 - 1


def stated(source: Prepared | Piece) -> tuple[object, ...]:
    """The STATED part of a row, as it is bound.

    InvalidInput for what no database could hold, so that it is refused before it joins a group.
    """
    event: NewEvent | Event = source.event
    if isinstance(source, Prepared):
        digest, payload_digest = source.digest, source.payload_digest
        payload_length = source.payload_length
    else:
        installed = source.event
        digest, payload_digest = installed.digest, installed.payload_digest
        payload_length = installed.payload_length
    row = (
        event.event_id,
        event.type,
        event.schema_version,
        bytearray(digest),
        bytearray(payload_digest),
        payload_length,
        bytearray(event.payload) if event.payload is not None else ABSENT_BYTES,
        bytearray(_encode(event.payload_ref)) if event.payload_ref is not None else ABSENT_BYTES,
        event.occurred_at if event.occurred_at is not None else ABSENT_NUMBER,
        event.step if event.step is not None else ABSENT_NUMBER,
        event.operation_id or ABSENT_TEXT,
        event.attempt_id or ABSENT_TEXT,
        event.invocation_id or ABSENT_TEXT,
        bytearray(_encode(event.refs)) if event.refs else ABSENT_BYTES,
        source.mark,
        bytearray(source.binding) if source.binding is not None else ABSENT_BYTES,
    )
    texts = "".join((row[0], row[1], row[10], row[11], row[12]))
    if not texts.isascii():
        check_text(texts)
    for number in (row[2], row[5], row[8], row[9]):
        if not -_INT_MAX <= number <= _INT_MAX:
            raise InvalidInput("an integer beyond 64 bits cannot be stored")
    return row


def check_text(value: str) -> None:
    """InvalidInput for text that is not valid Unicode."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("text with a lone surrogate cannot be stored") from error


def full(row: NewRow) -> tuple[object, ...]:
    """One row, in the order of COLUMNS."""
    body = row.body if row.body is not None else stated(row.source)
    return (
        row.tenant,
        row.key,
        row.sequence_number,
        row.recorded_at,
        row.issuer,
        row.owner_epoch,
        row.worker or ABSENT_TEXT,
        row.control_epoch,
        row.record_version,
        row.reducer_version,
        bytearray(row.chain),
        *body,  # type: ignore[misc]
    )


def _decoded(
    decoder: msgspec.json.Decoder[Decoded], text: str | bytes, sequence_number: int
) -> Decoded:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, TypeError) as error:
        raise CorruptAt(
            f"event {sequence_number}: what it names cannot be read: {error}",
            sequence_number=sequence_number,
        ) from error


def event(trajectory_id: str, row: Sequence[Any]) -> Event:
    """A row of SELECT_EVENT as an event."""
    return Event(
        trajectory_id=trajectory_id,
        sequence_number=row[2],
        recorded_at=row[3],
        issuer=row[4],
        owner_epoch=row[5],
        worker=row[6],
        control_epoch=row[7],
        record_version=row[8],
        reducer_version=row[9],
        chain=row[10],
        event_id=row[11],
        type=row[12],
        schema_version=row[13],
        digest=row[14],
        payload_digest=row[15],
        payload_length=row[16],
        payload=row[17],
        payload_ref=_decoded(_REF, row[18], row[2]) if row[18] is not None else None,
        occurred_at=row[19],
        step=row[20],
        operation_id=row[21],
        attempt_id=row[22],
        invocation_id=row[23],
        refs=_decoded(_REFS, row[24], row[2]) if row[24] is not None else (),
    )


def fold_event(trajectory_id: str, row: Sequence[Any]) -> Event:
    """A row of SELECT_FOLD as an event that is empty where the fold does not look."""
    ref = row[10]
    return Event(
        trajectory_id,
        row[0],
        row[1],
        row[6],
        row[7],
        row[8],
        row[2],
        row[3],
        row[5],
        0,
        0,
        b"",
        b"",
        b"",
        0,
        row[4],
        row[9],
        _decoded(_REF, ref, row[0]) if ref is not None else None,
        row[11],
        row[12],
        row[13],
        row[14],
        row[15],
    )
