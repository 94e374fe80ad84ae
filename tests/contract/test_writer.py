"""The writer of the SQLite store: time limits, contention, and a defect that must stay alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import AckUnknown, Busy
from store import engine, failpoints, sqlite_driver
from store.writer import Writer
from tests.contract.worlds import SECONDS, SqliteWorld, note


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
