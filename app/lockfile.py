"""Who owns a data folder now, for commands that look for the server (store.lock keeps the lock)."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from core.errors import StoreStopped
from core.instants import Instant
from store import lock

#: The owner writes its name right after it has the lock.
_NAME_SECONDS = 1.0
_POLL_SECONDS = 0.02


class Owner(msgspec.Struct, frozen=True):
    """What the owning process says of itself in the lock file."""

    pid: int
    host: str
    started_at: Instant
    url: str | None = None
    """Where it serves; None while it starts, and for a command that works on the store itself."""
    token: str | None = None
    """Its local credential."""


def owner(folder: Path) -> Owner | None:
    """The process that owns the folder, or None; a file left by a crash owns nothing.

    Raises StoreStopped where somebody holds the lock and does not say who.
    """
    end = time.monotonic() + _NAME_SECONDS
    while lock.is_held(folder):
        said = lock.read(folder)
        if said is not None:
            return msgspec.convert(said, Owner)
        if time.monotonic() > end:
            raise StoreStopped(f"{folder} is in use by a process that does not say who it is")
        time.sleep(_POLL_SECONDS)
    return None
