"""Slice: held actions and what was decided (CTL-3).

An approval is open while it is undecided, and while it is granted and its operation has neither
an intent nor a result after the grant. Expiry is compared at use, never folded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.envelope import Event
from core.events.ownership import Resumed
from core.record import archive, cut
from core.record.record import Approval, Approvals

if TYPE_CHECKING:
    from core.record.draft import Draft

VOID = "void"


class ApprovalsDraft:
    """The slice while a fold runs."""

    __slots__ = ("by_decision", "granted", "open", "spilled", "total", "unmatched")

    def __init__(self, approvals: Approvals) -> None:
        self.open = dict(approvals.open)
        self.total = approvals.total
        self.by_decision = dict(approvals.by_decision)
        self.unmatched = approvals.unmatched
        self.spilled = approvals.spilled
        self.granted: dict[str, set[str]] = {}
        """Operation id -> its granted, unused approvals held by value."""
        for approval in self.open.values():
            self.note_grant(approval)

    def freeze(self) -> Approvals:
        """The slice as part of a record."""
        return Approvals(
            dict(self.open),
            self.total,
            {decision: count for decision, count in self.by_decision.items() if count},
            self.unmatched,
            self.spilled,
        )

    def note_grant(self, approval: Approval) -> None:
        """Remember an open approval that the next intent or result of its operation uses."""
        if approval.decision is not None and approval.operation_id is not None:
            self.granted.setdefault(approval.operation_id, set()).add(approval.approval_id)

    def forget_grant(self, approval: Approval) -> None:
        """The approval is no longer open by value."""
        if approval.operation_id is not None:
            ids = self.granted.get(approval.operation_id)
            if ids is not None:
                ids.discard(approval.approval_id)
                if not ids:
                    del self.granted[approval.operation_id]


def approval_requested(draft: Draft, event: Event, payload: ApprovalRequested) -> None:
    """An exact action is held; a request that is already known stays as it was."""
    approval_id = cut.name(payload.approval_id)
    known = _take(draft, approval_id)
    if known is not None:
        _put(draft, replace(known, last_sequence=event.sequence_number))
        return
    draft.approvals.total += 1
    draft.approvals.open[approval_id] = Approval(
        approval_id,
        event.sequence_number,
        event.sequence_number,
        cut.name(payload.tool),
        event.operation_id,
        expires_at=payload.expires_at,
    )


def approval_resolved(draft: Draft, event: Event, payload: ApprovalResolved) -> None:
    """A decision, or the end of an earlier one; the newest counts."""
    known = _take(draft, cut.name(payload.approval_id))
    if known is None:
        draft.approvals.unmatched += 1
        return
    _put(
        draft,
        _decide(
            draft,
            known,
            payload.decision,
            event.sequence_number,
            expires_at=payload.expires_at if payload.expires_at is not None else known.expires_at,
            too_late=payload.too_late,
        ),
    )


def used(draft: Draft, event: Event, payload: object) -> None:
    """An intent or result of an operation uses its granted approvals."""
    approvals = draft.approvals
    if not approvals.granted or event.operation_id is None:
        return
    for approval_id in approvals.granted.pop(event.operation_id, ()):
        approval = approvals.open.pop(approval_id)
        _put(draft, replace(approval, last_sequence=event.sequence_number, used=True))


def resumed(draft: Draft, event: Event, payload: Resumed) -> None:
    """A fallback voids every unused approval (RES-4)."""
    if payload.set_back is None:
        return
    for approval_id in sorted(draft.approvals.open):
        approval = draft.approvals.open.pop(approval_id)
        _put(draft, _decide(draft, approval, VOID, event.sequence_number))
    draft.approvals.granted.clear()


def spill(draft: Draft, rows: list[tuple[str, str, Any]]) -> None:
    """At a segment boundary: archive the oldest open approvals beyond the bound."""
    approvals = draft.approvals
    moved = archive.spill(approvals.open, archive.APPROVAL, rows)
    approvals.spilled += len(moved)
    for approval in moved:
        approvals.forget_grant(approval)


def _decide(
    draft: Draft, approval: Approval, decision: str, sequence: int, **changes: Any
) -> Approval:
    counts = draft.approvals.by_decision
    if approval.decision is not None:
        counts[approval.decision] -= 1
    counts[decision] = counts.get(decision, 0) + 1
    return replace(
        approval,
        decision=decision,
        resolved_sequence=sequence,
        last_sequence=sequence,
        **changes,
    )


def _take(draft: Draft, approval_id: str) -> Approval | None:
    approvals = draft.approvals
    known = approvals.open.pop(approval_id, None)
    if known is not None:
        approvals.forget_grant(known)
        return known
    known = draft.archive.approvals.pop(approval_id, None)
    if known is None:
        known = draft.archive.find(archive.APPROVAL, approval_id, Approval)
        if known is not None and not known.closed:
            approvals.spilled -= 1
            fallback = draft.recovery.last_fallback_sequence
            if fallback > known.last_sequence:
                return _decide(draft, known, VOID, fallback)
    return known


def _put(draft: Draft, approval: Approval) -> None:
    if approval.closed:
        draft.archive.approvals[approval.approval_id] = approval
    else:
        draft.approvals.open[approval.approval_id] = approval
        draft.approvals.note_grant(approval)
