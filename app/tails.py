"""Who waits for the log to grow: one thread hears the store, readers wait for its newest number.

INVARIANTS
1. A reader owes at most one number, the newest: whatever is appended while it does not read
   replaces what it was not told yet, so nothing queues for it.
2. Readers are bounded for each caller here, and in all by the guard; beyond either the answer is
   503 with Retry-After, and the page says that it does not follow.
3. Without readers nothing here follows the store.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core.errors import Busy
from core.limits import STREAMS_PER_CALLER_MAX
from store.ports import Notices

#: How long the listening thread gathers between two calls of the loop: readers are told at most
#: every PACE_SECONDS anyway, and appends should not pay for them.
GATHER_SECONDS = 0.1
_WAIT_SECONDS = 60.0

#: Tenant and trajectory; None for all trajectories of the tenant.
Topic = tuple[str, str | None]


class Reader:
    """One open stream: woken when its topic has moved."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()
        self.ended = False
        """The server is stopping: the stream ends, and its page takes it up again later."""

    async def wait(self, seconds: float) -> bool:
        """Whether the topic has moved since the last call, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            return False
        self._moved.clear()
        return True

    def wake(self) -> None:
        """Called in the loop's own thread."""
        self._moved.set()


class Tails:
    """All readers of one application; used from its loop's thread alone, but for `_listen`."""

    def __init__(self, subscribe: Callable[[], Notices]) -> None:
        self._subscribe = subscribe
        self._topics: dict[Topic, set[Reader]] = {}
        self._callers: dict[str, int] = {}
        self._notices: Notices | None = None
        self._ended = False

    @contextmanager
    def reading(self, topic: Topic, caller: str) -> Iterator[Reader]:
        """A place for one reader. Busy where the caller has STREAMS_PER_CALLER_MAX already."""
        if self._callers.get(caller, 0) >= STREAMS_PER_CALLER_MAX:
            raise Busy(
                f"{STREAMS_PER_CALLER_MAX} pages of this caller follow the log already; reload to "
                "see newer events",
                retry_after=5,
            )
        reader = Reader()
        reader.ended = self._ended
        self._callers[caller] = self._callers.get(caller, 0) + 1
        self._topics.setdefault(topic, set()).add(reader)
        if self._notices is None and not self._ended:
            self._follow()
        try:
            yield reader
        finally:
            self._leave(topic, caller, reader)

    def _leave(self, topic: Topic, caller: str, reader: Reader) -> None:
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]
        self._topics[topic].discard(reader)
        if not self._topics[topic]:
            del self._topics[topic]
        if not self._topics:
            self._rest()

    def end(self) -> None:
        """Let every stream end, and follow no more; idempotent."""
        self._ended = True
        self._rest()
        for readers in self._topics.values():
            for reader in readers:
                reader.ended = True
                reader.wake()

    @property
    def count(self) -> int:
        """Open streams."""
        return sum(self._callers.values())

    # --- the store ---------------------------------------------------------------------------

    def _follow(self) -> None:
        self._notices = self._subscribe()
        threading.Thread(
            target=self._listen,
            args=(self._notices, asyncio.get_running_loop()),
            name="tails",
            daemon=True,
        ).start()

    def _rest(self) -> None:
        if self._notices is not None:
            notices, self._notices = self._notices, None
            notices.close()

    def _listen(self, notices: Notices, loop: asyncio.AbstractEventLoop) -> None:
        """Until these notices are no longer the ones that count."""
        pause = threading.Event()
        while self._notices is notices:
            moved = notices.wait(_WAIT_SECONDS)
            if not moved:
                continue
            try:
                loop.call_soon_threadsafe(self._wake, [name[:2] for name in moved])
            except RuntimeError:
                return  # The loop has ended, and every reader with it.
            pause.wait(GATHER_SECONDS)

    def _wake(self, moved: list[tuple[str, str]]) -> None:
        for tenant, trajectory_id in moved:
            for topic in ((tenant, trajectory_id), (tenant, None)):
                for reader in self._topics.get(topic, ()):
                    reader.wake()
