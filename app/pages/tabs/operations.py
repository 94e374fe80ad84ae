"""Tab *Operations*: every operation up to the boundary, with its grade and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.pages import reading
from app.pages.tabs.reads import Reads, SubAgent
from app.presenters.format import duration, exact
from app.presenters.state import Graded
from app.presenters.terminal import one_line
from core.errors import CorruptAt, NotFound, StrandlineError
from core.events.envelope import Event
from core.record import listing
from core.record.archive import OPERATION
from core.record.listing import Cursor, Wanted
from core.record.record import Attempt, Operation
from core.rules.grades import grade

#: Operations on one page; each is read with its events.
PAGE = 30
#: In a page that leaves this place, which has no second one.
SEALED_PAGE = 1_000
ATTEMPTS_SHOWN = 8
#: Events that name an operation and change its row; a charge or a grant does not.
_MOVING = frozenset({"ToolIntent", "ToolResult", "Authorized"})
TOOLS_OFFERED = 24
#: States one may ask for: (name in the URL, how it is called).
STATES: tuple[tuple[str, str], ...] = (
    ("", "all"),
    ("unsettled", "unsettled"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("no_effect", "no effect"),
    ("disputed", "disputed"),
)


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One attempt: where its intent stands, and what became of it."""

    name: str
    intent: int
    said: str
    """Its evidence, in order."""
    at: int | None
    """Where its last evidence stands."""


@dataclass(frozen=True, slots=True)
class OperationLine:
    """One operation as a row."""

    name: str
    tool: str
    about: str
    """The most telling words of its arguments."""
    kind: str
    outcome: str
    """Empty: none is established."""
    covers: str
    """What it holds for, where that is not the whole of it."""
    grade: Graded
    duration: str
    duration_why: str
    """Which times it is between; or why there is none."""
    attempts: tuple[AttemptLine, ...]
    attempts_total: int
    unsettled_attempts: int
    intent: int
    settled: int | None
    step: int | None
    here: bool
    """The event at the boundary is of it."""
    repeated: bool
    sub_agents: tuple[SubAgent, ...] = ()
    """Trajectories that carry it out."""


@dataclass(frozen=True, slots=True)
class OperationsPanel:
    """One page of the operations at the boundary."""

    rows: tuple[OperationLine, ...] = ()
    total: int = 0
    counts: tuple[tuple[str, str, int | None], ...] = ()
    """(state, how it is called, how many there are; None: not counted)."""
    tools: tuple[str, ...] = ()
    after: str = ""
    """Cursor of the next page."""
    scanned_to: int | None = None
    unmatched: int = 0
    why: str = ""
    """Why the archive could not be read."""
    bad_state: str = ""


@dataclass(slots=True)
class _Events:
    """The events of operations up to the boundary, each read once."""

    reads: Reads
    known: dict[str, list[Event]] = field(default_factory=dict)

    def of(self, operation_id: str) -> list[Event]:
        found = self.known.get(operation_id)
        if found is None:
            place = self.reads.place
            found = self.known[operation_id] = self.reads.runtime.operation_events(
                self.reads.who, place.trajectory_id, operation_id, upto=place.seq
            )
        return found

    def touched(self, operation: Operation) -> bool:
        """Whether an event that moves the operation is newer than an archived row of it."""
        return any(
            event.type in _MOVING and event.sequence_number > operation.last_sequence
            for event in self.of(operation.operation_id)
        )


def load(reads: Reads) -> OperationsPanel:
    """The panel; an archive that cannot be read is said, and what is held by value still shown."""
    place, record = reads.place, reads.record
    events = _Events(reads)
    names = [name for name, _ in STATES]
    bad = place.state if place.state not in names else ""
    wanted = Wanted(place.tool, "" if bad else place.state)
    travel = reads.runtime.time_travel
    segments = travel.segments(reads.who.tenant)

    def current(operation: Operation) -> bool:
        if operation.closed and not events.touched(operation):
            return True
        # One that was open when it was archived may lie in a newer segment without a new event.
        newest = segments.find(record.archive.segments, OPERATION, operation.operation_id)
        return newest is None or newest.last_sequence == operation.last_sequence

    why, limit = "", SEALED_PAGE if reads.sealed else PAGE
    try:
        page = listing.operations(
            record, segments, current, wanted=wanted, limit=limit, after=_cursor(place.older)
        )
        travel.give_back(reads.who.tenant, segments)
    except (NotFound, CorruptAt, StrandlineError) as error:
        why = f"older operations cannot be read: {one_line(str(error), 160)}"
        held = record.archive.recent.operations.values()
        rows = [op for op in (*record.operations.open.values(), *held) if wanted.has(op)]
        page = listing.Listed(tuple(sorted(rows, key=lambda op: -op.last_sequence)[:limit]), None)
    return OperationsPanel(
        tuple(_line(reads, events, operation) for operation in page.rows),
        record.operations.total,
        _counts(reads),
        _tools(reads, page.rows),
        f"{page.after[0]}.{page.after[1]}" if page.after is not None else "",
        page.scanned_to,
        record.operations.unmatched_results,
        why,
        bad,
    )


def _cursor(text: str) -> Cursor | None:
    group, dot, offset = text.partition(".")
    return (int(group), int(offset)) if dot and group.isdigit() and offset.isdigit() else None


def _counts(reads: Reads) -> tuple[tuple[str, str, int | None], ...]:
    """How many there are of each state. Of those that lie in the archive and are not closed, only
    how many are unsettled is known."""
    operations = reads.record.operations
    sums: dict[str, int | None] = {"": operations.total, "unsettled": operations.unsettled}
    for state in ("succeeded", "failed", "no_effect"):
        sums[state] = operations.by_outcome.get(state, 0) + sum(
            1 for op in operations.open.values() if op.outcome == state and not op.unsettled
        )
    spilled_settled = operations.spilled - operations.spilled_unsettled
    if spilled_settled:
        sums |= {"succeeded": None, "failed": None, "no_effect": None}
    sums["disputed"] = (
        None if operations.spilled else sum(op.disputed for op in operations.open.values())
    )
    return tuple((name, word, sums[name]) for name, word in STATES)


def _tools(reads: Reads, rows: tuple[Operation, ...]) -> tuple[str, ...]:
    """Tools to choose from: those of what is held by value and of this page."""
    record = reads.record
    seen = (*record.operations.open.values(), *record.archive.recent.operations.values(), *rows)
    return tuple(sorted({operation.tool for operation in seen})[:TOOLS_OFFERED])


def _graded(reads: Reads, operation: Operation) -> tuple[Graded, bool]:
    now = reads.runtime.clock() if reads.at_head else None
    told = grade(
        operation, reads.record, standing=reads.head.standing, at_head=reads.at_head, now=now
    )
    known: Mapping[str, Graded] = reads.grades
    graded = known.get(operation.operation_id) or Graded(
        told.word, told.basis or "", told.reason, operation.unsettled
    )
    return graded, told.possibly_repeated


def _line(reads: Reads, events: _Events, operation: Operation) -> OperationLine:
    graded, repeated = _graded(reads, operation)
    found = events.of(operation.operation_id)
    at = {event.sequence_number: event for event in found}
    first = at.get(operation.first_sequence)
    about = reading.item(reads.runtime, reads.who, first).line.text if first is not None else ""
    about = about.removesuffix("proposal").removeprefix(one_line(operation.tool, 40))
    took, why = _duration(reads, operation, at)
    settled = at.get(operation.outcome_sequence) if operation.outcome_sequence else None
    here = any(event.sequence_number == reads.place.seq for event in found)
    return OperationLine(
        operation.operation_id,
        operation.tool,
        about.strip(" ·"),
        operation.kind,
        (operation.outcome or "").replace("_", " ") if not operation.disputed else "disputed",
        reads.covers(operation, settled).removeprefix("that "),
        graded,
        took,
        why,
        tuple(_attempt(attempt) for attempt in operation.attempts[-ATTEMPTS_SHOWN:]),
        len(operation.attempts) + operation.attempts_dropped,
        operation.attempts_unsettled,
        operation.first_sequence,
        operation.outcome_sequence,
        operation.step,
        here,
        repeated,
        reads.sub_agents(operation.operation_id),
    )


def _attempt(attempt: Attempt) -> AttemptLine:
    said = ", ".join(
        f"{one.status.replace('_', ' ')} by {one.basis}"
        + ("" if one.adequate else ", settles nothing")
        for one in attempt.evidence[-4:]
    )
    last = attempt.evidence[-1].sequence_number if attempt.evidence else None
    if attempt.disputed:
        said += "; they disagree"
    return AttemptLine(attempt.attempt_id, attempt.intent_sequence, said, last)


def _duration(reads: Reads, operation: Operation, at: Mapping[int, Event]) -> tuple[str, str]:
    """From the intent of the attempt that settled it to that result; and on whose clock."""
    if operation.outcome_sequence is None:
        return "", "no outcome is established"
    settled = next(
        (one for one in operation.attempts if one.outcome_sequence == operation.outcome_sequence),
        None,
    )
    began = settled.intent_sequence if settled is not None else operation.first_sequence
    start, end = at.get(began), at.get(operation.outcome_sequence)
    if start is None or end is None:
        return "", "its events are too many to read for this page"
    if start.occurred_at is not None and end.occurred_at is not None:
        return (
            duration(end.occurred_at - start.occurred_at),
            f"from {exact(start.occurred_at)} to {exact(end.occurred_at)}, as its producer states",
        )
    if reads.head.standing in ("gated", "reported"):
        return (
            duration(end.recorded_at - start.recorded_at),
            "between the times at which the store recorded both",
        )
    return "", "the source states no times"
