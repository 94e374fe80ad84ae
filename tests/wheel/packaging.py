"""Building and starting the installed product: shared by the tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.require import ROOT

SERVER_START_SECONDS_MAX = 30.0


def tracked_files() -> list[str]:
    """Files of the checkout that git would keep, present on disk."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    return [name for name in listed if name and (ROOT / name).is_file()]


def copy_tree(into: Path) -> Path:
    """A copy of the checkout as a clone would have it, uncommitted files included."""
    for name in tracked_files():
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return into


def build_wheel(source: Path, into: Path) -> Path:
    """The wheel, built through the sdist as every release is."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", into, source],
        check=True,
        capture_output=True,
    )
    (wheel,) = into.glob("*.whl")
    return wheel


def get(url: str) -> tuple[int, str, bytes]:
    """Status, content type and body of one GET."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.status, answer.headers.get_content_type(), answer.read()


@contextmanager
def serving(command: list[str], data: Path, cwd: Path) -> Iterator[str]:
    """Run `command serve` on a data folder of its own; yields its URL, ends it by SIGTERM."""
    environment = {**os.environ, "STRANDLINE_DATA": str(data)}
    log = (data.parent / f"{data.name}.log").open("wb")
    server = subprocess.Popen(
        [*command, "serve", "--port", "0"], cwd=cwd, env=environment, stdout=log, stderr=log
    )
    try:
        yield _url_of(data, server, Path(log.name))
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            assert server.wait(15) == 0, Path(log.name).read_text()
        except subprocess.TimeoutExpired:
            server.kill()
            raise
        finally:
            log.close()


def _url_of(data: Path, server: subprocess.Popen[bytes], log: Path) -> str:
    """The URL in the lock file that the owner of the store writes (mode 0600)."""
    deadline = time.monotonic() + SERVER_START_SECONDS_MAX
    while time.monotonic() < deadline and server.poll() is None:
        try:
            url = json.loads((data / "strandline.lock").read_text())["url"]
            if get(f"{url}/readyz")[0] == 200:
                return str(url)
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"the server did not become ready:\n{log.read_text()}")
