"""Tab *Budget*: what was consumed and reserved against ceilings over the log, tokens, and costs."""

from __future__ import annotations

from dataclasses import dataclass

from app.pages import series
from app.pages.tabs.reads import Reads
from app.presenters import budget
from app.presenters.budget import AccountRow, Chart, ReservationRow, TokenRow
from app.presenters.format import exact, money
from app.presenters.standing import cost_doubt
from app.presenters.state import tokens_apart
from core.rules.prices import Derived, day_of, derive


@dataclass(frozen=True, slots=True)
class StatedCost:
    """What the log says that was paid."""

    value: str
    """Empty: no cost is stated."""
    doubt: str
    reports: int
    others: tuple[tuple[str, str], ...]
    """Costs in other units of the same resource, as stated: (account, amount)."""


@dataclass(frozen=True, slots=True)
class DerivedCost:
    """What the reported tokens cost by the price table; never part of the log."""

    value: str
    """Empty: not all tokens have a price, or there are none."""
    part: str
    """Of the tokens that have a price, where not all do."""
    unpriced: tuple[str, ...]
    day: str
    """The day whose prices were taken; empty: the newest, for the source states no time."""
    table: str
    """The digest of the price table."""


@dataclass(frozen=True, slots=True)
class BudgetPanel:
    """The budget at the boundary."""

    accounts: tuple[AccountRow, ...] = ()
    dropped: int = 0
    charts: tuple[Chart, ...] = ()
    uncharted: tuple[str, ...] = ()
    spacing: int = 1
    points: int = 0
    reservations: tuple[ReservationRow, ...] = ()
    reservations_open: int = 0
    tokens: tuple[TokenRow, ...] = ()
    total: tuple[int, ...] = ()
    replied: int = 0
    unreported: int = 0
    stated: StatedCost | None = None
    derived: DerivedCost | None = None
    deadline: str = ""
    finalization: str = ""


def load(reads: Reads) -> BudgetPanel:
    """The panel. Charts have fewer points where snapshots are not made yet; nothing else waits."""
    record = reads.record
    accounts, held = record.budget.accounts, record.scope.capabilities.reservations
    points = series.points(reads) if reads.place.seq and accounts else ()
    charts: list[Chart] = []
    uncharted: list[str] = []
    for name in accounts:
        drawn = budget.chart(name, [(p.boundary, p.accounts.get(name)) for p in points])
        if drawn is not None and len(charts) < budget.CHARTS_MAX:
            charts.append(drawn)
        elif drawn is not None:
            uncharted.append(name)
    calls = record.calls
    table = reads.runtime.price_table(reads.who)
    day = day_of(record.first_occurred_at)
    costs = derive(calls.tokens_by_model, calls.tokens, day, table)
    scope = record.scope
    return BudgetPanel(
        tuple(
            budget.account_row(
                name,
                account,
                reservations=held,
                observes=bool(record.budget.settlements),
                apart=tokens_apart(record, account) if name == "tokens" else "",
            )
            for name, account in accounts.items()
        ),
        record.budget.accounts_dropped,
        tuple(charts),
        tuple(uncharted),
        series.spacing(reads.place.seq),
        len(points),
        budget.reservation_rows(record),
        len(record.budget.open) + record.budget.spilled,
        budget.token_rows(costs),
        tuple(getattr(calls.tokens, kind) for kind in budget.KINDS),
        calls.replied,
        calls.tokens.unreported,
        _stated(reads),
        _derived(costs, day, table.digest),
        exact(scope.deadline_at) if scope.deadline_at is not None else "",
        exact(scope.finalization_deadline_at) if scope.finalization_deadline_at is not None else "",
    )


def _stated(reads: Reads) -> StatedCost:
    accounts = reads.record.budget.accounts
    usd = accounts.get("usd")
    value, doubt, reports = "", "", 0
    if usd is not None and usd.unit == "nano_usd" and usd.settlements:
        value, reports = money(usd.consumed), usd.settlements
        doubt = cost_doubt(usd.consumed, reads.head.standing)
    others = tuple(
        (name, f"{account.consumed:,} {account.unit}")
        for name, account in accounts.items()
        if name.startswith("usd") and account.unit != "nano_usd" and account.settlements
    )
    return StatedCost(value, doubt, reports, others)


def _derived(costs: Derived, day: str | None, digest: str) -> DerivedCost:
    whole = costs.nano_usd
    partly = costs.priced_nano_usd if whole is None and costs.priced_nano_usd else None
    return DerivedCost(
        money(whole) if whole is not None else "",
        money(partly) if partly is not None else "",
        tuple(name if name is not None else "no model named" for name in costs.unpriced),
        day or "",
        digest,
    )
