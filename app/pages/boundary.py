"""The page of one boundary: everything read for it, and nothing of it from after the boundary.

INVARIANTS
1. What is shown as known comes from the record at the boundary, the events up to it and their
   times. What the page says of later stands in `later` and in rows marked so.
2. The number of events read depends on the window, never on the length of the log.
3. A sealed page is read as if the log ended at the boundary: no count, name or lane of it comes
   from an event after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from app.followed import Claim, Followed
from app.pages import reading, rows
from app.pages.desk import Desk
from app.pages.desk import load as load_desk
from app.pages.place import TABS as TAB_NAMES
from app.pages.place import Place, Tab
from app.pages.rows import Chosen, Found
from app.pages.tabs import TABS, Panel, evidence
from app.pages.tabs.evidence import Verified
from app.pages.tabs.reads import Reads
from app.presenters import log_list, timeline
from app.presenters.acted import Banner, banners
from app.presenters.format import count, duration, grouped, money, plural
from app.presenters.lanes import LaneCount
from app.presenters.log_list import Clock, LogList
from app.presenters.standing import (
    Completeness,
    absent_lanes,
    completeness,
    control_word,
    cost_doubt,
)
from app.presenters.state import Graded
from app.presenters.terminal import one_line
from app.presenters.timeline import Item, OpenOperation, Ribbon
from app.render import Page
from core.errors import NotReconstructed
from core.events.control import TERMINAL
from core.events.marks import CHECKPOINTS, ERRORS, MODEL_CALLS, TOOLS, Mark
from core.principal import Principal
from core.record.record import TrajectoryRecord
from core.rules.grades import grade
from core.rules.prices import day_of, derive
from runtime.projector import run_tokens
from runtime.service import Runtime
from runtime.time_travel import RecordView
from store.ports import Head

#: Keys of the jumps: (key, name, marks it goes to).
JUMPS: tuple[tuple[str, str, tuple[Mark, ...]], ...] = (
    ("m", "model", MODEL_CALLS),
    ("t", "tool", TOOLS),
    ("e", "error", ERRORS),
    ("c", "checkpoint", CHECKPOINTS),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of the header: `name value rest`."""

    name: str
    value: str
    rest: str = ""
    title: str = ""
    long: bool = False
    """Its value may be cut where the line is full."""


@dataclass(frozen=True, slots=True)
class Jump:
    """One keyed jump: where it goes, forward and back, or why it goes nowhere."""

    key: str
    name: str
    forward: int | None
    back: int | None

    @property
    def why(self) -> str:
        """The reason a jump forward is not offered."""
        return f"no later {self.name}" if self.forward is None else ""


@dataclass(frozen=True, slots=True)
class BoundaryPage(Page):
    """One boundary of one trajectory."""

    template: ClassVar[str] = "pages/boundary.html"
    parts: ClassVar[Mapping[str, str]] = {"view": "partials/_view.html"}
    section: ClassVar[str] = "Trajectories"
    tabs: ClassVar[tuple[Tab, ...]] = TAB_NAMES

    place: Place
    head: Head
    now: int
    name: str
    record: TrajectoryRecord
    view: RecordView
    control: str
    marks: tuple[tuple[str, int], ...]
    """(grade, how many unsettled operations have it), at the boundary."""
    undecided: int
    """Approvals asked for and not decided."""
    facts: tuple[Fact, ...]
    complete: Completeness
    later: str
    never: tuple[str, ...]
    """Lanes the source can never fill."""
    unused: tuple[str, ...]
    """Lanes that nothing up to the boundary fills."""
    ribbon: Ribbon | None
    log: LogList
    jumps: tuple[Jump, ...]
    turns: tuple[int | None, int | None]
    times: str
    """Why the axis cannot be by time, or empty."""
    blocked: str
    desk: Desk
    """What people said of it, and the tree it is part of."""
    banners: tuple[Banner, ...] = ()
    """Why it is in no list, where it is in none."""
    zooms: tuple[tuple[str, str, str], ...] = ()
    """Other stretches to draw: (name, as the URL says it, why it cannot be)."""
    found: Found | None = None
    """What was looked for in this log, and where it stands."""
    lanes: tuple[LaneCount, ...] = ()
    """The lanes that the log list can be cut down to, where that is asked for."""
    notice: str = ""
    live: bool = False
    """It stands at the end of an open trajectory and follows it."""
    held: bool = False
    """It stands before the end of one: it holds still, and is told how much came since."""
    follows: Claim | None = None
    """What may be said of more to come, where it stands at the end."""
    since: int = 0
    """The head when it was read."""
    newer: int = 0
    """How many events came since; a page that was just read has none."""
    sealed: bool = False
    """It is read as if the log ended here."""
    named_later: bool = False
    """Its name is stated by a later event."""
    panel: Panel = None
    """What the tab shows."""


def load(
    runtime: Runtime,
    who: Principal,
    place: Place,
    *,
    notice: str = "",
    verified: Verified | None = None,
    wait: bool = False,
    sealed: bool = False,
    followed: Followed | None = None,
) -> BoundaryPage:
    """Read everything the page of `place` shows. NotFound beyond the head. `wait`: let the
    full-text index catch up first, where something is looked for. `sealed`: as if the log ended at
    the boundary, for a page that leaves this place. `followed`: who is known to read its file."""
    view = reading.records(runtime).keep(
        who, runtime.record_at(who, place.trajectory_id, place.seq)
    )
    head = _ended_here(view) if sealed else view.head
    reads = Reads(runtime, who, place, head, view, sealed=sealed)
    log_span = log_list.span(place.seq, head.sequence_number, place.rows)
    zoomed = timeline.zoomed(place.zoom, head.sequence_number)
    drawn = zoomed or timeline.window(place.seq, head.sequence_number)
    found, chosen = rows.choose(reads, wait=wait)
    if head.sequence_number:
        first, last = _to_read(log_span, drawn, zoomed=zoomed is not None, cut=chosen is not None)
        reads.items = reading.items(runtime, who, place.trajectory_id, first, last)
    record = view.record
    grades = reads.grades = _grades(reads)
    told_later = "" if record.scope.title or sealed else _title_later(reads)
    name = record.scope.title or told_later or place.trajectory_id
    end = _at_head(reads)
    # What the source can fill is stated by event 1; the drawing keeps its height also before it.
    absent = absent_lanes(head.standing, (end or record).scope.capabilities)
    desk = load_desk(runtime, who, place.trajectory_id, place.seq, record)
    page: dict[str, object] = {
        "title": f"{count(place.seq)} of {one_line(name, 80)}",
        "place": place,
        "head": head,
        "now": runtime.clock(),
        "name": one_line(name, 200),
        "record": record,
        "view": view,
        "control": control_word(record.control.state, head.standing, at_end=reads.at_head)
        if place.seq
        else "not started",
        "marks": _marks(grades),
        "undecided": sum(1 for held in record.approvals.open.values() if held.decision is None),
        "facts": _facts(reads),
        "complete": completeness(
            head, runtime.staged(who, place.trajectory_id) if head.staged else (), part=sealed
        ),
        "later": _later(reads, end),
        "never": tuple(sorted(absent)) if place.seq else (),
        "unused": tuple(sorted(set(_unused(record)) - absent)) if place.seq else (),
        "ribbon": _ribbon(reads, drawn, grades, absent, end),
        "log": _log(
            reads, log_span, found, chosen, end, noted=frozenset() if sealed else desk.noted
        ),
        "zooms": _zooms(reads, drawn),
        "found": found,
        "lanes": rows.lane_counts(reads) if place.only else (),
        "jumps": _jumps(reads, end),
        "turns": _turns(reads),
        "times": _times_why(reads),
        "blocked": _blocked(record),
        "banners": banners(runtime.standing_of(who, place.trajectory_id)),
        "notice": notice,
        "live": not sealed and _open(reads),
        "held": not sealed and _held(reads, end),
        "follows": (followed or Followed()).claim(
            str(who.tenant), place.trajectory_id, head.standing
        ),
        "since": head.sequence_number,
        "sealed": sealed,
        "named_later": bool(told_later),
        "desk": desk,
    }
    page["panel"] = (
        evidence.load(reads, verified) if verified is not None else TABS[place.tab](reads)
    )
    return BoundaryPage(**page)  # type: ignore[arg-type]


def _to_read(
    log_span: tuple[int, int], drawn: tuple[int, int], *, zoomed: bool, cut: bool
) -> tuple[int, int]:
    """The events to read whole: those listed and those drawn one by one."""
    by_one = drawn[1] - drawn[0] < timeline.DRAWN_MAX
    if cut and by_one:
        return drawn
    if zoomed:
        # What is drawn apart from the list is read for the drawing alone.
        return log_span
    return min(log_span[0], drawn[0]), max(log_span[1], drawn[1])


def _log(
    reads: Reads,
    log_span: tuple[int, int],
    found: Found | None,
    chosen: Chosen | None,
    end: TrajectoryRecord | None,
    *,
    noted: frozenset[int],
) -> LogList:
    """The rows of the log list: those around the boundary, or those that were asked for."""
    first, last = log_span
    items: Sequence[Item] = (
        chosen.items
        if chosen is not None
        else [i for i in reads.items if first <= i.event.sequence_number <= last]
    )
    zero, clock = _began(reads, end)
    listed = items[0].event.sequence_number if items else 0
    built = log_list.build(
        items,
        reads.place.seq,
        zero=zero,
        clock=clock,
        of_day=reads.place.times == "clock",
        before=next((i.event for i in reads.items if i.event.sequence_number == listed - 1), None),
        words=found.words if found is not None else None,
        text_of=lambda event: reading.searched(reads.runtime, reads.who, event),
        noted=noted,
    )
    if chosen is not None:
        return replace(built, earlier=chosen.earlier, later=chosen.later, cut=True)
    head = reads.head.sequence_number
    return replace(
        built,
        earlier=first - 1 if built.first > 1 else None,
        later=last + 1 if built.last < head else None,
    )


def _began(reads: Reads, end: TrajectoryRecord | None) -> tuple[int | None, Clock]:
    """When the trajectory began, the same at every boundary, and on whose clock: the producer's,
    or the store's where a log of its own states no time."""
    zero = (end or reads.view.record).first_occurred_at
    if zero is not None or reads.head.standing not in ("gated", "reported"):
        return zero, "occurred"
    if not reads.head.sequence_number:
        return None, "recorded"
    first = reads.runtime.event(reads.who, reads.place.trajectory_id, 1)
    return first.recorded_at, "recorded"


def _ended_here(view: RecordView) -> Head:
    """The head as it would be if the log ended at the boundary."""
    return msgspec.structs.replace(
        view.head, sequence_number=view.boundary, staged=0, staged_to=0, incidents=0
    )


# ---- header ------------------------------------------------------------------------------


def _title_later(reads: Reads) -> str:
    """At boundary 0 nothing is known; the title is the store's list entry, for the eye only."""
    summary = reads.runtime.summary(reads.who, reads.place.trajectory_id)
    return str(summary["title"]) if summary and summary.get("title") else ""


def _grades(reads: Reads) -> dict[str, Graded]:
    record, head = reads.view.record, reads.head
    at_head = reads.at_head
    # At the head the store's clock counts; at an earlier boundary only what its events say (EFF-2).
    now = reads.runtime.clock() if at_head else None
    found = {}
    for operation in record.operations.open.values():
        told = grade(operation, record, standing=head.standing, at_head=at_head, now=now)
        found[operation.operation_id] = Graded(
            told.word, told.basis or "", grouped(told.reason), operation.unsettled
        )
    return found


def _marks(grades: Mapping[str, Graded]) -> tuple[tuple[str, int], ...]:
    words = [graded.word for graded in grades.values() if graded.unsettled]
    order = ("in_doubt", "unknown", "in_flight", "not_dispatched")
    return tuple((word, words.count(word)) for word in order if word in words)


def _facts(reads: Reads) -> tuple[Fact, ...]:
    record, head = reads.view.record, reads.head
    scope, owner, progress = record.scope, record.ownership, record.progress
    facts = []
    if owner.owner_epoch:
        facts.append(Fact("generation", count(owner.owner_epoch), owner.worker or ""))
    elif head.standing == "imported":
        from_ = one_line(scope.agent or scope.source or "a file", 60)
        facts.append(Fact("imported from", from_, long=True))
    if scope.agent and head.standing != "imported":
        facts.append(Fact("agent", one_line(scope.agent, 60), long=True))
    model = record.calls.models[0] if record.calls.models else scope.model
    if model:
        facts.append(Fact("model", one_line(model, 60), long=True))
    facts.append(
        Fact("step", count(progress.step), f"now · {count(progress.high_water)} high-water")
    )
    recovery = record.recovery
    if recovery.checkpoints:
        facts.append(
            Fact(
                "recovery head",
                f"{recovery.head_generation}.{recovery.head_checkpoint_seq}",
                f"covers {count(recovery.head_covers)}",
            )
        )
    tokens = record.calls.tokens
    known = record.calls.replied - tokens.unreported
    if known > 0:
        total = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
        facts.append(
            Fact(
                "tokens",
                count(total),
                "" if not tokens.unreported else "at least",
                f"reported by replies: {count(tokens.input)} in, {count(tokens.output)} out, "
                f"{count(tokens.cache_read)} cache read, {count(tokens.cache_write)} cache write",
            )
        )
    elif (of_run := run_tokens(record)) is not None:
        facts.append(
            Fact(
                "tokens",
                count(of_run),
                "of the run",
                "what the budget was told of for the whole run; no reply reports its own",
            )
        )
    usd = record.budget.accounts.get("usd")
    if usd is not None and usd.unit == "nano_usd" and usd.settlements:
        doubt = cost_doubt(usd.consumed, head.standing)
        facts.append(
            Fact("cost", money(usd.consumed), "stated; it may be no price" if doubt else "", doubt)
        )
    elif known > 0:
        priced = derive(
            record.calls.tokens_by_model,
            tokens,
            day_of(record.first_occurred_at),
            reads.runtime.price_table(reads.who),
        )
        if priced.nano_usd is not None:
            facts.append(
                Fact(
                    "cost",
                    money(priced.nano_usd),
                    "derived" if not tokens.unreported else "derived, at least",
                    "what the tokens up to here cost by the price table; the source states none",
                )
            )
    start, end = record.first_occurred_at, record.last_occurred_at
    if start is not None and end is not None and end > start:
        facts.append(Fact("after", duration(end - start)))
    if head.standing in ("gated", "reported"):
        store = reads.runtime.facts()
        verified = "verified" if store.verified else "not verified"
        facts.append(Fact("failure domain", store.declared_domain, verified))
    return tuple(facts)


def _at_head(reads: Reads) -> TrajectoryRecord | None:
    """The record at the head, for what is marked later; None where it cannot be folded."""
    if reads.place.seq == reads.head.sequence_number:
        return reads.view.record
    try:
        return reads.record_at(reads.head.sequence_number)
    except NotReconstructed:
        return None


def _later(reads: Reads, end: TrajectoryRecord | None) -> str:
    rest = reads.head.sequence_number - reads.place.seq
    if not rest:
        return ""
    said = plural(rest, "more event")
    if end is None:
        return said
    if end.control.state != reads.view.record.control.state:
        ended = control_word(end.control.state, reads.head.standing, at_end=True)
        said += f", then {ended}"
    here, there = reads.view.record.operations, end.operations
    settled = sum(
        1
        for key, operation in here.open.items()
        if operation.unsettled and not (key in there.open and there.open[key].unsettled)
    )
    return said + (f", {count(settled)} of the unsettled settled" if settled else "")


def _open(reads: Reads) -> bool:
    """Whether more may be appended, and the page stands where it would appear: a run of its own
    that goes on, or a file or copy that records no end and may be read further."""
    at_end = reads.place.seq == reads.head.sequence_number
    return at_end and reads.view.record.control.state not in TERMINAL


def _held(reads: Reads, end: TrajectoryRecord | None) -> bool:
    """Whether the page stands before the end of a trajectory to which more may be appended."""
    before = reads.place.seq < reads.head.sequence_number
    return before and (end is None or end.control.state not in TERMINAL)


@dataclass(frozen=True, slots=True)
class AheadPage(Page):
    """What has come after a boundary since its page was read."""

    template: ClassVar[str] = "partials/_ahead.html"
    parts: ClassVar[Mapping[str, str]] = {"ahead": "partials/_ahead.html"}

    place: Place
    head: Head
    later: str
    held: bool
    since: int
    newer: int


def ahead(runtime: Runtime, who: Principal, place: Place, since: int) -> AheadPage:
    """That of a page that was read when the head was `since`; NotFound beyond the head."""
    view = reading.records(runtime).keep(
        who, runtime.record_at(who, place.trajectory_id, place.seq)
    )
    reads = Reads(runtime, who, place, view.head, view)
    newer = max(0, view.head.sequence_number - since)
    return AheadPage(
        title="Ahead",
        place=place,
        head=view.head,
        later=_later(reads, _at_head(reads)),
        # It goes on listening: what ended may be taken up again, and it was told of the end.
        held=True,
        since=since,
        newer=newer,
    )


def _blocked(record: TrajectoryRecord) -> str:
    blocked = record.blocked
    if blocked is None:
        return ""
    return (
        f"Event {count(blocked.sequence_number)} is of a type this version does not know "
        f"({one_line(blocked.type, 60)}, version {blocked.schema_version}). Boundaries from it on "
        "are not reconstructed by this version; the state shown is that before it."
    )


# ---- ribbon, jumps -----------------------------------------------------------------------


def _times_why(reads: Reads) -> str:
    stated = sum(1 for item in reads.items if item.event.occurred_at is not None)
    imported = reads.head.standing in ("imported", "replica")
    if imported and reads.items and stated * 2 < len(reads.items):
        return "the source states no times"
    return ""


def _ribbon(
    reads: Reads,
    drawn: tuple[int, int],
    grades: Mapping[str, Graded],
    absent: frozenset[str],
    end: TrajectoryRecord | None,
) -> Ribbon | None:
    opens = _open_operations(reads, grades, end)
    if drawn[1] - drawn[0] >= timeline.DRAWN_MAX:
        marks = rows.marks_of(reads, *drawn)
        if not marks:
            return None
        return timeline.counted(
            marks,
            drawn[0],
            boundary=reads.place.seq,
            head=reads.head.sequence_number,
            open_operations=opens,
        )
    items = [i for i in reads.items if drawn[0] <= i.event.sequence_number <= drawn[1]]
    if len(items) < drawn[1] - drawn[0] + 1 and reads.head.sequence_number:
        items = reading.items(reads.runtime, reads.who, reads.place.trajectory_id, *drawn)
    if not items:
        return None
    control: str = "RUNNING"
    owner: tuple[int, str | None] = (0, None)
    if drawn[0] > 1:
        before = reads.view.record
        newest = max(before.control.since_sequence, before.ownership.since_sequence)
        if newest >= drawn[0] or reads.place.seq < drawn[0]:
            # Either changed within the window: what held before it must be folded.
            before = reads.record_at(drawn[0] - 1)
        control = before.control.state
        owner = (before.ownership.owner_epoch, before.ownership.worker)
    return timeline.build(
        items,
        boundary=reads.place.seq,
        head=reads.head.sequence_number,
        by=reads.place.by if not _times_why(reads) else "event",
        open_operations=opens,
        control_before=control,
        owner_before=owner,
        absent=absent | frozenset(_unused(end) if end is not None else ()),
    )


def _zooms(reads: Reads, drawn: tuple[int, int]) -> tuple[tuple[str, str, str], ...]:
    """Wider, narrower, the whole log, and back to what is around the boundary."""
    head = reads.head.sequence_number
    if not head:
        return ()
    low, high = drawn
    span, middle = high - low + 1, (low + high) // 2
    if low <= reads.place.seq <= high:
        middle = reads.place.seq
    wide = max(1, middle - 2 * span), min(head, middle + 2 * span)
    narrow = max(low, middle - span // 8), min(high, middle + span // 8)
    usual = timeline.window(reads.place.seq, head)
    whole = drawn == (1, head)

    def asked(stretch: tuple[int, int]) -> str:
        return "" if stretch == usual else f"{stretch[0]}-{stretch[1]}"

    return (
        ("wider", asked(wide), "it is the whole log" if whole else ""),
        (
            "narrower",
            asked(narrow),
            "as narrow as it is drawn" if span <= timeline.NARROWEST else "",
        ),
        ("whole log", asked((1, head)), "it is drawn" if whole else ""),
        ("around here", "", "it is drawn" if not reads.place.zoom else ""),
    )


def _open_operations(
    reads: Reads, grades: Mapping[str, Graded], end: TrajectoryRecord | None
) -> list[OpenOperation]:
    return [
        OpenOperation(
            key,
            reads.record.operations.open[key].first_sequence,
            graded.word,
            settled_later=end is not None
            and not (key in end.operations.open and end.operations.open[key].unsettled),
        )
        for key, graded in grades.items()
        if graded.unsettled
    ]


#: Lanes that only some trajectories use, with the event that fills each.
_LANES = (
    ("ownership", "OwnershipGranted"),
    ("approvals", "ApprovalRequested"),
    ("checkpoints", "Checkpoint"),
    ("compaction", "Compacted"),
)


def _unused(record: TrajectoryRecord) -> tuple[str, ...]:
    """Lanes that nothing up to a record's boundary fills. Those of the head's are not drawn, so
    that the drawing is as low as it can be and keeps its height at every boundary."""
    return tuple(lane for lane, type_ in _LANES if not record.event_counts.get(type_))


def _neighbour(reads: Reads, marks: tuple[Mark, ...], *, forward: bool) -> int | None:
    return reads.runtime.neighbour(
        reads.who,
        reads.place.trajectory_id,
        marks=tuple(int(mark) for mark in marks),
        sequence_number=reads.place.seq,
        forward=forward,
    )


def _jumps(reads: Reads, end: TrajectoryRecord | None) -> tuple[Jump, ...]:
    found = [
        Jump(
            key,
            name,
            _neighbour(reads, marks, forward=True),
            _neighbour(reads, marks, forward=False),
        )
        for key, name, marks in JUMPS
    ]
    opens = {
        operation.first_sequence
        for record in (reads.view.record, end)
        if record is not None
        for operation in record.operations.open.values()
        if operation.unsettled
    }
    here = reads.place.seq
    after = min((n for n in opens if n > here), default=None)
    back = max((n for n in opens if n < here), default=None)
    name = "in doubt" if reads.head.standing in ("gated", "reported") else "unknown"
    return (*found, Jump("d", name, after, back))


def _turns(reads: Reads) -> tuple[int | None, int | None]:
    """First boundary of the previous turn and of the next one."""
    step = reads.view.record.progress.step
    before = after = None
    if step > 1:
        before = reads.runtime.at_step(reads.who, reads.place.trajectory_id, step - 1)
    after = reads.runtime.at_step(reads.who, reads.place.trajectory_id, step + 1)
    if after is not None and after <= reads.place.seq:
        after = None
    return before, after
