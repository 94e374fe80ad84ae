"""What the README prints is run as it is printed: its console block, against a real server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import served
from tests.require import ROOT, need
from tests.served import Serving

README = (ROOT / "README.md").read_text()
PLACE = "localhost:8000"
#: What an answer to the same request again says again.
SAME = ("sequence_numbers", "head", "chain", "owner_epoch")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    need("curl")
    with served.serving(tmp_path_factory.mktemp("readme") / "data") as running:
        yield running


def commands() -> list[str]:
    """The commands of the console block, each with its continued lines."""
    (block,) = re.findall(r"^```console\n(.*?)^```", README, re.M | re.S)
    found = [f"{text.strip()}\n" for text in re.split(r"^\$ ", block, flags=re.M) if text.strip()]
    assert len(found) == 3 and all(PLACE in text for text in found)
    return found


def sent(command: str, server: Serving, folder: Path) -> dict[str, Any]:
    """What a shell prints for a command, at the address of this server."""
    place = server.url.removeprefix("http://").replace("127.0.0.1", "localhost")
    done = subprocess.run(
        ["sh", "-c", command.replace(PLACE, place)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_console_block_works_as_it_is_printed(server: Serving, tmp_path: Path) -> None:
    create, claim, append = commands()
    assert "code" not in sent(create, server, tmp_path)
    assert sent(claim, server, tmp_path)["owner_epoch"] == 1
    stored = sent(append, server, tmp_path)
    assert stored["duplicate"] is False
    # "Send the last one again: it is the same event, and the answer says `duplicate`."
    again = sent(append, server, tmp_path)
    assert again["duplicate"] is True
    assert [again[name] for name in SAME] == [stored[name] for name in SAME]
    # "Claim as another worker, and `w1` is fenced."
    other = claim.replace('"r2"', '"r4"').replace('"w1"', '"w2"')
    assert sent(other, server, tmp_path)["owner_epoch"] == 2
    late = append.replace('"r3"', '"r5"').replace('"e1"', '"e2"')
    assert sent(late, server, tmp_path)["code"] == "fenced"
    head = sent(f"curl -s {PLACE}/v1/trajectories/t-1", server, tmp_path)
    assert head["head"] == stored["head"] + 1, "only the second grant came after it"


def test_the_programs_it_names_are_where_it_says() -> None:
    named = set(re.findall(r"^(\S*strandline) ", "\n".join(_shell_lines()), re.M))
    assert named == {".venv/bin/strandline"}


def _shell_lines() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]
