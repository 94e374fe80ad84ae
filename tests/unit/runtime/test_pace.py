"""The share of the machine that a follower takes."""

from __future__ import annotations

import threading

import pytest

from runtime import pace


class Machine:
    """A clock and a processor that move as told; resting moves the clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.used = 5.0
        self.rested: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.rested.append(seconds)
        self.now += seconds
        return False

    def work(self, seconds: float, waited: float = 0.0) -> None:
        self.used += seconds
        self.now += seconds + waited


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def paced(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> pace.Pace:
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", machine.wait)
    made = pace.Pace(0.1, stop, clock=lambda: machine.now, used=lambda: machine.used)
    made.begin()
    return made


def test_while_appends_come_work_becomes_its_share(machine: Machine, paced: pace.Pace) -> None:
    for seconds in (0.001, 0.004, 0.5):
        before = machine.now
        machine.work(seconds)
        paced.rest(moved_at=machine.now)
        assert machine.now - before == pytest.approx(seconds / 0.1)


def test_time_it_waited_is_not_its_own(machine: Machine, paced: pace.Pace) -> None:
    machine.work(0.01, waited=0.05)
    paced.rest(moved_at=machine.now)
    assert machine.rested == [pytest.approx(0.04)]
    machine.work(0.01, waited=1.0)
    paced.rest(moved_at=machine.now)
    assert len(machine.rested) == 1


def test_rest_it_did_not_need_is_not_saved_up(machine: Machine, paced: pace.Pace) -> None:
    machine.work(0.0, waited=10.0)
    paced.rest(moved_at=machine.now)
    machine.work(0.01)
    paced.rest(moved_at=machine.now)
    assert machine.rested == [pytest.approx(0.09)]


def test_where_nothing_comes_it_may_take_more(machine: Machine, paced: pace.Pace) -> None:
    machine.work(0.01)
    paced.rest(moved_at=machine.now - 2 * pace.BUSY_SECONDS)
    assert machine.rested == [pytest.approx(0.01 / pace.IDLE_SHARE - 0.01)]
