"""Tab *Event*: what happened at this boundary, rendered by family, or raw, with its envelope."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.pages.tabs.reads import Reads, SubAgent
from app.presenters import highlight, payloads
from app.presenters.payloads import Block, Row
from app.presenters.terminal import Shown
from core.errors import InvalidInput, StrandlineError
from core.events.envelope import Event

#: Related events that are linked; an operation rarely has more.
RELATED_MAX = 12


@dataclass(frozen=True, slots=True)
class EventPanel:
    """The event of the boundary; `event` is None at boundary 0."""

    event: Event | None = None
    blocks: tuple[Block, ...] = ()
    envelope: tuple[Row, ...] = ()
    raw: Shown | None = None
    related: tuple[tuple[str, int, str], ...] = ()
    """Events of the same operation or call: (what, sequence number, known or later)."""
    sub_agents: tuple[SubAgent, ...] = ()
    """Trajectories that carry out its operation."""


def load(reads: Reads) -> EventPanel:
    """The panel; a payload that cannot be read or does not fit is said, never shown as empty."""
    if reads.place.seq == 0:
        return EventPanel()
    event = reads.runtime.event(reads.who, reads.place.trajectory_id, reads.place.seq)
    panel = _panel(reads, event)
    if event.operation_id is None:
        return panel
    return replace(panel, sub_agents=reads.sub_agents(event.operation_id))


def _panel(reads: Reads, event: Event) -> EventPanel:
    runtime, who = reads.runtime, reads.who
    envelope, related = payloads.envelope(event), _related(reads, event)
    try:
        data = runtime.payload(who, event)
    except StrandlineError as error:
        why = Block("note", "Payload", note=f"missing, not empty: {error}")
        return EventPanel(event, (why,), envelope, related=related)
    if reads.place.raw:
        return EventPanel(event, (), envelope, payloads.raw(data), related)
    try:
        typed = runtime.typed(who, event)
        blocks = payloads.blocks(event, typed, reads.read, reads.tool_of)
    except InvalidInput as error:
        why = Block("note", "Payload", note=f"does not fit its schema: {error}")
        return EventPanel(event, (why,), envelope, payloads.raw(data), related)
    blocks = highlight.blocks(blocks, highlight.words(reads.place.find))
    return EventPanel(
        event, blocks, envelope, payloads.raw(data) if typed is None else None, related
    )


def _related(reads: Reads, event: Event) -> tuple[tuple[str, int, str], ...]:
    """Other events of the same operation or call, those after the boundary marked later."""
    here, runtime, who = reads.place, reads.runtime, reads.who
    upto = here.seq if reads.sealed else None
    if event.operation_id is not None:
        found = runtime.operation_events(who, here.trajectory_id, event.operation_id, upto=upto)
    elif event.invocation_id is not None:
        found = runtime.invocation_events(who, here.trajectory_id, event.invocation_id, upto=upto)
    else:
        return ()
    return tuple(
        (other.type, other.sequence_number, "later" if other.sequence_number > here.seq else "")
        for other in found[:RELATED_MAX]
        if other.sequence_number != here.seq
    )
