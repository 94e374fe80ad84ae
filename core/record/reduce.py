"""The fold: events to record (LOG-1). Pure outside; inside, one private draft is changed.

INVARIANTS
1. fold(a + b) = fold(b, start = fold(a)), wherever the log is cut.
2. No clock, randomness or I/O but `load`, which gives archived segments by digest.
3. Every family of the registry has its row in APPLY. What this version cannot fold sets
   `blocked`; nothing after that is folded into slices, it is only counted (LOG-6).
4. Types under `note.` and `Unparsed` fold to nothing but their count.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from core.events import registry
from core.events.envelope import Event
from core.events.prepare import GUARDED
from core.limits import EVENT_TYPES_MAX, SEGMENT_EVENTS
from core.record import (
    approvals,
    budget,
    calls,
    context,
    control,
    cut,
    lean,
    operations,
    ownership,
    plan,
    progress,
    recovery,
    scope,
    workspace,
)
from core.record.archive import Load, Segments
from core.record.draft import Draft
from core.record.record import Blocked, TrajectoryRecord

#: Rises when the same events give another record; stored snapshots serve their version only.
REDUCER_VERSION = 2

FoldEvent = tuple[Event, Any]
"""An event and its payload, typed or lean; None where this version does not know the type."""
ReadPayload = Callable[[Event], bytes]
Apply = Callable[[Draft, Event, Any], None]

APPLY: dict[str, tuple[Apply, ...]] = {
    "TaskStarted": (scope.task_started, budget.task_started, workspace.task_started),
    "ContextBuilt": (progress.context_built, calls.context_built, context.context_built),
    "ModelReplied": (calls.model_replied,),
    "Authorized": (operations.authorized,),
    "BudgetReserved": (budget.budget_reserved,),
    "BudgetSettled": (budget.budget_settled,),
    "ToolIntent": (approvals.used, operations.tool_intent),
    "ToolResult": (approvals.used, operations.tool_result, workspace.changed),
    "ControlChanged": (
        control.control_changed,
        budget.control_changed,
        operations.control_changed,
    ),
    "PlanChanged": (plan.plan_changed,),
    "ApprovalRequested": (approvals.approval_requested,),
    "ApprovalResolved": (approvals.approval_resolved,),
    "Compacted": (context.compacted,),
    "RuntimeInput": (workspace.changed, scope.titled),
    "OwnershipGranted": (ownership.ownership_granted,),
    "Checkpoint": (recovery.checkpoint,),
    "Resumed": (
        recovery.resumed,
        progress.resumed,
        plan.resumed,
        context.resumed,
        workspace.resumed,
        approvals.resumed,
    ),
    "Forked": (scope.forked,),
    "Unparsed": (),
}
_GUARDED: frozenset[str] = frozenset(payload.__name__ for payload in GUARDED)
#: Counts every type beyond EVENT_TYPES_MAX distinct ones.
OTHER_TYPES = "(other)"


class Fold:
    """A fold under way: add events in order, take the record at any boundary passed.

    `earlier`, where given, must hold the operation ids of all events at or below the start that
    occur again in the events to come: ids outside it are then not looked up in the archive.
    """

    __slots__ = ("_draft",)

    def __init__(
        self,
        record: TrajectoryRecord,
        segments: Segments,
        *,
        earlier: Container[str] | None = None,
    ) -> None:
        self._draft = Draft(record, segments, earlier)

    @property
    def boundary(self) -> int:
        """Sequence number of the last event added."""
        return self._draft.boundary

    def know(self, earlier: Container[str]) -> None:
        """State anew which operation ids of the events to come lie at or below this boundary."""
        self._draft.archive.earlier = earlier
        self._draft.archive.closed_here.clear()

    def held_operations(self) -> Container[str]:
        """Ids of the operations held by value, which no look-up concerns."""
        return {**self._draft.operations.open, **self._draft.archive.operations}

    def archives(self, kind: str) -> bool:
        """Whether some segment has rows of this kind."""
        return any(kind in ref.kinds for ref in self._draft.archive.refs)

    def record(self) -> TrajectoryRecord:
        """The record at the present boundary."""
        return self._draft.freeze()

    def add(self, event: Event, payload: Any) -> None:
        """Fold one event; ValueError if it is not the next one."""
        _apply(self._draft, event, payload)

    def add_rows(self, events: Iterable[Event], read: ReadPayload) -> None:
        """Fold events, decoding of each payload only what the fold reads.

        `read(event)` gives payload bytes that do not lie in the event; it is not called for
        payloads that the fold does not need.
        """
        draft = self._draft
        decoders = lean.DECODERS
        for event in events:
            type_ = event.type
            present = decoders.get(type_)
            data = event.payload
            payload: Any
            if present is None or draft.blocked is not None:
                payload = lean.decode(type_, event.schema_version, None)
            else:
                if data is None:
                    data = read(event)
                payload = lean.decode(type_, event.schema_version, data)
            _apply(draft, event, payload)


def empty(trajectory_id: str) -> TrajectoryRecord:
    """The record at boundary 0."""
    return TrajectoryRecord(trajectory_id=trajectory_id, reducer_version=REDUCER_VERSION)


def fold(
    record: TrajectoryRecord, events: Iterable[FoldEvent], load: Segments | Load
) -> TrajectoryRecord:
    """The record after further events; ValueError if they do not continue it.

    Segments that the fold makes are collected in `load.made`, where a `Segments` is given.
    """
    folding = Fold(record, load if isinstance(load, Segments) else Segments(load))
    for event, payload in events:
        folding.add(event, payload)
    return folding.record()


def fold_rows(
    record: TrajectoryRecord,
    events: Iterable[Event],
    load: Segments | Load,
    read: ReadPayload,
    *,
    earlier: Container[str] | None = None,
) -> TrajectoryRecord:
    """Like `fold`, from stored rows whose payloads are decoded only as far as needed."""
    segments = load if isinstance(load, Segments) else Segments(load)
    folding = Fold(record, segments, earlier=earlier)
    folding.add_rows(events, read)
    return folding.record()


def _apply(draft: Draft, event: Event, payload: Any) -> None:
    sequence = event.sequence_number
    if sequence != draft.boundary + 1:
        raise ValueError(f"event {sequence} does not follow boundary {draft.boundary}")
    draft.boundary = sequence
    draft.last_recorded_at = event.recorded_at
    occurred_at = event.occurred_at
    if occurred_at is not None:
        draft.last_occurred_at = occurred_at
        if draft.first_occurred_at is None:
            draft.first_occurred_at = occurred_at
    type_ = event.type
    counts = draft.counts
    if type_ in counts:
        counts[type_] += 1
    else:
        _count_new(counts, type_)
    if draft.blocked is None:
        steps = APPLY.get(type_)
        if steps is not None and payload is not None:
            for step in steps:
                step(draft, event, payload)
            if type_ in _GUARDED:
                draft.control.record_version += 1
        elif steps is not None or not registry.is_note(type_):
            draft.blocked = Blocked(sequence, cut.name(type_), event.schema_version)
    if type_ == "Unparsed":
        draft.unparsed += 1
    if not sequence % SEGMENT_EVENTS:
        rows: list[tuple[str, str, Any]] = []
        operations.spill(draft, rows)
        calls.spill(draft, rows)
        budget.spill(draft, rows)
        approvals.spill(draft, rows)
        draft.archive.close_window(sequence, rows)


def _count_new(counts: dict[str, int], type_: str) -> None:
    key = cut.name(type_)
    if key not in counts and len(counts) >= EVENT_TYPES_MAX:
        key = OTHER_TYPES
    counts[key] = counts.get(key, 0) + 1
