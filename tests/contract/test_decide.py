"""The decision itself, without any store: what needs a door that this version does not open yet."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from core.errors import IntegrityConflict, NotAllowed, UnresolvedReference
from core.events.admission import Authorized, BudgetReserved
from core.events.envelope import Issuer, Standing, chain_start
from core.events.fields import Charge
from core.events.prepare import Prepared
from core.events.registry import FAMILIES
from core.events.tool import ToolIntent
from core.rules.authority import refuse
from store.decide import decide, wants
from store.ports import AppendCommand, Door
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


@pytest.mark.parametrize("door", ["append", "import", "verb"])
@pytest.mark.parametrize("standing", get_args(Standing))
@pytest.mark.parametrize("issuer", get_args(Issuer))
def test_every_family_is_asked_for_at_every_door_and_a_refusal_is_kept(
    door: Door, standing: Standing, issuer: Issuer
) -> None:
    """The store asks the table for each event, whoever sends it, and keeps what it refused."""
    for type_ in [*FAMILIES, "note.x"]:
        plain = note("x")
        prepared = msgspec.structs.replace(
            plain, event=msgspec.structs.replace(plain.event, type=type_)
        )
        head = HeadState(
            TENANT, "t", 1, standing, 5, 0, chain_start("t"), 5, owner_epoch=3, worker="w"
        )
        fenced = door == "append"
        command = AppendCommand(
            tenant=TENANT,
            trajectory_id="t",
            issuer=issuer,
            door=door,
            request_id="r",
            events=(note("first"), prepared),
            owner_epoch=3 if fenced else None,
            worker="w" if fenced else None,
        )
        known = Known(new_key=lambda: 2, heads={(TENANT, "t"): head})
        rules = Rules(refuse, 1, "i", "host")
        writes, (outcome,) = decide([Member(command, (None, None))], known, now=9, rules=rules)
        reasons = [refuse(standing, issuer, door, one) for one in ("note.test", type_)]
        if any(reasons):
            assert isinstance(outcome, NotAllowed)
            assert (writes.events, writes.heads) == ([], {})
            (row,) = writes.ledger
            assert (row.kind, row.code, row.issuer) == ("refused", "not_allowed", issuer)
        elif type_ == "ToolIntent" and standing == "gated":
            assert isinstance(outcome, UnresolvedReference)
        else:
            assert isinstance(outcome, Draft)
            assert [one.issuer for one in writes.events] == [issuer, issuer]
            assert writes.ledger == []
