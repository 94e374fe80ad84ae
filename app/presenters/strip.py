"""A day as bars: an axis that ends on round numbers, positions in percent, a label for each bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.presenters.format import clock, count, plural

HEIGHT = 96
#: Bars with a time under them.
_LABELLED = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """One half hour; x and width in percent, y and height in pixels."""

    x: str
    width: str
    y: float
    height: float
    title: str
    going_on: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One horizontal line with its number."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Everything the drawing needs."""

    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    times: tuple[tuple[str, str], ...]
    """(x in percent, time of day in UTC)."""
    label: str
    rows: tuple[tuple[str, int], ...]
    """What the bars say, as a table: those that hold something."""


def build(begins: Sequence[int], events: Sequence[int], span: int) -> Strip:
    """Bars of `span` microseconds each, the last still going on."""
    top = _round_up(max(events, default=0))
    width = 100 / len(begins)
    bars = []
    for index, (begin, number) in enumerate(zip(begins, events, strict=True)):
        # What is there is never drawn as nothing.
        height = max(1.5, HEIGHT * number / top) if number else 0.0
        bars.append(
            Bar(
                f"{index * width + width * 0.1:.2f}%",
                f"{width * 0.8:.2f}%",
                round(HEIGHT - height, 1),
                round(height, 1),
                f"{clock(begin)[:5]} to {clock(begin + span)[:5]} UTC: {plural(number, 'event')}",
                index == len(begins) - 1,
            )
        )
    every = len(begins) // _LABELLED
    times = tuple(
        (f"{(index + 0.5) * width:.2f}%", clock(begin)[:5])
        for index, begin in enumerate(begins)
        if index % every == every // 2
    )
    most = max(zip(events, begins, strict=True), default=(0, 0))
    return Strip(
        tuple(bar for bar in bars if bar.height),
        tuple(Line(round(HEIGHT * (1 - part), 1), count(int(top * part))) for part in (0, 0.5, 1))
        if top >= 2
        else (Line(HEIGHT, "0"), Line(0, count(top))),
        times,
        f"{plural(sum(events), 'event')} in 24 hours by half hour"
        + (f"; most, {count(most[0])}, from {clock(most[1])[:5]} UTC" if most[0] else ""),
        tuple(
            (f"{clock(begin)[:5]} UTC", number)
            for begin, number in zip(begins, events, strict=True)
            if number
        ),
    )


def _round_up(most: int) -> int:
    """The smallest of 1, 2, 4, 10, 20, 40, ... that holds it."""
    step = 1
    while True:
        for factor in (1, 2, 4):
            if factor * step >= most:
                return factor * step
        step *= 10
