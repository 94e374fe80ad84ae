"""The facade: one method per verb or read, each under the tenant of its caller.

INVARIANTS
1. The tenant of every call is the principal's; no argument can name another.
2. A write is prepared (checked, digested) before it is handed to the store's queue, so that a
   refusal of its shape never costs a group (APP-12).
3. What `create` and `claim` make follows from the request: the same request makes the same ids
   and the same bytes, so a retry is answered and not repeated (APP-9).
4. A read that cannot be answered raises; an absent value is never read as an empty one.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO, Literal, TypeVar

from core import acts, strictjson
from core.acts import Act, ActKind, Body
from core.acts import Standing as ActStanding
from core.canonical import canonical, sha256
from core.errors import AckUnknown, InvalidInput, MissingBlob, NotFound, UnknownType
from core.events import registry
from core.events.envelope import BlobRef, Event, NewEvent
from core.events.fields import Payload
from core.events.prepare import Prepared, prepare
from core.events.task import TaskStarted
from core.ids import check_id
from core.ids import trajectory_id as parse_trajectory_id
from core.instants import Instant, format_utc, from_datetime, to_datetime
from core.limits import (
    ACK_SECONDS_MAX,
    ACTS_PER_TRAJECTORY_MAX,
    EVENTS_PER_APPEND_MAX,
    LIST_COUNT_MAX,
    PAGE_ROWS,
    PAGE_ROWS_MAX,
    PAYLOAD_BYTES_MAX,
)
from core.principal import Principal
from core.query import Query, parse
from core.record.difference import Difference
from core.record.record import TrajectoryRecord
from core.rules.prices import Derived, Table
from runtime import listing
from runtime.indexer import indexed_text, reader
from runtime.listing import SORTS, ListPage, SearchPage
from runtime.pricing import PRICE_KINDS, Tables, derived
from runtime.time_travel import RecordView, of_store
from runtime.tree import Tree, tree_of
from store.ports import (
    Ack,
    ActCommand,
    AppendCommand,
    BlobStore,
    ClaimCommand,
    CreateCommand,
    Finding,
    Grant,
    GroupStats,
    Head,
    ImportSource,
    LedgerRow,
    Notices,
    Projections,
    RecoveryStore,
    StoreFacts,
    TextIndex,
)

__all__ = ["SORTS", "Difference", "ListPage", "RecordView", "Runtime", "SearchPage"]

Result = TypeVar("Result")

#: Events looked at for one that states when it occurred.
_NEAR = 50
_ACTS_PAGE = 1000
#: Revisions of one source that stand for one another: one for each version of its importer.
REVISIONS_MAX = 100
RETRACTABLE: frozenset[ActKind] = frozenset({"note", "price", "supersede"})
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?")


class Runtime:
    """Everything the pages, the API and the commands may ask of a store."""

    def __init__(
        self,
        store: RecoveryStore,
        blobs: BlobStore,
        projections: Projections,
        clock: Callable[[], int],
        text_index: TextIndex | None = None,
    ) -> None:
        """`clock` gives microseconds UTC; it stamps nothing in the log, the store does."""
        self.store = store
        self.blobs = blobs
        self.projections = projections
        self.clock = clock
        self.text_index = text_index
        self.time_travel = of_store(store, blobs, projections)
        self._price_tables = Tables(store)

    def create(
        self,
        who: Principal,
        *,
        request_id: str,
        standing: Literal["gated", "reported"],
        task: TaskStarted,
        trajectory_id: str | None = None,
    ) -> Ack:
        """Create a trajectory with its TaskStarted; the same request gets the same answer.

        Raises IntegrityConflict for another request under the id or a trajectory that exists.
        """
        check_id(request_id, "request_id")
        named = trajectory_id or _id_from_request(who.tenant, request_id)
        parse_trajectory_id(named)
        if task.standing != standing:
            raise InvalidInput("the task states another standing than the request", field="task")
        payload = registry.encode(task)
        asked = {"trajectory_id": trajectory_id, "standing": standing, "task": payload.decode()}
        first = NewEvent(
            event_id=_event_id("task", request_id),
            type="TaskStarted",
            schema_version=registry.FAMILIES["TaskStarted"].version,
            payload=payload,
        )
        command = CreateCommand(
            tenant=who.tenant,
            trajectory_id=named,
            standing=standing,
            issuer="service",
            request_id=request_id,
            request_digest=_request_digest("create", asked),
            first=prepare(named, first, task),
        )
        return wait(self.store.create(command))

    def claim(
        self,
        who: Principal,
        trajectory_id: str,
        *,
        request_id: str,
        worker: str,
        expected_epoch: int | None = None,
    ) -> Grant:
        """Grant the next owner epoch to `worker` (OWN-5).

        Its cause is what this service knows: `start` for the first grant, `hand_off` for one that
        was asked for after it; nothing here sees an expiry or an operator. Raises Fenced if
        `expected_epoch` is given and no longer newest, NotFound, IntegrityConflict.
        """
        check_id(request_id, "request_id")
        check_id(worker, "worker")
        head = self.head(who, trajectory_id)
        asked = {
            "trajectory_id": trajectory_id,
            "worker": worker,
            "expected_epoch": expected_epoch,
        }
        command = ClaimCommand(
            tenant=who.tenant,
            trajectory_id=trajectory_id,
            worker=worker,
            cause="start" if head.owner_epoch == 0 else "hand_off",
            request_id=request_id,
            request_digest=_request_digest("claim", asked),
            expected_epoch=expected_epoch,
        )
        return wait(self.store.claim(command))

    def append(
        self,
        who: Principal,
        trajectory_id: str,
        *,
        owner_epoch: int,
        worker: str,
        request_id: str,
        events: Sequence[NewEvent],
        payloads: Sequence[Payload | dict[str, Any] | None] | None = None,
        expected_head: int | None = None,
        incarnation: str | None = None,
    ) -> Future[Ack]:
        """Append events as the worker that holds `owner_epoch`; resolves at the barrier.

        `payloads` are those of the events, decoded from their very bytes, where the caller has
        them. `incarnation` is that of the grant; given, another store's epoch is fenced too
        (INS-4).

        Raises at once what can be refused without the log (InvalidInput, UnknownType, TooLarge,
        MissingBlob for a payload blob); the future raises the rest.
        """
        check_id(request_id, "request_id")
        check_id(worker, "worker")
        if not events:
            raise InvalidInput("an append holds at least one event", field="events")
        if len(events) > EVENTS_PER_APPEND_MAX:
            raise InvalidInput(
                f"an append holds at most {EVENTS_PER_APPEND_MAX} events", field="events"
            )
        decoded = payloads if payloads is not None else (None,) * len(events)
        prepared = tuple(
            [
                self._prepare(who, trajectory_id, event, typed)
                for event, typed in zip(events, decoded, strict=True)
            ]
        )
        return self.store.append(
            AppendCommand(
                tenant=who.tenant,
                trajectory_id=trajectory_id,
                issuer="worker",
                door="append",
                request_id=request_id,
                events=prepared,
                owner_epoch=owner_epoch,
                worker=worker,
                expected_head=expected_head,
                incarnation=incarnation,
            )
        )

    def _prepare(
        self,
        who: Principal,
        trajectory_id: str,
        event: NewEvent,
        payload: Payload | dict[str, Any] | None = None,
    ) -> Prepared:
        if event.payload is not None or event.payload_ref is None:
            return prepare(trajectory_id, event, payload)
        if event.payload_ref.length > PAYLOAD_BYTES_MAX:
            raise InvalidInput(
                f"a payload is at most {PAYLOAD_BYTES_MAX} bytes", field="payload_ref"
            )
        try:
            data = self.blobs.read(who.tenant, event.payload_ref.digest)
        except NotFound as error:
            raise MissingBlob(
                f"event {event.event_id} names payload {event.payload_ref.digest}, which is not "
                "stored here yet; put it first",
                digests=[event.payload_ref.digest],
            ) from error
        if len(data) != event.payload_ref.length:
            raise InvalidInput(
                f"payload_ref says {event.payload_ref.length} bytes, the blob has {len(data)}",
                field="payload_ref",
            )
        if canonical(strictjson.loads(data)) != data:
            raise InvalidInput(
                f"the payload of event {event.event_id} is not canonical JSON (RFC 8785), so its "
                "digest would depend on its layout; put its canonical bytes",
                field="payload_ref",
            )
        typed = registry.decode(event.type, event.schema_version, data)
        return prepare(trajectory_id, event, typed)

    def put_blob(
        self, who: Principal, data: bytes | BinaryIO, *, limit: int | None = None
    ) -> BlobRef:
        """Store bytes durably under their digest and give this tenant a reference to them."""
        return self.blobs.put(who.tenant, data, limit=limit)

    # --- acts ------------------------------------------------------------------------------------

    def act(
        self,
        who: Principal,
        kind: ActKind,
        body: Body | Mapping[str, object],
        *,
        request_id: str,
        trajectory_id: str | None = None,
        boundary: int | None = None,
        reason: str | None = None,
        expected_last: int | None = None,
    ) -> Act:
        """Record what a person does beside the log; answered once it is durable.

        `body` is typed or JSON values. The same request gets the same act again. Raises
        InvalidInput, NotFound (trajectory, boundary, or the act to retract), HeadMoved if
        `expected_last` is given and another act about the same has come since, TooLarge,
        IntegrityConflict for another act under the request id.
        """
        typed = body if isinstance(body, Body) else acts.decode(kind, dict(body))
        asked = {
            "kind": kind,
            "body": acts.encode(typed).decode(),
            "actor": who.name,
            "trajectory_id": trajectory_id,
            "boundary": boundary,
            "reason": reason,
            "expected_last": expected_last,
        }
        command = ActCommand(
            tenant=who.tenant,
            kind=kind,
            body=typed,
            actor=who.name,
            request_id=check_id(request_id, "request_id"),
            request_digest=_request_digest("act", asked),
            trajectory_id=trajectory_id,
            boundary=boundary,
            reason=reason,
            expected_last=expected_last,
        )
        self._check_act(who, typed, trajectory_id)
        if kind in ("withdraw", "reinstate") and trajectory_id is not None:
            self._check_withdrawal(who, kind, trajectory_id, request_id)
        return wait(self.store.act(command))

    def _check_act(self, who: Principal, body: Body, trajectory_id: str | None) -> None:
        """What one act says of others: it retracts one that is there, and supersedes by one that
        it does not stand for itself."""
        if isinstance(body, acts.Retract):
            found = self.store.acts(who.tenant, after=body.number - 1, limit=1)
            if not found or found[0].number != body.number:
                raise NotFound(f"there is no act {body.number}", number=body.number)
            if found[0].trajectory_id != trajectory_id or found[0].kind not in RETRACTABLE:
                raise InvalidInput(
                    f"act {body.number} is a {found[0].kind} about "
                    f"{found[0].trajectory_id or 'no trajectory'}; a retraction names a note or "
                    "a supersession of its trajectory, or a price",
                    field="number",
                )
        if isinstance(body, acts.Supersede) and trajectory_id is not None:
            newest = self.newest_revision(who, body.by)
            if newest == trajectory_id:
                raise InvalidInput(
                    f"{trajectory_id} already supersedes {body.by}; a revision is superseded by a "
                    "newer one only",
                    field="by",
                )

    def _check_withdrawal(
        self, who: Principal, kind: ActKind, trajectory_id: str, request_id: str
    ) -> None:
        """InvalidInput for a second withdrawal, and for bringing back what was not withdrawn; an
        act that was asked for before is answered again."""
        now = self.standing_of(who, trajectory_id)
        if (now.withdrawn is not None) != (kind == "withdraw"):
            return
        earlier = self.store.acts(
            who.tenant, kinds=(kind,), trajectory_id=trajectory_id, limit=ACTS_PER_TRAJECTORY_MAX
        )
        if any(act.request_id == request_id for act in earlier):
            return
        if now.withdrawn is None:
            raise InvalidInput(f"{trajectory_id} is not withdrawn", field="kind")
        raise InvalidInput(
            f"{trajectory_id} was withdrawn already, by {now.withdrawn.actor} at "
            f"{format_utc(now.withdrawn.recorded_at)}",
            field="kind",
        )

    def newest_revision(self, who: Principal, trajectory_id: str) -> str:
        """The trajectory that stands for this one now: itself, unless it was superseded."""
        named = trajectory_id
        for _ in range(REVISIONS_MAX):
            now = acts.about(
                self._all_acts(who, kinds=("supersede", "retract"), trajectory_id=named)
            )
            if now.superseded is None or not isinstance(now.superseded.body, acts.Supersede):
                return named
            named = now.superseded.body.by
        raise InvalidInput(f"{trajectory_id} has more than {REVISIONS_MAX} revisions")

    def acts(
        self,
        who: Principal,
        *,
        kinds: tuple[ActKind, ...] = (),
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> Sequence[Act]:
        """Acts numbered above `after`, in order; those of `kinds`, about `trajectory_id` (empty:
        about none)."""
        return self.store.acts(
            who.tenant, kinds=kinds, trajectory_id=trajectory_id, after=after, limit=limit
        )

    def standing_of(self, who: Principal, trajectory_id: str) -> ActStanding:
        """Notes, tags, and whether it was withdrawn or superseded; NotFound."""
        self.head(who, trajectory_id)
        return acts.about(self._all_acts(who, trajectory_id=trajectory_id))

    def views(self, who: Principal) -> dict[str, Act]:
        """Saved views by name, in the order they were first saved."""
        return acts.views(self._all_acts(who, kinds=("view", "drop_view"), trajectory_id=""))

    def prices(self, who: Principal) -> tuple[Act, ...]:
        """Prices that people stated and that hold; those shipped are in `core.rules.prices`."""
        return acts.prices(self.price_acts(who))

    def price_table(self, who: Principal) -> Table:
        """Shipped prices, and over them those that people stated."""
        return self._price_tables.at(who.tenant)

    def price_acts(self, who: Principal) -> tuple[Act, ...]:
        """All acts about prices in order, those that no longer hold too; the number of the last
        is what `expected_last` of the next is."""
        return tuple(self._all_acts(who, kinds=PRICE_KINDS, trajectory_id=""))

    def derived_cost(self, who: Principal, trajectory_id: str) -> Derived | None:
        """What the tokens of a trajectory's summary cost by the price table; None where no summary
        has been made yet."""
        summary = self.summary(who, trajectory_id)
        return derived(summary, self.price_table(who)) if summary is not None else None

    def _all_acts(
        self,
        who: Principal,
        *,
        kinds: tuple[ActKind, ...] = (),
        trajectory_id: str | None = None,
    ) -> Iterator[Act]:
        after = 0
        while True:
            page = self.acts(
                who, kinds=kinds, trajectory_id=trajectory_id, after=after, limit=_ACTS_PAGE
            )
            yield from page
            if len(page) < _ACTS_PAGE:
                return
            after = page[-1].number

    # --- reads -----------------------------------------------------------------------------------

    def head(self, who: Principal, trajectory_id: str) -> Head:
        """Head of one trajectory; NotFound if this tenant has none of that id."""
        return self.store.head(who.tenant, trajectory_id)

    def heads(self, who: Principal, *, after: str = "", limit: int = 1000) -> Sequence[Head]:
        """Heads of this tenant by trajectory id, beyond `after`."""
        return self.store.heads(who.tenant, after=after, limit=limit)

    def record_at(
        self, who: Principal, trajectory_id: str, boundary: int | None = None
    ) -> RecordView:
        """The record at `boundary` (None: the head); NotFound beyond the head."""
        return self.time_travel.record_at(who.tenant, trajectory_id, boundary)

    def events(
        self,
        who: Principal,
        trajectory_id: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Event]:
        """Events with after < sequence_number <= upto, in order, at most `limit`."""
        return self.store.events(who.tenant, trajectory_id, after=after, upto=upto, limit=limit)

    def event(self, who: Principal, trajectory_id: str, sequence_number: int) -> Event:
        """One event; NotFound."""
        found = self.events(
            who, trajectory_id, after=sequence_number - 1, upto=sequence_number, limit=1
        )
        if not found:
            raise NotFound(
                f"{trajectory_id} has no event {sequence_number}",
                trajectory_id=trajectory_id,
                sequence_number=sequence_number,
            )
        return found[0]

    def event_by_id(self, who: Principal, trajectory_id: str, event_id: str) -> Event | None:
        """The event of that id, or None."""
        return self.store.event_by_id(who.tenant, trajectory_id, event_id)

    def operation_events(
        self, who: Principal, trajectory_id: str, operation_id: str, *, upto: int | None = None
    ) -> list[Event]:
        """Events that state this operation id, in order, at most 200."""
        return self.store.operation_events(who.tenant, trajectory_id, operation_id, upto=upto)

    def invocation_events(
        self, who: Principal, trajectory_id: str, invocation_id: str, *, upto: int | None = None
    ) -> list[Event]:
        """Events that state this invocation id, in order, at most 200."""
        return self.store.invocation_events(who.tenant, trajectory_id, invocation_id, upto=upto)

    def payload(self, who: Principal, event: Event) -> bytes:
        """The payload's bytes, from the row or its blob.

        Raises CorruptAt if a blob's bytes differ from its digest, NotFound(missing=True) if its
        file is gone: missing is not empty.
        """
        if event.payload is not None:
            return event.payload
        assert event.payload_ref is not None
        return self.blobs.read(who.tenant, event.payload_ref.digest)

    def typed(self, who: Principal, event: Event) -> Payload | dict[str, Any] | None:
        """The decoded payload; None if this version does not know the type (LOG-6)."""
        try:
            return registry.decode(event.type, event.schema_version, self.payload(who, event))
        except UnknownType:
            return None

    def walk(
        self, who: Principal, trajectory_id: str, first: int = 0, last: int | None = None
    ) -> Iterator[TrajectoryRecord]:
        """The record of every boundary from `first` to `last` (None: the head), in order."""
        return self.time_travel.walk(who.tenant, trajectory_id, first, last)

    def difference(self, who: Principal, trajectory_id: str, a: int, b: int) -> Difference:
        """What differs between the records at boundaries a and b, as paths with old and new."""
        return self.time_travel.difference(who.tenant, trajectory_id, a, b)

    def neighbour(
        self,
        who: Principal,
        trajectory_id: str,
        *,
        marks: tuple[int, ...],
        sequence_number: int,
        forward: bool,
    ) -> int | None:
        """Next or previous sequence number in one of these lanes, or None."""
        return self.store.neighbour(
            who.tenant,
            trajectory_id,
            marks=marks,
            sequence_number=sequence_number,
            forward=forward,
        )

    def marks(self, who: Principal, trajectory_id: str, *, first: int, last: int) -> bytes:
        """The marks of the events first..last, one byte each; fewer where the log ends before."""
        return self.store.marks(who.tenant, trajectory_id, first=first, last=last)

    def at_time(self, who: Principal, trajectory_id: str, instant: Instant) -> int:
        """Last boundary at or before the instant on the clock of `clock_of`; 0 if none.

        By bisection: where stated times step back, it is one of the boundaries they step over.
        """
        if self.clock_of(who, trajectory_id) == "recorded":
            return self.store.at_time(who.tenant, trajectory_id, instant)
        low, high = 0, self.head(who, trajectory_id).sequence_number
        while low < high:
            middle = (low + high + 1) // 2
            stated = self.shown_at(who, trajectory_id, middle)
            # What states no time near it happened no later than what follows.
            if stated is None or stated <= instant:
                low = middle
            else:
                high = middle - 1
        return low

    def clock_of(self, who: Principal, trajectory_id: str) -> Literal["occurred", "recorded"]:
        """The clock a time of this trajectory is on: that of its producer where the first events
        state when they occurred, else that of the store."""
        first = self.events(who, trajectory_id, upto=_NEAR, limit=_NEAR)
        stated = any(event.occurred_at is not None for event in first)
        return "occurred" if stated else "recorded"

    def shown_at(self, who: Principal, trajectory_id: str, boundary: int) -> Instant | None:
        """When the newest event at or near before a boundary that states a time occurred; where
        none does, None."""
        near = self.events(
            who, trajectory_id, after=max(0, boundary - _NEAR), upto=boundary, limit=_NEAR
        )
        return next((e.occurred_at for e in reversed(near) if e.occurred_at is not None), None)

    def at_step(self, who: Principal, trajectory_id: str, step: int) -> int | None:
        """First sequence number that states this step, or None."""
        return self.store.at_step(who.tenant, trajectory_id, step)

    def find(
        self, who: Principal, trajectory_id: str, text: str, *, near: int | None = None
    ) -> int | None:
        """The boundary a typed jump means, or None.

        `418` or `@418`; `step:12`; `head`; a time (ISO 8601, UTC where it names no zone; `03:00` or
        `03:00:12` on the day of the boundary `near`) on the clock of `clock_of`; an event,
        operation or invocation id.
        """
        asked = text.strip()
        head = self.head(who, trajectory_id).sequence_number
        if asked.lower() in ("head", "end"):
            return head
        number = asked.removeprefix("@").replace(",", "")
        if number.isascii() and number.isdigit() and len(number) <= 16:
            return int(number) if int(number) <= head else None
        key, _, value = asked.partition(":")
        if key.lower() == "step" and value.isascii() and value.isdigit() and len(value) <= 16:
            return self.at_step(who, trajectory_id, int(value))
        moment = _instant(asked)
        if moment is None and (time_of_day := _time_of_day(asked)) is not None:
            moment = self._on_day_of(
                who, trajectory_id, head if near is None else near, time_of_day
            )
        if moment is not None:
            return self.at_time(who, trajectory_id, moment)
        return self._find_id(who, trajectory_id, asked)

    def _on_day_of(
        self, who: Principal, trajectory_id: str, boundary: int, time_of_day: dt.time
    ) -> Instant | None:
        """A time of day on the UTC day that a boundary shows; None for an empty log."""
        at = self.shown_at(who, trajectory_id, max(boundary, 1))
        if at is None or self.clock_of(who, trajectory_id) == "recorded":
            found = self.events(who, trajectory_id, after=max(boundary, 1) - 1, limit=1)
            at = found[0].recorded_at if found else None
        if at is None:
            return None
        day = to_datetime(at).date()
        return from_datetime(dt.datetime.combine(day, time_of_day, dt.UTC))

    def _find_id(self, who: Principal, trajectory_id: str, text: str) -> int | None:
        try:
            check_id(text, "id")
        except InvalidInput:
            return None
        event = self.event_by_id(who, trajectory_id, text)
        if event is not None:
            return event.sequence_number
        for read in (self.store.operation_events, self.store.invocation_events):
            found = read(who.tenant, trajectory_id, text, limit=1)
            if found:
                return found[0].sequence_number
        return None

    def list(
        self,
        who: Principal,
        *,
        sort: str = "active",
        descending: bool = True,
        after: tuple[object, str] | None = None,
        limit: int = 50,
        filters: Mapping[str, object] | None = None,
        query: Query | None = None,
        count_most: int | None = LIST_COUNT_MAX,
        explain: bool = False,
    ) -> ListPage:
        """One keyset page of summaries; InvalidInput for an unknown sort or filter.

        Counting the matches ends at `count_most` (None: never); `explain` counts what terms leave
        out because it was never recorded.
        """
        ask = listing.Ask(
            query=query or Query(""),
            filters=dict(filters or {}),
            sort=sort,
            descending=descending,
            after=after,
            limit=limit,
            count_most=count_most,
            explain=explain,
        )
        return listing.find(self.projections, self.text_index, who.tenant, ask)

    def search(
        self,
        who: Principal,
        text: str,
        *,
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = PAGE_ROWS,
    ) -> SearchPage:
        """Events that hold a text: of one trajectory those beyond `after`, or the first of each."""
        return listing.search(
            self.projections,
            self.text_index,
            who.tenant,
            text,
            trajectory_id=trajectory_id,
            after=after,
            limit=limit,
        )

    def text_of(self, who: Principal, trajectory_id: str, sequence_number: int) -> str:
        """What the full-text index reads of an event, with the texts of the messages it points at;
        NotFound, CorruptAt."""
        event = self.event(who, trajectory_id, sequence_number)
        value = strictjson.loads(self.payload(who, event))
        return indexed_text(event.type, value, reader(self.blobs, who.tenant))

    def query(self, text: str) -> Query:
        """What a query means now; its mistakes are in it."""
        return parse(text, self.clock())

    def summary(self, who: Principal, trajectory_id: str) -> Mapping[str, object] | None:
        """The summary row of one trajectory, or None where none has been made yet."""
        return self.projections.summary(who.tenant, trajectory_id)

    def children(
        self, who: Principal, trajectory_id: str, *, limit: int = PAGE_ROWS_MAX
    ) -> Sequence[Mapping[str, object]]:
        """Summaries of trajectories that name this one as parent, by id; withdrawn ones too."""
        return self.projections.children(who.tenant, (trajectory_id,), limit=limit)

    def tree(self, who: Principal, trajectory_id: str) -> Tree:
        """The tree of parent and sub-agents that a trajectory is in; NotFound."""
        self.head(who, trajectory_id)
        return tree_of(self.projections, who.tenant, trajectory_id)

    def tags(self, who: Principal, *, limit: int = PAGE_ROWS_MAX) -> Sequence[tuple[str, int]]:
        """Tags with how many listed trajectories have each, most used first."""
        return self.projections.tags(who.tenant, limit=limit)

    def verify(
        self, who: Principal, trajectory_id: str, *, upto: int | None = None
    ) -> Iterator[tuple[int, Finding | None]]:
        """Re-derive digests and chain: (sequence, None) as progress, findings where it differs."""
        self.head(who, trajectory_id)
        return self.store.verify(who.tenant, trajectory_id, upto=upto)

    def ledger(
        self,
        who: Principal,
        *,
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 200,
        newest: bool = False,
    ) -> Sequence[LedgerRow]:
        """Refused writes and incidents, in the ledger's own order: the first beyond `after`, or
        the newest."""
        return self.store.ledger(
            who.tenant, trajectory_id=trajectory_id, after=after, limit=limit, newest=newest
        )

    def staged(self, who: Principal, trajectory_id: str) -> Sequence[tuple[int, int]]:
        """Ranges installed beyond the first gap, inclusive."""
        return self.store.staged(who.tenant, trajectory_id)

    def all_sources(
        self, who: Principal, *, after: str = "", limit: int = 200
    ) -> Sequence[tuple[ImportSource, Instant]]:
        """What was imported, by source id beyond `after`, each with when it was last read."""
        return self.store.sources(who.tenant, after=after, limit=limit)

    def sources(self, who: Principal, trajectory_id: str) -> Sequence[ImportSource]:
        """What this trajectory was imported from."""
        return self.store.sources_of(who.tenant, trajectory_id)

    def blob_info(self, who: Principal, digest: str) -> BlobRef:
        """Length of a blob this tenant holds; NotFound otherwise, foreign and unknown alike."""
        found = self.blobs.info(who.tenant, digest)
        if found is None:
            raise NotFound("there is no such blob", digest=digest)
        return found

    def blob(self, who: Principal, digest: str) -> bytes:
        """Verified bytes of a blob."""
        return self.blobs.read(who.tenant, digest)

    def open_blob(self, who: Principal, digest: str) -> BinaryIO:
        """A verified stream of a blob; the caller closes it."""
        return self.blobs.open(who.tenant, digest)

    def blob_range(self, who: Principal, digest: str, start: int, end: int) -> bytes:
        """Bytes start..end of a blob."""
        return self.blobs.read_range(who.tenant, digest, start, end)

    def blob_state(self, who: Principal, digest: str) -> Literal["present", "missing", "unknown"]:
        """Whether a blob can be read: `missing` has a reference and no file."""
        return self.blobs.state(who.tenant, digest)

    def facts(self) -> StoreFacts:
        """What the store declared and what was verified of it."""
        return self.store.facts()

    def stats(self) -> GroupStats:
        """Counters of the writer since start."""
        return self.store.stats()

    def blob_totals(self) -> tuple[int, int]:
        """(count, bytes) of stored blobs."""
        return self.blobs.totals()

    def subscribe(self, *, desk: bool = False) -> Notices:
        """After-commit notices, with `desk` also of views and prices; the caller closes them."""
        return self.store.subscribe(desk=desk)


def wait(future: Future[Result]) -> Result:
    """The answer of a write; AckUnknown if it has not come within ACK_SECONDS_MAX (APP-6)."""
    try:
        return future.result(timeout=ACK_SECONDS_MAX)
    except TimeoutError as error:
        raise AckUnknown(
            f"the durable barrier was not answered within {ACK_SECONDS_MAX:.0f} s; it is not "
            "known whether this is stored. Send the identical request again"
        ) from error


def _request_digest(verb: str, asked: Mapping[str, object]) -> bytes:
    return sha256(f"strandline/request/{verb}/1\n".encode(), canonical(dict(asked)))


def _id_from_request(tenant: str, request_id: str) -> str:
    """`tr_` and 26 letters and digits: the id a create that names none gets."""
    raw = sha256(b"strandline/trajectory-id/1\n", tenant.encode(), b"\n", request_id.encode())
    return "tr_" + base64.b32encode(raw).decode().lower()[:26]


def _event_id(prefix: str, request_id: str) -> str:
    return f"{prefix}.{sha256(request_id.encode()).hex()[:32]}"


def _time_of_day(text: str) -> dt.time | None:
    """`3:00`, `03:00`, `03:00:12`, with or without a fraction; None for another text."""
    found = _CLOCK.fullmatch(text.removesuffix(" UTC"))
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    return dt.time(hour, minute, second, int((found.group(4) or "0").ljust(6, "0")))


def _instant(text: str) -> Instant | None:
    if len(text) < 8 or not text[:4].isdigit() or text[4:5] != "-":
        return None
    try:
        moment = dt.datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError:
        return None
    return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC))
