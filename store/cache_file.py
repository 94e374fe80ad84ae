"""A SQLite file that may be deleted at any time: opened, healed and made anew by one rule.

INVARIANTS
1. A file that is damaged, removed, replaced, of another store or of another layout is made anew,
   empty, also while it is in use; nothing in it is needed to rebuild the log.
2. One thread writes at a time; readers never wait for it, but while the file is made anew.
3. Each time it is made anew its generation is another, and whoever fills it is told at once: what
   it held before counts as missing until that one says that all is there again.

The layout is a constant and not a migration: a cache has no history to keep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from core.errors import StoreStopped
from store import sqlite_driver
from store.files import Names
from store.sqlite_driver import Connection

#: (tenant) -> (trajectories, events).
Totals = Callable[[str], tuple[int, int]]

_READERS_KEPT_MAX = 8
#: A file that could not be made (the disk is full) is tried again after this long.
_AGAIN_SECONDS = 2.0
#: How far an incomplete cache is behind is looked up again after this long.
_COUNT_SECONDS = 1.0
#: Of an error that has no code of its own: the file was cut to nothing, or a text is none.
_SIGNS_OF_DAMAGE = ("no such table", "Could not decode to UTF-8")
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
        reader_pragmas: Sequence[str] = (),
        held: str = "SELECT 0, 0 WHERE ?1 = ''",
        log: Totals | None = None,
    ) -> None:
        """`pragmas` hold for connections that may write. `held` selects the trajectories and
        events of a tenant that the cache holds, `log` gives those of the log."""
        self._path = path
        self._about = {"layout": layout, "store": store_id}
        self._tables = (_ABOUT, *tables)
        self._pragmas = tuple(pragmas)
        self._reader_pragmas = tuple(reader_pragmas)
        self._held = held
        self._log = log
        self._read_only = read_only
        #: One writer at a time, and nobody while the file is made anew.
        self._write = threading.RLock()
        #: Protects the idle readers and the generation they belong to.
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self._connection: Connection | None = None
        self._names = Names(())
        self._again = 0.0
        """A file that could not be made is tried again then."""
        self.generation = 0
        """How often the file was made anew since it was opened."""
        self.on_anew: Callable[[], None] | None = None
        """Called each time it was, in whatever thread met the damage; it must not wait."""
        self._complete = 0
        """The generation in which all of the log was there."""
        self._unread = False
        """Opened for reading only, and something could not be read."""
        self._behind: dict[str, tuple[float, int, tuple[int, int]]] = {}
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

    # --- being complete --------------------------------------------------------------------------

    @property
    def incomplete(self) -> bool:
        """Whether what it held was lost and is not all there again."""
        return self._unread or self._complete != self.generation

    def complete(self, generation: int) -> None:
        """All of the log is there, unless the file was made anew since it had this generation."""
        self._complete = max(self._complete, generation)

    def missing(self, tenant: str) -> tuple[int, int]:
        """(trajectories, events) that an incomplete cache lacks; (0, 0) of a complete one."""
        if not self.incomplete or self._log is None:
            return 0, 0
        now = time.monotonic()
        at, generation, known = self._behind.get(tenant, (-1e9, -1, (0, 0)))
        if generation == self.generation and now - at < _COUNT_SECONDS:
            return known
        trajectories, events = self._log(tenant)
        held = (0, 0)
        try:
            with self._reader() as connection:
                held = connection.execute(self._held, (tenant,)).fetchone()
        except sqlite_driver.DatabaseError as error:
            self._heal(error)
        found = max(0, trajectories - held[0]), max(0, events - held[1])
        self._behind[tenant] = now, self.generation, found
        return found

    # --- writing and healing ---------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Connection | None]:
        """The writing connection within a transaction; None where there is none.

        What is written is lost again where the file is damaged or the disk is full.
        """
        with self._write:
            self._look()
            connection, generation = self._connection, self.generation
            if self._read_only or connection is None:
                yield None
                return
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except sqlite_driver.DatabaseError as error:
                if generation == self.generation and connection.in_transaction:
                    connection.execute("ROLLBACK")
                error.__dict__.setdefault("generation", generation)
                self._heal(error)
            except BaseException:
                if generation == self.generation and connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _heal(self, error: sqlite_driver.DatabaseError) -> None:
        """Make a damaged file anew; anything else that is not just space or time is a defect."""
        name = sqlite_driver.error_name(error)
        damaged = name in ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR") or any(
            sign in str(error) for sign in _SIGNS_OF_DAMAGE
        )
        if self._read_only:
            self._unread = True
        if name in ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY"):
            return
        if not damaged:
            raise error
        if self._read_only:
            return
        with self._write:
            # Another thread may have met the same damage before.
            if error.__dict__.get("generation", self.generation) == self.generation:
                self._make_anew()

    def _look(self) -> None:
        """Make the file anew where it was removed or replaced, or could not be made before."""
        if self._read_only or self._closed:
            return
        if self._connection is None:
            if time.monotonic() < self._again:
                return
        elif self._names.gone() is None:
            return
        with self._write:
            if self._connection is None or self._names.gone() is not None:
                self._make_anew()

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        """Lend a connection for reading; StoreStopped once closed."""
        self._look()
        with self._lock:
            if self._closed:
                raise StoreStopped("the store is closed")
            generation = self.generation
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            # Not while the file is being made: it has no tables until that is committed.
            with self._write:
                generation = self.generation
                try:
                    connection = self._connect("ro" if self._read_only else "rw", query_only=True)
                except sqlite_driver.DatabaseError as error:
                    error.__dict__["generation"] = generation
                    raise
        keep = False
        try:
            yield connection
            keep = True
        except sqlite_driver.DatabaseError as error:
            error.__dict__.setdefault("generation", generation)
            raise
        finally:
            with self._lock:
                keep = (
                    keep
                    and not self._closed
                    and generation == self.generation
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
        try:
            connection.execute("PRAGMA busy_timeout=2000")
            if mode == "ro":
                connection.execute("PRAGMA mmap_size=0")
            else:
                for pragma in self._pragmas:
                    connection.execute(f"PRAGMA {pragma}")
            if query_only:
                for pragma in (*self._reader_pragmas, "query_only=1"):
                    connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_or_make(self) -> Connection:
        if self._path.exists():
            try:
                connection = self._connect("rw")
                try:
                    about = dict(connection.execute("SELECT name, value FROM about").fetchall())
                except sqlite_driver.DatabaseError:
                    connection.close()
                    raise
            except sqlite_driver.DatabaseError:
                about = {}
            else:
                if about == self._about:
                    self._named()
                    return connection
                connection.close()
        self.generation = 1
        return self._make()

    def _make(self) -> Connection:
        for suffix in ("", "-wal", "-shm", "-journal"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        connection = self._connect("rwc")
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in self._tables:
                connection.execute(statement)
            connection.executemany(
                "INSERT INTO about (name, value) VALUES (?, ?)", list(self._about.items())
            )
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        self._named()
        return connection

    def _named(self) -> None:
        """The file of now is the one to look for."""
        self._names = Names((self._path, self._path.with_name(self._path.name + "-wal")))
        self._names.gone()

    def _make_anew(self) -> None:
        """Called with `_write` held; a file that cannot be made now is tried again."""
        if self._closed:
            return
        with self._lock:
            self.generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            self._connection = self._make()
        except (sqlite_driver.Error, OSError):
            self._again = time.monotonic() + _AGAIN_SECONDS
        if self.on_anew is not None:
            self.on_anew()


def _quote(path: Path) -> str:
    text = str(path.absolute())
    for sign, code in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        text = text.replace(sign, code)
    return text
