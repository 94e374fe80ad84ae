"""Slice: consumption, outstanding reservations and reserves, per resource (BUD-1 to BUD-4).

INVARIANTS
1. `outstanding` of an account is the sum over its open reservations, spilled ones included;
   sums are held at 2^53-1, which no honest account reaches (ENV-4).
2. Usage is recorded whole, above its bound too; what exceeds the bound is `overrun` (BUD-2).
3. Only reported usage releases a bound: a resource that a settlement does not name stays
   reserved, also in a final one (BUD-3).
4. Amounts of two units are never added: a second unit of a resource has an account of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from core.events.admission import BudgetReserved, BudgetSettled
from core.events.control import ControlChanged
from core.events.envelope import Event
from core.events.fields import Limit
from core.events.task import TaskStarted
from core.limits import ACCOUNTS_MAX
from core.record import archive, calls, cut
from core.record.record import Account, Budget, Meter, Reservation

if TYPE_CHECKING:
    from core.record.draft import Draft

_INVOCATION = "invocation "


class AccountDraft:
    """One account while a fold runs."""

    __slots__ = (
        "ceiling",
        "consumed",
        "finalization_reserve",
        "outstanding",
        "overrun",
        "settlements",
        "unit",
    )

    def __init__(self, account: Account) -> None:
        self.unit = account.unit
        self.consumed = account.consumed
        self.outstanding = account.outstanding
        self.ceiling = account.ceiling
        self.finalization_reserve = account.finalization_reserve
        self.overrun = account.overrun
        self.settlements = account.settlements

    def freeze(self) -> Account:
        """The account as part of a record."""
        return Account(
            self.unit,
            self.consumed,
            self.outstanding,
            self.ceiling,
            self.finalization_reserve,
            self.overrun,
            self.settlements,
        )


class BudgetDraft:
    """The slice while a fold runs."""

    __slots__ = (
        "accounts",
        "accounts_dropped",
        "by_scope",
        "cumulative",
        "meters_spilled",
        "open",
        "reservations",
        "settlements",
        "spilled",
    )

    def __init__(self, budget: Budget) -> None:
        self.accounts = {key: AccountDraft(account) for key, account in budget.accounts.items()}
        self.accounts_dropped = budget.accounts_dropped
        self.open = dict(budget.open)
        self.reservations = budget.reservations
        self.settlements = budget.settlements
        self.cumulative = dict(budget.cumulative)
        self.spilled = budget.spilled
        self.meters_spilled = budget.meters_spilled
        self.by_scope: dict[str, list[str]] | None = None
        """Scope id -> event ids of its reservations held by value, oldest first; built when
        first needed."""

    def freeze(self) -> Budget:
        """The slice as part of a record."""
        return Budget(
            {key: account.freeze() for key, account in self.accounts.items()},
            self.accounts_dropped,
            dict(self.open),
            self.reservations,
            self.settlements,
            dict(self.cumulative),
            self.spilled,
            self.meters_spilled,
        )


def task_started(draft: Draft, event: Event, payload: TaskStarted) -> None:
    """The task's ceilings and reserves."""
    if payload.limits:
        _set_limits(draft.budget, payload.limits)


def control_changed(draft: Draft, event: Event, payload: ControlChanged) -> None:
    """A control change may change grants."""
    if payload.limits:
        _set_limits(draft.budget, payload.limits)


def budget_reserved(draft: Draft, event: Event, payload: BudgetReserved) -> None:
    """Bounds are set aside for one attempt or invocation."""
    budget = draft.budget
    budget.reservations += 1
    bounds: dict[str, int] = {}
    for charge in payload.bounds:
        key = _account_key(budget, charge.resource, charge.unit)
        if key is not None:
            bounds[key] = cut.total(bounds.get(key, 0) + charge.amount)
            account = budget.accounts[key]
            account.outstanding = cut.total(account.outstanding + charge.amount)
    reservation = Reservation(
        event.event_id,
        event.sequence_number,
        bounds,
        event.operation_id,
        event.attempt_id,
        event.invocation_id,
        cut.text(payload.settlement_owner),
        event.sequence_number,
    )
    budget.open[reservation.event_id] = reservation
    if budget.by_scope is not None:
        budget.by_scope.setdefault(_scope_of(reservation), []).append(reservation.event_id)
    if event.invocation_id is not None:
        calls.charge(draft, event.invocation_id, event.sequence_number, "reserved")


def budget_settled(draft: Draft, event: Event, payload: BudgetSettled) -> None:
    """Usage is observed; what it covers is released, the rest stays reserved."""
    budget = draft.budget
    budget.settlements += 1
    scope = _scope_id(event, payload.scope)
    reservation = _reservation(draft, payload.reservation_event, scope)
    bounds = {} if reservation is None else dict(reservation.bounds)
    for actual in payload.actual:
        key = _account_key(budget, actual.resource, actual.unit)
        if key is None:
            continue
        account = budget.accounts[key]
        account.settlements += 1
        amount = actual.amount
        if payload.reporting == "cumulative":
            amount = _since_last(draft, f"{payload.meter}|{scope}|{key}", amount, event)
        account.consumed = cut.total(account.consumed + amount)
        if key in bounds:
            _release(account, bounds, key, amount, payload.final)
    settled = payload.final
    if reservation is not None:
        settled = _keep_rest(draft, event, payload, reservation, bounds)
    if scope.startswith(_INVOCATION):
        calls.charge(
            draft,
            scope.removeprefix(_INVOCATION),
            event.sequence_number,
            "settled" if settled else "partial",
        )


def _keep_rest(
    draft: Draft,
    event: Event,
    payload: BudgetSettled,
    reservation: Reservation,
    bounds: dict[str, int],
) -> bool:
    """Put back what the reservation still owes; whether that is nothing."""
    budget = draft.budget
    for charge in payload.unresolved:
        key = _account_key(budget, charge.resource, charge.unit)
        if key is not None:
            account = budget.accounts[key]
            owed_more = charge.amount - bounds.get(key, 0)
            account.outstanding = cut.total(account.outstanding + owed_more)
            bounds[key] = charge.amount
    owed = {key: amount for key, amount in bounds.items() if amount}
    rest = Reservation(
        reservation.event_id,
        reservation.sequence_number,
        owed,
        reservation.operation_id,
        reservation.attempt_id,
        reservation.invocation_id,
        cut.text(payload.settlement_owner) or reservation.settlement_owner,
        event.sequence_number,
        final=not owed and payload.final,
    )
    if not rest.final:
        budget.open[rest.event_id] = rest
        return False
    if budget.by_scope is not None:
        budget.by_scope[_scope_of(rest)].remove(rest.event_id)
    if any(archive.RESERVATION in ref.kinds for ref in draft.archive.refs):
        # It may have been spilled before: the archive must not offer it as open again.
        draft.archive.reservations[rest.event_id] = rest
    return True


def spill(draft: Draft, rows: list[tuple[str, str, Any]]) -> None:
    """At a segment boundary: archive the oldest reservations and meters beyond the bound."""
    budget = draft.budget
    moved = archive.spill(budget.open, archive.RESERVATION, rows)
    if moved:
        budget.by_scope = None
    budget.spilled += len(moved)
    budget.meters_spilled += len(archive.spill(budget.cumulative, archive.METER, rows))


def _release(
    account: AccountDraft, bounds: dict[str, int], key: str, amount: int, final: bool
) -> None:
    bound = bounds[key]
    account.overrun = cut.total(account.overrun + max(0, amount - bound))
    left = 0 if final else max(0, bound - max(0, amount))
    account.outstanding = cut.total(account.outstanding - (bound - left))
    bounds[key] = left


def _since_last(draft: Draft, meter: str, amount: int, event: Event) -> int:
    """What a cumulative report adds to the last one of its meter; it may be negative."""
    budget = draft.budget
    meter = cut.name(meter)
    last = budget.cumulative.pop(meter, None)
    if last is None and budget.meters_spilled:
        last = draft.archive.find(archive.METER, meter, Meter)
        budget.meters_spilled -= last is not None
    budget.cumulative[meter] = Meter(amount, event.sequence_number)
    return amount - (0 if last is None else last.amount)


def _scope_id(event: Event, scope: str) -> str:
    """What the usage is of; an envelope that names an invocation only is about that."""
    if scope == "trajectory":
        return "trajectory"
    if event.invocation_id is not None and (scope == "invocation" or event.operation_id is None):
        return _INVOCATION + event.invocation_id
    if event.operation_id is not None:
        return f"attempt {event.operation_id} {event.attempt_id or ''}"
    return "trajectory"


def _scope_of(reservation: Reservation) -> str:
    if reservation.operation_id is not None:
        return f"attempt {reservation.operation_id} {reservation.attempt_id or ''}"
    if reservation.invocation_id is not None:
        return _INVOCATION + reservation.invocation_id
    return "trajectory"


def _reservation(draft: Draft, event_id: str | None, scope: str) -> Reservation | None:
    """Take out the reservation that is settled: the named one, else the newest of the scope."""
    budget = draft.budget
    if event_id is None:
        if scope == "trajectory":
            return None
        if budget.by_scope is None:
            budget.by_scope = {}
            for one in sorted(budget.open.values(), key=lambda one: one.sequence_number):
                budget.by_scope.setdefault(_scope_of(one), []).append(one.event_id)
        of_scope = budget.by_scope.get(scope)
        if not of_scope:
            return None
        event_id = of_scope[-1]
    reservation = budget.open.pop(event_id, None)
    if reservation is None and budget.spilled and event_id not in draft.archive.reservations:
        reservation = draft.archive.find(archive.RESERVATION, event_id, Reservation)
        if reservation is None or reservation.final:
            return None
        budget.spilled -= 1
        budget.by_scope = None
    return reservation


def _account_key(budget: BudgetDraft, resource: str, unit: str) -> str | None:
    """Key of the account of a resource in a unit, opened if need be; None beyond the bound."""
    key = cut.name(resource)
    unit = cut.name(unit)
    account = budget.accounts.get(key)
    if account is not None and account.unit != unit:
        key = f"{key} ({unit})"
        account = budget.accounts.get(key)
    if account is None:
        if len(budget.accounts) >= ACCOUNTS_MAX:
            budget.accounts_dropped += 1
            return None
        budget.accounts[key] = AccountDraft(Account(unit))
    return key


def _set_limits(budget: BudgetDraft, limits: Iterable[Limit]) -> None:
    for limit in limits:
        key = _account_key(budget, limit.resource, limit.unit)
        if key is not None:
            budget.accounts[key].ceiling = limit.ceiling
            budget.accounts[key].finalization_reserve = limit.finalization_reserve
