"""Re-derive digests and chain of a stored or installed log (ENV-1, ENV-2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from core.canonical import sha256
from core.errors import CorruptAt, StrandlineError
from core.events.envelope import (
    JSON_MEDIA_TYPE,
    Event,
    chain_start,
    chain_value,
    event_digest,
    payload_identity,
)
from store.ports import Finding, Head

_PAGE = 500
#: What a field of another kind than its column's makes of the code that hashes it.
_UNREADABLE = (StrandlineError, TypeError, ValueError, AttributeError, OverflowError)


class Reader(Protocol):
    """What `walk` reads."""

    def events(
        self,
        tenant: str,
        trajectory_id: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Event]: ...


def check_event(event: Event) -> None:
    """CorruptAt if the event's digests do not follow from what it holds."""
    problem = event_problem(event)
    if problem is not None:
        raise CorruptAt(
            f"event {event.sequence_number}: {problem}", sequence_number=event.sequence_number
        )


def event_problem(event: Event) -> str | None:
    """What is wrong with an event by itself; None if its digests hold."""
    if event.payload is not None:
        if event.payload_ref is not None:
            return "it has both a payload and a payload_ref"
        if sha256(event.payload) != event.payload_digest:
            return "the payload's digest is not the recorded one"
        if len(event.payload) != event.payload_length:
            return "the payload's length is not the recorded one"
    elif event.payload_ref is None:
        return "it has neither payload nor payload_ref"
    elif (
        event.payload_ref.digest != "sha256:" + event.payload_digest.hex()
        or event.payload_ref.length != event.payload_length
    ):
        return "payload_ref and the recorded payload digest differ"
    # An inline payload has just been held to its digest.
    known = (event.payload_digest, event.payload_length, JSON_MEDIA_TYPE)
    identity = known if event.payload is not None else payload_identity(event)
    if event_digest(event.trajectory_id, event, identity) != event.digest:
        return "the event's digest is not the recorded one"
    return None


def chain_after(before: bytes, event: Event) -> bytes:
    """The chain value this event must carry."""
    return chain_value(
        before,
        event.digest,
        sequence_number=event.sequence_number,
        recorded_at=event.recorded_at,
        issuer=event.issuer,
        owner_epoch=event.owner_epoch,
        worker=event.worker,
        control_epoch=event.control_epoch,
        record_version=event.record_version,
        reducer_version=event.reducer_version,
    )


def walk(store: Reader, head: Head, upto: int | None) -> Iterator[tuple[int, Finding | None]]:
    """Progress every page, and each finding; stops at the first break of the chain."""
    end = head.sequence_number if upto is None else min(upto, head.sequence_number)
    chain, number, recorded_at = chain_start(head.trajectory_id), 0, 0

    def finding(invariant: str, at: int | None, detail: str) -> Finding:
        return Finding(invariant, head.tenant, head.trajectory_id, at, detail)

    while number < end:
        page, unread = _read(store, head, number, end)
        for event in page:
            number += 1
            if event.sequence_number != number:
                yield number, finding("LOG-1", number, f"event {number} is not there")
                return
            try:
                problem, chain = event_problem(event), chain_after(chain, event)
            except _UNREADABLE as error:
                yield number, finding("ENV-1", number, f"it cannot be read: {error}")
                return
            if problem is not None:
                yield number, finding("ENV-1", number, problem)
            if chain != event.chain:
                yield (
                    number,
                    finding("ENV-2", number, "the chain breaks: what follows proves nothing"),
                )
                return
            if event.recorded_at < recorded_at:
                yield number, finding("LOG-3", number, "recorded_at decreases")
            recorded_at = event.recorded_at
        if unread is not None:
            yield number + 1, finding("ENV-1", number + 1, unread)
            return
        if not page:
            yield number + 1, finding("LOG-1", number + 1, "the log ends before its head")
            return
        yield number, None
    if end == head.sequence_number and chain != head.chain:
        yield end, finding("ENV-2", end or None, "the head's chain value is not the log's")


def _read(store: Reader, head: Head, after: int, end: int) -> tuple[list[Event], str | None]:
    """The next page, or what can be read of it and why its next event cannot."""
    limit, page = _PAGE, list[Event]()
    while True:
        try:
            found = store.events(
                head.tenant, head.trajectory_id, after=after + len(page), upto=end, limit=limit
            )
        except CorruptAt as error:
            if limit == 1:
                return page, str(error)
            limit = 1  # Name the event: one by one up to it.
            continue
        page += found
        if limit > 1 or not found or len(page) >= _PAGE:
            return page, None
