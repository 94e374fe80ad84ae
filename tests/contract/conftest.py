"""The store under test, once for each implementation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store import failpoints
from tests.contract.worlds import WORLDS, SqliteWorld


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteWorld]:
    made = WORLDS[request.param](tmp_path)
    yield made
    failpoints.disarm()
    made.close()
