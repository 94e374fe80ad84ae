"""What an answer claims: what it was read from, how far, and where it knows nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ingest import demo
from store.ports import InstallCommand
from tests import strategies
from tests.strategies import Log, Said
from tests.web.api_world import append, create, finished, note, owned, parts, problem, serving

FILE = sorted(demo.DATA.glob("*.traj.json"))[0]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as opened:
        yield opened


def install(client: TestClient, log: Log, *pieces: slice) -> None:
    opened = parts(client).runtime
    for data in log.blobs.values():
        opened.blobs.put("local", data)
    for piece in pieces:
        command = InstallCommand("local", log.trajectory_id, tuple(log.events[piece]))
        opened.store.install(command).result(30)


def reads_of(name: str) -> list[str]:
    paths = ("", "/events", "/events/1", "/record/head", "/record/1", "/difference?a=0&b=1")
    return [f"/v1/trajectories/{name}{path}" for path in paths]


def sources(client: TestClient, name: str) -> list[dict[str, object]]:
    """`source` of every read of one trajectory."""
    found = [client.get(path).json()["source"] for path in reads_of(name)]
    lines = client.get(f"/v1/trajectories/{name}/verify").text.splitlines()
    return [*found, json.loads(lines[-1])["source"]]


@pytest.mark.parametrize("standing", ["gated", "reported"])
def test_a_log_kept_here_is_authoritative(client: TestClient, standing: str) -> None:
    create(client, standing=standing)
    told = {"kind": "authoritative", "complete_to": 1, "text": "authoritative, complete to 1"}
    assert sources(client, "t1") == [told] * 7


def test_an_imported_file_proves_nothing_by_what_it_lacks(client: TestClient) -> None:
    job = client.post("/v1/imports?name=a.traj.json", content=FILE.read_bytes()).json()
    made = finished(client, job)["files"][0]["report"]["trajectories"][0]
    for source in sources(client, made["id"]):
        assert (source["kind"], source["complete_to"]) == ("imported", made["head"])
        assert "completeness not provable" in str(source["text"])


def test_a_copy_is_complete_to_its_first_gap(client: TestClient) -> None:
    log = strategies.store(strategies.plausible(40, 3), trajectory_id="copy")
    install(client, log, slice(0, 20))
    whole = {"kind": "replica", "complete_to": 20, "text": "installed copy, complete to 20"}
    assert sources(client, "copy") == [whole] * 7
    install(client, log, slice(30, 35))
    told = "installed copy, complete to 20 of at least 35: a gap from 21 to 30"
    assert {source["text"] for source in sources(client, "copy")} == {told}


def test_the_ledger_says_how_far_it_was_read(client: TestClient) -> None:
    owned(client)
    for number in range(3):
        append(client, note(f"e{number}"), epoch=9)
    for path in ("/v1/ledger", "/v1/trajectories/t1/ledger"):
        page = client.get(f"{path}?limit=2").json()
        assert page["source"] == {
            "kind": "ledger",
            "complete_to": page["rows"][-1]["number"],
            "text": "the ledger beside the log, complete to its row 2",
        }


def test_what_lies_after_an_unknown_event_is_not_reconstructed(client: TestClient) -> None:
    said = strategies.plausible(20, 2)
    said.insert(10, Said("FromTheFuture", b'{"a":1}', schema_version=3))
    install(client, strategies.store(said, trajectory_id="newer"), slice(None))
    assert client.get("/v1/trajectories/newer/record/10").json()["boundary"] == 10
    for path in ("record/11", "record/head", "difference?a=3&b=15", "difference?a=11&b=2"):
        answer = client.get(f"/v1/trajectories/newer/{path}")
        found = problem(answer, 409, "not_reconstructed")
        assert (found["sequence_number"], found["outcome"]) == (11, "unknown")
        assert found["event_type"] == "FromTheFuture"
    shown = client.get("/v1/trajectories/newer/events/11").json()
    assert (shown["known"], shown["event"]["payload"]) == (False, {"a": 1})
