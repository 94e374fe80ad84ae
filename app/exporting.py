"""Writing an export to a file: whole under its name, or not at all."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from app import console
from core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from app.backend import Backend


_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
)


def check(output: Path, *, force: bool) -> None:
    """InvalidInput where the export would overwrite a file, or anything that is none, or has no
    folder to go to."""
    if str(output) == "-":
        return
    _check_kind(output)
    if not output.parent.is_dir():
        raise NotFound(
            f"there is no folder {output.parent} to write {output.name} to",
            advice="Make the folder, or name another file.",
        )
    if output.exists() and not force:
        raise InvalidInput(
            f"{output} exists already",
            field="output",
            advice="Name another file, or replace this one with --force.",
        )


def _check_kind(output: Path) -> None:
    """InvalidInput for a name that leads to anything but a regular file, or to nothing.

    An export takes the place of what has the name. It is not written through a symbolic link, nor
    does it take the link's place, which would leave the file behind it as it was.
    """
    try:
        mode = output.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise InvalidInput(f"{output} is a folder; name a file in it", field="output")
    if stat.S_ISLNK(mode):
        raise InvalidInput(
            f"{output} is a symbolic link to {output.readlink()}",
            field="output",
            advice="Name the file itself; `-` is standard output.",
        )
    what = next((word for is_kind, word in _KINDS if is_kind(mode)), "no regular file")
    raise InvalidInput(
        f"{output} is {what}, which an export does not replace",
        field="output",
        advice="Name a file; `-` is standard output, for a pipe.",
    )


def export(backend: Backend, trajectory_id: str, output: Path) -> None:
    """Export to `output`; `-` is standard output. A failed export leaves no file behind."""
    if str(output) == "-":
        backend.export(trajectory_id, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        handle, part = tempfile.mkstemp(prefix=".strandline-export-", dir=output.parent)
    except OSError as error:
        # Of the file that was named, not of the one that is written first.
        raise OSError(error.errno, error.strerror, str(output)) from error
    try:
        with os.fdopen(handle, "wb") as out:
            backend.export(trajectory_id, out)
            out.flush()
            os.fsync(out.fileno())
        _check_kind(output)
        Path(part).replace(output)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    size = output.stat().st_size
    console.note(f"exported {trajectory_id} to {console.safe(output)} ({size:,} bytes)")
