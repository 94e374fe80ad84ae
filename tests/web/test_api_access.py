"""Who may come in: tokens, roles, and a marker on every route."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount
from starlette.testclient import TestClient

from app import auth, docs_pages, errors, logs, metrics
from app.main import create_app
from app.paths import ERROR_DOCS
from app.settings import load
from core import errors as core_errors
from core.errors import DomainUnavailable, InvalidInput, StrandlineError
from core.events.task import TaskStarted
from core.ids import tenant
from core.principal import Principal
from tests.web.api_world import append, create, note, owned, parts, problem, serving, settings

TOKEN = "stl_test_0123456789abcdef"
LOCAL = "stl_local_0123456789abcdef"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("access")
    app = create_app(settings(folder, token=TOKEN, host="0.0.0.0"), local_token=LOCAL)
    with TestClient(app, base_url="http://127.0.0.1:8000") as opened:
        yield opened


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    "headers",
    [
        {}, bearer("x"), bearer(TOKEN + "x"), bearer(TOKEN[:-1]), bearer(""), basic("me", "x"),
        basic(TOKEN, ""), {"authorization": TOKEN}, {"authorization": "Digest x"},
        {"authorization": "Basic ???"}, {"authorization": "Basic"}, {"authorization": ""},
        {"cookie": f"token={TOKEN}"},
    ],
)  # fmt: skip
def test_without_the_token_nothing_is_answered(client: TestClient, headers: dict[str, str]) -> None:
    for path in ("/", "/v1/trajectories", "/v1/facts", "/metrics", "/openapi.json", "/import"):
        answer = client.get(path, headers=headers)
        found = problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert TOKEN not in answer.text and found["outcome"] == "refused"
    assert client.get(f"/v1/trajectories?token={TOKEN}").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [bearer(TOKEN), bearer(LOCAL), basic("anybody", TOKEN), {"authorization": f"bearer {TOKEN}"}],
)
def test_with_the_token_everything_is(client: TestClient, headers: dict[str, str]) -> None:
    for path in ("/v1/trajectories", "/v1/facts", "/metrics", "/openapi.json"):
        assert client.get(path, headers=headers).status_code == 200


def test_a_wrong_credential_is_refused_even_where_none_is_needed(client: TestClient) -> None:
    assert client.get("/livez").status_code == 200
    assert client.get("/docs/errors/unauthorized").status_code == 200
    problem(client.get("/livez", headers=bearer("wrong")), 401, "unauthorized")


def test_on_this_machine_without_a_token_all_is_allowed_but_a_wrong_one(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert client.get("/v1/facts").status_code == 200
        problem(client.get("/v1/facts", headers=bearer("wrong-token")), 401, "unauthorized")


def test_a_role_that_is_missing_is_forbidden() -> None:
    reader = Principal(tenant("local"), "reader", frozenset({"read"}))
    assert auth.permitted(reader, "read") is reader
    for who, code in ((reader, "forbidden"), (None, "unauthorized")):
        with pytest.raises(errors.HttpRefused) as caught:
            auth.permitted(who, "write")
        assert errors.code_of(caught.value) == code


# --- settings that would be open to strangers ------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_a_reachable_address_without_a_token_does_not_start(tmp_path: Path, host: str) -> None:
    with pytest.raises(InvalidInput, match="STRANDLINE_TOKEN"):
        create_app(settings(tmp_path, host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.9"])
def test_this_machine_needs_none(tmp_path: Path, host: str) -> None:
    create_app(settings(tmp_path, host=host))


@pytest.mark.parametrize(
    "token", ["", " ", "short", "a" * 40, "password12345678", "changeme!!!!!!!!!",
              "tab\tinside" * 4, "has a space in it, long", "ünicode-ünicode-ünicode"],
)  # fmt: skip
def test_a_weak_token_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(InvalidInput, match="STRANDLINE_TOKEN") as caught:
        settings(tmp_path, token=token)
    assert token.strip() == "" or token not in str(caught.value)


def test_settings_name_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DomainUnavailable, match="standbys"):
        settings(tmp_path, domain="volume")
    with pytest.raises(InvalidInput, match="STRANDLINE_PORT"):
        settings(tmp_path, port=70_000)
    with pytest.raises(InvalidInput, match="STRANDLINE_TENANT"):
        settings(tmp_path, tenant="../x")
    with pytest.raises(InvalidInput, match="no other store"):
        _ = load(store="postgresql://host/db").data_folder
    assert load(store="sqlite:///srv/a%20b").data_folder == Path("/srv/a b")
    monkeypatch.setenv("STRANDLINE_DATA", "/from/env")
    monkeypatch.setenv("STRANDLINE_ALLOWED_HOSTS", "A.example, b.example:8000 ,")
    assert load().data_folder == Path("/from/env")
    assert load(data=Path("/given")).data_folder == Path("/given")
    assert load().allowed_hosts == ("a.example", "b.example:8000")


# --- every route says who may use it ---------------------------------------------------------


def _routes(routes: Any) -> Iterator[Any]:
    for route in routes:
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        if inner is not None and not isinstance(route, APIRoute):
            yield from _routes(inner.routes)
        else:
            yield route


def _markers(dependant: Any) -> set[str]:
    found = {getattr(dependant.call, auth.MARKER, None)}
    for part in dependant.dependencies:
        found |= _markers(part)
    return {marker for marker in found if marker is not None}


def test_every_route_carries_an_authorization_marker(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path))
    seen = set()
    for route in _routes(app.routes):
        if isinstance(route, Mount):
            assert route.path in auth.PUBLIC_MOUNTS, f"{route.path} is mounted and not public"
            continue
        assert isinstance(route, APIRoute), f"{route!r} is a route that carries no marker"
        markers = _markers(route.dependant)
        assert markers, f"{route.path} does not say who may use it"
        if markers == {"public"}:
            assert auth.is_public(route.path) or route.path == "/keys", route.path
        if {"POST", "PUT", "DELETE", "PATCH"} & set(route.methods):
            assert markers & {"write", "import", "operate"}, f"{route.path} changes, unmarked"
        seen.add(route.path)
    assert {"/v1/trajectories", "/v1/blobs/{digest}", "/livez", "/import", "/"} <= seen


def test_the_walk_finds_a_route_without_one(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path))

    @app.get("/forgotten")
    def forgotten() -> None:
        return None

    found = [route for route in _routes(app.routes) if getattr(route, "path", "") == "/forgotten"]
    assert _markers(found[0].dependant) == set()


def test_the_quick_append_and_the_declared_route_answer_alike(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        owned(client)
        guard = _guard_of(client.app)
        direct, guard.append = guard.append, None
        assert direct is not None
        bodies: list[dict[str, Any]] = [
            {}, {"owner_epoch": 1}, {"owner_epoch": True},
        ]  # fmt: skip
        for how in (direct, None):
            guard.append = how
            name = "direct" if how is not None else "declared"
            answer = append(client, note(f"{name}-event"))
            assert answer.status_code == 201
            assert set(answer.json()) >= {"outcome", "chain", "failure_domain"}
        path = "/v1/trajectories/t1/events"
        for body in bodies:
            answers = []
            for how in (direct, None):
                guard.append = how
                found = client.post(path, json=body).json()
                answers.append({key: found[key] for key in found if key != "request_id"})
            assert answers[0] == answers[1]
        for how in (direct, None):
            guard.append = how
            problem(client.post(path, content=b"{}"), 415, "unsupported_media_type")
            problem(append(client, note("x"), name="none"), 404, "not_found")


def _guard_of(app: Any) -> Any:
    from app.guards import Guard

    layer = app.middleware_stack
    while not isinstance(layer, Guard):
        layer = layer.app
    return layer


# --- every refusal is documented -------------------------------------------------------------


def _codes(kind: type[StrandlineError]) -> Iterator[str]:
    for child in kind.__subclasses__():
        if child.__module__ == core_errors.__name__:
            if child.code != "error":
                yield child.code
            yield from _codes(child)


def test_every_code_has_an_answer_and_a_page() -> None:
    assert set(_codes(StrandlineError)) <= set(errors.ANSWERS)
    pages = {path.stem for path in ERROR_DOCS.glob("*.md")}
    assert pages == set(errors.ANSWERS)
    for code in pages:
        text = (ERROR_DOCS / f"{code}.md").read_text()
        for heading in (f"# `{code}`", "## What is true now", "## Why", "## What to do\n\n- "):
            assert heading in text, (code, heading)
        assert "<h1>" in docs_pages.doc(code)


def test_only_a_failed_barrier_or_fault_leaves_the_outcome_open() -> None:
    unknown = {code for code, answer in errors.ANSWERS.items() if answer.outcome == "unknown"}
    assert unknown == {"ack_unknown", "internal", "not_reconstructed"}
    for code in ("busy", "rate_limited", "store_full"):
        answer = errors.ANSWERS[code]
        assert answer.retry_after_seconds and answer.outcome == "refused"
    statuses = {
        code: errors.ANSWERS[code].status for code in ("busy", "rate_limited", "store_full")
    }
    assert statuses == {"busy": 503, "rate_limited": 429, "store_full": 507}
    assert errors.ANSWERS["ack_unknown"].status == 503


def test_the_pages_of_the_codes_are_served(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        listing = client.get("/docs/errors")
        for code in errors.ANSWERS:
            assert f"/docs/errors/{code}" in listing.text
            page = client.get(f"/docs/errors/{code}")
            assert page.status_code == 200
            assert "What to do" in page.text


# --- secrets stay out of logs ----------------------------------------------------------------


def test_logs_hide_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    import logging
    import sys

    import structlog

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        logs.configure("info", "json")
        secrets = [
            "Authorization: Bearer abc.def.ghi123", 'api_key="supersecretvalue"',
            "postgres://u:hunter2hunter2@db/x", "sk-abcdefghijklmnop1234", f"token {TOKEN}",
            '{"password": "correcthorse"}',
        ]  # fmt: skip
        for text in secrets:
            structlog.get_logger("x").warning(text, more=text)
            logging.getLogger("lib").warning("said %s", text)
        try:
            raise ValueError(secrets[0])
        except ValueError:
            structlog.get_logger("x").error("failed", exc_info=True)
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers.clear()
    written = stream.getvalue()
    lines = [json.loads(line) for line in written.splitlines()]
    assert len(lines) == 2 * len(secrets) + 1
    for word in ("abc.def", "supersecret", "hunter2", "abcdefghijkl", "0123456789", "correcthorse"):
        assert word not in written, word


# --- what one tenant is told of the store ------------------------------------------------------


def test_an_audit_over_http_tells_nothing_of_another_tenant(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        create(client, "mine")
        runtime = parts(client).runtime
        other = Principal(tenant("other"), "tests", frozenset({"write"}))
        runtime.create(
            other,
            request_id="r",
            standing="reported",
            task=TaskStarted(standing="reported", title="x"),
            trajectory_id="theirs",
        )
        said = client.get("/v1/audit").text
        assert "mine" in said and "theirs" not in said
        assert '{"done":true,"findings":0}' in said
        whole = [step for step in parts(client).audit() if isinstance(step, str)]
        assert "checking theirs" in whole


def test_every_refused_write_is_counted_once(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        owned(client)
        runtime = parts(client).runtime

        def counted() -> dict[str, int]:
            return metrics.refused_writes(client.app.state.refused, runtime.stats())  # type: ignore[attr-defined]

        before = counted()
        assert client.post("/v1/trajectories", json={}).status_code == 422  # before the store
        assert append(client, note("e1"), epoch=7).status_code == 409  # by the store
        assert client.get("/v1/trajectories/none").status_code == 404  # no write
        grown = {code: n - before.get(code, 0) for code, n in counted().items()}
        assert {code: n for code, n in grown.items() if n} == {"invalid": 1, "fenced": 1}
        text = client.get("/metrics").text
        assert 'strandline_http_refused_writes_total{code="invalid"}' in text
        page = client.get("/health", headers={"accept": "text/html"}).text
        assert "No write" not in page
