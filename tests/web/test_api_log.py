"""The log over HTTP: create, claim, append, read, prove."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from core.canonical import digest_text, sha256
from core.limits import EVENTS_PER_APPEND_MAX, PAYLOAD_INLINE_BYTES_MAX
from tests.require import ROOT
from tests.web.api_world import append, claim, create, note, owned, problem, serving


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as opened:
        yield opened


# --- create and claim ------------------------------------------------------------------------


def test_the_same_create_gets_the_same_answer(client: TestClient) -> None:
    first, again = create(client), create(client)
    assert first["sequence_numbers"] == again["sequence_numbers"] == [1]
    assert first["chain"] == again["chain"]
    assert (first["outcome"], first["failure_domain"]) == ("ok", "host")
    assert client.get("/v1/trajectories/t1").json()["head"] == 1


def test_another_create_under_the_request_id_is_a_conflict(client: TestClient) -> None:
    create(client)
    body = {"request_id": "make-t1", "standing": "reported", "task": {"title": "another"}}
    problem(client.post("/v1/trajectories", json=body), 409, "integrity_conflict")


def test_an_id_left_out_follows_from_the_request(client: TestClient) -> None:
    body = {"request_id": "r-1", "standing": "gated", "task": {"title": "x"}}
    made = [client.post("/v1/trajectories", json=body).json()["trajectory_id"] for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].startswith("tr_")


def test_a_trajectory_that_exists_is_not_made_again(client: TestClient) -> None:
    create(client)
    body = {
        "request_id": "other",
        "trajectory_id": "t1",
        "standing": "reported",
        "task": {"title": "x"},
    }
    assert client.post("/v1/trajectories", json=body).status_code == 409


def test_a_task_that_contradicts_its_request_is_refused(client: TestClient) -> None:
    body = {"request_id": "r", "standing": "gated", "task": {"title": "x", "standing": "reported"}}
    problem(client.post("/v1/trajectories", json=body), 422, "invalid")


def test_a_lost_claim_reply_is_answered_with_the_same_grant(client: TestClient) -> None:
    create(client)
    assert claim(client) == claim(client) == 1
    assert claim(client, request_id="claim-2") == 2
    assert client.get("/v1/trajectories/t1").json()["owner_epoch"] == 2


def test_a_claim_on_an_epoch_that_is_no_longer_newest_is_fenced(client: TestClient) -> None:
    owned(client)
    body = {"request_id": "late", "worker": "w2", "expected_epoch": 0}
    problem(client.post("/v1/trajectories/t1/claim", json=body), 409, "fenced")


def test_a_claim_of_nothing_is_not_found(client: TestClient) -> None:
    body = {"request_id": "c", "worker": "w"}
    problem(client.post("/v1/trajectories/none/claim", json=body), 404, "not_found")


# --- append ----------------------------------------------------------------------------------


def test_an_append_is_acknowledged_with_what_it_survives(client: TestClient) -> None:
    owned(client)
    ack = append(client, note("e1"), note("e2")).json()
    assert ack["outcome"] == "ok"
    assert ack["sequence_numbers"] == [3, 4]
    assert (ack["head"], ack["failure_domain"], ack["owner_epoch"]) == (4, "host", 1)
    assert ack["chain"].startswith("sha256:")
    assert ack["queue_wait_us"] >= 0 and ack["storage_time_us"] > 0
    assert (ack["duplicate"], ack["fenced"]) == (False, False)


def test_a_retry_is_a_duplicate_and_stores_nothing(client: TestClient) -> None:
    owned(client)
    first, again = append(client, note("e1")).json(), append(client, note("e1")).json()
    assert again["duplicate"] and again["duplicates"] == [True]
    assert again["sequence_numbers"] == first["sequence_numbers"]
    assert client.get("/v1/trajectories/t1").json()["head"] == 3


def test_a_duplicate_under_an_old_epoch_says_fenced(client: TestClient) -> None:
    owned(client)
    append(client, note("e1"))
    claim(client, request_id="claim-2")
    again = append(client, note("e1")).json()
    assert (again["duplicate"], again["fenced"], again["owner_epoch"]) == (True, True, 1)


def test_the_same_id_with_other_bytes_is_a_conflict_and_an_incident(client: TestClient) -> None:
    owned(client)
    append(client, note("e1"))
    found = problem(append(client, note("e1", text="other")), 409, "integrity_conflict")
    assert found["outcome"] == "refused"
    rows = client.get("/v1/trajectories/t1/ledger").json()["rows"]
    assert [(row["kind"], row["code"]) for row in rows] == [("incident", "integrity_conflict")]
    assert client.get("/v1/trajectories/t1").json()["incidents"] == 1


def test_a_stale_owner_changes_nothing_but_the_ledger(client: TestClient) -> None:
    owned(client)
    claim(client, request_id="claim-2")
    found = problem(append(client, note("e1"), epoch=1), 409, "fenced")
    assert found["outcome"] == "refused"
    assert client.get("/v1/trajectories/t1").json()["head"] == 3
    row = client.get("/v1/ledger").json()["rows"][0]
    assert (row["code"], row["offered_epoch"], row["held_epoch"]) == ("fenced", 1, 2)


def test_an_epoch_of_another_incarnation_is_fenced(client: TestClient) -> None:
    owned(client)
    problem(append(client, note("e1"), incarnation="0123456789abcdef"), 409, "fenced")


def test_an_append_on_a_moved_head_is_refused(client: TestClient) -> None:
    owned(client)
    append(client, note("e1"))
    problem(append(client, note("e2"), expected_head=2), 409, "head_moved")
    assert append(client, note("e2"), expected_head=3).status_code == 201


def test_an_unknown_type_is_refused_and_a_note_is_taken(client: TestClient) -> None:
    owned(client)
    unknown = {**note("e1"), "type": "SandboxReset"}
    found = problem(append(client, unknown), 422, "unknown_type")
    assert found["event_type"] == "SandboxReset"
    problem(append(client, {**note("e1"), "type": "ToolIntent", "schema_version": 99}), 422,
            "unknown_type")  # fmt: skip
    assert append(client, note("e1")).status_code == 201


def test_a_worker_may_not_assert_what_the_service_asserts(client: TestClient) -> None:
    owned(client)
    event = {**note("e1"), "type": "OwnershipGranted"}
    event["payload"] = {"incarnation": "x", "owner_epoch": 2, "worker": "w", "cause": "start"}
    problem(append(client, event), 403, "not_allowed")


def test_one_bad_event_refuses_its_whole_request(client: TestClient) -> None:
    owned(client)
    problem(append(client, note("e1"), {**note("e2"), "type": "Nope"}), 422, "unknown_type")
    append(client, note("a"))
    problem(append(client, note("e1"), note("a", text="other")), 409, "integrity_conflict")
    assert client.get("/v1/trajectories/t1").json()["head"] == 3


def test_a_payload_in_a_blob_is_the_same_event(client: TestClient) -> None:
    owned(client)
    data = b'{"text":"e1"}'
    digest = digest_text(sha256(data))
    by_ref = {
        "event_id": "e1",
        "type": "note.test",
        "schema_version": 1,
        "payload_ref": {"digest": digest, "length": len(data), "media_type": "application/json"},
    }
    found = problem(append(client, by_ref), 422, "missing_blob")
    assert digest in str(found)
    assert client.put(f"/v1/blobs/{digest}", content=data).status_code == 201
    assert append(client, by_ref).status_code == 201
    # Moving a payload between the two is no conflict (ENV-3).
    assert append(client, note("e1", text="e1")).json()["duplicate"]
    problem(
        append(client, {**by_ref, "payload_ref": {**by_ref["payload_ref"], "length": 1}}),
        422,
        "invalid",
    )


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,"a":2}', b'{"a": 1}', b'{"b":1,"a":1}', b'{"a":1.0}', b'{"a":NaN}', b"{", b"\xff{}"],
)
def test_a_payload_in_a_blob_is_held_to_what_an_inline_one_is(
    client: TestClient, data: bytes
) -> None:
    """Its digest is of its canonical bytes wherever it lies, and two readers read it alike."""
    owned(client)
    digest = digest_text(sha256(data))
    assert client.put(f"/v1/blobs/{digest}", content=data).status_code == 201
    ref = {"digest": digest, "length": len(data), "media_type": "application/json"}
    by_ref = {"event_id": "e1", "type": "note.test", "schema_version": 1, "payload_ref": ref}
    problem(append(client, by_ref), 422, "invalid")


def test_a_named_blob_must_be_stored_first(client: TestClient) -> None:
    owned(client)
    ref = {"digest": "sha256:" + "0" * 64, "length": 3}
    problem(append(client, {**note("e1"), "refs": [ref]}), 422, "missing_blob")


def test_bounds_of_an_append(client: TestClient) -> None:
    owned(client)
    problem(append(client), 422, "invalid")
    many = [note(f"e{number}") for number in range(EVENTS_PER_APPEND_MAX + 1)]
    problem(append(client, *many), 422, "invalid")
    big = note("e1", text="x" * (PAYLOAD_INLINE_BYTES_MAX + 1))
    problem(append(client, big), 413, "too_large")
    assert append(client, *many[:-1]).json()["head"] == 2 + EVENTS_PER_APPEND_MAX


def test_an_append_to_nothing_is_not_found(client: TestClient) -> None:
    problem(append(client, note("e1"), name="none"), 404, "not_found")


# --- reads -----------------------------------------------------------------------------------


def test_events_are_read_in_parts_and_as_lines(client: TestClient) -> None:
    owned(client)
    append(client, *(note(f"e{number}") for number in range(5)))
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        page = client.get(f"/v1/trajectories/t1/events?after={after}&limit=3").json()
        seen += [event["sequence_number"] for event in page["events"]]
        assert page["source"]["text"] == "authoritative, complete to 7"
        after = page["next_after"]
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    lines = client.get("/v1/trajectories/t1/events?format=jsonl&after=2&upto=4")
    assert lines.headers["content-type"].startswith("application/jsonl")
    rows = [json.loads(line) for line in lines.text.splitlines()]
    assert [row["sequence_number"] for row in rows] == [3, 4]
    assert rows[0]["payload"] == {"text": "e0"}
    assert rows[0]["issuer"] == "worker"


def test_one_event_and_its_payload(client: TestClient) -> None:
    owned(client)
    append(client, note("e1", text="<script>"))
    found = client.get("/v1/trajectories/t1/events/3").json()
    assert found["event"]["event_id"] == "e1"
    assert found["known"] is True
    payload = client.get("/v1/trajectories/t1/events/3/payload")
    assert payload.content == b'{"text":"<script>"}'
    assert digest_text(sha256(payload.content)) == found["event"]["payload_digest"]
    assert payload.headers["content-disposition"].startswith("attachment")
    assert payload.headers["content-security-policy"] == "sandbox; default-src 'none'"
    problem(client.get("/v1/trajectories/t1/events/4"), 404, "not_found")


def test_the_record_at_a_boundary_says_what_it_was_read_from(client: TestClient) -> None:
    owned(client)
    first = client.get("/v1/trajectories/t1/record/1").json()
    head = client.get("/v1/trajectories/t1/record/head").json()
    assert (first["boundary"], head["boundary"]) == (1, 2)
    # A field at its default is left out.
    assert first["record"].get("ownership", {}).get("owner_epoch", 0) == 0
    assert head["record"]["ownership"]["owner_epoch"] == 1
    assert head["source"] == {
        "kind": "authoritative",
        "complete_to": 2,
        "text": "authoritative, complete to 2",
    }
    assert client.get("/v1/trajectories/t1/record/0").json()["boundary"] == 0
    problem(client.get("/v1/trajectories/t1/record/3"), 404, "not_found")
    problem(client.get("/v1/trajectories/t1/record/-1"), 422, "invalid")


def test_a_difference_is_paths_with_old_and_new(client: TestClient) -> None:
    owned(client)
    found = client.get("/v1/trajectories/t1/difference?a=1&b=2").json()
    changes = {change["path"]: change for change in found["difference"]["changes"]}
    assert changes["ownership.owner_epoch"]["new"] == 1
    assert client.get("/v1/trajectories/t1/difference?a=2&b=2").json()["difference"]["total"] == 0


def test_verify_is_streamed_and_ends_with_the_chain(client: TestClient) -> None:
    owned(client)
    last = append(client, note("e1")).json()
    text = client.get("/v1/trajectories/t1/verify").text
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[-1].pop("source")["kind"] == "authoritative"
    assert lines[-1] == {
        "done": True,
        "trajectory_id": "t1",
        "verified_to": 3,
        "chain": last["chain"],
        "findings": 0,
    }
    create(client, "t2")
    every = client.get("/v1/verify").text.splitlines()
    assert json.loads(every[-1]) == {"all_done": True, "trajectories": 2, "findings": 0}


def test_the_list_follows_the_log_and_pages_by_key(client: TestClient) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        create(client, name)
    client.app.state.parts.projector.catch_up()  # type: ignore[attr-defined]
    seen: list[str] = []
    after = ""
    while True:
        page = client.get(f"/v1/trajectories?sort=title&direction=asc&limit=2&after={after}").json()
        assert page["total"] == 5
        assert page["source"]["kind"] == "projection"
        seen += [row["trajectory_id"] for row in page["trajectories"]]
        if page["next_after"] is None:
            break
        after = page["next_after"]
    assert seen == names
    some = client.get("/v1/trajectories?text=t3").json()["trajectories"]
    assert [row["trajectory_id"] for row in some] == ["t3"]
    for bad in ("sort=x", "limit=0", "limit=true", "after=zzz", "after=W10", "standing=x"):
        assert client.get(f"/v1/trajectories?{bad}").status_code == 422, bad


def test_an_export_installs_elsewhere_with_the_same_chain(
    client: TestClient, tmp_path: Path
) -> None:
    from tests.web.api_world import finished

    owned(client)
    data = b"evidence"
    digest = client.post("/v1/blobs", content=data).json()["digest"]
    event = {**note("e1"), "refs": [{"digest": digest, "length": len(data)}]}
    head = append(client, event).json()
    bundle = client.get("/v1/trajectories/t1/export")
    assert bundle.headers["content-disposition"].startswith("attachment")
    with serving(tmp_path / "other") as other:
        job = other.post("/v1/imports?name=t1.jsonl", content=bundle.content).json()
        report = finished(other, job)["files"][0]["report"]
        assert report["trajectories"][0]["chain"] == head["chain"]
        copy = other.get("/v1/trajectories/t1").json()
        assert (copy["standing"], copy["head"], copy["chain"]) == ("replica", 3, head["chain"])
        assert other.get(f"/v1/blobs/{digest}").content == data
        refused = append(other, note("e2"))
        assert refused.status_code in (403, 409), refused.text
        assert other.get("/v1/trajectories/t1/export").text.splitlines()[1:] != []


def test_a_foreign_trajectory_looks_like_one_that_never_was(tmp_path: Path) -> None:
    with serving(tmp_path) as mine:
        owned(mine)
        blob = mine.post("/v1/blobs", content=b"secret").json()["digest"]
    with serving(tmp_path, tenant="other") as theirs:
        for path in ("", "/events", "/events/1", "/record/head", "/verify", "/export", "/ledger"):
            foreign = theirs.get(f"/v1/trajectories/t1{path}")
            unknown = theirs.get(f"/v1/trajectories/t9{path}")
            assert foreign.status_code == unknown.status_code == 404, path
            same = [answer.json() for answer in (foreign, unknown)]
            for found in same:
                del found["request_id"]
            assert str(same[0]).replace("t1", "t9") == str(same[1])
        problem(theirs.get(f"/v1/blobs/{blob}"), 404, "not_found")
        problem(append(theirs, note("x")), 404, "not_found")
        assert theirs.get("/v1/trajectories").json()["total"] == 0
        assert theirs.get("/v1/ledger").json()["rows"] == []


def test_what_the_readme_sends_is_taken_and_once_more_is_a_duplicate(tmp_path: Path) -> None:
    shown = re.search(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown is not None
    with serving(tmp_path) as client:
        for line in shown[1].split("$ ")[1:]:
            words = shlex.split(line)
            url = next(word for word in words if word.startswith("localhost:"))
            sent = json.loads(words[words.index("-d") + 1])
            for again in (False, True):
                answer = client.post(url.removeprefix("localhost:8000"), json=sent)
                assert answer.status_code == 201, answer.text
                assert answer.json().get("duplicate", again) is again
