"""Numbers, times, sizes and ids as people read them; nothing here knows a clock or a page.

Absent is never formatted: every function takes a value that is there. What is not there is a mark
with its reason (app.presenters.marks).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.instants import format_utc, to_datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

#: A trajectory id up to this length is shown whole.
ID_CHARS = 18


def count(value: int) -> str:
    """An integer with thousands separators."""
    return f"{value:,}"


#: A number in a sentence that stands for a count or a place in the log; not a part of a name.
_BARE = re.compile(r"(?<![\w.,-])\d{4,15}(?![\w-])")


def grouped(text: str) -> str:
    """A sentence with its bare numbers written as pages write numbers."""
    return _BARE.sub(lambda found: count(int(found.group())), text)


def outcome(status: str, covers: str | None) -> str:
    """An outcome with what it holds for, where that is less than the whole of it."""
    word = status.replace("_", " ")
    return f"{word}: {covers.removeprefix('that ')}" if covers else word


def plural(value: int, one: str, many: str | None = None) -> str:
    """`1 event`, `2 events`, with separators."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


_ONE_OF = re.compile(
    r"(?<![\w,.])1 ([a-z]+?)(ies|s)(?= (?:of|are|were|by)\b|$|[:;,.])( are\b| were\b)?"
)


def singular(text: str) -> str:
    """A sentence in which `1 replies` stands, with `1 reply`; our own texts are made with the
    plural."""

    def one(found: re.Match[str]) -> str:
        verb = {" are": " is", " were": " was"}.get(found[3] or "", "")
        return f"1 {found[1]}{'y' if found[2] == 'ies' else ''}{verb}"

    return _ONE_OF.sub(one, text)


def size(length: int) -> str:
    """Bytes to three significant figures, in powers of ten, as file managers show them."""
    if length < 1000:
        return plural(length, "byte")
    value = float(length)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5:
            return f"{_three(value)} {unit}"
    return f"{_three(value / 1000)} PB"


def duration(microseconds: int) -> str:
    """A duration to three significant figures below a minute, then two units."""
    if microseconds < 0:
        return "-" + duration(-microseconds)
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < SECOND:
        return f"{_three(microseconds / 1000)} ms"
    if microseconds < MINUTE - SECOND // 20:
        return f"{_three(microseconds / SECOND)} s"
    if microseconds < HOUR:
        seconds = round(microseconds / SECOND)
        return f"{seconds // 60} m {seconds % 60:02d} s"
    if microseconds < DAY:
        minutes = microseconds // MINUTE
        return f"{minutes // 60} h {minutes % 60:02d} m"
    hours = microseconds // HOUR
    return f"{hours // 24} d {hours % 24} h"


def offset(microseconds: int) -> str:
    """A time counted from another: `+9.3 s`, `+1 h 47 m`."""
    sign = "+" if microseconds >= 0 else "-"
    span = abs(microseconds)
    if span < MINUTE:
        return f"{sign}{span / SECOND:.1f} s"
    return sign + duration(span)


def money(nano_usd: int) -> str:
    """US dollars from nano-dollars: two decimals from ten cents on, else enough to see it."""
    value = nano_usd / 1_000_000_000
    if nano_usd == 0 or abs(value) >= 0.1:
        return f"${value:,.2f}"
    if abs(value) >= 0.01:
        return f"${value:.4f}"
    decimals = 6 if abs(nano_usd) >= 1000 else 9
    return f"${value:.{decimals}f}".rstrip("0")


def amount(value: int, unit: str) -> str:
    """An amount of a budget resource in its unit."""
    if unit == "nano_usd":
        return money(value)
    if unit in ("ms", "milliseconds"):
        return duration(value * 1000)
    if unit in ("us", "microseconds"):
        return duration(value)
    if unit in ("s", "seconds"):
        return duration(value * SECOND)
    return f"{value:,} {unit}"


def short_digest(digest: str) -> str:
    """`8f2c…a91e` of `sha256:…` or of bare hex; the whole stands in the title."""
    bare = digest.removeprefix("sha256:")
    return bare if len(bare) <= 12 else f"{bare[:4]}…{bare[-4:]}"


def short_id(identifier: str) -> str:
    """An id cut in its middle so that both ends can be compared."""
    return identifier if len(identifier) <= ID_CHARS else f"{identifier[:8]}…{identifier[-4:]}"


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant as shown: a short text, the exact UTC, and the attribute for `<time>`."""

    text: str
    exact: str
    iso: str


def moment(instant: int, now: int) -> Moment:
    """An instant relative to `now`, with the exact UTC beside it."""
    return Moment(ago(now - instant), format_utc(instant), iso(instant))


def ago(span: int) -> str:
    """How long ago, in one unit; the future says `in`."""
    if span < 0:
        return "in " + ago(-span) if span < -SECOND else "now"
    if span < SECOND:
        return "now"
    for limit, unit, name in (
        (MINUTE, SECOND, "s"),
        (HOUR, MINUTE, "m"),
        (2 * DAY, HOUR, "h"),
        (60 * DAY, DAY, "d"),
    ):
        if span < limit:
            return f"{span // unit} {name}"
    if span < 730 * DAY:
        return f"{span // (30 * DAY)} months"
    return f"{span // (365 * DAY)} years"


def iso(instant: int) -> str:
    """The machine-readable form for `<time datetime>`."""
    return to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def exact(instant: int) -> str:
    """The exact UTC of an instant, for a page and its hover."""
    return format_utc(instant)


def clock(instant: int) -> str:
    """Time of day in UTC, for axes."""
    return to_datetime(instant).strftime("%H:%M:%S")


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
