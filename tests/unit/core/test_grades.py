"""What may be said of an operation, and when (EFF-2, CLM-1)."""

from __future__ import annotations

import pytest

from core.events.control import ControlChanged
from core.events.envelope import Issuer, Standing
from core.events.ownership import OwnershipGranted
from core.events.task import Capabilities, TaskStarted
from core.events.tool import Basis, ResultStatus, ToolIntent, ToolResult
from core.record.record import TrajectoryRecord
from core.record.reduce import empty, fold
from core.rules.completeness import completeness
from core.rules.grades import Grade, Sender, grade
from tests.strategies import Said, store


def record_of(*said: Said) -> TrajectoryRecord:
    return fold(empty("t-1"), store(said).pairs(), lambda digest: b"")


def granted(epoch: int, worker: str = "w-1") -> Said:
    return Said("OwnershipGranted", OwnershipGranted("i", epoch, worker, "start"), issuer="service")


def intent(
    kind: str = "intent",
    attempt: str = "1",
    *,
    deadline_at: int | None = None,
    issuer: Issuer = "service",
) -> Said:
    payload = ToolIntent(kind, "bash", deadline_at=deadline_at)  # type: ignore[arg-type]
    return Said("ToolIntent", payload, issuer=issuer, operation_id="op", attempt_id=attempt)


def result(
    status: ResultStatus,
    basis: Basis = "sender",
    attempt: str = "1",
    *,
    issuer: Issuer = "worker",
    worker: str | None = "w-1",
    holds: str | None = None,
) -> Said:
    payload = ToolResult(status, basis, holds=holds)
    return Said(
        "ToolResult", payload, issuer=issuer, worker=worker, operation_id="op", attempt_id=attempt
    )


def graded(
    *said: Said,
    standing: Standing = "gated",
    at_head: bool = True,
    now: int | None = None,
    sender: Sender | None = None,
) -> Grade:
    record = record_of(*said)
    operation = record.operations.open.get("op") or record.archive.recent.operations["op"]
    return grade(operation, record, standing=standing, at_head=at_head, now=now, sender=sender)


LATER = 1_900_000_000_000_000
LIVE = Sender(1, True)


@pytest.mark.parametrize(
    ("word", "basis", "said"),
    [
        ("in_flight", None, [granted(1), intent()]),
        ("established", "sender", [granted(1), intent(), result("succeeded")]),
        ("established", "query", [granted(1), intent(), result("no_effect", "query")]),
        ("in_doubt", "sender", [granted(1), intent(), result("timeout")]),
        ("in_doubt", "sender", [granted(1), intent(), result("pending")]),
        ("in_doubt", None, [granted(1), intent(), granted(2, "w-2")]),
        # Another worker's word about an attempt it did not send is no adequate evidence.
        ("in_doubt", "sender", [granted(1), intent(), result("succeeded", worker="w-2")]),
        (
            "not_dispatched",
            "gate",
            [granted(1), intent(), result("withheld", "gate", issuer="service")],
        ),
        ("in_doubt", "sender", [granted(1), intent(), result("withheld")]),
        # The older attempt is in doubt, so the operation is, whatever the newer one does.
        ("in_doubt", "sender", [granted(1), intent(), result("timeout"), intent(attempt="2")]),
        ("in_flight", None, [granted(1), intent(), result("failed"), intent(attempt="2")]),
        ("established", "sender", [granted(1), intent(), result("succeeded"), intent(attempt="2")]),
        # Disagreeing adequate results are disputed until one is named to hold.
        ("in_doubt", None, [granted(1), intent(), result("succeeded"), result("failed", "query")]),
        (
            "established",
            "query",
            [
                granted(1),
                intent(),
                result("succeeded"),
                result("failed", "query"),
                result("failed", "operator", issuer="operator", worker=None, holds="e-4"),
            ],
        ),
        ("unknown", None, [intent("proposal", issuer="worker")]),
    ],
)
def test_the_grade_of_a_gated_operation(word: str, basis: str | None, said: list[Said]) -> None:
    found = graded(*said, sender=LIVE)
    assert (found.word, found.basis) == (word, basis), found.reason
    assert found.reason.endswith(".")


def test_a_lapsed_lease_and_a_passed_deadline_are_doubts_at_the_head_only() -> None:
    said = [granted(1), intent(deadline_at=LATER - 1)]
    assert graded(*said, sender=Sender(1, False)).word == "in_doubt"
    assert graded(*said, sender=LIVE, now=LATER).word == "in_doubt"
    assert graded(*said, sender=LIVE, now=LATER - 2).word == "in_flight"
    earlier = graded(*said, at_head=False, sender=Sender(1, False), now=LATER)
    assert earlier.word == "in_flight"


def test_a_deadline_before_the_boundarys_time_is_a_doubt_at_the_boundary() -> None:
    assert graded(granted(1), intent(deadline_at=1), at_head=False).word == "in_doubt"


@pytest.mark.parametrize("standing", ["imported", "replica"])
def test_absence_in_a_copy_proves_nothing(standing: Standing) -> None:
    for said in (
        [intent("proposal")],
        [intent()],
        [intent(), result("withheld", "gate", issuer="service")],
    ):
        assert graded(*said, standing=standing).word == "unknown"
    answered = [intent("proposal", issuer="importer"), result("succeeded", issuer="importer")]
    assert graded(*answered, standing=standing).word == "established"


@pytest.mark.parametrize(
    ("intents", "kind", "word"),
    [
        ("written_ahead", "intent", "in_flight"),
        ("written_ahead", "proposal", "unknown"),
        ("proposals", "intent", "unknown"),
        ("absent", "intent", "unknown"),
    ],
)
def test_an_intent_that_is_not_written_ahead_is_a_proposal(
    intents: str, kind: str, word: str
) -> None:
    task = TaskStarted(
        "T",
        "reported",
        Capabilities(intents=intents),  # type: ignore[arg-type]
    )
    begun = [Said("TaskStarted", task, issuer="service"), granted(1)]
    for live in (LIVE, None):
        said = [*begun, intent(kind, issuer="worker")]
        assert graded(*said, standing="reported", sender=live).word == word
    late = [*begun, intent(kind, issuer="worker"), result("timeout")]
    assert graded(*late, standing="reported").word == "in_doubt"


def test_possibly_repeated_is_said() -> None:
    found = graded(granted(1), intent(), result("succeeded"), intent(attempt="2"))
    assert found.possibly_repeated
    assert "possibly repeated" in found.reason


def test_nothing_is_known_after_an_event_this_version_cannot_fold() -> None:
    said = [granted(1), intent(), result("timeout"), Said("FromTheFuture", b"{}")]
    found = graded(*said)
    assert found.word == "unknown"
    assert "Event 4" in found.reason


def test_a_terminal_state_settles_nothing() -> None:
    record = record_of(granted(1), intent(), Said("ControlChanged", ControlChanged("CANCELLED")))
    assert record.operations.open["op"].unsettled


def test_what_a_prefix_may_claim() -> None:
    assert completeness("gated", 418).text == "authoritative, complete to 418"
    assert completeness("reported", 1).proves_absence
    assert completeness("imported", 1).text == "imported file, 1 event, completeness not provable"
    gap = completeness("replica", 402, [(410, 418)])
    assert gap.text == "installed copy, complete to 402 of at least 418: a gap from 403 to 409"
    assert not gap.proves_absence
