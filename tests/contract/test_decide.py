"""The decision itself, without any store: what needs a door that this version does not open yet."""

from __future__ import annotations

import pytest

from core.errors import IntegrityConflict, UnresolvedReference
from core.events.admission import Authorized, BudgetReserved
from core.events.envelope import Standing, chain_start
from core.events.fields import Charge
from core.events.prepare import Prepared
from core.events.tool import ToolIntent
from store.decide import decide, wants
from store.ports import AppendCommand
from store.state import Draft, HeadState, Known, Member, Outcome, Rules, Writes
from tests.contract.worlds import TENANT, event, note

RULES = Rules(
    refuse=lambda standing, issuer, door, type_: None,
    reducer_version=1,
    incarnation="i",
    domain="host",
)


def run(
    *requests: tuple[Prepared, ...], standing: Standing = "gated"
) -> tuple[Writes, list[Outcome]]:
    """Unfenced requests of the service on one trajectory under epoch 3, as one group."""
    head = HeadState(
        tenant=TENANT,
        trajectory_id="t",
        key=1,
        standing=standing,
        created_at=5,
        sequence_number=0,
        chain=chain_start("t"),
        recorded_at=5,
        owner_epoch=3,
        worker="w",
    )
    members = [
        Member(
            AppendCommand(
                tenant=TENANT,
                trajectory_id="t",
                issuer="service",
                door="verb",
                request_id=f"r{number}",
                events=events,
            ),
            (None,) * len(events),
        )
        for number, events in enumerate(requests)
    ]
    assert wants(members).heads == {(TENANT, "t")}
    known = Known(new_key=lambda: 2, heads={(TENANT, "t"): head})
    return decide(members, known, now=9, rules=RULES)


AUTHORIZED = event("t", "auth", "Authorized", Authorized(decision="granted"))
RESERVED = event(
    "t", "res", "BudgetReserved", BudgetReserved(bounds=(Charge("usd", "nano_usd", 5),))
)


def intent(event_id: str = "i", **more: str) -> Prepared:
    payload = ToolIntent(kind="intent", tool="shell", arguments={"n": 1}, **more)  # type: ignore[arg-type]
    return event("t", event_id, "ToolIntent", payload, operation_id="op", attempt_id=event_id)


BOTH = {"authorization_event": "auth", "reservation_event": "res"}


def test_a_gated_intent_after_its_admission_is_accepted() -> None:
    for requests in (
        [(AUTHORIZED, RESERVED, intent(**BOTH))],
        [(AUTHORIZED, RESERVED), (intent(**BOTH),)],
    ):
        writes, outcomes = run(*requests)
        assert all(isinstance(outcome, Draft) for outcome in outcomes)
        assert [row.sequence_number for row in writes.events] == [1, 2, 3]


@pytest.mark.parametrize(
    "requests",
    [
        [(intent(),)],
        [(AUTHORIZED, RESERVED, intent())],
        [(AUTHORIZED, RESERVED, intent(authorization_event="auth"))],
        [(AUTHORIZED, intent(**BOTH))],
        [(intent(**BOTH), AUTHORIZED, RESERVED)],
        [(note("auth"), RESERVED, intent(**BOTH))],
        [(AUTHORIZED, RESERVED, intent(authorization_event="auth", reservation_event="auth"))],
    ],
)
def test_a_gated_intent_without_its_admission_is_refused(
    requests: list[tuple[Prepared, ...]],
) -> None:
    writes, outcomes = run(*requests)
    assert isinstance(outcomes[-1], UnresolvedReference)
    assert writes.events == []


def test_r11_an_intent_whose_admission_was_refused_is_refused_alone() -> None:
    conflict = event("t", "x", "Authorized", Authorized(decision="denied"))
    writes, outcomes = run(
        (note("x"),), (AUTHORIZED, RESERVED, conflict), (intent(**BOTH),), (note("y"),)
    )
    assert isinstance(outcomes[1], IntegrityConflict)
    assert isinstance(outcomes[2], UnresolvedReference)
    assert isinstance(outcomes[3], Draft)
    assert [row.source.event.event_id for row in writes.events] == ["x", "y"]
    assert [row.kind for row in writes.ledger] == ["incident"]


def test_an_unfenced_event_carries_the_newest_epoch_and_no_worker() -> None:
    writes, _ = run((AUTHORIZED,))
    (row,) = writes.events
    assert (row.owner_epoch, row.worker, row.issuer) == (3, None, "service")


def test_an_intent_of_a_reported_trajectory_needs_no_admission_but_names_no_ghosts() -> None:
    _, outcomes = run((intent(),), standing="reported")
    assert isinstance(outcomes[0], Draft)
    _, outcomes = run((intent(**BOTH),), standing="reported")
    assert isinstance(outcomes[0], UnresolvedReference)
