"""Which events the log list shows: those around the boundary, those of some lanes, or the hits of
a search inside this log.

INVARIANTS
1. Bounded: as many events are read as rows are shown, whatever the length of the log; lanes are
   found in the log's marks, hits in the full-text index.
2. A list that leaves events out says so, and by how many; one over an index that is behind says
   how far it reaches.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.pages import reading
from app.pages.tabs.reads import Reads
from app.presenters import highlight, lanes, log_list
from app.presenters.highlight import Words
from app.presenters.lanes import LaneCount
from app.presenters.timeline import Item
from core.errors import StrandlineError
from core.limits import LOG_MARKS_MAX
from core.principal import Principal
from runtime.service import Runtime
from store.ports import TextIndex

#: Logs whose marks are remembered; one byte an event each.
_LOGS_KEPT = 8
_COUNTS_KEPT = 500
#: How long a page waits, when asked to, for the index to reach the head; and how often it looks.
WAIT_SECONDS = 3.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Found:
    """What a search inside this log found."""

    text: str
    words: Words
    total: int = 0
    at: int = 0
    """How many hits lie at or before the boundary."""
    here: bool = False
    """The event at the boundary is one."""
    previous: int | None = None
    next: int | None = None
    indexed: int = 0
    """The index reaches to this sequence number."""
    why: str = ""
    """Why nothing could be looked for."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows of a list that is cut down."""

    items: tuple[Item, ...]
    earlier: int | None = None
    """The nearest event before the first row that would be shown too."""
    later: int | None = None


class _Marks:
    """The marks of logs, as far as they were read; a log only grows."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._counts: OrderedDict[tuple[str, str, str, int], int] = OrderedDict()
        #: Protects both; pages run on several threads.
        self._lock = threading.Lock()

    def of(self, runtime: Runtime, who: Principal, trajectory_id: str, head: int) -> bytes:
        key = (str(who.tenant), trajectory_id)
        with self._lock:
            known = self._known.get(key, b"")
        if len(known) < head:
            known += runtime.marks(who, trajectory_id, first=len(known) + 1, last=head)
            with self._lock:
                self._known[key] = known
                self._known.move_to_end(key)
                if len(self._known) > _LOGS_KEPT:
                    self._known.popitem(last=False)
        return known[:head] if len(known) > head else known

    def total(self, index: TextIndex, tenant: str, text: str, trajectory_id: str, to: int) -> int:
        """Hits in a log that is indexed `to` this sequence number."""
        key = (tenant, trajectory_id, text, to)
        with self._lock:
            known = self._counts.get(key)
        if known is None:
            known = index.count(tenant, text, trajectory_id)
            with self._lock:
                self._counts[key] = known
                if len(self._counts) > _COUNTS_KEPT:
                    self._counts.popitem(last=False)
        return known


_OF_RUNTIME: weakref.WeakKeyDictionary[Runtime, _Marks] = weakref.WeakKeyDictionary()


def marks(reads: Reads) -> bytes | None:
    """The marks of the whole log; None where it is longer than LOG_MARKS_MAX."""
    head = reads.head.sequence_number
    if head > LOG_MARKS_MAX:
        return None
    known = _OF_RUNTIME.setdefault(reads.runtime, _Marks())
    return known.of(reads.runtime, reads.who, reads.place.trajectory_id, head)


def marks_of(reads: Reads, first: int, last: int) -> bytes:
    """The marks of a stretch of the log; at most LOG_MARKS_MAX of them."""
    held = marks(reads)
    if held is not None:
        return held[first - 1 : last]
    last = min(last, first + LOG_MARKS_MAX - 1)
    return reads.runtime.marks(reads.who, reads.place.trajectory_id, first=first, last=last)


def choose(reads: Reads, *, wait: bool = False) -> tuple[Found | None, Chosen | None]:
    """What was looked for and the rows to show, as the place says; None: those around it."""
    place = reads.place
    if place.find:
        return find(reads, wait=wait)
    return None, of_lanes(reads) if lanes.chosen(place.only) else None


def lane_counts(reads: Reads) -> tuple[LaneCount, ...]:
    """The lanes one may choose from, with their counts; none for an empty or too long log."""
    held = marks(reads)
    return lanes.counts(held, reads.place.seq, reads.place.only) if held else ()


def of_lanes(reads: Reads) -> Chosen:
    """The events of the chosen lanes around the boundary."""
    picked = lanes.chosen(reads.place.only)
    held = marks(reads)
    if held is None:
        return _by_neighbour(reads, picked)
    table = held.translate(lanes.mask(picked))
    here, rows = reads.place.seq, reads.place.rows
    back = log_list.BEFORE if rows <= 4 * log_list.BEFORE else rows // 2
    before: list[int] = []
    at = here
    while len(before) <= rows and (at := table.rfind(1, 0, at)) >= 0:
        before.append(at + 1)
    after: list[int] = []
    at = here - 1
    while len(after) <= rows and (at := table.find(1, at + 1)) >= 0:
        after.append(at + 1)
    return _window(reads, before, after, back)


def _by_neighbour(reads: Reads, picked: Sequence[lanes.Lane]) -> Chosen:
    """The same, by one look-up for each row."""
    wanted = tuple({int(mark) for lane in picked for mark in lane.marks})
    here, rows = reads.place.seq, reads.place.rows
    back = log_list.BEFORE if rows <= 4 * log_list.BEFORE else rows // 2

    def walk(at: int, *, forward: bool, limit: int) -> list[int]:
        found: list[int] = []
        while len(found) < limit:
            near = reads.runtime.neighbour(
                reads.who,
                reads.place.trajectory_id,
                marks=wanted,
                sequence_number=at,
                forward=forward,
            )
            if near is None:
                break
            found.append(near)
            at = near
        return found

    before = walk(here + 1, forward=False, limit=rows + 1)
    return _window(reads, before, walk(here, forward=True, limit=rows + 1), back)


def _window(reads: Reads, before: Sequence[int], after: Sequence[int], back: int) -> Chosen:
    """At most `rows` of what lies at or before (newest first) and after the boundary."""
    rows = reads.place.rows
    behind = max(min(len(before), back), min(len(before), rows - len(after)))
    ahead = min(len(after), rows - behind)
    listed = [*reversed(before[:behind]), *after[:ahead]]
    return Chosen(
        tuple(_read(reads, listed)),
        before[behind] if len(before) > behind else None,
        after[ahead] if len(after) > ahead else None,
    )


def _read(reads: Reads, numbers: Sequence[int]) -> list[Item]:
    """These events with their lines; neighbours are read in one go."""
    items: list[Item] = []
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            first, last = numbers[start], numbers[at - 1]
            place = reads.place
            items += reading.items(reads.runtime, reads.who, place.trajectory_id, first, last)
            start = at
    return items


def find(reads: Reads, *, wait: bool = False) -> tuple[Found, Chosen | None]:
    """The hits of the place's search around the boundary; None where nothing could be looked for.

    `wait`: give the index up to WAIT_SECONDS to reach the head first.
    """
    place, index = reads.place, reads.runtime.text_index
    words = highlight.words(place.find)
    if index is None:
        return Found(place.find, words, why="this server keeps no full-text index"), None
    tenant = str(reads.who.tenant)
    try:
        if wait:
            _wait(index, tenant, place.trajectory_id, reads.head.sequence_number)
        found = _counted(reads, index, tenant, Found(place.find, words))
        return found[0], found[1]
    except StrandlineError as error:
        return Found(place.find, words, why=str(error)), None


def _wait(index: TextIndex, tenant: str, trajectory_id: str, head: int) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while index.watermark(tenant, trajectory_id) < head and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def _counted(reads: Reads, index: TextIndex, tenant: str, found: Found) -> tuple[Found, Chosen]:
    place, rows = reads.place, reads.place.rows
    name, text, here = place.trajectory_id, found.text, place.seq
    known = _OF_RUNTIME.setdefault(reads.runtime, _Marks())
    indexed = index.watermark(tenant, name)
    before = [
        hit.sequence_number
        for hit in index.hits(
            tenant, text, trajectory_id=name, after=here + 1, limit=rows + 1, descending=True
        )
    ]
    after = [
        hit.sequence_number
        for hit in index.hits(tenant, text, trajectory_id=name, after=here, limit=rows + 1)
    ]
    is_hit = bool(before) and before[0] == here
    earlier = before[1:] if is_hit else before
    counted = replace(
        found,
        total=known.total(index, tenant, text, name, indexed),
        at=index.position(tenant, text, name, here) if len(before) > rows else len(before),
        here=is_hit,
        previous=earlier[0] if earlier else None,
        next=after[0] if after else None,
        indexed=indexed,
    )
    if lanes.chosen(place.only):
        before, after = _in_lanes(reads, before), _in_lanes(reads, after)
    back = log_list.BEFORE if rows <= 4 * log_list.BEFORE else rows // 2
    return counted, _window(reads, before, after, back)


def _in_lanes(reads: Reads, numbers: list[int]) -> list[int]:
    """Those of these events that are in the chosen lanes."""
    picked = lanes.mask(lanes.chosen(reads.place.only))
    held = marks(reads)
    if held is None:
        return numbers
    return [n for n in numbers if n <= len(held) and picked[held[n - 1]]]
