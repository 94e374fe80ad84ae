"""The laws of the fold, on any log and on long plausible ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.canonical import canonical
from core.events import registry
from core.limits import SEGMENT_EVENTS
from core.record import archive, lean, reduce, snapshot
from core.record.archive import Segments
from core.record.record import TrajectoryRecord
from core.record.reduce import Fold, empty, fold, fold_rows
from tests import strategies
from tests.strategies import Log

LAWS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def small_archive() -> Iterator[None]:
    """Bounds so small that a log of forty events crosses many segments, merges and spills."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce, "SEGMENT_EVENTS", 4)
        patch.setattr(archive, "SEGMENT_EVENTS", 4)
        patch.setattr(archive, "SEGMENT_FANOUT", 2)
        patch.setattr(archive, "SEGMENT_LEVEL_MAX", 2)
        patch.setattr(archive, "ARCHIVE_LAG_EVENTS", 1)
        patch.setattr(archive, "OPEN_BY_VALUE_MAX", 2)
        yield


class Shelf(Segments):
    """Segments kept in memory, as a projection store would."""

    def __init__(self) -> None:
        self.shelf: dict[str, bytes] = {}
        super().__init__(lambda digest: self.shelf[digest])

    def keep(self) -> None:
        self.shelf.update(self.made)
        self.made.clear()


def whole(log: Log) -> TrajectoryRecord:
    return fold(empty(log.trajectory_id), log.pairs(), Shelf())


@LAWS
@given(strategies.any_log(unknown=True), st.data())
def test_folding_on_from_any_boundary_is_folding_the_whole(log: Log, data: st.DataObject) -> None:
    with small_archive():
        at_once = whole(log)
        shelf = Shelf()
        record = empty(log.trajectory_id)
        pairs, start = log.pairs(), 0
        while start < len(pairs):
            end = data.draw(st.integers(start + 1, len(pairs)))
            record = fold(record, pairs[start:end], shelf)
            shelf.keep()
            record = snapshot.decode(snapshot.encode(record), reduce.REDUCER_VERSION)
            start = end
        assert record == at_once
        assert snapshot.encode(record) == snapshot.encode(at_once)


@LAWS
@given(strategies.any_log(unknown=True))
def test_one_fold_gives_the_record_of_every_boundary(log: Log) -> None:
    with small_archive():
        running = Fold(empty(log.trajectory_id), Shelf())
        for number, (event, payload) in enumerate(log.pairs(), start=1):
            running.add(event, payload)
            if number % 7 == 0 or number == len(log.events):
                part = Log(log.trajectory_id, log.events[:number], log.payloads[:number])
                assert running.record() == whole(part)


@LAWS
@given(strategies.any_log(unknown=True, inline_max=60), st.data())
def test_lean_decoding_and_hints_change_nothing(log: Log, data: st.DataObject) -> None:
    with small_archive():
        shelf = Shelf()
        at = data.draw(st.integers(0, len(log.events)))
        record = fold_rows(empty(log.trajectory_id), log.events[:at], shelf, log.read)
        begun = {event.operation_id for event in log.events[:at]} - {None}
        record = fold_rows(record, log.events[at:], shelf, log.read, earlier=begun)
        assert record == whole(log)


@LAWS
@given(strategies.any_log(unknown=True))
def test_where_a_payload_lies_changes_neither_digest_nor_chain_nor_record(log: Log) -> None:
    said = [_said(log, number) for number in range(len(log.events))]
    moved = strategies.store(said, trajectory_id=log.trajectory_id, inline_max=0)
    assert [event.digest for event in moved.events] == [event.digest for event in log.events]
    assert [event.chain for event in moved.events] == [event.chain for event in log.events]
    rows = fold_rows(empty(log.trajectory_id), moved.events, Shelf(), moved.read)
    assert rows == whole(log)


def _said(log: Log, number: int) -> strategies.Said:
    event = log.events[number]
    assert event.payload is not None
    return strategies.Said(
        event.type,
        event.payload,
        issuer=event.issuer,
        worker=event.worker,
        event_id=event.event_id,
        operation_id=event.operation_id,
        attempt_id=event.attempt_id,
        invocation_id=event.invocation_id,
        step=event.step,
        occurred_at=event.occurred_at,
        schema_version=event.schema_version,
    )


@LAWS
@given(strategies.any_log())
def test_canonical_bytes_are_rfc_8785_and_stable(log: Log) -> None:
    import msgspec
    import rfc8785

    record = whole(log)
    data = snapshot.encode(record)
    assert (
        data == rfc8785.dumps(msgspec.to_builtins(record)) == canonical(msgspec.json.decode(data))
    )
    again = snapshot.decode(data, reduce.REDUCER_VERSION)
    assert again == record
    assert snapshot.encode(again) == data


@LAWS
@given(strategies.any_log(unknown=True))
def test_the_fold_never_settles_without_evidence(log: Log) -> None:
    """Every outcome is the status of a result in the log about that very attempt, later than its
    intent; and with all results taken out, nothing is settled."""
    with small_archive():
        shelf = Shelf()
        record = fold(empty(log.trajectory_id), log.pairs(), shelf)
        by_sequence = {event.sequence_number: index for index, event in enumerate(log.events)}
        for operation in everything(record, shelf):
            for attempt in operation.attempts:
                if attempt.outcome is None:
                    continue
                event = log.events[by_sequence[attempt.outcome_sequence]]
                assert event.type == "ToolResult"
                assert event.operation_id == operation.operation_id
                assert event.attempt_id in (None, attempt.attempt_id)
                assert event.sequence_number > attempt.intent_sequence
                assert log.payloads[event.sequence_number - 1].status == attempt.outcome
                assert attempt.outcome in ("succeeded", "failed", "no_effect")
            assert operation.outcome is None or operation.outcome in {
                attempt.outcome for attempt in operation.attempts
            }
        without = [
            strategies.Said("note.removed", b"{}") if event.type == "ToolResult" else _said(log, n)
            for n, event in enumerate(log.events)
        ]
        bare = whole(strategies.store(without))
        assert bare.operations.by_outcome == {}
        assert bare.operations.unsettled == bare.operations.total


def everything(record: TrajectoryRecord, shelf: Shelf) -> list[archive.Operation]:
    """Every operation of a record, wherever it lies, the newest row of each."""
    found: dict[str, archive.Operation] = {}
    for ref in reversed(record.archive.segments):
        for kind, key, entity in archive.rows_of(shelf.bytes_of(ref.digest)):
            if kind == archive.OPERATION:
                found[key] = entity
    return list((found | record.archive.recent.operations | record.operations.open).values())


def reservations(record: TrajectoryRecord, shelf: Shelf) -> list[archive.Reservation]:
    """Every open reservation of a record, wherever it lies."""
    found: dict[str, archive.Reservation] = {}
    for ref in reversed(record.archive.segments):
        for kind, key, entity in archive.rows_of(shelf.bytes_of(ref.digest)):
            if kind == archive.RESERVATION:
                found[key] = entity
    found |= record.archive.recent.reservations | record.budget.open
    held = [reservation for reservation in found.values() if not reservation.final]
    assert len(held) == len(record.budget.open) + record.budget.spilled
    return held


@LAWS
@given(strategies.any_log(unknown=True))
def test_the_table_counts_what_it_holds(log: Log) -> None:
    with small_archive():
        shelf = Shelf()
        record = fold(empty(log.trajectory_id), log.pairs(), shelf)
        operations = everything(record, shelf)
        table = record.operations
        assert table.total == len(operations)
        assert table.total == len(table.open) + table.spilled + sum(table.by_outcome.values())
        assert table.unsettled == sum(operation.unsettled for operation in operations)
        assert len(table.open) <= 2 + 4
        owed: dict[str, int] = {}
        for reservation in reservations(record, shelf):
            for key, amount in reservation.bounds.items():
                owed[key] = owed.get(key, 0) + amount
        for key, account in record.budget.accounts.items():
            assert account.outstanding == owed.get(key, 0)
        assert sum(record.event_counts.values()) == record.boundary == len(log.events)


@LAWS
@given(strategies.any_log(unknown=True))
def test_epochs_and_versions_only_rise_and_only_resumed_lowers_the_step(log: Log) -> None:
    running = Fold(empty(log.trajectory_id), Shelf())
    before = running.record()
    for event, payload in log.pairs():
        running.add(event, payload)
        after = running.record()
        assert after.control.control_epoch >= before.control.control_epoch
        assert after.control.record_version >= before.control.record_version
        assert after.ownership.owner_epoch >= before.ownership.owner_epoch
        assert after.progress.high_water >= before.progress.high_water
        assert after.progress.executed >= before.progress.executed
        if event.type != "Resumed":
            assert after.progress.step >= before.progress.step
        if before.blocked is None:
            assert event.control_epoch == before.control.control_epoch
            assert event.record_version == before.control.record_version
        before = after


@LAWS
@given(strategies.any_log(unknown=True))
def test_nothing_after_an_unknown_event_is_folded(log: Log) -> None:
    blocked_at = next(
        (e.sequence_number for e in log.events if not registry.is_known(e.type, 1)), None
    )
    record = whole(log)
    if blocked_at is None:
        assert record.blocked is None
        return
    part = Log(log.trajectory_id, log.events[: blocked_at - 1], log.payloads[: blocked_at - 1])
    before = whole(part)
    assert record.blocked is not None
    assert record.blocked.sequence_number == blocked_at
    assert record.boundary == len(log.events)
    for name in ("control", "operations", "calls", "budget", "approvals", "plan", "progress"):
        assert getattr(record, name) == getattr(before, name)


@pytest.mark.parametrize("seed", [1, 2])
def test_snapshot_and_suffix_are_the_whole_prefix_across_segments(seed: int) -> None:
    """With the real bounds: from every snapshot boundary, through many segments and a merge."""
    log = strategies.store(strategies.plausible(2600, seed))
    shelf = Shelf()
    running = Fold(empty(log.trajectory_id), shelf)
    snapshots: list[bytes] = [snapshot.encode(running.record())]
    for start in range(0, len(log.events), SEGMENT_EVENTS):
        running.add_rows(log.events[start : start + SEGMENT_EVENTS], log.read)
        shelf.keep()
        snapshots.append(snapshot.encode(running.record()))
    at_end = running.record()
    for number, data in enumerate(snapshots[:-1]):
        record = snapshot.decode(data, reduce.REDUCER_VERSION)
        begun = {e.operation_id for e in log.events[: record.boundary] if e.operation_id}
        suffix = log.events[record.boundary :]
        if number % 5 == 0:
            assert fold_rows(record, suffix, shelf, log.read, earlier=begun) == at_end
        stop = min(SEGMENT_EVENTS + 3, len(suffix))
        near = fold_rows(record, suffix[:stop], shelf, log.read)
        target = len(log.events) if stop == len(suffix) else record.boundary + stop
        part = Fold(empty(log.trajectory_id), Shelf())
        part.add_rows(log.events[:target], log.read)
        if number % 7 == 0:
            assert near == part.record()
    assert at_end.archive.segments
    assert {ref.level for ref in at_end.archive.segments} >= {1}
    assert len(at_end.archive.segments) < len(log.events) // SEGMENT_EVENTS


def test_the_record_of_a_long_log_stays_small() -> None:
    log = strategies.store(strategies.plausible(12_000, 3))
    shelf = Shelf()
    running = Fold(empty(log.trajectory_id), shelf)
    sizes = []
    for start in range(0, len(log.events), SEGMENT_EVENTS):
        running.add_rows(log.events[start : start + SEGMENT_EVENTS], log.read)
        shelf.keep()
        sizes.append(len(snapshot.encode(running.record())))
    # A sixth of its operations is never settled: those beyond the bound lie in segments too.
    assert max(sizes) < 80_000
    assert max(sizes[-10:]) < 1.5 * max(sizes[20:30])
    assert len(running.record().archive.segments) <= 8 * 4
    assert sum(map(len, shelf.shelf.values())) < 200 * len(log.events)


def test_every_family_has_its_rows_everywhere() -> None:
    families = set(registry.FAMILIES)
    assert set(reduce.APPLY) == families
    assert set(strategies.PAYLOADS) == families
    assert set(lean.DECODERS) | lean.UNREAD == families


def test_a_fold_refuses_a_gap() -> None:
    log = strategies.store(strategies.plausible(4))
    with pytest.raises(ValueError, match="does not follow"):
        fold(empty(log.trajectory_id), log.pairs()[1:], Shelf())
