"""Writing an export to a file: whole under its name, or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from app import console
from core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from app.backend import Backend


def check(output: Path, *, force: bool) -> None:
    """InvalidInput where the export would overwrite a file, or has no folder to go to."""
    if str(output) == "-":
        return
    if output.is_dir():
        raise InvalidInput(f"{output} is a folder; name a file in it", field="output")
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
        Path(part).replace(output)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    size = output.stat().st_size
    console.note(f"exported {trajectory_id} to {console.safe(output)} ({size:,} bytes)")
