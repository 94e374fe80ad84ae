"""Marks: the lane an event is drawn in and found by (`next model call`, `next error`, ...).

A mark is one small integer stored beside the event and indexed, so that finding the next one
takes the same time in a log of a million events as in one of a thousand.
"""

from __future__ import annotations

from enum import IntEnum

from core.events.control import ControlChanged
from core.events.fields import Payload
from core.events.model_call import ModelReplied
from core.events.tool import ToolResult


class Mark(IntEnum):
    """Lanes; the numbers are stored and never reused."""

    OTHER = 0
    TASK = 1
    CONTEXT = 2
    REPLY = 3
    REPLY_ERROR = 4
    INTENT = 5
    RESULT = 6
    RESULT_ERROR = 7
    RESULT_OPEN = 8
    """A result that settles nothing: pending, partial, timeout, unknown, withheld."""
    CONTROL = 9
    CONTROL_FAILED = 10
    APPROVAL = 11
    CHECKPOINT = 12
    COMPACTED = 13
    OWNERSHIP = 14
    ADMISSION = 15
    PLAN = 16
    INPUT = 17
    UNPARSED = 18
    NOTE = 19
    UNKNOWN = 20


#: What the keys `m t e c` jump to.
MODEL_CALLS = (Mark.CONTEXT, Mark.REPLY, Mark.REPLY_ERROR)
TOOLS = (Mark.INTENT,)
ERRORS = (Mark.REPLY_ERROR, Mark.RESULT_ERROR, Mark.CONTROL_FAILED, Mark.UNPARSED, Mark.UNKNOWN)
CHECKPOINTS = (Mark.CHECKPOINT,)

_BY_TYPE: dict[str, Mark] = {
    "TaskStarted": Mark.TASK,
    "ContextBuilt": Mark.CONTEXT,
    "ModelReplied": Mark.REPLY,
    "Authorized": Mark.ADMISSION,
    "BudgetReserved": Mark.ADMISSION,
    "BudgetSettled": Mark.ADMISSION,
    "ToolIntent": Mark.INTENT,
    "ToolResult": Mark.RESULT,
    "ControlChanged": Mark.CONTROL,
    "PlanChanged": Mark.PLAN,
    "ApprovalRequested": Mark.APPROVAL,
    "ApprovalResolved": Mark.APPROVAL,
    "Compacted": Mark.COMPACTED,
    "RuntimeInput": Mark.INPUT,
    "OwnershipGranted": Mark.OWNERSHIP,
    "Checkpoint": Mark.CHECKPOINT,
    "Resumed": Mark.OWNERSHIP,
    "Forked": Mark.OWNERSHIP,
    "Unparsed": Mark.UNPARSED,
}


def mark_of(type_: str, payload: Payload | dict[str, object] | None) -> Mark:
    """The mark of an event; UNKNOWN for a type this version does not know."""
    mark = _BY_TYPE.get(type_)
    if mark is None:
        return Mark.NOTE if type_.startswith("note.") else Mark.UNKNOWN
    if mark is Mark.RESULT and isinstance(payload, ToolResult):
        if payload.status == "failed":
            return Mark.RESULT_ERROR
        return Mark.RESULT if payload.status in ("succeeded", "no_effect") else Mark.RESULT_OPEN
    if mark is Mark.REPLY and isinstance(payload, ModelReplied) and payload.status == "error":
        return Mark.REPLY_ERROR
    if (
        mark is Mark.CONTROL
        and isinstance(payload, ControlChanged)
        and payload.to_state == "FAILED"
    ):
        return Mark.CONTROL_FAILED
    return mark
