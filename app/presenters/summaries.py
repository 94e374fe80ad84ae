"""Rows of the trajectory table, from stored summaries; what was never recorded stays a mark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app import links
from app.presenters.format import count, duration, money
from app.presenters.standing import control_word, cost_doubt
from app.presenters.terminal import one_line


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """One trajectory as a table shows it. None is: never recorded, and the page says so."""

    href: str
    trajectory_id: str
    title: str
    agent: str
    source: str
    """What it was imported from, in words."""
    standing: str
    model: str | None
    status: str
    detail: str | None
    step: str
    high_water: str
    behind: bool
    """The step stands below its high-water mark."""
    generation: str | None
    unsettled: int
    operations: int
    grade: str
    """What all unsettled operations of this standing are: unknown; empty where it takes the
    record to say which are in doubt and which in flight."""
    tokens: str | None
    cost: str | None
    cost_doubt: str
    """Why the cost may be none, or empty."""
    derived: bool
    """The cost is not stated: it is what the tokens cost by the price table."""
    duration: str | None
    timed: bool
    """Its source states when it began."""
    events: str
    updated_at: int | None
    blocked: bool
    started_at: int | None
    errors: str | None
    unknown: str | None
    in_doubt: str | None
    """None: old operations that only the archive holds are not graded here."""
    input: str | None
    output: str | None
    tags: tuple[str, ...]
    hidden: str
    """Why it leaves lists unless asked for: withdrawn or superseded; or empty."""


def row(summary: Mapping[str, object]) -> TrajectoryRow:
    """The table row of one stored summary."""
    trajectory_id = str(summary["trajectory_id"])
    standing = str(summary.get("standing") or "gated")
    source, agent = summary.get("source"), summary.get("agent")
    told = agent or source
    imported = standing in ("imported", "replica")
    step, high = _whole(summary, "step") or 0, _whole(summary, "high_water") or 0
    generation = _whole(summary, "generation") or 0
    started, ended = _whole(summary, "started_at"), _whole(summary, "ended_at")
    return TrajectoryRow(
        href=links.trajectory(trajectory_id),
        trajectory_id=trajectory_id,
        title=one_line(str(summary.get("title") or trajectory_id), 120),
        agent=one_line(str(told), 40) if told else "not named",
        source=f"imported from {one_line(str(source), 60)}" if source else standing,
        standing=standing,
        model=one_line(str(summary["model"]), 40) if summary.get("model") else None,
        status=control_word(str(summary.get("status") or "unknown"), standing, at_end=True),
        detail=one_line(str(summary["exit_detail"]), 40) if summary.get("exit_detail") else None,
        step=count(step),
        high_water=count(high),
        behind=step < high,
        generation=count(generation) if generation or not imported else None,
        unsettled=_whole(summary, "unsettled") or 0,
        operations=_whole(summary, "operations") or 0,
        grade="unknown" if imported else "",
        tokens=_tokens(summary),
        cost=_money(summary),
        cost_doubt=cost_doubt(_whole(summary, "cost_nano_usd") or 0, standing)
        if _whole(summary, "cost_nano_usd") is not None
        else "",
        derived=_whole(summary, "cost_nano_usd") is None
        and _whole(summary, "cost_derived_nano_usd") is not None,
        duration=duration(ended - started)
        if started is not None and ended is not None and ended >= started
        else None,
        timed=started is not None,
        events=count(_whole(summary, "events") or 0),
        updated_at=_whole(summary, "updated_at"),
        blocked=bool(summary.get("blocked")),
        started_at=started,
        errors=_counted(summary, "errors"),
        unknown=_counted(summary, "unknown"),
        in_doubt=_counted(summary, "in_doubt"),
        input=_counted(summary, "input_tokens"),
        output=_counted(summary, "output_tokens"),
        tags=tuple(str(summary.get("tags") or "").split()),
        hidden="withdrawn"
        if summary.get("withdrawn")
        else "superseded"
        if summary.get("hidden")
        else "",
    )


def _counted(summary: Mapping[str, object], name: str) -> str | None:
    value = _whole(summary, name)
    return count(value) if value is not None else None


def _whole(summary: Mapping[str, object], name: str) -> int | None:
    value = summary.get(name)
    return value if isinstance(value, int) else None


def _tokens(summary: Mapping[str, object]) -> str | None:
    kinds = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    stated = [value for value in (_whole(summary, kind) for kind in kinds) if value is not None]
    return count(sum(stated)) if stated else None


def _money(summary: Mapping[str, object]) -> str | None:
    cost = _whole(summary, "cost_nano_usd")
    if cost is None:
        cost = _whole(summary, "cost_derived_nano_usd")
    return money(cost) if cost is not None else None
