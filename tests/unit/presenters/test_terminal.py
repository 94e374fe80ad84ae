"""Untrusted text: nothing hidden stays hidden, nothing but colour comes through, all is bounded."""

from __future__ import annotations

import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from app.presenters.terminal import SEGMENTS_MAX, one_line, plain, terminal, visible
from core.limits import DISPLAY_CHARS_MAX

ANYTHING = st.text(max_size=200) | st.text(
    alphabet="\x1b[]0123456789;mKHJ\x07\x9b\r\n\t ab\u202e\u200b\\P^_", max_size=200
)


def _hidden(text: str) -> list[str]:
    bad = ("Cc", "Cs", "Zl", "Zp")
    format_ = [c for c in text if unicodedata.category(c) == "Cf" and c not in "\u06dd\u070f"]
    return [c for c in text if unicodedata.category(c) in bad and c not in "\n\t"] + [
        c for c in format_ if unicodedata.bidirectional(c) in _BIDI or c in "\u200b\u2060\ufeff"
    ]


_BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@given(ANYTHING)
def test_no_control_or_bidi_character_is_left(text: str) -> None:
    assert not _hidden(visible(text))
    assert not _hidden("".join(segment.text for segment in terminal(text).segments))
    assert not _hidden(one_line(text))
    assert "\n" not in one_line(text)


@given(ANYTHING)
def test_only_known_classes_come_out(text: str) -> None:
    for segment in terminal(text).segments:
        for name in segment.classes.split():
            assert name.startswith("a-") and name[2:].isalnum()


def test_colours_become_classes_and_other_escapes_are_dropped_and_counted() -> None:
    shown = terminal(
        "\x1b[1;31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x1b[2Jx"
    )
    assert [(s.text, s.classes) for s in shown.segments] == [
        ("red", "a-bold a-31"),
        (" link x", ""),
    ]
    assert shown.dropped_escapes == 3
    assert "evil" not in "".join(s.text for s in shown.segments)


def test_extended_colours_are_skipped_and_not_misread_as_others() -> None:
    assert [s.classes for s in terminal("\x1b[38;5;31mx").segments] == [""]
    assert [s.classes for s in terminal("\x1b[38;2;31;32;33mx").segments] == [""]


def test_redrawn_progress_shows_what_stood_last() -> None:
    shown = terminal("start\n 10%\r 50%\r100%\nend\r\n")
    assert "".join(s.text for s in shown.segments) == "start\n100%\nend\n"
    assert shown.redrawn == 1


def test_a_right_to_left_override_is_named() -> None:
    assert visible("invoice\u202egpj.exe") == "invoice\u2039RLO\u203agpj.exe"
    assert visible("a\x00b\x7f") == "a\u2400b\u2421"


def test_long_text_is_cut_and_says_so() -> None:
    shown = plain("x" * (DISPLAY_CHARS_MAX + 5))
    assert (shown.cut, shown.shown, shown.chars) == (
        True,
        DISPLAY_CHARS_MAX,
        DISPLAY_CHARS_MAX + 5,
    )


def test_fifty_megabytes_on_one_line_cost_nothing() -> None:
    text = ("\x1b[31m\r" + "y" * 60) * 760_000
    started = time.perf_counter()
    shown = terminal(text)
    assert time.perf_counter() - started < 1.0
    assert shown.cut and len(shown.segments) <= SEGMENTS_MAX + 2


def test_many_colours_are_bounded() -> None:
    shown = terminal("".join(f"\x1b[{30 + n % 8}m{n}" for n in range(5000)))
    assert len(shown.segments) <= SEGMENTS_MAX + 2


def test_an_end_of_line_is_one_however_it_is_written() -> None:
    assert plain("a\r\nb\rc").segments[0].text == "a\nb␍c"
