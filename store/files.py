"""Durable files: a rename counts once the folder that holds it, new parents too, was flushed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from core.errors import StoreFull, StoreStopped, StrandlineError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush a file that was written through another descriptor."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, each entry durable before the next is used."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        # Another thread made it; whoever is first to need the entry flushes it.
        pass
    sync_folder(folder.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a small file: new content or old, never a part."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)
    sync_folder(path.parent)


class Names:
    """Whether files still have the names they had when they were first seen."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._inodes: dict[Path, int] = {}

    def gone(self) -> str | None:
        """What happened to the first one that was removed or replaced; None if all are there."""
        for path in self._paths:
            try:
                found = path.stat().st_ino
            except FileNotFoundError:
                found = None
            except OSError as error:
                return f"{path} cannot be looked at: {error.strerror}"
            if found is not None and path not in self._inodes:
                self._inodes[path] = found
            elif path in self._inodes and found != self._inodes[path]:
                return f"{path} was removed or replaced while it was in use"
        return None


def refusal_of(error: OSError, folder: Path) -> StrandlineError | None:
    """The refusal a failed file operation stands for; None if it is neither full nor denied.

    An I/O error is no refusal: nothing is known, and the caller lets it through.
    """
    if error.errno in _FULL:
        return StoreFull(
            f"the disk that holds {folder} is full; nothing was stored. Free some space, then send "
            "the same request again.",
            retry_after=30,
        )
    if error.errno in _DENIED:
        return StoreStopped(
            f"{error.filename or folder} cannot be written ({error.strerror}); check its "
            "permissions and how the file system is mounted",
            path=str(error.filename or folder),
        )
    return None
