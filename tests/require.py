"""What a test needs from the machine: run with it, skip saying why, or fail where all is demanded.

A skip that nobody notices is a test that nobody runs. `STRANDLINE_TEST_REQUIRE` lists what must be
there: `all`, or names, comma separated; `-name` takes one out again (`all,-samples`). A missing
need that is demanded fails the test instead of skipping it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def samples() -> Path:
    """Folder of sample trajectories, beside the checkout unless STRANDLINE_SAMPLES names it."""
    return Path(os.environ.get("STRANDLINE_SAMPLES") or ROOT.parent / "shared" / "samples")


def samples_generated() -> Path:
    """Sibling of the samples folder with trajectories made by the real tools."""
    return samples().parent / "samples_generated"


def chromium() -> Path | None:
    """The system's Chromium; browser builds of test tools are never downloaded."""
    return _program("chromium") or _program("chromium-browser")


def _program(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _fuse() -> Path | None:
    device = Path("/dev/fuse")
    usable = device.exists() and os.access(device, os.R_OK | os.W_OK)
    return device if usable and shutil.which("fusermount3") else None


def _strace() -> Path | None:
    """strace where it may really trace: containers often forbid ptrace."""
    program = _program("strace")
    if program is None:
        return None
    traced = subprocess.run(
        [program, "-qq", "-e", "trace=none", "true"], capture_output=True, check=False
    )
    return program if traced.returncode == 0 else None


def _root() -> Path | None:
    return Path("/") if os.geteuid() == 0 else None


#: What `need(name)` can find out by itself, and what to say where it is not there.
KNOWN: dict[str, tuple[Callable[[], Path | None], str]] = {
    "chromium": (chromium, "no chromium on PATH (Debian: apt-get install chromium)"),
    "strace": (_strace, "no strace that may trace (Debian: apt-get install strace)"),
    "gcc": (lambda: _program("gcc"), "no gcc on PATH (Debian: apt-get install gcc)"),
    "fuse": (_fuse, "no usable /dev/fuse with fusermount3 (Debian: apt-get install fuse3)"),
    "curl": (lambda: _program("curl"), "no curl on PATH (Debian: apt-get install curl)"),
    "wrk": (lambda: _program("wrk"), "no wrk on PATH (Debian: apt-get install wrk)"),
    "root": (_root, "needs root, to mount a small file system"),
    "samples": (lambda: _folder(samples()), "no samples; STRANDLINE_SAMPLES names their folder"),
    "samples_generated": (
        lambda: _folder(samples_generated()),
        "no samples_generated beside the samples folder",
    ),
}


def demanded(name: str) -> bool:
    """Whether STRANDLINE_TEST_REQUIRE demands this need."""
    words = {word.strip() for word in os.environ.get("STRANDLINE_TEST_REQUIRE", "").split(",")}
    return f"-{name}" not in words and bool(words & {"all", name})


def need(name: str, present: bool | None = None, why: str = "") -> Path:
    """Go on only if the machine has it; else skip with the reason, or fail where it is demanded.

    Known names need no `present`; the path of the program, device or folder is returned then.
    """
    found: Path | None
    if present is None:
        probe, missing = KNOWN[name]
        found = probe()
        why = why or missing
    else:
        found = Path(".") if present else None
    if found is None:
        if demanded(name):
            pytest.fail(f"{name} is demanded by STRANDLINE_TEST_REQUIRE: {why}", pytrace=False)
        pytest.skip(f"{name}: {why}")
    return found
