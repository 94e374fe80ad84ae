"""The product's own server as a child process, on a data folder that has its trajectories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import ROOT

START_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    pid: int

    def get(self, path: str, headers: dict[str, str] | None = None) -> bytes:
        """Body of one GET."""
        request = urllib.request.Request(self.url + path, headers=headers or {})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def post(self, path: str, body: object) -> dict[str, object]:
        """Parsed answer of one POST."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.loads(answer.read()))


@contextmanager
def serving(data: Path) -> Iterator[Server]:
    """`strandline serve` as a user starts it, logging warnings only."""
    environment = {
        **os.environ,
        "STRANDLINE_DATA": str(data),
        "STRANDLINE_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "strandline", "serve", "--port", "0"]
    with (data.parent / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield Server(_ready(data, process), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def floor(port: int, folder: Path) -> Iterator[str]:
    """The HTTP floor under the product's server options; yields the URL of its route."""
    command = [sys.executable, "-m", "uvicorn", "bench.floor_app:app", "--port", str(port)]
    options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    with (folder / "floor.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *options, "--log-level", "warning"], cwd=ROOT, stdout=log, stderr=log
        )
        try:
            _answers(f"http://127.0.0.1:{port}/raw", process, b'{"events":[]}')
            yield f"http://127.0.0.1:{port}/raw"
        finally:
            process.terminate()
            process.wait(30)


def _ready(data: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            url = str(json.loads((data / "strandline.lock").read_text())["url"]).rstrip("/")
            with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return url
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    raise SystemExit(
        "the server did not become ready:\n" + (data.parent / "server.log").read_text()
    )


def _answers(url: str, process: subprocess.Popen[bytes], body: bytes) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            urllib.request.urlopen(url, body, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.1)
