"""The private, mutable draft inside a fold: one part per slice, thawed from a record and frozen
into the next one. Entities in it are the record's own frozen structs; only tables are copied, so
a fold of n events costs n steps and not n copies.
"""

from __future__ import annotations

from collections.abc import Container

from core.record.approvals import ApprovalsDraft
from core.record.archive import ArchiveDraft, Segments
from core.record.budget import BudgetDraft
from core.record.calls import CallsDraft
from core.record.context import ContextDraft
from core.record.control import ControlDraft
from core.record.operations import OperationsDraft
from core.record.progress import ProgressDraft
from core.record.record import TrajectoryRecord


class Draft:
    """A record under way; see TrajectoryRecord for the meaning of each part."""

    __slots__ = (
        "approvals",
        "archive",
        "blocked",
        "boundary",
        "budget",
        "calls",
        "context",
        "control",
        "counts",
        "first_occurred_at",
        "last_occurred_at",
        "last_recorded_at",
        "operations",
        "ownership",
        "plan",
        "progress",
        "recovery",
        "reducer_version",
        "scope",
        "trajectory_id",
        "unparsed",
        "workspace",
    )

    def __init__(
        self, record: TrajectoryRecord, segments: Segments, earlier: Container[str] | None
    ) -> None:
        self.trajectory_id = record.trajectory_id
        self.boundary = record.boundary
        self.reducer_version = record.reducer_version
        self.scope = record.scope
        self.ownership = record.ownership
        self.plan = record.plan
        self.workspace = record.workspace
        self.recovery = record.recovery
        self.control = ControlDraft(record.control)
        self.progress = ProgressDraft(record.progress)
        self.operations = OperationsDraft(record.operations)
        self.calls = CallsDraft(record.calls)
        self.budget = BudgetDraft(record.budget)
        self.approvals = ApprovalsDraft(record.approvals)
        self.context = ContextDraft(record.context)
        self.counts = dict(record.event_counts)
        self.unparsed = record.unparsed
        self.first_occurred_at = record.first_occurred_at
        self.last_occurred_at = record.last_occurred_at
        self.last_recorded_at = record.last_recorded_at
        self.blocked = record.blocked
        self.archive = ArchiveDraft(record.archive, segments, earlier)

    def freeze(self) -> TrajectoryRecord:
        """The record as it stands; the draft may go on."""
        return TrajectoryRecord(
            trajectory_id=self.trajectory_id,
            boundary=self.boundary,
            reducer_version=self.reducer_version,
            scope=self.scope,
            control=self.control.freeze(),
            ownership=self.ownership,
            progress=self.progress.freeze(),
            operations=self.operations.freeze(),
            calls=self.calls.freeze(),
            budget=self.budget.freeze(),
            approvals=self.approvals.freeze(),
            plan=self.plan,
            context=self.context.freeze(),
            workspace=self.workspace,
            recovery=self.recovery,
            event_counts=dict(self.counts),
            unparsed=self.unparsed,
            first_occurred_at=self.first_occurred_at,
            last_occurred_at=self.last_occurred_at,
            last_recorded_at=self.last_recorded_at,
            blocked=self.blocked,
            archive=self.archive.freeze(),
        )
