"""Rows of segments, and the difference of two records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.errors import CorruptAt, InvalidInput
from core.record import archive, snapshot
from core.record.archive import Segments
from core.record.difference import difference
from core.record.record import (
    Approval,
    Attempt,
    Call,
    CheckpointRef,
    Evidence,
    Meter,
    Operation,
    Reservation,
    TrajectoryRecord,
)
from core.record.reduce import REDUCER_VERSION, empty, fold
from tests import strategies

EVIDENCE = Evidence(4, "e-4", "failed", "query", False)
ATTEMPT = Attempt("1", 3, 1, 0, "w", None, "e-1", (EVIDENCE, EVIDENCE), 2, "failed", 4, "query")
ENTITIES: list[tuple[str, str, Any]] = [
    ("o", "op", Operation("op", "bash", "intent", 1, 2)),
    ("o", "op", Operation("op", "bash", "intent", 1, 2, "", None, None, 0, (ATTEMPT,))),
    (
        "o",
        "op",
        Operation(
            "op",
            "bash",
            "intent",
            1,
            2,
            attempts=(Attempt("1", 3, 1, 0), ATTEMPT),
            depends_on=("a", "b"),
            licence_sequence=3,
            licence_attempt="2",
        ),
    ),
    ("c", "inv", Call("inv", 1, 2, "unreserved")),
    ("c", "inv", Call("inv", 1, 2, "settled", 1, 2, "completed", 3, "m", "inv-0", 4)),
    ("a", "a-1", Approval("a-1", 1, 2, "bash", None, "granted", 3, None, True, True)),
    ("r", "e-1", Reservation("e-1", 1, {"usd": 3}, last_sequence=4)),
    ("r", "e-1", Reservation("e-1", 1, {}, "op", "1", None, "w", 4, True)),
    ("m", "provider|x|usd", Meter(0, 9)),
    ("k", "1.2", CheckpointRef(1, 0, 1, 2)),
]


@pytest.mark.parametrize(("kind", "key", "entity"), ENTITIES)
def test_a_row_reads_back(kind: str, key: str, entity: Any) -> None:
    raw = msgspec.Raw(msgspec.json.encode(archive.pack(kind, entity)))
    assert archive.unpack(kind, key, raw) == entity


def test_every_list_field_of_an_operation_is_read_back_as_a_tuple() -> None:
    lists = {
        field.name
        for field in msgspec.structs.fields(Operation)
        if isinstance(field.default, tuple)
    }
    assert lists == {"attempts", "depends_on"}
    assert {f.name for f in msgspec.structs.fields(Attempt) if isinstance(f.default, tuple)} == {
        "evidence"
    }


def test_a_segment_whose_bytes_are_others_is_corrupt() -> None:
    with pytest.raises(CorruptAt):
        Segments(lambda digest: b"[]").bytes_of("sha256:" + "0" * 64)


def test_a_snapshot_opens_only_as_what_was_sealed() -> None:
    record = fold(empty("t-1"), strategies.store(strategies.plausible(50)).pairs(), lambda d: b"")
    chain = bytes(range(32))
    sealed = snapshot.seal(record, chain)
    assert snapshot.unseal(sealed, chain, REDUCER_VERSION) == record
    for bad, with_chain in [
        (sealed[:-1], chain),
        (sealed[:40] + b"X" + sealed[41:], chain),
        (sealed, bytes(32)),
        (b"", chain),
    ]:
        with pytest.raises(CorruptAt):
            snapshot.unseal(bad, with_chain, REDUCER_VERSION)
    with pytest.raises(InvalidInput, match=r"reducer version \d+, not \d+"):
        snapshot.unseal(sealed, chain, REDUCER_VERSION + 1)
    with pytest.raises(InvalidInput, match="not a record"):
        snapshot.decode(b'{"trajectory_id":"t","surprise":1}', REDUCER_VERSION)


def at(boundary: int) -> TrajectoryRecord:
    log = strategies.store(strategies.plausible(60, 4))
    return fold(empty("t-1"), log.pairs()[:boundary], lambda digest: b"")


def test_a_difference_names_what_changed_with_old_and_new() -> None:
    said = [
        strategies.Said("ToolIntent", strategies.ToolIntent("intent", "bash"), operation_id="op"),
        strategies.Said("ToolResult", strategies.ToolResult("failed", "sender"), operation_id="op"),
        strategies.Said("ControlChanged", strategies.ControlChanged("PAUSED")),
    ]
    log = strategies.store(said)
    one, two, three = (
        fold(empty("t-1"), log.pairs()[:boundary], lambda digest: b"") for boundary in (1, 2, 3)
    )
    found = {change.path: (change.old, change.new) for change in difference(one, two).changes}
    assert found["operations.open.op.outcome"] == (None, "failed")
    assert found["operations.by_outcome.failed"] == (None, 1)
    assert found["event_counts.ToolResult"] == (None, 1)
    found = {change.path: (change.old, change.new) for change in difference(two, three).changes}
    assert found["control.state"] == ("RUNNING", "PAUSED")
    assert found["control.control_epoch"] == (0, 1)
    assert not [path for path in found if path.startswith("operations")]
    started = {change.path: change for change in difference(empty("t-1"), one).changes}
    assert started["operations.open.op"].new["tool"] == "bash"
    assert "boundary" not in started


def test_a_difference_turns_round_is_empty_and_bounded() -> None:
    found, turned = difference(at(10), at(60)), difference(at(60), at(10))
    assert [(c.path, c.old, c.new) for c in found.changes] == [
        (c.path, c.new, c.old) for c in turned.changes
    ]
    assert difference(at(30), at(30)).total == 0
    some = difference(at(0), at(60), limit=3)
    assert (len(some.changes), some.truncated) == (3, True)
    assert some.total > 3
