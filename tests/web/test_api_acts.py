"""Acts, trees and prices over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.api_world import Wire, create, owned, parts, problem, serving

PRICE = {"model": "m", "since": "2026-01-01", "input": 3, "output": 2}
PRICE |= {"cache_read": 1, "cache_write": 4}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as made:
        yield made


def act(client: TestClient, kind: str, body: Wire, about: str | None = "t1", **more: Any) -> Any:
    path = "/v1/acts" if about is None else f"/v1/trajectories/{about}/acts"
    request = more.pop("request_id", f"r-{kind}-{sorted(body.items())}".replace(" ", "")[:100])
    return client.post(path, json={"request_id": request, "kind": kind, "body": body, **more})


def made(answer: Any) -> Wire:
    assert answer.status_code == 201, answer.text
    assert answer.json()["outcome"] == "ok"
    return dict(answer.json()["act"])


def test_an_act_is_answered_and_read_back(client: TestClient) -> None:
    owned(client)
    note = made(act(client, "note", {"text": "look"}, boundary=2))
    assert note == {
        "number": 1,
        "kind": "note",
        "trajectory_id": "t1",
        "boundary": 2,
        "body": {"text": "look"},
        "actor": "local",
        "reason": None,
        "recorded_at": note["recorded_at"],
        "request_id": note["request_id"],
    }
    made(act(client, "tag", {"tag": "flaky"}))
    gone = made(act(client, "withdraw", {}, reason="by mistake", expected_last=2))
    price = made(act(client, "price", PRICE, None))
    found = client.get("/v1/trajectories/t1/acts").json()
    assert [one["number"] for one in found["acts"]] == [1, 2, 3]
    assert found["now"] == {
        "notes": [note],
        "tags": ["flaky"],
        "withdrawn": gone,
        "superseded": None,
        "last_act": 3,
    }
    assert found["source"] == {
        "kind": "acts",
        "complete_to": 3,
        "text": "what people did beside the logs, complete to act 3",
    }
    first = client.get("/v1/acts", params={"limit": 3}).json()
    rest = client.get("/v1/acts", params={"after": first["next_after"]}).json()
    assert [*first["acts"], *rest["acts"]][3] == price
    assert rest["next_after"] is None
    only = client.get("/v1/acts", params={"kind": "tag"}).json()["acts"]
    assert [one["number"] for one in only] == [2]


def test_the_same_request_is_the_same_act_and_another_one_a_conflict(client: TestClient) -> None:
    create(client)
    first = made(act(client, "note", {"text": "once"}, request_id="same"))
    assert made(act(client, "note", {"text": "once"}, request_id="same")) == first
    problem(act(client, "note", {"text": "twice"}, request_id="same"), 409, "integrity_conflict")
    assert len(client.get("/v1/acts").json()["acts"]) == 1


def test_who_saw_less_is_told_what_came_since(client: TestClient) -> None:
    create(client)
    made(act(client, "note", {"text": "first"}, expected_last=0))
    late = act(client, "withdraw", {}, reason="stale", expected_last=0, request_id="late")
    assert problem(late, 409, "head_moved")["last_act"] == 1
    made(act(client, "withdraw", {}, reason="read it", expected_last=1, request_id="again"))


@pytest.mark.parametrize(
    ("about", "body", "status", "code"),
    [
        ("t1", {"kind": "withdraw", "body": {}}, 422, "invalid"),
        ("t1", {"kind": "note", "body": {}}, 422, "invalid"),
        ("t1", {"kind": "note", "body": {"text": "x", "more": 1}}, 422, "invalid"),
        ("t1", {"kind": "price", "body": PRICE}, 422, "invalid"),
        (None, {"kind": "note", "body": {"text": "x"}}, 422, "invalid"),
        (None, {"kind": "price", "body": {**PRICE, "since": "2026-02-31"}}, 422, "invalid"),
        ("t1", {"kind": "erase"}, 422, "invalid"),
        ("t1", {"kind": "tag", "body": {"tag": "Bad Tag"}}, 422, "invalid"),
        ("t1", {"kind": "note", "body": {"text": "x"}, "boundary": 9}, 404, "not_found"),
        ("t1", {"kind": "retract", "body": {"number": 9}}, 404, "not_found"),
        ("t1", {"kind": "supersede", "body": {"by": "t1"}}, 422, "invalid"),
        ("none", {"kind": "note", "body": {"text": "x"}}, 404, "not_found"),
    ],
)
def test_what_is_no_act_is_refused_by_name(
    client: TestClient, about: str | None, body: Wire, status: int, code: str
) -> None:
    create(client)
    path = "/v1/acts" if about is None else f"/v1/trajectories/{about}/acts"
    answer = client.post(path, json={"request_id": "r", **body})
    assert "\\Z" not in answer.text
    problem(answer, status, code)
    assert client.get("/v1/acts").json()["acts"] == []


def test_what_is_not_there_has_no_acts_and_no_tree(client: TestClient) -> None:
    for path in ("acts", "tree"):
        problem(client.get(f"/v1/trajectories/none/{path}"), 404, "not_found")


def test_a_withdrawn_trajectory_leaves_the_list_and_stays_where_it_is(client: TestClient) -> None:
    create(client)
    create(client, "t2")
    made(act(client, "withdraw", {}, reason="by mistake"))
    catch_up(client)
    listed = client.get("/v1/trajectories").json()
    assert [row["trajectory_id"] for row in listed["trajectories"]] == ["t2"]
    assert listed["total"] == 1
    found = client.get("/v1/trajectories/t1").json()
    assert found["summary"]["withdrawn"] == 1
    page = client.get("/t/t1", follow_redirects=True)
    assert "withdrawn" in page.text
    assert "by mistake" in page.text


def catch_up(client: TestClient) -> None:
    projector = parts(client).projector
    assert projector is not None
    projector.catch_up("local")


def test_a_tree_comes_with_what_it_adds_up_to(client: TestClient) -> None:
    create(client, "top")
    answer = client.post(
        "/v1/trajectories",
        json={
            "request_id": "make-child",
            "trajectory_id": "child",
            "standing": "reported",
            "task": {
                "title": "a part",
                "parent": {"trajectory_id": "top", "operation_id": "op-1"},
            },
        },
    )
    assert answer.status_code == 201, answer.text
    catch_up(client)
    found = client.get("/v1/trajectories/child/tree").json()
    assert (found["here"], found["missing_parent"], found["cut"]) == ("child", None, [])
    root, child = found["nodes"]
    assert (root["trajectory_id"], root["depth"], root["children"]) == ("top", 0, 1)
    assert (child["trajectory_id"], child["depth"], child["parent_id"]) == ("child", 1, "top")
    assert child["parent_operation"] == "op-1"
    assert root["rolled"]["trajectories"] == 2
    assert root["rolled"]["tokens"]["input"] is None
    assert root["rolled"]["without_tokens"] == 2
    assert found["source"]["kind"] == "projection"
    made(act(client, "withdraw", {}, "child", reason="it never ran"))
    catch_up(client)
    found = client.get("/v1/trajectories/top/tree").json()
    assert found["left_out"] == ["child"] and len(found["nodes"]) == 2
    assert found["nodes"][0]["rolled"]["left_out"] == 1
    assert found["nodes"][0]["rolled"]["trajectories"] == 1


def test_prices_are_shipped_ones_and_those_that_were_stated(client: TestClient) -> None:
    before = client.get("/v1/prices").json()
    assert before["last_act"] == 0
    assert all(row["act"] is None and row["source"] for row in before["prices"])
    price = made(act(client, "price", PRICE, None, expected_last=0))
    after = client.get("/v1/prices").json()
    assert [row for row in after["prices"] if row["act"] is not None] == [
        {**PRICE, "source": "", "act": price["number"]}
    ]
    assert (after["last_act"], after["digest"] != before["digest"]) == (price["number"], True)
    made(act(client, "retract", {"number": price["number"]}, None))
    assert client.get("/v1/prices").json()["digest"] == before["digest"]
