"""Decide a group: each member in order, on what the store holds and earlier members left.

Pure and free of any database: takes `Known`, gives `Writes` and one outcome per member. The
caller makes the writes durable together and only then answers.

INVARIANTS
1. A refused member leaves nothing behind but its ledger row (APP-4).
2. Sequence numbers continue the head by one; recorded_at never decreases (LOG-1, LOG-3).
3. A known event id is answered before the fence is looked at (APP-2), the fence before the
   issuer's right (APP-1, WHO-1), and both before anything that could reveal or change the log.
4. Events are stamped with the grant they were accepted under, and with control_epoch and
   record_version of the record they follow (ORD-2, ORD-3). OwnershipGranted carries the epoch it
   grants, other unfenced events the newest epoch and no worker, imports epoch 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.canonical import sha256
from core.errors import (
    Fenced,
    HeadMoved,
    IntegrityConflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    StrandlineError,
    TooLarge,
    UnresolvedReference,
)
from core.events import registry
from core.events.envelope import Issuer, NewEvent, Standing, chain_start, chain_value
from core.events.ownership import OwnershipGranted
from core.events.prepare import NO_TURN, Prepared, prepare
from core.instants import Instant
from core.limits import EVENTS_PER_TRAJECTORY_MAX
from store import acts, decide_install
from store.overlay import Overlay
from store.ports import (
    Ack,
    ActCommand,
    AppendCommand,
    ClaimCommand,
    CreateCommand,
    Grant,
    InstallCommand,
)
from store.state import (
    BarrierCommand,
    BlobsCommand,
    Done,
    Draft,
    HeadState,
    Known,
    Member,
    Name,
    NewRequest,
    NewRow,
    Outcome,
    Rules,
    StoredEvent,
    Wants,
    Writes,
)

#: An intent of a gated trajectory names one event of each (APP-4).
_ADMISSION = frozenset({"Authorized", "BudgetReserved"})
#: (owner epoch, worker) an event is stamped with.
Under = tuple[int, str | None]


def wants(members: Sequence[Member]) -> Wants:
    """What must be read before `decide` can run."""
    needed = Wants()
    for member in members:
        command = member.command
        if isinstance(command, BarrierCommand):
            continue
        if isinstance(command, BlobsCommand):
            continue
        if isinstance(command, ActCommand):
            acts.want(needed, command)
            continue
        name = (command.tenant, command.trajectory_id)
        needed.heads.add(name)
        if isinstance(command, AppendCommand):
            for prepared in command.events:
                _want(needed, name, prepared)
            if command.source is not None and command.source_length is not None:
                needed.sources.add((command.tenant, command.source.source_id))
        elif isinstance(command, InstallCommand):
            decide_install.want(needed, name, member)
        else:
            needed.requests.add((command.tenant, command.request_id))
            if isinstance(command, CreateCommand) and command.first is not None:
                _want(needed, name, command.first)
    return needed


def _want(needed: Wants, name: Name, prepared: Prepared) -> None:
    needed.fresh.add((name, prepared.event.event_id))
    for event_id in prepared.names_events:
        needed.named.add((name, event_id))
    for digest, _ in prepared.names_blobs:
        needed.blobs.add((name[0], digest))
    if prepared.binding is not None and prepared.event.operation_id is not None:
        needed.bindings.add((name, prepared.event.operation_id))


def decide(
    members: Sequence[Member], known: Known, *, now: Instant, rules: Rules
) -> tuple[Writes, list[Outcome]]:
    """The writes of the whole group, and each member's outcome."""
    overlay = Overlay(known, Writes(), now, rules)
    outcomes: list[Outcome] = []
    for member in members:
        try:
            outcomes.append(_decide_one(overlay, member))
        except StrandlineError as error:
            overlay.note_refusal(member.command, error)
            outcomes.append(error)
    return overlay.writes, outcomes


def _decide_one(overlay: Overlay, member: Member) -> Outcome:
    command = member.command
    if isinstance(command, AppendCommand):
        return _append(overlay, command, member.bodies)
    if isinstance(command, CreateCommand):
        return _create(overlay, command, member.bodies)
    if isinstance(command, ClaimCommand):
        return _claim(overlay, command)
    if isinstance(command, InstallCommand):
        return decide_install.install(overlay, command, member)
    if isinstance(command, ActCommand):
        return acts.decide_act(overlay, command)
    if isinstance(command, BlobsCommand):
        for digest, length in command.blobs:
            if (command.tenant, digest) not in overlay.known.blobs:
                overlay.known.blobs[command.tenant, digest] = length
                overlay.writes.blobs.append((command.tenant, digest, length))
        return Done()
    overlay.writes.starts = command.starts
    return Done()


# --- append --------------------------------------------------------------------------------------


def _append(overlay: Overlay, command: AppendCommand, bodies: tuple[object, ...]) -> Draft:
    name = (command.tenant, command.trajectory_id)
    head = overlay.known.heads.get(name)
    if head is None:
        if command.creates is None:
            raise NotFound(f"there is no trajectory {command.trajectory_id}")
        head = _new_head(overlay, command, command.creates)
    _check_source(overlay, command)
    try:
        known = _known_events(overlay.known.events.get(name), command.events)
    except IntegrityConflict:
        # Two importers may cut a growing source into different segments; the second looks again.
        if command.door == "import":
            _check_expected(head, command)
        raise
    if known is not None and None not in known:
        return _duplicate(overlay, command, head, [one for one in known if one is not None])
    fenced = command.owner_epoch is not None or command.door == "append"
    if fenced:
        _check_fence(head, command, overlay.rules.incarnation)
    fresh = list(zip(command.events, bodies, strict=True))
    if known is not None:
        fresh = [one for one, stored in zip(fresh, known, strict=True) if stored is None]
    for prepared, _ in fresh:
        overlay.check_right(head.standing, command.issuer, command.door, prepared.event.type)
    _check_expected(head, command)
    under: Under = (head.owner_epoch, command.worker if fenced else None)
    if command.door == "import":
        under = (0, None)
    return _accept(overlay, head, (command, known), fresh, under)


def _check_source(overlay: Overlay, command: AppendCommand) -> None:
    """HeadMoved where another import of the source has come since this was decided."""
    if command.source is None or command.source_length is None:
        return
    known = overlay.known.sources.get((command.tenant, command.source.source_id), 0)
    if known != command.source_length:
        raise HeadMoved(
            f"{known} bytes of this source are imported, this was decided on "
            f"{command.source_length}",
            reading_length=known,
            source_length=command.source_length,
        )


def _keep_source(overlay: Overlay, command: AppendCommand) -> None:
    """What to remember of the source, with the events."""
    source = command.source
    if source is not None:
        overlay.writes.sources.append((command.tenant, source))
        overlay.known.sources[command.tenant, source.source_id] = source.reading_length


def _check_expected(head: HeadState, command: AppendCommand) -> None:
    if command.expected_head is not None and command.expected_head != head.sequence_number:
        raise HeadMoved(
            f"the log is at {head.sequence_number}, this was decided on {command.expected_head}",
            head=head.sequence_number,
            expected_head=command.expected_head,
        )


def _known_events(
    stored_events: dict[str, StoredEvent] | None, events: Sequence[Prepared]
) -> list[StoredEvent | None] | None:
    """Per event the stored one of its id, None where all are new; IntegrityConflict if one differs.

    One id twice in a request is refused too.
    """
    if len(events) > 1:
        _check_repeats(events)
    if not stored_events:
        return None
    found = [stored_events.get(prepared.event.event_id) for prepared in events]
    if found.count(None) == len(found):
        return None
    for prepared, stored in zip(events, found, strict=True):
        if stored is not None and stored.digest != prepared.digest:
            event_id = prepared.event.event_id
            raise IntegrityConflict(
                f"event {event_id} is already stored at {stored.sequence_number} with different "
                "content; nothing was overwritten",
                event_id=event_id,
                sequence_number=stored.sequence_number,
                stored_digest=stored.digest.hex(),
                offered_digest=prepared.digest.hex(),
            )
    return found


def _check_repeats(events: Sequence[Prepared]) -> None:
    seen: dict[str, bytes] = {}
    for prepared in events:
        before = seen.setdefault(prepared.event.event_id, prepared.digest)
        if before != prepared.digest:
            raise IntegrityConflict(
                f"event {prepared.event.event_id} stands twice in this request, with different "
                "content",
                event_id=prepared.event.event_id,
            )
    if len(seen) != len(events):
        raise InvalidInput("one event id stands twice in this request", field="event_id")


def _duplicate(
    overlay: Overlay, command: AppendCommand, head: HeadState, stored: list[StoredEvent]
) -> Draft:
    """Everything is stored already: the acknowledgement, whatever epoch the caller has."""
    _keep_source(overlay, command)
    return Draft(
        trajectory_id=command.trajectory_id,
        sequence_numbers=tuple(one.sequence_number for one in stored),
        head=head.sequence_number,
        chain=head.chain,
        owner_epoch=stored[0].owner_epoch,
        duplicate=True,
        duplicates=(True,) * len(stored),
        fenced=command.owner_epoch is not None and command.owner_epoch != head.owner_epoch,
    )


def _check_fence(head: HeadState, command: AppendCommand, incarnation: str) -> None:
    newest: dict[str, object] = {"owner_epoch": head.owner_epoch}
    if command.owner_epoch is None or command.worker is None:
        raise InvalidInput(
            "this append states no owner_epoch and worker; claim the trajectory first",
            field="owner_epoch",
        )
    if command.incarnation is not None and command.incarnation != incarnation:
        raise Fenced(
            "this epoch was granted by another incarnation of the store; claim again",
            incarnation=incarnation,
            **newest,
        )
    if command.owner_epoch != head.owner_epoch or head.owner_epoch == 0:
        raise Fenced(
            f"owner epoch {command.owner_epoch} is not the newest, {head.owner_epoch} is; evidence "
            "of what was already sent belongs in the result inbox",
            **newest,
        )
    if command.worker != head.worker:
        raise Fenced(
            f"owner epoch {head.owner_epoch} was not granted to worker {command.worker}", **newest
        )


def _accept(
    overlay: Overlay,
    head: HeadState,
    request: tuple[AppendCommand, list[StoredEvent | None] | None],
    fresh: Sequence[tuple[Prepared, object]],
    under: Under,
) -> Draft:
    """Check what the new events refer to, then stamp and chain them."""
    command, known = request
    _check_references(overlay, (head.tenant, head.trajectory_id), head, fresh)
    if command.door == "append":
        _check_steps(head.step, fresh)
    first = head.sequence_number + 1
    if head.sequence_number + len(fresh) > EVENTS_PER_TRAJECTORY_MAX:
        raise TooLarge(f"a trajectory holds at most {EVENTS_PER_TRAJECTORY_MAX} events")
    if (head.tenant, head.trajectory_id) not in overlay.known.heads:
        overlay.add_head(head)
    _stamp(overlay, head, command.issuer, fresh, under)
    _keep_source(overlay, command)
    numbers = range(first, head.sequence_number + 1)
    if known is None:
        return Draft(
            command.trajectory_id,
            tuple(numbers),
            head.sequence_number,
            head.chain,
            under[0],
            False,
            (False,) * len(numbers),
        )
    new = iter(numbers)
    return Draft(
        trajectory_id=head.trajectory_id,
        sequence_numbers=tuple(
            [next(new) if stored is None else stored.sequence_number for stored in known]
        ),
        head=head.sequence_number,
        chain=head.chain,
        owner_epoch=known[0].owner_epoch if known[0] is not None else under[0],
        duplicates=tuple([stored is not None for stored in known]),
    )


def _check_steps(step: int, events: Sequence[tuple[Prepared, object]]) -> None:
    """A producer states the present step or the next; only `Resumed` lowers it (ORD-4)."""
    for prepared, _ in events:
        event = prepared.event
        if event.step is not None and event.step not in (step, step + 1):
            raise InvalidInput(
                f"event {event.event_id} states step {event.step}; the present step is {step}, so "
                f"it may state {step} or {step + 1}, or none",
                field="step",
                event_id=event.event_id,
                step=step,
            )
        step = prepared.turn.after(step, event.step)


def _check_references(
    overlay: Overlay, name: Name, head: HeadState, events: Sequence[tuple[Prepared, object]]
) -> None:
    """Blobs durable (APP-3), events resolved (APP-4), operation ids bound once (EFF-6)."""
    earlier: dict[str, str] = {}
    bound: dict[str, bytes] = {}
    for prepared, _ in events:
        event = prepared.event
        if prepared.names_blobs:
            overlay.check_blobs(name[0], event.event_id, prepared.names_blobs)
        if prepared.names_events or (event.type == "ToolIntent" and head.standing == "gated"):
            _check_admission(overlay, name, head, prepared, earlier)
        if prepared.binding is not None and event.operation_id is not None:
            held = bound.get(event.operation_id) or overlay.known.bindings.get(
                (name, event.operation_id)
            )
            if held is not None and held != prepared.binding:
                raise IntegrityConflict(
                    f"operation {event.operation_id} is bound to another tool, version, arguments, "
                    "input revision or requester; an operation id is never used twice",
                    operation_id=event.operation_id,
                    event_id=event.event_id,
                )
            bound[event.operation_id] = prepared.binding
        earlier[event.event_id] = event.type


def _check_admission(
    overlay: Overlay, name: Name, head: HeadState, prepared: Prepared, earlier: dict[str, str]
) -> None:
    types: list[str] = []
    for event_id in prepared.names_events:
        stored = overlay.known.events.get(name, {}).get(event_id)
        type_ = stored.type if stored is not None else earlier.get(event_id)
        if type_ is None:
            raise UnresolvedReference(
                f"event {prepared.event.event_id} names {event_id}, which is not earlier in this "
                "log",
                event_id=prepared.event.event_id,
                named=event_id,
            )
        types.append(type_)
    gated = head.standing == "gated" and prepared.event.type == "ToolIntent"
    if (gated and set(types) != _ADMISSION) or not _ADMISSION.issuperset(types):
        raise UnresolvedReference(
            f"intent {prepared.event.event_id} must name an Authorized and a BudgetReserved event "
            "earlier in this log",
            event_id=prepared.event.event_id,
            named=list(prepared.names_events),
        )


def _stamp(
    overlay: Overlay,
    head: HeadState,
    issuer: Issuer,
    events: Sequence[tuple[Prepared, object | None]],
    under: Under,
) -> None:
    """Give the events their place; nothing in here refuses."""
    epoch, worker = under
    name = (head.tenant, head.trajectory_id)
    known, writes, version = overlay.known, overlay.writes, overlay.rules.reducer_version
    stored = known.events.setdefault(name, {})
    recorded_at = max(overlay.now, head.recorded_at)
    sequence_number, chain = head.sequence_number, head.chain
    for prepared, body in events:
        sequence_number += 1
        chain = chain_value(
            chain,
            prepared.digest,
            sequence_number=sequence_number,
            recorded_at=recorded_at,
            issuer=issuer,
            owner_epoch=epoch,
            worker=worker,
            control_epoch=head.control_epoch,
            record_version=head.record_version,
            reducer_version=version,
        )
        writes.events.append(
            NewRow(
                head.tenant,
                head.key,
                sequence_number,
                recorded_at,
                issuer,
                epoch,
                worker,
                head.control_epoch,
                head.record_version,
                version,
                chain,
                prepared,
                body,
            )
        )
        event = prepared.event
        stored[event.event_id] = StoredEvent(sequence_number, prepared.digest, epoch, event.type)
        if prepared.binding is not None and event.operation_id is not None:
            overlay.known.bindings[name, event.operation_id] = prepared.binding
        head.control_epoch += prepared.controls
        head.record_version += prepared.guarded
        if prepared.turn is not NO_TURN:
            head.step = prepared.turn.after(head.step, event.step)
    head.sequence_number, head.chain, head.recorded_at = sequence_number, chain, recorded_at
    writes.heads[name] = head


# --- create and claim ----------------------------------------------------------------------------


def _create(overlay: Overlay, command: CreateCommand, bodies: tuple[object, ...]) -> Draft:
    answered = overlay.answered(
        command.tenant, command.request_id, "create", command.request_digest
    )
    if answered is not None:
        ack = msgspec.json.decode(answered, type=Ack)
        return Draft(
            trajectory_id=ack.trajectory_id,
            sequence_numbers=ack.sequence_numbers,
            head=ack.head,
            chain=ack.chain,
            owner_epoch=ack.owner_epoch,
            duplicate=True,
            duplicates=(True,) * len(ack.sequence_numbers),
        )
    name = (command.tenant, command.trajectory_id)
    _check_creation(overlay, command)
    if name in overlay.known.heads:
        raise IntegrityConflict(
            f"there is a trajectory {command.trajectory_id} already, created by another request",
            trajectory_id=command.trajectory_id,
        )
    first = command.first
    head = _new_head(overlay, command, command.standing)
    if first is not None:
        _check_references(overlay, name, head, ((first, None),))
    overlay.add_head(head)
    if first is not None:
        _stamp(overlay, head, command.issuer, ((first, bodies[0]),), (0, None))
    draft = Draft(
        trajectory_id=command.trajectory_id,
        sequence_numbers=(1,) if first is not None else (),
        head=head.sequence_number,
        chain=head.chain,
        duplicates=(False,) if first is not None else (),
    )
    ack = Ack(
        trajectory_id=draft.trajectory_id,
        sequence_numbers=draft.sequence_numbers,
        head=draft.head,
        chain=draft.chain,
        failure_domain=overlay.rules.domain,
        queue_wait_us=0,
        storage_time_us=0,
    )
    overlay.answer(
        NewRequest(
            command.tenant,
            command.request_id,
            "create",
            command.trajectory_id,
            command.request_digest,
            msgspec.json.encode(ack),
            overlay.now,
        )
    )
    return draft


def _new_head(
    overlay: Overlay, command: AppendCommand | CreateCommand, standing: Standing
) -> HeadState:
    """The head of a trajectory that is not there yet; not one of the writes before `add_head`."""
    return HeadState(
        tenant=command.tenant,
        trajectory_id=command.trajectory_id,
        key=0,
        standing=standing,
        created_at=overlay.now,
        sequence_number=0,
        chain=chain_start(command.trajectory_id),
        recorded_at=overlay.now,
    )


def _check_creation(overlay: Overlay, command: CreateCommand) -> None:
    if command.standing == "replica":
        raise NotAllowed("a replica is made by installing its events, not by create")
    if command.standing == "imported":
        if command.issuer != "importer" or command.first is not None:
            raise NotAllowed("an imported trajectory is created empty, by an importer")
        return
    if command.first is None or command.first.event.type != "TaskStarted":
        raise InvalidInput("a trajectory starts with TaskStarted", field="first")
    overlay.check_right(command.standing, command.issuer, "create", command.first.event.type)


def _claim(overlay: Overlay, command: ClaimCommand) -> Grant:
    answered = overlay.answered(command.tenant, command.request_id, "claim", command.request_digest)
    if answered is not None:
        return msgspec.json.decode(answered, type=Grant)
    name = (command.tenant, command.trajectory_id)
    head = overlay.known.heads.get(name)
    if head is None:
        raise NotFound(f"there is no trajectory {command.trajectory_id}")
    overlay.check_right(head.standing, "service", "claim", "OwnershipGranted")
    if command.expected_epoch is not None and command.expected_epoch != head.owner_epoch:
        raise Fenced(
            f"the newest owner epoch is {head.owner_epoch}, not {command.expected_epoch}",
            owner_epoch=head.owner_epoch,
        )
    epoch = head.owner_epoch + 1
    prepared = _grant_event(overlay.rules, command, epoch)
    head.owner_epoch, head.worker = epoch, command.worker
    _stamp(overlay, head, "service", ((prepared, None),), (epoch, None))
    grant = Grant(
        trajectory_id=command.trajectory_id,
        incarnation=overlay.rules.incarnation,
        owner_epoch=epoch,
        worker=command.worker,
        sequence_number=head.sequence_number,
        head=head.sequence_number,
        failure_domain=overlay.rules.domain,
    )
    overlay.answer(
        NewRequest(
            command.tenant,
            command.request_id,
            "claim",
            command.trajectory_id,
            command.request_digest,
            msgspec.json.encode(grant),
            overlay.now,
        )
    )
    return grant


def _grant_event(rules: Rules, command: ClaimCommand, epoch: int) -> Prepared:
    """OwnershipGranted; its id comes from the request (APP-9)."""
    payload = OwnershipGranted(
        incarnation=rules.incarnation,
        owner_epoch=epoch,
        worker=command.worker,
        cause="hand_off" if command.cause == "start" and epoch > 1 else command.cause,
    )
    event = NewEvent(
        event_id="grant." + sha256(command.request_id.encode()).hex()[:40],
        type="OwnershipGranted",
        schema_version=registry.FAMILIES["OwnershipGranted"].version,
        payload=registry.encode(payload),
    )
    return prepare(command.trajectory_id, event, payload)
