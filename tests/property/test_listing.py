"""Pages of operations: followed to their end they hold every operation of a record once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.record import listing
from core.record.archive import OPERATION, Segments
from core.record.listing import Wanted
from core.record.record import Operation, TrajectoryRecord
from core.record.reduce import Fold, empty
from tests import strategies
from tests.property.test_fold import LAWS, Shelf, small_archive
from tests.strategies import Log


def everything(record: TrajectoryRecord, segments: Segments) -> dict[str, Operation]:
    """Every operation by its newest row, found by reading all of it."""
    found: dict[str, Operation] = {}
    for ref in reversed(record.archive.segments):
        for (kind, key), _ in segments.index(ref.digest).items():
            if kind == OPERATION:
                found[key] = segments.find([ref], OPERATION, key)
    return {**found, **record.archive.recent.operations, **record.operations.open}


def walked(record: TrajectoryRecord, segments: Segments, wanted: Wanted, limit: int) -> list[str]:
    def current(operation: Operation) -> bool:
        newest = segments.find(record.archive.segments, OPERATION, operation.operation_id)
        return bool(newest == operation)

    names: list[str] = []
    after = None
    while True:
        page = listing.operations(
            record, segments, current, wanted=wanted, limit=limit, after=after
        )
        assert len(page.rows) <= limit
        assert len(page.rows) == limit or page.after is None
        names += [operation.operation_id for operation in page.rows]
        if page.after is None:
            return names
        after = page.after


@LAWS
@given(strategies.any_log(), st.integers(1, 5), st.sampled_from(sorted({*Wanted.STATES})))
def test_following_the_pages_gives_each_operation_once(log: Log, limit: int, state: str) -> None:
    with small_archive():
        segments = Shelf()
        fold = Fold(empty(log.trajectory_id), segments)
        for event, payload in log.pairs():
            fold.add(event, payload)
            segments.keep()
        record = fold.record()
        whole = everything(record, segments)
        assert len(whole) == record.operations.total
        tools = {operation.tool for operation in whole.values()}
        for wanted in (Wanted(state=state), *(Wanted(tool, state) for tool in sorted(tools))):
            names = walked(record, segments, wanted, limit)
            assert len(names) == len(set(names))
            assert set(names) == {name for name, one in whole.items() if wanted.has(one)}


def test_a_page_looks_at_a_bounded_number_of_rows() -> None:
    said = strategies.plausible(9_000, seed=3)
    log = strategies.store(said)
    segments = Shelf()
    fold = Fold(empty(log.trajectory_id), segments)
    for event, payload in log.pairs():
        fold.add(event, payload)
        segments.keep()
    record = fold.record()
    page = listing.operations(
        record, segments, lambda one: True, wanted=Wanted("no such tool"), limit=5, scanned_max=100
    )
    assert not page.rows and page.after is not None and page.scanned_to == page.after[0]
    seen = 0
    while page.after is not None:
        page = listing.operations(
            record,
            segments,
            lambda one: True,
            wanted=Wanted("no such tool"),
            limit=5,
            after=page.after,
            scanned_max=100,
        )
        seen += 1
    assert seen >= 2
