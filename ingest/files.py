"""Opening what a person names: files and folders, without being led elsewhere.

INVARIANTS
1. Inside a folder nothing is followed: each entry is opened relative to its folder's descriptor
   with O_NOFOLLOW and O_NONBLOCK, so neither a link nor a FIFO leads out or blocks.
2. Only regular files are read; sockets, FIFOs, devices and links are listed with their reason.
3. A name is data: it is shown escaped and never opened again by its text.
4. A file that changed while it was read is refused: its stat before and after and a second
   reading must agree.

A path given by name may itself be a link: the person chose it. It must lead to a regular file or
a folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from core.errors import ImportRefused
from core.limits import IMPORT_FILES_MAX, MIB

_CHUNK_BYTES = MIB
_FOLDER_DEPTH_MAX = 32
#: A file beside a log that says what it is (a few hundred bytes); it travels in a query.
COMPANION_BYTES_MAX = 4 * 1024
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

_KINDS = (
    (stat.S_ISLNK, "a symbolic link; links inside a folder are not followed"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


#: (resolved path, its stat) -> whether to open a file.
Wanted = Callable[[str, os.stat_result], bool]


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that was not read, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A regular file, opened once; the caller closes `file`."""

    name: str
    """As shown: the path given, and the entry's names below it."""
    identity: str
    """Resolved absolute path, printable: the source id of files named by path."""
    file: BinaryIO
    before: os.stat_result
    in_folder: bool
    entry: str = ""
    """Its name in `folder`, or its resolved path; to open what lies beside it."""
    folder: int | None = None
    """Descriptor of its folder, open while the walk stands at this file."""

    def beside(self, suffix: str) -> bytes | None:
        """The small file whose name is this one's without `.jsonl` and with `suffix`; None where
        there is no such regular file of at most COMPANION_BYTES_MAX."""
        name = self.entry.removesuffix(".jsonl") + suffix
        try:
            descriptor = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=self.folder)
        except (OSError, ValueError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            if _not_regular(os.fstat(descriptor)) is not None:
                return None
            data = file.read(COMPANION_BYTES_MAX + 1)
        return data if len(data) <= COMPANION_BYTES_MAX else None

    @property
    def size(self) -> int:
        """Bytes when it was opened."""
        return self.before.st_size


def show(name: str | bytes) -> str:
    """A file name as printable text; bytes that are no UTF-8 and controls are escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def walk(
    path: str | os.PathLike[str], wanted: Wanted | None = None
) -> Iterator[OpenedFile | Skipped]:
    """The file at `path`, or every file in the folder and below it, in name order.

    Only files for which `wanted` says so are opened; without it, all. Raises ImportRefused for a
    path that does not exist or cannot be opened.
    """
    named = os.fspath(path)
    try:
        descriptor = os.open(named, _OPEN)
    except (OSError, ValueError) as error:
        raise ImportRefused(f"{show(named)} cannot be opened: {_reason(error)}") from error
    found = os.fstat(descriptor)
    identity = show(os.path.realpath(named))
    if stat.S_ISDIR(found.st_mode):
        try:
            yield from _Folder(wanted).walk(descriptor, show(named).rstrip("/"), identity, 0)
        finally:
            os.close(descriptor)
        return
    why = _not_regular(found)
    if why is not None:
        os.close(descriptor)
        raise ImportRefused(f"{show(named)} is {why}, not a regular file")
    if wanted is not None and not wanted(identity, found):
        os.close(descriptor)
        return
    yield OpenedFile(
        show(named), identity, os.fdopen(descriptor, "rb"), found, False, os.path.realpath(named)
    )


class _Folder:
    """One walk, with its count of entries."""

    def __init__(self, wanted: Wanted | None) -> None:
        self._wanted = wanted
        self._left = IMPORT_FILES_MAX
        self._full = False

    def walk(
        self, folder: int, name: str, identity: str, depth: int
    ) -> Iterator[OpenedFile | Skipped]:
        """Entries of the open folder; `folder` stays open."""
        try:
            entries = sorted(os.listdir(folder), key=os.fsencode)
        except OSError as error:
            yield Skipped(name, f"the folder cannot be read: {_reason(error)}")
            return
        for entry in entries:
            shown = f"{name}/{show(entry)}"
            if self._left <= 0:
                if not self._full:
                    self._full = True
                    yield Skipped(
                        shown,
                        f"a folder is read up to {IMPORT_FILES_MAX:,} entries; this and what "
                        "follows was left out",
                    )
                return
            self._left -= 1
            yield from self._entry(folder, entry, shown, f"{identity}/{show(entry)}", depth)

    def _entry(
        self, folder: int, entry: str, shown: str, identity: str, depth: int
    ) -> Iterator[OpenedFile | Skipped]:
        try:
            seen = os.stat(entry, dir_fd=folder, follow_symlinks=False)
            why = None if stat.S_ISDIR(seen.st_mode) else _not_regular(seen)
            if why is not None:
                yield Skipped(shown, f"it is {why}")
                return
            folder_next = stat.S_ISDIR(seen.st_mode)
            if not folder_next and self._wanted is not None and not self._wanted(identity, seen):
                return
            descriptor = os.open(entry, _OPEN | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            yield Skipped(shown, f"it cannot be opened: {_reason(error)}")
            return
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            try:
                if depth >= _FOLDER_DEPTH_MAX:
                    yield Skipped(shown, f"folders are read {_FOLDER_DEPTH_MAX} deep")
                else:
                    yield from self.walk(descriptor, shown, identity, depth + 1)
            finally:
                os.close(descriptor)
            return
        why = _not_regular(found)
        if why is not None:
            os.close(descriptor)
            yield Skipped(shown, f"it is {why}")
            return
        yield OpenedFile(shown, identity, os.fdopen(descriptor, "rb"), found, True, entry, folder)


def _not_regular(found: os.stat_result) -> str | None:
    if stat.S_ISREG(found.st_mode):
        return None
    for test, what in _KINDS:
        if test(found.st_mode):
            return what
    return "something that is no regular file"


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.EMLINK):
        return "a symbolic link that leads nowhere or is not followed"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return "its name holds a NUL byte"


def digest_of(file: BinaryIO) -> str:
    """`sha256:...` of a whole seekable file; left at its start."""
    file.seek(0)
    state = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        state.update(chunk)
    file.seek(0)
    return "sha256:" + state.hexdigest()


def refuse_if_changed(opened: OpenedFile, digest: str) -> None:
    """ImportRefused if the file is no longer what was read as `digest`."""
    after = os.fstat(opened.file.fileno())
    same = all(
        getattr(after, field) == getattr(opened.before, field)
        for field in ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev")
    )
    if not same or digest_of(opened.file) != digest:
        raise ImportRefused(
            "the file changed while it was read, so nothing of it was imported; import it again "
            "when its writer has finished",
            where="the whole file",
            reason="changed",
        )
