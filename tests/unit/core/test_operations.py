"""The operation table: what settles, what disputes, what is matched to nothing."""

from __future__ import annotations

import pytest

from core.events.admission import Authorized
from core.events.control import ControlChanged
from core.events.envelope import Issuer
from core.events.ownership import OwnershipGranted
from core.events.tool import Basis, ResultStatus, ToolIntent, ToolResult
from core.limits import ATTEMPTS_PER_OPERATION_MAX, EVIDENCE_PER_ATTEMPT_MAX
from core.record.record import Operation, TrajectoryRecord
from core.record.reduce import empty, fold
from tests.strategies import Said, store


def record_of(*said: Said) -> TrajectoryRecord:
    return fold(empty("t-1"), store(said).pairs(), lambda digest: b"")


def operation_of(*said: Said) -> Operation:
    record = record_of(*said)
    found = record.operations.open.get("op") or record.archive.recent.operations.get("op")
    assert found is not None
    return found


def intent(attempt: str | None = "1", revision: str | None = None) -> Said:
    payload = ToolIntent("intent", "bash", arguments={"b": 1, "a": [1.5]}, input_revision=revision)
    return Said("ToolIntent", payload, issuer="service", operation_id="op", attempt_id=attempt)


def result(
    status: ResultStatus,
    basis: Basis = "sender",
    attempt: str | None = "1",
    *,
    issuer: Issuer = "worker",
    worker: str | None = "w-1",
    holds: str | None = None,
    revision: str | None = None,
    operation: str | None = "op",
) -> Said:
    payload = ToolResult(status, basis, holds=holds, input_revision=revision)
    return Said(
        "ToolResult",
        payload,
        issuer=issuer,
        worker=worker,
        operation_id=operation,
        attempt_id=attempt,
    )


@pytest.mark.parametrize("status", ["pending", "partial", "timeout", "unknown", "withheld"])
def test_an_inconclusive_status_settles_nothing(status: ResultStatus) -> None:
    operation = operation_of(intent(), result(status))
    assert operation.unsettled
    assert not operation.attempts[0].evidence[0].adequate


@pytest.mark.parametrize(
    ("basis", "issuers"),
    [
        ("sender", {"worker", "service", "importer"}),
        ("query", {"worker", "service", "reconciler", "importer"}),
        ("callback", {"service", "endpoint", "importer"}),
        ("operator", {"operator", "importer"}),
        ("gate", set()),
    ],
)
def test_a_basis_settles_only_in_the_mouth_of_who_can_have_it(
    basis: Basis, issuers: set[Issuer]
) -> None:
    everyone: tuple[Issuer, ...] = (
        "worker",
        "service",
        "reconciler",
        "operator",
        "importer",
        "endpoint",
    )
    settled = {
        issuer
        for issuer in everyone
        if not operation_of(intent(), result("succeeded", basis, issuer=issuer)).unsettled
    }
    assert settled == issuers


def test_a_gate_closes_only_what_it_withheld() -> None:
    closing = result("no_effect", "gate", issuer="service", worker=None)
    withheld = result("withheld", "gate", issuer="service", worker=None)
    assert operation_of(intent(), closing).unsettled
    assert operation_of(intent(), withheld).unsettled
    assert operation_of(intent(), withheld, closing).outcome == "no_effect"


def test_another_input_revision_settles_nothing() -> None:
    assert operation_of(intent(revision="r-1"), result("succeeded", revision="r-2")).unsettled
    assert not operation_of(intent(revision="r-1"), result("succeeded", revision="r-1")).unsettled


@pytest.mark.parametrize(
    "said",
    [
        [result("succeeded")],
        [intent(), result("succeeded", operation="op-9")],
        [intent(), result("succeeded", attempt="9")],
        [intent(), result("succeeded", operation=None)],
        # Two attempts, and the result names neither.
        [intent(), intent("2"), result("succeeded", attempt=None)],
        # A result does not wait for its intent.
        [result("succeeded"), intent()],
    ],
)
def test_a_result_without_its_intent_is_matched_to_nothing(said: list[Said]) -> None:
    table = record_of(*said).operations
    assert table.unmatched_results == 1
    assert table.by_outcome == {}
    assert table.unsettled == table.total


def test_a_result_that_names_no_attempt_is_about_the_only_one() -> None:
    assert operation_of(intent(None), result("succeeded", attempt=None)).outcome == "succeeded"


def test_the_first_settles_one_that_agrees_is_added_one_that_disagrees_disputes() -> None:
    agreed = operation_of(intent(), result("succeeded"), result("succeeded", "query"))
    assert (agreed.outcome_sequence, len(agreed.attempts[0].evidence)) == (2, 2)
    disputed = operation_of(intent(), result("succeeded"), result("failed", "query"))
    assert disputed.disputed
    assert disputed.unsettled
    assert disputed.outcome == "succeeded"


def test_a_dispute_ends_when_an_event_names_the_result_that_holds() -> None:
    dispute = [intent(), result("succeeded"), result("failed", "query")]
    names = result("failed", "operator", issuer="operator", worker=None, holds="e-3")
    assert operation_of(*dispute, names).outcome == "failed"
    assert not operation_of(*dispute, names).disputed
    # Neither a worker nor an event that names no adequate result ends it.
    by_worker = result("failed", "query", holds="e-3")
    assert operation_of(*dispute, by_worker).disputed
    astray = result("failed", "operator", issuer="operator", worker=None, holds="e-1")
    assert operation_of(*dispute, astray).disputed
    # What disagrees with the held result afterwards disputes again.
    assert operation_of(*dispute, names, result("succeeded", "query")).disputed


def test_each_attempt_is_its_own() -> None:
    one_failed = operation_of(intent(), result("failed"), intent("2"))
    assert one_failed.unsettled
    assert one_failed.outcome == "failed"
    then = operation_of(intent(), result("failed"), intent("2"), result("succeeded", attempt="2"))
    assert (then.outcome, then.outcome_sequence, then.disputed) == ("succeeded", 4, False)
    assert then.closed
    repeated = operation_of(intent(), intent("2"), result("succeeded", attempt="2"))
    assert repeated.possibly_repeated
    assert not repeated.unsettled
    assert not repeated.closed


def test_the_same_attempt_twice_is_one_attempt() -> None:
    assert len(operation_of(intent(), intent()).attempts) == 1


def test_a_closed_operation_is_reopened_by_what_disagrees() -> None:
    record = record_of(intent(), result("succeeded"), result("failed", "query"))
    assert record.operations.by_outcome == {}
    assert set(record.operations.open) == {"op"}


def test_a_licence_names_one_attempt_and_is_used_or_voided() -> None:
    def licence(attempt: str) -> Said:
        return Said(
            "Authorized",
            Authorized("licensed"),
            issuer="operator",
            worker=None,
            operation_id="op",
            attempt_id=attempt,
        )

    failed = [intent(), result("failed")]
    licensed = operation_of(*failed, licence("2"))
    assert (licensed.licence_sequence, licensed.licence_attempt) == (3, "2")
    assert not licensed.closed
    assert operation_of(*failed, licence("2"), intent("2")).licence_sequence is None
    assert operation_of(*failed, licence("2"), intent("3")).licence_attempt == "2"
    late_success = operation_of(intent(), licence("2"), result("succeeded"))
    assert late_success.licence_sequence is None


def test_neither_a_grant_nor_a_control_change_settles_or_renames_anything() -> None:
    grant = Said("OwnershipGranted", OwnershipGranted("i", 2, "w-2", "expiry"), issuer="service")
    change = Said("ControlChanged", ControlChanged("CANCELLED", owners={"op": "ada", "no": "ada"}))
    before, after = operation_of(intent()), operation_of(intent(), grant, change)
    assert after.attempts == before.attempts
    assert after.settlement_owner == "ada"
    assert after.unsettled


def test_an_intent_without_ids_is_visible_all_the_same() -> None:
    bare = Said("ToolIntent", ToolIntent("intent", "bash"))
    record = record_of(bare)
    assert record.operations.open["e-1"].unsettled


def test_evidence_and_attempts_are_bounded_and_what_settles_is_kept() -> None:
    polls = [result("pending", "query") for _ in range(3 * EVIDENCE_PER_ATTEMPT_MAX)]
    attempt = operation_of(intent(), *polls, result("succeeded"), *polls).attempts[0]
    assert len(attempt.evidence) == EVIDENCE_PER_ATTEMPT_MAX
    assert attempt.evidence_dropped == 5 * EVIDENCE_PER_ATTEMPT_MAX + 1
    assert any(one.sequence_number == attempt.outcome_sequence for one in attempt.evidence)
    many = [intent(str(number)) for number in range(2 * ATTEMPTS_PER_OPERATION_MAX)]
    operation = operation_of(*many)
    assert len(operation.attempts) == ATTEMPTS_PER_OPERATION_MAX
    assert operation.attempts_unsettled == 2 * ATTEMPTS_PER_OPERATION_MAX
