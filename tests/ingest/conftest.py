"""An open store for each test, and the committed files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.open import Opened, open_store


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """An empty store in a folder of its own."""
    with open_store(tmp_path / "data", domain="process") as store:
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Opened]:
    """A second store."""
    with open_store(tmp_path / "other", domain="process") as store:
        yield store
