"""Rows of the price table, and what people did about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app import links
from app.presenters.terminal import one_line
from core.acts import Act, Price, Retract
from core.rules.prices import KINDS, PriceRow, Table, usd

HISTORY_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One price."""

    model: str
    since: str
    named: tuple[tuple[str, str], ...]
    """(kind, USD for a million tokens): input, output, cache read, cache write."""
    source: str
    act: int
    """The act that states it; 0: it came with the program."""
    actor: str
    copy_href: str
    """The form with this price filled in."""


@dataclass(frozen=True, slots=True)
class Done:
    """One act about prices."""

    number: int
    what: str
    actor: str
    recorded_at: int
    source: str


def rows(table: Table, stated: Iterable[Act]) -> tuple[Row, ...]:
    """Stated prices first, each group by model and day."""
    actors = {act.number: act.actor for act in stated}
    found = [_row(row, actors) for row in table.rows]
    return tuple(sorted(found, key=lambda row: (row.act == 0, row.model, row.since)))


def _row(row: PriceRow, actors: dict[int, str]) -> Row:
    return Row(
        model=one_line(row.model, 100),
        since=row.since,
        named=tuple((kind.replace("_", " "), usd(getattr(row, kind))) for kind in KINDS),
        source=one_line(row.source, 200),
        act=row.act or 0,
        actor=one_line(actors.get(row.act or 0, ""), 60),
        copy_href=links.prices(model=row.model, since=row.since) + "#state",
    )


def history(acts: Sequence[Act]) -> tuple[Done, ...]:
    """The newest acts about prices, newest first."""
    made = {act.number: act for act in acts}
    return tuple(_done(act, made) for act in reversed(acts[-HISTORY_SHOWN:]))


def _done(act: Act, made: dict[int, Act]) -> Done:
    body, source = act.body, ""
    what: str = act.kind
    if isinstance(body, Price):
        parts = ", ".join(f"{kind.replace('_', ' ')} {usd(getattr(body, kind))}" for kind in KINDS)
        what = f"{one_line(body.model, 100)} from {body.since}: {parts}"
        source = one_line(body.source, 200)
    elif isinstance(body, Retract):
        earlier = made.get(body.number)
        about = earlier.body if earlier is not None else None
        what = f"took back act {body.number}"
        if isinstance(about, Price):
            what += f", {one_line(about.model, 100)} from {about.since}"
    return Done(act.number, what, one_line(act.actor, 60), act.recorded_at, source)
