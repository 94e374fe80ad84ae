"""Words of a text and of a search are cut alike, and a search has no syntax but its own."""

from __future__ import annotations

import pytest

from core.errors import InvalidInput
from core.limits import SEARCH_PHRASES_MAX
from core.words import Phrase, phrases, spaced


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("timeout", [Phrase("timeout", False)]),
        ("pars* bug", [Phrase("pars", True), Phrase("bug", False)]),
        ('"connection refused" x', [Phrase("connection refused", False), Phrase("x", False)]),
        ('"not closed', [Phrase("not closed", False)]),
        ("a -> b", [Phrase("a", False), Phrase("b", False)]),
        ("AND OR NEAR(", [Phrase("AND", False), Phrase("OR", False), Phrase("NEAR(", False)]),
        ("日本", [Phrase(" 日  本 ", False)]),
    ],
)
def test_a_search_is_words_and_phrases(text: str, found: list[Phrase]) -> None:
    assert list(phrases(text)) == found


@pytest.mark.parametrize("text", ["", "  ", "->", '""', "*", "x " * (SEARCH_PHRASES_MAX + 1)])
def test_what_is_no_search_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"e\.g\.|double quotes"):
        phrases(text)


def test_runs_that_are_data_are_no_words() -> None:
    assert spaced("before " + "QUJD" * 100 + " after").split() == ["before", "after"]
    assert spaced("short QUJDQUJD") == "short QUJDQUJD"
    assert spaced("über alles") == "über alles"
