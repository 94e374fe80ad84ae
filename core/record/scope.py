"""Slice: what the trajectory is (TaskStarted, Forked).

The first statement of each stands; only the title follows a later `RuntimeInput` of kind `title`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import astuple, replace

from core.events.branch import Forked
from core.events.envelope import Event
from core.events.task import TaskStarted
from core.record import cut, lean
from core.record.record import HeldCapabilities, Scope

if TYPE_CHECKING:
    from core.record.draft import Draft

#: Kind of the RuntimeInput whose text is the trajectory's title from then on.
TITLE = "title"


def task_started(draft: Draft, event: Event, payload: TaskStarted) -> None:
    """Task, standing, capabilities and deadlines."""
    if draft.scope.started_sequence:
        return
    parent = payload.parent
    draft.scope = Scope(
        title=cut.text(payload.title) or "",
        standing=payload.standing,
        capabilities=HeldCapabilities(*astuple(payload.capabilities)),
        agent=cut.text(payload.agent),
        source=cut.text(payload.source),
        model=cut.text(payload.model),
        requester=cut.text(payload.requester),
        parent_trajectory_id=cut.text(parent.trajectory_id) if parent is not None else None,
        parent_operation_id=cut.text(parent.operation_id) if parent is not None else None,
        forked_from=draft.scope.forked_from,
        forked_at=draft.scope.forked_at,
        deadline_at=payload.deadline_at,
        finalization_deadline_at=payload.finalization_deadline_at,
        checkpoint_slots=cut.items(payload.checkpoint_slots),
        started_sequence=event.sequence_number,
    )


def titled(draft: Draft, event: Event, payload: lean.RuntimeInput) -> None:
    """The trajectory is called otherwise from here on."""
    if payload.kind == TITLE and payload.text:
        draft.scope = replace(draft.scope, title=cut.text(payload.text) or "")


def forked(draft: Draft, event: Event, payload: Forked) -> None:
    """A branch's origin."""
    if draft.scope.forked_from is None:
        draft.scope = replace(
            draft.scope, forked_from=cut.text(payload.parent), forked_at=payload.boundary
        )
