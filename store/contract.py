"""Failure domains by name, and what is checked of the real settings before one is declared.

INVARIANT
1. A domain is declared only after every check that it rests on held (DOM-1, DOM-2); nothing here
   lowers it. An unsafe file system is accepted only by an explicit flag, and stays in the facts.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from core.errors import DomainUnavailable
from store import sqlite_driver
from store.ports import Check, Domain

#: Magic numbers of `statfs`, by `man 2 statfs`; names where Linux gives none in /proc/mounts.
UNSAFE: dict[str, str] = {
    "nfs": "SQLite's WAL needs shared memory, which a network file system has not",
    "nfs4": "SQLite's WAL needs shared memory, which a network file system has not",
    "cifs": "SQLite's WAL needs shared memory, which a network file system has not",
    "smb3": "SQLite's WAL needs shared memory, which a network file system has not",
    "9p": "a host share gives no promise about flushes",
    "virtiofs": "a host share gives no promise about flushes",
    "fuse.sshfs": "SQLite's WAL needs shared memory, which a network file system has not",
    "overlay": "a container's own layer goes with the container; mount a volume",
    "tmpfs": "memory does not survive the host",
    "ramfs": "memory does not survive the host",
}
#: A flush faster than this does not reach a disk (the fastest NVMe with a capacitor takes ~10).
LYING_FLUSH_US = 8.0
_PROBES = 12

SURVIVES: dict[Domain, str] = {
    "process": "the end of this process; not a power loss",
    "host": "a power loss, if the disk honours a flush; not the loss of the disk",
    "volume": "the loss of the disk: two copies outside it first",
}


def check_declared(domain: Domain) -> None:
    """DomainUnavailable for what this build cannot give."""
    if domain == "volume":
        raise DomainUnavailable(
            "the failure domain 'volume' needs synchronous standbys outside this disk, which "
            "SQLite has not and this version does not build; declare 'host'",
            domain=domain,
        )
    if domain not in SURVIVES:
        raise DomainUnavailable(f"there is no failure domain {domain!r}", domain=domain)


def filesystem(path: Path) -> str:
    """Type of the file system that holds `path`, as the kernel names it; "unknown" elsewhere."""
    real = os.path.realpath(path)
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return kind
    for line in mounts:
        _, mount, type_ = line.split(" ")[:3]
        mount = mount.encode().decode("unicode_escape")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, type_
    return kind


def check_filesystem(path: Path, domain: Domain, *, allow_unsafe: bool, kind: str) -> Check:
    """The check; DomainUnavailable for an unsafe one under `host`, unless it was allowed."""
    reason = UNSAFE.get(kind)
    if reason is None:
        return Check("filesystem", "local", kind, ok=True)
    if domain == "host" and not allow_unsafe:
        raise DomainUnavailable(
            f"{path} lies on {kind}, which cannot give the failure domain 'host': {reason}. Choose "
            "another folder, declare 'process', or allow it with --allow-unsafe-filesystem "
            "(STRANDLINE_ALLOW_UNSAFE_FILESYSTEM=1), which the health page then shows.",
            filesystem=kind,
        )
    return Check("filesystem", "local", f"{kind}: {reason}", ok=domain != "host", warning=True)


def probe_flush(folder: Path) -> float:
    """Median microseconds of a small write with its flush, in this very folder."""
    path = folder / f"flush-probe-{os.getpid()}"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    took = []
    try:
        for _ in range(_PROBES):
            begun = time.perf_counter()
            os.write(descriptor, b"\0" * 4096)
            os.fsync(descriptor)
            took.append((time.perf_counter() - begun) * 1e6)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
    return median(took)


def flush_check(took_us: float) -> Check:
    """A flush that takes no time is no flush: a warning, since only the owner can know."""
    lying = took_us < LYING_FLUSH_US
    return Check(
        "flush", f">= {LYING_FLUSH_US:.0f} us", f"{took_us:.0f} us", ok=not lying, warning=lying
    )


def sqlite_check() -> Check:
    """The version of the SQLite library in use."""
    minimum = ".".join(map(str, sqlite_driver.VERSION_MIN))
    return Check(
        "sqlite",
        f">= {minimum}",
        f"{sqlite_driver.VERSION_TEXT} ({sqlite_driver.NAME})",
        ok=sqlite_driver.VERSION >= sqlite_driver.VERSION_MIN,
    )
