"""One group on SQLite: load what it wants, decide, write, commit.

INVARIANTS
1. All of a group is one transaction with one sync; nothing of it is visible before COMMIT.
2. Heads are cached between groups because this process alone writes the store (DOM-4); whatever
   ends otherwise than by COMMIT drops the cache, so that no decision rests on what was undone.
   That an id is new may be assumed, but the unique index decides it in the same transaction.
3. An error is sorted by where it happened: before the WAL could hold the commit it is a refusal,
   at the barrier it is unknown (`BarrierFailed`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, Literal

import msgspec

from core.instants import Instant
from store import acts, blocks, rows, sqlite_driver
from store.decide import decide, wants
from store.failpoints import reach
from store.ports import ImportSource, LedgerRow
from store.sqlite_driver import Connection
from store.state import (
    HeadState,
    Known,
    Member,
    Name,
    NewRow,
    Outcome,
    Piece,
    Rules,
    StoredEvent,
    StoredRequest,
    Wants,
    Writes,
)

HEADS_CACHED_MAX = 20_000
#: Groups that look ids up after a duplicate was met: whoever sends one is likely to send more.
_CAREFUL_GROUPS = 16
#: Pairs in one IN list.
_CHUNK = 64

HEAD_COLUMNS = (
    "tenant, trajectory_id, trajectory_key, standing, created_at, sequence_number, chain, "
    "recorded_at, owner_epoch, worker, control_epoch, record_version, staged, staged_to, "
    "incidents, step"
)


@cache
def _repeated(head: str, marks: str, length: int, tail: str) -> str:
    """`head marks, marks, ... tail`; few lengths occur, and each keeps its prepared statement."""
    return head + ", ".join((marks,) * length) + tail


def _statement(table: str, columns: str, conflict: str = "") -> tuple[str, str, str]:
    """(INSERT INTO ..., one row of marks, conflict clause)."""
    marks = f"({', '.join('?' * (columns.count(',') + 1))})"
    return f"INSERT INTO {table} ({columns}) VALUES ", marks, conflict


def _replacing(table: str, columns: str, key: str, kept: str) -> tuple[str, str, str]:
    """An INSERT that replaces all but the `kept` columns of a row that is there."""
    changed = [name for name in columns.split(", ") if name not in kept.split(", ")]
    return _statement(
        table,
        columns,
        f" ON CONFLICT ({key}) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in changed),
    )


_NAME = "tenant, trajectory_id"
_HEAD = _replacing(
    "trajectories", HEAD_COLUMNS, _NAME, f"{_NAME}, trajectory_key, standing, created_at"
)
_HEAD = (_HEAD[0], _HEAD[1].replace("?, " * 9 + "?, ", "?, " * 9 + "NULLIF(?, ''), "), _HEAD[2])
_EVENT = (f"INSERT INTO events ({', '.join(rows.COLUMNS)}) VALUES ", f"({rows.MARKS})", "")
_BLOCK = _statement(
    "blocks", "tenant, trajectory_key, block, mark_set, step_min, step_max, marks, steps"
)
_REQUEST = _statement(
    "requests", "tenant, request_id, kind, trajectory_id, digest, answer, answered_at"
)
_BLOB = _statement("blobs", "tenant, digest, length, put_at", " ON CONFLICT DO NOTHING")
_STAGED = _statement(
    "staged", "tenant, trajectory_key, sequence_number, event_id, digest, chain, body"
)
_LEDGER = _statement(
    "ledger",
    "tenant, trajectory_id, recorded_at, kind, code, issuer, worker, offered_epoch, held_epoch, "
    "request_id, detail",
)
_SOURCE = _replacing(
    "import_sources",
    "tenant, source_id, importer, version, trajectory_id, name, reading_digest, reading_length, "
    "segments, state, updated_at, session",
    "tenant, source_id",
    "tenant, source_id",
)
_ACT = _statement("acts", acts.COLUMNS)
_META = _replacing("store_meta", "name, value", "name", "name")
_PIECE = msgspec.msgpack.Decoder(Piece)


class Full(Exception):
    """The disk is full; the group is rolled back and was never durable."""


class Contended(Exception):
    """Another connection holds the write lock; the group is rolled back."""


class BarrierFailed(Exception):
    """The commit may or may not be durable; this connection must not be used again."""


class Unusable(Exception):
    """The database failed before the commit; nothing was stored, nothing more may be."""


class _RefusedUnseen(Exception):
    """A member was refused though it is not known whether its events are stored already."""


class Transactor:
    """Runs groups on the writer's connection; used by one thread at a time."""

    def __init__(self, connection: Connection, rules: Rules) -> None:
        self.connection = connection
        self.rules = rules
        self._heads: OrderedDict[Name, HeadState] = OrderedDict()
        self._next_key: int | None = None
        self._careful = _CAREFUL_GROUPS
        """Groups for which ids are looked up: after a start and after a duplicate."""

    def run(self, members: Sequence[Member], now: Instant) -> tuple[Writes, list[Outcome]]:
        """Decide and commit; raises Full, Contended, Unusable (nothing stored) or BarrierFailed.

        At first the ids of new events are taken to be new: their unique index says if they are
        not, and the group is decided again on what is stored. So it is where a member is refused,
        because what is stored already is answered before any refusal (APP-2). While duplicates
        are about, ids are looked up beforehand.
        """
        if self._careful:
            self._careful -= 1
            return self._run(members, now, careful=True)
        try:
            return self._run(members, now, careful=False)
        except (sqlite_driver.IntegrityError, _RefusedUnseen):
            self._careful = _CAREFUL_GROUPS
            return self._run(members, now, careful=True)

    def _run(
        self, members: Sequence[Member], now: Instant, *, careful: bool
    ) -> tuple[Writes, list[Outcome]]:
        execute = self.connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            reach("append.begun")
            needed = wants(members)
            if careful:
                needed.named |= needed.fresh
            writes, outcomes = decide(members, self._load(needed), now=now, rules=self.rules)
            if not careful and any(isinstance(outcome, Exception) for outcome in outcomes):
                raise _RefusedUnseen
            reach("append.decided")
            self._write(writes, now)
            reach("append.written")
        except BaseException as error:
            self._undo()
            raise self._sorted(error, "before") from error
        try:
            execute("COMMIT")
        except sqlite_driver.Error as error:
            sorted_ = self._sorted(error, "commit")
            if not isinstance(sorted_, BarrierFailed):
                self._undo()
            self.forget()
            raise sorted_ from error
        reach("append.committed")
        self._remember(writes)
        return writes, outcomes

    def forget(self) -> None:
        """Drop everything cached."""
        self._heads.clear()
        self._next_key = None

    def checkpoint(self) -> tuple[int, int]:
        """Copy WAL frames into the database file; (frames in the WAL, frames copied)."""
        try:
            row = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite_driver.Error as error:
            raise self._sorted(error, "before") from error
        reach("wal.checkpointed")
        return int(row[1]), int(row[2])

    # --- errors ----------------------------------------------------------------------------------

    def _undo(self) -> None:
        self.forget()
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite_driver.Error as error:
            raise Unusable(f"rollback failed: {error}") from error

    @staticmethod
    def _sorted(error: BaseException, where: Literal["before", "commit"]) -> BaseException:
        if not isinstance(error, sqlite_driver.Error):
            return error
        name = sqlite_driver.error_name(error)
        if name == "SQLITE_FULL":
            # A write of a WAL frame failed: the frame that would carry the commit is not whole.
            return Full(str(error))
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            return Contended(str(error))
        if where == "commit":
            return BarrierFailed(f"{name or type(error).__name__}: {error}")
        if isinstance(error, sqlite_driver.IntegrityError) or name in ("", "SQLITE_CONSTRAINT"):
            return error
        return Unusable(f"{name}: {error}")

    # --- loading ---------------------------------------------------------------------------------

    def _load(self, needed: Wants) -> Known:
        known = Known(self._new_key)
        self._load_heads(known, needed)
        if needed.staged:
            self._load_staged(known, needed)
        keys = {name: head.key for name, head in known.heads.items()}
        if needed.named:
            self._load_events(known, keys, needed.named)
        if needed.bindings:
            self._load_bindings(known, keys, needed.bindings)
        if needed.positions:
            self._load_positions(known, keys, needed.positions)
        for tenant, digest, length in self._pairs(
            "SELECT tenant, digest, length FROM blobs WHERE (tenant, digest) IN", needed.blobs
        ):
            known.blobs[tenant, digest] = length
        for tenant, source_id, length in self._pairs(
            "SELECT tenant, source_id, reading_length FROM import_sources "
            "WHERE (tenant, source_id) IN",
            needed.sources,
        ):
            known.sources[tenant, source_id] = length
        for tenant, request_id, kind, digest, answer in self._pairs(
            "SELECT tenant, request_id, kind, digest, answer FROM requests "
            "WHERE (tenant, request_id) IN",
            needed.requests,
        ):
            known.requests[tenant, request_id] = StoredRequest(kind, digest, answer)
        if needed.acts:
            known.acts_end, known.acts_at = acts.load_end(self.connection)
            for topic in needed.acts:
                known.last_acts[topic] = acts.load_last(self.connection, topic)
        return known

    def _new_key(self) -> int:
        if self._next_key is None:
            row = self.connection.execute(
                "SELECT coalesce(max(trajectory_key), 0) FROM trajectories"
            ).fetchone()
            self._next_key = int(row[0]) + 1
        key = self._next_key
        self._next_key = key + 1
        return key

    def _load_heads(self, known: Known, needed: Wants) -> None:
        missing: list[Name] = []
        for name in needed.heads:
            head = self._heads.get(name)
            if head is not None:
                known.heads[name] = head
            else:
                missing.append(name)
        for row in self._pairs(
            f"SELECT {HEAD_COLUMNS} FROM trajectories WHERE (tenant, trajectory_id) IN", missing
        ):
            known.heads[row[0], row[1]] = HeadState(*row)

    def _load_events(
        self, known: Known, keys: dict[Name, int], events: Iterable[tuple[Name, str]]
    ) -> None:
        names = {key: name for name, key in keys.items()}
        pairs = [(keys[name], event_id) for name, event_id in events if name in keys]
        for key, event_id, number, digest, epoch, type_ in self._pairs(
            "SELECT trajectory_key, event_id, sequence_number, digest, owner_epoch, type "
            "FROM events WHERE (trajectory_key, event_id) IN",
            pairs,
        ):
            known.events.setdefault(names[key], {})[event_id] = StoredEvent(
                number, digest, epoch, type_
            )

    def _load_bindings(
        self, known: Known, keys: dict[Name, int], wanted: Iterable[tuple[Name, str]]
    ) -> None:
        names = {key: name for name, key in keys.items()}
        for key, operation_id, binding in self._pairs(
            "SELECT trajectory_key, operation_id, binding FROM events "
            "WHERE operation_id IS NOT NULL AND binding IS NOT NULL "
            "AND (trajectory_key, operation_id) IN",
            [(keys[name], operation_id) for name, operation_id in wanted if name in keys],
        ):
            known.bindings[names[key], operation_id] = binding

    def _load_positions(
        self, known: Known, keys: dict[Name, int], wanted: Iterable[tuple[Name, int]]
    ) -> None:
        for name, number in wanted:
            # Beyond the head there is nothing; what this group adds, its decision notes.
            if name not in keys or number > known.heads[name].sequence_number:
                continue
            row = self.connection.execute(
                "SELECT digest, chain FROM events WHERE trajectory_key = ? AND sequence_number = ?",
                (keys[name], number),
            ).fetchone()
            if row is not None:
                known.positions[name, number] = (row[0], row[1])

    def _load_staged(self, known: Known, needed: Wants) -> None:
        for name in needed.staged:
            head = known.heads.get(name)
            if head is None or not head.staged:
                continue
            pieces = known.staged[name] = {}
            for number, body in self.connection.execute(
                "SELECT sequence_number, body FROM staged WHERE trajectory_key = ?", (head.key,)
            ):
                piece = pieces[number] = _PIECE.decode(body)
                needed.named.add((name, piece.event.event_id))
                if piece.binding is not None and piece.event.operation_id is not None:
                    needed.bindings.add((name, piece.event.operation_id))

    def _pairs(self, select: str, wanted: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        """Rows of `select` for pairs, in lists of few lengths so that statements are reused."""
        if not wanted:
            return
        remaining = iter(wanted)
        while chunk := list(islice(remaining, _CHUNK)):
            length = 1 << (len(chunk) - 1).bit_length()
            chunk.extend(chunk[-1:] * (length - len(chunk)))
            yield from self.connection.execute(
                _repeated(f"{select} (VALUES ", "(?, ?)", length, ")"),
                [value for pair in chunk for value in pair],
            )

    # --- writing ---------------------------------------------------------------------------------

    def _write(self, writes: Writes, now: Instant) -> None:
        if writes.heads:
            self._insert(_HEAD, [_head_row(head) for head in writes.heads.values()])
        if writes.events:
            self._insert(_EVENT, [rows.full(row) for row in writes.events])
            self._close_blocks(writes.events)
        if writes.requests:
            self._insert(_REQUEST, [msgspec.structs.astuple(one) for one in writes.requests])
        if writes.blobs:
            self._insert(_BLOB, [(*blob, now) for blob in writes.blobs])
        if writes.unstaged:
            self.connection.executemany(
                "DELETE FROM staged WHERE trajectory_key = ? AND sequence_number = ?",
                writes.unstaged,
            )
        if writes.staged:
            self._insert(_STAGED, [_staged_row(*one) for one in writes.staged])
        if writes.ledger:
            self._insert(_LEDGER, [_ledger_row(one) for one in writes.ledger])
        if writes.sources:
            self._insert(_SOURCE, [_source_row(*one, now) for one in writes.sources])
        if writes.acts:
            self._insert(_ACT, [acts.row(act) for act in writes.acts])
        if writes.starts is not None:
            self._insert(_META, [("starts", str(writes.starts))])

    def _close_blocks(self, events: Sequence[NewRow]) -> None:
        """Blocks that these events fill, read back from the rows that were just written."""
        full = [
            (row.tenant, row.key, blocks.of(row.sequence_number))
            for row in events
            if row.sequence_number % blocks.BLOCK_EVENTS == 0
        ]
        if full:
            self._insert(
                _BLOCK,
                [
                    (tenant, key, block, *blocks.read(self.connection, key, block).row())
                    for tenant, key, block in full
                ],
            )

    def _insert(self, statement: tuple[str, str, str], values: list[tuple[object, ...]]) -> None:
        """Insert rows, many in one statement: the driver lets other threads in at every step."""
        into, marks, conflict = statement
        if len(values) == 1:
            self.connection.execute(_repeated(into, marks, 1, conflict), values[0])
            return
        at = 0
        while at < len(values):
            length = min(_CHUNK, 1 << (len(values) - at).bit_length() - 1)
            self.connection.execute(
                _repeated(into, marks, length, conflict),
                list(chain.from_iterable(values[at : at + length])),
            )
            at += length

    def _remember(self, writes: Writes) -> None:
        heads = self._heads
        for name, head in writes.heads.items():
            heads[name] = head
            heads.move_to_end(name)
        while len(heads) > HEADS_CACHED_MAX:
            heads.popitem(last=False)


def _head_row(head: HeadState) -> tuple[object, ...]:
    row = msgspec.structs.astuple(head)
    return (*row[:6], bytearray(head.chain), *row[7:9], head.worker or "", *row[10:])


def _staged_row(tenant: str, key: int, piece: Piece) -> tuple[object, ...]:
    event = piece.event
    return (
        tenant,
        key,
        event.sequence_number,
        event.event_id,
        event.digest,
        event.chain,
        msgspec.msgpack.encode(piece),
    )


def _ledger_row(row: LedgerRow) -> tuple[object, ...]:
    return (*msgspec.structs.astuple(row)[1:-1], msgspec.json.encode(row.detail))


def _source_row(tenant: str, source: ImportSource, now: Instant) -> tuple[object, ...]:
    return (
        tenant,
        source.source_id,
        source.importer,
        source.version,
        source.trajectory_id,
        source.name,
        source.reading_digest,
        source.reading_length,
        msgspec.json.encode(source.segments),
        msgspec.json.encode(source.state),
        now,
        source.state.get("session"),
    )
