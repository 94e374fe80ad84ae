"""A defect of an importer costs the source that meets it: no folder, no follower, no watch."""

from __future__ import annotations

import io
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from core import limits
from core.errors import StoreStopped
from ingest import lines, registry
from ingest.mini_swe_agent import MiniSweAgent
from ingest.pipeline import import_path, import_stream
from store.open import Opened
from tests.ingest.log_format import SayLog, SayRun
from tests.ingest.support import TENANT, everything, fixture, take
from tests.ingest.test_follow import Scene
from tests.web.api_world import serving

BOOM = "boom"


@pytest.fixture(autouse=True)
def broken(monkeypatch: pytest.MonkeyPatch, say: None) -> None:
    """An importer that cannot bear a line that says boom."""
    made = SayRun._payloads

    def payloads(self: SayRun, line: Any, value: dict[str, Any]) -> Any:
        if value.get("say") == BOOM:
            raise TypeError("'int' object is not iterable")
        return made(self, line, value)

    monkeypatch.setattr(SayRun, "_payloads", payloads)


def said(*words: str) -> bytes:
    return b"".join(json.dumps({"say": word}).encode() + b"\n" for word in words)


def test_a_folder_goes_on_after_it(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    for name, words in (("a", ("1", "2")), ("b", ("1", "2", BOOM, "4")), ("c", ("3",))):
        (folder / f"{name}.say.jsonl").write_bytes(said(*words))
    with caplog.at_level(logging.ERROR):
        first, bad, third = import_path(opened.store, opened.blobs, TENANT, folder)
    assert (first.outcome, bad.outcome, third.outcome) == ("imported", "refused", "imported")
    assert not bad.ok
    (row,) = bad.refused
    assert row.why == (
        "the importer met something it was not made for at line 3 (TypeError); please report it"
    )
    assert (row.where, row.line, row.reason) == ("line 3", 3, "fault")
    assert bad.trajectories == []
    (logged,) = caplog.records
    assert logged.exc_info is not None and logged.exc_info[0] is TypeError
    assert "b.say.jsonl" in logged.getMessage()


def test_what_was_stored_before_it_stays_and_is_gone_on_from(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LOG_SEGMENT_LINES_MAX", 2)
    path = tmp_path / "a.say.jsonl"
    path.write_bytes(said("1", "2", "3", "4", "5", BOOM, "7"))
    report = take(opened, path)
    assert report.outcome == "refused"
    assert report.refused[0].line == 6
    assert [one.appended for one in report.trajectories] == [5]
    monkeypatch.undo()
    monkeypatch.setattr(registry, "LOG_IMPORTERS", (*registry.LOG_IMPORTERS, SayLog()))
    whole = take(opened, path)
    assert whole.outcome == "appended"
    assert whole.trajectories[0].events == 8


def test_a_document_is_refused_by_the_same_words(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_parse(*_: object) -> object:
        raise KeyError("role")

    monkeypatch.setattr(MiniSweAgent, "parse", broken_parse)
    before = everything(opened)
    data = io.BytesIO(fixture("interrupted").read_bytes())
    report = import_stream(opened.store, opened.blobs, TENANT, "x.traj.json", data)
    assert report.outcome == "refused"
    assert report.refused[0].why.endswith("was not made for (KeyError); please report it")
    assert everything(opened) == before


def test_a_store_that_stopped_is_no_fault_of_an_importer(opened: Opened, tmp_path: Path) -> None:
    def stopped(*_: int) -> None:
        raise StoreStopped("told to stop")

    path = tmp_path / "a.say.jsonl"
    path.write_bytes(said("1"))
    with pytest.raises(StoreStopped):
        list(import_path(opened.store, opened.blobs, TENANT, path, progress=stopped))


def test_a_follower_goes_on_after_it(opened: Opened, tmp_path: Path) -> None:
    scene = Scene(opened, tmp_path / "w")
    scene.write("a.say.jsonl", "1")
    scene.write("b.say.jsonl", "1", BOOM)
    told = {row["path"].rpartition("/")[2]: row["outcome"] for row in scene.round()}
    assert told == {"a.say.jsonl": "imported", "b.say.jsonl": "refused"}
    scene.write("a.say.jsonl", "2")
    (again,) = scene.round()
    assert again["outcome"] == "appended"
    assert scene.round() == []  # said once
    scene.follower.close()


def test_a_watch_and_an_upload_go_on_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "bad.say.jsonl").write_bytes(said(BOOM))
    with serving(tmp_path, watch=str(folder)) as client:
        end = time.monotonic() + 20
        while not client.get("/v1/watch").json()["problems"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        (folder / "good.say.jsonl").write_bytes(said("1"))
        while not client.get("/v1/trajectories").json()["trajectories"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        found = client.get("/v1/watch").json()
        assert found["failure"] is None
        assert "not made for at line 1 (TypeError)" in str(found["problems"])
        answer = client.post("/v1/imports", files={"files": ("up.say.jsonl", said("1", BOOM))})
        assert answer.status_code == 202
        url = answer.json()["url"]
        while client.get(url).json()["state"] != "done":
            assert time.monotonic() < end
            time.sleep(0.05)
        (file,) = client.get(url).json()["files"]
        assert "not made for at line 2 (TypeError)" in str(file)


def test_a_long_source_says_between_which_lines(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.logs._FAULT_BYTES_MAX", -1)
    path = tmp_path / "a.say.jsonl"
    path.write_bytes(said("1", BOOM, "3"))
    assert "between lines 1 and 3" in take(opened, path).refused[0].why
    assert limits.LOG_SEGMENT_LINES_MAX > 3
