"""What every panel of a boundary's page needs, read once; a tab reads only its own beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.pages import reading
from app.pages.place import Place
from app.presenters.state import Graded
from app.presenters.timeline import Item
from core.events.envelope import Event
from core.principal import Principal
from core.record.record import TrajectoryRecord
from runtime.service import Runtime
from runtime.time_travel import RecordView
from store.ports import Head


@dataclass(slots=True)
class Reads:
    """The place, the record at its boundary and the events around it."""

    runtime: Runtime
    who: Principal
    place: Place
    head: Head
    view: RecordView
    items: list[Item] = field(default_factory=list)
    grades: Mapping[str, Graded] = field(default_factory=dict)
    """Of the operations held by value, by operation id."""
    sealed: bool = False
    """Nothing of after the boundary is read, not even to be marked so; `head` is the boundary."""

    @property
    def record(self) -> TrajectoryRecord:
        """The record at the boundary."""
        return self.view.record

    @property
    def at_head(self) -> bool:
        """Whether the boundary is known to be the newest one of the log."""
        return not self.sealed and self.place.seq == self.head.sequence_number

    def event(self) -> Event:
        """The event at the boundary, which is not 0."""
        here = self.place.seq
        near = next((i.event for i in self.items if i.event.sequence_number == here), None)
        return near or self.runtime.event(self.who, self.place.trajectory_id, here)

    def record_at(self, boundary: int) -> TrajectoryRecord:
        """The record at another boundary of the same trajectory."""
        known = reading.records(self.runtime)
        return known.get(self.runtime, self.who, self.place.trajectory_id, boundary).record
