"""What a command says does not depend on whether a server owns the folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ingest import demo
from tests import served
from tests.cli.here import run
from tests.served import Finished

FILES = sorted(demo.DATA.glob("*.traj.json"))[:3]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Finished, Finished]]:
    """Each read of one folder: before a server owns it, and while one does."""
    data = tmp_path_factory.mktemp("both") / "data"
    for path in FILES:
        assert run("import", "--data", data, path).code == 0
    name = run("list", "--json", "--data", data).lines[0]["trajectory_id"]
    commands = (
        ("list", "--json"),
        ("list", "--json", "--text", "no title has this"),
        ("show", name, "--json"),
        ("show", f"{name}@2"),
        ("show", f"{name}@999999"),
        ("show", "tr_none"),
        ("diff", f"{name}@1", f"{name}@4", "--json"),
        ("diff", f"{name}@1", f"{name}@999999"),
        ("verify", name, "--json"),
        ("verify", "--json"),
        ("audit", "--json"),
        ("export", name, "-o", "-"),
        ("export", "tr_none", "-o", "-"),
    )
    alone = {" ".join(command): run(*command, "--data", data) for command in commands}
    with served.serving(data) as server:
        through = {" ".join(command): run(*command, "--data", data) for command in commands}
        requests = server.log.read_text()
    assert requests.count('"path"') >= len(commands) or requests.count("GET") >= len(commands)
    return {command: (alone[command], through[command]) for command in alone}


def comparable(done: Finished) -> tuple[int, str, str]:
    """Without what a clock measured."""
    out = re.sub(r'"elapsed_us": ?\d+|"folded": ?\d+|"snapshot_boundary": ?\d+', "", done.out)
    return done.code, out, done.err


def test_every_read_says_the_same_with_and_without_a_server(
    answers: dict[str, tuple[Finished, Finished]],
) -> None:
    different = {
        command: (comparable(alone), comparable(through))
        for command, (alone, through) in answers.items()
        if comparable(alone) != comparable(through)
    }
    assert different == {}


def test_a_command_goes_through_the_server_that_owns_the_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served.serving(data) as server:
        assert run("import", "--data", data, FILES[0]).code == 0
        assert "/v1/imports" in server.log.read_text()
        where = run("where", "--data", data, "--json")
        assert server.url in where.out
        # The lock's credential is the server's own: another one is refused by it.
        wrong = {"STRANDLINE_TOKEN": "x" * 32}
        assert run("list", "--server", server.url, "--data", data, env=wrong).code != 0
    alone = run("list", "--json", "--data", data)
    assert len(alone.lines) == 1
    assert json.loads(alone.out.splitlines()[0])["standing"] == "imported"
