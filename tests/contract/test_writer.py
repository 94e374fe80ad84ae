"""The writer of the SQLite store: time limits, contention, and a defect that must stay alone."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from core.errors import AckUnknown, Busy, StoreStopped, StrandlineError
from store import engine, failpoints, sqlite_driver
from store.writer import Writer
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, note


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SqliteWorld]:
    made = SqliteWorld(tmp_path)
    yield made
    failpoints.disarm()
    made.close()


def test_r7_a_barrier_that_does_not_answer_is_unknown_and_sent_again_until_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Writer.__init__.__kwdefaults__, "ack_seconds", 0.3)
    world = SqliteWorld(tmp_path)
    try:
        world.owned()
        entered, go = threading.Event(), threading.Event()

        def stuck() -> None:
            entered.set()
            go.wait(SECONDS)

        failpoints.arm("append.written", stuck)
        flushed = world.append_later([note("a")])
        assert entered.wait(SECONDS)
        queued = world.append_later([note("b")])
        error = world.refused(flushed)
        assert isinstance(error, AckUnknown)
        assert error.outcome == "unknown"
        late = world.refused(queued)
        assert isinstance(late, Busy)
        assert late.outcome == "refused"
        go.set()
        failpoints.disarm()
        again = world.append(note("a"))
        assert (again.duplicate, again.sequence_numbers) == (True, (3,))
        assert world.append(note("b")).sequence_numbers == (4,)
        assert world.findings() == []
    finally:
        failpoints.disarm()
        world.close()


def test_a_defect_of_one_member_does_not_reach_the_others(world: SqliteWorld) -> None:
    """An error that no rule names undoes the group; its members are then tried one by one."""
    world.owned()

    def defect() -> None:
        raise ValueError("a defect")

    with world.one_group():
        failpoints.arm("append.decided", defect, at=2)
        futures = [world.append_later([note(f"n{n}")]) for n in range(3)]
    assert [future.result(SECONDS).head for future in futures] == [3, 4, 5]
    assert failpoints.hits("append.decided") == 5
    failpoints.disarm()
    assert world.append(note("after")).head == 6
    assert world.findings() == []


def test_a_defect_alone_is_raised_and_leaves_nothing(world: SqliteWorld) -> None:
    world.owned()

    def defect() -> None:
        raise ValueError("a defect")

    failpoints.arm("append.written", defect)
    future = world.append_later([note("a")])
    assert isinstance(future.exception(SECONDS), ValueError)
    assert failpoints.hits("append.written") == 1
    failpoints.disarm()
    assert world.append(note("b")).sequence_numbers == (3,)
    assert world.findings() == []


def test_a_store_held_by_a_foreign_writer_is_busy_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 100)
    world = SqliteWorld(tmp_path)
    try:
        world.owned()
        path = world.folder / "data" / "store-000001.db"
        foreign = sqlite_driver.module.connect(str(path), isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        error = world.refused(world.append_later([note("a")]))
        assert isinstance(error, Busy)
        foreign.execute("ROLLBACK")
        foreign.close()
        assert world.append(note("a")).sequence_numbers == (3,)
    finally:
        world.close()


def test_a_cancelled_future_does_not_disturb_the_writer(world: SqliteWorld) -> None:
    world.owned()
    with world.one_group():
        cancelled = world.append_later([note("a")])
        kept = world.append_later([note("b")])
        assert cancelled.cancel()
    assert kept.result(SECONDS).sequence_numbers == (4,)
    assert world.append(note("a")).duplicate


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_log_whose_file_was_removed_takes_no_more_writes(tmp_path: Path, suffix: str) -> None:
    """What is written to a file without a name is lost when it is closed."""
    world = SqliteWorld(tmp_path)
    try:
        world.owned()
        # The watch looks once a second while there is work, and must have seen the file first.
        deadline = time.monotonic() + SECONDS
        number = count()
        seen = time.monotonic() + 1.5
        while time.monotonic() < seen:
            world.append(note(f"before{next(number)}"))
            time.sleep(0.02)
        log = next((world.folder / "data").glob("store-*.db"))
        log.with_name(log.name + suffix).unlink()
        refused: StrandlineError | None = None
        while refused is None and time.monotonic() < deadline:
            try:
                world.append(note(f"after{next(number)}"))
            except StrandlineError as error:
                refused = error
        assert isinstance(refused, StoreStopped)
        assert "removed or replaced" in str(refused)
        assert world.store.stats().state == "poisoned"
    finally:
        world.close()


def test_a_blob_that_cannot_be_flushed_is_open_and_can_be_put_again(
    world: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.fsync
    failed = 0

    def fail(descriptor: int) -> None:
        nonlocal failed
        failed += 1
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(AckUnknown) as caught:
        world.blobs.put(TENANT, b"bytes")
    assert failed > 0
    assert caught.value.outcome == "unknown"
    monkeypatch.setattr("os.fsync", whole)
    ref = world.blobs.put(TENANT, b"bytes")
    assert world.blobs.read(TENANT, ref.digest) == b"bytes"
    assert world.findings() == []
