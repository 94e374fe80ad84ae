"""Slice: the workspace root the log names, and how well it is known (CKP-7).

`captured`: a snapshot names the root. `delta_known`: the log has every change since. A change
without its resulting root, without the content of a written file, or from another root than the
present one leaves the workspace `not_captured`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events.envelope import Event
from core.events.ownership import Resumed
from core.events.task import TaskStarted
from core.record import cut, lean
from core.record.record import Workspace

if TYPE_CHECKING:
    from core.record.draft import Draft

_HAS_CONTENT = frozenset({"written", "edited"})


def task_started(draft: Draft, event: Event, payload: TaskStarted) -> None:
    """The initial root, where the task names one."""
    if payload.workspace is not None:
        draft.workspace = Workspace(cut.text(payload.workspace), "captured", event.sequence_number)


def changed(draft: Draft, event: Event, payload: lean.ToolResult | lean.RuntimeInput) -> None:
    """A result or an input that changed the workspace."""
    change = payload.workspace
    if change is None:
        return
    now = draft.workspace
    known = (
        change.after is not None
        and now.captured != "not_captured"
        and (change.base is None or cut.text(change.base) == now.root)
        and all(map(_known, change.changes))
    )
    draft.workspace = Workspace(
        cut.text(change.after),
        "delta_known" if known else "not_captured",
        event.sequence_number,
        now.changes + len(change.changes),
    )


def resumed(draft: Draft, event: Event, payload: Resumed) -> None:
    """A fallback sets the root to its value at the target (RES-4)."""
    if payload.set_back is None:
        return
    root = cut.text(payload.set_back.workspace)
    draft.workspace = Workspace(
        root,
        "not_captured" if root is None else "captured",
        event.sequence_number,
        draft.workspace.changes,
    )


def _known(change: lean.Change) -> bool:
    return change.kind not in _HAS_CONTENT or change.digest is not None or change.diff is not None
