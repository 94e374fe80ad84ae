"""What tokens cost by a table: exact sums, the most exact name, and nothing that is not known."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.acts import PRICE_NANO_USD_MAX, Act, Price
from core.errors import InvalidInput
from core.limits import INTEGER_MAX
from core.record.record import ModelTokens, TokenTotals
from core.rules import price_list
from core.rules.prices import (
    PriceRow,
    Table,
    check_day,
    day_of,
    derive,
    nano_usd,
    shipped,
    table_of,
    usd,
)

USD = 1_000_000_000


def row(
    model: str, since: str = "2026-01-01", price: int = USD, act: int | None = None
) -> PriceRow:
    return PriceRow(model, since, price, 2 * price, 3 * price, 4 * price, act=act)


def total(*parts: ModelTokens) -> TokenTotals:
    return TokenTotals(
        sum(one.input for one in parts),
        sum(one.output for one in parts),
        sum(one.cache_read for one in parts),
        sum(one.cache_write for one in parts),
    )


def test_the_most_exact_name_wins_then_the_newest_day_that_is_not_later() -> None:
    table = Table(
        [
            row("m*", price=1),
            row("model-a*", price=2),
            row("model-a-2026", price=3),
            row("model-a-2026", "2026-06-01", price=4),
        ]
    )

    def found(name: str, day: str | None) -> int | None:
        price = table.find(name, day)
        return price.input if price is not None else None

    assert found("model-a-2026", "2026-05-31") == 3
    assert found("model-a-2026", "2026-06-01") == 4
    assert found("model-a-2026", None) == 4
    assert found("model-a-2025", "2026-05-31") == 2
    assert found("model-b", "2026-05-31") == 1
    assert found("model-a-2026", "2025-12-31") is None
    assert found("other", None) is None


def test_a_model_through_another_door_has_the_price_of_its_name_unless_it_has_its_own() -> None:
    table = Table([row("m", price=1), row("dear/m", price=9)])
    assert table.find("cheap/m", None) == row("m", price=1)
    assert table.find("a/b/m", None) == row("m", price=1)
    assert table.find("dear/m", None) == row("dear/m", price=9)
    assert table.find("m/other", None) is None


def test_what_a_person_states_stands_instead_of_what_is_shipped() -> None:
    model, since = shipped()[0].model, shipped()[0].since
    act = Act(7, "local", "price", None, None, Price(model, since, 1, 2, 3, 4), "ann", None, 0, "r")
    table = table_of([act])
    assert len(table.rows) == len(shipped())
    assert [one for one in table.rows if one.act is not None] == [
        PriceRow(model, since, 1, 2, 3, 4, "", 7)
    ]
    assert table.digest != table_of([]).digest == table_of([]).digest


def test_a_cost_is_the_sum_over_models_and_kinds() -> None:
    a, b = ModelTokens(1_000_000, 500_000, 0, 0), ModelTokens(0, 0, 2_000_000, 250_000)
    table = Table([row("a"), row("b", price=2 * USD)])
    found = derive({"a": a, "b": b}, total(a, b), "2026-03-01", table)
    # a: 1 + 0.5 x 2; b: 2 x 6 + 0.25 x 8.
    assert [one.nano_usd for one in found.models] == [2 * USD, 14 * USD]
    assert found.nano_usd == 16 * USD
    assert not found.undated


def test_what_has_no_price_is_named_and_never_zero() -> None:
    a, b = ModelTokens(1_000_000, 0, 0, 0), ModelTokens(5, 0, 0, 0)
    table = Table([row("a")])
    found = derive({"a": a, "b": b}, total(a, b), "2026-03-01", table)
    assert found.nano_usd is None
    assert found.priced_nano_usd == USD
    assert found.unpriced == ("b",)
    # Tokens of replies that name no model belong to no entry, and have no price either.
    rest = derive({"a": a}, TokenTotals(1_000_001, 0, 0, 0), "2026-03-01", table)
    assert (rest.nano_usd, rest.unpriced) == (None, (None,))
    assert rest.models[-1].tokens == ModelTokens(1, 0, 0, 0)


def test_no_tokens_have_no_cost_and_no_time_takes_the_newest() -> None:
    table = Table([row("a"), row("a", "2027-01-01", price=5 * USD)])
    assert derive({}, TokenTotals(), "2026-01-01", table).nano_usd is None
    assert derive({"a": ModelTokens()}, TokenTotals(), None, table).nano_usd is None
    tokens = ModelTokens(1_000_000, 0, 0, 0)
    undated = derive({"a": tokens}, total(tokens), None, table)
    assert (undated.nano_usd, undated.undated) == (5 * USD, True)


def test_a_free_model_costs_nothing_and_says_so() -> None:
    tokens = ModelTokens(10, 10, 10, 10)
    assert derive({"a": tokens}, total(tokens), None, Table([row("a", price=0)])).nano_usd == 0


@given(
    tokens=st.lists(st.integers(0, 10**12), min_size=4, max_size=4),
    prices=st.lists(st.integers(0, PRICE_NANO_USD_MAX), min_size=4, max_size=4),
)
def test_sums_are_exact_and_rounded_once(tokens: list[int], prices: list[int]) -> None:
    of = ModelTokens(*tokens)
    found = derive({"m": of}, total(of), None, Table([PriceRow("m", "2026-01-01", *prices)]))
    exact = sum(one * price for one, price in zip(tokens, prices, strict=True))
    if any(tokens):
        assert found.nano_usd is not None
        assert found.nano_usd <= INTEGER_MAX
        if found.nano_usd < INTEGER_MAX:
            assert abs(2 * (found.nano_usd * 1_000_000 - exact)) <= 1_000_000
    else:
        assert found.nano_usd is None


@pytest.mark.parametrize(
    ("text", "nano"),
    [("3", 3 * USD), ("0.075", 75_000_000), (" 15.0 ", 15 * USD), ("0", 0), ("0.000000001", 1)],
)
def test_a_price_is_typed_in_usd(text: str, nano: int) -> None:
    assert nano_usd(text) == nano
    assert nano_usd(usd(nano)) == nano


@pytest.mark.parametrize(
    "text", ["", ".", "-1", "1e3", "1,5", "3 USD", "nan", "\u0663", "0.0000000001", "100001", "1_0"]
)
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"a price|cost at most"):
        nano_usd(text)


@pytest.mark.parametrize("text", ["2026-02-30", "2026", "20260101x", "", "01.02.2026"])
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="YYYY-MM-DD"):
        check_day(text)


def test_a_day_is_that_of_the_instant_in_utc() -> None:
    assert day_of(None) is None
    assert day_of(1_767_225_599_999_999) == "2025-12-31"
    assert day_of(1_767_225_600_000_000) == "2026-01-01"


def test_shipped_prices_are_whole_dated_and_say_where_they_are_from() -> None:
    rows = shipped()
    assert len({(one.model, one.since) for one in rows}) == len(rows)
    assert {one.source for one in rows} == {price_list.ANTHROPIC, price_list.OPENAI}
    checked = dt.date.fromisoformat(price_list.CHECKED + "-01") + dt.timedelta(days=31)
    for one in rows:
        assert dt.date.fromisoformat(one.since) <= checked
        assert 0 < one.cache_read <= one.input <= one.cache_write
        assert one.input < one.output
        # A beginning is of dated names only, so that it reaches no later model.
        assert not one.model.endswith("*") or one.model.endswith("-20*")


def test_no_shipped_price_reaches_a_model_that_only_begins_alike() -> None:
    table = table_of([])
    for name in (
        "claude-opus-4-9",
        "claude-sonnet-4-5-fast",
        "gpt-5-pro",
        "gpt-4o-realtime",
        "o3-pro",
    ):
        assert table.find(name, None) is None
    for name in ("claude-sonnet-4-20250514", "claude-opus-4-20250514", "gpt-5-2025-08-07"):
        assert table.find(name, None) is not None
