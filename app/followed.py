"""Which imported logs are still read: what pages may claim of a file that may grow.

Nobody but who reads a file knows whether it is read again. This server knows its own watched
folders, and when a follower (`strandline import --follow`) last sent it something; nothing else.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

#: Trajectories whose newest reading is remembered.
_KEPT = 10_000
#: A follower that sent something so long ago is taken to be at work still.
RECENT_SECONDS = 60.0


class Readings:
    """When followers last sent something of a trajectory. Safe from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at: OrderedDict[tuple[str, str], float] = OrderedDict()
        #: Protects `_at`; imports and pages run on several threads.
        self._lock = threading.Lock()

    def saw(self, tenant: str, trajectory_ids: Iterable[str]) -> None:
        """A follower has just sent something of these."""
        with self._lock:
            for name in trajectory_ids:
                self._at[tenant, name] = self._clock()
                self._at.move_to_end((tenant, name))
            while len(self._at) > _KEPT:
                self._at.popitem(last=False)

    def ago(self, tenant: str, trajectory_id: str) -> float | None:
        """Seconds since the newest; None: no follower sent any since this server started."""
        with self._lock:
            at = self._at.get((tenant, trajectory_id))
        return None if at is None else max(0.0, self._clock() - at)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a page at the end of a log may say of more to come."""

    word: str
    why: str


_LIVE = Claim("live", "This page shows what its runtime appends as soon as it is stored.")
_COPY = Claim(
    "at the end", "This page shows what is stored from now on; a copy grows by another install."
)
_UNFOLLOWED = Claim(
    "at the end",
    "This page shows what is stored from now on. Nothing that this server knows of reads the file "
    "again: import it once more, follow it with --follow, or watch its folder.",
)
_WATCHED = Claim(
    "follows the file",
    "The file lies in a folder that this server watches: what is added to it is read and shown.",
)


@dataclass(frozen=True, slots=True)
class Followed:
    """What is known of followers now."""

    watched: Callable[[], Collection[str]] = field(default=frozenset)
    """Trajectories of the files in watched folders."""
    readings: Readings = field(default_factory=Readings)

    def claim(self, tenant: str, trajectory_id: str, standing: str) -> Claim:
        """What may be said of a log that stands open at its end."""
        if standing in ("gated", "reported"):
            return _LIVE
        if standing != "imported":
            return _COPY
        if trajectory_id in self.watched():
            return _WATCHED
        ago = self.readings.ago(tenant, trajectory_id)
        if ago is None:
            return _UNFOLLOWED
        word: Literal["follows the file", "at the end"] = (
            "follows the file" if ago <= RECENT_SECONDS else "at the end"
        )
        return Claim(
            word,
            f"This page shows what is stored from now on. A follower sent more of it "
            f"{_span(ago)} ago; whether it still runs, this server does not know.",
        )


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
