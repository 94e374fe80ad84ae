r"""Bytes with their JSON escapes of ASCII read, so that rules see `key` where `\u006bey` stands.

An escape may stand at any depth of JSON inside JSON, and its own backslashes may be escapes in
turn. In the view a quote or a backslash keeps the backslashes that its depth asks for, so that
the view is JSON wherever the bytes are; line ends and tabs become their short escapes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

#: Readings under rules up to this number or a newer one look at the view, older ones at the bytes.
NUMBER = 62

#: An escape within an escape within an escape: so often it is looked.
_PASSES = 8
#: A quote or a backslash behind more backslashes is left: the view would grow with its depth.
_SLASHES_MAX = 16
_ESCAPE = re.compile(rb"u00(?:(0[9aAdD])|(22)|(5[cC])|([2-6][0-9a-fA-F]|7[0-9a-eA-E]))")
_SHORT = {b"09": b"t", b"0a": b"n", b"0d": b"r"}


@dataclass(frozen=True, slots=True)
class _Step:
    """One reading of escapes: where each begins and ends, before and after."""

    after: list[tuple[int, int]]
    before: list[tuple[int, int]]
    starts: list[int]
    """Of `after`."""

    def start(self, place: int) -> int:
        """The byte before that became the one at `place`; of an escape, its first."""
        at = bisect_right(self.starts, place) - 1
        if at < 0:
            return place
        if place < self.after[at][1]:
            return self.before[at][0]
        return place - self.after[at][1] + self.before[at][1]

    def end(self, place: int) -> int:
        """The same for one past a last byte; of an escape, one past its last."""
        at = bisect_left(self.starts, place) - 1
        if at < 0:
            return place
        if place <= self.after[at][1]:
            return self.before[at][1]
        return place - self.after[at][1] + self.before[at][1]


@dataclass(frozen=True, slots=True)
class View:
    """What rules look at, and the way back."""

    text: bytes
    steps: tuple[_Step, ...] = ()

    def range(self, start: int, end: int) -> tuple[int, int]:
        """The bytes that a range of the view stands for; escapes are whole."""
        for step in reversed(self.steps):
            start, end = step.start(start), step.end(end)
        return start, end


def of(data: bytes) -> View:
    """The view of some bytes: they themselves where they hold no such escape."""
    steps: list[_Step] = []
    for _ in range(_PASSES):
        if b"u00" not in data:
            break
        data, step = _read(data)
        if step is None:
            break
        steps.append(step)
    return View(data, tuple(steps))


def _read(data: bytes) -> tuple[bytes, _Step | None]:
    """The bytes with one layer of escapes read."""
    parts: list[bytes] = []
    step = _Step([], [], [])
    length = at = run = 0
    # `run`: backslashes that the view ends with behind an escape that was one.
    for found in _ESCAPE.finditer(data):
        end, first = found.end(), found.start()
        while first > at and data[first - 1] == 0x5C:
            first -= 1
        start = found.start()
        slashes = start - first + (run if first == at else 0)
        own = slashes & -slashes  # what makes the escape; the rest stands for itself
        start -= own
        if not own or start < first or (own > _SLASHES_MAX and not found[4]):
            continue  # none, or one that the next reading finds
        run = slashes + own if found[3] else 0
        if found[1]:
            text = b"\\" * own + _SHORT[found[1].lower()]
        elif found[2]:
            text = b"\\" * (2 * own - 1) + b'"'
        elif found[3]:
            text = b"\\" * (2 * own)
        else:
            text = bytes((int(found[4], 16),))
        plain = data[at:start]
        parts += (plain, text)
        length += len(plain)
        step.before.append((start, end))
        step.after.append((length, length + len(text)))
        step.starts.append(length)
        length += len(text)
        at = end
    if not step.starts:
        return data, None
    parts.append(data[at:])
    return b"".join(parts), step
