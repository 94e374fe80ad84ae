"""One process owns a store: an flock held for its life, and a file that says who holds it.

The lock is an flock of the folder itself, so that no second owner gets in where somebody removed
the file. The file is for people and for commands that look for the server; it is written by the
owner only, mode 0600. Closing any descriptor is safe for an flock, unlike for SQLite's own locks,
which this module never touches.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from core.errors import StoreStopped
from core.instants import Instant

NAME = "strandline.lock"
_TAKE_SECONDS = 0.5


class StoreLock:
    """The lock of one data folder, held until `release`."""

    def __init__(self, path: Path, folder: int, descriptor: int, facts: dict[str, Any]) -> None:
        self.path = path
        self._folder = folder
        self._descriptor: int | None = descriptor
        self._facts = facts

    def describe(self, **facts: Any) -> None:
        """Add what a command needs to find this process (`url`, `token`)."""
        if self._descriptor is None:
            return
        self._facts.update(facts)
        text = json.dumps(self._facts).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        """Let another process own the store."""
        if self._descriptor is None:
            return
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        os.close(self._folder)
        self._descriptor = None


def acquire(data: Path, *, started_at: Instant) -> StoreLock:
    """Own the store of this folder; StoreStopped naming the holder if another process does."""
    path = data / NAME
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    end = time.monotonic() + _TAKE_SECONDS
    while not _try(folder, fcntl.LOCK_EX):
        # A command that only asks whether anybody owns it holds it for microseconds.
        if time.monotonic() > end:
            os.close(folder)
            holder = read(data) or {}
            raise StoreStopped(
                f"the store in {data} is owned by process {holder.get('pid', '?')} on "
                f"{holder.get('host', '?')}; one process owns a SQLite store. Stop it, or use it "
                "by its address.",
                owned=True,
                # Never the token: errors are logged and answered.
                **{name: holder.get(name) for name in ("pid", "host", "url")},
            )
        time.sleep(0.01)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(folder)
        raise
    lock = StoreLock(
        path,
        folder,
        descriptor,
        {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "url": None,
            "token": None,
            "started_at": started_at,
        },
    )
    lock.describe()
    return lock


def read(data: Path) -> dict[str, Any] | None:
    """What the lock file says; None if nobody describes itself there."""
    try:
        found = json.loads((data / NAME).read_text() or "null")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def is_held(data: Path) -> bool:
    """Whether a living process owns the store of this folder."""
    try:
        descriptor = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
