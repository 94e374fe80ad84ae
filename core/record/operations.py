"""Slice: the operation table (EFF-4, EFF-7, INB-5).

INVARIANTS
1. An outcome is set by adequate evidence only: a settling status about an attempt whose intent
   lies earlier in the prefix, of a basis that its issuer can have. Nothing else settles.
2. Each attempt has its own evidence. The first adequate result settles it, one that agrees is
   added, one that disagrees makes it disputed until an event names the one that holds.
3. A result whose operation or attempt has no intent is counted and matched to nothing.
4. `total == len(open) + spilled + sum(by_outcome)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from core.events import control as control_events
from core.events.admission import Authorized
from core.events.envelope import Event
from core.events.tool import SETTLING
from core.limits import ATTEMPTS_PER_OPERATION_MAX, EVIDENCE_PER_ATTEMPT_MAX
from core.record import archive, cut, lean
from core.record.record import Attempt, Evidence, Operation, Operations

if TYPE_CHECKING:
    from core.record.draft import Draft

#: Whose word each basis can be: the sender's own reply, an answer to a status query, a signed
#: callback, a person's finding, the gate's refusal to send. The service speaks for the inbox.
BASIS_ISSUERS: dict[str, frozenset[str]] = {
    "sender": frozenset({"worker", "service", "importer"}),
    "query": frozenset({"worker", "service", "reconciler", "importer"}),
    "callback": frozenset({"service", "endpoint", "importer"}),
    "operator": frozenset({"operator", "importer"}),
    "gate": frozenset({"service"}),
}
#: Who may name the result that holds in a dispute.
ARBITERS = frozenset({"service", "reconciler", "operator"})
_RANK = {"succeeded": 0, "failed": 1, "no_effect": 2}


class OperationsDraft:
    """The slice while a fold runs."""

    __slots__ = ("by_outcome", "open", "spilled", "spilled_unsettled", "total", "unmatched_results")

    def __init__(self, operations: Operations) -> None:
        self.open = dict(operations.open)
        self.total = operations.total
        self.by_outcome = dict(operations.by_outcome)
        self.unmatched_results = operations.unmatched_results
        self.spilled = operations.spilled
        self.spilled_unsettled = operations.spilled_unsettled

    def freeze(self) -> Operations:
        """The slice as part of a record."""
        return Operations(
            dict(self.open),
            self.total,
            {outcome: count for outcome, count in self.by_outcome.items() if count},
            self.unmatched_results,
            self.spilled,
            self.spilled_unsettled,
        )


def tool_intent(draft: Draft, event: Event, payload: lean.ToolIntent) -> None:
    """A new attempt of a new or known operation.

    An intent that names no operation or attempt stands under its event id, so that the
    liability is visible.
    """
    operation_id = event.operation_id or event.event_id
    sequence = event.sequence_number
    attempt = Attempt(
        event.attempt_id or event.event_id,
        sequence,
        event.owner_epoch,
        event.control_epoch,
        event.worker,
        payload.deadline_at,
        payload.reservation_event,
    )
    operation = take(draft, operation_id)
    if operation is None:
        draft.operations.total += 1
        draft.operations.open[operation_id] = Operation(
            operation_id,
            cut.name(payload.tool),
            payload.kind,
            sequence,
            sequence,
            cut.text(payload.tool_version),
            lean.arguments_digest(payload.arguments),
            cut.text(payload.input_revision),
            event.step,
            (attempt,),
            depends_on=cut.items(payload.depends_on),
            compensates=cut.text(payload.compensates),
        )
        return
    if any(known.attempt_id == attempt.attempt_id for known in operation.attempts):
        put(draft, replace(operation, last_sequence=sequence))
        return
    changes: dict[str, Any] = {"last_sequence": sequence}
    if operation.licence_attempt == attempt.attempt_id:
        changes |= {"licence_sequence": None, "licence_attempt": None}
    attempts = (*operation.attempts, attempt)
    if len(attempts) > ATTEMPTS_PER_OPERATION_MAX:
        dropped, attempts = _oldest_out(attempts)
        changes["attempts_dropped"] = operation.attempts_dropped + 1
        changes["attempts_dropped_unsettled"] = (
            operation.attempts_dropped_unsettled + dropped.unsettled
        )
    put(draft, replace(operation, attempts=attempts, **changes))


def tool_result(draft: Draft, event: Event, payload: lean.ToolResult) -> None:
    """Evidence about one attempt."""
    operation = take(draft, event.operation_id) if event.operation_id is not None else None
    if operation is None:
        draft.operations.unmatched_results += 1
        return
    attempt = _attempt_of(operation, event.attempt_id)
    if attempt is None:
        draft.operations.unmatched_results += 1
        put(draft, replace(operation, last_sequence=event.sequence_number))
        return
    evidence = Evidence(
        event.sequence_number,
        event.event_id,
        payload.status,
        payload.basis,
        adequate(operation, attempt, event, payload),
    )
    after = add_evidence(attempt, evidence)
    if payload.holds is not None and event.issuer in ARBITERS:
        after = hold(after, payload.holds, evidence)
    if len(operation.attempts) == 1:
        attempts: tuple[Attempt, ...] = (after,)
    else:
        attempts = tuple(after if known is attempt else known for known in operation.attempts)
    put(draft, settle(operation, attempts, event.sequence_number))


def authorized(draft: Draft, event: Event, payload: Authorized) -> None:
    """A licence names the one attempt it permits (EFF-8); other decisions leave the table."""
    if payload.decision != "licensed" or event.operation_id is None:
        return
    operation = take(draft, event.operation_id)
    if operation is not None:
        put(
            draft,
            replace(
                operation,
                last_sequence=event.sequence_number,
                licence_sequence=event.sequence_number,
                licence_attempt=event.attempt_id,
            ),
        )


def control_changed(draft: Draft, event: Event, payload: control_events.ControlChanged) -> None:
    """A control change may name who settles what is unsettled; it settles nothing itself."""
    if not payload.owners:
        return
    operations = draft.operations
    for operation_id, owner in sorted(payload.owners.items()):
        operation = operations.open.get(operation_id)
        if operation is None and operations.spilled:
            operation = take_spilled(draft, operation_id)
        if operation is not None:
            operations.open[operation_id] = replace(
                operation,
                last_sequence=event.sequence_number,
                settlement_owner=cut.text(owner),
            )


def adequate(
    operation: Operation, attempt: Attempt, event: Event, payload: lean.ToolResult
) -> bool:
    """Whether this result settles the attempt (EFF-4)."""
    if payload.status not in SETTLING:
        return False
    basis = payload.basis
    if event.issuer not in BASIS_ISSUERS[basis]:
        return False
    if basis == "sender" and event.issuer == "worker" and event.worker != attempt.worker:
        return False
    if basis == "gate" and not (payload.status == "no_effect" and attempt.withheld):
        return False
    return (
        payload.input_revision is None
        or operation.input_revision is None
        or cut.text(payload.input_revision) == operation.input_revision
    )


def add_evidence(attempt: Attempt, evidence: Evidence) -> Attempt:
    """The attempt with one more result."""
    outcome, disputed = attempt.outcome, attempt.disputed
    sequence, basis = attempt.outcome_sequence, attempt.outcome_basis
    if evidence.adequate:
        if outcome is None:
            outcome, sequence, basis = evidence.status, evidence.sequence_number, evidence.basis
        elif evidence.status != outcome:
            disputed = True
    known, dropped = (*attempt.evidence, evidence), attempt.evidence_dropped
    if len(known) > EVIDENCE_PER_ATTEMPT_MAX:
        known = _least_telling_out(known, sequence, outcome)
        dropped += 1
    return Attempt(
        attempt.attempt_id,
        attempt.intent_sequence,
        attempt.owner_epoch,
        attempt.control_epoch,
        attempt.worker,
        attempt.deadline_at,
        attempt.reservation_event,
        known,
        dropped,
        outcome,
        sequence,
        basis,
        disputed,
    )


def hold(attempt: Attempt, holds: str, by: Evidence) -> Attempt:
    """The attempt after an event named the adequate result that holds; unchanged if it has none."""
    for evidence in attempt.evidence:
        if evidence.event_id == holds and evidence.adequate and evidence is not by:
            return replace(
                attempt,
                outcome=evidence.status,
                outcome_sequence=evidence.sequence_number,
                outcome_basis=evidence.basis,
                disputed=False,
            )
    return attempt


def settle(operation: Operation, attempts: tuple[Attempt, ...], sequence: int) -> Operation:
    """The operation as its attempts make it: what any attempt achieved is what it achieved."""
    best: Attempt | None = None
    disputed = False
    for attempt in attempts:
        disputed = disputed or attempt.disputed
        if attempt.outcome is not None and (
            best is None or best.outcome is None or _RANK[attempt.outcome] < _RANK[best.outcome]
        ):
            best = attempt
    outcome, at, basis = operation.outcome, operation.outcome_sequence, operation.outcome_basis
    if best is not None:
        outcome, at, basis = best.outcome, best.outcome_sequence, best.outcome_basis
    void = outcome != operation.outcome and not disputed
    return Operation(
        operation.operation_id,
        operation.tool,
        operation.kind,
        operation.first_sequence,
        sequence,
        operation.tool_version,
        operation.arguments_digest,
        operation.input_revision,
        operation.step,
        attempts,
        operation.attempts_dropped,
        operation.attempts_dropped_unsettled,
        outcome,
        at,
        basis,
        disputed,
        operation.settlement_owner,
        operation.depends_on,
        operation.compensates,
        None if void else operation.licence_sequence,
        None if void else operation.licence_attempt,
    )


def take(draft: Draft, operation_id: str) -> Operation | None:
    """Take an operation out of the table or the archive, to be put back changed."""
    operations = draft.operations
    operation = operations.open.pop(operation_id, None)
    if operation is not None:
        return operation
    operation = draft.archive.operations.pop(operation_id, None)
    if operation is None:
        if not draft.archive.refs:
            return None
        operation = draft.archive.operation(operation_id)
        if operation is None:
            return None
        if not operation.closed:
            _unspill(draft, operation)
            return operation
    assert operation.outcome is not None
    operations.by_outcome[operation.outcome] -= 1
    return operation


def take_spilled(draft: Draft, operation_id: str) -> Operation | None:
    """Take an open operation out of the archive; None if it lies there closed or not at all."""
    if operation_id in draft.archive.operations:
        return None
    operation = draft.archive.find(archive.OPERATION, operation_id, Operation)
    if operation is None or operation.closed:
        return None
    _unspill(draft, operation)
    return operation


def _unspill(draft: Draft, operation: Operation) -> None:
    draft.operations.spilled -= 1
    draft.operations.spilled_unsettled -= operation.unsettled


def put(draft: Draft, operation: Operation) -> None:
    """Put an operation where it belongs: closed ones leave the open table."""
    if operation.closed:
        outcome = operation.outcome
        assert outcome is not None
        counts = draft.operations.by_outcome
        counts[outcome] = counts.get(outcome, 0) + 1
        draft.archive.operations[operation.operation_id] = operation
    else:
        draft.operations.open[operation.operation_id] = operation


def spill(draft: Draft, rows: list[tuple[str, str, Any]]) -> None:
    """At a segment boundary: archive the oldest open operations beyond the bound."""
    moved = archive.spill(draft.operations.open, archive.OPERATION, rows)
    draft.operations.spilled += len(moved)
    draft.operations.spilled_unsettled += sum(operation.unsettled for operation in moved)


def _attempt_of(operation: Operation, attempt_id: str | None) -> Attempt | None:
    """The attempt a result is about; a result that names none is about the only one there is."""
    if attempt_id is None:
        single = len(operation.attempts) == 1 and not operation.attempts_dropped
        return operation.attempts[0] if single else None
    for attempt in operation.attempts:
        if attempt.attempt_id == attempt_id:
            return attempt
    return None


def _oldest_out(attempts: tuple[Attempt, ...]) -> tuple[Attempt, tuple[Attempt, ...]]:
    """Drop the oldest settled attempt but the newest; the oldest of all if none is settled."""
    out = next((a for a in attempts[:-1] if not a.unsettled), attempts[0])
    return out, tuple(attempt for attempt in attempts if attempt is not out)


def _least_telling_out(
    evidence: tuple[Evidence, ...], outcome_sequence: int | None, outcome: str | None
) -> tuple[Evidence, ...]:
    """Drop the oldest that settles nothing, else the oldest that only agrees; never the newest."""
    older = evidence[:-1]
    out = next(
        (e for e in older if not e.adequate),
        next(
            (e for e in older if e.status == outcome and e.sequence_number != outcome_sequence),
            next(e for e in reversed(older) if e.sequence_number != outcome_sequence),
        ),
    )
    return tuple(one for one in evidence if one is not out)
