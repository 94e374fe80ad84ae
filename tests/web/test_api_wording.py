"""What a refusal says: one sentence that names the parameter, what was given, what is expected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app import complaints
from tests.web.api_world import append, create, note, owned, problem, serving
from tests.web.test_api_access import _routes as routes

#: What only a program's author reads.
LEAKS = re.compile(r"literal\[|Input should|pattern|\^|\{'|\['|`|\bstr\b|\bint\b|dict|\$\.")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("wording")) as opened:
        owned(opened)
        yield opened


SENTENCES = (
    ("/trajectories?sort=bogus", "sort in the query is “bogus”; expected: one of active, updated"),
    ("/trajectories?status=x", "status in the query is “x”; expected: one of "),
    ("/trajectories?limit=abc", "expected: a whole number of up to 4 digits"),
    ("/t/x/@abc", "the boundary in the address is “abc”; expected: a whole number"),
    ("/t/x/@-1", "the boundary in the address is “-1”; expected: a whole number of at least 0"),
    ("/t/t1?tab=bogus", "tab in the query is “bogus”; expected: one of event, conversation"),
    ("/import/xyz", "the import's id in the address is “xyz”; expected: 32 hex digits"),
    ("/v1/trajectories?sort=bogus", "expected: one of active, updated"),
    ("/v1/trajectories?limit=5000", "expected: a whole number of at most 200"),
    ("/v1/trajectories/t1/record/zz", "expected: a whole number from 0, or head"),
    ("/v1/trajectories/t1/difference?a=1", "b in the query is missing; it must be given"),
    ("/v1/blobs/xx", "expected: sha256: and 64 hex digits"),
)


@pytest.mark.parametrize(("path", "says"), SENTENCES)
def test_an_address_that_is_not_allowed_is_said_in_a_sentence(
    client: TestClient, path: str, says: str
) -> None:
    found = problem(client.get(path, headers={"accept": "application/json"}), 422, "invalid")
    assert says in found["detail"]
    assert not LEAKS.search(str(found["detail"])), found["detail"]
    page = client.get(path, headers={"accept": "text/html"})
    if path.startswith("/v1/"):
        return
    assert page.status_code == 422
    text = re.sub(r"<[^>]*>", " ", page.text[page.text.index("errpage") :]).replace("&#39;", "'")
    assert says[1:] in text
    assert not LEAKS.search(text.replace("Code ", "")), text


BODIES: tuple[tuple[Any, str], ...] = (
    ({}, "request_id is missing"),
    ([], "the body is a list; expected: an object"),
    (
        {"request_id": 1, "standing": "gated", "task": {}},
        "request_id is a number; expected: a text",
    ),
    ({"request_id": "a b", "standing": "gated", "task": {}}, "ASCII characters without spaces"),
    ({"request_id": "a", "standing": "x", "task": {}}, "expected: one of gated, reported"),
    ({"request_id": "a", "standing": "gated", "task": {"title": 5}}, "title of task is a whole"),
    ({"request_id": "a", "standing": "gated", "task": {"zz": 5}}, "field zz, which is not known"),
    ({"request_id": "a", "standing": "gated", "task": {}, "zz": 1}, "zz is not a known field"),
)


@pytest.mark.parametrize(("body", "says"), BODIES)
def test_a_body_that_is_not_allowed_is_said_in_a_sentence(
    client: TestClient, body: Any, says: str
) -> None:
    found = problem(client.post("/v1/trajectories", json=body), 422, "invalid")
    assert says in found["detail"], found["detail"]
    for text in (found["detail"], *(item["why"] for item in found.get("errors", ()))):
        assert not LEAKS.search(text), text


EVENT = {"event_id": "e1", "schema_version": 1}


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({**EVENT, "type": "PlanChanged", "payload": {}}, "payload of PlanChanged lacks the field"),
        ({**EVENT, "type": "PlanChanged", "payload": {"zz": 1}}, "PlanChanged"),
        ({**EVENT, "type": 3, "payload": {}}, "events[0].type of the body is a whole number"),
        ({"event_id": "e1"}, "events[0] of the body lacks the field type"),
        ({**note("e1"), "zz": 1}, "events[0] of the body has a field zz"),
        ({**note("e1"), "payload": []}, "payload of the body is a list; expected: an object"),
    ],
)
def test_an_event_that_is_not_allowed_is_said_in_a_sentence(
    client: TestClient, event: dict[str, Any], says: str
) -> None:
    found = problem(append(client, event), 422, "invalid")
    assert says in found["detail"], found["detail"]
    assert not LEAKS.search(str(found["detail"])), found["detail"]


def test_every_pattern_of_an_address_has_its_words(client: TestClient) -> None:
    app: Any = client.app
    patterns = set()
    for route in routes(app.routes):
        dependant = getattr(route, "dependant", None)
        for field in (*dependant.path_params, *dependant.query_params) if dependant else ():
            for rule in field.field_info.metadata:
                if getattr(rule, "pattern", None):
                    patterns.add(rule.pattern)
    assert len(patterns) >= 5
    for pattern in patterns:
        words = complaints._of_pattern(pattern)
        assert words != "a text of another form", pattern


def test_an_error_page_keeps_an_ids_letters_and_leads_to_what_there_is(client: TestClient) -> None:
    create(client, "demo-build")
    page = client.get("/t/demo-build/@999", headers={"accept": "text/html"})
    assert page.status_code == 404
    assert "demo-build has no boundary 999" in page.text and "Demo-build" not in page.text
    assert 'href="/t/demo-build"' in page.text
