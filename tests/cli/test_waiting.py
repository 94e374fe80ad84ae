"""A command that finds the data held by another waits, says so, and ends within a bound."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from app import backend, console
from ingest import demo
from store import lock
from tests import served
from tests.cli.here import run

FILE = sorted(demo.DATA.glob("*.traj.json"))[0]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    assert served.run("import", FILE, "--data", tmp_path / "data").code == 0
    return tmp_path / "data"


@pytest.mark.parametrize("command", [("list", "--json"), ("import", str(FILE))])
def test_a_command_says_that_it_waits_and_for_whom(data: Path, command: tuple[str, ...]) -> None:
    held = lock.acquire(data, started_at=1)
    try:
        process = subprocess.Popen(
            [*served.MAIN, *command, "--data", str(data)],
            env=served.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.readline()  # It comes while the data is held still.
        assert f"waiting for another command (process {os.getpid()})" in said
        assert process.poll() is None
    finally:
        held.release()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out
    assert "waiting" not in err  # said once


def test_a_command_that_need_not_wait_long_says_nothing(data: Path) -> None:
    held = lock.acquire(data, started_at=1)
    process = subprocess.Popen(
        [*served.MAIN, "list", "--data", str(data)],
        env=served.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.2)
    held.release()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_a_wait_is_bounded(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "WAIT_SECONDS", 1.5)
    held = lock.acquire(data, started_at=1)
    try:
        began = time.monotonic()
        done = run("list", "--data", data)
        assert time.monotonic() - began < 20
    finally:
        held.release()
    assert done.code == console.UNAVAILABLE == 6
    assert "at most 2 s" in done.err
    assert f"is in use by another command (process {os.getpid()}" in done.err
