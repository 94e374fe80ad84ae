"""Watched folders: taken in by the server, with their standing on pages and over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.watch import checked
from core.errors import InvalidInput
from ingest import registry
from tests.ingest.log_format import SayLog
from tests.web.api_world import serving


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_watched_folder_is_taken_in_while_requests_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LOG_IMPORTERS", (*registry.LOG_IMPORTERS, SayLog()))
    folder = tmp_path / "w"
    folder.mkdir()
    path = folder / "a<b>.say.jsonl"
    path.write_text('{"say":"1"}\n{"say":"tw')
    (folder / "broken.traj.json").write_text("[")
    with serving(tmp_path, watch=f"{folder}:{tmp_path / 'none'}") as client:
        _until(lambda: client.get("/v1/watch").json()["waiting"] == 1)
        found = client.get("/v1/watch").json()
        assert found["watching"] is True
        assert found["folders"] == [str(folder), str(tmp_path / "none")]
        assert found["files"] == 2
        assert found["failure"] is None
        _until(lambda: len(client.get("/v1/watch").json()["problems"]) == 2)
        listed = client.get("/v1/trajectories").json()["trajectories"]
        assert [row["events"] for row in listed] == [2]
        with path.open("a") as file:
            file.write('o"}\n' + json.dumps({"say": "3"}) + "\n")
        _until(lambda: client.get("/v1/watch").json()["waiting"] == 0)
        assert client.get("/v1/trajectories").json()["trajectories"][0]["events"] == 4
        for page in ("/import", "/health"):
            text = client.get(page).text
            assert "Watched folders" in text
            assert "a&lt;b&gt;.say.jsonl" in text
            assert "broken.traj.json" in text
            assert "no such file or directory" in text
        assert client.get("/v1/imports").json()["imports"] == []


def test_nothing_is_said_of_watching_where_nothing_is_watched(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        found = client.get("/v1/watch").json()
        assert (found["watching"], found["folders"]) == (False, [])
        assert "Watched folders" not in client.get("/import").text


def test_the_data_folder_is_never_watched(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "tmp").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    checked((tmp_path / "beside",), data)
    for folder in (data, data / "tmp", tmp_path):
        with pytest.raises(InvalidInput, match="STRANDLINE_WATCH"):
            checked((folder,), data)
