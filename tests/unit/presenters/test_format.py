"""Numbers, sizes, times and money as people read them."""

from __future__ import annotations

import pytest

from app.presenters import format as fmt

S = fmt.SECOND


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_800, "1.80 ms"),
        (12_345, "12.3 ms"),
        (999_000, "999 ms"),
        (9 * S + 300_000, "9.30 s"),
        (59 * S + 940_000, "59.9 s"),
        (59 * S + 990_000, "1 m 00 s"),
        (107 * 60 * S, "1 h 47 m"),
        (50 * 3600 * S, "2 d 2 h"),
        (-5 * S, "-5.00 s"),
    ],
)
def test_durations_have_three_figures_below_a_minute_and_two_units_above(
    value: int, text: str
) -> None:
    assert fmt.duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_048_576, "1.05 MB"),
        (999_600, "1.00 MB"),
        (14_200_000, "14.2 MB"),
    ],
)
def test_sizes_carry_on_to_the_next_unit(value: int, text: str) -> None:
    assert fmt.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "$0.00"),
        (420_000_000, "$0.42"),
        (1_234_000, "$0.001234"),
        (23_000_000, "$0.0230"),
        (6_880_000_000, "$6.88"),
        (1_000, "$0.000001"),
        (1, "$0.000000001"),
    ],
)
def test_small_money_is_never_shown_as_nothing(value: int, text: str) -> None:
    assert fmt.money(value) == text


def test_relative_times_name_one_unit() -> None:
    assert [fmt.ago(n * S) for n in (0, 4, 60, 3600, 50 * 3600, 90 * 86400)] == [
        "now",
        "4 s",
        "1 m",
        "1 h",
        "2 d",
        "3 months",
    ]
    assert fmt.ago(-90 * S) == "in 1 m"


def test_a_moment_carries_its_exact_instant() -> None:
    at = fmt.moment(1_700_000_000_000_001, 1_700_000_007_000_001)
    assert (at.text, at.exact) == ("7 s", "2023-11-14 22:13:20.000001 UTC")
    assert at.iso == "2023-11-14T22:13:20.000001Z"


def test_ids_and_digests_keep_both_ends() -> None:
    assert fmt.short_digest("sha256:" + "ab" * 30 + "0123") == "abab…0123"
    assert fmt.short_id("tr_01JE9K4") == "tr_01JE9K4"
    assert fmt.short_id("tr_0123456789abcdefghij") == "tr_01234…ghij"
