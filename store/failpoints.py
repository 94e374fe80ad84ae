"""Named points at which a test can make the process die, fail or wait.

Armed only by `STRANDLINE_FAILPOINT=name[:n]=action` in the environment when this module is
imported, or by `arm` in a test; otherwise `reach` is one dictionary look-up. Actions: `kill`
(SIGKILL, as a power switch for the process), or a callable.

Every name is listed here, so that a sweep over `NAMES` leaves none out.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

NAMES: tuple[str, ...] = (
    "append.queued",
    "append.begun",
    "append.decided",
    "append.written",
    "append.committed",
    "append.announced",
    "blob.created",
    "blob.written",
    "blob.synced",
    "blob.renamed",
    "blob.listed",
    "blob.referenced",
    "wal.checkpointed",
)

_armed: dict[str, tuple[int, Callable[[], None]]] = {}
_hits: dict[str, int] = {}


def kill() -> None:
    """End this process as a crash does: no handler runs, no buffer is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(name: str, action: Callable[[], None], *, at: int = 1) -> None:
    """Run `action` at the `at`-th time `name` is reached."""
    if name not in NAMES:
        raise KeyError(f"no failpoint {name}")
    _armed[name] = (at, action)
    _hits[name] = 0


def disarm(name: str | None = None) -> None:
    """Forget what was armed, or one point of it."""
    for one in [*_hits] if name is None else [name]:
        _armed.pop(one, None)
        _hits.pop(one, None)


def hits(name: str) -> int:
    """How often an armed point was reached; a fault that fired 0 times proves nothing."""
    return _hits.get(name, 0)


def reach(name: str) -> None:
    """Mark a point of the protocol."""
    if not _armed:
        return
    armed = _armed.get(name)
    if armed is None:
        return
    _hits[name] += 1
    if _hits[name] == armed[0]:
        armed[1]()


def _arm_from_environment(text: str) -> None:
    name, _, action = text.partition("=")
    point, _, count = name.partition(":")
    if action != "kill":
        raise ValueError(f"STRANDLINE_FAILPOINT: no action {action!r}")
    arm(point, kill, at=int(count or 1))


if "STRANDLINE_FAILPOINT" in os.environ:
    _arm_from_environment(os.environ["STRANDLINE_FAILPOINT"])
