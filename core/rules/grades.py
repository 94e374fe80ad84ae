"""Grades: what may be said of one operation (EFF-2, CLM-1), computed outside the fold.

INVARIANTS
1. A grade at an earlier boundary uses the record there and nothing learnt after it: no clock and
   no lease table, only a later epoch, inconclusive evidence or a passed deadline in the prefix.
2. `established` needs adequate evidence that nothing adequate disagrees with.
3. `not_dispatched` needs a gate's word that the attempt was not sent, in a gated trajectory.
4. An imported or installed prefix proves no absence: what is unsettled in it is `unknown`.
5. An intent that its source does not write ahead is a proposal, whatever it calls itself (STD-2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.events.envelope import Standing
from core.events.tool import SETTLING, Basis
from core.instants import Instant
from core.record.record import Attempt, Operation, TrajectoryRecord

Word = Literal["established", "in_flight", "in_doubt", "not_dispatched", "unknown", "expired"]


@dataclass(frozen=True, slots=True)
class Grade:
    """One word with what it rests on and why, in a sentence."""

    word: Word
    basis: Basis | None
    reason: str
    possibly_repeated: bool = False
    """Established by one attempt while another is unsettled (EFF-7)."""


@dataclass(frozen=True, slots=True)
class Sender:
    """What the lease table says at the head of who holds the newest epoch."""

    owner_epoch: int
    live: bool


def grade(
    operation: Operation,
    record: TrajectoryRecord,
    *,
    standing: Standing,
    at_head: bool,
    now: Instant | None = None,
    sender: Sender | None = None,
    payload_expired: bool = False,
) -> Grade:
    """The grade of an operation at the record's boundary.

    `standing` is the store's. `now` and `sender` (the store's clock and lease table) count at the
    head only; without them time is that of the last event. `payload_expired`: the bytes of its
    evidence are past their retention.
    """
    if payload_expired:
        return Grade(
            "expired", operation.outcome_basis, "The bytes are past their retention; digest kept."
        )
    if record.blocked is not None and record.blocked.sequence_number <= record.boundary:
        return Grade(
            "unknown",
            None,
            f"Event {record.blocked.sequence_number} is unknown to this version, so nothing after "
            "it is folded.",
        )
    if not operation.unsettled:
        return _established(operation)
    if standing in ("imported", "replica"):
        return _unprovable(operation, standing)
    if operation.disputed:
        return Grade(
            "in_doubt",
            None,
            "Adequate results disagree, and none has been named to hold.",
        )
    if operation.attempts_dropped_unsettled:
        return Grade("in_doubt", None, "An old attempt, now in the log only, is unsettled.")
    if not at_head:
        now, sender = None, None
    grades = [
        _attempt(operation, attempt, record, standing, now=now, sender=sender)
        for attempt in operation.attempts
        if attempt.unsettled
    ]
    worst = min(grades, key=lambda one: _WORST_FIRST.index(one.word))
    if at_head and sender is None and worst.word == "in_flight":
        return Grade("in_flight", None, worst.reason + " No lease says whether its sender lives.")
    return worst


_WORST_FIRST: tuple[Word, ...] = ("in_doubt", "unknown", "in_flight", "not_dispatched")


def _established(operation: Operation) -> Grade:
    word = (operation.outcome or "").replace("_", " ")
    reason = f"Event {operation.outcome_sequence} records that it {_SAID[word]}"
    if operation.possibly_repeated:
        return Grade(
            "established",
            operation.outcome_basis,
            f"{reason}; another attempt is unsettled, so it is possibly repeated.",
            possibly_repeated=True,
        )
    return Grade("established", operation.outcome_basis, f"{reason}, and nothing disagrees.")


_SAID = {
    "succeeded": "succeeded",
    "failed": "failed at its endpoint",
    "no effect": "had no effect",
}


def _unprovable(operation: Operation, standing: Standing) -> Grade:
    if operation.disputed:
        return Grade(
            "unknown",
            None,
            "The results in this copy disagree, and it may not hold all there are.",
        )
    source = "an imported file" if standing == "imported" else "an installed copy"
    asked = "a call the model asked for" if operation.kind == "proposal" else "an intent"
    evidence = operation.attempts[-1].evidence if operation.attempts else ()
    if evidence:
        said = f"its last result says {evidence[-1].status}, which settles nothing"
    else:
        said = "no result up to here"
    return Grade(
        "unknown",
        None,
        f"From {source}: {asked}; {said}, and absence there proves nothing.",
    )


def _attempt(
    operation: Operation,
    attempt: Attempt,
    record: TrajectoryRecord,
    standing: Standing,
    *,
    now: Instant | None,
    sender: Sender | None,
) -> Grade:
    """The grade of one unsettled attempt."""
    last = attempt.evidence[-1] if attempt.evidence else None
    if last is not None and last.status == "withheld":
        at = f"Event {last.sequence_number}"
        if last.basis == "gate" and standing == "gated":
            return Grade("not_dispatched", "gate", f"{at}: admitted, and withheld by the gate.")
        return Grade(
            "in_doubt", last.basis, f"{at} says it was withheld, but no gate of this service does."
        )
    if last is not None:
        settling = last.status in SETTLING
        return Grade(
            "in_doubt",
            last.basis,
            f"Event {last.sequence_number} says {last.status.replace('_', ' ')}, "
            + ("on evidence that settles nothing." if settling else "which settles nothing."),
        )
    ahead = standing == "gated" or record.scope.capabilities.intents == "written_ahead"
    if operation.kind == "proposal" or not ahead:
        return Grade(
            "unknown",
            None,
            "A proposal: the source records what was asked for, not that it was sent."
            if operation.kind == "proposal"
            else "Its runtime does not write intents ahead of their effect, so this one counts as "
            "a proposal: what was asked for, not that it was sent.",
        )
    newest, sent_under = record.ownership.owner_epoch, attempt.owner_epoch
    if newest > sent_under:
        return Grade(
            "in_doubt",
            None,
            f"Sent under generation {sent_under}; generation {newest} has been granted since.",
        )
    if sender is not None and not (sender.live and sender.owner_epoch == sent_under):
        return Grade("in_doubt", None, f"The lease of its generation {sent_under} is not live.")
    instant = now if now is not None else record.last_recorded_at
    if attempt.deadline_at is not None and instant is not None and instant > attempt.deadline_at:
        return Grade(
            "in_doubt",
            None,
            "Its deadline has passed by the store's clock without a conclusive result.",
        )
    return Grade(
        "in_flight",
        None,
        f"Intent {attempt.intent_sequence} is durable under the newest generation, "
        f"{sent_under}, and no result is recorded.",
    )
