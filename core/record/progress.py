"""Slice: branch position and high-water mark, two numbers (ORD-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events.envelope import Event
from core.events.ownership import Resumed
from core.record import lean
from core.record.record import Progress

if TYPE_CHECKING:
    from core.record.draft import Draft


class ProgressDraft:
    """The slice while a fold runs."""

    __slots__ = ("executed", "high_water", "step")

    def __init__(self, progress: Progress) -> None:
        self.step = progress.step
        self.high_water = progress.high_water
        self.executed = progress.executed

    def freeze(self) -> Progress:
        """The slice as part of a record."""
        return Progress(self.step, self.high_water, self.executed)


def context_built(draft: Draft, event: Event, payload: lean.ContextBuilt) -> None:
    """A context that is no retry begins a step: the one it states, or the next.

    A context that states the present step again belongs to it: nothing new was begun. One that
    states an earlier step changes nothing, because only `Resumed` lowers the step.
    """
    if payload.retry_of is not None:
        return
    progress = draft.progress
    step = event.step if event.step is not None else progress.step + 1
    if step > progress.step:
        progress.step = step
        progress.executed += 1
        progress.high_water = max(progress.high_water, step)


def resumed(draft: Draft, event: Event, payload: Resumed) -> None:
    """A fallback sets the step back; high-water and executed steps stay (RES-4)."""
    if payload.set_back is not None:
        draft.progress.step = payload.set_back.step
