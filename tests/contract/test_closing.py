"""A store that is closed while threads use it: every call is answered or refused, none crashes."""

from __future__ import annotations

import io
import json
import random
import shutil
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.errors import AckUnknown, Busy, StoreStopped
from ingest.pipeline import import_stream
from runtime.indexer import Indexer
from runtime.projector import Projector
from store import failpoints
from store.lock import is_held
from store.search import SqliteTextIndex
from store.writer import Writer
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, note, template

ROUNDS = 12
THREADS_OF_EACH = 2


def _index(world: SqliteWorld) -> SqliteTextIndex:
    return SqliteTextIndex(
        world.folder / "data" / "search.db",
        world.opened.incarnation,
        heads=lambda tenant, after: world.store.heads(tenant, after=after, limit=500),
    )


def _codex(session: str, lines: int) -> io.BytesIO:
    rows: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": session}}]
    rows += [
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": f"line {number}"}],
            },
        }
        for number in range(lines)
    ]
    for row in rows:
        row["timestamp"] = "2026-06-19T10:00:00.000Z"
    return io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def _users(world: SqliteWorld, index: SqliteTextIndex) -> list[Callable[[str], None]]:
    """Calls that threads repeat until one is refused; each gets a name of its own."""
    store, projections = world.store, world.projections
    projector = Projector(store, world.blobs, projections)
    indexer = Indexer(store, world.blobs, index)

    def append(name: str) -> None:
        # Without a limit of its own the caller may flush the group itself.
        world.imports(
            note("a", trajectory_id=name), trajectory_id=name, creates="imported"
        ).result()
        world.blobs.put(TENANT, name.encode() * 50)

    def read(name: str) -> None:
        for head in store.heads(TENANT, limit=20):
            store.events(TENANT, head.trajectory_id, limit=50)
            for _ in store.verify(TENANT, head.trajectory_id):
                pass

    def search(name: str) -> None:
        indexer.catch_up()
        index.hits(TENANT, "line")
        projector.catch_up()
        projections.list_summaries(
            TENANT, sort="id", descending=False, after=None, limit=50, filters={}
        )

    def imported(name: str) -> None:
        import_stream(store, world.blobs, TENANT, f"{name}.jsonl", _codex(name, 400))

    return [append, read, search, imported]


def _use(
    call: Callable[[str], None], name: str, which: int, done: list[int], ended: list[BaseException]
) -> None:
    try:
        for number in count():
            call(f"{name}-{number}")
            done[which] += 1
    except BaseException as error:
        ended.append(error)


def test_a_store_is_closed_under_threads_that_use_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    done = [0, 0, 0, 0]
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        shutil.copytree(template(), folder)
        world = SqliteWorld(folder)
        index = _index(world)
        ended: list[BaseException] = []

        threads = [
            threading.Thread(target=_use, args=(call, f"t-{which}-{at}", which, done, ended))
            for which, call in enumerate(_users(world, index))
            for at in range(THREADS_OF_EACH)
        ]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.0, 0.4))
        if number % 2:
            index.close()
        world.close()
        index.close()
        assert not is_held(folder / "data")
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)
        assert [error for error in ended if not isinstance(error, StoreStopped)] == []
        assert len(ended) == len(threads)
        world = SqliteWorld(folder)
        assert world.findings() == []
        world.close()
        shutil.rmtree(folder)
    assert min(done) > 0, done


def test_a_caller_that_flushes_is_waited_for(tmp_path: Path) -> None:
    world = SqliteWorld(tmp_path)
    world.owned()
    entered, go = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        go.wait(SECONDS)

    writer: Writer = world.store._writer
    while not writer._sleeping:
        time.sleep(0.01)
    writer._sleeping = False  # Nobody wakes its thread, so that the caller flushes.
    failpoints.arm("append.decided", hold)
    held: list[Any] = []
    caller = threading.Thread(target=lambda: held.append(world.append(note("x"))))
    caller.start()
    try:
        assert entered.wait(SECONDS)
        closing = threading.Thread(target=world.close)
        closing.start()
        closing.join(0.3)
        assert closing.is_alive()
        late = world.refused(world.append_later([note("late")]))
        assert isinstance(late, StoreStopped)
        go.set()
        closing.join(SECONDS)
        caller.join(SECONDS)
        assert not closing.is_alive()
        assert held[0].sequence_numbers == (3,)
    finally:
        go.set()
        failpoints.disarm()
    world.close()
    again = SqliteWorld(tmp_path)
    assert again.store.head(TENANT, "t").sequence_number == 3
    again.close()


def test_a_disk_that_does_not_answer_keeps_its_connection_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer.close, "__defaults__", (0.3,))
    world = SqliteWorld(tmp_path)
    world.owned()
    entered, go = threading.Event(), threading.Event()

    def stuck() -> None:
        entered.set()
        go.wait(SECONDS)

    failpoints.arm("append.written", stuck)
    flushed = world.append_later([note("a")])
    try:
        assert entered.wait(SECONDS)
        queued = world.append_later([note("b")])
        began = time.monotonic()
        world.close()
        assert time.monotonic() - began < 5
        assert isinstance(world.refused(flushed), AckUnknown)
        assert isinstance(world.refused(queued), Busy)
        assert is_held(tmp_path / "data")
    finally:
        go.set()
        failpoints.disarm()
    monkeypatch.undo()
    world.close()
    assert not is_held(tmp_path / "data")
    again = SqliteWorld(tmp_path)
    assert again.store.head(TENANT, "t").sequence_number == 3
    assert again.findings() == []
    again.close()
