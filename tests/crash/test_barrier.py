"""The barrier itself, at the system call: what a failed flush means, and how many there are.

The SQLite library of pysqlite3 calls `fsync`. strace counts per thread; only the writer's thread
flushes the log of a store that exists already. A fault that did not fire fails the test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from store import suspect
from store.open import open_store
from tests.crash.child import EXIT_POISONED, TENANT
from tests.crash.stories import Said, acked, check, fresh
from tests.require import ROOT, need


def traced(
    folder: Path, *options: str, rounds: int = 2, pages: int = 10_000
) -> tuple[int, Said, str]:
    """(exit code, what it said, trace of the log's flushes)."""
    trace = folder / "trace"
    log = folder / "data" / "store-000001.db"
    command = [
        str(need("strace")), "-f", "-qq", "-y", "-o", str(trace),
        "-P", str(log), "-P", f"{log}-wal", *options,
        os.path.realpath(sys.executable), "-m", "tests.crash.child", "run", str(folder),
    ]  # fmt: skip
    environment = os.environ | {
        "CRASH_ROUNDS": str(rounds),
        "CRASH_CHECKPOINT_PAGES": str(pages),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(p for p in sys.path if "site-packages" in p)]),
    }
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, said, trace.read_text()


#: Flushes of a start: WAL header, barrier, and the WAL checkpoint after it (log, then database).
_BARRIER, _CHECKPOINT = (1, 2), (3, 4)


@pytest.mark.parametrize("at", [*_BARRIER, *_CHECKPOINT, 5, 6, 7, 10])
def test_an_io_error_at_the_barrier_is_unknown_and_poisons_the_writer(
    tmp_path: Path, at: int
) -> None:
    folder = fresh(tmp_path / "store")
    code, said, trace = traced(
        folder, "-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={at}"
    )
    assert trace.count("INJECTED") >= 1, "the fault never fired: the test proves nothing"
    assert code == EXIT_POISONED
    refused = [line for line in said if "refused" in line]
    unknown = [line for line in refused if line["outcome"] == "unknown"]
    if at in _BARRIER:
        assert said == [{"not_opened": "ack_unknown"}]
    elif at in _CHECKPOINT:
        assert {line["code"] for line in refused} == {"store_stopped"}
    else:
        assert 1 <= len(unknown) <= 3
        assert {line["code"] for line in unknown} == {"ack_unknown"}
        first = refused.index(unknown[-1]) + 1
        assert {line["code"] for line in refused[first:]} <= {"store_stopped"}
    assert suspect.read(folder / "data") is not None
    with open_store(folder / "data", read_only=True) as beside:
        check(beside, said, in_doubt=3)


def test_the_next_start_moves_to_a_verified_copy_and_goes_on(tmp_path: Path) -> None:
    folder = fresh(tmp_path / "store")
    data = folder / "data"
    _, said, trace = traced(folder, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=8")
    assert "INJECTED" in trace
    with open_store(data) as opened:
        check(opened, said, in_doubt=3)
        assert (data / "CURRENT").read_text() == "store-000002.db\n"
        assert suspect.read(data) is None
        assert opened.store.stats().state == "open"
        opened.blobs.put(TENANT, b"x")
    assert (data / "store-000001.db").exists()
    code, again, _ = traced(folder, "-e", "trace=fsync")
    assert code == 0
    numbers = acked(again)
    assert len(numbers) == 2 + 5 * 2
    assert {name: numbers[name] for name in acked(said)} == acked(said)


def test_a_group_is_one_flush_however_many_groups_there_are(tmp_path: Path) -> None:
    extra = []
    for rounds in (2, 8):
        folder = fresh(tmp_path / str(rounds))
        code, said, trace = traced(folder, "-e", "trace=fsync,fdatasync", rounds=rounds)
        assert code == 0
        (groups,) = [line["groups"] for line in said if line.get("done")]
        assert len([line for line in said if "acked" in line]) == 2 + 5 * rounds
        syncs = [line.split()[0] for line in trace.splitlines() if "-wal>" in line]
        writer = syncs[0]
        assert groups > 3 * rounds, "the story made no groups: the test proves nothing"
        extra.append(syncs.count(writer) - groups)
    # A start flushes the header of the WAL twice and checkpoints once; nothing grows with groups.
    assert extra[0] == extra[1] <= 3, extra


def test_a_slow_flush_delays_the_acknowledgement(tmp_path: Path) -> None:
    folder = fresh(tmp_path / "store")
    code, _, trace = traced(
        folder,
        *("-e", "trace=fsync", "-r", "-e", "inject=fsync:delay_enter=30000:when=2+"),
        rounds=1,
    )
    assert code == 0
    assert trace.count("DELAYED") >= 5, "no delay was injected: the test proves nothing"
