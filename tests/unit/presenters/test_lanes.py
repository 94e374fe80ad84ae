"""Lanes, hits and counted stretches: what is listed, marked and drawn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.presenters import highlight, lanes, timeline
from app.presenters.terminal import Segment, Shown
from core.events.marks import Mark

MARKS = st.binary(max_size=300).map(lambda raw: bytes(b % 21 for b in raw))


@given(MARKS, st.integers(0, 320), st.sets(st.sampled_from([lane.name for lane in lanes.LANES])))
def test_counts_are_those_of_a_search_through_all(marks: bytes, here: int, names: set[str]) -> None:
    only = ",".join(sorted(names))
    for counted in lanes.counts(marks, here, only):
        wanted = {int(mark) for mark in counted.lane.marks}
        assert counted.whole == sum(mark in wanted for mark in marks)
        assert counted.here == sum(mark in wanted for mark in marks[:here])
        assert counted.chosen == (counted.lane.name in names)
        assert lanes.toggled(counted.only, counted.lane.name) == lanes.toggled(
            lanes.toggled(only, "x"), "x"
        )
    table = lanes.mask(lanes.chosen(only))
    assert {mark for mark in range(256) if table[mark]} == {
        int(mark) for lane in lanes.chosen(only) for mark in lane.marks
    }


def test_words_are_marked_as_the_index_reads_them() -> None:
    text = "Timeout: the timeouts of pars.er, connection  refused, CONNECTION refused"
    for query, found in (
        ("timeout", ["Timeout"]),
        ("timeout*", ["Timeout", "timeouts"]),
        ('"connection refused"', ["connection  refused", "CONNECTION refused"]),
        ("pars er", ["pars", "er"]),
        ("<b>", []),
    ):
        marked = [t for t, hit in highlight.pieces(text, highlight.words(query)) if hit]
        assert marked == found, query
    assert highlight.words("***") is None


@given(st.text(max_size=200), st.text(min_size=1, max_size=12))
def test_marking_changes_no_text(text: str, query: str) -> None:
    pattern = highlight.words(query)
    assert "".join(piece for piece, _ in highlight.pieces(text, pattern)) == text
    shown = Shown((Segment(text, "a-bold"),), len(text), len(text))
    assert "".join(s.text for s in highlight.shown(shown, pattern).segments) == text


def test_an_excerpt_shows_the_place_of_a_hit() -> None:
    text = "line one\nthe connection was refused \x1b[31m by 10.0.0.1" + " x" * 30_000
    around = highlight.excerpt("a " * 20_000 + text, highlight.words("refused"))
    assert around.startswith("…") and "connection was refused" in around and "\x1b" not in around
    assert len(around) < 220
    assert highlight.excerpt(text, highlight.words("elsewhere")) == ""


@pytest.mark.parametrize(
    ("text", "query", "hit"),
    [
        ("call datetime_utcnow now", "utcnow", "utcnow"),
        ("le r\u00e9sum\u00e9 est", "resume", "r\u00e9sum\u00e9"),
        ("a resume of it", "R\u00c9SUM\u00c9", "resume"),
        ("\u6c49\u5b57\u5178\u7684", "\u5b57\u5178", "\u5b57\u5178"),
        ("foo_bar-baz", '"foo bar baz"', "foo_bar-baz"),
        ("parsing_it", "pars*", "parsing"),
        ("reparse", "pars*", None),
    ],
)
def test_a_hit_is_marked_wherever_the_index_finds_one(
    text: str, query: str, hit: str | None
) -> None:
    marked = [piece for piece, is_hit in highlight.pieces(text, highlight.words(query)) if is_hit]
    assert marked == ([hit] if hit else [])


@given(
    st.binary(min_size=300, max_size=3000).map(lambda raw: bytes(b % 21 for b in raw)),
    st.integers(1, 10_000),
    st.integers(0, 14_000),
)
def test_counted_stretches_hold_every_event_once(marks: bytes, first: int, boundary: int) -> None:
    head = first + len(marks) + 100
    drawn = timeline.counted(
        marks, first, boundary=min(boundary, head), head=head, open_operations=()
    )
    assert drawn.each * timeline.BUCKETS >= len(marks)
    assert (drawn.first, drawn.last) == (first, first + len(marks) - 1)
    calls = {int(mark) for mark in (Mark.CONTEXT, Mark.REPLY, Mark.REPLY_ERROR)}
    assert ("model" in {lane.name for lane in drawn.lanes}) == any(m in calls for m in marks)
    for lane in drawn.lanes:
        for path, later in ((lane.counts, False), (lane.counts_later, True)):
            for left, right in re.findall(r"M([\d.]+) \d+v-[\d.]+H([\d.]+)", path):
                assert float(left) < float(right) <= timeline.COUNTS_WIDTH + 0.1
                # The first event of the bar, to within the width of one.
                start = first + round(float(left) * len(marks) / timeline.COUNTS_WIDTH)
                assert start >= boundary if later else start <= boundary + 1


def test_a_zoom_stays_in_the_log() -> None:
    assert timeline.zoomed("", 100) is None
    assert timeline.zoomed("5-9", 0) is None
    assert timeline.zoomed("90-400", 100) == (90, 100)
    assert timeline.zoomed("50-20", 100) == (20, 50)
    assert timeline.zoomed("99-99", 100) == (93, 100)
    assert timeline.zoomed("3-3", 4) == (1, 4)
    assert timeline.zoomed("0-9999999999", 100) == (1, 100)
