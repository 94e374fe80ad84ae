"""Wire forms: each of the store's values as plain JSON, for the API and the command line alike.

Digests and chain values are `sha256:<hex>`; times are integer microseconds UTC; absent fields
of an event are left out. What was read says from what (`source`, CLM-3).
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from core.acts import Act, Standing
from core.canonical import digest_text
from core.events.envelope import BlobRef, Event
from core.rules.completeness import Completeness
from store.ports import Ack, Finding, Grant, Head, ImportSource, LedgerRow


def encode(value: object) -> bytes:
    """JSON bytes of a msgspec value, every field present."""
    return msgspec.json.encode(value)


def fragment(value: object) -> orjson.Fragment:
    """A msgspec value as a part of an answer."""
    return orjson.Fragment(encode(value))


def source(claim: Completeness) -> dict[str, object]:
    """`source` of what was read from a log: what the prefix that is held may claim."""
    return {"kind": claim.kind, "complete_to": claim.complete_to, "text": claim.text}


def ledger_source(complete_to: int) -> dict[str, object]:
    """`source` of rows of the ledger, by the number of its last one."""
    return {
        "kind": "ledger",
        "complete_to": complete_to,
        "text": f"the ledger beside the log, complete to its row {complete_to:,}",
    }


def ack(value: Ack) -> dict[str, object]:
    """Wire form of an acknowledgement."""
    return {
        "outcome": "ok",
        "trajectory_id": value.trajectory_id,
        "sequence_numbers": value.sequence_numbers,
        "head": value.head,
        "chain": digest_text(value.chain),
        "failure_domain": value.failure_domain,
        "queue_wait_us": value.queue_wait_us,
        "storage_time_us": value.storage_time_us,
        "duplicate": value.duplicate,
        "duplicates": value.duplicates,
        "owner_epoch": value.owner_epoch,
        "fenced": value.fenced,
    }


def grant(value: Grant) -> dict[str, object]:
    """Wire form of a grant."""
    return {"outcome": "ok", **msgspec.structs.asdict(value)}


def head(value: Head) -> dict[str, object]:
    """Wire form of a head, without summary and sources."""
    return {
        "trajectory_id": value.trajectory_id,
        "tenant": value.tenant,
        "standing": value.standing,
        "head": value.sequence_number,
        "chain": digest_text(value.chain),
        "recorded_at": value.recorded_at,
        "created_at": value.created_at,
        "owner_epoch": value.owner_epoch,
        "worker": value.worker,
        "control_epoch": value.control_epoch,
        "record_version": value.record_version,
        "staged": value.staged,
        "staged_to": value.staged_to,
        "incidents": value.incidents,
    }


def blob_ref(value: BlobRef) -> dict[str, object]:
    """Wire form of a blob reference, absent fields left out."""
    return {key: item for key, item in msgspec.structs.asdict(value).items() if item is not None}


def event(value: Event) -> dict[str, object]:
    """Wire form of an event: every field of the envelope; an inline payload as JSON."""
    answer: dict[str, object] = {
        "trajectory_id": value.trajectory_id,
        "sequence_number": value.sequence_number,
        "recorded_at": value.recorded_at,
        "event_id": value.event_id,
        "type": value.type,
        "schema_version": value.schema_version,
        "issuer": value.issuer,
        "owner_epoch": value.owner_epoch,
        "control_epoch": value.control_epoch,
        "record_version": value.record_version,
        "reducer_version": value.reducer_version,
        "digest": digest_text(value.digest),
        "chain": digest_text(value.chain),
        "payload_digest": digest_text(value.payload_digest),
        "payload_length": value.payload_length,
    }
    for name in ("worker", "occurred_at", "step", "operation_id", "attempt_id", "invocation_id"):
        given = getattr(value, name)
        if given is not None:
            answer[name] = given
    if value.payload is not None:
        answer["payload"] = orjson.Fragment(value.payload)
    if value.payload_ref is not None:
        answer["payload_ref"] = blob_ref(value.payload_ref)
    if value.refs:
        answer["refs"] = [blob_ref(ref) for ref in value.refs]
    return answer


def ledger_row(value: LedgerRow) -> dict[str, object]:
    """Wire form of a ledger row."""
    return {key: item for key, item in msgspec.structs.asdict(value).items() if key != "tenant"}


def act(value: Act) -> dict[str, object]:
    """Wire form of an act; absent fields are null."""
    return {
        "number": value.number,
        "kind": value.kind,
        "trajectory_id": value.trajectory_id,
        "boundary": value.boundary,
        "body": plain(value.body),
        "actor": value.actor,
        "reason": value.reason,
        "recorded_at": value.recorded_at,
        "request_id": value.request_id,
    }


def acted(value: Standing) -> dict[str, object]:
    """Wire form of what the acts about one trajectory add up to."""
    return {
        "notes": [act(one) for one in value.notes],
        "tags": value.tags,
        "withdrawn": act(value.withdrawn) if value.withdrawn is not None else None,
        "superseded": act(value.superseded) if value.superseded is not None else None,
        "last_act": value.last,
    }


def acts_source(complete_to: int) -> dict[str, object]:
    """`source` of acts, by the number of the last one."""
    return {
        "kind": "acts",
        "complete_to": complete_to,
        "text": f"what people did beside the logs, complete to act {complete_to:,}",
    }


def finding(value: Finding) -> dict[str, object]:
    """Wire form of a violation found."""
    return msgspec.structs.asdict(value)


def jsonl(value: object) -> bytes:
    """One line."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def import_source(value: ImportSource) -> dict[str, object]:
    """Wire form of what a trajectory was imported from."""
    return {
        "source_id": value.source_id,
        "importer": value.importer,
        "name": value.name,
        "reading_digest": value.reading_digest,
        "reading_length": value.reading_length,
    }


def plain(value: object) -> dict[str, Any]:
    """A msgspec value as a dict of plain values."""
    return msgspec.to_builtins(value)  # type: ignore[no-any-return]


def settled(value: object) -> Any:
    """A wire form with its fragments read back, for a caller in this process."""
    return orjson.loads(orjson.dumps(value))
