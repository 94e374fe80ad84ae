"""A file of reserved space: released when the disk is full, so that an orderly stop has room."""

from __future__ import annotations

import os
from pathlib import Path

from core.limits import BALLAST_BYTES


def free_bytes(folder: Path) -> int:
    """Bytes an unprivileged writer may still take on the disk that holds `folder`."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


class Ballast:
    """The reserve of one data folder."""

    def __init__(self, path: Path, size: int = BALLAST_BYTES) -> None:
        self.path = path
        self.size = size

    def keep(self) -> None:
        """Reserve the space if it is not reserved and there is plenty."""
        if self.path.exists() or free_bytes(self.path.parent) < 4 * self.size:
            return
        descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size)
        except OSError:
            # No reserve is better than no store: the disk filled up just now.
            self.path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Give the space back to the disk."""
        self.path.unlink(missing_ok=True)
