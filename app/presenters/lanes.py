"""Lanes a log list can be cut down to: what people call them, and the marks that make them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.events.marks import ERRORS, MODEL_CALLS, Mark


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane; an event can be in two, as a failed call is one of the tools and of the errors."""

    name: str
    """As the URL says it."""
    label: str
    marks: tuple[Mark, ...]
    family: str


LANES: tuple[Lane, ...] = (
    Lane("model", "model calls", MODEL_CALLS, "model"),
    Lane("tools", "tools", (Mark.INTENT, Mark.RESULT, Mark.RESULT_ERROR, Mark.RESULT_OPEN), "tool"),
    Lane("errors", "errors", ERRORS, "bad"),
    Lane(
        "control",
        "control",
        (Mark.TASK, Mark.CONTROL, Mark.CONTROL_FAILED, Mark.PLAN, Mark.OWNERSHIP),
        "control",
    ),
    Lane("admission", "admission and budget", (Mark.ADMISSION,), "budget"),
    Lane("approvals", "approvals", (Mark.APPROVAL,), "approval"),
    Lane("checkpoints", "checkpoints", (Mark.CHECKPOINT,), "ckpt"),
    Lane("compaction", "compaction", (Mark.COMPACTED,), "budget"),
    Lane("inputs", "inputs and notes", (Mark.INPUT, Mark.NOTE), "input"),
    Lane("other", "not understood", (Mark.UNPARSED, Mark.UNKNOWN, Mark.OTHER), "bad"),
)
BY_NAME = {lane.name: lane for lane in LANES}
assert {mark for lane in LANES for mark in lane.marks} == set(Mark)


def chosen(only: str) -> tuple[Lane, ...]:
    """The lanes a URL names, in their order; unknown names are left out."""
    names = set(only.split(","))
    return tuple(lane for lane in LANES if lane.name in names)


def toggled(only: str, name: str) -> str:
    """The URL's value with one lane put in or taken out."""
    names = {lane.name for lane in chosen(only)} ^ {name}
    return ",".join(lane.name for lane in LANES if lane.name in names)


def mask(lanes: Sequence[Lane]) -> bytes:
    """A table for `bytes.translate`: 1 for the marks of these lanes, 0 for others."""
    wanted = {int(mark) for lane in lanes for mark in lane.marks}
    return bytes(1 if mark in wanted else 0 for mark in range(256))


@dataclass(frozen=True, slots=True)
class LaneCount:
    """One lane with how many events of it there are."""

    lane: Lane
    here: int
    """Up to the boundary."""
    whole: int
    """In the whole log."""
    chosen: bool
    only: str
    """The URL's value after it is toggled."""


def counts(marks: bytes, boundary: int, only: str) -> tuple[LaneCount, ...]:
    """Lanes that this log has events of, or that are chosen."""
    present = [(mark, marks.count(mark)) for mark in set(marks)]
    here = {mark: marks.count(mark, 0, boundary) for mark, _ in present}
    whole = dict(present)
    picked = chosen(only)
    found = []
    for lane in LANES:
        total = sum(whole.get(int(mark), 0) for mark in lane.marks)
        if total or lane in picked:
            upto = sum(here.get(int(mark), 0) for mark in lane.marks)
            found.append(LaneCount(lane, upto, total, lane in picked, toggled(only, lane.name)))
    return tuple(found)
