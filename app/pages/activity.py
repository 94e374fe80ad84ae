"""How many events the log took in each half hour of the last day, read from the log itself.

INVARIANTS
1. A figure is exact: sequence numbers at the two ends of a half hour, subtracted. What there was no
   time to count is said to be left out, never estimated.
2. One reading takes at most COUNT_SECONDS and looks at TRAJECTORIES_MAX trajectories; what it found
   of a trajectory is kept until that trajectory has grown.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from app.presenters.format import HOUR
from core.principal import Principal
from runtime.service import Runtime

HALF_HOUR = HOUR // 2
HALF_HOURS = 48
TRAJECTORIES_MAX = 400
COUNT_SECONDS = 0.25
_KEPT_MAX = 2 * TRAJECTORIES_MAX
_PAGE = 200

#: Half hour (microseconds, its beginning) -> events.
Counts = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Day:
    """Events by half hour, oldest first, the last one still going on."""

    begins: tuple[int, ...]
    events: tuple[int, ...]
    left_out: int
    """Trajectories that grew in the day and are not counted in it."""

    @property
    def total(self) -> int:
        """Events counted."""
        return sum(self.events)


class Activity:
    """What was counted of one store's trajectories, the least recently used forgotten."""

    def __init__(self) -> None:
        #: Protects `_known`.
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, int, int], Counts] = OrderedDict()

    def day(self, runtime: Runtime, who: Principal) -> Day:
        """The last 24 hours, up to the half hour that is going on."""
        last = runtime.clock() // HALF_HOUR * HALF_HOUR
        begins = tuple(last - HALF_HOUR * back for back in reversed(range(HALF_HOURS)))
        sums = dict.fromkeys(begins, 0)
        until = time.monotonic() + COUNT_SECONDS
        grown = runtime.projections.count_summaries(who.tenant, {"updated_at__ge": begins[0]})
        counted = 0
        for trajectory_id, head, updated_at in _grown(runtime, who, begins[0]):
            if time.monotonic() > until:
                break
            found = self._of(runtime, who, (trajectory_id, head, updated_at), begins)
            for begin, number in found.items():
                if begin in sums:
                    sums[begin] += number
            counted += 1
        return Day(begins, tuple(sums.values()), max(0, grown - counted))

    def _of(
        self,
        runtime: Runtime,
        who: Principal,
        grown: tuple[str, int, int],
        begins: tuple[int, ...],
    ) -> Counts:
        trajectory_id, head, updated_at = grown
        key = (str(who.tenant), trajectory_id, head, begins[0])
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        found: dict[int, int] = {}
        # From the newest half hour back: each step asks where the one before it ended.
        begin, upto = updated_at // HALF_HOUR * HALF_HOUR, head
        while upto > 0 and begin >= begins[0]:
            before = runtime.store.at_time(who.tenant, trajectory_id, begin - 1)
            before = min(before, upto)
            if upto > before:
                found[begin] = upto - before
            upto = before
            if upto:
                at = runtime.event(who, trajectory_id, upto).recorded_at
                begin = min(begin - HALF_HOUR, at // HALF_HOUR * HALF_HOUR)
        with self._lock:
            self._known[key] = found
            while len(self._known) > _KEPT_MAX:
                self._known.popitem(last=False)
        return found


def _grown(runtime: Runtime, who: Principal, since: int) -> list[tuple[str, int, int]]:
    """(trajectory, its head, when it grew last) of those that grew since, the newest first."""
    found: list[tuple[str, int, int]] = []
    after = None
    while len(found) < TRAJECTORIES_MAX:
        rows = runtime.projections.list_summaries(
            who.tenant,
            sort="updated",
            descending=True,
            after=after,
            limit=_PAGE,
            filters={"updated_at__ge": since},
        )
        found += [
            (
                str(row["trajectory_id"]),
                int(str(row["as_of_sequence"])),
                int(str(row["updated_at"])),
            )
            for row in rows
        ]
        if len(rows) < _PAGE:
            break
        after = (rows[-1]["updated_at"], str(rows[-1]["trajectory_id"]))
    return found[:TRAJECTORIES_MAX]


_ACTIVITY: weakref.WeakKeyDictionary[Runtime, Activity] = weakref.WeakKeyDictionary()


def activity(runtime: Runtime) -> Activity:
    """What is counted of this store."""
    return _ACTIVITY.setdefault(runtime, Activity())
