"""Full text of events in a SQLite file of their own (FTS5): a cache that follows the log.

An entry's number packs a key of its trajectory and the sequence number, so that the entries of one
trajectory are neighbours in every list of the index, in the log's order. The text itself is not
kept: the log has it.

INVARIANTS
1. Entries and the watermark that counts them are written in one transaction: what lies at or below
   a watermark is indexed, whenever the process ended.
2. A watermark carries the chain value there; a follower that finds another in the log forgets the
   trajectory, whose old entries then answer nothing.
3. What a person looks for is bound as quoted phrases; no part of it is read as FTS5 syntax.
4. A search that takes longer than SEARCH_SECONDS_MAX is given up and says so; it never answers
   with less than it found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from core.errors import SearchTimeout, StoreStopped
from core.limits import EVENTS_PER_TRAJECTORY_MAX, SEARCH_SECONDS_MAX
from core.words import phrases
from store import sqlite_driver
from store.cache_file import CacheFile, Totals
from store.ports import Head, Hit, Sought
from store.sqlite_driver import Connection

LAYOUT = "4"
_SHIFT = 32
_MASK = 2**_SHIFT - 1
_TABLES = (
    "CREATE TABLE trajectories (key INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, "
    "trajectory_id TEXT NOT NULL, indexed_to INTEGER NOT NULL, chain BLOB NOT NULL, "
    "cut INTEGER NOT NULL, unread INTEGER NOT NULL, UNIQUE (tenant, trajectory_id)) STRICT",
    "CREATE TABLE types (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, type INTEGER NOT NULL) STRICT",
    "CREATE TABLE tools (name TEXT NOT NULL, key INTEGER NOT NULL, uses INTEGER NOT NULL, "
    "PRIMARY KEY (name, key)) STRICT, WITHOUT ROWID",
    "CREATE INDEX tools_by_key ON tools (key)",
    "CREATE TABLE stated (key INTEGER NOT NULL, mark INTEGER NOT NULL, "
    "PRIMARY KEY (key, mark)) STRICT, WITHOUT ROWID",
    "CREATE INDEX tools_by_name ON tools (name COLLATE NOCASE)",
    "CREATE VIRTUAL TABLE words USING fts5 (text, content='', columnsize=0, "
    "tokenize='unicode61 remove_diacritics 2')",
)
#: A power failure must not leave a file that reads well and lacks entries.
_PRAGMAS = ("synchronous=NORMAL", "wal_autocheckpoint=4000")
_STEPS_BETWEEN_LOOKS = 5_000
#: Entries read in one go before a search over all trajectories skips from one to the next.
_SCAN_ENTRIES_MAX = 20_000
_MARKS_PAGE = 500


class Entries(msgspec.Struct, frozen=True):
    """Texts of consecutive events of one trajectory, up to a new watermark."""

    tenant: str
    trajectory_id: str
    after: int
    """The watermark they continue."""
    upto: int
    chain: bytes
    """Chain value at `upto`."""
    rows: tuple[tuple[int, str, str], ...]
    """(sequence number, type, text)."""
    cut: int = 0
    """Events of which only the beginning is indexed."""
    unread: int = 0
    """Events whose payload could not be read (missing or damaged blob)."""
    tools: dict[str, int] = {}
    """How many intents of these name which tool."""
    stated: tuple[int, ...] = ()
    """Marks of texts and messages that these state (runtime.delivered)."""


class Indexed(msgspec.Struct, frozen=True):
    """How far one trajectory is indexed."""

    upto: int
    chain: bytes
    cut: int
    unread: int


class IndexDamaged(StoreStopped):
    """The index cannot be read; where it may be written it is empty now."""


class SqliteTextIndex(CacheFile):
    """Implements `store.ports.TextIndex`."""

    def __init__(
        self,
        path: Path,
        store_id: str,
        *,
        heads: Callable[[str, str], Sequence[Head]],
        log: Totals | None = None,
        read_only: bool = False,
    ) -> None:
        """`heads` gives a page of a tenant's heads beyond a trajectory id, `log` the trajectories
        and events of a tenant's log."""
        self._heads = heads
        #: How far a running follower is behind, by tenant; else it is counted from the heads.
        self.lag: Callable[[str], tuple[int, int]] | None = None
        super().__init__(
            path,
            store_id=store_id,
            layout=LAYOUT,
            tables=_TABLES,
            read_only=read_only,
            pragmas=_PRAGMAS,
            held="SELECT count(*), coalesce(sum(indexed_to), 0) FROM trajectories WHERE tenant = ?",
            log=log,
        )

    # --- writing ---------------------------------------------------------------------------------

    def put(self, batches: Iterable[Entries]) -> None:
        """Index these, in one transaction; what does not continue its watermark is passed over.

        Nothing is written where the disk is full or the file turns out damaged: who must know
        reads the watermark.
        """
        with self._writing() as connection:
            if connection is None:
                raise StoreStopped("the index is open for reading only")
            for batch in batches:
                self._put(connection, batch)

    def _put(self, connection: Connection, batch: Entries) -> None:
        key, upto = self._key(connection, batch)
        if upto != batch.after:
            return
        base = key << _SHIFT
        codes = {name: self._type(connection, name) for name in {name for _, name, _ in batch.rows}}
        connection.executemany(
            "INSERT INTO entries (id, type) VALUES (?, ?)",
            [(base | number, codes[name]) for number, name, _ in batch.rows],
        )
        connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [(base | number, text) for number, _, text in batch.rows],
        )
        connection.executemany(
            "INSERT INTO tools (name, key, uses) VALUES (?, ?, ?) "
            "ON CONFLICT (name, key) DO UPDATE SET uses = uses + excluded.uses",
            [(name, key, uses) for name, uses in batch.tools.items()],
        )
        connection.executemany(
            "INSERT OR IGNORE INTO stated (key, mark) VALUES (?, ?)",
            [(key, mark) for mark in batch.stated],
        )
        connection.execute(
            "UPDATE trajectories SET indexed_to = ?, chain = ?, cut = cut + ?, "
            "unread = unread + ? WHERE key = ?",
            (batch.upto, batch.chain, batch.cut, batch.unread, key),
        )

    def _key(self, connection: Connection, batch: Entries) -> tuple[int, int]:
        name = (batch.tenant, batch.trajectory_id)
        query = "SELECT key, indexed_to FROM trajectories WHERE tenant = ? AND trajectory_id = ?"
        row = connection.execute(query, name).fetchone()
        if row is None:
            connection.execute(
                "INSERT INTO trajectories (tenant, trajectory_id, indexed_to, chain, cut, unread) "
                "VALUES (?, ?, 0, x'', 0, 0)",
                name,
            )
            row = connection.execute(query, name).fetchone()
        return row[0], row[1]

    def _type(self, connection: Connection, name: str) -> int:
        query = "SELECT code FROM types WHERE name = ?"
        row = connection.execute(query, (name,)).fetchone()
        if row is None:
            connection.execute("INSERT INTO types (name) VALUES (?)", (name,))
            row = connection.execute(query, (name,)).fetchone()
        return int(row[0])

    def forget(self, tenant: str, trajectory_id: str) -> None:
        """Its entries answer nothing any more, and its watermark is 0."""
        with self._writing() as connection:
            if connection is None:
                raise StoreStopped("the index is open for reading only")
            key = _key_of(connection, tenant, trajectory_id)
            if key is not None:
                connection.execute("DELETE FROM entries WHERE id BETWEEN ? AND ?", _range(key))
                connection.execute("DELETE FROM tools WHERE key = ?", (key,))
                connection.execute("DELETE FROM stated WHERE key = ?", (key,))
                connection.execute("DELETE FROM trajectories WHERE key = ?", (key,))

    # --- reading ---------------------------------------------------------------------------------

    def hits(
        self,
        tenant: str,
        text: str,
        *,
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 200,
        descending: bool = False,
    ) -> list[Hit]:
        sought = _expression(text)
        with self._search() as connection:
            if trajectory_id is None:
                return list(_firsts(connection, tenant, sought, limit))
            key = _key_of(connection, tenant, trajectory_id)
            if key is None:
                return []
            low, high = _range(key)
            bounded = min(max(after, 0), EVENTS_PER_TRAJECTORY_MAX)
            if descending and bounded:
                high = low + bounded - 1
            elif not descending:
                low += bounded + 1
            found = connection.execute(
                "SELECT words.rowid, types.name FROM words "
                "JOIN entries ON entries.id = words.rowid JOIN types ON types.code = entries.type "
                "WHERE words MATCH ? AND words.rowid BETWEEN ? AND ? "
                f"ORDER BY words.rowid {'DESC' if descending else 'ASC'} LIMIT ?",
                (sought, low, high, limit),
            ).fetchall()
        return [Hit(trajectory_id, row[0] & _MASK, row[1]) for row in found]

    def count(self, tenant: str, text: str, trajectory_id: str) -> int:
        return self.position(tenant, text, trajectory_id, EVENTS_PER_TRAJECTORY_MAX)

    def position(self, tenant: str, text: str, trajectory_id: str, sequence_number: int) -> int:
        sought = _expression(text)
        with self._search() as connection:
            key = _key_of(connection, tenant, trajectory_id)
            if key is None:
                return 0
            low, _ = _range(key)
            row = connection.execute(
                "SELECT count(*) FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?",
                (sought, low, low + min(max(sequence_number, 0), EVENTS_PER_TRAJECTORY_MAX)),
            ).fetchone()
        return int(row[0])

    def holding(
        self, tenant: str, sought: Sought, *, among: Sequence[str] | None = None, limit: int
    ) -> list[str]:
        if sought.kind == "text" and among is None:
            return [hit.trajectory_id for hit in self.hits(tenant, sought.value, limit=limit)]
        with self._search() as connection:
            if among is None:
                condition, values = _named(sought)
                found = connection.execute(
                    "SELECT DISTINCT trajectory_id FROM tools "
                    f"JOIN trajectories USING (key) WHERE {condition} AND tenant = ? LIMIT ?",
                    (*values, tenant, limit),
                ).fetchall()
                return [row[0] for row in found]
            keys = connection.execute(
                "SELECT trajectory_id, key FROM trajectories "
                f"WHERE tenant = ? AND trajectory_id IN ({', '.join('?' * len(among))})",
                (tenant, *among),
            ).fetchall()
            if sought.kind == "tool":
                condition, values = _named(sought)
                query = f"SELECT 1 FROM tools WHERE key = ? AND {condition} LIMIT 1"
                return [
                    name
                    for name, key in keys
                    if connection.execute(query, (key, *values)).fetchone() is not None
                ]
            expression = _expression(sought.value)
            query = "SELECT 1 FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? LIMIT 1"
            return [
                name
                for name, key in keys
                if connection.execute(query, (expression, *_range(key))).fetchone() is not None
            ]

    def tools(self, tenant: str, *, limit: int) -> list[str]:
        with self._search() as connection:
            found = connection.execute(
                "SELECT name FROM (SELECT name, key FROM tools LIMIT ?) "
                "JOIN trajectories USING (key) WHERE tenant = ? "
                "GROUP BY name ORDER BY count(*) DESC, name LIMIT ?",
                (_SCAN_ENTRIES_MAX, tenant, limit),
            ).fetchall()
        return [row[0] for row in found]

    def tools_of(self, tenant: str, trajectory_id: str, *, limit: int) -> list[tuple[str, int]]:
        with self._search() as connection:
            found = connection.execute(
                "SELECT name, uses FROM tools JOIN trajectories USING (key) "
                "WHERE tenant = ? AND trajectory_id = ? ORDER BY uses DESC, name LIMIT ?",
                (tenant, trajectory_id, limit),
            ).fetchall()
        return [(str(name), int(uses)) for name, uses in found]

    def watermark(self, tenant: str, trajectory_id: str) -> int:
        found = self.indexed(tenant, trajectory_id)
        return found.upto if found is not None else 0

    def indexed(self, tenant: str, trajectory_id: str) -> Indexed | None:
        """How far one trajectory is indexed; None: not at all."""
        with self._search() as connection:
            row = connection.execute(
                "SELECT indexed_to, chain, cut, unread FROM trajectories "
                "WHERE tenant = ? AND trajectory_id = ?",
                (tenant, trajectory_id),
            ).fetchone()
        return Indexed(*row) if row is not None else None

    def indexed_of(self, tenant: str, trajectory_ids: Sequence[str]) -> dict[str, Indexed]:
        """The same of several (some hundred); those not indexed at all are left out."""
        with self._search() as connection:
            found = connection.execute(
                "SELECT trajectory_id, indexed_to, chain, cut, unread FROM trajectories "
                f"WHERE tenant = ? AND trajectory_id IN ({', '.join('?' * len(trajectory_ids))})",
                (tenant, *trajectory_ids),
            ).fetchall()
        return {row[0]: Indexed(*row[1:]) for row in found}

    def stated(self, tenant: str, trajectory_id: str, marks: Sequence[int]) -> set[int]:
        """Those of these marks that indexed events of a trajectory state."""
        found: set[int] = set()
        with self._search() as connection:
            key = _key_of(connection, tenant, trajectory_id)
            for start in range(0, len(marks) if key is not None else 0, _MARKS_PAGE):
                page = marks[start : start + _MARKS_PAGE]
                query = (
                    "SELECT mark FROM stated WHERE key = ? AND mark IN "
                    f"({', '.join('?' * len(page))})"
                )
                found.update(row[0] for row in connection.execute(query, (key, *page)))
        return found

    def behind(self, tenant: str) -> tuple[int, int]:
        if self.lag is not None:
            return self.lag(tenant)
        trajectories = events = 0
        after = ""
        while heads := self._heads(tenant, after):
            done = self.indexed_of(tenant, [head.trajectory_id for head in heads])
            for head in heads:
                known = done.get(head.trajectory_id)
                missing = head.sequence_number - (known.upto if known is not None else 0)
                if missing > 0:
                    trajectories, events = trajectories + 1, events + missing
            after = heads[-1].trajectory_id
        return trajectories, events

    def totals(self) -> tuple[int, int]:
        """(events, bytes) of the index."""
        with self._search() as connection:
            row = connection.execute("SELECT coalesce(sum(indexed_to), 0) FROM trajectories")
            return int(row.fetchone()[0]), self.size_bytes

    @contextmanager
    def _search(self) -> Iterator[Connection]:
        """A reader that stops after SEARCH_SECONDS_MAX; an empty one where the file is damaged."""
        deadline = time.monotonic() + SEARCH_SECONDS_MAX
        try:
            with self._reader() as connection:
                connection.set_progress_handler(
                    lambda: int(time.monotonic() > deadline), _STEPS_BETWEEN_LOOKS
                )
                try:
                    yield connection
                finally:
                    connection.set_progress_handler(None, 0)
        except sqlite_driver.DatabaseError as error:
            if time.monotonic() > deadline:
                raise SearchTimeout(
                    f"this search was given up after {SEARCH_SECONDS_MAX:.0f} s; look for a "
                    "rarer word, or in one trajectory"
                ) from error
            self._heal(error)
            raise IndexDamaged(
                "the search index cannot be read and is made anew from the log; search again in "
                "a moment"
            ) from error


def _firsts(connection: Connection, tenant: str, sought: str, limit: int) -> Iterator[Hit]:
    """The first hit of each trajectory, of the greatest key first."""
    seen: dict[int, int] = {}
    scanned = 0
    for (number,) in connection.execute(
        "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?",
        (sought, _SCAN_ENTRIES_MAX),
    ):
        scanned += 1
        seen[number >> _SHIFT] = number
    given = 0
    # The scan may have ended within a trajectory: the first hit of its last one is not known.
    open_key = min(seen) if scanned == _SCAN_ENTRIES_MAX else None
    for key, number in seen.items():
        hit = _hit(connection, tenant, number) if key != open_key else None
        if hit is not None:
            yield hit
            given += 1
        if given >= limit:
            return
    below = (open_key + 1) << _SHIFT if open_key is not None else 0
    while below and given < limit:
        row = connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT 1",
            (sought, below),
        ).fetchone()
        if row is None:
            return
        below = (row[0] >> _SHIFT) << _SHIFT
        first = connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? ORDER BY rowid LIMIT 1",
            (sought, below),
        ).fetchone()
        hit = _hit(connection, tenant, first[0])
        if hit is not None:
            yield hit
            given += 1


def _hit(connection: Connection, tenant: str, number: int) -> Hit | None:
    """The hit of an entry; None where it was forgotten, or is another tenant's."""
    row = connection.execute(
        "SELECT trajectories.trajectory_id, types.name FROM entries "
        "JOIN types ON types.code = entries.type "
        "JOIN trajectories ON trajectories.key = ? WHERE entries.id = ? "
        "AND trajectories.tenant = ?",
        (number >> _SHIFT, number, tenant),
    ).fetchone()
    return Hit(row[0], number & _MASK, row[1]) if row is not None else None


def _key_of(connection: Connection, tenant: str, trajectory_id: str) -> int | None:
    row = connection.execute(
        "SELECT key FROM trajectories WHERE tenant = ? AND trajectory_id = ?",
        (tenant, trajectory_id),
    ).fetchone()
    return int(row[0]) if row is not None else None


def _named(sought: Sought) -> tuple[str, tuple[str, ...]]:
    if sought.begins:
        condition = "name >= ? COLLATE NOCASE AND name < ? COLLATE NOCASE"
        return condition, (sought.value, sought.value + "\U0010ffff")
    return "name = ? COLLATE NOCASE", (sought.value,)


def _range(key: int) -> tuple[int, int]:
    """Numbers of the entries of one trajectory, inclusive; the first holds none."""
    return key << _SHIFT, (key << _SHIFT) | _MASK


def _expression(text: str) -> str:
    """An FTS5 expression of quoted phrases; no sign of `text` means anything in it."""
    parts = []
    for phrase in phrases(text):
        plain = phrase.text.replace("\x00", " ").replace('"', " ")
        parts.append(f'"{plain}"{"*" if phrase.prefix else ""}')
    return " AND ".join(parts).encode(errors="replace").decode()
