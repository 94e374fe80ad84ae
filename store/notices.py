"""After-commit notices: the newest head per trajectory, for whoever follows the log (LOG-4)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from store.state import Name


class Subscription:
    """One follower. It holds at most one entry per trajectory that moved since its last wait."""

    def __init__(self, hub: Hub, *, desk: bool = False) -> None:
        self._hub = hub
        self._desk = desk
        """Told of acts about no trajectory too, under an empty id."""
        self.moved_at = float("-inf")
        """Monotonic seconds of the newest notice."""
        #: Protects the three fields below, and wakes `wait`.
        self._changed = threading.Condition()
        self._heads: dict[Name, int] = {}
        self._woken = False
        self._closed = False

    def put(self, heads: Iterable[tuple[Name, int]]) -> None:
        """Called by the writer after it has answered a group."""
        if not self._desk:
            heads = [one for one in heads if one[0][1]]
            if not heads:
                return
        self.moved_at = time.monotonic()
        with self._changed:
            self._heads.update(heads)
            self._changed.notify_all()

    def wait(self, timeout_seconds: float) -> list[tuple[str, str, int]]:
        """(tenant, trajectory id, head) of all that moved; empty after the timeout, a close or a
        `wake`."""
        with self._changed:
            if not self._heads and not self._closed and not self._woken:
                self._changed.wait(timeout_seconds)
            heads, self._heads, self._woken = self._heads, {}, False
        return [(tenant, trajectory_id, head) for (tenant, trajectory_id), head in heads.items()]

    def wake(self) -> None:
        """Let the thread that waits, or that waits next, look at once."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop following; a thread in `wait` returns."""
        self._hub.leave(self)
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Hub:
    """All followers of one store."""

    def __init__(self) -> None:
        #: Protects the tuple, which is replaced and never changed.
        self._lock = threading.Lock()
        self._followers: tuple[Subscription, ...] = ()

    def subscribe(self, *, desk: bool = False) -> Subscription:
        """A new follower, which sees what commits from now on."""
        subscription = Subscription(self, desk=desk)
        with self._lock:
            self._followers = (*self._followers, subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forget a follower."""
        with self._lock:
            self._followers = tuple(one for one in self._followers if one is not subscription)

    def announce(self, heads: list[tuple[Name, int]]) -> None:
        """Tell every follower."""
        for follower in self._followers:
            follower.put(heads)

    def close(self) -> None:
        """Release every follower that waits."""
        for follower in self._followers:
            follower.close()
