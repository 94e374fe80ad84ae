"""Tab *Conversation*: what was given, said and done up to the boundary, as a person reads it.

INVARIANTS
1. Nothing from after the boundary is read.
2. Bounded: ITEMS at once, from at most EVENTS events; what lies before them is a link away, or,
   in a page that leaves this place, said to be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.pages import rows
from app.pages.tabs.reads import Reads, SubAgent
from app.presenters import conversation
from app.presenters.conversation import MARKS, Item, Told
from app.presenters.log_list import shown_time
from app.presenters.notes import note
from core.errors import StrandlineError
from core.events.envelope import Event

ITEMS = 60
#: Events read for one window, each of which may say nothing new; and in a page of its own.
EVENTS = 120
SEALED_FACTOR = 10
#: Events that are read along rather than asked for apart.
_GAP = 24

_MASK = bytes(1 if mark in set(map(int, MARKS)) else 0 for mark in range(256))


@dataclass(frozen=True, slots=True)
class Line:
    """One item with its place."""

    item: Item
    time: str
    here: bool
    """It is of the event at the boundary."""
    sub_agents: tuple[SubAgent, ...] = ()
    """Trajectories that carry out what it asks for."""


@dataclass(frozen=True, slots=True)
class ConversationPanel:
    """A window of the conversation, its newest item last."""

    lines: tuple[Line, ...] = ()
    first: int = 0
    last: int = 0
    earlier: int | None = None
    """What lies before this event is left out; None: nothing is."""
    windowed: bool = False
    """It does not end at the boundary."""


def load(reads: Reads) -> ConversationPanel:
    """The panel. An event that cannot be read is named with the reason."""
    place = reads.place
    upto = place.seq if place.before is None else min(place.seq, place.before - 1)
    factor = SEALED_FACTOR if reads.sealed else 1
    numbers = _numbers(reads, upto, EVENTS * factor)
    told = Told(reads.read, reads.tool_of)
    items: list[Item] = []
    times: dict[int, int | None] = {}
    for event in _events(reads, numbers):
        times[event.sequence_number] = event.occurred_at
        items += _told(reads, told, event)
    items = _with_notes(reads, items, numbers[0] if len(numbers) == EVENTS * factor else 0, upto)
    kept, earlier = conversation.cut(items, ITEMS * factor)
    if earlier is None and len(numbers) == EVENTS * factor and numbers[0] > 1:
        earlier = numbers[0]
    zero = reads.record.first_occurred_at
    of_day = place.times == "clock"

    def when(seq: int) -> str:
        at = times.get(seq)
        return shown_time(at, zero, of_day=of_day) if at is not None and zero is not None else ""

    return ConversationPanel(
        tuple(
            Line(
                item,
                when(item.seq),
                item.seq == place.seq,
                reads.sub_agents(item.operation_id) if item.operation_id else (),
            )
            for item in kept
        ),
        kept[0].seq if kept else 0,
        kept[-1].seq if kept else 0,
        earlier,
        place.before is not None and upto < place.seq,
    )


def _numbers(reads: Reads, upto: int, limit: int) -> list[int]:
    """The last events up to one that may say something, in order."""
    held = rows.marks(reads)
    found: list[int] = []
    if held is not None:
        table, at = held.translate(_MASK), upto
        while len(found) < limit and (at := table.rfind(1, 0, at)) >= 0:
            found.append(at + 1)
        return found[::-1]
    near: int | None = upto + 1
    while len(found) < limit:
        near = reads.runtime.neighbour(
            reads.who,
            reads.place.trajectory_id,
            marks=tuple(map(int, MARKS)),
            sequence_number=near or 0,
            forward=False,
        )
        if near is None:
            break
        found.append(near)
    return found[::-1]


def _events(reads: Reads, numbers: Sequence[int]) -> list[Event]:
    """These events; near ones are read in one go."""
    wanted, found, start = set(numbers), list[Event](), 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] - numbers[at - 1] > _GAP:
            first, last = numbers[start], numbers[at - 1]
            found += (
                event
                for event in reads.runtime.events(
                    reads.who,
                    reads.place.trajectory_id,
                    after=first - 1,
                    upto=last,
                    limit=last - first + 1,
                )
                if event.sequence_number in wanted
            )
            start = at
    return found


def _told(reads: Reads, told: Told, event: Event) -> list[Item]:
    try:
        payload = reads.runtime.typed(reads.who, event)
    except StrandlineError as error:
        return [conversation.unreadable(event, str(error))]
    return told.of(event, payload)


def _with_notes(reads: Reads, items: list[Item], first: int, upto: int) -> list[Item]:
    """The items with what people noted at their boundaries, which a sealed page leaves out: it is
    no part of the log."""
    if reads.sealed:
        return items
    said = reads.runtime.standing_of(reads.who, reads.place.trajectory_id).notes
    notes = [
        conversation.of_note(act.boundary, note(act).actor, note(act).text)
        for act in said
        if act.boundary is not None and first <= act.boundary <= upto
    ]
    return sorted([*items, *notes], key=lambda item: item.seq) if notes else items
