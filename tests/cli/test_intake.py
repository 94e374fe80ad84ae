"""What `import` hides, keeps and derives again, with a server and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.presenters import reports
from ingest.base import Report
from ingest.redact_own import FILE
from tests import served
from tests.cli.here import run

SECRET = "sk-" + "ant-api03-" + "Canary7" * 6
CANARY = b"Canary7Canary7"
LINE = (
    '{"type":"user","sessionId":"11111111-2222-4333-8444-555555555555","uuid":'
    '"99999999-2222-4333-8444-555555555555","parentUuid":null,"timestamp":'
    f'"2026-11-20T09:00:00.000Z","message":{{"role":"user",'
    f'"content":"use {SECRET} EMP-123456"}}}}\n'
)


@contextmanager
def _opened(data: Path, through: bool) -> Iterator[None]:
    if not through:
        yield
        return
    with served.serving(data):
        yield


def leaks(data: Path) -> list[str]:
    return [path.name for path in data.rglob("*") if path.is_file() and CANARY in path.read_bytes()]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    path.write_text(LINE)
    return path


@pytest.mark.parametrize("through", [False, True])
def test_a_secret_is_nowhere_unless_it_is_asked_for(
    tmp_path: Path, session: Path, through: bool
) -> None:
    data = tmp_path / "data"
    with _opened(data, through):
        done = run("import", "--data", data, session)
        assert done.code == 0 and "redacted: 1 secret (anthropic-key 1)" in done.out
        assert leaks(data) == []
        done = run("import", "--data", data, session, "--no-redact", "--as", "plain")
        assert "redacted: nothing was looked for, as you asked" in done.out
        assert leaks(data) != []
        done = run("import", "--data", data, "--rederive")
        assert done.code == 0 and "Nothing is outdated" in done.out


@pytest.mark.parametrize("through", [False, True])
def test_an_unfinished_last_line_is_said_by_every_report(
    tmp_path: Path, session: Path, through: bool
) -> None:
    data, whole = tmp_path / "data", session.read_bytes()
    session.write_bytes(whole.rstrip(b"\n") + b'\n{"type":"user","uu')
    with _opened(data, through):
        done = run("import", "--data", data, session)
        assert "waiting: its last line is not finished: 18 bytes wait for its end" in done.out
        done = run("import", "--data", data, session, "--json")
        assert done.lines[0]["waiting"] == {"lines": 1, "bytes": 18}
        session.write_bytes(whole)
        done = run("import", "--data", data, session, "--json")
        assert "waiting" not in done.lines[0]
    document = {**Report(path="x").document(), "waiting": {"lines": 3, "bytes": 18}}
    shown = reports.done(1, "x", 100, document).notes
    assert shown == (
        "its last line is not finished: 18 bytes wait for its end and are read when the file is "
        "imported again; 2 lines of a reply in parts wait for its end",
    )


@pytest.mark.parametrize("through", [False, True])
def test_a_wrong_file_of_rules_stops_an_import_with_what_to_mend(
    tmp_path: Path, session: Path, through: bool
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / FILE).write_text('[[rule]]\nname = "a"\npattern = "x+"\n')
    with _opened(data, through):
        done = run("import", "--data", data, session)
        assert done.code == 2
        assert "rule 1 (a): '+' repeats without a bound" in done.err
        (data / FILE).write_text('[[rule]]\nname = "a"\npattern = "EMP-[0-9]{6}"\n')
        done = run("import", "--data", data, session)
        assert done.code == 0 and "a 1" in done.out
    assert run("doctor", "--data", data).out.count("1 rule of redaction.toml") == 1


def test_what_does_not_go_together_is_refused(tmp_path: Path, session: Path) -> None:
    data = tmp_path / "data"
    for more in (("--follow", "--no-redact"), ("--rederive",)):
        done = run("import", "--data", data, session, *more)
        assert done.code == 2, done.out
    assert run("import", "--data", data).code == 2
    assert not data.exists()
