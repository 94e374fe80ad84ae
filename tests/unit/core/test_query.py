"""The query language: every text means something or says where it does not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.limits import QUERY_CHARS_MAX, QUERY_TERMS_MAX
from core.query import KEYS, parse, quoted

NOW = 1_760_000_000_000_000
DAY = 86_400_000_000
MARCH = 1_740_787_200_000_000
"""2025-03-01T00:00:00Z."""


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_key_is_read_by_its_own_example(key) -> None:  # type: ignore[no-untyped-def]
    query = parse(key.example, NOW)
    assert not query.mistakes and query.terms[0].key == key.name and query.terms[0].said


@pytest.mark.parametrize(
    ("text", "test", "values", "upto", "said"),
    [
        ("status:failed,Paused", "is", ("FAILED", "PAUSED"), None, "is FAILED or PAUSED"),
        ("-status:failed", "is", ("FAILED",), None, "is not FAILED"),
        ("model:claude-*", "begins", ("claude-",), None, "begins with “claude-”"),
        ('model:"claude-*"', "is", ("claude-*",), None, "is claude-*"),
        ("cost:>0.10", "gt", (100_000_000,), None, "more than $0.10"),
        ("-cost:>0.10", "gt", (100_000_000,), None, "at most $0.10"),
        ("cost:none", "none", (), None, "was never recorded"),
        ("-cost:none", "none", (), None, "is recorded"),
        ("tokens:>=1.5m", "ge", (1_500_000,), None, "at least 1,500,000"),
        ("events:1..10", "ge", (1,), 11, "from 1 to 10"),
        ("events:1,2k", "is", (1, 2000), None, "is 1 or 2,000"),
        ("duration:>1h30m", "gt", (5_400_000_000,), None, "more than 1 h 30 min"),
        ("updated:<24h", "ge", (NOW - DAY,), None, "in the last 24 h"),
        ("updated:>7d", "lt", (NOW - 7 * DAY,), None, "more than 7 d ago"),
        ("updated:2025-03-01", "ge", (MARCH,), MARCH + DAY, "on 2025-03-01"),
        ("updated:>2025-03-01", "ge", (MARCH + DAY,), None, "after 2025-03-01"),
        ("updated:<2025-03-01", "lt", (MARCH,), None, "before 2025-03-01"),
        ("started:2025-03-01T12:30", "ge", (MARCH + DAY // 2 + 30 * 60_000_000,),
         MARCH + DAY // 2 + 31 * 60_000_000, "on 2025-03-01T12:30"),
        ('text:"a b"', "has", ('"a b"',), None, "an event has “a b”"),
        ("parser", "has", ("parser",), None, "has “parser”"),
        ('-"eu west"', "has", ("eu west",), None, "has no “eu west”"),
    ],
)  # fmt: skip
def test_a_term_is_typed_and_said_back(
    text: str, test: str, values: tuple[object, ...], upto: int | None, said: str
) -> None:
    (term,) = parse(text, NOW).terms
    assert (term.test, term.values, term.upto, term.said) == (test, values, upto, said)


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("status:failed foo:bar", 15, "one of the keys"),
        ("status:odd", 8, "one of RUNNING"),
        ("cost:cheap", 6, "US dollars"),
        ("status:none", 8, "one of RUNNING"),
        ("error:none", 7, "it is always recorded"),
        ('title:"open', 7, "a closing quote"),
        ('model:"a"b', 10, "a blank after the closing quote"),
        ("updated:2025-02-30", 9, "an age"),
        ("duration:1h", 10, "and a duration"),
        ("text:->", 6, "letters or digits"),
        ("status:", 8, "one of RUNNING"),
        ("events:9..1", 8, "a range"),
        ("withdrawn:yes,no", 11, "yes, no or any"),
        ("model:*", 7, "some letters"),
        ("x" * (QUERY_CHARS_MAX + 1), QUERY_CHARS_MAX + 1, "at most"),
        ("a " * (QUERY_TERMS_MAX + 1), 2 * QUERY_TERMS_MAX + 1, "at most"),
    ],
)
def test_a_mistake_names_column_expectation_and_example(
    text: str, column: int, expected: str
) -> None:
    query = parse(text, NOW)
    (wrong,) = query.mistakes
    assert wrong.column == column and expected in wrong.expected and wrong.example
    assert not parse(wrong.example, NOW).mistakes
    assert not query.terms or query.terms[0].key in ("status", "words")


def test_an_unknown_key_is_answered_by_its_nearest() -> None:
    assert parse("statsu:failed", NOW).mistakes[0].example == "status:failed"


def test_terms_are_taken_out_put_in_and_exchanged() -> None:
    query = parse('a  status:failed "b c"', NOW)
    first, second, third = query.terms
    assert query.without(second) == 'a "b c"'
    assert query.without(first) == 'status:failed "b c"'
    assert query.without(third) == "a  status:failed"
    assert query.replaced(second, "cost:>1") == 'a  cost:>1 "b c"'
    assert query.also("cost:>1").endswith("cost:>1")


@given(st.text(max_size=80))
def test_every_text_is_answered_and_every_part_of_it_is_there(text: str) -> None:
    query = parse(text, NOW)
    spans = sorted((one.start, one.end) for one in (*query.terms, *query.mistakes))
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    covered = "".join(text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(text.split())
    assert parse(text, NOW) == query


@given(st.text(min_size=1, max_size=30))
def test_a_quoted_value_is_read_as_itself(value: str) -> None:
    (term,) = parse(f"model:{quoted(value)}", NOW).terms or (None,)
    if value.replace('"', " ").strip():
        assert term is not None and term.test == "is"
        assert term.values == (value.replace('"', " "),)
