"""What acts add up to: folded in order, each read once, an undo a further act."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from core import acts
from core.acts import (
    BODIES,
    KINDS,
    Act,
    DropView,
    Note,
    Nothing,
    Price,
    Retract,
    Supersede,
    Tag,
    View,
)
from core.errors import InvalidInput

PRICE: dict[str, Any] = {
    "model": "m*",
    "since": "2026-01-01",
    "input": 1,
    "output": 2,
    "cache_read": 0,
    "cache_write": 0,
}


def made(*said: tuple[str, acts.Body]) -> list[Act]:
    numbers = count(1)
    return [
        Act(next(numbers), "local", kind, "t", None, body, "ann", None, 0, f"r{at}")  # type: ignore[arg-type]
        for at, (kind, body) in enumerate(said)
    ]


def test_notes_stay_until_they_are_retracted_and_are_shown_as_made() -> None:
    done = made(
        ("note", Note("one")),
        ("note", Note("two")),
        ("retract", Retract(1)),
        ("retract", Retract(1)),
        ("retract", Retract(9)),
    )
    now = acts.about(done)
    assert now.notes == (done[1],)
    assert now.retracted == (done[0],)
    assert now.last == 5


def test_tags_are_a_set_and_untagging_what_is_not_there_changes_nothing() -> None:
    now = acts.about(
        made(("tag", Tag("b")), ("tag", Tag("a")), ("untag", Tag("c")), ("untag", Tag("b")))
    )
    assert now.tags == ("a",)


def test_the_last_word_on_a_withdrawal_holds() -> None:
    done = made(
        ("withdraw", Nothing()),
        ("reinstate", Nothing()),
        ("withdraw", Nothing()),
        ("supersede", Supersede("u")),
    )
    assert acts.about(done[:1]).withdrawn == done[0]
    assert acts.about(done[:2]).withdrawn is None
    assert acts.about(done).withdrawn == done[2]
    assert acts.about(done).superseded == done[3]
    assert acts.about([]) == acts.Standing()
    assert acts.about([*done, *_next(done, ("retract", Retract(4)))]).superseded is None
    assert acts.about([*done, *_next(done, ("retract", Retract(3)))]).withdrawn == done[2]


def test_a_view_is_replaced_by_its_name_and_dropped_by_it() -> None:
    done = made(
        ("view", View("a", "x")),
        ("view", View("b", "y")),
        ("view", View("a", "z")),
        ("drop_view", DropView("b")),
        ("drop_view", DropView("none")),
    )
    assert acts.views(done) == {"a": done[2]}


def test_a_price_is_replaced_for_its_model_and_day_and_falls_by_its_number() -> None:
    first, other = Price("m", "2026-01-01", 1, 1, 1, 1), Price("m", "2026-02-01", 2, 2, 2, 2)
    newer = Price("m", "2026-01-01", 3, 3, 3, 3)
    done = made(("price", first), ("price", other), ("price", newer))
    assert acts.prices(done) == (done[2], done[1])
    # The one that was replaced is not what holds: taking it back changes nothing.
    assert acts.prices([*done, *_next(done, ("retract", Retract(1)))]) == (done[2], done[1])
    assert acts.prices([*done, *_next(done, ("retract", Retract(3)))]) == (done[1],)


def _next(done: list[Act], *said: tuple[str, acts.Body]) -> list[Act]:
    return made(*[(one.kind, one.body) for one in done], *said)[len(done) :]


def test_folding_is_pure() -> None:
    done = made(("note", Note("one")), ("tag", Tag("x")), ("withdraw", Nothing()))
    before = list(done)
    assert acts.about(done) == acts.about(iter(done))
    assert done == before


def test_every_kind_has_a_body_and_reads_back() -> None:
    assert set(BODIES) == set(KINDS)
    examples: dict[str, dict[str, Any]] = {
        "note": {"text": "x"},
        "tag": {"tag": "a/b"},
        "untag": {"tag": "a"},
        "withdraw": {},
        "reinstate": {},
        "supersede": {"by": "t"},
        "view": {"name": "n", "query": ""},
        "drop_view": {"name": "n"},
        "price": PRICE,
        "retract": {"number": 1},
    }
    for kind in KINDS:
        body = acts.decode(kind, examples[kind])
        assert type(body) is BODIES[kind]
        with pytest.raises(InvalidInput, match="known there"):
            acts.decode(kind, {**examples[kind], "more": 1})


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("erase", {}, "there is no act"),
        ("note", {}, "lacks the field text"),
        ("tag", {"tag": "Not One"}, "a tag is 1 to 48 lower-case letters"),
        ("tag", {"tag": "x" * 49}, "a tag is"),
        ("tag", {"tag": "a\n"}, "a tag is"),
        ("price", PRICE | {"since": "2026-02-30"}, "there is no day"),
        ("price", PRICE | {"since": "2026-02-03\n"}, "documented form"),
        ("price", PRICE | {"input": 10**15}, "of at most"),
        ("note", {"text": 5}, "expected: a text"),
        ("price", {"model": "m", "since": "yesterday"}, "documented form"),
        ("retract", {"number": 0}, "of at least 1"),
        ("note", [], "expected: an object"),
    ],
)
def test_a_body_that_does_not_fit_is_named(kind: str, body: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        acts.decode(kind, body)


def test_a_body_has_a_bound() -> None:
    with pytest.raises(InvalidInput, match="at most 8192 bytes"):
        acts.decode("note", {"text": "\u20ac" * 4000})
