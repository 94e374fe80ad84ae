"""What was hidden at import is nowhere in the data folder, and reading again stays equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.acts import Nothing
from core.errors import InvalidInput
from core.limits import MIB
from ingest import native
from ingest.base import Report
from ingest.demo import DATA
from ingest.logs import marks_of
from ingest.pipeline import import_path
from ingest.redact import Rules
from ingest.redact_own import FILE
from store.open import Opened
from store.ports import ActCommand
from tests.ingest.log_format import SayLog
from tests.ingest.support import (
    TENANT,
    document,
    dumped,
    everything,
    give,
    log_of,
    of_type,
    take,
    typed,
)

KEY = "sk-" + "ant-api03-" + "Canary7" * 6
TOKEN = "gh" + "p_" + "Canary7b" * 5
CANARIES = (b"Canary7Canary7", b"Canary7bCanary7b")


def folder_of(opened: Opened) -> Path:
    return Path(opened.data)


def leaks(opened: Opened) -> list[str]:
    """Files of the data folder that hold a canary."""
    found = []
    for path in folder_of(opened).rglob("*"):
        if path.is_file() and path.name != FILE:
            data = path.read_bytes()
            if any(canary in data for canary in CANARIES):
                found.append(path.name)
    return found


def run_with(secret: str, *, more: str | None = None) -> bytes:
    """A mini-swe-agent run whose task, a call and its settings hold a secret."""
    value = document(NAME)
    value["messages"][1]["content"] += f"\nUse ANTHROPIC_API_KEY={secret} for it."
    value["info"]["config"]["model"].setdefault("model_kwargs", {})["api_key"] = secret
    if more is not None:
        value["messages"].append({"role": "user", "content": f"and {more} too"})
    return dumped(value)


NAME = min(path.name.removesuffix(".traj.json") for path in DATA.glob("*.traj.json"))


def lines_of(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def own_rules(opened: Opened, text: str) -> None:
    (folder_of(opened) / FILE).write_text(text)


def source_rows(opened: Opened) -> list[list[str]]:
    return [marks_of(row) for row, _ in opened.store.sources(TENANT)]


def test_a_secret_of_a_document_is_nowhere_in_the_data_folder(
    opened: Opened, tmp_path: Path
) -> None:
    report = take(opened, written(tmp_path / "a.traj.json", run_with(KEY)))
    assert report.outcome == "imported", report.refused
    assert report.redacted.places["anthropic-key"] >= 2
    assert leaks(opened) == []
    assert report.document()["redacted"]["rules"] == Rules().mark
    assert source_rows(opened) == [[Rules().mark]]


def test_a_secret_of_a_log_is_nowhere_in_the_data_folder(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    data = lines_of(
        {"say": f"the key is {KEY}\nand so on"},
        {"do": "sh", "id": "c1", "with": {"command": f"curl -H 'Authorization: Bearer {TOKEN}'"}},
        {"done": "c1", "out": json.dumps({"env": {"GITHUB_TOKEN": TOKEN}})},
    )
    path = written(tmp_path / "a.say.jsonl", data + b"{broken " + KEY.encode() + b"\n")
    report = take(opened, path)
    assert report.outcome == "imported"
    assert dict(report.redacted.places) == {"anthropic-key": 2, "github-token": 2}
    assert leaks(opened) == []
    assert KEY not in json.dumps(report.document())


def test_a_secret_that_escapes_spell_is_nowhere_in_the_data_folder(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    spelled = KEY.replace("s", r"\u0073", 1)
    inner = json.dumps({"env": TOKEN}).replace("g", r"\u0067", 1)
    data = b'{"say":"key %s"}\n' % spelled.encode() + lines_of({"say": inner})
    report = take(opened, written(tmp_path / "a.say.jsonl", data))
    assert dict(report.redacted.places) == {"anthropic-key": 1, "github-token": 1}
    assert leaks(opened) == []
    for said in of_type(opened, report.trajectories[0].id, "RuntimeInput"):
        assert "Canary" not in said.text
        assert "[redacted:" in said.text
    assert take(opened, tmp_path / "a.say.jsonl").outcome == "unchanged"


def test_offsets_of_events_stay_true(opened: Opened, say: SayLog, tmp_path: Path) -> None:
    data = lines_of({"say": KEY}, {"say": "é " + TOKEN}, {"say": "last"})
    report = take(opened, written(tmp_path / "a.say.jsonl", data))
    said = [one for one in log_of(opened, report.trajectories[0].id) if one.type == "RuntimeInput"]
    for event, line in zip(said, data.splitlines(), strict=True):
        (ref,) = event.refs
        assert ref.start is not None
        assert ref.end is not None
        kept = opened.blobs.read_range(TENANT, ref.digest, ref.start, ref.end)
        assert len(kept) == len(line)
        assert data[ref.start : ref.end] == line
        assert json.loads(kept)["say"] == typed(opened, event).text


def test_the_same_file_again_changes_nothing(opened: Opened, say: SayLog, tmp_path: Path) -> None:
    document_ = written(tmp_path / "a.traj.json", run_with(KEY))
    log = written(tmp_path / "a.say.jsonl", lines_of({"say": KEY}, {"say": "b"}))
    for path in (document_, log):
        assert take(opened, path).outcome == "imported"
    before = everything(opened)
    for path in (document_, log):
        assert take(opened, path).outcome == "unchanged"
    assert give(opened, document_.read_bytes(), "other.traj.json").outcome == "unchanged"
    assert everything(opened) == before


def test_a_secret_that_a_segment_boundary_would_split_is_hidden_whole(
    opened: Opened, say: SayLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 4 * MIB
    # The first line ends just before the bound of a segment; the secret lies across it.
    first = {"say": "x" * (limit - 40)}
    data = lines_of(first, {"say": f"key {KEY}"}, {"say": f"{TOKEN} and more"})
    assert data.index(KEY.encode()) < limit + 40 < data.index(KEY.encode()) + len(KEY) + 40
    report = take(opened, written(tmp_path / "a.say.jsonl", data))
    assert report.outcome == "imported"
    (row,) = source_rows(opened)
    assert len(row) > 1
    assert leaks(opened) == []
    assert sum(report.redacted.places.values()) == 2


def test_a_growing_file_hides_what_comes_in_two_halves(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    whole = lines_of({"say": "a"}, {"say": f"key {KEY} end"})
    cut = whole.index(KEY.encode()) + 20
    path = written(tmp_path / "a.say.jsonl", whole[:cut])
    assert take(opened, path).outcome == "imported"
    assert leaks(opened) == []
    path.write_bytes(whole)
    assert take(opened, path).outcome == "appended"
    assert leaks(opened) == []


def older(monkeypatch: pytest.MonkeyPatch, newest: int) -> None:
    """Read as a version did whose newest rule had this number."""
    monkeypatch.setattr("ingest.pipeline.Rules", lambda builtin=newest, own=(): Rules(builtin, own))


def grown(report: Report) -> tuple[str, int]:
    return report.outcome, report.trajectories[0].appended


def test_rules_added_later_make_no_conflict_in_a_log(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    first = [{"say": f"key {KEY}"}, {"say": f"token {TOKEN}"}]
    path = written(tmp_path / "a.say.jsonl", lines_of(*first))
    with pytest.MonkeyPatch.context() as patch:
        older(patch, 1)
        assert take(opened, path).outcome == "imported"
    assert take(opened, path).outcome == "unchanged"
    path.write_bytes(lines_of(*first, {"say": f"again {TOKEN}"}))
    assert grown(take(opened, path)) == ("appended", 1)
    texts = [one.text for one in of_type(opened, first_id(opened), "RuntimeInput")]
    assert TOKEN in texts[1]
    assert "[redacted:github-token]" in texts[2]
    assert source_rows(opened) == [["1", Rules().mark]]
    path.write_bytes(lines_of(first[0], {"say": f"TOKEN {TOKEN}"}))
    assert take(opened, path).outcome == "conflict"


def first_id(opened: Opened) -> str:
    return opened.store.heads(TENANT)[0].trajectory_id


def test_rules_added_later_make_no_conflict_in_a_document(opened: Opened, tmp_path: Path) -> None:
    path = written(tmp_path / "a.traj.json", run_with(TOKEN))
    with pytest.MonkeyPatch.context() as patch:
        older(patch, 1)
        assert take(opened, path).outcome == "imported"
    assert leaks(opened) != []
    before = everything(opened)
    assert take(opened, path).outcome == "unchanged"
    assert everything(opened) == before
    path.write_bytes(run_with(TOKEN, more=KEY))
    assert take(opened, path).outcome == "appended"
    assert not any(
        CANARIES[0] in part.read_bytes() for part in folder_of(opened).rglob("*") if part.is_file()
    )
    path.write_bytes(run_with(TOKEN).replace(b" for it", b" FOR it"))
    assert take(opened, path).outcome == "conflict"


RULE = '[[rule]]\nname = "{}"\npattern = "{}"\n'


def test_own_rules_may_come_and_go_between_readings_of_a_log(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    values: list[object] = [{"say": "EMP-123456 met CORP-77 there"}]
    path = written(tmp_path / "a.say.jsonl", lines_of(*values))
    own_rules(opened, RULE.format("staff", "EMP-[0-9]{6}"))
    report = take(opened, path)
    assert dict(report.redacted.places) == {"staff": 1}
    for number, text in enumerate((RULE.format("corp", "CORP-[0-9]{2}"), ""), 1):
        own_rules(opened, text)
        assert take(opened, path).outcome == "unchanged"
        values.append({"say": f"CORP-77 again {number}"})
        path.write_bytes(lines_of(*values))
        assert grown(take(opened, path)) == ("appended", 1)
    texts = [one.text for one in of_type(opened, first_id(opened), "RuntimeInput")]
    assert texts == ["[redacted: met CORP-77 there", "[redact again 1", "CORP-77 again 2"]


def test_an_own_rule_added_later_makes_no_conflict_in_a_document(
    opened: Opened, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.traj.json", run_with("EMP-123456"))
    assert take(opened, path).outcome == "imported"
    own_rules(opened, RULE.format("staff", "EMP-[0-9]{6}"))
    assert take(opened, path).outcome == "unchanged"
    path.write_bytes(run_with("EMP-123456", more="EMP-654321"))
    assert take(opened, path).outcome == "appended"
    own_rules(opened, "")
    report = take(opened, path)
    assert report.outcome == "conflict"
    assert "put it back" in report.refused[0].why


def test_nothing_is_imported_while_the_own_rules_cannot_be_read(
    opened: Opened, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.traj.json", run_with(KEY))
    own_rules(opened, "[[rule]")
    with pytest.raises(InvalidInput, match=r"redaction\.toml"):
        take(opened, path)
    assert everything(opened) == []


def test_no_redaction_is_asked_for_and_recorded(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.say.jsonl", lines_of({"say": KEY}))
    report = take(opened, path, hide=False)
    assert report.document()["redacted"] == {"rules": "0", "places": {}, "bytes": 0}
    assert source_rows(opened) == [["0"]]
    assert leaks(opened) != []
    assert take(opened, path).outcome == "unchanged"
    path.write_bytes(lines_of({"say": KEY}, {"say": TOKEN}))
    assert take(opened, path).outcome == "appended"
    assert source_rows(opened) == [["0", Rules().mark]]


def test_our_own_export_comes_in_under_its_own_digests(
    opened: Opened, other: Opened, say: SayLog, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.say.jsonl", lines_of({"say": KEY}))
    take(opened, path, hide=False)
    with (tmp_path / "x.jsonl").open("wb") as out:
        native.export(opened.store, opened.blobs, TENANT, first_id(opened), out)
    report = take(other, tmp_path / "x.jsonl")
    assert report.outcome == "imported"
    assert report.document()["redacted"]["rules"] == ""
    assert everything(other) == everything(opened)


def test_the_bytes_around_a_refusal_are_hidden_too(opened: Opened) -> None:
    report = give(opened, f"{KEY} is no trajectory\n".encode(), "x.json")
    assert report.outcome == "refused"
    assert "Canary7" not in json.dumps(report.document())


def test_import_path_takes_the_folder_of_the_store_for_its_rules(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    own_rules(opened, RULE.format("staff", "EMP-[0-9]{6}"))
    path = written(tmp_path / "a.say.jsonl", lines_of({"say": "EMP-123456"}))
    (report,) = import_path(opened.store, opened.blobs, TENANT, path)
    assert dict(report.redacted.places) == {"staff": 1}


def test_a_withdrawn_import_that_is_read_again_says_so(
    opened: Opened, say: SayLog, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.say.jsonl", lines_of({"say": "a"}))
    name = take(opened, path).trajectories[0].id
    opened.store.act(
        ActCommand(
            tenant=TENANT,
            kind="withdraw",
            body=Nothing(),
            actor="somebody",
            request_id="w1",
            request_digest=b"x" * 32,
            trajectory_id=name,
            reason="the wrong run",
        )
    ).result()
    (note,) = take(opened, path).findings.notes
    assert "withdrawn (the wrong run)" in note and f"reinstate {name}" in note
