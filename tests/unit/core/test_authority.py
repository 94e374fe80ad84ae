"""Every family x issuer x door x standing of "Who may append what", against a set of its own."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from core.events.envelope import Issuer, Standing
from core.rules import authority
from store import ports

FAMILIES = (
    "TaskStarted ContextBuilt ModelReplied Authorized BudgetReserved BudgetSettled ToolIntent "
    "ToolResult ControlChanged PlanChanged ApprovalRequested ApprovalResolved Compacted "
    "RuntimeInput OwnershipGranted Checkpoint Resumed Forked Unparsed"
).split()
OTHERS = ["note.remark", "note.", "FromTheFuture"]

#: One line per allowed combination: standing, issuer, door, types. Written from the contract.
EXPECTED = """
gated     worker      append   ContextBuilt ModelReplied PlanChanged Compacted RuntimeInput
gated     worker      append   ApprovalRequested ToolResult BudgetSettled note.remark
gated     service     create   TaskStarted
gated     service     claim    OwnershipGranted
reported  service     create   TaskStarted
reported  service     claim    OwnershipGranted
reported  worker      append   ContextBuilt ModelReplied Authorized BudgetReserved BudgetSettled
reported  worker      append   ToolIntent ToolResult ControlChanged PlanChanged ApprovalRequested
reported  worker      append   Compacted RuntimeInput Unparsed note.remark
imported  importer    import   TaskStarted ContextBuilt ModelReplied Authorized BudgetReserved
imported  importer    import   BudgetSettled ToolIntent ToolResult ControlChanged PlanChanged
imported  importer    import   ApprovalRequested ApprovalResolved Compacted RuntimeInput
imported  importer    import   OwnershipGranted Checkpoint Resumed Forked Unparsed note.remark
"""


def expected() -> set[tuple[str, str, str, str]]:
    allowed = set()
    for line in EXPECTED.split("\n"):
        if line.strip():
            standing, issuer, door, *types = line.split()
            allowed |= {(standing, issuer, door, type_) for type_ in types}
    for issuer in ("worker", "service", "reconciler", "operator", "importer", "endpoint"):
        allowed |= {("replica", issuer, "install", type_) for type_ in FAMILIES + OTHERS}
    return allowed


def test_exactly_the_contracts_combinations_are_allowed() -> None:
    combinations = itertools.product(
        get_args(Standing), get_args(Issuer), get_args(ports.Door), FAMILIES + OTHERS
    )
    allowed = {
        (standing, issuer, door, type_)
        for standing, issuer, door, type_ in combinations
        if authority.refuse(standing, issuer, door, type_) is None
    }
    assert allowed == expected()


def test_the_families_named_here_are_the_registrys() -> None:
    assert authority.EVERY_FAMILY == set(FAMILIES)


def test_the_doors_are_the_stores() -> None:
    assert get_args(authority.Door) == get_args(ports.Door)


@pytest.mark.parametrize(
    ("standing", "issuer", "door", "type_", "says"),
    [
        ("gated", "worker", "append", "ToolIntent", "may not assert ToolIntent"),
        ("gated", "worker", "append", "Made.Up", "not an event type"),
        ("imported", "worker", "append", "ToolResult", "standing imported by append"),
        ("gated", "operator", "append", "ToolResult", "issuer operator appends nothing"),
        ("gated", "service", "create", "note.hello", "notes are not appended by create"),
        ("gated", "service", "verb", "Authorized", "by verb"),
    ],
)
def test_a_refusal_says_which_part_is_wrong(
    standing: Standing, issuer: Issuer, door: authority.Door, type_: str, says: str
) -> None:
    reason = authority.refuse(standing, issuer, door, type_)
    assert reason is not None
    assert says in reason
