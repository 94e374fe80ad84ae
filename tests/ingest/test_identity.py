"""One session is one source, whatever its file is called and whichever name came first."""

from __future__ import annotations

import io
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ingest.base import Report
from ingest.claude_code import ClaudeCode
from ingest.codex import Codex
from ingest.demo import DATA
from ingest.logs import Runs
from ingest.pipeline import import_stream
from store.open import Opened
from tests.ingest.log_format import SayLog
from tests.ingest.support import TENANT, everything, log_of, of_type, take
from tests.ingest.test_follow import Scene
from tests.ingest.test_logs import encoded, findings, grow

pytestmark = pytest.mark.usefixtures("say")

BEGUN = [{"session": "7f", "say": "one"}, {"do": "ls", "id": "c1"}, {"done": "c1", "out": "a"}]
WHOLE = [*BEGUN, {"say": "two", "agent": "scout"}, {"say": "three"}]


def written(folder: Path, name: str, lines: list[Any]) -> Path:
    path = folder / name
    path.write_bytes(encoded(lines))
    return path


def sent(opened: Opened, name: str, lines: list[Any]) -> Report:
    return import_stream(opened.store, opened.blobs, TENANT, name, io.BytesIO(encoded(lines)))


def own(opened: Opened) -> list[str]:
    """The trajectories of sources themselves, without sub-agents."""
    return [source.trajectory_id for source, _ in opened.store.sources(TENANT)]


WAYS = ("named", "copy", "part", "upload")


@pytest.mark.parametrize("order", list(itertools.permutations(WAYS, 3)))
def test_a_session_under_any_names_in_any_order_is_one(
    opened: Opened, tmp_path: Path, order: tuple[str, ...]
) -> None:
    reports = []
    for way in order:
        if way == "upload":
            reports.append(sent(opened, "sent.say.jsonl", WHOLE))
            continue
        name = {"named": "session-7f.say.jsonl"}.get(way, f"{way}.say.jsonl")
        lines = BEGUN if way == "part" else WHOLE
        reports.append(take(opened, written(tmp_path, name, lines)))
    assert all(report.ok for report in reports)
    (name,) = own(opened)
    assert {report.trajectories[0].id for report in reports} == {name}
    assert [one.text for one in of_type(opened, name, "RuntimeInput")] == ["one", "three"]
    assert len(everything(opened)) == 2  # and the sub-agent's
    assert findings(opened) == []
    # All of it once more: nothing is new.
    before = everything(opened)
    for file in tmp_path.glob("*.say.jsonl"):
        assert take(opened, file).outcome == "unchanged"
    assert everything(opened) == before


@pytest.mark.parametrize("first", ["copy.say.jsonl", "session-7f.say.jsonl"])
def test_two_that_differ_stay_two_and_each_names_the_other(
    opened: Opened, tmp_path: Path, first: str
) -> None:
    (second,) = {"copy.say.jsonl", "session-7f.say.jsonl"} - {first}
    one = take(opened, written(tmp_path, first, [*BEGUN, {"say": "here"}]))
    two = take(opened, written(tmp_path, second, [*BEGUN, {"say": "there"}]))
    assert (one.outcome, two.outcome) == ("imported", "imported")
    assert one.findings.notes == []
    said = "it states the session of {}, which was imported from {}"
    assert two.findings.notes == [said.format(one.trajectories[0].id, tmp_path / first)]
    assert len(own(opened)) == 2
    again = take(opened, tmp_path / first)
    assert again.outcome == "unchanged"
    assert again.findings.notes == [said.format(two.trajectories[0].id, tmp_path / second)]


def test_a_name_outranks_what_the_first_lines_state(opened: Opened, tmp_path: Path) -> None:
    one = take(opened, written(tmp_path, "session-7f.say.jsonl", BEGUN))
    # Another session that began with a copy of the first, and was looked at too early.
    other = written(tmp_path, "session-9a.say.jsonl", BEGUN)
    two = take(opened, other)
    other.write_bytes(encoded([*BEGUN, {"say": "its own"}]))
    grown = take(opened, other)
    assert two.trajectories[0].id == grown.trajectories[0].id != one.trajectories[0].id
    assert grown.findings.notes == []
    assert take(opened, tmp_path / "session-7f.say.jsonl").outcome == "unchanged"


def test_a_name_that_is_given_is_another_source_unless_the_bytes_are_the_same(
    opened: Opened, tmp_path: Path
) -> None:
    named = written(tmp_path, "session-7f.say.jsonl", BEGUN)
    take(opened, named)
    assert take(opened, named, as_name="mine").outcome == "unchanged"
    written(tmp_path, named.name, WHOLE)
    mine = take(opened, named, as_name="mine")
    assert (mine.outcome, mine.source) == ("imported", "mine")
    assert "states the session of" in mine.findings.notes[0]
    assert take(opened, named).outcome == "appended"
    assert len(own(opened)) == 2


def test_a_given_name_goes_on_where_it_came_first(opened: Opened, tmp_path: Path) -> None:
    named = written(tmp_path, "session-7f.say.jsonl", BEGUN)
    take(opened, named, as_name="mine")
    written(tmp_path, named.name, WHOLE)
    grown = take(opened, named)
    assert (grown.outcome, grown.source) == ("appended", "mine")
    assert len(own(opened)) == 1


def test_a_known_part_under_other_rules_is_still_known(opened: Opened, tmp_path: Path) -> None:
    key = "sk-" + "ant-api03-" + "Canary7" * 6
    lines = [BEGUN[0], {"say": f"the key {key}"}]
    copy = written(tmp_path, "copy.say.jsonl", lines)
    assert take(opened, copy, hide=False).outcome == "imported"
    grown = take(opened, written(tmp_path, "session-7f.say.jsonl", [*lines, {"say": "more"}]))
    assert grown.outcome == "appended"
    assert len(own(opened)) == 1


def test_what_an_older_importer_knew_under_another_name_is_derived_first(
    opened: Opened, tmp_path: Path, say: SayLog
) -> None:
    take(opened, written(tmp_path, "copy.say.jsonl", BEGUN))
    say.version = 2
    grown = take(opened, written(tmp_path, "session-7f.say.jsonl", WHOLE))
    assert grown.outcome == "appended"
    rows = [source for source, _ in opened.store.sources(TENANT)]
    assert sorted(row.version for row in rows) == [1, 2]
    (old,) = [row.trajectory_id for row in rows if row.version == 1]
    assert [act.kind for act in opened.store.acts(TENANT, trajectory_id=old)] == ["supersede"]


def test_followed_files_of_one_session_are_one_source(opened: Opened, tmp_path: Path) -> None:
    scene = Scene(opened, tmp_path / "w")
    folder = scene.folder
    written(folder, "copy.say.jsonl", BEGUN)
    scene.round()
    named = written(folder, "session-7f.say.jsonl", BEGUN[:1])
    scene.round()
    named.write_bytes(encoded(WHOLE))
    scene.round()
    scene.round(30)
    with named.open("ab") as file:
        file.write(encoded([{"say": "four"}]))
    scene.round()
    (name,) = own(opened)
    assert [one.text for one in of_type(opened, name, "RuntimeInput")] == ["one", "three", "four"]
    # A new run under the old name is a source of its own.
    named.unlink()
    written(folder, named.name, [{"session": "7f", "say": "anew"}])
    scene.round()
    scene.round(30)
    scene.follower.close()
    assert len(own(opened)) == 2


def test_two_runs_of_a_follower_read_on_where_the_other_name_stands(
    opened: Opened, tmp_path: Path
) -> None:
    runs = Runs()
    grow(opened, written(tmp_path, "copy.say.jsonl", BEGUN), runs)
    named = written(tmp_path, "session-7f.say.jsonl", WHOLE[:4])
    assert grow(opened, named, runs).outcome == "appended"
    named.write_bytes(encoded(WHOLE))
    assert grow(opened, named, runs).outcome == "appended"
    assert grow(opened, tmp_path / "copy.say.jsonl", runs).outcome == "unchanged"
    (name,) = own(opened)
    assert [event.sequence_number for event in log_of(opened, name)] == list(range(1, 6))


CLAUDE = DATA / "2c1d9f50-7a44-4f0e-9b1b-5d0c7e3a1f10.jsonl"
CODEX = next(iter(sorted(DATA.glob("rollout-*.jsonl"))))


@pytest.mark.parametrize("sample", [CLAUDE, CODEX], ids=["claude", "codex"])
@pytest.mark.parametrize("part", [False, True])
def test_a_real_format_imported_as_a_copy_first_counts_its_tokens_once(
    opened: Opened, other: Opened, tmp_path: Path, sample: Path, part: bool
) -> None:
    whole = sample.read_bytes()
    half = whole[: whole.find(b"\n", len(whole) * 2 // 3) + 1]
    copy = tmp_path / "backup.jsonl"
    copy.write_bytes(half if part else whole)
    named = tmp_path / sample.name
    shutil.copy(sample, named)
    first, second = take(opened, copy), take(opened, named)
    assert second.outcome == ("appended" if part else "unchanged"), second.refused
    assert len(own(opened)) == 1
    alone = take(other, named)
    assert second.findings.tokens == alone.findings.tokens
    assert {one.id for one in first.trajectories} <= {one.id for one in second.trajectories}
    assert len(everything(opened)) == len(everything(other))


def test_formats_say_which_session_their_bytes_state() -> None:
    claude, codex = ClaudeCode(), Codex()
    a, b = "11111111-2222-4333-8444-55555555555A", "22222222-2222-4333-8444-555555555555"

    def line(**fields: Any) -> bytes:
        return json.dumps(fields).encode() + b"\n"

    one = line(type="summary", leafUuid="x") + line(sessionId=a, type="user")
    assert claude.stated_id(one, one) == f"session:{a.lower()}"
    copied = one + line(sessionId=b, type="user")
    assert claude.stated_id(copied, copied) == f"session:{b}"
    agent = line(sessionId=b, agentId="x1") * 2
    assert claude.stated_id(agent, agent) == f"session:{b}#agent:x1"
    held = one + line(sessionId=a, agentId="x1")
    assert claude.stated_id(held, held) == f"session:{a.lower()}"
    assert claude.stated_id(b'{"cut', b'off"}\nx') is None
    head = CODEX.read_bytes()
    assert codex.stated_id(head, head) == codex.native_id(head, CODEX.name)
    bare = line(id=a, timestamp="2025-05-01T00:00:00Z", instructions="x")
    assert codex.stated_id(bare, bare) == f"session:{a.lower()}"
    assert codex.stated_id(b'{"a":1}\n', b"") is None
