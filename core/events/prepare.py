"""From what a producer states to what a writer can commit: checked, digested, classified.

Everything that can be refused without reading the store is refused here, before the event joins
a group (APP-12): shape, type, version, sizes, ids.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from core.canonical import DIGEST_PREFIX, canonical, canonical_plain, digest_text, sha256
from core.errors import InvalidInput, TooLarge
from core.events import registry
from core.events.admission import Authorized
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.control import ControlChanged, PlanChanged
from core.events.envelope import BlobRef, Event, NewEvent, event_digest, payload_identity
from core.events.fields import Payload
from core.events.marks import mark_of
from core.events.model_call import ContextBuilt
from core.events.ownership import Resumed
from core.events.task import TaskStarted
from core.events.tool import ToolIntent
from core.ids import check_id
from core.limits import INTEGER_MAX, PAYLOAD_INLINE_BYTES_MAX, REFS_MAX

#: Families whose slices are guarded: record_version rises after them (ORD-3).
GUARDED: tuple[type[Payload], ...] = (
    TaskStarted,
    ControlChanged,
    PlanChanged,
    Authorized,
    ApprovalRequested,
    ApprovalResolved,
)
_GUARDED = frozenset(GUARDED)
#: Ids of the envelope without which an event of a family is about nothing (contract, Event
#: families). A source that has none is imported as it is.
STATES: dict[str, tuple[str, ...]] = {
    "ContextBuilt": ("invocation_id",),
    "ModelReplied": ("invocation_id",),
    "ToolIntent": ("operation_id", "attempt_id"),
    "ToolResult": ("operation_id", "attempt_id"),
}
_ENVELOPE_BYTES = 420


class Turn(msgspec.Struct, frozen=True):
    """What an event does to the step of its trajectory (ORD-4)."""

    begins: bool = False
    """A ContextBuilt that is no retry: the step it states, or the next, begins."""
    sets: int | None = None
    """A fallback: the step is set to this value."""

    def after(self, step: int, stated: int | None) -> int:
        """The present step after an event that states `stated`, where it was `step` before."""
        if self.sets is not None:
            return self.sets
        if not self.begins:
            return step
        return max(step, step + 1 if stated is None else stated)


NO_TURN = Turn()
_BEGINS = Turn(begins=True)


class Prepared(msgspec.Struct, frozen=True):
    """An event checked and digested before it joins a group."""

    trajectory_id: str
    """The trajectory its digest is for."""
    event: NewEvent
    digest: bytes
    """32 raw bytes, ENV-1."""
    payload_digest: bytes
    payload_length: int
    mark: int
    """Lane of the event (core.events.marks), indexed for next/previous."""
    guarded: bool
    """Changes a guarded slice: record_version rises after it (ORD-3)."""
    controls: bool
    """A ControlChanged: control_epoch rises after it."""
    size: int
    """Approximate bytes in a group."""
    names_events: tuple[str, ...] = ()
    """Event ids that must be earlier in the log or in the same request (APP-4)."""
    names_blobs: tuple[tuple[str, int], ...] = ()
    """(digest, length) of blobs that must be durable for this tenant (APP-3)."""
    binding: bytes | None = None
    """For an intent: digest of what its operation_id is bound to (EFF-6)."""
    turn: Turn = NO_TURN
    """What it does to the step of its trajectory (ORD-4)."""


def prepare(
    trajectory_id: str, event: NewEvent, payload: Payload | dict[str, object] | None = None
) -> Prepared:
    """Check and digest one event.

    `payload` is the decoded payload where the caller has it already or where the bytes lie in a
    blob (`event.payload_ref`); without it the inline bytes are decoded. The inline bytes must be
    canonical (`registry.encode`, `core.canonical`). Raises InvalidInput, UnknownType, TooLarge.
    """
    check_envelope(event)
    if payload is None:
        if event.payload is None:
            raise InvalidInput("an event has a payload or a payload_ref", field="payload")
        payload = registry.decode(event.type, event.schema_version, event.payload)
    identity = payload_identity(event)
    return Prepared(
        trajectory_id=trajectory_id,
        event=event,
        digest=event_digest(trajectory_id, event, identity),
        payload_digest=identity[0],
        payload_length=identity[1],
        mark=int(mark_of(event.type, payload)),
        guarded=type(payload) in _GUARDED,
        controls=type(payload) is ControlChanged,
        size=_ENVELOPE_BYTES + (len(event.payload) if event.payload is not None else 0),
        names_events=_names_events(payload),
        names_blobs=blobs_of(event),
        binding=binding_of(event, payload),
        turn=turn_of(payload),
    )


def classify(event: Event, payload: Payload | dict[str, object] | None) -> tuple[int, bool, bool]:
    """(mark, guarded, controls) of a stored or installed event; payload None if unknown."""
    return (
        int(mark_of(event.type, payload)),
        isinstance(payload, GUARDED),
        isinstance(payload, ControlChanged),
    )


def turn_of(payload: Payload | dict[str, object] | None) -> Turn:
    """What a payload does to the step; nothing where it is unknown."""
    if isinstance(payload, ContextBuilt) and payload.retry_of is None:
        return _BEGINS
    if isinstance(payload, Resumed) and payload.set_back is not None:
        return Turn(sets=payload.set_back.step)
    return NO_TURN


def check_states(event: NewEvent) -> None:
    """InvalidInput where an event does not say which operation, attempt or call it is about."""
    for name in STATES.get(event.type, ()):
        if getattr(event, name) is None:
            raise InvalidInput(f"a {event.type} states its {name}", field=name)


def blobs_of(event: NewEvent | Event) -> tuple[tuple[str, int], ...]:
    """(digest, length) of every blob an event names, each once."""
    if event.payload_ref is None and not event.refs:
        return ()
    return tuple(dict.fromkeys((ref.digest, ref.length) for ref in _blob_refs(event)))


def _blob_refs(event: NewEvent | Event) -> Iterator[BlobRef]:
    if event.payload_ref is not None:
        yield event.payload_ref
    yield from event.refs


def check_envelope(event: NewEvent | Event) -> None:
    """InvalidInput or TooLarge where a producer's field is outside what the contract allows."""
    check_id(event.event_id, "event_id")
    if event.operation_id is not None:
        check_id(event.operation_id, "operation_id")
    if event.attempt_id is not None:
        check_id(event.attempt_id, "attempt_id")
    if event.invocation_id is not None:
        check_id(event.invocation_id, "invocation_id")
    if event.occurred_at is not None and not 0 <= event.occurred_at <= INTEGER_MAX:
        raise InvalidInput("occurred_at is an integer from 0 to 2^53-1", field="occurred_at")
    if event.step is not None and not 0 <= event.step <= INTEGER_MAX:
        raise InvalidInput("step is an integer from 0 to 2^53-1", field="step")
    if (event.payload is None) == (event.payload_ref is None):
        raise InvalidInput("an event has either a payload or a payload_ref", field="payload")
    if event.payload is not None and len(event.payload) > PAYLOAD_INLINE_BYTES_MAX:
        raise TooLarge(
            f"an inline payload is at most {PAYLOAD_INLINE_BYTES_MAX} bytes, this one has "
            f"{len(event.payload)}; put it as a blob and send payload_ref",
            field="payload",
        )
    if event.payload_ref is None and not event.refs:
        return
    if len(event.refs) > REFS_MAX:
        raise TooLarge(f"an event names at most {REFS_MAX} blobs", field="refs")
    for ref in _blob_refs(event):
        if len(ref.digest) != 71 or not ref.digest.startswith(DIGEST_PREFIX):
            raise InvalidInput("a digest is written sha256: and 64 hex digits", field="refs")
        if not 0 <= ref.length <= INTEGER_MAX:
            raise InvalidInput("a blob length is an integer from 0 to 2^53-1", field="refs")
        start = 0 if ref.start is None else ref.start
        if not 0 <= start <= (ref.length if ref.end is None else ref.end) <= ref.length:
            raise InvalidInput("a part of a blob lies within its length", field="refs")


def _names_events(payload: object) -> tuple[str, ...]:
    if not isinstance(payload, ToolIntent):
        return ()
    named = (payload.authorization_event, payload.reservation_event)
    return tuple(name for name in named if name is not None)


def binding_of(event: NewEvent | Event, payload: object) -> bytes | None:
    """What an operation id is bound to at its first intent (EFF-6)."""
    if not isinstance(payload, ToolIntent) or event.operation_id is None:
        return None
    bound = {
        "tool": payload.tool,
        "tool_version": payload.tool_version,
        "arguments": digest_text(sha256(canonical(payload.arguments))),
        "input_revision": payload.input_revision,
        "requester": payload.requester,
    }
    return sha256(canonical_plain(bound))
