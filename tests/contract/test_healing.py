"""A cache that is damaged or removed while it is in use is filled again, and says so until then."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import StoreStopped
from core.principal import Principal
from runtime.indexer import Indexer
from runtime.listing import ListPage
from runtime.projector import Projector
from runtime.service import Runtime
from store.search import SqliteTextIndex
from tests.contract.worlds import TENANT, SqliteWorld, note

NUMBER = 40
WHO = Principal(TENANT, "test", frozenset({"read"}))


@dataclass
class Running:
    world: SqliteWorld
    index: SqliteTextIndex
    runtime: Runtime
    projector: Projector
    indexer: Indexer

    @property
    def data(self) -> Path:
        return self.world.folder / "data"

    def list(self) -> ListPage:
        return self.runtime.list(WHO, limit=200)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    world = SqliteWorld(tmp_path)
    for number in range(NUMBER):
        name = f"t{number}"
        world.imports(
            *(note(f"{n}", f"word {n}", trajectory_id=name) for n in range(5)),
            trajectory_id=name,
            creates="imported",
        ).result(20)
    index = SqliteTextIndex(
        world.folder / "data" / "search.db",
        world.opened.incarnation,
        heads=lambda tenant, after: world.store.heads(tenant, after=after, limit=500),
        log=world.store.totals,
    )
    runtime = Runtime(world.store, world.blobs, world.projections, world.clock, text_index=index)
    projector = Projector(world.store, world.blobs, world.projections)
    indexer = Indexer(world.store, world.blobs, index)
    projector.start()
    indexer.start()
    made = Running(world, index, runtime, projector, indexer)
    until(lambda: whole(made))
    yield made
    projector.close()
    indexer.close()
    index.close()
    world.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def whole(running: Running) -> bool:
    page = running.list()
    return (page.total, page.exact, page.missing) == (NUMBER, True, (0, 0)) and (
        running.index.behind(TENANT) == (0, 0)
    )


def garbage(path: Path) -> None:
    """Every page, in place."""
    with path.open("r+b") as file:
        for start in range(0, os.fstat(file.fileno()).st_size, 4096):
            file.seek(start)
            file.write(b"\xff" * 512)


def cut(path: Path) -> None:
    os.truncate(path, 0)


def removed(path: Path) -> None:
    path.unlink()


def all_removed(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"not a database at all" * 400)
    other.rename(path)


DAMAGE = [garbage, cut, removed, all_removed, replaced]


def flushed(running: Running, name: str) -> None:
    """What is in the WAL only is in the file too, and no reader holds pages in memory."""
    cache = running.world.projections if name == "projections.db" else running.index
    with cache._write:
        cache._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        while cache._idle:
            cache._idle.pop().close()


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda one: one.__name__)
def test_lists_are_right_or_say_what_they_lack(
    running: Running, damage: Callable[[Path], None]
) -> None:
    flushed(running, "projections.db")
    before = running.world.projections.generation
    damage(running.data / "projections.db")
    seen = [running.list()]
    while not whole(running):
        seen.append(running.list())
        assert len(seen) < 100_000
    assert running.world.projections.generation > before
    for page in seen:
        lacking = NUMBER - len(page.rows)
        assert page.exact is (page.missing == (0, 0))
        assert page.exact is False or lacking == 0, page
    # It follows the log again.
    running.world.imports(
        note("new", trajectory_id="new"), trajectory_id="new", creates="imported"
    ).result(20)
    until(lambda: running.list().total == NUMBER + 1)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda one: one.__name__)
def test_a_search_is_right_or_says_what_it_lacks(
    running: Running, damage: Callable[[Path], None]
) -> None:
    flushed(running, "search.db")
    damage(running.data / "search.db")
    for _ in range(10_000):
        try:
            found = len(running.index.hits(TENANT, "word", limit=200))
        except StoreStopped:  # It says that it is made anew.
            found = -1
        behind = running.index.behind(TENANT)
        assert found in (NUMBER, -1) or behind[1] > 0 or whole(running)
        if whole(running) and found == NUMBER:
            break
    assert len(running.index.hits(TENANT, "word", limit=200)) == NUMBER
    assert running.index.generation >= 1


def test_many_readers_that_meet_one_damage_make_it_anew_once(running: Running) -> None:
    flushed(running, "projections.db")
    before = running.world.projections.generation
    garbage(running.data / "projections.db")
    threads = [threading.Thread(target=running.list) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    until(lambda: whole(running))
    assert running.world.projections.generation == before + 1


def test_a_cache_that_cannot_be_made_now_is_tried_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.cache_file._AGAIN_SECONDS", 0.05)
    projections = running.world.projections
    make, failed = type(projections)._make, []

    def full(self: object) -> object:
        if len(failed) < 3:
            failed.append(1)
            raise OSError(28, "No space left on device")
        return make(projections)

    monkeypatch.setattr(type(projections), "_make", full)
    removed(running.data / "projections.db")
    page = running.list()
    assert (page.total, page.exact) == (0, False)
    assert page.missing == (NUMBER, NUMBER * 5)
    until(lambda: whole(running))


def test_a_command_that_meets_damage_says_what_it_lacks(tmp_path: Path) -> None:
    world = SqliteWorld(tmp_path)
    world.imports(note("a"), creates="imported").result(20)
    projector = Projector(world.store, world.blobs, world.projections)
    projector.catch_up()
    runtime = Runtime(world.store, world.blobs, world.projections, world.clock)
    assert runtime.list(WHO).total == 1
    removed(world.folder / "data" / "projections.db")
    page = runtime.list(WHO)
    assert (page.total, page.exact, page.missing) == (0, False, (1, 1))
    projector.catch_up()
    page = runtime.list(WHO)
    assert (page.total, page.exact, page.missing) == (1, True, (0, 0))
    world.close()
