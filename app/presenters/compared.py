"""Two trajectories, one property a row: what A has, what B has, whether they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.presenters.format import count
from app.presenters.summaries import TrajectoryRow, row
from app.presenters.terminal import one_line


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of one of the two."""

    summary: Mapping[str, object]
    tools: Sequence[tuple[str, int]] | None
    """(name, intents that name it); None: the index could not be asked."""
    behind: int
    """Events that the index lacks of it."""
    tools_shown: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One value; without text it is an absence, with its reason."""

    text: str | None
    absent: str = ""
    why: str = ""
    """What the value is, or why it may be another."""
    lines: tuple[tuple[str, str], ...] = ()
    """(name, number) where the value is several."""
    more: str = ""
    href: str = ""
    instant: int | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """One row."""

    name: str
    numeric: bool
    a: Cell
    b: Cell
    differs: bool


def properties(a: Given, b: Given, now: int) -> tuple[Property, ...]:
    """Every property of both."""
    ours, theirs = row(a.summary, now), row(b.summary, now)
    mine, others = _cells(a, ours), _cells(b, theirs)
    return tuple(
        Property(name, name in _NUMERIC, mine[name], others[name], mine[name] != others[name])
        for name in mine
    )


_NUMERIC = frozenset(
    {
        "events", "step", "high-water step", "operations", "unsettled", "errors", "tools used",
        "tokens", "input, uncached", "read from cache", "written to cache", "output", "cost",
        "duration",
    }
)  # fmt: skip


def _cells(given: Given, one: TrajectoryRow) -> dict[str, Cell]:
    summary = given.summary
    ended = one.detail or one.status_means
    return {
        "title": Cell(one.title, href=one.href),
        "source": Cell(one.source),
        "agent": Cell(one.agent),
        "models": _models(summary, one),
        "status": Cell(one.status, why=one.status_means),
        "outcome": Cell(ended) if ended else Cell(None, "no reason recorded"),
        "events": Cell(one.events),
        "step": Cell(one.step),
        "high-water step": Cell(one.high_water),
        "operations": Cell(count(one.operations)),
        "unsettled": Cell(f"{count(one.unsettled)} {one.grade}".strip() if one.unsettled else "0"),
        "errors": _number(one.errors),
        "tools used": _tools(given),
        "tokens": _number(one.tokens, one.tokens_doubt),
        "input, uncached": _number(one.input, one.tokens_doubt),
        "read from cache": _number(_counted(summary, "cache_read_tokens"), one.tokens_doubt),
        "written to cache": _number(_counted(summary, "cache_write_tokens"), one.tokens_doubt),
        "output": _number(one.output, one.tokens_doubt),
        "cost": _cost(one),
        "duration": Cell(f"{one.duration} {one.duration_note}".strip())
        if one.duration is not None
        else Cell(None, "no times"),
        "started": Cell("", instant=one.started_at)
        if one.started_at is not None
        else Cell(None, "no times"),
        "last activity": Cell("", why=one.active_from, instant=one.active_at)
        if one.active_at is not None
        else Cell(None, "no time"),
    }


def _number(value: str | None, why: str = "") -> Cell:
    return Cell(value, why=why) if value is not None else Cell(None, "not reported")


def _counted(summary: Mapping[str, object], name: str) -> str | None:
    value = summary.get(name)
    return count(value) if isinstance(value, int) else None


def _models(summary: Mapping[str, object], one: TrajectoryRow) -> Cell:
    several = str(summary.get("models") or "").split()
    if several:
        return Cell(", ".join(one_line(name, 60) for name in several))
    return Cell(one.model) if one.model is not None else Cell(None, "not named")


def _cost(one: TrajectoryRow) -> Cell:
    if one.cost is None:
        return Cell(None, "no cost")
    if one.derived:
        said = "what its tokens cost by the price table; the source states none"
        return Cell(f"derived {one.cost}", why=f"{said}; {one.cost_doubt}".rstrip("; "))
    return Cell(one.cost, why=one.cost_doubt or "as its source states it")


def _tools(given: Given) -> Cell:
    if given.tools is None:
        return Cell(None, "the search index cannot be asked now")
    why = f"the search index lacks {count(given.behind)} of its events" if given.behind else ""
    if not given.tools:
        return Cell("0", why=why) if not why else Cell(None, why)
    shown = given.tools[: given.tools_shown]
    rest = given.tools[given.tools_shown :]
    return Cell(
        count(sum(uses for _, uses in given.tools)),
        why=why,
        lines=tuple((one_line(name, 40), count(uses)) for name, uses in shown),
        more=f"{count(len(rest))} more, {count(sum(uses for _, uses in rest))} in all"
        if rest
        else "",
    )
