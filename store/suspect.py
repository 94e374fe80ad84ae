"""The SUSPECT marker: a barrier failed, so the log file may hold less than it shows.

After a failed flush a page can be readable and yet not durable, so re-reading proves nothing.
The marker outlives the process. A start that finds it copies the log out to a new file
(`store.recover`); while that fails, reads go on and writes are refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from core.errors import StoreStopped
from core.instants import Instant, format_utc

NAME = "SUSPECT"


def mark(data: Path, reason: str, at: Instant) -> None:
    """Leave the marker, durably; an existing one keeps its first reason."""
    path = data / NAME
    if path.exists():
        return
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, json.dumps({"reason": reason, "at": at}).encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(data: Path) -> tuple[str, Instant | None] | None:
    """(reason, when) of the marker; None if there is none. A torn marker still counts."""
    try:
        text = (data / NAME).read_text()
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        return str(found["reason"]), int(found["at"])
    except (ValueError, KeyError, TypeError):
        return "the marker itself could not be read", None


def refusal(data: Path, marker: tuple[str, Instant | None], failure: str) -> StoreStopped:
    """What is true and what to do, where copying the log out failed for this reason."""
    reason, at = marker
    when = f" on {format_utc(at)}" if at is not None else ""
    return StoreStopped(
        f"a durable barrier of this store failed{when} ({reason}), and at this start the log could "
        f"not be copied to a new file and verified ({failure}). Reads work, writes are refused. "
        f"Check the disk that holds {data} and its free space, then start again: each start tries "
        "anew, and nothing is deleted.",
        reason=reason,
        failure=failure,
        marker=str(data / NAME),
    )
