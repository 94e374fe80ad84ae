"""Slice: control state and the two orderings it carries (CTL-1, ORD-2, ORD-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events import control as events
from core.events.envelope import Event
from core.record import cut
from core.record.record import Control

if TYPE_CHECKING:
    from core.record.draft import Draft


class ControlDraft:
    """The slice while a fold runs."""

    __slots__ = (
        "control_epoch",
        "detail",
        "eligible",
        "reason",
        "record_version",
        "since_sequence",
        "state",
    )

    def __init__(self, control: Control) -> None:
        self.state = control.state
        self.control_epoch = control.control_epoch
        self.record_version = control.record_version
        self.since_sequence = control.since_sequence
        self.reason = control.reason
        self.detail = control.detail
        self.eligible = control.eligible

    def freeze(self) -> Control:
        """The slice as part of a record."""
        return Control(
            self.state,
            self.control_epoch,
            self.record_version,
            self.since_sequence,
            self.reason,
            self.detail,
            self.eligible,
        )


def control_changed(draft: Draft, event: Event, payload: events.ControlChanged) -> None:
    """A new state; `control_epoch` rises with every change, whatever the state."""
    control = draft.control
    control.state = payload.to_state
    control.control_epoch += 1
    control.since_sequence = event.sequence_number
    control.reason = cut.text(payload.reason)
    control.detail = cut.text(payload.detail)
    control.eligible = cut.items(payload.eligible)
