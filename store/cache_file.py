"""A SQLite file that may be deleted at any time: opened, healed and made anew by one rule.

INVARIANTS
1. A file that is damaged, of another store or of another layout is deleted and made anew, empty;
   nothing in it is needed to rebuild the log.
2. One thread writes at a time; readers never wait for it, but while the file is made anew.

The layout is a constant and not a migration: a cache has no history to keep.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from core.errors import StoreStopped
from store import sqlite_driver
from store.sqlite_driver import Connection

_READERS_KEPT_MAX = 8
_ABOUT = "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"


class CacheFile:
    """One cache file; subclasses add what it holds."""

    def __init__(
        self,
        path: Path,
        *,
        store_id: str,
        layout: str,
        tables: Sequence[str],
        read_only: bool,
        pragmas: Sequence[str] = ("synchronous=OFF",),
    ) -> None:
        """`pragmas` hold for connections that may write."""
        self._path = path
        self._about = {"layout": layout, "store": store_id}
        self._tables = (_ABOUT, *tables)
        self._pragmas = tuple(pragmas)
        self._read_only = read_only
        #: One writer at a time, and nobody while the file is made anew.
        self._write = threading.RLock()
        #: Protects the idle readers and the generation they belong to.
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._generation = 0
        self._closed = False
        self._connection: Connection | None = None
        if not read_only:
            self._connection = self._open_or_make()

    def drop(self) -> None:
        """Forget everything; it is rebuilt from the log."""
        if self._read_only:
            raise StoreStopped("this store is open for reading only")
        with self._write:
            self._make_anew()

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._write:
            with self._lock:
                self._closed = True
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the file and of its WAL; 0 where there is none."""
        names = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(name.stat().st_size for name in names if name.exists())

    @contextmanager
    def _writing(self) -> Iterator[Connection | None]:
        """The writing connection within a transaction; None where there is none.

        What is written is lost again where the file is damaged or the disk is full.
        """
        with self._write:
            connection = self._connection
            if self._read_only or connection is None:
                yield None
                return
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except sqlite_driver.DatabaseError as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._heal(error)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _heal(self, error: sqlite_driver.DatabaseError) -> None:
        """Make a damaged file anew; anything else that is not just space or time is a defect."""
        name = sqlite_driver.error_name(error)
        if name in ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY"):
            return
        if name not in ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR"):
            if self._read_only and "no such table" in str(error):
                return
            raise error
        if self._read_only:
            return
        with self._write:
            if self._connection is not None and not self._closed:
                self._make_anew()

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        """Lend a connection for reading; StoreStopped once closed."""
        with self._lock:
            if self._closed:
                raise StoreStopped("the store is closed")
            generation = self._generation
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            # Not while the file is being made: it has no tables until that is committed.
            with self._write:
                generation = self._generation
                connection = self._connect("ro" if self._read_only else "rw", query_only=True)
        keep = False
        try:
            yield connection
            keep = True
        finally:
            with self._lock:
                keep = (
                    keep
                    and not self._closed
                    and generation == self._generation
                    and len(self._idle) < _READERS_KEPT_MAX
                )
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _connect(self, mode: str, *, query_only: bool = False) -> Connection:
        connection: Connection = sqlite_driver.module.connect(
            f"file:{_quote(self._path)}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=128,
        )
        connection.execute("PRAGMA busy_timeout=2000")
        if mode == "ro":
            connection.execute("PRAGMA mmap_size=0")
        else:
            for pragma in self._pragmas:
                connection.execute(f"PRAGMA {pragma}")
        if query_only:
            connection.execute("PRAGMA query_only=1")
        return connection

    def _open_or_make(self) -> Connection:
        if not self._path.exists():
            return self._make()
        try:
            connection = self._connect("rw")
            try:
                about = dict(connection.execute("SELECT name, value FROM about").fetchall())
            except sqlite_driver.DatabaseError:
                connection.close()
                raise
        except sqlite_driver.DatabaseError:
            return self._make()
        if about == self._about:
            return connection
        connection.close()
        return self._make()

    def _make(self) -> Connection:
        for suffix in ("", "-wal", "-shm", "-journal"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        connection = self._connect("rwc")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in self._tables:
            connection.execute(statement)
        connection.executemany(
            "INSERT INTO about (name, value) VALUES (?, ?)", list(self._about.items())
        )
        connection.execute("COMMIT")
        return connection

    def _make_anew(self) -> None:
        with self._lock:
            self._generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._make()


def _quote(path: Path) -> str:
    text = str(path.absolute())
    for sign, code in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        text = text.replace(sign, code)
    return text
