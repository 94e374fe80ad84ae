"""Rows of the trajectory table, from stored summaries; what was never recorded stays a mark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from app import links
from app.presenters.format import MINUTE, count, duration, money, plural
from app.presenters.found import Piece
from app.presenters.standing import cost_doubt, list_word
from app.presenters.terminal import one_line
from core.events.control import TERMINAL
from core.query import OPEN


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
    """In the words that `status:` matches."""
    detail: str | None
    """What the log says of its end."""
    status_means: str
    """Where the status is not plain."""
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
    tokens_of_run: bool
    """They are what the budget was told of for the run; no reply reports any."""
    tokens_doubt: str
    """Why there may be more than that; empty: nothing says so."""
    cost: str | None
    cost_doubt: str
    """Why the cost may be none, or empty."""
    derived: bool
    """The cost is not stated: it is what the tokens cost by the price table."""
    duration: str | None
    """From the first to the last time its source states."""
    duration_note: str
    """Said beside it where the log records no end; or empty."""
    events: str
    active_at: int | None
    """The last activity."""
    active_from: str
    """Whose clock that is on."""
    growing: str
    """growing, followed, or empty."""
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
    hit: str = ""
    """Address of the first event that holds what was looked for; empty: nothing was, or unknown."""
    excerpt: tuple[Piece, ...] = ()
    """The words around it."""


def row(
    summary: Mapping[str, object], now: int | None = None, followed: Collection[str] = ()
) -> TrajectoryRow:
    """The table row of one stored summary; `followed` are the trajectories whose files this server
    follows."""
    trajectory_id = str(summary["trajectory_id"])
    standing = str(summary.get("standing") or "gated")
    source, agent = summary.get("source"), summary.get("agent")
    told = agent or source
    imported = standing in ("imported", "replica")
    step, high = _whole(summary, "step") or 0, _whole(summary, "high_water") or 0
    generation = _whole(summary, "generation") or 0
    started, last = _whole(summary, "started_at"), _whole(summary, "last_at")
    recorded = str(summary.get("status") or "unknown")
    status, means = list_word(recorded, standing)
    detail = one_line(str(summary["exit_detail"]), 40) if summary.get("exit_detail") else None
    derived = (
        _whole(summary, "cost_nano_usd") is None
        and _whole(summary, "cost_derived_nano_usd") is not None
    )
    of_run = _tokens(summary) is None and _whole(summary, "run_tokens") is not None
    tokens_doubt = "" if of_run else _tokens_doubt(summary)
    ended = recorded in TERMINAL
    return TrajectoryRow(
        href=links.trajectory(trajectory_id),
        trajectory_id=trajectory_id,
        title=one_line(str(summary.get("title") or trajectory_id), 120),
        agent=one_line(str(told), 40) if told else "not named",
        source=f"imported from {one_line(str(source), 60)}" if source else standing,
        standing=standing,
        model=one_line(str(summary["model"]), 40) if summary.get("model") else None,
        status=status,
        detail=detail if status != OPEN else None,
        status_means=means,
        step=count(step),
        high_water=count(high),
        behind=step < high,
        generation=count(generation) if generation or not imported else None,
        unsettled=_whole(summary, "unsettled") or 0,
        operations=_whole(summary, "operations") or 0,
        grade="unknown" if imported else "",
        tokens=_counted(summary, "run_tokens")
        if of_run
        else _least(_tokens(summary), tokens_doubt),
        tokens_of_run=of_run,
        tokens_doubt=tokens_doubt,
        cost=_least(_money(summary), tokens_doubt if derived else ""),
        cost_doubt=cost_doubt(_whole(summary, "cost_nano_usd") or 0, standing)
        if _whole(summary, "cost_nano_usd") is not None
        else tokens_doubt
        if derived
        else "",
        derived=derived,
        duration=duration(last - started)
        if started is not None and last is not None and last >= started
        else None,
        duration_note="" if ended else "no end" if imported else "so far",
        events=count(_whole(summary, "events") or 0),
        active_at=last if last is not None else _whole(summary, "updated_at"),
        active_from="the last time its source states"
        if last is not None
        else "when its last event was stored; its source states no times",
        growing=""
        if ended
        else "growing"
        if _grew(summary, now)
        else "followed"
        if trajectory_id in followed
        else "",
        updated_at=_whole(summary, "updated_at"),
        blocked=bool(summary.get("blocked")),
        started_at=started,
        errors=_counted(summary, "errors"),
        unknown=_counted(summary, "unknown"),
        in_doubt=_counted(summary, "in_doubt"),
        input=_least(_counted(summary, "input_tokens"), tokens_doubt),
        output=_least(_counted(summary, "output_tokens"), tokens_doubt),
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


def _grew(summary: Mapping[str, object], now: int | None) -> bool:
    """Whether an event was stored within the last minute, and happened within it."""
    updated, last = _whole(summary, "updated_at"), _whole(summary, "last_at")
    if now is None or updated is None:
        return False
    return updated > now - MINUTE and (last is None or last > now - MINUTE)


def _tokens_doubt(summary: Mapping[str, object]) -> str:
    """Why its tokens may be more than what is counted; empty where every reply states them."""
    return partial(_whole(summary, "unreported") or 0, _whole(summary, "replied"))


def partial(unreported: int, replied: int | None) -> str:
    """Why a sum of tokens may be less than was used; empty where every reply states them."""
    if not unreported:
        return ""
    if replied is None:
        return f"at least: {plural(unreported, 'reply states', 'replies state')} none"
    of = plural(replied, "reply", "replies")
    return f"at least: {unreported:,} of {of} {'states' if unreported == 1 else 'state'} none"


def _least(value: str | None, doubt: str) -> str | None:
    return f"≥ {value}" if value is not None and doubt else value


def _money(summary: Mapping[str, object]) -> str | None:
    cost = _whole(summary, "cost_nano_usd")
    if cost is None:
        cost = _whole(summary, "cost_derived_nano_usd")
    return money(cost) if cost is not None else None
