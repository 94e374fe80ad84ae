"""Writing an export to a file: whole under its name, or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from app import console

if TYPE_CHECKING:
    from app.backend import Backend


def export(backend: Backend, trajectory_id: str, output: Path) -> None:
    """Export to `output`; `-` is standard output. A failed export leaves no file behind."""
    if str(output) == "-":
        backend.export(trajectory_id, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    handle, part = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
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
