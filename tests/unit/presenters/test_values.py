"""Values of the record as text: objects as fields, money in its unit, bounded."""

from __future__ import annotations

import pytest

from app.presenters import values

UNITS = {"usd": "nano_usd", "compute": "ms"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("scope.title", "as it is", "as it is"),
        ("budget.accounts.usd.consumed", 500_000_000, "$0.50"),
        ("budget.accounts.compute.outstanding", 60_000, "1 m 00 s"),
        ("budget.accounts.usd.settlements", 1234, "1,234"),
        ("budget.open.e-1.bounds", {"usd": 60_000_000}, "usd $0.0600"),
        ("scope.deadline_at", 1_793_487_600_000_000, "2026-10-31 23:00:00.000000 UTC"),
        ("control.reason", None, "none"),
        ("control.eligible", [], "none"),
        ("context.models", ["a", "b"], "a, b"),
        ("calls.closed.c-1", {"invocation_id": "c-1", "step": 79}, "step 79"),
        ("scope.cut", True, "yes"),
    ],
)
def test_a_value_is_said_as_people_read_it(path: str, value: object, said: str) -> None:
    assert values.readable(path, value, UNITS) == said


def test_a_large_value_is_bounded_and_says_so() -> None:
    said = values.readable("x", {f"k{n}": n for n in range(50)}, {})
    assert said.endswith(f"and {50 - values.FIELDS_MAX} more fields")


def test_units_are_read_from_accounts_in_either_form() -> None:
    assert values.units_of({"usd": {"unit": "nano_usd"}, "x": {}}) == {"usd": "nano_usd"}
