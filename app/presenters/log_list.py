"""The log around a boundary as rows grouped by turn, with what lies after it set apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from app.presenters import highlight
from app.presenters.format import clock as time_of_day
from app.presenters.format import duration, exact, offset
from app.presenters.highlight import Words
from app.presenters.terminal import one_line
from app.presenters.timeline import Item
from core.events.envelope import Event
from core.events.ownership import OwnershipGranted

Clock = Literal["occurred", "recorded"]

#: Rows before the boundary in a window of 40: the boundary is seen without scrolling.
BEFORE = 10
#: Characters of a line before a hit that a narrow list still shows.
_FAR = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the list: an event, a turn's heading, a change of owner, or the cut."""

    kind: Literal["event", "turn", "owner", "now"]
    text: str
    seq: int = 0
    type: str = ""
    family: str = ""
    time: str = ""
    exact: str = ""
    back: str = ""
    """Said where its time lies before that of an earlier event; empty: it does not."""
    current: bool = False
    future: bool = False
    pieces: tuple[tuple[str, bool], ...] = ()
    """The text as (piece, is it a hit), where something was looked for."""
    noted: bool = False
    """People wrote a note at this boundary."""


@dataclass(frozen=True, slots=True)
class LogList:
    """The rows shown, and what lies before and after them."""

    entries: tuple[Entry, ...]
    first: int
    last: int
    zero: str
    """What the times count from; empty where the source states none."""
    earlier: int | None = None
    """Where more rows are before the first."""
    later: int | None = None
    cut: bool = False
    """It is cut down: not every event between the first and the last is listed."""
    clock: str = "occurred"
    """Whose clock the times are on: the producer's (`occurred`), or the store's (`recorded`)."""

    @property
    def listed(self) -> int:
        """How many events are listed."""
        return sum(1 for entry in self.entries if entry.kind == "event")


def span(boundary: int, head: int, rows: int) -> tuple[int, int]:
    """First and last sequence number listed around a boundary."""
    if head <= rows:
        return 1, head
    before = BEFORE if rows <= 4 * BEFORE else rows // 2
    first = max(1, min(boundary - before, head - rows + 1))
    return first, first + rows - 1


def build(
    items: Sequence[Item],
    boundary: int,
    *,
    zero: int | None,
    clock: Clock = "occurred",
    of_day: bool = False,
    before: Event | None = None,
    words: Words = None,
    text_of: Callable[[Event], str] = lambda _: "",
    noted: Collection[int] = (),
) -> LogList:
    """Rows of the given events. `words` is what was looked for, to be marked; `text_of` reads what
    was searched of an event whose line does not show it. `noted` are the boundaries with a note.

    Times count from `zero`, where the trajectory began on this clock; None: it states none.
    `of_day`: they are shown as times of day. `before` is the event before the first, where known.
    """
    entries: list[Entry] = []
    turn: int | None = None
    passed = False
    previous = _at(before, clock) if before is not None else None
    for item in items:
        event = item.event
        future = event.sequence_number > boundary
        at = _at(event, clock)
        if future and not passed:
            entries.append(Entry("now", "later"))
        passed = passed or future
        if isinstance(item.payload, OwnershipGranted) and item.payload.cause == "expiry":
            entries.append(Entry("owner", "lease expired: the owner was lost", future=future))
        elif event.step is not None and event.step != turn:
            turn = event.step
            entries.append(Entry("turn", f"turn {turn:,}", future=future))
        entries.append(
            Entry(
                "event",
                item.line.text,
                seq=event.sequence_number,
                type=one_line(event.type, 60),
                family=item.line.family,
                time=shown_time(at, zero, of_day=of_day)
                if at is not None and zero is not None
                else "",
                exact=exact(event.occurred_at or event.recorded_at),
                back=_steps_back(at, previous),
                current=event.sequence_number == boundary,
                future=future,
                pieces=_pieces(item, words, text_of),
                noted=event.sequence_number in noted,
            )
        )
        previous = at if at is not None else previous
    first = items[0].event.sequence_number if items else 0
    last = items[-1].event.sequence_number if items else 0
    text = exact(zero) if zero is not None and items else ""
    return LogList(tuple(entries), first, last, text, clock=clock)


def _at(event: Event, clock: Clock) -> int | None:
    return event.recorded_at if clock == "recorded" else event.occurred_at


def shown_time(at: int, zero: int, *, of_day: bool) -> str:
    """A time from where the trajectory began, or of the day, with the day where it is another."""
    if not of_day:
        return offset(at - zero)
    day, first = exact(at)[5:10], exact(zero)[5:10]
    return time_of_day(at) if day == first else f"{day} {time_of_day(at)}"


def _steps_back(at: int | None, previous: int | None) -> str:
    """Why a row's time is earlier than that of the row above it; empty: it is not."""
    if at is None or previous is None or at >= previous:
        return ""
    return f"{duration(previous - at)} before the event above: the order is the log's"


def _pieces(
    item: Item, words: Words, text_of: Callable[[Event], str]
) -> tuple[tuple[str, bool], ...]:
    """The line with its hits; where it shows none, the words around the first in what was
    searched."""
    if words is None:
        return ()
    text = item.line.text
    match = words.search(highlight.fold(text))
    if match is not None:
        # A list is narrow: what was looked for stands near the beginning.
        start = match.start() - 24 if match.start() > _FAR else 0
        return highlight.pieces(("…" if start else "") + text[start:], words)
    around = highlight.excerpt(text_of(item.event), words)
    return highlight.pieces(around or text, words)
