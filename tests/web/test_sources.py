"""What was imported is listed, can be withdrawn and brought back, and derived again."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.presenters import sources as shown
from core.errors import HeadMoved, InvalidInput
from ingest import mini_swe_agent
from tests.web import pages_world
from tests.web.pages_world import WHO, Elements, World, assert_inert

DEMO = Path(mini_swe_agent.__file__).parent / "demo_data"
SECRET = "sk-" + "ant-api03-" + "Ab1" * 20
SESSION = "11111111-2222-4333-8444-555555555555"


def claude(text: str) -> dict[str, object]:
    return {
        "type": "user",
        "sessionId": SESSION,
        "uuid": f"99999999-2222-4333-8444-{len(text):012}",
        "parentUuid": None,
        "timestamp": "2026-11-20T09:00:00.000Z",
        "message": {"role": "user", "content": text},
    }


def session(*lines: dict[str, object]) -> tuple[str, bytes]:
    return f"{SESSION}.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[World]:
    with pages_world.world(tmp_path / "data") as world:
        yield world


def own_of(world: World) -> str:
    (row,) = (row for row, _ in world.parts.runtime.all_sources(WHO))
    return row.trajectory_id


def fields(page: str) -> dict[str, str]:
    """The hidden fields of the form."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))


def send(world: World, path: str, **data: str) -> tuple[int, str]:
    answer = world.client.post(
        path, data=data, headers={"Accept": "text/html"}, follow_redirects=False
    )
    return answer.status_code, answer.headers.get("location", answer.text)


def withdraw(world: World, why: str = "the wrong run") -> str:
    path = f"/import/source/{own_of(world)}"
    status, where = send(world, path, reason=why, **fields(world.get(path)))
    assert (status, where) == (303, path)
    return world.get(path)


def test_a_source_is_listed_with_what_it_became_and_what_was_hidden(desk: World) -> None:
    report = desk.import_page(session(claude(f"use {SECRET} for it")))
    assert "1 place hidden: anthropic-key 1" in report
    page = desk.get("/import")
    assert f"{SESSION}.jsonl" in page and f"session:{SESSION}" in page
    assert "1 secret hidden" in page and "Ab1Ab1" not in page
    assert_inert(page)
    detail = desk.get(f"/import/source/{own_of(desk)}")
    assert "anthropic-key" in detail and "look before you share" in detail
    assert_inert(detail)


def test_the_evidence_of_an_event_says_what_was_hidden_and_where(desk: World) -> None:
    name, data = session(claude(f"use {SECRET} for it"))
    desk.import_page((name, data))
    page = desk.get(f"/t/{own_of(desk)}/@1?tab=evidence")
    assert "1 secret hidden" in page
    at = data.index(SECRET.encode())
    assert f"<code>anthropic-key</code> at byte {at}" in page


def test_nothing_found_is_not_the_same_as_not_looked_for() -> None:
    assert shown.hidden({}, 0, 3) == shown.Hidden("", "none found")
    assert shown.hidden({}, 3, 3).text == "not looked for"
    assert shown.hidden({"a": 2}, 1, 3).text == (
        "2 secrets hidden; not looked for in 1 of 3 originals"
    )


def test_an_import_is_withdrawn_with_a_reason_and_brought_back(desk: World) -> None:
    desk.import_page(("a.traj.json", (DEMO / "repair-slugify.traj.json").read_bytes()))
    name = own_of(desk)
    assert name in desk.get("/trajectories")
    page = withdraw(desk)
    assert "Withdrawn." in page and "the wrong run" in page and "Bring it back" in page
    assert "withdrawn" in desk.get("/import")
    assert desk.parts.projector is not None
    desk.parts.projector.catch_up()
    assert name not in desk.get("/trajectories")
    assert desk.get(f"/t/{name}/@1")
    path = f"/import/source/{name}"
    send(desk, path, reason="it was right after all", **fields(desk.get(path)))
    assert "Withdraw it" in desk.get(path)
    desk.parts.projector.catch_up()
    assert name in desk.get("/trajectories")


def test_sub_agents_within_a_source_go_with_it(desk: World) -> None:
    (with_one,) = DEMO.glob("2c1d9f50-*.jsonl")
    desk.import_page((with_one.name, with_one.read_bytes()))
    page = desk.get(f"/import/source/{own_of(desk)}")
    assert "Withdraw 2 trajectories" in page and "sub-agent" in page
    page = withdraw(desk)
    assert page.count(">withdrawn<") == 2


def test_a_withdrawal_needs_a_reason_and_the_page_of_now(desk: World) -> None:
    desk.import_page(session(claude("start")))
    path = f"/import/source/{own_of(desk)}"
    form = fields(desk.get(path))
    status, text = send(desk, path, reason=" ", **form)
    assert status == 422 and "ay why" in text
    assert send(desk, path, reason="x" * 501, **form)[0] == 422
    assert send(desk, path, reason="x", act="remove", last="0")[0] == 422
    withdraw(desk)
    status, text = send(desk, path, reason="late", **form)
    assert status == 409 and "look again" in text
    assert HeadMoved.code == "head_moved" and InvalidInput.code == "invalid"


def test_a_trajectory_that_was_not_imported_has_no_source(desk: World) -> None:
    pages_world.write(desk, "made-here", pages_world.hostile_payloads()[:1])
    assert "not the own one of an imported source" in desk.get(
        "/import/source/made-here", status=404
    )
    desk.get("/import/source/tr_none", status=404)


def test_sources_are_paged_by_name(desk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["app.pages.imports"], "SOURCES_SHOWN", 2)
    data = (DEMO / "repair-slugify.traj.json").read_bytes()
    for name in ("c", "a", "b"):
        desk.import_page((f"{name}.traj.json", data.replace(b"slugify", b"slug" + name.encode())))
    first = desk.get("/import")
    assert "a.traj.json" in first and "b.traj.json" in first and "c.traj.json" not in first
    found = [
        attrs["href"] for tag, attrs in Elements(first).found if tag == "a" and "href" in attrs
    ]
    (further,) = [href for href in found if "after=" in href]
    rest = desk.get(further.partition("#")[0])
    assert "c.traj.json" in rest and "a.traj.json" not in rest
    assert "From the beginning" in rest


def test_one_file_may_be_known_by_a_name(desk: World) -> None:
    data = (DEMO / "repair-slugify.traj.json").read_bytes()
    answer = desk.client.post(
        "/import",
        files=[("files", ("x.traj.json", data, "application/json"))],
        data={"as": "nightly run"},
        headers={"Accept": "text/html"},
    )
    assert answer.status_code == 200
    assert "nightly run" in _until_done(desk)
    two = [("files", (f"{n}.json", data, "application/json")) for n in range(2)]
    refused = desk.client.post(
        "/import", files=two, data={"as": "both"}, headers={"Accept": "text/html"}
    )
    assert refused.status_code == 422 and "one file" in refused.text


def _until_done(world: World) -> str:
    for _ in range(200):
        page = world.get("/import")
        if "nightly run" in page:
            return page
        time.sleep(0.02)
    return page


def test_what_an_older_importer_read_is_derived_again_by_a_button(
    desk: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.import_page(("a.traj.json", (DEMO / "repair-slugify.traj.json").read_bytes()))
    old = own_of(desk)
    assert "outdated" not in desk.get("/import")
    monkeypatch.setattr(mini_swe_agent, "VERSION", 2)
    monkeypatch.setattr(mini_swe_agent.MiniSweAgent, "version", 2)
    page = desk.get("/import")
    assert "outdated" in page and "Derive again" in page
    status, where = send(desk, "/import/rederive")
    assert (status, where) == (303, "/import?derived=1&refused=0#sources")
    page = desk.get("/import?derived=1&refused=0")
    assert "1 source derived again" in page and "outdated" not in page
    assert "superseded by" in page
    assert "Superseded." in desk.get(f"/import/source/{old}")
    answer = desk.client.get("/v1/imports/sources").json()
    assert [row["version"] for row in answer["sources"]] == [1, 2]
    assert answer["sources"][0]["trajectories"][0]["superseded_by"]
    again = desk.client.post("/v1/imports/rederive", json={})
    assert again.json() == {"reports": [], "next_after": None}
