"""SIGKILL at every failpoint of append and blob write, each time it is reached.

No acknowledged event is lost, there is no gap, audit is clean, and a client that sends everything
again (the lost acknowledgement) gets one event of each.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import failpoints
from tests.crash.stories import Child, check_folder, check_retold, fresh

#: A point reached more often than this is tried at its first times only.
TIMES_MAX = 6


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.close()


def test_the_story_ends_well_and_told_again_changes_nothing(child: Child, tmp_path: Path) -> None:
    folder = fresh(tmp_path / "store")
    code, said = child.run(folder)
    assert code == 0
    check_retold(folder, [], code, said)
    code, again = child.run(folder)
    assert all(line["duplicate"] for line in again if line.get("acked", "granted") != "granted")
    check_retold(folder, said, code, again)


@pytest.mark.parametrize("name", failpoints.NAMES)
def test_nothing_acknowledged_is_lost(child: Child, tmp_path: Path, name: str) -> None:
    fired = 0
    for at in range(1, TIMES_MAX + 1):
        folder = fresh(tmp_path / str(at))
        code, said = child.run(folder, name, at)
        if code == 0:
            break
        assert code == -signal.SIGKILL, said
        fired += 1
        check_folder(folder, said)
        check_retold(folder, said, *child.run(folder))
    assert fired >= 1, f"{name} was never reached: the test proves nothing"
