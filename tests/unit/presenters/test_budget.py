"""The budget drawn and tabled: what was not observed is no zero, and nothing is above its box."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from app.presenters import budget
from app.presenters.payloads import Absent
from core.record.record import Account

AMOUNTS = st.integers(0, 10**15)
ACCOUNTS = st.builds(
    Account,
    unit=st.just("nano_usd"),
    consumed=st.integers(-(10**6), 10**15),
    outstanding=AMOUNTS,
    ceiling=st.none() | AMOUNTS,
    finalization_reserve=st.integers(0, 10**9),
    settlements=st.integers(0, 3),
)


@given(st.lists(st.tuples(st.integers(1, 500), st.none() | ACCOUNTS), min_size=2, max_size=12))
def test_a_drawing_stays_in_its_box(raw: list[tuple[int, Account | None]]) -> None:
    at, series = 0, []
    for gap, account in raw:
        at += gap
        series.append((at, account))
    drawn = budget.chart("usd", series)
    if drawn is None:
        return
    for text in (drawn.consumed, drawn.reserved):
        for x, y in re.findall(r"([-\d.e+]+),([-\d.e+]+)", text):
            assert -0.1 <= float(x) <= budget.WIDTH + 0.1
            assert -0.1 <= float(y) <= budget.HEIGHT + 0.1
    if drawn.ceiling is not None:
        assert 0 <= drawn.ceiling <= budget.HEIGHT


def test_an_account_without_a_report_has_no_consumption() -> None:
    row = budget.account_row(
        "usd", Account("nano_usd", ceiling=10**9), reservations="recorded", observes=True
    )
    assert isinstance(row.consumed, Absent) and row.reserved == "$0.00"
    assert row.ceiling == "$1.00" and row.left == "$1.00"


def test_reservations_that_a_source_never_has_are_not_zero() -> None:
    row = budget.account_row(
        "usd", Account("nano_usd", 5, settlements=1), reservations="absent", observes=True
    )
    assert isinstance(row.reserved, Absent) and isinstance(row.ceiling, Absent)


def test_usage_above_the_ceiling_is_shown_whole() -> None:
    account = Account("tokens", 150, 20, 100, 10, 7, 1)
    row = budget.account_row("tokens", account, reservations="recorded", observes=True)
    assert row.consumed == "150 tokens" and row.left == "0 tokens"
    assert row.over == "50 tokens above the ceiling, 7 tokens above bounds"
    drawn = budget.chart("tokens", [(0, None), (10, account)])
    assert drawn is not None and drawn.top == "170 tokens" and not drawn.above


def test_a_ceiling_far_above_is_said_and_not_drawn() -> None:
    drawn = budget.chart("usd", [(0, None), (9, Account("nano_usd", 10, 0, 10**9, 0, 0, 1))])
    assert drawn is not None and drawn.ceiling is None and "$1.00" in drawn.above
