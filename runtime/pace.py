"""How much of the machine a follower takes from the appends that it follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

#: Appends are coming if one came within this time.
BUSY_SECONDS = 1.0
#: Share of one core where none are: whoever reads waits less than a slice.
IDLE_SHARE = 0.5


class Pace:
    """Holds one thread to a share of one core while the store is busy.

    INVARIANT
    1. Of the time from one return of `rest` to the next while the store is busy, the thread
       computes for at most `share`, and otherwise for at most IDLE_SHARE; time it waited for
       others (the interpreter, a disk) is not counted as its own, and rest it did not need is not
       saved up.
    """

    def __init__(
        self,
        share: float,
        stop: Event,
        *,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        self._share = share
        self._stop = stop
        self._clock = clock
        self._used = used
        self._began = 0.0
        self._spent = 0.0

    def begin(self) -> None:
        """Count from here; called by the thread that will rest."""
        self._began, self._spent = self._clock(), self._used()

    def rest(self, moved_at: float) -> None:
        """Pause for as long as the work since the last call takes to become its share. `moved_at`:
        monotonic seconds of the newest append."""
        now = self._clock()
        share = self._share if now - moved_at < BUSY_SECONDS else IDLE_SHARE
        due = (self._used() - self._spent) / share - (now - self._began)
        if due > 0:
            self._stop.wait(due)
        self.begin()
