"""Keeps the full-text index up to date behind the log: a follower, never in its way.

INVARIANTS
1. What is indexed of an event is what it states: texts of its payload. Closed words (a status, a
   role), settings of the program, digests and long unbroken runs are left out, by rule and not by
   chance.
2. The text of a message that a ContextBuilt only points at is indexed there, once in a trajectory,
   unless an event before it states the same text (runtime.delivered).
3. An event that cannot be read (its payload's blob is missing or damaged) is counted as unread and
   passed, so is one of whose messages some cannot be; it never stops the others.
4. An index that does not agree with the log (another chain value, a watermark beyond the head) is
   forgotten for that trajectory and made anew; one whose file was damaged or removed is filled
   again at once, and until then it says what it lacks.
5. While the store is busy it works in slices of some hundred microseconds and rests for as long as
   makes this SHARE of one core (runtime.pace): appends do not wait for it, and what it has not
   reached yet is said.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.errors import CorruptAt, InvalidInput, NotFound, SearchTimeout, StoreStopped
from core.events.envelope import Event
from core.limits import (
    INDEX_BATCH_CHARS_MAX,
    INDEX_BATCH_EVENTS_MAX,
    INDEX_EVENT_CHARS_MAX,
    MIB,
    RECORD_NAME_CHARS_MAX,
)
from core.words import spaced
from runtime import delivered
from runtime.pace import Pace
from store.ports import BlobStore, Head, Notices, RecoveryStore
from store.search import Entries, IndexDamaged, Indexed, SqliteTextIndex

#: Notices are gathered this long before their events are indexed.
GATHER_SECONDS = 0.3
#: Of one core, while appends are coming.
SHARE = 0.05
#: Events between two pauses.
SLICE_EVENTS = 16
#: A full disk is tried again after this long.
RETRY_SECONDS = 5.0
#: A blob up to so many bytes is read once for all messages in it that follow each other.
WHOLE_BLOB_BYTES_MAX = 8 * MIB
#: Marks of texts remembered for one trajectory while it is indexed; older ones are looked up.
_MARKS_MAX = 50_000
_HEADS_PAGE = 500
_EVENTS_PAGE = 200
#: Closed words, of every event of a family: a search for them would find all of them.
_CLOSED = frozenset(
    {"basis", "capabilities", "claim", "kind", "pairing", "role", "standing", "status"}
)
#: What a program was set up with: the same text in each of its runs.
_SETTINGS = frozenset({"configuration", "request"})
#: Numbers of the provider's own accounting.
_COUNTERS = frozenset({"usage", "usage_raw"})
_LEFT_OUT = _CLOSED | _SETTINGS | _COUNTERS
#: Only there a number is something a person may look for: a ticket, a port, a line.
_WITH_NUMBERS = frozenset({"arguments", "values"})
#: Families whose text a model is given again: where the text of each lies.
_SAID = {"RuntimeInput": "text", "ToolResult": "observation"}
_DIGEST_CHARS = len("sha256:") + 64

Name = tuple[str, str]


@dataclass(slots=True)
class _Batch:
    """What goes into one transaction."""

    entries: list[Entries] = field(default_factory=list)
    events: int = 0
    chars: int = 0

    @property
    def full(self) -> bool:
        return self.events >= INDEX_BATCH_EVENTS_MAX or self.chars >= INDEX_BATCH_CHARS_MAX

    def add(self, entries: Entries) -> None:
        self.entries.append(entries)
        self.events += entries.upto - entries.after
        self.chars += sum(len(text) for _, _, text in entries.rows)


class _Stated:
    """Which texts and messages of one trajectory are indexed, while it is followed onward."""

    def __init__(self, tenant: str, trajectory_id: str, index: SqliteTextIndex, after: int) -> None:
        self._name = (tenant, trajectory_id)
        self._index = index
        self._whole = not after
        """All marks of the trajectory are in the two sets."""
        self._now: set[int] = set()
        self._before: set[int] = set()
        self.new: list[int] = []
        """Those that the index does not hold yet, until a page takes them."""

    def known(self, marks: list[int]) -> set[int]:
        """Those of these that were stated before."""
        found = {mark for mark in marks if mark in self._now or mark in self._before}
        if not self._whole and len(found) < len(marks):
            found |= self._index.stated(*self._name, [mark for mark in marks if mark not in found])
        return found

    def add(self, mark: int) -> None:
        """From here on it is stated."""
        if mark in self._now:
            return
        if len(self._now) >= _MARKS_MAX:
            self._whole = self._whole and not self._before
            self._before, self._now = self._now, set()
        self._now.add(mark)
        self.new.append(mark)

    def take(self) -> tuple[int, ...]:
        """What is new, once."""
        found, self.new = tuple(self.new), []
        return found


class _Parts:
    """Reads parts of blobs, the last small one from memory."""

    def __init__(self, blobs: BlobStore, tenant: str) -> None:
        self._blobs = blobs
        self._tenant = tenant
        self._digest = ""
        self._data: bytes | None = None

    def __call__(self, digest: str, start: int | None, end: int | None) -> bytes:
        if digest != self._digest:
            held = self._blobs.info(self._tenant, digest)
            small = held is not None and held.length <= WHOLE_BLOB_BYTES_MAX
            self._data = self._blobs.read(self._tenant, digest) if small else None
            self._digest = digest
        if start is None or end is None:
            return self._data if self._data is not None else self._blobs.read(self._tenant, digest)
        if self._data is None:
            return self._blobs.read_range(self._tenant, digest, start, end)
        if not 0 <= start <= end <= len(self._data):
            raise InvalidInput(f"bytes {start} to {end} are not within this blob")
        return self._data[start:end]


class Indexer:
    """Follows one store. `start` runs it in a thread; `catch_up` runs it here."""

    def __init__(
        self,
        store: RecoveryStore,
        blobs: BlobStore,
        index: SqliteTextIndex,
        *,
        tenants: Iterable[str] = ("local",),
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._index = index
        self._tenants = tuple(tenants)
        self._stop = threading.Event()
        self._notices: Notices | None = None
        self._thread: threading.Thread | None = None
        #: Held while batches are made and put: one follower at a time.
        self._work = threading.Lock()
        #: Protects the three below.
        self._counts = threading.Lock()
        #: Known to be behind, from notices: head.
        self._pending: dict[Name, int] = {}
        #: Of the pass over all heads: trajectories and events not yet reached, by tenant.
        self._backlog: dict[str, list[int]] = {}
        self._done: dict[Name, int] = {}
        self._pace = Pace(SHARE, self._stop)
        self.failed: dict[Name, tuple[int, str]] = {}
        """Trajectory -> head and reason, where its log could not be read."""

    def start(self) -> None:
        """Follow the store in a thread of its own, until `close`."""
        self._notices = self._store.subscribe()
        self._index.lag = self.behind
        self._index.on_anew = self._notices.wake
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following; idempotent, and returns once the thread has ended."""
        self._stop.set()
        if self._notices is not None:
            self._notices.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def catch_up(self, tenant: str | None = None, trajectory_id: str | None = None) -> int:
        """Index one trajectory, all of a tenant, or everything; how many events that took."""
        with self._work:
            if trajectory_id is not None:
                assert tenant is not None, "a trajectory belongs to a tenant"
                before = self._index.watermark(tenant, trajectory_id)
                self._index_heads([self._store.head(tenant, trajectory_id)], gently=False)
                return self._index.watermark(tenant, trajectory_id) - before
            generation = self._index.generation
            tenants = self._tenants if tenant is None else (tenant,)
            done = sum(self._pass(one, gently=False) for one in tenants)
            if set(tenants) >= set(self._tenants):
                self._index.complete(generation)
            return done

    def behind(self, tenant: str) -> tuple[int, int]:
        """(trajectories, events) of the log that are not indexed yet."""
        if self._index.incomplete:
            return self._index.missing(tenant)
        with self._counts:
            trajectories, events = self._backlog.get(tenant, [0, 0])
            for name, head in self._pending.items():
                if name[0] == tenant:
                    trajectories += 1
                    events += max(0, head - self._done.get(name, 0))
        for name, (head, _) in list(self.failed.items()):
            if name[0] == tenant:
                trajectories += 1
                events += max(0, head - self._index.watermark(*name))
        return trajectories, events

    # --- following -------------------------------------------------------------------------------

    def _run(self) -> None:
        self._pace.begin()
        while not self._stop.is_set():
            try:
                self._follow_all(self._index.generation)
            except IndexDamaged:
                continue
            except StoreStopped:
                return
            except SearchTimeout:
                self._stop.wait(RETRY_SECONDS)

    def _follow_all(self, generation: int) -> None:
        """Everything that is behind, then whatever moves, until the index is made anew: then it is
        empty, and what was known of it is not true any more."""
        with self._counts:
            self._pending.clear()
            self._done.clear()
        for tenant in self._tenants:
            self._count(tenant)
        for tenant in self._tenants:
            with self._work:
                self._pass(tenant, gently=True)
        self._index.complete(generation)
        while not self._stop.is_set() and self._index.generation == generation:
            self._take(0.0 if self._pending else 60.0)
            if self._pending and not self._stop.wait(GATHER_SECONDS):
                self._take(0.0)
            with self._work:
                self._follow(generation)

    def _take(self, timeout_seconds: float) -> None:
        """Take what moved into `_pending`."""
        assert self._notices is not None
        moved = self._notices.wait(timeout_seconds)
        if not moved:
            return
        new = [(tenant, name) for tenant, name, _ in moved if (tenant, name) not in self._pending]
        done = {name: self._index.watermark(*name) for name in new}
        with self._counts:
            self._done.update(done)
            for tenant, name, head in moved:
                if tenant in self._tenants:
                    self._pending[tenant, name] = head

    def _follow(self, generation: int) -> None:
        """Index what is pending, as long as there is some."""
        while self._pending and not self._stop.is_set() and self._index.generation == generation:
            heads = []
            for name in list(self._pending)[:_HEADS_PAGE]:
                try:
                    heads.append(self._store.head(*name))
                except NotFound:
                    self._settle(name)
            if not self._index_heads(heads, gently=True):
                self._stop.wait(RETRY_SECONDS)
            self._take(0.0)

    def _settle(self, name: Name) -> None:
        with self._counts:
            self._pending.pop(name, None)
            self._done.pop(name, None)

    def _count(self, tenant: str) -> None:
        """How far behind the index is, before the first pass."""
        trajectories = events = 0
        for heads in self._pages(tenant):
            for head, known in self._behind(heads):
                trajectories += 1
                events += head.sequence_number - (known.upto if known is not None else 0)
        with self._counts:
            self._backlog[tenant] = [trajectories, events]

    def _pass(self, tenant: str, *, gently: bool) -> int:
        """Index everything that is behind, page by page; how many events."""
        done = 0
        for heads in self._pages(tenant):
            behind = self._behind(heads)
            if behind:
                ours = [head for head, _ in behind]
                self._index_heads(ours, gently=gently)
                known = self._index.indexed_of(tenant, [head.trajectory_id for head in ours])
                for head, before in behind:
                    now = known.get(head.trajectory_id)
                    done += (now.upto if now else 0) - (before.upto if before else 0)
        with self._counts:
            self._backlog.pop(tenant, None)
        return done

    def _pages(self, tenant: str) -> Iterator[list[Head]]:
        after = ""
        while not self._stop.is_set():
            heads = self._store.heads(tenant, after=after, limit=_HEADS_PAGE)
            if not heads:
                return
            yield heads
            after = heads[-1].trajectory_id

    def _behind(self, heads: list[Head]) -> list[tuple[Head, Indexed | None]]:
        """Those whose index is not where the log is, with how far it is."""
        tenant = heads[0].tenant
        known = self._index.indexed_of(tenant, [head.trajectory_id for head in heads])
        found = []
        for head in heads:
            one = known.get(head.trajectory_id)
            agrees = one is not None and (one.upto, one.chain) == (head.sequence_number, head.chain)
            if head.sequence_number and not agrees:
                found.append((head, one))
        return found

    # --- indexing --------------------------------------------------------------------------------

    def _index_heads(self, heads: list[Head], *, gently: bool) -> bool:
        """Index these up to their heads, in batches; whether all are there now.

        Those that are not (the disk is full, the file was damaged) stay or become pending; one
        whose log cannot be read is remembered as failed at that head and left alone.
        """
        batch = _Batch()
        for head in heads:
            name = (head.tenant, head.trajectory_id)
            if self.failed.get(name, (0, ""))[0] == head.sequence_number:
                continue
            try:
                for entries in self._entries(head, gently=gently):
                    batch.add(entries)
                    if batch.full:
                        self._put(batch, gently=gently)
                        batch = _Batch()
            except (CorruptAt, InvalidInput) as error:
                self.failed[name] = (head.sequence_number, str(error))
            if self._stop.is_set():
                return True
        self._put(batch, gently=gently)
        there = [self._note(head) for head in heads]
        return all(there)

    def _note(self, head: Head) -> bool:
        """Compare with what the index says now; whether there is nothing to try again."""
        name = (head.tenant, head.trajectory_id)
        upto = self._index.watermark(*name)
        failed = self.failed.get(name, (0, ""))[0] == head.sequence_number
        there = upto >= head.sequence_number
        with self._counts:
            left = self._backlog.get(head.tenant)
            if left is not None and name not in self._pending:
                left[0] = max(0, left[0] - 1)
            if there or failed:
                if self._pending.get(name, 0) <= head.sequence_number:
                    self._pending.pop(name, None)
                    self._done.pop(name, None)
                if there:
                    self.failed.pop(name, None)
            else:
                self._pending.setdefault(name, head.sequence_number)
                self._done[name] = upto
        return there or failed

    def _put(self, batch: _Batch, *, gently: bool) -> None:
        if not batch.entries:
            return
        self._index.put(batch.entries)
        with self._counts:
            for entries in batch.entries:
                name = (entries.tenant, entries.trajectory_id)
                left = self._backlog.get(entries.tenant)
                if name in self._pending:
                    self._done[name] = entries.upto
                elif left is not None:
                    left[1] = max(0, left[1] - (entries.upto - entries.after))
        if gently:
            self._rest()

    def _rest(self) -> None:
        assert self._notices is not None
        self._pace.rest(self._notices.moved_at)

    def _entries(self, head: Head, *, gently: bool) -> Iterator[Entries]:
        """What one trajectory still lacks in the index, in pages."""
        tenant, trajectory_id = head.tenant, head.trajectory_id
        known = self._index.indexed(tenant, trajectory_id)
        at = known.upto if known is not None else 0
        if known is not None and not self._agrees(head, known):
            self._index.forget(tenant, trajectory_id)
            at = 0
        stated = _Stated(tenant, trajectory_id, self._index, at)
        read = reader(self._blobs, tenant)
        while at < head.sequence_number and not self._stop.is_set():
            upto = min(head.sequence_number, at + _EVENTS_PAGE)
            events = list(self._store.fold_rows(tenant, trajectory_id, after=at, upto=upto))
            last = self._store.events(tenant, trajectory_id, after=upto - 1, upto=upto, limit=1)
            if len(events) != upto - at or not last:
                raise CorruptAt(f"the log of {trajectory_id} lacks one of {at + 1} to {upto}")
            yield self._page(
                at, events, last[0], tenant=tenant, stated=stated, read=read, gently=gently
            )
            at = upto

    def _agrees(self, head: Head, known: Indexed) -> bool:
        if known.upto >= head.sequence_number:
            return (known.upto, known.chain) == (head.sequence_number, head.chain)
        found = self._store.events(
            head.tenant, head.trajectory_id, after=known.upto - 1, upto=known.upto, limit=1
        )
        return bool(found) and found[0].chain == known.chain

    def _page(
        self,
        at: int,
        events: list[Event],
        last: Event,
        *,
        tenant: str,
        stated: _Stated,
        read: delivered.Read,
        gently: bool,
    ) -> Entries:
        rows: list[tuple[int, str, str]] = []
        tools: dict[str, int] = {}
        cut = unread = 0
        for position, event in enumerate(events):
            if gently and position % SLICE_EVENTS == SLICE_EVENTS - 1:
                self._rest()
            try:
                payload = self._payload(tenant, event)
            except (NotFound, CorruptAt):
                unread += 1
                continue
            value: Any = orjson.loads(payload)
            if event.type == "ContextBuilt" and isinstance(value, dict):
                text, lost = self._context(value, stated, read, gently=gently)
                unread += lost
            else:
                text = text_of(value)
            said = _SAID.get(event.type)
            if said is not None and isinstance(value, dict) and isinstance(value.get(said), str):
                stated.add(delivered.mark_of_text(value[said]))
            if event.type == "ToolIntent" and isinstance(value.get("tool"), str):
                name = value["tool"][:RECORD_NAME_CHARS_MAX]
                tools[name] = tools.get(name, 0) + 1
            if len(text) > INDEX_EVENT_CHARS_MAX:
                text, cut = text[:INDEX_EVENT_CHARS_MAX], cut + 1
            if text:
                rows.append((event.sequence_number, event.type, text))
        return Entries(
            tenant,
            last.trajectory_id,
            at,
            last.sequence_number,
            last.chain,
            tuple(rows),
            cut=cut,
            unread=unread,
            tools=tools,
            stated=stated.take(),
        )

    def _context(
        self, value: dict[str, Any], stated: _Stated, read: delivered.Read, *, gently: bool
    ) -> tuple[str, bool]:
        """(what is indexed of a ContextBuilt, whether some of its messages cannot be read)."""
        found = [text_of(value, leave=delivered.LISTS)]
        lost, room = False, INDEX_EVENT_CHARS_MAX
        given = [
            (delivered.mark_of_digest(one["digest"]), one) for one in delivered.messages(value)
        ]
        known = stated.known([mark for mark, _ in given]) if given else set()
        texts: list[tuple[int, str]] = []
        for position, (mark, message) in enumerate(given):
            if mark in known:
                continue
            known.add(mark)
            stated.add(mark)
            if gently and position % SLICE_EVENTS == SLICE_EVENTS - 1:
                self._rest()
            try:
                text = delivered.text_of_message(message, read)
            except delivered.Unreadable:
                lost = True
                continue
            if text and room >= 0:
                texts.append((delivered.mark_of_text(text), text))
                room -= len(text)
        again = stated.known([mark for mark, _ in texts]) if texts else set()
        for mark, text in texts:
            if mark not in again:
                stated.add(mark)
                found.append(spaced(text))
        return "\n".join(part for part in found if part), lost

    def _payload(self, tenant: str, event: Event) -> bytes:
        if event.payload is not None:
            return event.payload
        assert event.payload_ref is not None
        return self._blobs.read(tenant, event.payload_ref.digest)


def reader(blobs: BlobStore, tenant: str) -> delivered.Read:
    """Reads parts of a tenant's blobs, many of one blob without reading it again."""
    return _Parts(blobs, tenant)


def indexed_text(type_: str, value: Any, read: delivered.Read) -> str:
    """What may be indexed of an event: a hit at it is in this text. Of a ContextBuilt these are the
    texts of all messages it adds, also of those that were indexed where they were given first."""
    if type_ != "ContextBuilt" or not isinstance(value, dict):
        return text_of(value)
    parts = (text_of(value, leave=delivered.LISTS), spaced(delivered.all_texts(value, read)))
    return "\n".join(part for part in parts if part)


def text_of(value: Any, *, leave: tuple[str, ...] = ()) -> str:
    """Texts of a payload in order, a line each; without the fields of `leave`."""
    if not isinstance(value, dict):
        return ""
    found: list[str] = []
    for key, part in value.items():
        if key not in _LEFT_OUT and key not in leave:
            _collect(part, found, numbers=key in _WITH_NUMBERS)
    return spaced("\n".join(found))


def _collect(value: Any, found: list[str], *, numbers: bool) -> None:
    """Texts of a JSON value, which is at most JSON_DEPTH_MAX deep."""
    if isinstance(value, str):
        if not (len(value) == _DIGEST_CHARS and value.startswith("sha256:")):
            found.append(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key != "role":
                _collect(part, found, numbers=numbers)
    elif isinstance(value, list):
        for part in value:
            _collect(part, found, numbers=numbers)
    elif numbers and value is not None and not isinstance(value, bool):
        found.append(str(value))
