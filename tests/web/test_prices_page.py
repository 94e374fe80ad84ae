"""The price page: the table, stating a price, taking it back, and two people at it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.presenters.budget import token_rows
from core.record.record import ModelTokens, TokenTotals
from core.rules.prices import PriceRow, Table, derive
from tests.web.api_world import BASE, append, owned, parts, serving
from tests.web.pages_world import HOSTILE, WHO

PAGE = "/settings/prices"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as made:
        made.headers["origin"] = BASE
        yield made


def hidden(client: TestClient, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', client.get(PAGE).text)
    assert found is not None
    return found[1]


def stated(client: TestClient) -> list[PriceRow]:
    """Prices that are not shipped."""
    return [row for row in parts(client).runtime.price_table(WHO).rows if row.act is not None]


def state(client: TestClient, **more: str) -> int:
    fields = {
        "model": "scripted/*",
        "since": "2026-01-01",
        "input": "3",
        "output": "15.5",
        "cache_read": "",
        "cache_write": "3.75",
        "source": "our contract",
        "last": hidden(client, "last"),
        "request_id": hidden(client, "request_id"),
    }
    answer = client.post(PAGE, data={**fields, **more}, follow_redirects=False)
    if answer.status_code == 303:
        assert re.fullmatch(rf"{PAGE}#act-\d+", answer.headers["location"])
    return answer.status_code


def test_the_table_says_what_is_shipped_from_where_and_when(client: TestClient) -> None:
    page = client.get(PAGE).text
    assert "claude-sonnet-4-5" in page
    assert "platform.claude.com" in page
    assert "Check before relying on them" in page
    assert "Only shipped prices hold" in page
    assert 'aria-current="page">Settings' in page


def test_a_price_is_stated_shown_copied_and_taken_back(client: TestClient) -> None:
    assert state(client) == 303
    (row,) = stated(client)
    assert (row.input, row.output) == (3 * 10**9, 15_500_000_000)
    # A cache price that is not given is that of input.
    assert (row.cache_read, row.cache_write) == (3 * 10**9, 3_750_000_000)
    page = client.get(PAGE).text
    assert "local, act 1" in page
    assert "scripted/* from 2026-01-01: input 3, output 15.5, cache read 3" in page
    copied = client.get(PAGE, params={"model": "scripted/*", "since": "2026-01-01"}).text
    assert 'name="output" value="15.5"' in copied
    taken = client.post(
        f"{PAGE}/retract",
        data={"number": "1", "last": hidden(client, "last"), "request_id": "x1"},
        follow_redirects=False,
    )
    assert taken.headers["location"] == f"{PAGE}#act-2"
    assert stated(client) == []
    page = client.get(PAGE).text
    assert "took back act 1, scripted/* from 2026-01-01" in page
    assert "our contract" in page


def test_a_form_sent_twice_is_one_price(client: TestClient) -> None:
    last, request_id = hidden(client, "last"), hidden(client, "request_id")
    assert state(client, last=last, request_id=request_id) == 303
    assert state(client, last=last, request_id=request_id) == 303
    assert len(client.get("/v1/acts").json()["acts"]) == 1


def test_who_opened_the_page_before_another_one_changed_it_is_told(client: TestClient) -> None:
    last = hidden(client, "last")
    assert state(client) == 303
    assert state(client, last=last, input="9") == 409
    assert len(client.get("/v1/acts").json()["acts"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": "three"},
        {"input": ""},
        {"output": "-1"},
        {"since": "tomorrow"},
        {"model": ""},
        {"model": "x" * 101},
        {"source": "x" * 201},
        {"last": ""},
        {"last": "9" * 30},
        {"request_id": ""},
    ],
)
def test_what_is_no_price_is_refused_and_nothing_stated(
    client: TestClient, wrong: dict[str, str]
) -> None:
    assert state(client, **wrong) == 422
    assert client.get("/v1/acts").json()["acts"] == []


def test_another_site_states_no_price(client: TestClient) -> None:
    client.headers["origin"] = "https://evil.example"
    assert state(client) == 403
    assert client.get("/v1/acts").json()["acts"] == []


def test_what_people_typed_acts_on_no_page(client: TestClient) -> None:
    text = HOSTILE[:100]
    assert state(client, model=text.replace("\r\n", " "), source=text) == 303
    page = client.get(PAGE).text
    assert "<script>window" not in page
    assert "<img src=x" not in page


def test_a_page_derives_the_cost_of_its_own_boundary_and_says_so(client: TestClient) -> None:
    owned(client)
    reply = {
        "event_id": "a",
        "type": "ModelReplied",
        "schema_version": 1,
        "invocation_id": "c1",
        "payload": {
            "status": "completed",
            "model": "scripted/one",
            "usage": {"input": 1_000_000, "output": 0, "cache_read": 0, "cache_write": 0},
        },
    }
    assert append(client, reply).status_code == 201
    assert append(client, reply | {"event_id": "b", "invocation_id": "c2"}).status_code == 201
    assert "derived" not in client.get("/t/t1/@3").text
    assert state(client) == 303
    assert "cost <b>$3.00</b> derived" in client.get("/t/t1/@3").text
    assert "cost <b>$6.00</b> derived" in client.get("/t/t1/@4").text
    assert "derived" not in client.get("/t/t1/@2").text


def test_what_cannot_be_taken_keeps_the_form_and_names_the_field(client: TestClient) -> None:
    for field, value, why in (
        ("output", "1,50", "decimal number"),
        ("since", "soon", "YYYY-MM-DD"),
        ("model", "x" * 101, "model"),
        ("cache_read", "free", "decimal number"),
    ):
        sent = {
            "model": "mine", "since": "2026-02-03", "input": "3", "output": "4",
            "cache_read": "", "cache_write": "", "source": "our \"own\"",
            "last": hidden(client, "last"), "request_id": hidden(client, "request_id"),
        }  # fmt: skip
        answer = client.post(PAGE, data={**sent, field: value}, follow_redirects=False)
        assert answer.status_code == 422 and 'role="alert"' in answer.text
        assert why in answer.text and "Not stated" in answer.text
        wrong = re.search(rf'name="{field}"[^>]*value="([^"]*)" aria-invalid="true"', answer.text)
        assert wrong is not None and wrong[1] == value
        assert answer.text.count("aria-invalid") == 1
        assert field == "source" or 'value="our &#34;own&#34;"' in answer.text
    assert not stated(client)


def test_a_price_that_begins_later_is_not_called_missing() -> None:
    table = Table(
        [PriceRow("m*", "2026-03-01", 1, 1, 1, 1), PriceRow("m*", "2026-05-01", 2, 2, 2, 2)]
    )
    used = {"m-1": ModelTokens(5), "other": ModelTokens(5)}
    found = derive(used, TokenTotals(10), "2026-02-01", table)
    assert [(one.model, one.begins) for one in found.models] == [
        ("m-1", "2026-03-01"),
        ("other", None),
    ]
    first, second = token_rows(found)
    assert first.basis == "its price begins on 2026-03-01, after this session"
    assert (second.basis, second.price) == ("", "")
