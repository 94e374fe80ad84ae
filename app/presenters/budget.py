"""The budget as charts drawn by the server, tables, and costs kept apart by where they come from.

INVARIANTS
1. What was never observed is an absence with its reason, never zero.
2. A derived cost never stands in the place of a stated one: each says what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.presenters.format import amount, count
from app.presenters.payloads import Absent
from app.presenters.terminal import one_line
from core.record.record import Account, Reservation, TrajectoryRecord
from core.rules.prices import Derived

#: Accounts with a chart; the rest is in the table only.
CHARTS_MAX = 6
RESERVATIONS_SHOWN = 20
WIDTH, HEIGHT = 1000, 110
#: Below this part of its ceiling an account is drawn to its own height, or nothing would be seen.
_SEEN = 0.05

Cell = str | Absent


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One account at the boundary."""

    name: str
    consumed: Cell
    reserved: Cell
    reserve: str
    ceiling: Cell
    left: Cell
    """Of the ceiling, after what is consumed, reserved and kept for finalization."""
    over: str
    """What is above the ceiling, or above bounds; empty: nothing."""
    reports: int
    apart: str = ""
    """Why it is not what the replies report, where it is not."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One account over the log: areas in a WIDTH by HEIGHT box, values as text."""

    name: str
    consumed: str
    """A polygon's points."""
    reserved: str
    """What is reserved on top of it."""
    ceiling: float | None
    """Its height in the box; None: none, or above the drawing."""
    reserve: float | None
    """Where the part kept for finalization begins."""
    top: str
    """The value at the upper edge."""
    above: str
    """Said where the ceiling is above the drawing."""
    first: int
    last: int
    label: str


def account_row(
    name: str, account: Account, *, reservations: str, observes: bool, apart: str = ""
) -> AccountRow:
    """One line of the table. `reservations` is what the source has of them; `observes`: whether
    the log has any usage report at all; `apart`: why it differs from what replies report."""
    unit = account.unit
    consumed: Cell = amount(account.consumed, unit)
    if not account.settlements:
        why = "no usage of it is reported up to here" if observes else "no usage is reported"
        consumed = Absent("unknown", why)
    reserved: Cell = amount(account.outstanding, unit)
    if reservations == "absent" and not account.outstanding:
        reserved = Absent("never", "the source records no reservations")
    ceiling: Cell = Absent("never", "no ceiling is stated")
    left: Cell = Absent("never", "no ceiling is stated")
    over = []
    if account.ceiling is not None:
        ceiling = amount(account.ceiling, unit)
        rest = (
            account.ceiling - account.consumed - account.outstanding - account.finalization_reserve
        )
        left = amount(max(0, rest), unit)
        if account.consumed > account.ceiling:
            over.append(f"{amount(account.consumed - account.ceiling, unit)} above the ceiling")
    if account.overrun:
        over.append(f"{amount(account.overrun, unit)} above bounds")
    kept = amount(account.finalization_reserve, unit) if account.finalization_reserve else "none"
    return AccountRow(
        one_line(name, 40),
        consumed,
        reserved,
        kept,
        ceiling,
        left,
        ", ".join(over),
        account.settlements,
        apart,
    )


def chart(name: str, series: Sequence[tuple[int, Account | None]]) -> Chart | None:
    """The drawing of one account; None where nothing was ever consumed or reserved."""
    known = [(at, account) for at, account in series if account is not None]
    if not known:
        return None
    newest = known[-1][1]
    peak = max(max(0, a.consumed) + a.outstanding for _, a in known)
    if peak <= 0 or len(series) < 2:
        return None
    ceiling = newest.ceiling
    above = ""
    top = peak
    if ceiling:
        if peak >= ceiling * _SEEN:
            top = max(peak, ceiling)
        else:
            above = f"the ceiling, {amount(ceiling, newest.unit)}, is above the drawing"
    last = series[-1][0]

    def y(value: float) -> float:
        return round(HEIGHT - (HEIGHT - 2) * value / top, 1)

    used: list[tuple[float, float]] = []
    held: list[tuple[float, float]] = []
    for at, account in series:
        x = round(WIDTH * at / last, 1) if last else 0.0
        consumed = max(0, account.consumed) if account is not None else 0
        outstanding = account.outstanding if account is not None else 0
        used.append((x, y(consumed)))
        held.append((x, y(consumed + outstanding)))
    drawn = ceiling if ceiling and not above else None
    reserve = newest.finalization_reserve
    said = [f"{amount(newest.consumed, newest.unit)} consumed"]
    if newest.outstanding:
        said.append(f"{amount(newest.outstanding, newest.unit)} reserved")
    if ceiling is not None:
        said.append(f"ceiling {amount(ceiling, newest.unit)}")
    return Chart(
        one_line(name, 40),
        _points([(0.0, float(HEIGHT)), *_stairs(used), (float(WIDTH), float(HEIGHT))]),
        _points([*_stairs(held), *reversed(_stairs(used))]) if held != used else "",
        y(drawn) if drawn else None,
        y(drawn - reserve) if drawn and reserve else None,
        amount(top, newest.unit),
        above,
        series[0][0],
        last,
        f"{one_line(name, 40)} over the log from 0 to {count(last)}: {', '.join(said)}",
    )


def _stairs(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A value holds until the next one is known: right, then up or down."""
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found and found[-1][1] != y:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Tokens of one model, or of all."""

    model: str
    named: bool
    kinds: tuple[str, ...]
    """Input, read from cache, written to cache, output."""
    price: str
    """What its tokens cost by the price table; empty: no price."""
    basis: str
    """Which price that is, or why there is none although the table has one."""


KINDS = ("input", "cache_read", "cache_write", "output")


def token_rows(derived: Derived) -> tuple[TokenRow, ...]:
    """One row for each model that reported tokens, the costliest kind of question first answered:
    which price it is by."""
    rows = []
    for one in derived.models:
        basis = ""
        if one.price is not None:
            by = "stated here" if one.price.act is not None else one_line(one.price.source, 80)
            basis = f"{one.price.model} since {one.price.since}, {by or 'no source stated'}"
        elif one.begins is not None:
            basis = f"its price begins on {one.begins}, after this session"
        rows.append(
            TokenRow(
                one_line(one.model, 60) if one.model is not None else "replies that name no model",
                one.model is not None,
                tuple(count(getattr(one.tokens, kind)) for kind in KINDS),
                amount(one.nano_usd, "nano_usd") if one.nano_usd is not None else "",
                basis,
            )
        )
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """One reservation that is not settled."""

    name: str
    of: str
    bounds: str
    owner: str
    since: int


def reservation_rows(record: TrajectoryRecord) -> tuple[ReservationRow, ...]:
    """The newest open reservations held by value."""
    budget = record.budget
    newest = sorted(budget.open.values(), key=lambda one: -one.sequence_number)
    return tuple(_reservation(record, one) for one in newest[:RESERVATIONS_SHOWN])


def _reservation(record: TrajectoryRecord, one: Reservation) -> ReservationRow:
    accounts = record.budget.accounts
    bounds = ", ".join(
        f"{one_line(name, 30)} {amount(value, accounts[name].unit) if name in accounts else value}"
        for name, value in list(one.bounds.items())[:4]
    )
    of = one.operation_id or one.invocation_id or "the trajectory"
    return ReservationRow(
        one.event_id, of, bounds or "nothing more", one.settlement_owner or "", one.sequence_number
    )
