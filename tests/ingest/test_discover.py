"""Discovery finds what tools keep in a home folder, and takes none of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import discovering
from app.cli import app
from ingest.discover import NOT_STATED, TOOLS, Found, discover
from ingest.registry import IMPORTERS, LOG_IMPORTERS

SESSION = "11111111-2222-4333-8444-555555555555"
NO_VARIABLES = {tool.variable: "" for tool in TOOLS}
OTHER = "99999999-2222-4333-8444-555555555555"
CODEX = f"rollout-2026-11-20T09-00-00-{SESSION}.jsonl"


def claude_line(cwd: str | None, text: str = "hello") -> bytes:
    line = {
        "type": "user",
        "sessionId": SESSION,
        "uuid": OTHER,
        "parentUuid": None,
        "timestamp": "2026-11-20T09:00:00.000Z",
        "message": {"role": "user", "content": text},
    }
    return json.dumps(line | ({"cwd": cwd} if cwd else {})).encode() + b"\n"


def codex_lines(cwd: str) -> bytes:
    meta = {"id": SESSION, "timestamp": "2026-11-20T09:00:00.000Z", "cwd": cwd}
    more = {"originator": "codex_cli_rs", "cli_version": "0.170.0"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    lines = (("session_meta", meta | more), ("response_item", said))
    at = {"timestamp": "2026-11-20T09:00:00.000Z"}
    return b"".join(
        json.dumps(at | {"type": kind, "payload": payload}).encode() + b"\n"
        for kind, payload in lines
    )


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    base = tmp_path / "home"
    put(base / f".claude/projects/-src-a/{SESSION}.jsonl", claude_line("/src/a"))
    put(
        base / f".claude/projects/-src-a/{SESSION}/subagents/agent-1a2b.jsonl",
        claude_line("/src/a", "sub"),
    )
    put(base / f".claude/projects/-src-b/{OTHER}.jsonl", claude_line("/src/\u001b[31mb"))
    put(base / ".claude/projects/-src-b/notes.jsonl", b"{}\n")
    put(base / ".claude/settings.json", b'{"a":1}')
    put(base / f".codex/sessions/2026/11/20/{CODEX}", codex_lines("/src/a"))
    return base


def found_in(home: Path, **environment: str) -> Found:
    return discover(home, environment)


def test_sessions_are_found_by_tool_and_project(home: Path) -> None:
    found = found_in(home)
    assert [(one.importer, one.name, len(one.paths)) for one in found.projects] == sorted(
        [
            ("claude-code", "/src/a", 2),
            ("claude-code", "/src/\\x1b[31mb", 1),
            ("codex", "/src/a", 1),
        ],
        key=lambda row: (row[0], [one.name for one in found.projects].index(row[1])),
    )
    assert found.sessions == 4
    assert found.bytes == sum(
        path.stat().st_size for path in home.rglob("*.jsonl") if path.name != "notes.jsonl"
    )
    assert found.left == []


def test_the_newest_project_of_a_tool_stands_first(home: Path) -> None:
    for at, slug in ((1_000, "-src-b"), (2_000, "-src-a")):
        for path in (home / ".claude/projects" / slug).rglob("*.jsonl"):
            os.utime(path, (at, at))
    found = found_in(home)
    assert found.projects[0].name == "/src/a"
    assert found.projects[0].newest_at == 2_000_000_000


def test_what_would_not_be_taken_is_said(home: Path, tmp_path: Path) -> None:
    folder = home / ".claude/projects/-src-c"
    put(folder / f"{SESSION}.jsonl", b"")
    put(folder / f"{OTHER}.jsonl", b"no session at all\n")
    outside = put(tmp_path / "outside.jsonl", claude_line("/src/z"))
    (folder / "agent-link.jsonl").symlink_to(outside)
    os.mkfifo(folder / "agent-pipe.jsonl")
    why = {one.name.rpartition("/")[2]: one.why for one in found_in(home).left}
    assert why[f"{SESSION}.jsonl"] == "it is empty"
    assert "not those of a session of Claude Code" in why[f"{OTHER}.jsonl"]
    assert "symbolic link" in why["agent-link.jsonl"]
    assert "named pipe" in why["agent-pipe.jsonl"]


def test_a_project_that_is_not_stated_is_not_guessed(home: Path) -> None:
    data = codex_lines("/src/a").replace(b'"cwd": "/src/a"', b'"dir": "/src/a"')
    put(home / f".codex/sessions/2026/11/20/{CODEX}", data)
    assert [one.name for one in found_in(home).projects if one.importer == "codex"] == [NOT_STATED]


def test_variables_move_a_tools_folder(home: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (home / ".claude").rename(moved)
    assert not any(one.importer == "claude-code" for one in found_in(home).projects)
    found = found_in(home, CLAUDE_CONFIG_DIR=str(moved))
    assert sum(len(one.paths) for one in found.projects if one.importer == "claude-code") == 3


def test_an_empty_home_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = found_in(tmp_path)
    assert found.sessions == 0
    discovering.show(found)
    said = capsys.readouterr().out
    assert "No sessions were found" in said
    for place in found.places:
        assert f"{place.path} (not there)" in said


def test_every_tool_has_its_importer() -> None:
    known = {one.name for one in (*IMPORTERS, *LOG_IMPORTERS)}
    assert {tool.importer for tool in TOOLS} <= known


def run(*arguments: str, home: Path, answer: str = "") -> str:
    result = CliRunner().invoke(
        app, list(arguments), input=answer, env=NO_VARIABLES | {"HOME": str(home)}
    )
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_takes_nothing_unasked(home: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    said = run("import", "--discover", "--data", data, home=home)
    assert "Nothing was imported" in said
    assert not (tmp_path / "data").exists()
    lines = run("import", "--discover", "--json", "--data", data, home=home).splitlines()
    assert sum(json.loads(line)["sessions"] for line in lines) == 4
    assert not (tmp_path / "data").exists()


def test_the_command_takes_all_when_told(home: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    said = run("import", "--discover", "--yes", "--data", data, home=home)
    assert said.count(": imported") == 4
    again = run("import", "--discover", "--yes", "--data", data, home=home)
    assert again.count(": unchanged") == 4


def test_another_home_may_be_named(home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    said = run("import", "--discover", "--json", str(home), home=empty)
    assert sum(json.loads(line)["sessions"] for line in said.splitlines()) == 4
