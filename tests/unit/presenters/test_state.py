"""The record as sections: what is shown is in the record, and what changed has its old value."""

from __future__ import annotations

import msgspec
from hypothesis import given

from app.presenters import log_list, payloads, state, timeline
from app.presenters.labels import line
from app.presenters.state import Changed, Graded
from core.record.difference import difference
from core.record.record import Account, Budget, Reservation, TrajectoryRecord
from core.record.reduce import empty, fold
from tests.strategies import Log, any_log, plausible, store


def _fold(log: Log, upto: int) -> TrajectoryRecord:
    pairs = log.pairs()[:upto]
    return fold(empty(log.trajectory_id), pairs, lambda digest: log.blobs[digest])


def _changes(before: TrajectoryRecord, after: TrajectoryRecord) -> tuple[Changed, ...]:
    return tuple(
        Changed(
            change.path,
            payloads.compact_json(change.old) if change.old is not None else None,
            payloads.compact_json(change.new) if change.new is not None else None,
        )
        for change in difference(before, after).changes
    )


@given(any_log(max_size=20))
def test_any_record_can_be_shown_whole_and_by_what_changed(log: Log) -> None:
    after = _fold(log, len(log.events))
    before = _fold(log, max(0, len(log.events) - 1))
    grades = {key: Graded("unknown", "", "why", True) for key in after.operations.open}
    changes = _changes(before, after)
    whole = state.sections(after, changes, grades, only_changed=False)
    some = state.sections(after, changes, grades, only_changed=True)
    assert {section.name for section in some} <= {section.name for section in whole}
    assert all(line_.tone for section in some for line_ in section.lines)


def test_a_changed_value_stands_beside_its_old_one() -> None:
    log = store(plausible(60, seed=3))
    before, after = _fold(log, 40), _fold(log, 41)
    found = state.sections(after, _changes(before, after), {}, only_changed=True)
    counts = next(section for section in found if section.name == state.COUNTS)
    values = counts.lines[0].values
    assert len(values) == 1
    assert values[0].key == log.events[40].type
    old = int((values[0].old or "0").replace(",", ""))
    assert int(values[0].text.replace(",", "")) == old + 1


def test_what_cannot_be_settled_stops_at_the_boundary() -> None:
    log = store(plausible(60, seed=3))
    items = [timeline.Item(event, None, line(event, None)) for event in log.events]
    open_ = timeline.OpenOperation("op-x", 10, "in_doubt", settled_later=False)
    drawn = timeline.build(
        items,
        boundary=30,
        head=60,
        by="event",
        open_operations=[open_],
        control_before="RUNNING",
        owner_before=(0, None),
    )
    assert drawn is not None
    lane = next(lane for lane in drawn.lanes if lane.name == "unsettled")
    here, later = lane.bars
    assert (here.x, here.width, here.later) == ("15.00%", "35.00%", False)
    assert (later.x, later.width, later.later) == ("50.00%", "50.00%", True)


def test_what_is_open_and_not_listed_is_counted() -> None:
    record = empty("t-1")
    record = msgspec.structs.replace(
        record,
        budget=Budget(
            accounts={"usd": Account("nano_usd")},
            open={"e-1": Reservation("e-1", 5, {"usd": 60_000_000})},
            spilled=81,
        ),
    )
    whole = state.sections(record, (), {}, only_changed=False)
    budget = next(section for section in whole if section.name == "budget")
    assert budget.more and budget.note.startswith("1 of 82 open reservations listed")


def test_what_the_source_cannot_say_is_an_absence() -> None:
    record = empty("t-1")
    whole = state.sections(record, (), {}, only_changed=False)
    budget = next(section for section in whole if section.name == "budget")
    assert budget.lines[0].values[0].absent
    assert not state.sections(record, (), {}, only_changed=True)


def test_the_list_marks_the_boundary_and_sets_the_future_apart() -> None:
    log = store(plausible(60))
    items = [timeline.Item(event, payload, line(event, payload)) for event, payload in log.pairs()]
    listed = log_list.build(items, 30, zero=None)
    rows = [entry for entry in listed.entries if entry.kind == "event"]
    assert [row.seq for row in rows if row.current] == [30]
    assert [row.seq for row in rows if row.future] == list(range(31, 61))
    cut = [entry.kind for entry in listed.entries].index("now")
    before = [entry for entry in listed.entries[:cut] if entry.kind == "event"]
    assert before[-1].seq == 30


def test_the_listed_span_always_holds_the_boundary() -> None:
    for head in (1, 39, 40, 41, 100_000):
        for at in {0, 1, head // 2, head - 1, head} - {-1}:
            for rows in (40, 200):
                first, last = log_list.span(at, head, rows)
                assert 1 <= first <= last <= head and last - first < rows
                assert at == 0 or first <= at <= last
