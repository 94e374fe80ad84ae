"""Install: copies keep their store's fields, pieces come in any order, histories are not merged."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from core.canonical import sha256
from core.errors import (
    CorruptAt,
    IntegrityConflict,
    InvalidInput,
    MissingBlob,
    NotAllowed,
)
from core.events.control import ControlChanged, PlanChanged
from core.events.envelope import Event, chain_start, event_digest
from store.ports import Ack, InstallCommand
from store.verify import chain_after
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, event, intent, note, with_ref


@pytest.fixture
def origin(tmp_path: Path) -> tuple[Event, ...]:
    """The log of another store: grants, guarded events, an intent; 12 events."""
    world = SqliteWorld(tmp_path / "origin")
    try:
        world.owned()
        world.append(
            event("t", "p1", "PlanChanged", PlanChanged(revision=1, items=())),
            intent("i1", "op", "ls"),
        )
        world.clock.now += 10
        world.append(
            event(
                "t", "c1", "ControlChanged", ControlChanged(from_state="RUNNING", to_state="PAUSED")
            )
        )
        world.claim(worker="w2")
        world.append(*(note(f"n{n}") for n in range(6)), epoch=2, worker="w2")
        events = world.store.events(TENANT, "t")
        assert len(events) == 12
        return tuple(events)
    finally:
        world.close()


def install(world: SqliteWorld, events: Sequence[Event], trajectory_id: str = "t") -> Future[Ack]:
    command = InstallCommand(TENANT, trajectory_id, tuple(events), request_id=world.request())
    return cast(Future[Ack], world.store.install(command))


def forged(events: Sequence[Event], at: int) -> list[Event]:
    """Another history from event `at` on, consistent with itself."""
    made = list(events[: at - 1])
    chain = made[-1].chain if made else chain_start("t")
    for old in events[at - 1 :]:
        new = msgspec.structs.replace(old, event_id=f"other-{old.sequence_number}")
        new = msgspec.structs.replace(new, digest=event_digest("t", new.stated()))
        chain = chain_after(chain, new)
        made.append(msgspec.structs.replace(new, chain=chain))
    return made


def test_a_copy_has_the_same_events_chain_and_standing_replica(
    world: SqliteWorld, origin: tuple[Event, ...]
) -> None:
    ack = install(world, origin).result(SECONDS)
    assert (ack.head, ack.chain) == (12, origin[-1].chain)
    assert tuple(world.store.events(TENANT, "t")) == origin
    head = world.store.head(TENANT, "t")
    assert (head.standing, head.staged) == ("replica", 0)
    assert (head.owner_epoch, head.control_epoch, head.record_version) == (2, 1, 3)
    assert head.recorded_at == origin[-1].recorded_at
    assert world.findings() == []


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_pieces_in_any_order_give_the_same_log(
    world: SqliteWorld, origin: tuple[Event, ...], order: tuple[int, ...]
) -> None:
    for piece in order:
        install(world, origin[3 * piece : 3 * piece + 3]).result(SECONDS)
        head = world.store.head(TENANT, "t")
        assert head.sequence_number + head.staged <= 12
        assert len(world.store.events(TENANT, "t")) == head.sequence_number
    assert tuple(world.store.events(TENANT, "t")) == origin
    assert world.store.staged(TENANT, "t") == []
    assert world.findings() == []


def test_pieces_of_one_group_in_reverse(world: SqliteWorld, origin: tuple[Event, ...]) -> None:
    with world.one_group():
        futures = [install(world, [one]) for one in reversed(origin)]
    acks = [future.result(SECONDS) for future in futures]
    assert [ack.head for ack in acks] == [0] * 11 + [12]
    assert tuple(world.store.events(TENANT, "t")) == origin
    assert world.findings() == []


def test_a_planted_gap_keeps_what_lies_beyond_it_staged(
    world: SqliteWorld, origin: tuple[Event, ...]
) -> None:
    ack = install(world, [*origin[:4], *origin[5:9], *origin[10:]]).result(SECONDS)
    assert ack.head == 4
    head = world.store.head(TENANT, "t")
    assert (head.sequence_number, head.staged, head.staged_to) == (4, 6, 12)
    assert world.store.staged(TENANT, "t") == [(6, 9), (11, 12)]
    assert [e.sequence_number for e in world.store.events(TENANT, "t")] == [1, 2, 3, 4]
    assert world.store.event_by_id(TENANT, "t", origin[5].event_id) is None
    assert world.findings() == []
    world.reopen()
    assert install(world, [origin[4]]).result(SECONDS).head == 9
    assert install(world, [origin[9]]).result(SECONDS).head == 12
    assert world.findings() == []


def test_installing_again_is_a_duplicate(world: SqliteWorld, origin: tuple[Event, ...]) -> None:
    install(world, origin).result(SECONDS)
    again = install(world, origin[2:5]).result(SECONDS)
    assert (again.duplicate, again.sequence_numbers, again.head) == (True, (3, 4, 5), 12)


def test_a_staged_event_again_is_a_duplicate(world: SqliteWorld, origin: tuple[Event, ...]) -> None:
    install(world, origin[5:7]).result(SECONDS)
    assert install(world, origin[5:7]).result(SECONDS).duplicate
    assert world.store.head(TENANT, "t").staged == 2


def test_another_history_is_refused_and_shown(
    world: SqliteWorld, origin: tuple[Event, ...]
) -> None:
    install(world, origin[:6]).result(SECONDS)
    other = forged(origin, 4)
    for piece in (other[3:5], other[6:8]):
        before = world.store.head(TENANT, "t").sequence_number
        future = install(world, piece)
        if piece is not None and piece[0].sequence_number <= before:
            assert isinstance(world.refused(future), IntegrityConflict)
    assert isinstance(world.refused(install(world, other)), IntegrityConflict)
    assert tuple(world.store.events(TENANT, "t")) == origin[:6]
    assert world.store.head(TENANT, "t").incidents >= 2
    assert {row.kind for row in world.store.ledger(TENANT)} == {"incident"}


def test_a_staged_run_of_another_history_is_put_aside_when_the_prefix_reaches_it(
    world: SqliteWorld, origin: tuple[Event, ...]
) -> None:
    other = forged(origin, 4)
    install(world, [*origin[:3], *other[6:9]]).result(SECONDS)
    assert world.store.staged(TENANT, "t") == [(7, 9)]
    ack = install(world, origin[3:6]).result(SECONDS)
    assert ack.head == 6
    assert world.store.staged(TENANT, "t") == []
    (row,) = world.store.ledger(TENANT)
    assert (row.kind, row.detail["first"], row.detail["last"]) == ("incident", 7, 9)
    assert world.findings() == []
    assert install(world, origin[6:]).result(SECONDS).head == 12
    assert world.findings() == []


def test_a_piece_that_does_not_chain_to_its_staged_neighbour_is_refused(
    world: SqliteWorld, origin: tuple[Event, ...]
) -> None:
    install(world, origin[6:8]).result(SECONDS)
    other = forged(origin, 9)
    del other[:8]
    broken = [msgspec.structs.replace(other[0], chain=sha256(b"x"))]
    assert isinstance(world.refused(install(world, broken)), IntegrityConflict)
    assert isinstance(world.refused(install(world, forged(origin, 4)[5:6])), IntegrityConflict)
    assert world.store.staged(TENANT, "t") == [(7, 8)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("recorded_at", 5),
        ("owner_epoch", 9),
        ("worker", "w9"),
        ("issuer", "operator"),
        ("control_epoch", 7),
        ("record_version", 7),
        ("reducer_version", 7),
    ],
)
def test_a_changed_stores_field_breaks_the_chain(
    world: SqliteWorld, origin: tuple[Event, ...], field: str, value: object
) -> None:
    changed = [*origin[:4], msgspec.structs.replace(origin[4], **{field: value}), *origin[5:]]
    assert isinstance(world.refused(install(world, changed)), IntegrityConflict)
    # Beyond a gap its own chain value cannot be checked yet; it is when the prefix arrives.
    install(world, changed[4:]).result(SECONDS)
    assert install(world, changed[:4]).result(SECONDS).head == 4
    assert world.store.staged(TENANT, "t") == []
    assert install(world, origin).result(SECONDS).head == 12
    assert world.findings() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_id", "changed"),
        ("payload", b"{}"),
        ("occurred_at", 5),
        ("type", "note.changed"),
        ("payload_length", 1),
        ("digest", b"d" * 32),
    ],
)
def test_a_changed_statement_breaks_the_digest(
    world: SqliteWorld, origin: tuple[Event, ...], field: str, value: object
) -> None:
    changed = [*origin[:4], msgspec.structs.replace(origin[4], **{field: value}), *origin[5:]]
    error = world.refused(install(world, changed))
    assert isinstance(error, CorruptAt)
    assert error.data["sequence_number"] == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("occurred_at", -1),
        ("step", -1),
        ("worker", ""),
        ("operation_id", ""),
        ("payload", b""),
        ("sequence_number", 0),
        ("recorded_at", 2**60),
    ],
)
def test_a_value_that_no_store_writes_is_refused(
    world: SqliteWorld, origin: tuple[Event, ...], field: str, value: object
) -> None:
    bad = msgspec.structs.replace(origin[4], **{field: value})
    assert isinstance(world.refused(install(world, [bad])), InvalidInput)


def test_only_a_replica_takes_an_install(world: SqliteWorld, origin: tuple[Event, ...]) -> None:
    world.create()
    assert isinstance(world.refused(install(world, origin)), NotAllowed)
    assert [row.code for row in world.store.ledger(TENANT)] == ["not_allowed"]


def test_a_replica_takes_nothing_else(world: SqliteWorld, origin: tuple[Event, ...]) -> None:
    install(world, origin).result(SECONDS)
    assert isinstance(world.refused(world.claim_later()), NotAllowed)
    append = world.append_later([note("a")], epoch=2, worker="w2")
    assert isinstance(world.refused(append), NotAllowed)
    assert isinstance(world.refused(world.imports(note("b"))), NotAllowed)
    assert tuple(world.store.events(TENANT, "t")) == origin


def test_an_unknown_type_in_a_copy_is_kept(world: SqliteWorld, origin: tuple[Event, ...]) -> None:
    newer = msgspec.structs.replace(
        origin[4], event_id="newer", type="SomethingNew", schema_version=7
    )
    newer = msgspec.structs.replace(newer, digest=event_digest("t", newer.stated()))
    newer = msgspec.structs.replace(newer, chain=chain_after(origin[3].chain, newer))
    after = msgspec.structs.replace(origin[5], chain=b"")
    after = msgspec.structs.replace(after, chain=chain_after(newer.chain, after))
    install(world, [*origin[:4], newer, after]).result(SECONDS)
    assert world.store.events(TENANT, "t")[4] == newer
    assert world.findings() == []


def test_blobs_of_a_copy_come_first(world: SqliteWorld, tmp_path: Path) -> None:
    other = SqliteWorld(tmp_path / "with-blob")
    try:
        other.owned()
        ref = other.blobs.put(TENANT, b"bytes")
        other.append(with_ref("a", ref))
        events = other.store.events(TENANT, "t")
    finally:
        other.close()
    assert isinstance(world.refused(install(world, events)), MissingBlob)
    world.blobs.put(TENANT, b"bytes")
    install(world, events).result(SECONDS)
    assert world.findings() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload": b'{"kind":"maybe","tool":"shell"}'},
        {"payload": b'{"kind":"proposal"}'},
        {"payload": b'{"kind":"proposal","surprise":1,"tool":"shell"}'},
        {"payload": b"not json"},
        {"step": -1},
        {"occurred_at": -5},
        {"operation_id": "two words"},
        {"invocation_id": "x" * 200},
    ],
)
def test_a_copy_of_what_no_store_would_take_is_refused(
    world: SqliteWorld, origin: tuple[Event, ...], wrong: dict[str, Any]
) -> None:
    at = next(n for n, one in enumerate(origin) if one.type == "ToolIntent")
    if "payload" in wrong:
        data = wrong["payload"]
        wrong = wrong | {"payload_digest": sha256(data), "payload_length": len(data)}
    bad = msgspec.structs.replace(origin[at], **wrong)
    bad = msgspec.structs.replace(bad, digest=event_digest("t", bad.stated()))
    bad = msgspec.structs.replace(bad, chain=chain_after(origin[at - 1].chain, bad))
    assert isinstance(world.refused(install(world, [*origin[:at], bad])), InvalidInput)
    assert world.findings() == []


def test_an_install_of_nothing_or_of_another_trajectory_is_refused(
    world: SqliteWorld, origin: tuple[Event, ...]
) -> None:
    assert isinstance(world.refused(install(world, [])), InvalidInput)
    assert isinstance(world.refused(install(world, origin, "u")), InvalidInput)
    twice = [origin[0], origin[0]]
    assert isinstance(world.refused(install(world, twice)), InvalidInput)
