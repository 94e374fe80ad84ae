"""What commands say to a person: advice that fits, commands that run as printed, short reports."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app import console, logs, paths
from core.errors import InvalidInput, NotFound, StoreStopped
from ingest import demo
from tests import served
from tests.cli.here import run

FILES = sorted(demo.DATA.glob("*.traj.json"))


def test_advice_fits_what_went_wrong(tmp_path: Path) -> None:
    said = run("show", "tr_x@abc", "--data", tmp_path).err
    assert "Write ID, ID@NUMBER or ID@head." in said
    weak = run("serve", "--data", tmp_path, env={"STRANDLINE_TOKEN": "short"}).err
    assert "openssl rand" in weak and "integers" not in weak
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = run("serve", "--data", tmp_path, "--port", port).err
    assert "--port 0" in said and "integers" not in said
    said = run("list", "--data", tmp_path, "--sort", "bogus").err
    assert "`strandline list --help`" in said
    assert "2^53" not in console.what_to_do(InvalidInput("x", field="other"), "list")
    beyond = NotFound("x has no boundary 9", trajectory_id="x", boundary=9, head=4)
    assert console.what_to_do(beyond) == "Its newest boundary: `strandline show x@4`."
    owned = StoreStopped("owned", owned=True, url="http://127.0.0.1:8123")
    assert "http://127.0.0.1:8123" in console.what_to_do(owned)


def test_printed_commands_are_those_that_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / ".venv" / "bin" / "strandline"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "list"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert paths.program() == ".venv/bin/strandline"
    assert console.as_run("see `strandline list`") == "see `.venv/bin/strandline list`"
    monkeypatch.setenv("PATH", str(script.parent))
    assert paths.program() == "strandline"
    monkeypatch.chdir("/")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert paths.program() == str(script)
    monkeypatch.setattr(sys, "argv", [str(paths.ROOT / "strandline" / "__main__.py")])
    assert paths.program().endswith(" -m strandline")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert paths.program() == "strandline"


def test_what_formats_do_not_record_is_said_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = run("import", "--data", data, *FILES[:2])
    assert first.code == 0
    assert first.out.count("does not record") == 1 and "not recorded:" not in first.out
    again = run("import", "--data", data, *FILES[:2])
    assert "record" not in again.out and again.out.count(": unchanged") == 2
    assert "not recorded:" in run("import", "--data", data, "-v", FILES[0]).out


def test_figures_that_are_absent_are_null(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_bytes(b"")
    done = run("import", "--json", "--data", tmp_path / "data", tmp_path / "empty.json")
    assert set(done.lines[0]["tokens"].values()) == {None}


def test_a_folder_passes_over_what_is_no_trajectory(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "readme.txt").write_text("not a trajectory\n")
    (folder / "run.traj.json").write_bytes(FILES[0].read_bytes())
    done = run("import", "--data", tmp_path / "data", folder)
    assert done.code == 0
    assert "readme.txt: skipped: " in done.out and "refused" not in done.out


def test_a_path_that_leads_nowhere_makes_no_store(tmp_path: Path) -> None:
    done = run("import", "--data", tmp_path / "data", tmp_path / "nope")
    assert done.code == console.NOT_FOUND and "no such file or folder" in done.err
    assert not (tmp_path / "data").exists()


def test_a_source_can_be_known_by_a_name(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ids = set()
    for number, name in enumerate(("one", "two")):
        path = tmp_path / f"{number}.traj.json"
        # The same bytes are the same source whatever their name, so they differ by a space.
        path.write_bytes(FILES[0].read_bytes() + b" " * number)
        done = run("import", "--json", "--data", data, path, "--as", name)
        assert done.code == 0, done.err
        ids.add(done.lines[0]["trajectories"][0]["id"])
    assert len(ids) == 2
    moved = tmp_path / "moved.traj.json"
    moved.write_bytes(FILES[0].read_bytes() + b"  ")
    back = run("import", "--json", "--data", data, moved, "--as", "one")
    assert back.code == 0 and {back.lines[0]["trajectories"][0]["id"]} <= ids
    assert run("import", "--data", data, *FILES[:2], "--as", "x").code == console.USAGE
    assert run("import", "--data", data, FILES[0], "--as", "").code == console.USAGE


def test_a_second_server_is_told_where_the_first_one_serves(tmp_path: Path) -> None:
    """And by --as through it: the name is the source there too."""
    with served.serving(tmp_path / "data") as server:
        second = run("serve", "--data", tmp_path / "data", "--port", "0")
        assert second.code == console.UNAVAILABLE
        assert server.url in second.err
        done = run("import", "--json", "--data", tmp_path / "data", FILES[0], "--as", "named")
        name = done.lines[0]["trajectories"][0]["id"]
        again = tmp_path / "again.traj.json"
        again.write_bytes(FILES[0].read_bytes() + b" ")
        same = run("import", "--json", "--data", tmp_path / "data", again, "--as", "named")
        assert same.lines[0]["trajectories"][0]["id"] == name
        assert server.log.read_text().count("alembic") == 0
        line = server.log.read_text().splitlines()[0]
        assert line.startswith("{"), "a file gets lines for machines"


def test_a_terminal_gets_lines_for_a_person(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*served.MAIN, "serve", "--data", str(tmp_path / "data"), "--port", "0"],
        env=served.environment(), stdout=slave, stderr=slave, stdin=slave,
    )  # fmt: skip
    os.close(slave)
    screen = b""
    while b"Ctrl-C" not in screen:
        screen += os.read(master, 65536)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    os.close(master)
    text = screen.decode()
    assert not re.search(r"^\{|alembic|Running upgrade", text, re.M), text
    assert re.search(r"^\d\d:\d\d:\d\d serving  url=http", text, re.M), text


def test_a_line_for_a_person_hides_controls() -> None:
    line = {"timestamp": "2026-01-02T03:04:05Z", "level": "error", "event": "x\x1b[2J", "a": "\n"}
    text = logs._line(None, "", line)
    assert text.startswith("03:04:05 error x") and "\x1b" not in text and "\n" not in text
