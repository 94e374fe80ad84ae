"""Each command as a user runs it: without a server, and through the one that owns the store."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import console
from ingest import demo
from tests import served
from tests.cli.here import run
from tests.served import Serving

FILES = sorted(demo.DATA.glob("*.traj.json"))
LINE_KEYS = ["path", "format", "trajectories", "refused", "tokens"]


class World:
    """A data folder with the same content, served or not, and one imported trajectory's id."""

    def __init__(self, data: Path, server: Serving | None) -> None:
        self.data = data
        self.server = server
        done = run("import", "--data", data, "--json", FILES[0])
        assert done.code == 0, done.err
        self.line = done.lines[0]
        self.name = str(self.line["trajectories"][0]["id"])
        self.head = int(self.line["trajectories"][0]["head"])

    def run(self, *arguments: str | Path, **more: Any) -> served.Finished:
        """One command on this folder."""
        return run(*arguments, "--data", self.data, **more)


@pytest.fixture(scope="module", params=["alone", "served"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    data = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "alone":
        yield World(data, None)
        return
    with served.serving(data) as server:
        yield World(data, server)
        assert server.process.poll() is None


def test_import_prints_one_documented_line_per_file(world: World) -> None:
    done = world.run("import", "--json", *FILES)
    assert done.code == 0
    assert [line["path"] for line in done.lines] == [str(path) for path in FILES]
    for line in done.lines:
        assert list(line) == LINE_KEYS
        assert line["format"].startswith("mini-swe-agent")
        assert [set(item) for item in line["trajectories"]] == [{"id", "events", "head", "chain"}]
        assert line["trajectories"][0]["chain"].startswith("sha256:")
        assert line["refused"] == []
        assert list(line["tokens"]) == ["input", "output", "cache_read", "cache_write"]
    assert done.lines[0] == world.line


def test_import_of_good_and_bad_says_each_and_ends_with_3(world: World, tmp_path: Path) -> None:
    shutil.copy(FILES[0], tmp_path / "a-good.traj.json")
    (tmp_path / "b-empty.json").write_bytes(b"")
    (tmp_path / "c-torn.traj.json").write_bytes(FILES[0].read_bytes()[:-30])
    os.mkfifo(tmp_path / "d-pipe")
    (tmp_path / "e-link.json").symlink_to("/etc/passwd")
    (tmp_path / "\x1b[31mf.json").write_bytes(b"{}")
    done = world.run("import", "--json", tmp_path)
    assert done.code == console.REFUSED
    assert "\x1b" not in done.out
    by_name = {Path(line["path"]).name: line for line in done.lines}
    assert by_name["a-good.traj.json"]["refused"] == []
    assert "empty" in by_name["b-empty.json"]["refused"][0]["why"]
    assert by_name["c-torn.traj.json"]["refused"][0]["where"]
    for name in ("d-pipe", "e-link.json"):
        assert by_name[name]["trajectories"] == [] and by_name[name]["refused"]
    text = world.run("import", tmp_path)
    assert "\x1b" not in text.out and "refused:" in text.out
    assert "d-pipe: skipped: it is a named pipe" in text.out
    missing = world.run("import", "--json", tmp_path / "none")
    assert missing.code == console.NOT_FOUND and missing.lines[0]["refused"]
    some = world.run("import", tmp_path / "none", FILES[0])
    assert some.code == console.NOT_FOUND
    assert "no such file or folder" in some.err and "unchanged" in some.out


def test_a_grown_file_appends_by_either_way_in(world: World, tmp_path: Path) -> None:
    """The source is the same whether a command reads the path or sends it to the server."""
    path = tmp_path / f"{world.data.parent.name}.traj.json"
    path.write_bytes(FILES[0].read_bytes())
    first = world.run("import", "--json", path)
    again = world.run("import", path)
    assert first.code == again.code == 0
    assert "unchanged" in again.out


def test_list_names_what_was_imported(world: World) -> None:
    done = world.run("list", "--json")
    assert done.code == 0
    rows = {row["trajectory_id"]: row for row in done.lines}
    assert rows[world.name]["standing"] == "imported"
    assert rows[world.name]["as_of_sequence"] == world.head
    text = world.run("list")
    assert text.out.splitlines()[0].startswith("ID\tTITLE")
    assert world.name in text.out
    one = world.run("list", "--json", "--limit", "1", "--text", world.name)
    assert [row["trajectory_id"] for row in one.lines] == [world.name]
    wrong = world.run("list", "--sort", "nonsense")
    assert wrong.code == console.USAGE
    assert "“nonsense”; expected: one of active, updated, started" in wrong.err
    wrong = world.run("list", "--status", "SUCCEEDED")
    assert wrong.code == console.USAGE and "COMPLETED" in wrong.err
    none = world.run("list", "--text", "no such title", "--status", "failed")
    assert none.code == 0 and none.out == ""
    assert "no trajectory matches --status FAILED --text no such title" in none.err


def test_show_gives_the_record_at_a_boundary(world: World) -> None:
    head = world.run("show", world.name, "--json").lines[0]
    assert head["boundary"] == world.head
    told = f"imported file, {world.head} events, completeness not provable"
    assert head["source"]["text"] == told
    first = world.run("show", f"{world.name}@1", "--json").lines[0]
    assert first["boundary"] == 1
    assert first["record"]["event_counts"] == {"TaskStarted": 1}
    text = world.run("show", f"{world.name}@3")
    assert text.code == 0 and f"{world.name}@3" in text.out
    assert world.run("show", f"{world.name}@0").code == 0


def test_show_gives_every_record_of_a_range(world: World) -> None:
    lines = world.run("show", f"{world.name}@1..3", "--json").lines
    assert [line["boundary"] for line in lines] == [1, 2, 3]
    assert lines[2]["record"] == world.run("show", f"{world.name}@3", "--json").lines[0]["record"]
    whole = world.run("show", f"{world.name}@..", "--json").lines
    assert [line["boundary"] for line in whole] == list(range(world.head + 1))
    for wrong in (f"{world.name}@1..3", f"{world.name}@1..x"):
        assert world.run("show", wrong).code == console.USAGE, wrong
    assert world.run("show", f"{world.name}@3..1", "--json").code == console.USAGE


def test_what_is_not_there_ends_with_4(world: World) -> None:
    for place in ("tr_none", f"{world.name}@{world.head + 1}"):
        done = world.run("show", place)
        assert done.code == console.NOT_FOUND
        lines = done.err.splitlines()
        assert len(lines) == 2 and lines[0].endswith("[not_found]") and lines[1].startswith("  ")
    beyond = world.run("show", f"{world.name}@{world.head + 1}")
    store = f"--data {world.data}"
    assert f"`strandline show {world.name}@{world.head} {store}`" in beyond.err
    assert f"`strandline list {store}`" in world.run("show", "tr_none").err
    assert world.run("verify", "tr_none").code == console.NOT_FOUND
    assert world.run("export", "tr_none", "-o", "-").code == console.NOT_FOUND


def test_what_is_not_a_place_ends_with_2(world: World) -> None:
    for place in (f"{world.name}@x", f"{world.name}@-1", f"{world.name}@1.5", "../x", "@3", ""):
        assert world.run("show", place).code == console.USAGE, place
    assert world.run("diff", f"{world.name}@1", "tr_other@2").code == console.USAGE


def test_diff_gives_paths_with_old_and_new(world: World) -> None:
    found = world.run("diff", f"{world.name}@1", f"{world.name}@3", "--json").lines[0]
    paths = {change["path"] for change in found["difference"]["changes"]}
    assert "calls.total" in paths
    text = world.run("diff", f"{world.name}@1", f"{world.name}@3")
    assert "calls.total: " in text.out and " -> " in text.out


def test_an_export_is_whole_or_not_there_and_imports_to_the_same_chain(
    world: World, tmp_path: Path
) -> None:
    out = tmp_path / "bundle.jsonl"
    assert world.run("export", world.name, "-o", out).code == 0
    lines = out.read_text().splitlines()
    assert json.loads(lines[0])["strandline"] == "bundle/1"
    assert json.loads(lines[-1])["chain"] == world.line["trajectories"][0]["chain"]
    piped = world.run("export", world.name, "-o", "-")
    assert piped.out == out.read_text()
    back = run("import", "--json", "--data", tmp_path / "copy", out)
    assert back.code == 0
    assert back.lines[0]["trajectories"][0]["chain"] == world.line["trajectories"][0]["chain"]
    torn = tmp_path / "torn.jsonl"
    torn.write_text("\n".join(lines[:-1]) + "\n")
    assert run("import", "--data", tmp_path / "copy2", torn).code == console.REFUSED
    nowhere = world.run("export", world.name, "-o", tmp_path / "no" / "folder.jsonl")
    assert nowhere.code == console.NOT_FOUND and "folder" in nowhere.err
    again = world.run("export", world.name, "-o", out)
    assert again.code == console.USAGE and "--force" in again.err
    assert world.run("export", world.name, "-o", out, "--force").code == 0
    assert out.read_text() == piped.out
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_export_replaces_no_pipe_socket_link_or_folder(
    world: World, tmp_path: Path, force: tuple[str, ...]
) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, what in (
            ("pipe", "is a named pipe"),
            ("link", f"is a symbolic link to {kept}"),
            ("dangling", "is a symbolic link to"),
            ("socket", "is a socket"),
            ("folder", "is a folder"),
        ):
            before = (tmp_path / name).lstat()
            done = world.run("export", world.name, "-o", tmp_path / name, *force)
            assert (done.code, what in done.err) == (console.USAGE, True), done.err
            assert os.path.samestat(before, (tmp_path / name).lstat())
    assert kept.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_verify_and_audit_find_nothing_wrong(world: World) -> None:
    one = world.run("verify", world.name)
    assert one.code == 0
    assert world.line["trajectories"][0]["chain"] in one.out
    every = world.run("verify", "--json")
    assert every.code == 0 and every.lines[-1]["findings"] == 0
    audited = world.run("audit", "--json")
    assert audited.code == 0, audited.out
    assert audited.lines[-1] == {"done": True, "findings": 0}


def test_where_and_doctor_say_what_is_in_use(world: World) -> None:
    found = world.run("where", "--json").lines[0]
    assert found["data"] == str(world.data)
    assert found["server"] == (world.server.url if world.server else None)
    checks = {line["check"]: line for line in world.run("doctor", "--json").lines}
    assert checks["sqlite"]["result"] == "ok"
    if world.server:
        assert world.server.url in checks["owner"]["found"]
    assert not [line for line in checks.values() if line["result"] == "bad"]


def test_several_imports_at_once_all_work(world: World, tmp_path: Path) -> None:
    done: list[served.Finished] = []

    def work(number: int) -> None:
        path = tmp_path / f"{number}-{world.data.parent.name}.traj.json"
        shutil.copy(FILES[number % len(FILES)], path)
        done.append(world.run("import", "--json", path))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.code for one in done] == [0, 0, 0], [one.err for one in done]


# --- one environment, one machine -------------------------------------------------------------


def test_the_environment_names_the_same(world: World) -> None:
    env = {"STRANDLINE_DATA": str(world.data)}
    assert run("show", world.name, env=env).code == 0
    env = {"STRANDLINE_STORE": f"sqlite://{world.data}"}
    assert run("show", world.name, env=env).code == 0
    assert run("show", world.name, env={"STRANDLINE_STORE": "postgresql://x"}).code == 2


def test_another_server_can_be_named(world: World, tmp_path: Path) -> None:
    if world.server is None:
        dead = run("list", "--server", "http://127.0.0.1:9", "--data", tmp_path)
        assert dead.code == console.UNAVAILABLE and "no server answers" in dead.err
        assert run("list", "--server", "ftp://x", "--data", tmp_path).code == console.USAGE
        return
    there = run("list", "--json", "--server", world.server.url, "--data", tmp_path / "none")
    assert world.name in {row["trajectory_id"] for row in there.lines}
    assert not (tmp_path / "none").exists()


def test_no_data_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    for command in (
        ("show", "tr_x"), ("verify",), ("audit",), ("export", "tr_x", "-o", "-"), ("list",),
    ):  # fmt: skip
        done = run(*command, "--data", tmp_path / "none")
        assert done.code == console.NOT_FOUND
        assert "import something" in done.err and str(tmp_path / "none") in done.err
    assert not (tmp_path / "none").exists()
    assert run("where", "--data", tmp_path / "none").code == 0
    assert run("doctor", "--data", tmp_path / "none").code == 0


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("x")
    done = run("import", FILES[0], "--data", blocked / "data")
    assert done.code in (console.UNAVAILABLE, console.USAGE)
    assert len(done.err.splitlines()) == 2


def test_damage_is_found_and_ends_with_5(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run("import", FILES[0], "--data", data).code == 0
    (blob,) = list((data / "blobs").rglob("*"))[-1:]
    assert blob.is_file()
    blob.chmod(0o600)
    blob.write_bytes(blob.read_bytes()[:-1] + b"\0")
    done = run("audit", "--data", data, "--json")
    assert done.code == console.DAMAGED
    assert done.lines[-1]["findings"] > 0
    assert done.lines[0]["finding"]["invariant"]


# --- help, version, terminal ------------------------------------------------------------------


def test_help_lists_every_command_and_exit_code() -> None:
    done = run("--help")
    assert done.code == 0
    for command in ("serve", "import", "list", "show", "diff", "export", "verify", "audit",
                    "doctor", "demo", "where"):  # fmt: skip
        assert command in done.out
    squeezed = " ".join(done.out.split())
    for code, text in console.EXIT_CODES:
        assert f"{code} {text}" in squeezed
    assert run("import", "--help").code == 0
    assert run("--version").out.startswith("strandline ")
    assert served.run("--version").out == run("--version").out
    for wrong in (("nonsense",), ("show",), (), ("list", "--limit", "x")):
        assert run(*wrong).code == console.USAGE, wrong


def test_hostile_titles_are_inert_on_a_terminal(tmp_path: Path) -> None:
    value = json.loads(FILES[0].read_bytes())
    hostile = "\x1b]0;owned\x07\x1b[2J\u202egpj.exe\x9b31m title [bold]x[/bold] :smile:"
    value["messages"][1]["content"] = hostile
    path = tmp_path / "hostile.traj.json"
    path.write_text(json.dumps(value))
    imported = run("import", "--data", tmp_path / "data", path)
    listed = run("list", "--data", tmp_path / "data")
    name = run("list", "--json", "--data", tmp_path / "data").lines[0]["trajectory_id"]
    shown = run("show", f"{name}@1", "--data", tmp_path / "data")
    for done in (imported, listed, shown):
        assert done.code == 0, done.err
        for bad in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert bad not in done.out
    screen = on_a_terminal("list", "--data", tmp_path / "data")
    assert b"\x1b]0;" not in screen and b"\x1b[2J" not in screen and b"\xe2\x80\xae" not in screen
    assert b"[bold]" in screen or "…".encode() in screen
    assert name.encode()[:12] in screen


def on_a_terminal(*arguments: str | Path) -> bytes:
    """What a command writes to a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*served.MAIN, *map(str, arguments)], env=served.environment({"COLUMNS": "160"}),
        stdout=slave, stderr=slave, stdin=slave, cwd=served.ROOT,
    )  # fmt: skip
    os.close(slave)
    screen = b""
    # The terminal is gone with its last writer.
    with contextlib.suppress(OSError):
        while chunk := os.read(master, 65536):
            screen += chunk
    os.close(master)
    assert process.wait(60) == 0
    return screen


def test_import_shows_progress_on_a_terminal(tmp_path: Path) -> None:
    screen = on_a_terminal("import", "--data", tmp_path / "data", FILES[0])
    assert b"imported" in screen and b"Traceback" not in screen


def test_a_pipe_that_closes_is_no_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run("import", "--data", data, *FILES).code == 0
    command = " ".join([*served.MAIN, "list", "--json", "--data", str(data)]) + " | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=served.environment(),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
