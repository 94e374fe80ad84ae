"""The budget over the log: its accounts at some sixty boundaries up to the one shown.

The boundaries are multiples of a power of two, so that they stay the same ones while one scrubs;
an account at a boundary never changes, and is remembered. From 64 events apart on they are those
of snapshots, so that a log of a million events costs as much as one of four thousand.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass

from app.pages.tabs.reads import Reads
from core.errors import CorruptAt
from core.limits import SNAPSHOT_EVENTS
from core.record.archive import CorruptSegment
from core.record.record import Account, TrajectoryRecord
from core.record.reduce import Fold
from runtime.service import Runtime
from runtime.time_travel import SegmentLost

#: Points of one chart; fewer where the log is short.
POINTS = 64
#: Remembered points, about 400 bytes each.
_KEPT_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Point:
    """The accounts at one boundary."""

    boundary: int
    accounts: dict[str, Account]


class _Points:
    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, int], Point] = OrderedDict()
        #: Protects `_known`; pages run on several threads.
        self._lock = threading.Lock()

    def get(self, tenant: str, trajectory_id: str, boundary: int) -> Point | None:
        with self._lock:
            return self._known.get((tenant, trajectory_id, boundary))

    def put(self, tenant: str, trajectory_id: str, asked: int, point: Point) -> None:
        with self._lock:
            self._known[tenant, trajectory_id, asked] = point
            if len(self._known) > _KEPT_MAX:
                self._known.popitem(last=False)


_POINTS: weakref.WeakKeyDictionary[Runtime, _Points] = weakref.WeakKeyDictionary()


def spacing(boundary: int) -> int:
    """Events between two points: the smallest power of two that gives at most POINTS of them."""
    step = 1
    while boundary > step * POINTS:
        step *= 2
    return step


def points(reads: Reads) -> tuple[Point, ...]:
    """The accounts over the log, from boundary 0 to the one shown, in order."""
    here = reads.place.seq
    step = spacing(here)
    asked = range(step, here, step)
    known = _POINTS.setdefault(reads.runtime, _Points())
    tenant, trajectory_id = str(reads.who.tenant), reads.place.trajectory_id
    found = {at: known.get(tenant, trajectory_id, at) for at in asked}
    missing = [at for at, point in found.items() if point is None]
    made = _snapshots(reads, missing) if step >= SNAPSHOT_EVENTS else _folded(reads, missing)
    for at, point in made.items():
        known.put(tenant, trajectory_id, at, point)
        found[at] = point
    listed = [point for point in found.values() if point is not None]
    # A snapshot that is not there yet is stood for by an earlier one, which is there once.
    once = {point.boundary: point for point in (Point(0, {}), *listed)}
    once[here] = Point(here, dict(reads.record.budget.accounts))
    return tuple(once[at] for at in sorted(once))


def _point(record: TrajectoryRecord) -> Point:
    return Point(record.boundary, dict(record.budget.accounts))


def _snapshots(reads: Reads, missing: list[int]) -> dict[int, Point]:
    travel = reads.runtime.time_travel
    tenant, trajectory_id = str(reads.who.tenant), reads.place.trajectory_id
    made = {}
    for at in missing:
        record = travel.base(tenant, trajectory_id, at)
        if record.boundary > at - spacing(reads.place.seq):
            made[at] = _point(record)
    return made


def _folded(reads: Reads, missing: list[int]) -> dict[int, Point]:
    """One fold from the first missing point to the last, of POINTS * SNAPSHOT_EVENTS at most."""
    if not missing:
        return {}
    travel = reads.runtime.time_travel
    tenant, trajectory_id = str(reads.who.tenant), reads.place.trajectory_id
    base = travel.base(tenant, trajectory_id, missing[0])
    segments = travel.new_segments(tenant)
    fold = Fold(base, segments)
    made = {}
    try:
        for at in missing:
            travel.advance(fold, segments, tenant, trajectory_id, at)
            made[at] = _point(fold.record())
    except (SegmentLost, CorruptSegment, CorruptAt):
        # The page's own record was read all the same; the chart has fewer points.
        return made
    return made
