"""Following: growth, renames, truncation, two followers, kills; in one process and in several."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app import following
from app.backend import Served
from app.remote import Piece, Remote
from ingest.files import OpenedFile, walk
from ingest.follow import BUSY_SECONDS, IDLE_SECONDS, QUIET_SECONDS, Follower, How
from ingest.logs import Runs
from ingest.pipeline import Following, import_opened
from store.audit import audit
from store.open import Opened, open_store
from tests.ingest.support import TENANT, everything, log_of, of_type, take, typed

pytestmark = pytest.mark.usefixtures("say")

ROOT = Path(__file__).resolve().parents[2]
CHILD = [sys.executable, str(ROOT / "tests" / "ingest" / "say_child.py")]
WAIT_SECONDS = 30.0


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class StoreSink:
    """Into an open store; counts what was read."""

    opening_seconds = 0.0

    def __init__(self, opened: Opened, cost: Callable[[], None] = lambda: None) -> None:
        self.opened, self.runs, self.cost = opened, Runs(), cost
        self.taken: list[tuple[str, How, str]] = []

    def take(self, opened: OpenedFile, how: How) -> dict[str, Any]:
        self.cost()
        following = Following(how.source, how.at_work, how.edges)
        report = import_opened(
            self.opened.store, self.opened.blobs, TENANT, opened, following, runs=self.runs
        )
        self.taken.append((opened.name.rpartition("/")[2], how, report.outcome))
        return {**report.document(), "ok": report.ok}

    def rest(self) -> None:
        return


class Scene:
    """A folder, a follower of it, and a clock."""

    def __init__(self, opened: Opened, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.opened, self.folder, self.clock = opened, folder, Clock()
        self.sink = StoreSink(opened)
        self.follower = Follower([str(folder)], self.sink, clock=self.clock)

    def write(self, name: str, *said: str, mode: str = "a") -> Path:
        path = self.folder / name
        with path.open(mode) as file:
            file.writelines(json.dumps({"say": text}) + "\n" for text in said)
        return path

    def round(self, after: float = 5.0) -> list[dict[str, Any]]:
        """One round, some seconds later."""
        self.clock.now += after
        return list(self.follower.round())

    def said(self) -> dict[str, list[str]]:
        """What each trajectory says, by source."""
        found = {}
        for source, _ in self.opened.store.sources(TENANT):
            name = source.state["source"].replace(str(self.folder) + "/", "")
            payloads = of_type(self.opened, source.trajectory_id, "RuntimeInput")
            found[name.partition("#")[0] + ("#" if "#" in name else "")] = [
                payload.text for payload in payloads
            ]
        return found


@pytest.fixture
def scene(opened: Opened, tmp_path: Path) -> Iterator[Scene]:
    found = Scene(opened, tmp_path / "w")
    yield found
    found.follower.close()


# --- one follower ----------------------------------------------------------------------------


def test_what_grows_is_taken_and_nothing_is_read_that_did_not_change(scene: Scene) -> None:
    scene.write("a.say.jsonl", "1")
    assert [document["outcome"] for document in scene.round()] == ["imported"]
    for number in range(2, 5):
        scene.write("a.say.jsonl", str(number))
        assert [document["outcome"] for document in scene.round()] == ["appended"]
    reads = len(scene.sink.taken)
    for _ in range(3):
        assert scene.round() == []
    assert len(scene.sink.taken) == reads
    assert scene.said() == {"a.say.jsonl": ["1", "2", "3", "4"]}


def test_a_half_line_waits_for_its_end(scene: Scene) -> None:
    path = scene.write("a.say.jsonl", "1")
    scene.round()
    with path.open("a") as file:
        file.write('{"say":"tw')
    assert scene.round() == []
    assert scene.follower.status().waiting == 1
    with path.open("a") as file:
        file.write('o"}\n')
    scene.round()
    assert scene.said() == {"a.say.jsonl": ["1", "two"]}
    assert scene.follower.status().waiting == 0


def test_a_reply_in_parts_is_taken_when_its_writer_pauses(scene: Scene) -> None:
    path = scene.write("a.say.jsonl", "1")
    scene.round()
    with path.open("a") as file:
        file.write('{"say":"x","part":"r"}\n')
    assert scene.round(0.3) == []
    with path.open("a") as file:
        file.write('{"say":"y","part":"r"}\n')
    assert scene.round(0.3) == []
    (document,) = scene.round(QUIET_SECONDS + 0.1)
    assert (document["outcome"], document["trajectories"][0]["appended"]) == ("appended", 2)
    assert scene.round() == []


def test_a_renamed_file_keeps_its_source_and_the_new_one_gets_its_own(scene: Scene) -> None:
    path = scene.write("a.say.jsonl", "1")
    scene.round()
    with path.open("a") as late:
        path.rename(scene.folder / "a.say.jsonl.1")
        scene.write("a.say.jsonl", "new")
        late.write('{"say":"late"}\n')
    scene.round()
    with (scene.folder / "a.say.jsonl.1").open("a") as late:
        late.write('{"say":"later"}\n')
    scene.round()
    assert scene.said() == {"a.say.jsonl": ["1", "late", "later"], "a.say.jsonl#": ["new"]}


def test_a_single_file_is_followed_over_its_rename_through_its_descriptor(
    opened: Opened, tmp_path: Path
) -> None:
    scene = Scene(opened, tmp_path / "w")
    path = scene.write("a.say.jsonl", "1")
    follower = Follower([str(path)], scene.sink, clock=scene.clock)
    list(follower.round())
    path.rename(tmp_path / "elsewhere")
    scene.write("a.say.jsonl", "new")
    with (tmp_path / "elsewhere").open("a") as late:
        late.write('{"say":"late"}\n')
    for _ in range(3):
        scene.clock.now += 5
        list(follower.round())
    assert scene.said() == {"a.say.jsonl": ["1", "late"], "a.say.jsonl#": ["new"]}
    follower.close()
    scene.follower.close()


def test_copy_and_truncate(scene: Scene) -> None:
    path = scene.write("a.say.jsonl", "1", "2")
    scene.round()
    (scene.folder / "a.say.jsonl.1").write_bytes(path.read_bytes())
    os.truncate(path, 0)
    scene.round()
    scene.round()
    scene.write("a.say.jsonl", "new")
    scene.round()
    scene.write("a.say.jsonl", "newer")
    scene.round()
    assert scene.said() == {"a.say.jsonl": ["1", "2"], "a.say.jsonl#": ["new", "newer"]}
    assert not [row for row in scene.opened.store.ledger(TENANT) if row.kind == "incident"]


def test_a_truncated_file_that_goes_on_otherwise_is_a_conflict_and_said_once(scene: Scene) -> None:
    path = scene.write("a.say.jsonl", "1", "2", "3")
    scene.round()
    before = everything(scene.opened)
    os.truncate(path, path.read_bytes().find(b"\n") + 1)
    (document,) = scene.round() or [{}]
    assert document.get("outcome", "unchanged") == "unchanged"
    scene.write("a.say.jsonl", "other")
    (document,) = scene.round()
    assert document["outcome"] == "conflict"
    for text in ("x", "y", "z"):
        scene.write("a.say.jsonl", text)
        assert scene.round(1.0) == []
    assert everything(scene.opened) == before
    assert len([row for row in scene.opened.store.ledger(TENANT) if row.kind == "incident"]) <= 2
    assert scene.follower.status().problems[0][0].endswith("a.say.jsonl")


def test_a_copy_in_the_making_is_not_taken_for_a_file_of_its_own(scene: Scene) -> None:
    path = scene.write("a.say.jsonl", "1", "2", "3")
    scene.round()
    data, copy = path.read_bytes(), scene.folder / "b.say.jsonl"
    for length in (5, 20, len(data)):
        copy.write_bytes(data[:length])
        scene.round(0.3)
    scene.round()
    scene.round()
    assert scene.said() == {"a.say.jsonl": ["1", "2", "3"]}


def test_a_path_that_is_not_there_yet_is_waited_for(opened: Opened, tmp_path: Path) -> None:
    scene = Scene(opened, tmp_path / "w")
    follower = Follower([str(tmp_path / "later")], scene.sink, clock=scene.clock)
    assert list(follower.round()) == []
    assert follower.status().problems[0][1].endswith("no such file or directory")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a.say.jsonl").write_text('{"say":"1"}\n')
    for _ in range(3):
        scene.clock.now += 2
        list(follower.round())
    assert len(everything(opened)) == 1
    assert follower.status().problems == ()
    follower.close()
    scene.follower.close()


def test_what_is_no_trajectory_is_said_once_and_not_read_again(scene: Scene) -> None:
    (scene.folder / "notes.txt").write_text("hello")
    (scene.folder / "broken.traj.json").write_text('{"a": ')
    scene.write("a.say.jsonl", "1")
    outcomes = sorted(document["outcome"] for document in scene.round())
    assert outcomes == ["imported", "refused", "skipped"]
    for _ in range(3):
        assert scene.round() == []
    assert len(scene.sink.taken) == 3


def test_a_document_that_is_written_anew_is_read_between_two_writings(
    scene: Scene, tmp_path: Path
) -> None:
    from tests.ingest.support import fixture

    data = fixture("repair-slugify").read_bytes()
    path = scene.folder / "run.traj.json"
    path.write_bytes(data[: len(data) // 2])
    (document,) = scene.round()
    assert document["outcome"] == "refused"
    path.write_bytes(data)
    assert scene.round(0.3) == []
    (document,) = scene.round(2.0)
    assert document["outcome"] == "imported"


def test_at_most_a_tenth_of_the_time_goes_into_reading(scene: Scene) -> None:
    scene.write("a.say.jsonl", "1")
    scene.round()
    every = []
    for cost in (0.0, 0.1, 2.0, 60.0):

        def spend(cost: float = cost) -> None:
            scene.clock.now += cost

        scene.sink.cost = spend
        scene.write("a.say.jsonl", "x")
        scene.round()
        every.append(scene.follower.status().every_seconds)
    assert every[0] == BUSY_SECONDS
    assert every[1] >= 0.9
    assert every[2] >= 18.0
    assert every[3] == 60.0
    scene.sink.cost = lambda: None
    scene.round(100.0)
    assert scene.follower.status().every_seconds == IDLE_SECONDS


def test_a_large_file_is_compared_whole_only_now_and_then(scene: Scene) -> None:
    scene.write("a.say.jsonl", "1")

    def spend() -> None:
        scene.clock.now += 1.0

    scene.sink.cost = spend
    for _ in range(6):
        scene.round(4.0)
        scene.write("a.say.jsonl", "x")
    edges = [how.edges for _, how, _ in scene.sink.taken]
    assert edges == [False, True, True, True, True, False]


def test_many_rounds_leave_few_descriptors_open(scene: Scene) -> None:
    for number in range(60):
        scene.write(f"{number}.say.jsonl", "1")
    scene.round()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for number in range(60):
            scene.write(f"{number}.say.jsonl", "x")
        scene.round()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    for number in range(60):
        (scene.folder / f"{number}.say.jsonl").unlink()
    for _ in range(3):
        scene.round(60.0)
    assert scene.follower.status().files == 0


# --- processes -------------------------------------------------------------------------------


def run(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    """A command that ends."""
    return subprocess.run(
        [*CHILD, *arguments, "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


@contextmanager
def running(*arguments: str, data: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on until the block ends."""
    child = subprocess.Popen(
        [*CHILD, *arguments, "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=30)


def until(condition: Callable[[], bool], child: subprocess.Popen[str] | None = None) -> None:
    """Wait for it."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        assert child is None or child.poll() is None, child.communicate() if child else ""
        time.sleep(0.05)


def events(data: Path) -> int:
    """Events of the store, read beside whoever owns it; 0 where there is none yet."""
    found = sorted(data.glob("store-*.db"))
    if not found:
        return 0
    with closing(sqlite3.connect(f"file:{found[-1]}?mode=ro", uri=True)) as connection:
        try:
            row = connection.execute("SELECT sum(sequence_number) FROM trajectories").fetchone()
        except sqlite3.OperationalError:
            return 0  # It is being made.
    return int(row[0] or 0)


def facts_of(data: Path) -> list[Any]:
    """The log of the only trajectory without the places of its originals, audited."""
    opened = open_store(data, domain="process")
    try:
        assert not [found for found in audit(opened) if not isinstance(found, str)]
        ((name, _, _),) = everything(opened)
        assert not [row for row in opened.store.ledger(TENANT) if row.kind == "incident"]
        return [
            (event.event_id, event.type, msgspec.to_builtins(typed(opened, event)))
            for event in log_of(opened, name)
        ]
    finally:
        opened.close()


def whole(opened: Opened, path: Path) -> list[Any]:
    """The log of the file read at once."""
    name = take(opened, path).trajectories[0].id
    return [
        (event.event_id, event.type, msgspec.to_builtins(typed(opened, event)))
        for event in log_of(opened, name)
    ]


def add(path: Path, first: int, count: int, *, torn: bool = False) -> None:
    """Lines by a writer that now and then stops in the middle of one."""
    with path.open("ab", buffering=0) as file:
        for number in range(first, first + count):
            line = b'{"say":"%d"}\n' % number
            if torn and number % 3 == 0:
                file.write(line[:5])
                time.sleep(0.02)
                file.write(line[5:])
            else:
                file.write(line)
            time.sleep(0.005)


def test_a_follower_ends_with_ctrl_c_and_lets_others_at_the_store(tmp_path: Path) -> None:
    path, data = tmp_path / "a.say.jsonl", tmp_path / "theirs"
    add(path, 0, 3)
    with running("import", "--follow", str(path), data=data) as child:
        until(lambda: events(data) == 4, child)
        add(path, 3, 2)
        until(lambda: events(data) == 6, child)
        other = tmp_path / "b.say.jsonl"
        add(other, 7, 1)
        assert run("import", str(other), data=data).returncode == 0
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (0, "")
    assert [line for line in out.splitlines() if not line.startswith(" ")][:2] == [
        f"{path}: imported (say 1)",
        f"{path}: appended (say 1)",
    ]


@pytest.mark.parametrize("served", [False, True], ids=["no server", "server"])
def test_two_followers_and_an_import_of_one_growing_file(
    opened: Opened, tmp_path: Path, served: bool
) -> None:
    """R38, by processes."""
    path, data = tmp_path / "a.say.jsonl", tmp_path / "theirs"
    add(path, 0, 2)
    assert run("import", str(path), data=data).returncode == 0
    with (
        running("serve", "--port", "0", data=data) if served else _nothing(),
        running("import", "-f", str(path), data=data),
        running("import", "-f", str(path), data=data),
    ):
        add(path, 2, 150, torn=True)
        assert run("import", str(path), data=data).returncode == 0
        add(path, 152, 60, torn=True)
        until(lambda: events(data) == 213)
    assert facts_of(data) == whole(opened, path)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.mark.parametrize("served", [False, True], ids=["no server", "server"])
def test_a_killed_follower_is_replaced_by_the_next(
    opened: Opened, tmp_path: Path, served: bool
) -> None:
    path, data = tmp_path / "a.say.jsonl", tmp_path / "theirs"
    add(path, 0, 2)
    assert run("import", str(path), data=data).returncode == 0
    with running("serve", "--port", "0", data=data) if served else _nothing():
        for number in range(2):
            with running("import", "-f", str(path), data=data) as child:
                known = events(data)
                add(path, 2 + 40 * number, 40, torn=True)
                if number:
                    until(lambda known=known: events(data) > known, child)  # type: ignore[misc]
                child.kill()
        with running("import", "-f", str(path), data=data) as child:
            until(lambda: events(data) == 83, child)
    assert facts_of(data) == whole(opened, path)


def test_a_follower_goes_on_when_the_server_comes_and_goes(opened: Opened, tmp_path: Path) -> None:
    path, data = tmp_path / "a.say.jsonl", tmp_path / "theirs"
    add(path, 0, 2)
    assert run("import", str(path), data=data).returncode == 0
    with running("import", "-f", str(path), data=data) as child:
        with running("serve", "--port", "0", data=data):
            add(path, 2, 10)
            until(lambda: events(data) == 13, child)
        add(path, 12, 10)
        until(lambda: events(data) == 23, child)
    assert facts_of(data) == whole(opened, path)


class Counting(Remote):
    """A server that counts what it is sent."""

    def __init__(self, url: str, token: str | None) -> None:
        super().__init__(url, token)
        self.pieces: list[tuple[int, int]] = []

    def import_piece(self, name: str, path: str, piece: Piece) -> dict[str, Any]:
        self.pieces.append((piece.offset, len(piece.data)))
        return super().import_piece(name, path, piece)


def test_what_a_server_has_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file goes in pieces, what grew alone, and all of it where the server knows less."""
    monkeypatch.setattr(following, "PIECE_BYTES", 100)
    path, data = tmp_path / "a.say.jsonl", tmp_path / "theirs"
    path.write_bytes(b"".join(b'{"say":"%d"}\n' % number for number in range(40)))
    with running("serve", "--port", "0", data=data) as child:
        until(lambda: "url" in _described(data), child)
        described = _described(data)
        remote = Counting(described["url"], described["token"])
        memory = following.Memory()

        def follow(memory: following.Memory, source: str | None) -> dict[str, Any]:
            (found,) = walk(path)
            assert isinstance(found, OpenedFile)
            with found.file:
                return Served(remote).follow(found, How(source, False, False), memory)

        first = follow(memory, None)
        assert (first["outcome"], first["known_bytes"]) == ("imported", path.stat().st_size)
        assert first["trajectories"][0]["appended"] == 41
        assert len(remote.pieces) > 4
        remote.pieces.clear()
        size = path.stat().st_size
        add(path, 40, 2)
        grown = follow(memory, first["source"])
        assert (grown["outcome"], grown["trajectories"][0]["appended"]) == ("appended", 2)
        assert remote.pieces == [(size, path.stat().st_size - size)]
        changed = path.read_bytes().replace(b'"7"', b'"8"')
        path.write_bytes(changed)
        assert follow(memory, first["source"])["outcome"] == "conflict"
        path.write_bytes(changed.replace(b'"8"', b'"7"', 1))
        until(lambda: events(data) == 43)
        # The server has nothing of that name, though this process believes so: it is sent whole.
        remote.pieces.clear()
        with path.open("rb") as file:
            memory.sent((remote.url, os.path.realpath(path))).grew(file, size)
        assert follow(memory, "another name")["outcome"] == "imported"
        assert [offset for offset, _ in remote.pieces][:2] == [size, 0]
        remote.close()


def test_a_server_is_sent_a_line_that_is_too_long_and_leaves_it_out(tmp_path: Path) -> None:
    path, data = tmp_path / "a.say.jsonl", tmp_path / "theirs"
    with path.open("wb") as file:
        file.write(b'{"say":"1"}\n{"say":"')
        for _ in range(70):
            file.write(b"x" * 2**20)
        file.write(b'"}\n{"say":"3"}\n')
    with running("serve", "--port", "0", data=data) as child:
        until(lambda: "url" in _described(data), child)
        described = _described(data)
        remote = Counting(described["url"], described["token"])
        memory = following.Memory()
        (found,) = walk(path)
        assert isinstance(found, OpenedFile)
        with found.file:
            told = Served(remote).follow(found, How(None, False, False), memory)
        assert (told["outcome"], told["known_bytes"]) == ("imported", path.stat().st_size)
        assert [row["line"] for row in told["refused"]] == [2]
        assert told["trajectories"][0]["events"] == 4
        remote.close()


def _described(data: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((data / "strandline.lock").read_text())
    except (OSError, ValueError):
        return {}
    return found if found.get("url") else {}


def test_a_watched_folder_is_taken_in_by_the_server(tmp_path: Path) -> None:
    folder, data = tmp_path / "w", tmp_path / "data"
    folder.mkdir()
    path = folder / "a.say.jsonl"
    add(path, 0, 2)
    environment = os.environ | {"STRANDLINE_WATCH": f"{folder}:{tmp_path / 'none'}"}
    child = subprocess.Popen(
        [*CHILD, "serve", "--port", "0", "--data", str(data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=ROOT,
    )
    try:
        until(lambda: events(data) == 3)
        add(path, 2, 5, torn=True)
        until(lambda: events(data) == 8)
    finally:
        child.terminate()
        assert child.wait(30) == 0
