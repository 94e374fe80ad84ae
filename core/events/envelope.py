"""The envelope: what every event carries, its digest (ENV-1) and its chain value (ENV-2).

INVARIANTS
1. `event_digest` depends on producer fields only; `chain_value` on the digest, the value before
   it and the fields the store sets. The tenant is in neither, so a bundle verifies anywhere.
2. Absent fields are left out of the digest, never written as null.
3. Moving a payload between inline and blob changes neither digest (ENV-3).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from core.canonical import canonical_plain, digest_text, sha256
from core.instants import Instant

Issuer = Literal["worker", "service", "reconciler", "operator", "importer", "endpoint"]
Role = Literal["required", "diagnostic"]
Standing = Literal["gated", "reported", "imported", "replica"]

JSON_MEDIA_TYPE = "application/json"
#: `BlobRef.schema` of the pointer from an imported event to its original bytes.
ORIGINAL_SCHEMA = "strandline.original/1"

_EVENT_DOMAIN = b"strandline/event/1\n"
_CHAIN_DOMAIN = b"strandline/chain/1\n"


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A reference to content-addressed bytes, or to a byte range of them."""

    digest: str
    """`sha256:<hex>` of the whole blob."""
    length: int
    """Bytes of the whole blob."""
    role: Role = "required"
    """`required`: fold, restore or a delivered input needs it; `diagnostic`: may be thinned."""
    media_type: str | None = None
    schema: str | None = None
    """What the bytes are, where more than the media type is known."""
    start: int | None = None
    """First byte of the part meant, where it is a part."""
    end: int | None = None
    """One past the last byte of the part meant."""


class NewEvent(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a producer states of one event. A retry repeats it byte for byte."""

    event_id: str
    type: str
    schema_version: int
    payload: bytes | None = None
    """Canonical JSON, up to PAYLOAD_INLINE_BYTES_MAX; else `payload_ref`. Exactly one is set."""
    payload_ref: BlobRef | None = None
    occurred_at: Instant | None = None
    step: int | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None
    refs: tuple[BlobRef, ...] = ()


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stored event: what the producer stated, and what the store set beside it."""

    trajectory_id: str
    sequence_number: int
    recorded_at: Instant
    event_id: str
    type: str
    schema_version: int
    issuer: Issuer
    owner_epoch: int
    control_epoch: int
    record_version: int
    reducer_version: int
    digest: bytes
    chain: bytes
    payload_digest: bytes
    payload_length: int
    worker: str | None = None
    payload: bytes | None = None
    payload_ref: BlobRef | None = None
    occurred_at: Instant | None = None
    step: int | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None
    refs: tuple[BlobRef, ...] = ()

    def stated(self) -> NewEvent:
        """The producer's part of this event."""
        return NewEvent(
            event_id=self.event_id,
            type=self.type,
            schema_version=self.schema_version,
            payload=self.payload,
            payload_ref=self.payload_ref,
            occurred_at=self.occurred_at,
            step=self.step,
            operation_id=self.operation_id,
            attempt_id=self.attempt_id,
            invocation_id=self.invocation_id,
            refs=self.refs,
        )


def payload_identity(event: NewEvent | Event) -> tuple[bytes, int, str]:
    """(raw digest, length in bytes, media type) of the payload, inline or not (ENV-3)."""
    if event.payload is not None:
        return sha256(event.payload), len(event.payload), JSON_MEDIA_TYPE
    ref = event.payload_ref
    assert ref is not None, "an event has a payload or a payload_ref"
    return bytes.fromhex(ref.digest[7:]), ref.length, ref.media_type or JSON_MEDIA_TYPE


def _ref_fields(ref: BlobRef) -> dict[str, object]:
    fields: dict[str, object] = {"digest": ref.digest, "length": ref.length, "role": ref.role}
    for name in ("media_type", "schema", "start", "end"):
        value = getattr(ref, name)
        if value is not None:
            fields[name] = value
    return fields


def event_digest(
    trajectory_id: str, event: NewEvent | Event, payload: tuple[bytes, int, str] | None = None
) -> bytes:
    """32 raw bytes: SHA-256 of the domain and the JCS of the producer's fields (ENV-1)."""
    raw, length, media_type = payload or payload_identity(event)
    fields: dict[str, object] = {
        "trajectory_id": trajectory_id,
        "event_id": event.event_id,
        "type": event.type,
        "schema_version": event.schema_version,
        "payload": {"digest": digest_text(raw), "length": length, "media_type": media_type},
    }
    if event.occurred_at is not None:
        fields["occurred_at"] = event.occurred_at
    if event.step is not None:
        fields["step"] = event.step
    if event.operation_id is not None:
        fields["operation_id"] = event.operation_id
    if event.attempt_id is not None:
        fields["attempt_id"] = event.attempt_id
    if event.invocation_id is not None:
        fields["invocation_id"] = event.invocation_id
    if event.refs:
        fields["refs"] = [_ref_fields(ref) for ref in event.refs]
    return sha256(_EVENT_DOMAIN, canonical_plain(fields))


def chain_start(trajectory_id: str) -> bytes:
    """chain_0: the value before the first event."""
    return sha256(_CHAIN_DOMAIN, trajectory_id.encode())


def chain_value(
    before: bytes,
    digest: bytes,
    *,
    sequence_number: int,
    recorded_at: Instant,
    issuer: str,
    owner_epoch: int,
    worker: str | None,
    control_epoch: int,
    record_version: int,
    reducer_version: int,
) -> bytes:
    """chain_n from chain_{n-1}, digest_n and what the store set (ENV-2); 32 raw bytes."""
    fields: dict[str, object] = {
        "sequence_number": sequence_number,
        "recorded_at": recorded_at,
        "issuer": issuer,
        "owner_epoch": owner_epoch,
        "control_epoch": control_epoch,
        "record_version": record_version,
        "reducer_version": reducer_version,
    }
    if worker is not None:
        fields["worker"] = worker
    return sha256(_CHAIN_DOMAIN, before, digest, canonical_plain(fields))
