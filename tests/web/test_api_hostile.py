"""Hostile bodies, headers and addresses: each a typed refusal, none a 500, nothing stored."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app import guards
from app.guards import Guard, Rate
from app.settings import Settings
from core.limits import BODY_BYTES_MAX
from tests.web.api_world import BASE, append, note, owned, problem, serving, settings

JSON = {"content-type": "application/json"}
CANARY = "canary-5c1d0e"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("hostile")) as opened:
        owned(opened)
        yield opened


def body(payload: str, **more: str) -> str:
    """An append whose payload is raw JSON text."""
    fields = {"owner_epoch": "1", "worker": '"w1"', "request_id": '"r"', **more}
    outer = ",".join(f'"{name}":{value}' for name, value in fields.items())
    return (
        f'{{{outer},"events":[{{"event_id":"h1","type":"note.x","schema_version":1,'
        f'"payload":{payload}}}]}}'
    )


BODIES: dict[str, bytes] = {
    "lone surrogate value": body(r'{"a":"\ud800"}').encode(),
    "lone surrogate key": body(r'{"\ud800":1}').encode(),
    "surrogate in a field": rb'{"event_id":"\ud800"}',
    "raw NUL": b'{"a":"\x00"}',
    "NaN": body('{"a":NaN}').encode(),
    "Infinity": body('{"a":-Infinity}').encode(),
    "not finite": body('{"a":1e999}').encode(),
    "integer too large": body('{"a":9007199254740993}').encode(),
    "integer of 2^63": body('{"a":9223372036854775808}').encode(),
    "integer of 5000 digits": body('{"a":' + "9" * 5000 + "}").encode(),
    "epoch of 5000 digits": body("{}", owner_epoch="9" * 5000).encode(),
    "epoch of 2^60": body("{}", owner_epoch=str(2**60)).encode(),
    "negative epoch": body("{}", owner_epoch="-1").encode(),
    "bool for int": body("{}", owner_epoch="true").encode(),
    "text for int": body("{}", owner_epoch='"1"').encode(),
    "float for int": body("{}", owner_epoch="1.5").encode(),
    "duplicate key outside": body("{}", owner_epoch='1,"owner_epoch":2').encode(),
    "duplicate key inside": body('{"a":1,"a":2}').encode(),
    "duplicate key, escaped": body('{"a":1,"\\u0061":2}').encode(),
    "too deep": body('{"a":' + "[" * 200 + "]" * 200 + "}").encode(),
    "very deep": b"[" * 100_000,
    "unbalanced": b'{"a":[}',
    "byte order mark": b"\xef\xbb\xbf" + body("{}").encode(),
    "UTF-16": body("{}").encode("utf-16"),
    "not UTF-8": b'{"a":"\xff"}',
    "truncated": body("{}").encode()[:-3],
    "trailing text": body("{}").encode() + b"x",
    "two values": b"{}{}",
    "empty": b"",
    "white space": b"  \n",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "unknown field": body("{}", extra="1").encode(),
    "payload is a list": body("[]").encode(),
    "payload is a text": body('"x"').encode(),
    "both payloads": body('{},"payload_ref":{"digest":"sha256:x","length":1}').encode(),
    "no payload": body("null").encode(),
    "worker with a space": body("{}", worker='"a b"').encode(),
    "worker too long": body("{}", worker='"' + "w" * 200 + '"').encode(),
    "events not a list": b'{"owner_epoch":1,"worker":"w","request_id":"r","events":{}}',
    "prototype key is data, then bad": body('{"__proto__":{"x":1},"__proto__":1}').encode(),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_append_is_a_typed_refusal(client: TestClient, name: str) -> None:
    head = client.get("/v1/trajectories/t1").json()["head"]
    answer = client.post("/v1/trajectories/t1/events", content=BODIES[name], headers=JSON)
    found = problem(answer, 422, "invalid")
    assert found["outcome"] == "refused"
    assert len(answer.content) < 2000
    assert client.get("/v1/trajectories/t1").json()["head"] == head


@pytest.mark.parametrize("name", [name for name in BODIES if not name.startswith("payload")])
@pytest.mark.parametrize("path", ["/v1/trajectories", "/v1/trajectories/t1/claim"])
def test_a_hostile_create_or_claim_is_a_typed_refusal(
    client: TestClient, name: str, path: str
) -> None:
    problem(client.post(path, content=BODIES[name], headers=JSON), 422, "invalid")


def test_a_prototype_key_is_only_a_key(client: TestClient) -> None:
    answer = client.post(
        "/v1/trajectories/t1/events",
        content=body('{"__proto__":{"polluted":true},"constructor":1}').replace("h1", "proto"),
        headers=JSON,
    )
    assert answer.status_code == 201
    at = answer.json()["sequence_numbers"][0]
    stored = client.get(f"/v1/trajectories/t1/events/{at}").json()["event"]["payload"]
    assert stored == {"__proto__": {"polluted": True}, "constructor": 1}


def test_a_refusal_never_repeats_what_a_body_held(client: TestClient) -> None:
    bad = [
        {"request_id": CANARY + " x", "standing": CANARY, "task": CANARY, CANARY[:6]: 1},
        {"request_id": "r", "standing": "gated", "task": {"title": 1, "task": CANARY}},
    ]
    for value in bad:
        answer = client.post("/v1/trajectories", json=value)
        assert answer.status_code == 422
        assert CANARY not in answer.text
    hostile = "%3Ci%3E%1b" + CANARY + "x" * 500
    page = client.get(f"/trajectories?sort={hostile}", headers={"accept": "text/html"})
    assert page.status_code == 422 and "<i>" not in page.text and "\x1b" not in page.text
    assert "x" * 100 not in page.text


def test_quick_and_strict_reading_agree(client: TestClient) -> None:
    """The same content, written compactly, with spaces and with escapes, is one event."""
    plain = {"owner_epoch": 1, "worker": "w1", "request_id": "r", "events": [
        {"event_id": "same", "type": "note.x", "schema_version": 1,
         "payload": {"b": 1.5, "a": "é", "n": [1, 2, {"x": None}]}}]}  # fmt: skip
    forms = [
        json.dumps(plain, separators=(",", ":"), ensure_ascii=False),
        json.dumps(plain),
        json.dumps(plain, indent=2, sort_keys=True),
        json.dumps(plain).replace('"n"', '"\\u006e"').replace("1.5", "15e-1"),
    ]
    answers = [
        client.post("/v1/trajectories/t1/events", content=form.encode(), headers=JSON).json()
        for form in forms
    ]
    assert [answer["duplicate"] for answer in answers] == [False, True, True, True]


# --- where the body is too large, too late, or of another kind -------------------------------


def test_a_body_that_says_it_is_too_large_is_not_read(client: TestClient) -> None:
    headers = {**JSON, "content-length": str(200 << 20)}
    answer = client.post("/v1/trajectories", content=b"{}", headers=headers)
    problem(answer, 413, "body_too_large")
    assert answer.headers["connection"] == "close"


def test_a_body_that_does_not_say_is_counted(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(BODY_BYTES_MAX // 65536 + 2):
            yield b" " * 65536

    answer = client.post("/v1/trajectories", content=chunks(), headers=JSON)
    problem(answer, 413, "body_too_large")


def test_json_must_say_that_it_is_json(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        for path in ("/v1/trajectories", "/v1/trajectories/t1/events"):
            answer = client.post(path, content=b"{}", headers={"content-type": kind})
            problem(answer, 415, "unsupported_media_type")
    utf8 = {"content-type": "application/json; charset=utf-8"}
    answer = client.post("/v1/trajectories/t1/events", content=b"{}", headers=utf8)
    problem(answer, 422, "invalid")


def _exchange(guard: Guard, receive: Any, **scope: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    full = {
        "type": "http", "method": "POST", "path": "/v1/trajectories", "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1), "state": {}, "http_version": "1.1", "scheme": "http",
        "root_path": "", "raw_path": b"/v1/trajectories", "server": ("127.0.0.1", 8000), **scope,
    }  # fmt: skip
    asyncio.run(guard(full, receive, send))
    return sent


def test_a_slow_body_is_answered_408(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = guards.RouteClass("write", BODY_BYTES_MAX, 0.05, 4)
    monkeypatch.setattr(guards, "route_class", lambda method, path: slow)
    read: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            read.append(message["body"])

    async def receive() -> Any:
        if read:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": b"{", "more_body": True}

    sent = _exchange(_guard(app, settings(tmp_path)), receive)
    headers = dict(sent[0]["headers"])
    assert (sent[0]["status"], headers[b"connection"]) == (408, b"close")
    assert json.loads(sent[1]["body"])["code"] == "body_timeout"
    assert read == [b"{"]


def _guard(app: Any, chosen: Settings) -> Guard:
    from app.auth import Credentials
    from core.ids import tenant

    return Guard(app, chosen, Credentials(tenant("local"), None, None))


def test_more_requests_than_may_be_in_flight_are_told_to_come_back(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("this one should not have been let in")

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    guard = _guard(app, settings(tmp_path))
    guard.in_flight["write"] = guards.WRITE.in_flight
    sent = _exchange(guard, receive)
    headers = dict(sent[0]["headers"])
    assert (sent[0]["status"], headers[b"retry-after"]) == (503, b"1")
    assert json.loads(sent[1]["body"])["code"] == "overloaded"


def test_imports_have_places_of_their_own() -> None:
    kinds = {
        guards.route_class("POST", "/v1/trajectories/t/events").name,
        guards.route_class("POST", "/v1/imports").name,
        guards.route_class("POST", "/import").name,
        guards.route_class("PUT", "/v1/blobs/x").name,
        guards.route_class("GET", "/v1/trajectories").name,
        guards.route_class("GET", "/v1/audit").name,
        guards.route_class("DELETE", "/anything").name,
    }
    assert kinds == {"append", "import", "blob", "read", "scan", "write"}


# --- one caller over its rate ----------------------------------------------------------------


def test_a_caller_over_its_rate_is_told_when_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock of the rate stands still, so that a slow machine refills nothing.
    monkeypatch.setattr(guards, "Rate", functools.partial(guards.Rate, clock=lambda: 0.0))
    with serving(tmp_path, caller_requests_per_second=2) as client:
        statuses = [client.get("/livez") for _ in range(4)]
        assert [answer.status_code for answer in statuses] == [200, 200, 429, 429]
        found = problem(statuses[-1], 429, "rate_limited")
        assert found["outcome"] == "refused"
        assert statuses[-1].headers["retry-after"] == "1"


def test_a_rate_fills_again_and_callers_do_not_share_it() -> None:
    now = [0.0]
    rate = Rate(2, clock=lambda: now[0])
    assert [rate.take(("a", None)) for _ in range(3)] == [True, True, False]
    assert rate.take(("b", None))
    now[0] += 0.5
    assert [rate.take(("a", None)) for _ in range(2)] == [True, False]
    for number in range(guards.CALLERS_MAX + 10):
        rate.take((str(number), None))
    assert len(rate.buckets) == guards.CALLERS_MAX


# --- hosts, origins, addresses, headers ------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "host"),
    [
        (200, "127.0.0.1:8000"), (200, "localhost:9"), (200, "LOCALHOST"), (200, "[::1]:8000"),
        (200, "named.example:1"), (421, "evil.example"), (421, "127.0.0.1.evil.example"),
        (421, "127.0.0.1@evil.example"), (421, ""), (421, "["), (421, "192.168.0.1"),
    ],
)  # fmt: skip
def test_only_our_own_names_are_answered(tmp_path: Path, status: int, host: str) -> None:
    with serving(tmp_path, allowed_hosts="named.example") as client:
        answer = client.get("/livez", headers={"host": host})
        assert answer.status_code == status
        if status == 421:
            problem(answer, 421, "misdirected_host")


@pytest.mark.parametrize(
    ("status", "method", "headers"),
    [
        (200, "GET", {"sec-fetch-site": "cross-site"}),
        (415, "POST", {}),
        (415, "POST", {"sec-fetch-site": "same-origin"}),
        (415, "POST", {"sec-fetch-site": "none"}),
        (415, "POST", {"origin": BASE}),
        (403, "POST", {"sec-fetch-site": "cross-site"}),
        (403, "POST", {"sec-fetch-site": "same-site"}),
        (403, "DELETE", {"sec-fetch-site": "same-site"}),
        (403, "DELETE", {"origin": "https://evil.example"}),
        (403, "PUT", {"origin": "null"}),
        (403, "POST", {"origin": "http://["}),
        (403, "POST", {"origin": "http://127.0.0.1:8001"}),
        (403, "MADEUP", {"origin": "https://evil.example"}),
        (403, "POST", {"sec-fetch-site": "cross-site", "authorization": "Basic eA=="}),
    ],
)
def test_a_change_comes_from_our_own_pages_or_carries_a_token(
    client: TestClient, status: int, method: str, headers: dict[str, str]
) -> None:
    answer = client.request(method, "/v1/trajectories", headers=headers)
    assert answer.status_code == status, answer.text
    if status == 403:
        problem(answer, 403, "cross_site")


def test_a_bearer_is_not_ambient(tmp_path: Path) -> None:
    token = "0123456789abcdefXYZ"
    with serving(tmp_path, token=token) as client:
        headers = {"sec-fetch-site": "cross-site", "authorization": f"Bearer {token}"}
        assert client.post("/v1/trajectories", headers=headers).status_code == 415


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (404, "/v1/trajectories/a%00b"), (404, "/%00"), (404, "/static/%00"),
        (404, "/static/..%2f..%2fpyproject.toml"), (404, "/static/../app/main.py"),
        (404, "/v1/trajectories/..%2f..%2fetc/events"), (422, "/v1/trajectories/%F0%9F%98%80"),
        (404, "/v1/trajectories/null"), (422, "/v1/trajectories/%20"),
        (422, "/v1/trajectories/t1/events?after=-" + "9" * 33),
        (422, "/v1/trajectories/t1/events?after=1e3"),
        (422, "/v1/trajectories/t1/events?limit=99999999999"),
        (422, "/v1/trajectories/t1/events/0"), (422, "/v1/trajectories/t1/events/true"),
        (422, "/v1/trajectories/t1/difference?a=1"), (422, "/v1/blobs/sha256:xyz"),
        (404, "/v1/blobs/sha256:" + "0" * 64), (404, "/v1/imports/" + "0" * 32),
        (422, "/v1/imports/zz"), (404, "/v1/nothing"), (404, "/docs"), (404, "/redoc"),
        (404, "/docs/errors/..%2finvalid"), (404, "/docs/errors/nope"),
    ],
)  # fmt: skip
def test_a_hostile_address_is_a_typed_refusal(client: TestClient, status: int, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.json()["request_id"]


def test_a_method_that_an_address_does_not_take(client: TestClient) -> None:
    for method, path in (("PUT", "/v1/trajectories"), ("DELETE", "/v1/trajectories/t1"),
                         ("PATCH", "/livez"), ("PUT", "/v1/trajectories/t1/events")):  # fmt: skip
        answer = client.request(method, path)
        problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"]


def test_a_head_too_large_and_doubled_headers(client: TestClient) -> None:
    huge = client.get("/livez", headers={"x-huge": "a" * 70_000})
    problem(huge, 431, "headers_too_large")
    doubled = client.get("/livez", headers=[("host", "127.0.0.1"), ("host", "localhost")])
    problem(doubled, 400, "bad_request")


def test_every_answer_is_dressed(client: TestClient) -> None:
    paths = ("/livez", "/v1/trajectories", "/v1/none", "/docs/errors/fenced", "/static/none")
    answers = [client.get(path) for path in paths]
    answers.append(client.get("/livez", headers={"host": "evil.example"}))
    answers.append(client.post("/v1/trajectories", content=b"{", headers=JSON))
    answers.append(append(client, note("dressed")))
    for answer in answers:
        headers = answer.headers
        assert headers["x-request-id"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cache-control"] in ("no-store", "no-cache")
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids)


def test_a_callers_own_request_id_is_kept_where_it_is_one(client: TestClient) -> None:
    assert client.get("/livez", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == (
        "mine-1"
    )
    for bad in ("a b", "x" * 65, "<script>"):
        got = client.get("/livez", headers={"x-request-id": bad}).headers["x-request-id"]
        assert got != bad


def test_a_browser_gets_a_page_and_a_program_a_problem(client: TestClient) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    page = client.get("/none", headers=browser)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "not_found" in page.text and "/docs/errors/not_found" in page.text
    assert page.headers["x-request-id"] in page.text
    for accept in ("*/*", "application/json", "application/json, text/html;q=0.5", "", "q=;;,"):
        found = client.get("/none", headers={"accept": accept})
        assert found.headers["content-type"] == "application/problem+json", accept
    api = client.get("/v1/none", headers=browser)
    assert api.headers["content-type"] == "application/problem+json"


def test_head_is_a_get_without_its_body(client: TestClient) -> None:
    for path in ("/livez", "/v1/trajectories/t1", "/docs/errors/fenced"):
        got, head = client.get(path), client.head(path)
        assert head.status_code == 200
        assert head.content == b""
        assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head("/v1/trajectories/none").status_code == 404
