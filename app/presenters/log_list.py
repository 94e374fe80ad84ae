"""The log around a boundary as rows grouped by turn, with what lies after it set apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.presenters import highlight
from app.presenters.format import exact, offset
from app.presenters.highlight import Words
from app.presenters.terminal import one_line
from app.presenters.timeline import Item
from core.events.ownership import OwnershipGranted

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
    current: bool = False
    future: bool = False
    pieces: tuple[tuple[str, bool], ...] = ()
    """The text as (piece, is it a hit), where something was looked for."""


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
    recorded: bool = False,
    words: Words = None,
) -> LogList:
    """Rows of the given events; times count from the first of them that states one. `words` is
    what was looked for, to be marked.

    `recorded`: where none of them states when it occurred, when it was recorded says something.
    """
    entries: list[Entry] = []
    zero = next((item.event.occurred_at for item in items if item.event.occurred_at), None)
    clock = "recorded" if zero is None and recorded and items else "occurred"
    if clock == "recorded":
        zero = items[0].event.recorded_at
    turn: int | None = None
    passed = False
    for item in items:
        event = item.event
        future = event.sequence_number > boundary
        at = event.recorded_at if clock == "recorded" else event.occurred_at
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
                time=offset(at - zero) if at is not None and zero is not None else "",
                exact=exact(event.occurred_at or event.recorded_at),
                current=event.sequence_number == boundary,
                future=future,
                pieces=_pieces(item, words),
            )
        )
    first = items[0].event.sequence_number if items else 0
    last = items[-1].event.sequence_number if items else 0
    text = exact(zero) if zero is not None else ""
    return LogList(tuple(entries), first, last, text, clock=clock)


def _pieces(item: Item, words: Words) -> tuple[tuple[str, bool], ...]:
    """The line with its hits; where it shows none, the words around the first in the payload."""
    if words is None:
        return ()
    text = item.line.text
    match = words.search(text)
    if match is not None:
        # A list is narrow: what was looked for stands near the beginning.
        start = match.start() - 24 if match.start() > _FAR else 0
        return highlight.pieces(("…" if start else "") + text[start:], words)
    around = highlight.excerpt(item.event.payload or b"", words)
    return highlight.pieces(around or text, words)
