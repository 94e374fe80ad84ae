"""Records read from the real store: from snapshots, without them, and past damaged ones."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from core.errors import InvalidInput, NotFound, NotReconstructed
from core.events.admission import Authorized
from core.events.envelope import Event
from core.events.tool import ToolIntent
from core.limits import SNAPSHOT_EVENTS
from core.record import snapshot
from core.record.archive import Segments
from core.record.record import TrajectoryRecord
from core.record.reduce import REDUCER_VERSION, Fold, empty
from runtime.projector import Projector
from runtime.time_travel import TimeTravel
from store.open import Opened, open_store
from store.ports import InstallCommand
from tests import strategies
from tests.strategies import Log, Said

TENANT = "local"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with open_store(tmp_path / "data", allow_unsafe_filesystem=True) as opened:
        yield opened


def travel(opened: Opened) -> TimeTravel:
    return TimeTravel(opened.store, opened.blobs, opened.projections)


def install(opened: Opened, log: Log, upto: int | None = None) -> None:
    for data in log.blobs.values():
        opened.blobs.put(TENANT, data)
    events = log.events[:upto]
    for start in range(0, len(events), 1000):
        command = InstallCommand(TENANT, log.trajectory_id, tuple(events[start : start + 1000]))
        opened.store.install(command).result(30)


def long_log(length: int = 1500, seed: int = 1) -> Log:
    said = strategies.plausible(length, seed)
    return strategies.store(said, trajectory_id=f"long-{seed}-{length}", inline_max=160)


def folded(log: Log, boundary: int) -> TrajectoryRecord:
    shelf: dict[str, bytes] = {}
    fold = Fold(empty(log.trajectory_id), Segments(shelf.__getitem__))
    fold.add_rows(log.events[:boundary], log.read)
    return fold.record()


BOUNDARIES = [0, 1, 2, 127, 128, 129, 255, 256, 1000, 1023, 1024, 1025, 1499, 1500]


def test_every_boundary_is_the_fold_of_its_prefix(opened: Opened) -> None:
    log = long_log()
    install(opened, log)
    reader = travel(opened)
    chance = random.Random(1)
    for boundary in [*BOUNDARIES, *(chance.randrange(1500) for _ in range(20))]:
        view = reader.record_at(TENANT, log.trajectory_id, boundary)
        assert view.record == folded(log, boundary)
        assert view.boundary == boundary
        assert view.reconstructed


def test_a_walk_gives_every_record_of_a_range(opened: Opened) -> None:
    log = long_log()
    install(opened, log)
    reader = travel(opened)
    for first, last in [(0, 1500), (700, 1300), (5, 5), (1000, None)]:
        upto = len(log.events) if last is None else last
        walked = list(reader.walk(TENANT, log.trajectory_id, first, last))
        assert [record.boundary for record in walked] == list(range(first, upto + 1))
        for record in walked[::97]:
            assert record == folded(log, record.boundary)
        assert walked[-1] == folded(log, upto)
    with pytest.raises(InvalidInput):
        next(reader.walk(TENANT, log.trajectory_id, 9, 5))


def test_a_snapshot_is_stored_where_a_fold_passes_and_serves_the_next_read(opened: Opened) -> None:
    log = long_log()
    install(opened, log)
    first = travel(opened).record_at(TENANT, log.trajectory_id, 1500)
    assert (first.snapshot_boundary, first.folded) == (0, 1500)
    again = travel(opened).record_at(TENANT, log.trajectory_id, 1000)
    assert again.snapshot_boundary == 1000 - 1000 % SNAPSHOT_EVENTS
    assert again.folded == 1000 % SNAPSHOT_EVENTS
    assert again.record == folded(log, 1000)


def test_dropping_the_cache_loses_nothing(opened: Opened) -> None:
    log = long_log()
    install(opened, log)
    reader = travel(opened)
    before = reader.record_at(TENANT, log.trajectory_id)
    opened.projections.drop()
    after = reader.record_at(TENANT, log.trajectory_id)
    assert after.snapshot_boundary == 0
    assert after.record == before.record


def stored(opened: Opened, log: Log, boundary: int) -> tuple[int, bytes, bytes]:
    found = opened.projections.nearest(TENANT, log.trajectory_id, boundary, REDUCER_VERSION)
    assert found is not None
    return found


@pytest.mark.parametrize("damage", ["bytes", "chain", "seal", "other record", "other version"])
def test_a_bad_snapshot_is_passed_over_and_made_anew(opened: Opened, damage: str) -> None:
    log = long_log()
    install(opened, log)
    travel(opened).record_at(TENANT, log.trajectory_id)
    sequence, chain, sealed = stored(opened, log, 1300)
    assert sequence == 1280
    record = snapshot.unseal(sealed, chain, REDUCER_VERSION)
    _, _, older = stored(opened, log, 700)
    bad = {
        "bytes": (chain, sealed[:-20] + b"?" * 20),
        "chain": (bytes(32), snapshot.seal(record, bytes(32))),
        "seal": (chain, bytes(32) + sealed[32:]),
        "other record": (chain, older),
        "other version": (
            chain,
            snapshot.seal(_with_version(record, REDUCER_VERSION + 1), chain),
        ),
    }[damage]
    rows = [(sequence, *bad, b"{}")]
    opened.projections.put_snapshots(TENANT, log.trajectory_id, REDUCER_VERSION, rows)
    view = travel(opened).record_at(TENANT, log.trajectory_id, 1300)
    assert view.snapshot_boundary == 1280 - SNAPSHOT_EVENTS
    assert view.record == folded(log, 1300)
    assert stored(opened, log, 1300) == (sequence, chain, sealed)


def _with_version(record: TrajectoryRecord, version: int) -> TrajectoryRecord:
    from msgspec.structs import replace

    return replace(record, reducer_version=version)


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_lost_segment_costs_time_and_no_answer(opened: Opened, damage: str) -> None:
    """Late results reach into segments; all of them are lost, and the log makes them again."""
    said = strategies.plausible(1400, 5)
    late = [
        Said(
            "ToolResult",
            strategies.ToolResult("succeeded", "sender"),
            operation_id=f"op-{number}",
            attempt_id="1",
        )
        for number in (3, 40, 120)
    ]
    log = strategies.store([*said, *late], trajectory_id="late")
    install(opened, log)
    head = travel(opened).record_at(TENANT, "late")
    refs = head.record.archive.segments
    assert refs
    _lose(opened, [ref.digest for ref in refs], damage)
    view = travel(opened).record_at(TENANT, "late", 1403)
    assert view.record == folded(log, 1403)
    assert view.record == head.record


def _lose(opened: Opened, digests: list[str], damage: str) -> None:
    from store import sqlite_driver

    connection = sqlite_driver.module.connect(str(opened.data / "projections.db"))
    with connection:
        for digest in digests:
            if damage == "missing":
                connection.execute("DELETE FROM segments WHERE digest = ?", (digest,))
            else:
                connection.execute("UPDATE segments SET body = x'5b5d' WHERE digest = ?", (digest,))
    connection.close()


def test_a_missing_payload_holds_and_is_not_skipped(opened: Opened) -> None:
    log = long_log(300)
    install(opened, log)
    ref = next(event.payload_ref for event in log.events[200:] if event.payload_ref is not None)
    at = next(e.sequence_number for e in log.events if e.payload_ref == ref)
    hexadecimal = ref.digest[7:]
    (opened.data / "blobs" / "sha256" / hexadecimal[:2] / hexadecimal[2:]).unlink()
    reader = travel(opened)
    assert reader.record_at(TENANT, log.trajectory_id, at - 1).record == folded(log, at - 1)
    with pytest.raises(NotReconstructed) as caught:
        reader.record_at(TENANT, log.trajectory_id, at)
    assert caught.value.data["sequence_number"] == at


def test_a_boundary_after_an_unknown_event_is_not_reconstructed(opened: Opened) -> None:
    said = strategies.plausible(200, 2)
    said.insert(150, Said("FromTheFuture", b'{"a":1}', schema_version=3))
    log = strategies.store(said, trajectory_id="newer")
    install(opened, log)
    reader = travel(opened)
    reader.record_at(TENANT, "newer", 150).require_reconstructed()
    view = reader.record_at(TENANT, "newer", 180)
    assert view.record.blocked is not None
    assert view.record.operations == reader.record_at(TENANT, "newer", 150).record.operations
    with pytest.raises(NotReconstructed, match="event 151 is a FromTheFuture of schema version 3"):
        view.require_reconstructed()


def test_boundaries_that_are_not_there(opened: Opened) -> None:
    log = long_log(10)
    install(opened, log)
    reader = travel(opened)
    with pytest.raises(NotFound):
        reader.record_at(TENANT, log.trajectory_id, 11)
    with pytest.raises(InvalidInput):
        reader.record_at(TENANT, log.trajectory_id, -1)
    with pytest.raises(NotFound):
        reader.record_at(TENANT, "nobody")
    with pytest.raises(NotFound):
        reader.record_at("other", log.trajectory_id)


def test_a_store_open_for_reading_beside_its_owner_reads_every_boundary(opened: Opened) -> None:
    log = long_log()
    install(opened, log)
    with open_store(opened.data, read_only=True, allow_unsafe_filesystem=True) as beside:
        view = travel(beside).record_at(TENANT, log.trajectory_id, 1400)
        assert (view.snapshot_boundary, view.record) == (0, folded(log, 1400))


def test_the_difference_sees_entities_in_segments(opened: Opened) -> None:
    log = long_log()
    install(opened, log)
    reader = travel(opened)
    found = reader.difference(TENANT, log.trajectory_id, 10, 1500, limit=100_000)
    assert found.segments_compared
    paths = {change.path for change in found.changes}
    settled = folded(log, 1500).operations
    entities = {
        path.split(".")[2]
        for path in paths
        if path.startswith(("operations.open.op", "operations.closed.op"))
    }
    assert len(entities) >= settled.total - 3
    turned = reader.difference(TENANT, log.trajectory_id, 1500, 10, limit=100_000)
    assert [(c.path, c.new, c.old) for c in turned.changes] == [
        (c.path, c.old, c.new) for c in found.changes
    ]
    assert reader.difference(TENANT, log.trajectory_id, 700, 700).changes == ()


def test_an_operation_that_only_begins_is_not_looked_for_in_the_archive(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = strategies.plausible(SNAPSHOT_EVENTS * 8 - 1)[: SNAPSHOT_EVENTS * 8 - 1]
    for payload in (Authorized("granted", "p-1"), ToolIntent("intent", "bash")):
        name = type(payload).__name__
        said.append(Said(name, payload, operation_id="late", attempt_id="late.1"))
    log = strategies.store(said, trajectory_id="late")
    install(opened, log)
    assert travel(opened).record_at(TENANT, log.trajectory_id).record == folded(log, len(said))
    done = next(e for e in log.events if e.type == "ToolIntent").operation_id
    assert done is not None
    ids, before = frozenset({"late", done}), len(said) - 1
    begun = opened.store.operations_begun
    assert begun(TENANT, log.trajectory_id, ids, upto=before) == {done}
    assert begun(TENANT, log.trajectory_id, ids, upto=len(said)) == ids
    loaded: list[str] = []
    load = opened.projections.segment

    def counted(tenant: str, digest: str) -> bytes | None:
        loaded.append(digest)
        return load(tenant, digest)

    monkeypatch.setattr(opened.projections, "segment", counted)
    view = TimeTravel(opened.store, opened.blobs, opened.projections).record_at(
        TENANT, log.trajectory_id
    )
    assert view.snapshot_boundary == before and view.record.archive.segments
    assert "late" in view.record.operations.open and not loaded


def test_catching_up_projects_what_is_behind_and_only_that(opened: Opened) -> None:
    logs = [long_log(300, seed) for seed in (1, 2, 3)]
    for log in logs:
        install(opened, log, 200)
    projector = Projector(opened.store, opened.blobs, opened.projections)
    assert projector.catch_up() == 3
    assert projector.catch_up() == 0
    install(opened, logs[1])
    assert projector.catch_up() == 1
    summary = opened.projections.summary(TENANT, logs[1].trajectory_id)
    assert summary is not None
    record = folded(logs[1], 300)
    assert summary["as_of_sequence"] == summary["events"] == 300
    assert summary["operations"] == record.operations.total
    assert summary["unsettled"] == record.operations.unsettled
    assert summary["cost_nano_usd"] == record.budget.accounts["usd"].consumed
    assert summary["standing"] == "replica"
    assert summary["title"] == "run 2"
    assert stored(opened, logs[1], 300)[0] == 256


def test_a_projector_follows_the_log_in_its_thread(opened: Opened) -> None:
    log = long_log(400)
    install(opened, log, 150)
    projector = Projector(opened.store, opened.blobs, opened.projections)
    projector.start()
    try:
        install(opened, log)
        _until(lambda: _as_of(opened, log) == 400)
    finally:
        projector.close()
        projector.close()


def _as_of(opened: Opened, log: Log) -> object:
    summary = opened.projections.summary(TENANT, log.trajectory_id)
    return summary and summary["as_of_sequence"]


def test_one_trajectory_that_cannot_be_projected_does_not_stop_the_others(opened: Opened) -> None:
    bad, good = long_log(300, 1), long_log(300, 2)
    install(opened, bad)
    install(opened, good)
    ref = next(event.payload_ref for event in bad.events if event.payload_ref is not None)
    only_there = ref.digest not in {e.payload_ref.digest for e in good.events if e.payload_ref}
    hexadecimal = ref.digest[7:]
    (opened.data / "blobs" / "sha256" / hexadecimal[:2] / hexadecimal[2:]).unlink()
    projector = Projector(opened.store, opened.blobs, opened.projections)
    projector.catch_up()
    assert (TENANT, bad.trajectory_id) in projector.failed
    assert not only_there or opened.projections.summary(TENANT, good.trajectory_id) is not None


def test_a_defect_that_one_log_meets_does_not_stop_the_others(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = long_log(100, 1), long_log(110, 2)
    put = opened.projections.put_summary

    def planted(tenant: str, name: str, number: int, summary: dict[str, object]) -> None:
        wrong = {"cost_nano_usd": 2**64} if name == bad.trajectory_id else {}
        put(tenant, name, number, summary | wrong)

    monkeypatch.setattr(opened.projections, "put_summary", planted)
    projector = Projector(opened.store, opened.blobs, opened.projections)
    projector.start()
    try:
        install(opened, bad)
        install(opened, good)
        end = time.monotonic() + 20
        while opened.projections.summary(TENANT, good.trajectory_id) is None:
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        projector.close()
    head, why = projector.failed[TENANT, bad.trajectory_id]
    assert (head, "OverflowError" in why) == (100, True)


def test_a_projector_stopped_anywhere_goes_on_where_it_was(opened: Opened) -> None:
    log = long_log(900)
    install(opened, log)
    for _ in range(4):
        projector = Projector(opened.store, opened.blobs, opened.projections)
        projector.start()
        projector.close()
    Projector(opened.store, opened.blobs, opened.projections).catch_up()
    summary = opened.projections.summary(TENANT, log.trajectory_id)
    assert summary is not None
    assert summary["as_of_sequence"] == 900
    assert travel(opened).record_at(TENANT, log.trajectory_id, 899).record == folded(log, 899)


def test_behind_a_busy_log_a_projector_folds_a_slice_at_a_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runtime import projector as module

    log = long_log(300)
    install(opened, log)
    folded_at_once = []
    advance = TimeTravel.advance

    def watched(self: TimeTravel, fold: Fold, *rest: object) -> None:
        before = fold.boundary
        advance(self, fold, *rest)  # type: ignore[arg-type]
        folded_at_once.append(fold.boundary - before)

    monkeypatch.setattr(TimeTravel, "advance", watched)
    projector = Projector(opened.store, opened.blobs, opened.projections)
    projector.start()
    try:
        _until(lambda: sum(folded_at_once) >= 300)
    finally:
        projector.close()
    assert max(folded_at_once) <= module.SLICE_EVENTS


def test_a_projector_goes_on_from_what_a_reader_has_folded(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = long_log()
    install(opened, log)
    projector = Projector(opened.store, opened.blobs, opened.projections)
    monkeypatch.setattr(projector, "_rest", lambda: None)
    folded_events: list[int] = []
    add_rows = Fold.add_rows

    def watched(self: Fold, events: Sequence[Event], *rest: object) -> None:
        if not folded_events:
            folded_events.append(0)
            travel(opened).record_at(TENANT, log.trajectory_id, 1400)
            folded_events.clear()
        folded_events.append(len(events))
        add_rows(self, events, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Fold, "add_rows", watched)
    monkeypatch.setattr("runtime.projector._LOOK_EVENTS", 32)
    projector._attempt(TENANT, log.trajectory_id, gently=True)
    summary = opened.projections.summary(TENANT, log.trajectory_id)
    assert summary is not None
    assert summary["as_of_sequence"] == 1500
    assert sum(folded_events) < 500


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, "not reached within 20 s"
        time.sleep(0.01)


def test_a_segment_is_stored_before_the_snapshot_that_names_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.projections import SqliteProjections

    put = SqliteProjections.put_snapshots
    named = []

    def watched(
        self: SqliteProjections,
        tenant: str,
        trajectory_id: str,
        reducer_version: int,
        rows: list[tuple[int, bytes, bytes, bytes]],
    ) -> None:
        for _, chain, sealed, _ in rows:
            for ref in snapshot.unseal(sealed, chain, reducer_version).archive.segments:
                named.append(ref.digest)
                assert self.segment(tenant, ref.digest) is not None
        put(self, tenant, trajectory_id, reducer_version, rows)

    monkeypatch.setattr(SqliteProjections, "put_snapshots", watched)
    log = long_log(700)
    install(opened, log)
    travel(opened).record_at(TENANT, log.trajectory_id)
    assert named


def test_a_cache_that_takes_nothing_changes_no_answer(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or failing disk under the cache: every read folds from the log."""
    from store.projections import SqliteProjections

    for name in ("put_segments", "put_snapshots"):
        monkeypatch.setattr(SqliteProjections, name, lambda *_: None)
    log = long_log(1200)
    install(opened, log)
    view = travel(opened).record_at(TENANT, log.trajectory_id)
    assert (view.snapshot_boundary, view.record) == (0, folded(log, 1200))
