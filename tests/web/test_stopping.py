"""A server that is told to stop: while it imports, while it watches, while it starts."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests import served

SECONDS = 25.0
FILES = 3


def _line(number: int, session: str) -> bytes:
    """One line of a Claude Code session, each a message of a person."""
    return json.dumps(
        {
            "type": "user",
            "uuid": f"u-{session}-{number}",
            "parentUuid": f"u-{session}-{number - 1}" if number else None,
            "sessionId": session,
            "isSidechain": False,
            "timestamp": "2025-11-19T10:00:00.000Z",
            "cwd": "/x",
            "version": "2.0.46",
            "message": {"role": "user", "content": f"line {number}"},
        }
    ).encode()


def _session(name: str, lines: int) -> bytes:
    return b"".join(_line(number, name) + b"\n" for number in range(lines))


def _stopped_and_sound(running: served.Serving) -> None:
    began = time.monotonic()
    assert running.stop() == 0, running.log.read_text()[-3000:]
    assert time.monotonic() - began < SECONDS
    assert (running.data / "strandline.lock").read_text() == ""
    for command in ("audit", "verify"):
        done = served.run(command, "--data", running.data)
        assert done.code == 0, done


@pytest.mark.parametrize("moment", [0.1, 0.8])
def test_sigterm_within_imports_exits_0_and_leaves_whole_segments(
    tmp_path: Path, moment: float
) -> None:
    watched = tmp_path / "w"
    watched.mkdir()
    for number in range(FILES):
        name = f"0000000{number}"
        (watched / f"{name}.jsonl").write_bytes(_session(name, 4_500))
    with served.serving(tmp_path / "data", env={"STRANDLINE_WATCH": str(watched)}) as running:
        with httpx2.Client(base_url=running.url, timeout=30) as client:
            for name in ("one", "two"):
                files = {"files": (f"{name}.jsonl", _session(name, 9_000))}
                assert client.post("/v1/imports", files=files).status_code == 202
        time.sleep(moment)
        _stopped_and_sound(running)
    # What was cut off is completed by the next reading.
    again = served.run("import", watched, "--json", "--data", tmp_path / "data")
    events = [one["events"] for row in again.lines for one in row["trajectories"]]
    assert again.code == 0
    assert len(events) == FILES
    assert len(set(events)) == 1


def test_sigterm_at_any_moment_of_a_start_exits_0_with_nothing_served(tmp_path: Path) -> None:
    chance = random.Random(11)
    data = tmp_path / "data"
    for number in range(4):
        log = tmp_path / f"{number}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*served.MAIN, "serve", "--data", str(data), "--port", "0"],
                env=served.environment(),
                stdout=stream,
                stderr=stream,
            )
        # The interpreter itself needs a moment before any of our code runs.
        while b"strandline" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.005)
        time.sleep(0.25 + chance.uniform(0.0, 1.2))
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, log.read_text()
    assert served.run("list", "--data", data).code in (0, 4)  # it may never have been made
    with served.serving(data) as running:
        assert running.stop() == 0


def test_a_stop_that_comes_while_the_store_opens_serves_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from app import server, wiring, settings\n"
        "opening = wiring.open_parts\n"
        "def slow(*a, **k):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return opening(*a, **k)\n"
        "wiring.open_parts = slow\n"
        "chosen = settings.load(data=__import__('pathlib').Path(sys.argv[1]), port=0)\n"
        "sys.exit(server.serve(chosen, announce=lambda url: print('served', url)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        env=served.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "served" in done.stdout) == (0, False), done.stderr
    assert (tmp_path / "data" / "strandline.lock").read_text() == ""
