"""Columns of the trajectory table, chips of its query and what its pickers offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.presenters.summaries import TrajectoryRow
from app.presenters.terminal import one_line
from core.query import BARE, KEYS, Mistake, Query, Term, quoted
from runtime.listing import LeftOut, Nearest

Href = Callable[[str], str]
"""The address of the table with another query."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name in the URL, its heading, and whether it holds numbers."""

    name: str
    heading: str
    numeric: bool = False
    default: bool = False

    @property
    def means(self) -> str:
        """What it is counted from; empty where its heading says all."""
        known = KEYS.get(self.name)
        return known.means if known is not None else _MEANS.get(self.name, "")


_MEANS = {
    "high_water": "the furthest step reached; the step may stand below it after it was set back",
    "generation": "which grant of ownership writes; a source that records none has none",
    "tags": "words that people gave it",
}


#: In the order shown; each can be sorted by its name, but `tags`.
COLUMNS: tuple[Column, ...] = (
    Column("title", "Title", default=True),
    Column("agent", "Agent, source", default=True),
    Column("model", "Model", default=True),
    Column("standing", "Standing"),
    Column("status", "Status", default=True),
    Column("step", "Step", numeric=True, default=True),
    Column("high_water", "High-water", numeric=True),
    Column("generation", "Gen.", numeric=True),
    Column("events", "Events", numeric=True),
    Column("unsettled", "Unsettled", numeric=True, default=True),
    Column("unknown", "Unknown", numeric=True),
    Column("in_doubt", "In doubt", numeric=True),
    Column("error", "Errors", numeric=True),
    Column("tokens", "Tokens", numeric=True, default=True),
    Column("input", "Input", numeric=True),
    Column("output", "Output", numeric=True),
    Column("cost", "Cost", numeric=True, default=True),
    Column("duration", "Duration", numeric=True, default=True),
    Column("tags", "Tags"),
    Column("started", "Started", numeric=True),
    Column("active", "Active", numeric=True, default=True),
    Column("updated", "Stored", numeric=True),
)
BY_NAME = {column.name: column for column in COLUMNS}
DEFAULT = tuple(column.name for column in COLUMNS if column.default)
NOT_SORTED = frozenset({"tags"})


def chosen(names: Iterable[str], rows: Iterable[TrajectoryRow] = ()) -> tuple[Column, ...]:
    """These columns in their order, always with the title; where none is named the default ones,
    and of those that seldom say something the ones that do in these rows."""
    asked = {name for name in names if name in BY_NAME}
    if not asked:
        asked = set(DEFAULT)
        for row in rows:
            if row.behind:
                asked.add("high_water")
            if row.generation not in (None, "0"):
                asked.add("generation")
    return tuple(column for column in COLUMNS if column.name in asked or column.name == "title")


@dataclass(frozen=True, slots=True)
class Chip:
    """One term in words, with the address of the list without it."""

    label: str
    said: str
    href: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """One mistake in words, with the address of the list without it."""

    column: int
    given: str
    expected: str
    example: str
    href: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows that a term leaves out because they never recorded its value."""

    count: int
    exact: bool
    label: str
    href: str


@dataclass(frozen=True, slots=True)
class Picker:
    """Values that one key can be given with a click."""

    label: str
    means: str
    choices: tuple[tuple[str, str], ...]
    """(text, address)."""
    typed: str = ""
    """Name of the form's field, where any value can be typed."""


@dataclass(frozen=True, slots=True)
class KeyHelp:
    """One key of the language, for the help."""

    name: str
    means: str
    example: str


def label(key: str) -> str:
    """What a key is called in a chip."""
    return "title or id" if key == BARE else key.replace("_", " ")


def chips(query: Query, href: Href) -> tuple[Chip, ...]:
    """Every term in words."""
    return tuple(_chip(query, term, href) for term in query.terms)


def _chip(query: Query, term: Term, href: Href) -> Chip:
    return Chip(label(term.key), one_line(term.said, 80), href(query.without(term)))


def mistakes(query: Query, href: Href) -> tuple[Wrong, ...]:
    """Every mistake in words."""
    return tuple(_wrong(query, one, href) for one in query.mistakes)


def _wrong(query: Query, one: Mistake, href: Href) -> Wrong:
    given = one_line(one.given, 40)
    return Wrong(one.column, given, one.expected, one.example, href(query.without(one)))


def missing(left_out: Sequence[LeftOut], href: Href) -> tuple[Missing, ...]:
    """What terms left out, in words."""
    return tuple(
        Missing(one.count, one.exact, label(one.key), href(one.instead)) for one in left_out
    )


@dataclass(frozen=True, slots=True)
class Near:
    """A value that nothing has, and what there is instead."""

    label: str
    given: str
    choices: tuple[tuple[str, str], ...]
    """(value, address of the list with it)."""
    alike: bool
    """They are like what was given; else some of those there are."""


def near(found: Sequence[Nearest], href: Href) -> tuple[Near, ...]:
    """What may have been meant, in words."""
    return tuple(
        Near(
            label(one.key),
            one_line(one.given, 60),
            tuple(
                (one_line(value, 60), href(text))
                for value, text in zip(one.values, one.instead, strict=True)
            ),
            one.alike,
        )
        for one in found
    )


def help_keys() -> tuple[KeyHelp, ...]:
    """The whole language."""
    return tuple(KeyHelp(key.name, key.means, key.example) for key in KEYS.values())


def pickers(query: Query, known: dict[str, Sequence[str]], href: Href) -> tuple[Picker, ...]:
    """One picker for each key that is often used; `known` holds values that are there."""
    found = []
    for key in ("status", "standing", "source", "model", "tool", "tag"):
        values = known.get(key) or KEYS[key].words
        if values:
            terms = [(one_line(value, 40), f"{key}:{quoted(value)}") for value in values]
            found.append(_picker(query, key, terms, href))
    for key, examples in _EXAMPLES.items():
        found.append(
            _picker(query, key, [(said, f"{key}:{term}") for said, term in examples], href)
        )
    text = KEYS["text"]
    found.append(Picker("text", text.means, (), "text"))
    return tuple(found)


_EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "in_doubt": (("one or more", ">0"), ("none", "0")),
    "unsettled": (("one or more", ">0"), ("none", "0")),
    "error": (("one or more", ">0"), ("ten or more", ">=10"), ("none", "0")),
    "cost": (
        ("more than $0.10", ">0.10"),
        ("more than $1", ">1"),
        ("more than $10", ">10"),
        ("never recorded", "none"),
    ),
    "duration": (("more than 10 min", ">10m"), ("more than 1 h", ">1h"), ("no times", "none")),
    "active": (
        ("in the last hour", "<1h"),
        ("today", "today"),
        ("in the last 7 days", "<7d"),
        ("more than 30 days ago", ">30d"),
    ),
}


def _picker(query: Query, key: str, terms: Sequence[tuple[str, str]], href: Href) -> Picker:
    """Choosing a value puts it in the place of the key's present term."""
    there = query.of(key)
    choices = tuple(
        (said, href(query.replaced(there[0], term) if there else query.also(term)))
        for said, term in terms
    )
    return Picker(label(key), KEYS[key].means, choices)
