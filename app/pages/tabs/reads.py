"""What every panel of a boundary's page needs, read once; a tab reads only its own beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app import links
from app.pages import reading
from app.pages.place import Place
from app.presenters.payloads import Reader
from app.presenters.state import Graded
from app.presenters.terminal import one_line
from app.presenters.timeline import Item
from core.errors import StrandlineError
from core.events.envelope import Event
from core.events.tool import ToolIntent, ToolResult
from core.limits import PAGE_ROWS_MAX
from core.principal import Principal
from core.record.record import Operation, TrajectoryRecord
from runtime.service import Runtime
from runtime.time_travel import RecordView
from store.ports import Head


@dataclass(frozen=True, slots=True)
class SubAgent:
    """A trajectory whose first event names an operation of this one as what it carries out."""

    name: str
    href: str


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

    read: Reader = field(init=False)
    """Reads delivered messages, within what one page may read."""
    _tools: dict[str, str] = field(default_factory=dict)
    _sub_agents: dict[str, list[SubAgent]] | None = None

    def __post_init__(self) -> None:
        self.read = reading.reader(self.runtime, self.who)

    def covers(self, operation: Operation, event: Event | None = None) -> str:
        """What the outcome of an operation holds for, as its result says; empty: it is the whole,
        or cannot be read. `event` is that result, where it was read already."""
        at = operation.outcome_sequence
        if at is None or operation.disputed:
            return ""
        try:
            event = event or self.runtime.event(self.who, self.place.trajectory_id, at)
            payload = self.runtime.typed(self.who, event)
        except StrandlineError:
            return ""
        covers = payload.covers if isinstance(payload, ToolResult) else None
        return one_line(covers, 200) if covers else ""

    def sub_agents(self, operation_id: str) -> tuple[SubAgent, ...]:
        """The sub-agents that carry out an operation, as of now; none in a sealed page, whose log
        does not name them."""
        if self.sealed:
            return ()
        if self._sub_agents is None:
            self._sub_agents = {}
            children = self.runtime.children(
                self.who, self.place.trajectory_id, limit=PAGE_ROWS_MAX
            )
            for child in children:
                named = child["parent_operation"]
                if named is None or child["hidden"]:
                    continue
                key = str(child["trajectory_id"])
                title = str(child["title"] or key).removeprefix("Sub-agent ")
                one = SubAgent(one_line(title, 80), links.trajectory(key))
                self._sub_agents.setdefault(str(named), []).append(one)
        return tuple(self._sub_agents.get(operation_id, ()))

    def tool_of(self, call_id: str) -> str:
        """The tool of a call that the log names up to the boundary; empty: it names none."""
        known = self._tools.get(call_id)
        if known is None:
            known = self._tools[call_id] = self._tool(call_id)
        return known

    def _tool(self, call_id: str) -> str:
        held = self.record.operations.open.get(call_id)
        held = held or self.record.archive.recent.operations.get(call_id)
        if held is not None:
            return held.tool
        for event in self.runtime.operation_events(
            self.who, self.place.trajectory_id, call_id, upto=self.place.seq
        ):
            if event.type == "ToolIntent":
                try:
                    payload = self.runtime.typed(self.who, event)
                except StrandlineError:
                    return ""
                return payload.tool if isinstance(payload, ToolIntent) else ""
        return ""

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
