"""One writer per store: ready commands of all trajectories share one durable flush.

INVARIANTS
1. A future is resolved only after its group's barrier, or with an error that says whether the
   command is absent (refused) or open (AckUnknown) (APP-5, APP-6).
2. The queue is bounded by members and bytes; beyond it the answer is Busy and nothing is dropped
   (APP-7). A member larger than a group's byte bound flushes alone (APP-12).
3. After a failed barrier this writer never writes again: `poisoned` is final.
4. Once `close` says so no thread is in the database, and none gets in: whoever submits afterwards
   is refused, whoever was accepted has been answered.

    open -> full        the disk is full             _flush
    full -> open        a commit, and space is back  _answer
    open | full -> poisoned   the barrier failed     _poison
    open | full -> closed     close()                close

There is no timer: while one group is flushed the next one gathers, and an idle writer sleeps.
Groups are flushed by the writer's thread, or by a caller who waits for an answer while nobody
flushes: it saves that caller two changes of thread, and the lock `_flushing` keeps it one at a
time. Closing takes the same lock and keeps it: no thread is in the database after that.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Literal

from core.errors import AckUnknown, Busy, StoreFull, StoreStopped, StrandlineError
from core.instants import Instant
from core.limits import (
    ACK_SECONDS_MAX,
    BALLAST_BYTES,
    GROUP_BYTES_MAX,
    GROUP_MEMBERS_MAX,
    MIB,
    QUEUE_BYTES_MAX,
    QUEUE_MEMBERS_MAX,
)
from store.acts import heard
from store.ballast import Ballast, free_bytes
from store.failpoints import reach
from store.histogram import MEMBERS, TIMES_US, Histogram
from store.ports import Ack, Domain, GroupStats
from store.state import Draft, Member, Name, Outcome, Writes
from store.transact import BarrierFailed, Contended, Full, Transactor, Unusable

State = Literal["open", "full", "poisoned", "closed"]
#: WAL pages after which the writer copies them into the database file, between two groups.
CHECKPOINT_PAGES = 2_000
#: Pages an event touches at most: its own, and one in each index of its table.
_PAGES_PER_EVENT = 4
_FULL_RETRY_SECONDS = 30
#: A close waits this long for the disk; a command has been answered by then.
CLOSE_SECONDS = ACK_SECONDS_MAX
#: Free space from which a disk that was full counts as having room again.
_ROOM_BYTES = 2 * BALLAST_BYTES
#: With so much free the disk is asked again only after a while, not for every group.
_PLENTY_BYTES = 1024 * MIB
_ROOM_NS = 100_000_000


class Answer(Future[Any]):
    """The answer to one command; waiting for it without a limit of one's own may flush it."""

    def __init__(self, help_out: Callable[[], None]) -> None:
        super().__init__()
        self._help_out = help_out

    def result(self, timeout: float | None = None) -> Any:
        """As `Future.result`."""
        if timeout is None and not self.done():
            self._help_out()
        return super().result(timeout)


class Entry:
    """One queued command."""

    __slots__ = ("arrived_ns", "future", "member", "size")

    def __init__(self, member: Member, size: int, arrived_ns: int, future: Future[Any]) -> None:
        self.member = member
        self.size = size
        self.arrived_ns = arrived_ns
        self.future = future


class Writer:
    """The queue, the thread, and what became of every group."""

    def __init__(
        self,
        transactor: Transactor,
        *,
        domain: Domain,
        clock: Callable[[], Instant],
        ballast: Ballast,
        announce: Callable[[list[tuple[Name, int]]], None],
        on_poison: Callable[[str], None],
        reserve_bytes: int = BALLAST_BYTES,
        ack_seconds: float = ACK_SECONDS_MAX,
        now_ns: Callable[[], int] = time.monotonic_ns,
        gone: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._transactor = transactor
        self._domain = domain
        self._clock = clock
        self._ballast = ballast
        self._announce = announce
        self._on_poison = on_poison
        self._reserve_bytes = reserve_bytes
        self._ack_ns = int(ack_seconds * 1e9)
        self._now_ns = now_ns
        self._gone = gone
        #: Held by whoever flushes: the writer's thread, or a caller that helps out; for good by
        #: the one that closed.
        self._flushing = threading.Lock()
        #: Protects `_resting`, held while `_flushing` is waited for.
        self._closing_down = threading.Lock()
        self._resting = False
        #: Protects the queue, its counts, the state and the group in flight.
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._busy = threading.Event()
        self._queue: deque[Entry] = deque()
        self._queue_bytes = 0
        self._sleeping = False
        self._state: State = "open"
        self._reason = ""
        self._closing = False
        self._ended = False
        self._active: Sequence[Entry] = ()
        self._active_since_ns = 0
        # What an earlier process left in the WAL is copied after the first group.
        self._pages = CHECKPOINT_PAGES - 1
        self._room_until_ns = 0
        """Until then the disk has room: it had plenty when it was last asked."""
        # Written by whoever flushes; read without a lock, as counters may be.
        self._groups = 0
        self._members = 0
        self._events = 0
        self._refused: dict[str, int] = {}
        self._group_us = 1_000.0
        self._queue_wait = Histogram(TIMES_US)
        self._storage_time = Histogram(TIMES_US)
        self._group_members = Histogram(MEMBERS)
        self._thread = threading.Thread(target=self._loop, name="store-writer", daemon=True)
        self._closed_down = threading.Event()
        self._watch = threading.Thread(target=self._watchdog, name="store-watch", daemon=True)
        self._thread.start()
        self._watch.start()

    # --- callers ---------------------------------------------------------------------------------

    def submit(self, member: Member, size: int) -> Future[Any]:
        """Queue one command; the future is failed already where it cannot be taken."""
        entry = Entry(member, size, self._now_ns(), Answer(self._help_out))
        with self._lock:
            if self._closing or self._state in ("poisoned", "closed"):
                error: StrandlineError = self._stopped()
            elif len(self._queue) >= QUEUE_MEMBERS_MAX or (
                self._queue and self._queue_bytes + size > QUEUE_BYTES_MAX
            ):
                error = self._full_queue()
            else:
                self._queue.append(entry)
                self._queue_bytes += size
                if self._sleeping:
                    self._sleeping = False
                    self._wake.notify()
                if not self._busy.is_set():
                    self._busy.set()
                return entry.future
        self._count_refused(error)
        entry.future.set_exception(error)
        return entry.future

    def stats(self) -> GroupStats:
        """Counters since start."""
        with self._lock:
            members, size, state = len(self._queue), self._queue_bytes, self._state
        if state == "full" and self._free() >= _ROOM_BYTES:
            state = "open"
        return GroupStats(
            groups=self._groups,
            members=self._members,
            events=self._events,
            queue_members=members,
            queue_bytes=size,
            queue_wait_us=self._queue_wait.snapshot(),
            storage_time_us=self._storage_time.snapshot(),
            group_members=self._group_members.snapshot(),
            refused=dict(self._refused),
            state=state,
        )

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Take nothing new, finish what is queued, then stop; idempotent.

        False where the disk does not answer within `seconds`: a thread is still in the database,
        whose connection must then be left to the end of the process. What is queued or in flight
        is answered all the same, by the time limit.
        """
        end = time.monotonic() + seconds
        with self._lock:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(seconds)
        if self._thread.is_alive() or not self._at_rest(max(0.0, end - time.monotonic())):
            self._expire(self._now_ns())
            return False
        with self._lock:
            self._ended = True
            self._busy.set()
        self._closed_down.set()
        self._watch.join()
        return True

    def _at_rest(self, seconds: float) -> bool:
        """Wait until nobody flushes, and let nobody any more."""
        with self._closing_down:
            if not self._resting:
                self._resting = self._flushing.acquire(timeout=seconds)
            return self._resting

    # --- the thread ------------------------------------------------------------------------------

    def _loop(self) -> None:
        while self._wait():
            with self._flushing:
                self._flush_next()
                if self._pages >= CHECKPOINT_PAGES and self._state != "poisoned":
                    self._checkpoint()
        with self._lock:
            if self._state != "poisoned":
                self._state = "closed"

    def _wait(self) -> bool:
        """Until there is something to do; False once there never is again."""
        with self._lock:
            while not self._queue and self._pages < CHECKPOINT_PAGES:
                if self._closing or self._state == "poisoned":
                    return False
                self._sleeping = True
                self._wake.wait()
            self._sleeping = False
            return self._state != "poisoned"

    def _help_out(self) -> None:
        """Flush what is queued in the caller's thread, if nobody flushes now."""
        if self._flushing.acquire(blocking=False):
            try:
                self._flush_next()
            finally:
                self._flushing.release()

    def _flush_next(self) -> None:
        """The next group, if there is one; the caller holds `_flushing`."""
        group = self._take()
        if group:
            reach("append.queued")
            self._flush(group)
            with self._lock:
                self._active = ()
                if self._pages >= CHECKPOINT_PAGES and self._sleeping:
                    self._sleeping = False
                    self._wake.notify()

    def _take(self) -> list[Entry]:
        """The next group: by arrival, within both bounds."""
        with self._lock:
            if not self._queue:
                return []
            group = [self._queue.popleft()]
            size = group[0].size
            while self._queue and len(group) < GROUP_MEMBERS_MAX:
                size += self._queue[0].size
                if size > GROUP_BYTES_MAX:
                    size -= self._queue[0].size
                    break
                group.append(self._queue.popleft())
            self._queue_bytes -= size
            self._active = group
            self._active_since_ns = self._now_ns()
        return group

    def _flush(self, group: list[Entry]) -> None:
        if not self._has_room(sum(entry.size for entry in group)):
            self._fail(group, self._disk_full())
            return
        begun_ns = self._now_ns()
        try:
            writes, outcomes = self._transactor.run([e.member for e in group], self._clock())
        except Full:
            self._ballast.release()
            self._set_state("full")
            self._fail(group, self._disk_full())
        except Contended as error:
            self._fail(group, Busy(f"the store is held by another writer: {error}", retry_after=1))
        except BarrierFailed as error:
            self._poison(str(error), group, open_outcome=True)
        except Unusable as error:
            self._poison(str(error), group, open_outcome=False)
        except Exception as error:  # a defect of one member must not reach the others
            if len(group) == 1:
                self._fail(group, error)
            else:
                for entry in group:
                    if self._state != "poisoned":
                        self._flush([entry])
                    else:
                        self._fail([entry], self._stopped())
        else:
            self._answer(group, writes, outcomes, begun_ns)

    def _answer(
        self, group: list[Entry], writes: Writes, outcomes: list[Outcome], begun_ns: int
    ) -> None:
        done_ns = self._now_ns()
        if self._state == "full" and self._free() >= _ROOM_BYTES:
            self._set_state("open")
            self._ballast.keep()
        storage_us = (done_ns - begun_ns) // 1_000
        self._groups += 1
        self._members += len(group)
        self._events += len(writes.events)
        self._pages += 2 + _PAGES_PER_EVENT * len(writes.events)
        self._group_us += (storage_us - self._group_us) / 8
        self._storage_time.add(storage_us)
        self._group_members.add(len(group))
        for entry, outcome in zip(group, outcomes, strict=True):
            wait_us = (begun_ns - entry.arrived_ns) // 1_000
            self._queue_wait.add(wait_us)
            if type(outcome) is Draft:
                settle(entry.future, self._ack(outcome, wait_us, storage_us))
            elif isinstance(outcome, Exception):
                self._count_refused(outcome)
                settle_error(entry.future, outcome)
            else:
                settle(entry.future, outcome)
        if writes.heads or writes.acts:
            self._announce(heard(writes))
        reach("append.announced")

    def _ack(self, draft: Draft, wait_us: int, storage_us: int) -> Ack:
        return Ack(
            draft.trajectory_id,
            draft.sequence_numbers,
            draft.head,
            draft.chain,
            self._domain,
            wait_us,
            storage_us,
            draft.duplicate,
            draft.duplicates,
            draft.owner_epoch,
            draft.fenced,
        )

    def _checkpoint(self) -> None:
        try:
            frames, copied = self._transactor.checkpoint()
        except Full:
            self._ballast.release()
            self._set_state("full")
        except Contended:
            self._pages = CHECKPOINT_PAGES // 2
        except Unusable as error:
            self._poison(f"WAL checkpoint: {error}", [], open_outcome=False)
        else:
            # What a reader kept from being copied still counts, so that it is tried again soon.
            self._pages = min(frames - copied, CHECKPOINT_PAGES // 2)

    # --- refusals and the end --------------------------------------------------------------------

    def _has_room(self, size: int) -> bool:
        """Refuse before the disk is full: a full disk also stops WAL checkpoints."""
        if not self._reserve_bytes or self._now_ns() < self._room_until_ns:
            return True
        free = self._free()
        if free > _PLENTY_BYTES + size:
            # Not even other programs fill so much in that time.
            self._room_until_ns = self._now_ns() + _ROOM_NS
            return True
        if free < self._reserve_bytes + 2 * size:
            self._set_state("full")
            return False
        return True

    def _free(self) -> int:
        return free_bytes(self._ballast.path.parent)

    def _set_state(self, state: State) -> None:
        with self._lock:
            if self._state in ("open", "full"):
                self._state = state

    def _poison(self, reason: str, group: list[Entry], *, open_outcome: bool) -> None:
        with self._lock:
            self._state = "poisoned"
            self._reason = reason
            waiting = list(self._queue)
            self._queue.clear()
            self._queue_bytes = 0
        # The marker comes before the answers, so that no crash in between forgets the failure.
        self._on_poison(reason)
        if open_outcome:
            self._fail(
                group,
                AckUnknown(
                    f"the durable barrier failed ({reason}); it is not known whether this is "
                    "stored. Send the identical request again once the store is back."
                ),
            )
        else:
            self._fail(group, self._stopped())
        self._fail(waiting, self._stopped())

    def _fail(self, group: Sequence[Entry], error: Exception) -> None:
        for entry in group:
            # Each caller raises an error of its own: a shared one would collect their tracebacks.
            own = (
                type(error)(str(error), **error.data)
                if isinstance(error, StrandlineError)
                else error
            )
            self._count_refused(own)
            settle_error(entry.future, own)

    def _count_refused(self, error: Exception) -> None:
        code = getattr(error, "code", "error")
        if isinstance(error, StrandlineError):
            error.counted = True
        self._refused[code] = self._refused.get(code, 0) + 1

    def _stopped(self) -> StoreStopped:
        if self._state == "poisoned":
            return StoreStopped(
                f"the store stopped after a failed write ({self._reason}); it takes no writes "
                "until it was restarted"
            )
        return StoreStopped("the store is closed")

    def _disk_full(self) -> StoreFull:
        return StoreFull(
            f"the disk that holds {self._ballast.path.parent} is full; nothing was stored, reads "
            "go on. Free some space, then send the same request again.",
            retry_after=_FULL_RETRY_SECONDS,
        )

    def _full_queue(self) -> Busy:
        groups = len(self._queue) / GROUP_MEMBERS_MAX + 1
        return Busy(
            "the append queue is full; nothing was dropped. Send the same request again.",
            retry_after=max(1, round(groups * self._group_us / 1e6)),
            queue_members=len(self._queue),
        )

    # --- time limit ------------------------------------------------------------------------------

    def _watchdog(self) -> None:
        """Answer what the disk does not: open for the group in flight, refused for the queued.

        It also looks whether the files that are written to still have their names: a group may
        be acknowledged for at most a second after somebody removed them.
        """
        while True:
            self._busy.wait()
            with self._lock:
                if self._ended:
                    return
                if not self._queue and not self._active:
                    self._busy.clear()
                    continue
            # Woken at once by `close`: a command does not wait a second for its end.
            self._closed_down.wait(min(1.0, self._ack_ns / 4e9))
            self._expire(self._now_ns() - self._ack_ns)
            reason = self._gone()
            if reason is not None:
                self._poison(reason, [], open_outcome=True)
                return

    def _expire(self, limit_ns: int) -> None:
        """Answer what was there before this moment."""
        with self._lock:
            late = list(self._active) if self._active_since_ns < limit_ns else []
            queued: list[Entry] = []
            while self._queue and self._queue[0].arrived_ns < limit_ns:
                entry = self._queue.popleft()
                self._queue_bytes -= entry.size
                queued.append(entry)
        for entry in late:
            settle_error(
                entry.future,
                AckUnknown(
                    "the durable barrier was not answered in time; it is not known whether this "
                    "is stored. Send the identical request again."
                ),
            )
        if queued:
            self._fail(queued, Busy("the disk is too slow; nothing was stored", retry_after=5))


def settle(future: Future[Any], value: object) -> None:
    """Resolve, unless the time limit or the caller was first."""
    try:
        future.set_result(value)
    except InvalidStateError:
        return


def settle_error(future: Future[Any], error: BaseException) -> None:
    """Fail, unless the time limit or the caller was first."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        return
