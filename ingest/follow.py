"""Following files and folders: what grew is taken in, again and again, until told to stop.

    look (stat) -> open what changed -> take -> remember -> wait

INVARIANTS
1. At most a tenth of the time goes into looking and reading: after each round it waits at least
   nine times as long as the round took.
2. A file that was renamed keeps its source; its rest is read through the descriptor that was open,
   and a new file under the old name is a source of its own.
3. What failed is said once, and tried again only when the file changed or some time has passed.
4. Nothing is remembered that matters: a follower that was killed is replaced by a new one, which
   finds in the store what is known.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.errors import (
    Busy,
    ImportRefused,
    StoreFull,
    StoreStopped,
    StrandlineError,
    Unavailable,
)
from ingest import files
from ingest.files import OpenedFile, Skipped

#: Shortest and longest wait between two rounds, while something grows and while nothing does.
BUSY_SECONDS = 0.25
IDLE_SECONDS = 1.0
ROUND_SECONDS_MAX = 60.0
#: Something grew so long ago: the rounds are far apart again.
BUSY_FOR_SECONDS = 10.0
#: Share of the time that may go into rounds: one part in so many.
SHARE = 10
#: A file that was not there at the start is first taken when it was left alone so long, so that a
#: copy in the making is not taken for a file of its own; or when it is so old.
SETTLED_SECONDS = 1.0
SETTLED_SECONDS_MAX = 3.0
#: A document that never stays alone so long is read all the same.
DOCUMENT_SECONDS_MAX = 10.0
#: Lines that may still be added to are taken when their file was left alone so long.
QUIET_SECONDS = 2.0
#: A renamed file is read on through its descriptor for so long after it last grew.
RENAMED_SECONDS = 30.0
#: First and longest wait before a file is tried again that contradicts what is known of it.
RETRY_SECONDS = 5.0
RETRY_SECONDS_MAX = 600.0
#: Of a large file all known bytes are compared only so often; in between its ends.
COMPARE_SHARE = 20
#: Refusals of a file that has only begun.
NOTHING_YET = ("empty", "no_events")
_HEAD_BYTES = 4096
_OPEN_MAX = 32

Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class How:
    """How a file shall be read this time."""

    source: str | None
    """Source id it goes by already."""
    at_work: bool
    """Its writer may be at work."""
    edges: bool
    """Comparing only the ends of what is known is enough."""


class Sink(Protocol):
    """Where what grew goes: the store of this process, or a server."""

    opening_seconds: float
    """Time spent so far on getting hold of the store, which is no reading."""

    def take(self, opened: OpenedFile, how: How) -> Wire:
        """The report (Report.document) of one reading."""
        ...

    def rest(self) -> None:
        """A round is over; let go of what nobody else can have meanwhile."""
        ...


@dataclass(slots=True)
class Followed:
    """One file, as it was seen last."""

    identity: str
    """Resolved path."""
    name: str
    inode: tuple[int, int]
    size: int = -1
    mtime_ns: int = -1
    first_seen: float = 0.0
    changed: float = 0.0
    taken: float = 0.0
    compared: float = 0.0
    took_seconds: float = 0.0
    outcome: str = ""
    """Of the newest reading; empty before the first."""
    why: str = ""
    """Why it was refused, or what it waits for."""
    source: str | None = None
    waiting_lines: int = 0
    held_lines: int = 0
    known_bytes: int | None = None
    segments: int = 0
    due: bool = False
    """It changed since the newest reading."""
    retry: float = 0.0
    """Not before this moment."""
    retry_wait: float = 0.0
    head: bytes = b""
    """Digest of its first bytes, and of how many."""
    file: OpenedFile | None = None
    trajectories: tuple[str, ...] = ()
    grew: float = 0.0
    """When something of it was taken last; 0.0: not by this follower."""
    grew_as: str = ""
    """`imported` or `appended`, that time."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a follower is doing, for people."""

    paths: tuple[str, ...]
    files: int
    """Files it looks at."""
    growing: int
    """Files that changed in the last minute."""
    waiting: int
    """Files with lines that are not taken yet."""
    looked_at: float | None
    """Seconds since the last round; None before the first."""
    every_seconds: float
    """Time between two rounds."""
    problems: tuple[tuple[str, str], ...]
    """(file, why it is not taken), newest first; a few."""
    newest: tuple[tuple[str, str, float, tuple[str, ...]], ...]
    """(file, outcome, seconds ago, trajectories) of those that grew last; a few."""
    failure: str | None = None
    """Why the last round ended early, or why there will be no more."""

    def stopped(self, why: str) -> Status:
        """The same, with the reason why there will be no more rounds."""
        return replace(self, failure=why)


class Follower:
    """Follows some paths into a sink. `status` is safe from any thread; the rest is one's."""

    def __init__(
        self,
        paths: Sequence[str],
        sink: Sink,
        *,
        clock: Callable[[], float] = time.monotonic,
        as_name: str | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._sink = sink
        self._clock = clock
        self._as_name = as_name
        #: Protects what `status` reads.
        self._lock = threading.Lock()
        self._files: dict[str, Followed] = {}
        self._renamed: list[Followed] = []
        self._rounds = 0
        self._grew = -1e9
        self._looked: float | None = None
        self._every = IDLE_SECONDS
        self._failure: str | None = None
        self._absent: dict[str, str] = {}
        """Paths that cannot be read, and why."""

    def run(
        self,
        stop: threading.Event,
        tell: Callable[[Wire], None],
        trouble: Callable[[StrandlineError], None],
    ) -> None:
        """Rounds until `stop` is set; `tell` gets each report that says something new.

        A store that takes nothing now is `trouble`, told once; it is tried again, more and more
        seldom, until it does.
        """
        wait, before = 0.0, ""
        try:
            while not stop.is_set():
                try:
                    for document in self.round():
                        tell(document)
                    wait, before = 0.0, ""
                except (StoreStopped, StoreFull, Busy, Unavailable) as error:
                    if str(error) != before:
                        trouble(error)
                    before = str(error)
                    wait = min(max(1.0, 2 * wait), ROUND_SECONDS_MAX)
                stop.wait(max(self._every, wait))
        finally:
            self.close()

    def close(self) -> None:
        """Close the descriptors."""
        for one in (*self._files.values(), *self._renamed):
            _close(one)

    def round(self) -> Iterator[Wire]:
        """Look at everything once, and take what changed; reports that say something new."""
        began, opening = self._clock(), self._sink.opening_seconds
        try:
            yield from self._round(began)
            self._failure = None
        except BaseException as error:
            self._failure = str(error) or type(error).__name__
            raise
        finally:
            self._sink.rest()
            ended = self._clock()
            spent = ended - began - (self._sink.opening_seconds - opening)
            with self._lock:
                busy = ended - self._grew < BUSY_FOR_SECONDS
                self._every = BUSY_SECONDS if busy else IDLE_SECONDS
                if self._rounds:  # The first takes in what was there before.
                    wait = min(spent * (SHARE - 1), ROUND_SECONDS_MAX)
                    self._every = max(self._every, wait)
                self._rounds += 1
                self._looked = ended

    # --- looking -----------------------------------------------------------------------------

    def _round(self, now: float) -> Iterator[Wire]:
        for one in tuple(self._renamed):
            yield from self._take_renamed(one, now)
        seen: set[str] = set()
        full = False
        for path in self._paths:
            absent = ""
            try:
                for found in files.walk(
                    path, lambda name, stat: self._wanted(name, stat, now, seen)
                ):
                    if not isinstance(found, Skipped):
                        yield from self._take(found, now)
                    elif found.name == path or "was left out" in found.why:
                        full = True
                        absent = found.why
            except ImportRefused as error:
                absent = str(error)
            self._note_absent(path, absent)
        if not full:
            for one in [one for one in self._files.values() if one.identity not in seen]:
                self._set_aside(one, now)

    def _note_absent(self, path: str, why: str) -> None:
        """A path that cannot be read is looked for again, and shown meanwhile."""
        with self._lock:
            self._absent.pop(path, None)
            if why:
                self._absent[path] = why

    def _wanted(self, identity: str, stat: os.stat_result, now: float, seen: set[str]) -> bool:
        """Whether to open a file this round; remembers what is seen of it."""
        inode = (stat.st_dev, stat.st_ino)
        seen.add(identity)
        one = self._files.get(identity)
        if one is not None and one.inode != inode:
            self._set_aside(one, now)
            one = None
        if one is None:
            one = self._adopt(identity, inode, now)
        if (one.size, one.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
            age = min(max(0.0, time.time() - stat.st_mtime), now) if one.size < 0 else 0.0
            one.size, one.mtime_ns = stat.st_size, stat.st_mtime_ns
            one.changed, one.due = now - age, True
        if one.size == 0 or now < one.retry:
            return False
        if one.due:
            return self._settled(one, now)
        return one.held_lines > 0 and now - one.changed >= QUIET_SECONDS

    def _settled(self, one: Followed, now: float) -> bool:
        """Whether a file that changed is read now, or a little later."""
        if not one.outcome:
            age = now - one.first_seen
            alone = now - one.changed
            return not self._rounds or alone >= SETTLED_SECONDS or age >= SETTLED_SECONDS_MAX
        if one.known_bytes is not None:
            return now - one.taken >= _pace(one)
        # A whole document is rewritten in place: it is best read between two writings.
        alone, ago = now - one.changed, now - one.taken
        return alone >= SETTLED_SECONDS or ago >= DOCUMENT_SECONDS_MAX

    def _adopt(self, identity: str, inode: tuple[int, int], now: float) -> Followed:
        """A file at a path where none was, or another: renamed, or new."""
        for other in self._renamed:
            if other.inode == inode and other.file is not None:
                self._renamed.remove(other)
                return self._moved(other, identity)
        for other in tuple(self._files.values()):
            if other.inode == inode and other.identity != identity and _gone(other):
                del self._files[other.identity]
                return self._moved(other, identity)
        one = Followed(identity, identity, inode, first_seen=now, changed=now)
        with self._lock:
            self._files[identity] = one
        return one

    def _moved(self, one: Followed, identity: str) -> Followed:
        """The same file under another path: it keeps its source."""
        one.identity = identity
        with self._lock:
            self._files[identity] = one
        return one

    def _set_aside(self, one: Followed, now: float) -> None:
        """Another file has the name; what was open is read to its end."""
        with self._lock:
            del self._files[one.identity]
        one.changed = now
        if one.file is not None and one.known_bytes is not None:
            self._renamed.append(one)
        else:
            _close(one)

    # --- taking ------------------------------------------------------------------------------

    def _take_renamed(self, one: Followed, now: float) -> Iterator[Wire]:
        assert one.file is not None
        stat = os.fstat(one.file.file.fileno())
        ended = now - one.changed >= RENAMED_SECONDS
        if (one.size, one.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
            one.size, one.mtime_ns, one.changed = stat.st_size, stat.st_mtime_ns, now
            one.due, ended = True, False
        held = one.held_lines > 0 and now - one.changed >= QUIET_SECONDS
        if (one.due or held) and one.size:
            yield from self._read(one, replace(one.file, before=stat), now)
        if ended:
            self._renamed.remove(one)
            _close(one)

    def _take(self, opened: OpenedFile, now: float) -> Iterator[Wire]:
        one = self._files[opened.identity]
        one.name = opened.name
        if one.inode != (opened.before.st_dev, opened.before.st_ino):
            opened.file.close()  # Replaced between looking and opening: the next round sees it.
            return
        head = _head_of(opened, one.head)
        if one.source is not None and head != one.head:
            one.source = None  # An inode used again, or a file begun anew: not what it was.
        one.head = _head_of(opened, b"")
        _close(one)
        # Its folder's descriptor ends with the walk; what lies beside it is asked for before.
        one.file = replace(opened, folder=None, entry=opened.identity)
        yield from self._read(one, opened, now)
        self._keep_few_open(one)

    def _read(self, one: Followed, opened: OpenedFile, now: float) -> Iterator[Wire]:
        at_work = now - one.changed < QUIET_SECONDS
        edges = now - one.compared < COMPARE_SHARE * one.took_seconds
        began = self._clock()
        opened.file.seek(0)
        how = How(one.source or self._given(opened), at_work, edges)
        document = self._sink.take(opened, how)
        one.due = False
        with self._lock:
            fresh = self._learn(one, document, self._clock(), began, edges=edges)
        if fresh:
            yield document

    def _given(self, opened: OpenedFile) -> str | None:
        """The source id the caller gives (in a folder, with the file's name)."""
        if self._as_name is None or not opened.in_folder:
            return self._as_name
        return f"{self._as_name}/{opened.name}"

    def _learn(
        self, one: Followed, document: Wire, now: float, began: float, *, edges: bool
    ) -> bool:
        """Remember what a reading said; whether it is worth telling."""
        outcome = str(document["outcome"])
        refused = document["refused"]
        why = str(refused[0]["why"]) if refused and not document["ok"] else ""
        if refused and refused[0].get("reason") in NOTHING_YET:
            outcome, why = "waiting", ""
        told = outcome in ("imported", "appended") or (outcome, why) != (one.outcome, one.why)
        quiet = outcome == "waiting" or (
            outcome == "unchanged" and one.outcome in ("imported", "appended", "waiting")
        )
        one.outcome, one.why, one.taken = outcome, why, now
        if not edges:
            one.compared, one.took_seconds = now, now - began
        one.known_bytes = document.get("known_bytes")
        one.segments = int(document.get("segments") or 0)
        waiting = document.get("waiting") or {"lines": 0, "bytes": 0}
        one.waiting_lines = int(waiting["lines"])
        one.held_lines = one.waiting_lines - (1 if waiting["bytes"] else 0)
        if document["ok"]:
            one.source = document.get("source") if one.known_bytes is not None else None
            one.trajectories = tuple(str(item["id"]) for item in document["trajectories"])
            one.retry = one.retry_wait = 0.0
        elif outcome == "conflict":
            one.retry_wait = min(max(RETRY_SECONDS, 2 * one.retry_wait), RETRY_SECONDS_MAX)
            one.retry = now + one.retry_wait
        if outcome in ("imported", "appended"):
            self._grew = one.grew = now
            one.grew_as = outcome
        return told and not quiet

    def _keep_few_open(self, newest: Followed) -> None:
        """Descriptors are kept for files that grew last; and only of log formats."""
        if newest.known_bytes is None:
            _close(newest)
        opened = [one for one in self._files.values() if one.file is not None]
        for one in sorted(opened, key=lambda one: one.taken)[:-_OPEN_MAX]:
            _close(one)

    # --- telling -----------------------------------------------------------------------------

    def trajectories(self) -> frozenset[str]:
        """Those of the files it looks at, as far as it has read them."""
        with self._lock:
            return frozenset(name for one in self._files.values() for name in one.trajectories)

    def status(self, few: int = 5) -> Status:
        """What it is doing now."""
        now = self._clock()
        with self._lock:
            known = list(self._files.values())
            every, looked, failure = self._every, self._looked, self._failure
            absent = tuple(self._absent.items())
        problems = [one for one in known if one.why]
        newest = [one for one in known if one.grew]
        newest.sort(key=lambda one: one.grew, reverse=True)
        problems.sort(key=lambda one: one.taken, reverse=True)
        return Status(
            paths=self._paths,
            files=len(known),
            growing=sum(1 for one in known if one.taken and now - one.changed < 60),
            waiting=sum(1 for one in known if one.waiting_lines),
            looked_at=None if looked is None else now - looked,
            every_seconds=every,
            problems=(*absent, *((one.name, one.why) for one in problems[:few])),
            newest=tuple(
                (one.name, one.grew_as, now - one.grew, one.trajectories) for one in newest[:few]
            ),
            failure=failure,
        )


def _pace(one: Followed) -> float:
    """Least time between two readings of one file: what is kept of it grows with their number."""
    return one.segments / 2000


def _gone(one: Followed) -> bool:
    """Whether the path no longer leads to that file."""
    try:
        found = os.stat(one.identity, follow_symlinks=False)
    except OSError:
        return True
    return (found.st_dev, found.st_ino) != one.inode


def _head_of(opened: OpenedFile, like: bytes) -> bytes:
    """Length and digest of the first bytes, of as many as `like` is of."""
    length = int.from_bytes(like[:4], "big") if like else min(_HEAD_BYTES, opened.before.st_size)
    opened.file.seek(0)
    head = opened.file.read(length)
    return len(head).to_bytes(4, "big") + hashlib.sha256(head).digest()


def _close(one: Followed) -> None:
    if one.file is not None:
        one.file.file.close()
        one.file = None
