"""Open stores for the tests; closing one takes a moment, so it is done aside."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest import registry
from store.open import Opened, open_store
from tests.ingest.log_format import SayLog


@pytest.fixture(scope="session")
def closers() -> Iterator[ThreadPoolExecutor]:
    """Threads that close stores; all of them are closed when the session ends."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def opened(tmp_path: Path, closers: ThreadPoolExecutor) -> Iterator[Opened]:
    """An empty store in a folder of its own."""
    store = open_store(tmp_path / "data", domain="process")
    yield store
    closers.submit(store.close)


@pytest.fixture
def other(tmp_path: Path, closers: ThreadPoolExecutor) -> Iterator[Opened]:
    """A second store."""
    store = open_store(tmp_path / "other", domain="process")
    yield store
    closers.submit(store.close)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, closers: ThreadPoolExecutor
) -> Iterator[Opened]:
    """One store for all tests of a module that leave it as they found it."""
    store = open_store(tmp_path_factory.mktemp("shared") / "data", domain="process")
    yield store
    closers.submit(store.close)


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> SayLog:
    """The test format, known to this process."""
    importer = SayLog()
    monkeypatch.setattr(registry, "LOG_IMPORTERS", (*registry.LOG_IMPORTERS, importer))
    return importer
