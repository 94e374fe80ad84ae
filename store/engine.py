"""Connections to the log's database: every one with its settings set and read back.

INVARIANTS
1. No connection is handed out whose `journal_mode`, `synchronous`, `foreign_keys` or `mmap_size`
   differ from what its domain needs (DOM-2): SQLite forgets these per connection.
2. Only the writer's connection writes; readers are `query_only`, a read-only store also opens the
   file with `mode=ro`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import CorruptAt, DomainUnavailable, StoreStopped
from store import sqlite_driver
from store.ports import Check, Domain
from store.sqlite_driver import Connection

#: `PRAGMA synchronous` of each domain: 2 is FULL, 1 is NORMAL.
SYNCHRONOUS: dict[Domain, int] = {"host": 2, "process": 1}
_NAMES = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
BUSY_TIMEOUT_MS = 5_000
#: Idle readers kept open; more may be in use at once.
READERS_KEPT_MAX = 16


def settings(domain: Domain) -> dict[str, int | str]:
    """Pragmas that every connection of a store of this domain has."""
    return {
        "busy_timeout": BUSY_TIMEOUT_MS,
        "synchronous": SYNCHRONOUS[domain],
        "foreign_keys": 1,
        "mmap_size": 0,
        "trusted_schema": 0,
        "cell_size_check": 1,
    }


def connect(
    path: Path, domain: Domain, *, writer: bool = False, read_only: bool = False
) -> Connection:
    """A new connection, set and read back; DomainUnavailable if a setting does not hold."""
    mode = "ro" if read_only else "rw"
    target = f"file:{_quoted(path)}?mode={mode}"
    connection = sqlite_driver.module.connect(
        target,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        timeout=BUSY_TIMEOUT_MS / 1000,
    )
    try:
        for name, value in settings(domain).items():
            connection.execute(f"PRAGMA {name}={value}")
        connection.execute(f"PRAGMA cache_size={-65536 if writer else -8192}")
        if writer:
            # The writer checkpoints the WAL itself, between groups, and sees every error of it.
            connection.execute("PRAGMA wal_autocheckpoint=0")
        else:
            connection.execute("PRAGMA query_only=1")
        for check in read_back(connection, domain):
            if not check.ok:
                raise DomainUnavailable(
                    f"{check.name} is {check.found}, domain {domain} needs {check.expected}",
                    setting=check.name,
                )
    except UnicodeDecodeError as error:
        connection.close()
        # SQLite names what it cannot parse of the schema, in bytes that are no text any more.
        raise CorruptAt("the log file is damaged: its schema cannot be read") from error
    except BaseException:
        connection.close()
        raise
    return connection  # type: ignore[no-any-return]


def create(path: Path) -> None:
    """Make an empty database in WAL mode, once; the mode is kept in the file."""
    connection = sqlite_driver.module.connect(str(path), isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def read_back(connection: Connection, domain: Domain) -> list[Check]:
    """What this connection really has, for facts and for the refusal above."""
    found = connection.execute("PRAGMA journal_mode").fetchone()[0]
    checks = [Check("journal_mode", "wal", str(found), str(found) == "wal")]
    for name, value in settings(domain).items():
        row = connection.execute(f"PRAGMA {name}").fetchone()
        # A build without mmap answers nothing, which is the 0 wanted.
        real = row[0] if row is not None else 0
        shown = (
            (_NAMES.get(int(value), "?"), _NAMES.get(int(real), "?"))
            if name == "synchronous"
            else (str(value), str(real))
        )
        checks.append(Check(name, *shown, ok=int(real) == int(value)))
    return checks


class Readers:
    """Read connections, lent one at a time and reused."""

    def __init__(self, opener: Callable[[], Connection]) -> None:
        self._opener = opener
        #: Protects the two fields below.
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Lend a connection; StoreStopped once closed, CorruptAt for a file that is damaged."""
        with self._lock:
            if self._closed:
                raise StoreStopped("the store is closed")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._opener()
        keep = False
        try:
            yield connection
            keep = True
        except sqlite_driver.Error as error:
            if sqlite_driver.is_damage(error):
                raise CorruptAt(f"the log file is damaged: {error}") from error
            raise
        finally:
            with self._lock:
                keep = keep and not self._closed and len(self._idle) < READERS_KEPT_MAX
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        """Lend no more and close the idle ones; those in use are closed where they are given back,
        by the thread that used them."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _quoted(path: Path) -> str:
    text = str(path.absolute())
    for sign, code in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        text = text.replace(sign, code)
    return text
