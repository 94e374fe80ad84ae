"""Reservations, settlements and what stays owed (BUD-1 to BUD-4)."""

from __future__ import annotations

from typing import Any

import msgspec

from core.canonical import canonical
from core.events.admission import Actual, BudgetReserved, BudgetSettled
from core.events.control import ControlChanged
from core.events.fields import Charge, Limit, Usage
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.task import TaskStarted
from core.limits import INTEGER_MAX
from core.record.archive import Segments
from core.record.record import Account, TrajectoryRecord
from core.record.reduce import empty, fold
from tests.strategies import Said, store

D = "sha256:" + "a" * 64


def record_of(*said: Said) -> TrajectoryRecord:
    return fold(empty("t-1"), store(said).pairs(), lambda digest: b"")


def usd(amount: int) -> Charge:
    return Charge("usd", "nano_usd", amount)


def spent(amount: int, resource: str = "usd", unit: str = "nano_usd") -> Actual:
    return Actual(resource, unit, amount)


def reserve(*bounds: Charge, **ids: Any) -> Said:
    return Said("BudgetReserved", BudgetReserved(bounds), **(ids or {"invocation_id": "inv"}))


def settle(*actual: Actual, **more: Any) -> Said:
    ids = {name: more.pop(name) for name in list(more) if name.endswith("_id")}
    more.setdefault("scope", "invocation")
    return Said("BudgetSettled", BudgetSettled(actual, **more), **(ids or {"invocation_id": "inv"}))


def account(*said: Said) -> Account:
    return record_of(*said).budget.accounts["usd"]


def test_sums_stay_integers_that_every_reader_takes() -> None:
    most = INTEGER_MAX
    usage = Usage(input=most, output=most, cache_read=most, cache_write=most)
    said: list[Said] = []
    for number in range(130):
        ids = {"invocation_id": f"inv-{number}"}
        said += [
            reserve(usd(most), usd(most), **ids),
            Said("ModelReplied", ModelReplied("completed", usage=usage), **ids),
            settle(spent(most), spent(most, "tokens", "tokens"), final=bool(number % 2), **ids),
        ]
    log = store(said)
    made = Segments({}.__getitem__)
    whole = fold(empty("t-1"), log.pairs(), made)
    canonical(msgspec.to_builtins(whole))
    assert whole.calls.tokens.input == whole.budget.accounts["tokens"].consumed == most
    half = fold(empty("t-1"), log.pairs()[:150], made)
    assert fold(half, log.pairs()[150:], made) == whole


def test_a_reservation_is_outstanding_until_usage_settles_it() -> None:
    assert account(reserve(usd(100))) == Account("nano_usd", outstanding=100)
    settled = record_of(reserve(usd(100)), settle(spent(70)))
    assert settled.budget.accounts["usd"] == Account("nano_usd", consumed=70, settlements=1)
    assert settled.budget.open == {}


def test_a_partial_report_settles_its_part_and_the_rest_stays() -> None:
    found = record_of(reserve(usd(100)), settle(spent(30), final=False))
    assert found.budget.accounts["usd"].outstanding == 70
    assert found.budget.open["e-1"].bounds == {"usd": 70}
    more = account(reserve(usd(100)), settle(spent(30), final=False), settle(spent(20)))
    assert (more.consumed, more.outstanding) == (50, 0)


def test_missing_usage_is_never_released() -> None:
    both = reserve(usd(100), Charge("tokens", "tokens", 9))
    found = record_of(both, settle(spent(30), final=True)).budget
    assert found.accounts["usd"].outstanding == 0
    assert found.accounts["tokens"].outstanding == 9
    assert found.open["e-1"].bounds == {"tokens": 9}
    named = record_of(both, settle(spent(30), unresolved=(usd(40),)))
    assert named.budget.accounts["usd"].outstanding == 40


def test_usage_above_its_bound_is_recorded_whole() -> None:
    found = account(reserve(usd(100)), settle(spent(130)))
    assert (found.consumed, found.overrun, found.outstanding) == (130, 30, 0)


def test_cumulative_reports_replace_and_incremental_ones_add() -> None:
    cumulative = [settle(spent(n), reporting="cumulative", final=False) for n in (10, 25, 20)]
    assert account(*cumulative).consumed == 20
    assert account(*(settle(spent(n), final=False) for n in (10, 25, 20))).consumed == 55
    other = settle(spent(7), reporting="cumulative", meter="harness")
    assert account(*cumulative, other).consumed == 27
    elsewhere = settle(spent(7), reporting="cumulative", invocation_id="inv-2")
    assert account(*cumulative, elsewhere).consumed == 27


def test_each_attempt_keeps_its_own_reservation() -> None:
    first = {"operation_id": "op", "attempt_id": "1"}
    second = {"operation_id": "op", "attempt_id": "2"}
    said = [reserve(usd(100), **first), reserve(usd(100), **second)]
    found = record_of(*said, settle(spent(60), scope="attempt", **second)).budget
    assert found.accounts["usd"].outstanding == 100
    assert set(found.open) == {"e-1"}


def test_usage_without_a_reservation_is_consumed() -> None:
    found = record_of(settle(spent(5), scope="trajectory", reporting="cumulative"))
    assert found.budget.accounts["usd"] == Account("nano_usd", consumed=5, settlements=1)


def test_two_units_of_a_resource_are_never_added() -> None:
    found = record_of(settle(spent(5)), settle(spent(3, unit="cents"))).budget.accounts
    assert (found["usd"].consumed, found["usd (cents)"].consumed) == (5, 3)


def test_ceilings_come_from_the_task_and_from_control_changes() -> None:
    task = TaskStarted("t", "gated", limits=(Limit("usd", "nano_usd", 100, 10),))
    change = ControlChanged("RUNNING", limits=(Limit("usd", "nano_usd", 200, 10),))
    said = [Said("TaskStarted", task), Said("ControlChanged", change)]
    assert account(said[0]).ceiling == 100
    assert (account(*said).ceiling, account(*said).finalization_reserve) == (200, 10)


def test_the_charge_of_a_call_follows_its_reservation() -> None:
    context = Said("ContextBuilt", ContextBuilt(D, 1), invocation_id="inv")
    reply = Said("ModelReplied", ModelReplied("completed"), invocation_id="inv")

    def charge(*said: Said) -> str:
        record = record_of(*said)
        return (record.calls.open | record.archive.recent.calls)["inv"].charge

    assert charge(context, reply) == "unreserved"
    assert charge(context, reserve(usd(9)), reply) == "reserved"
    assert charge(context, reserve(usd(9)), reply, settle(spent(4), final=False)) == "partial"
    assert charge(context, reserve(usd(9)), reply, settle(spent(4))) == "settled"
    assert charge(context, reply, settle(spent(4))) == "settled"
    # A lost reply leaves the call open, and its charge owed.
    lost = record_of(context, reserve(usd(9)))
    assert lost.calls.open["inv"].charge == "reserved"
