"""note, tag, withdraw, reinstate, tree and prices, with and without a server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest import demo
from tests import served
from tests.cli.here import run

FILES = sorted(demo.DATA.glob("*.traj.json"))[:2]


@pytest.fixture(params=["alone", "served"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    assert run("import", "--data", folder, *FILES).code == 0
    if request.param == "alone":
        yield folder
    else:
        with served.serving(folder):
            yield folder


def names(data: Path) -> list[str]:
    return [row["trajectory_id"] for row in run("list", "--json", "--data", data).lines]


def test_notes_and_tags_are_made_shown_and_taken_back(data: Path) -> None:
    name = names(data)[0]
    nothing = run("note", name, "--data", data)
    assert (nothing.code, nothing.out, nothing.err.strip()) == (0, "", "nobody noted anything")
    made = run("note", f"{name}@2", "look \x1b[31mhere", "--data", data)
    assert made.out == f"{name}: noted (act 1)\n"
    assert run("note", name, "and at the whole", "--data", data).code == 0
    assert run("tag", name, "flaky", "team/a", "--data", data).out.count("tagged") == 2
    assert run("tag", name, "flaky", "--remove", "--data", data).code == 0
    shown = run("note", name, "--data", data).out
    assert "tags: team/a\n" in shown
    assert "1  @2 command-line 20" in shown
    assert "\x1b" not in shown
    assert run("note", name, "--retract", "1", "--data", data).code == 0
    shown = run("note", name, "--data", data).out
    assert "look" not in shown
    assert "and at the whole" in shown
    (found,) = run("note", name, "--json", "--data", data).lines
    assert found["now"]["last_act"] == 6
    assert len(found["acts"]) == 6


def test_a_withdrawn_trajectory_leaves_the_list_until_it_is_reinstated(data: Path) -> None:
    name, other = names(data)
    assert run("withdraw", name, "--data", data).code == 2
    gone = run("withdraw", name, "--reason", "by mistake", "--json", "--data", data)
    assert (gone.lines[0]["kind"], gone.lines[0]["reason"]) == ("withdraw", "by mistake")
    _until(data, [other])
    assert run("show", name, "--data", data).code == 0
    assert "withdrawn, command-line" in run("note", name, "--data", data).out
    assert run("reinstate", name, "-r", "it was right", "--data", data).code == 0
    _until(data, sorted((name, other)))
    assert run("audit", "--data", data).code == 0


def _until(data: Path, wanted: list[str]) -> None:
    """The list follows the acts, at a server by a moment."""
    for _ in range(100):
        if sorted(names(data)) == wanted:
            return
    raise AssertionError(names(data))


def test_refusals_end_as_for_every_command(data: Path) -> None:
    name = names(data)[0]
    for arguments, code in (
        (("note", "tr_none", "x"), 4),
        (("note", f"{name}@999999", "x"), 4),
        (("note", name, "--retract", "7"), 4),
        (("note", name, "x", "--retract", "7"), 2),
        (("note", name, "x" * 4001), 2),
        (("tag", name, "Not A Tag"), 2),
        (("tag", "../x", "x"), 2),
        (("withdraw", name, "--reason", " "), 2),
        (("tree", "tr_none"), 4),
        (("prices", "--set", "m", "--input", "3"), 2),
        (("prices", "--set", "m", "--since", "x", "--input", "3", "--output", "1"), 2),
        (("prices", "--set", "m", "--since", "2026-01-01", "--input", "3", "--output", "y"), 2),
        (("prices", "--retract", "3"), 4),
    ):
        done = run(*arguments, "--data", data)
        assert done.code == code, (arguments, done)
        assert done.out == ""
    (found,) = run("note", name, "--json", "--data", data).lines
    assert found["acts"] == []


def test_a_tree_of_one_and_the_prices(data: Path) -> None:
    name = names(data)[0]
    tree = run("tree", name, "--data", data).out.splitlines()
    assert tree[0].startswith("TRAJECTORY\t")
    assert tree[1].startswith(f"* {name}\t")
    (found,) = run("tree", name, "--json", "--data", data).lines
    assert found["left_out"] == []
    assert [node["trajectory_id"] for node in found["nodes"]] == [name]
    stated = run(
        "prices", "--set", "scripted/*", "--since", "2020-01-01", "--input", "3",
        "--output", "15.5", "--cache-read", "0.3", "--source", "ours", "--data", data,
    )  # fmt: skip
    assert stated.out == "priced (act 1)\n"
    table = run("prices", "--data", data)
    assert "scripted/*\t2020-01-01\t3\t15.5\t0.3\t3\tact 1\tours" in table.out
    assert "check before relying on them" in table.err
    assert run("prices", "--retract", "1", "--data", data).code == 0
    (found,) = run("prices", "--json", "--data", data).lines
    assert all(row["act"] is None for row in found["prices"])


def test_a_tree_says_what_it_leaves_out(data: Path) -> None:
    name = names(data)[0]
    run("withdraw", name, "--reason", "a mistake", "--data", data)
    gone = run("tree", name, "--data", data)
    until = time.monotonic() + 10
    while "[withdrawn] " not in gone.out and time.monotonic() < until:
        gone = run("tree", name, "--data", data)  # A server makes summaries behind the answer.
    assert "[withdrawn] " in gone.out and "1 of them, withdrawn or superseded" in gone.err
    (found,) = run("tree", name, "--json", "--data", data).lines
    assert found["left_out"] == [name]
