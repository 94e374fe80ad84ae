"""A `strandline serve` child on a data folder, and other commands as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
COMMAND_SECONDS = 120.0
MAIN = (sys.executable, "-m", "strandline")
ROOT = Path(__file__).resolve().parent.parent


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The scrubbed environment of the tests; commands start in any folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **(more or {})}


@dataclass(frozen=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: str | Path, env: Mapping[str, str] | None = None, **more: Any) -> Finished:
    """Run one command to its end."""
    done = subprocess.run(
        [*MAIN, *map(str, arguments)],
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
        **more,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "database is locked" not in done.stderr + done.stdout
    return Finished(done.returncode, done.stdout, done.stderr)


@dataclass
class Serving:
    """A running server."""

    process: subprocess.Popen[bytes]
    data: Path
    url: str
    log: Path

    @property
    def lock(self) -> dict[str, Any]:
        """What its lock file says."""
        return dict(json.loads((self.data / "strandline.lock").read_text()))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it; how it ended."""
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def serving(data: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A server on `data`, ready; stopped at the end if it still runs."""
    data.parent.mkdir(parents=True, exist_ok=True)
    log = data.parent / f"{data.name}.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [*MAIN, "serve", "--data", str(data), "--port", "0", *arguments],
            env=environment(env),
            stdout=stream,
            stderr=stream,
        )
        try:
            yield Serving(process, data, _url(process, data, log), log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)


def _url(process: subprocess.Popen[bytes], data: Path, log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            found = json.loads((data / "strandline.lock").read_text())
        except (OSError, ValueError):
            found = {}
        if found.get("url") and found["pid"] == process.pid:
            return str(found["url"])
        time.sleep(0.02)
    raise AssertionError("the server did not start:\n" + log.read_text())
