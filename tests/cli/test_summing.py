"""An import ends with what became of its files, a kind of gap once; tables mark their cuts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app import console, import_report
from app.console import Column
from tests.cli.here import run

DEMO_DATA = Path(__file__).parents[2] / "ingest" / "demo_data"


def test_an_import_of_a_folder_ends_with_a_sum(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "notes.txt").write_text("no trajectory\n")
    (folder / "cut.json").write_text('{"info": {}, "messages": [')
    done = run("import", folder, tmp_path / "none", "--data", tmp_path / "data")
    last = done.out.strip().splitlines()[-1]
    assert "1 not there" in last and "skipped: not a trajectory" in last, done.out
    assert import_report.summary({"skipped": 4, "imported": 48, "refused": 1}) == (
        "48 imported, 1 refused, 4 skipped: not a trajectory"
    )


def test_gaps_of_one_kind_are_said_once_with_their_sum() -> None:
    found = import_report.merged(
        {
            ("tokens of 8 replies", "none stated"): 1,
            ("times", "no timestamps"): 3,
            ("tokens of 2 replies", "none stated"): 2,
            ("the meaning of 1 statements of usage", "not said"): 1,
        }
    )
    assert found == [
        ("tokens of 12 replies", "none stated"),
        ("times", "no timestamps"),
        ("the meaning of 1 statement of usage", "not said"),
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_cuts_only_what_stretches_and_marks_it(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    columns = (
        Column("Tool"), Column("Project", stretches=True), Column("Sessions", right=True),
        Column("Size", right=True), Column("Newest"),
    )  # fmt: skip
    console.table(columns, [("Claude Code", "/home/someone/" + "x" * 100, "1", "1.16 MB", "now")])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    for word in ("Tool", "Project", "Sessions", "Size", "Newest", "Claude Code", "1.16 MB", "now"):
        assert word in shown
    assert "…" in shown and max(map(len, shown.splitlines())) <= width


def test_a_list_without_matches_says_what_there_is(tmp_path: Path) -> None:
    demo = tmp_path / "log.json"
    demo.write_bytes((DEMO_DATA / "repair-slugify.traj.json").read_bytes())
    assert run("import", demo, "--data", tmp_path / "data").code == 0
    found = run("list", "-q", "source:mini_swe_agant", "--data", tmp_path / "data")
    assert "no source is “mini_swe_agant”; did you mean mini-swe-agent" in found.err
    other = run("list", "-q", "model:zzz", "--data", tmp_path / "data")
    assert "no model is “zzz”; there are " in other.err
