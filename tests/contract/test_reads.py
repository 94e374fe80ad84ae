"""Reads of RecoveryStore: ranges, look-ups, searches, tenants, notices, verification."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from core.canonical import canonical, sha256
from core.errors import NotFound, StrandlineError
from core.events.envelope import NewEvent
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.prepare import Prepared, prepare
from store.blocks import BLOCK_EVENTS
from store.ports import ImportSource, SourceSegment
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, event, intent, note, together


def fill(world: SqliteWorld, count: int, seed: int = 1) -> list[Prepared]:
    """A log of notes, intents and replies with steps; what was appended after the grant."""
    chosen = random.Random(seed)
    world.owned()
    made: list[Prepared] = []
    step = 0
    for number in range(count):
        begins = chosen.random() < 0.2
        step += begins
        stated: dict[str, Any] = {"step": step} if begins or chosen.random() < 0.8 else {}
        kind = chosen.choices(["note", "intent", "reply"], [20, 2, 1])[0]
        if begins:
            turn = ContextBuilt(manifest_digest="sha256:" + "0" * 64, count=0)
            stated["invocation_id"] = f"turn{number}"
            made.append(event("t", f"e{number}", "ContextBuilt", turn, **stated))
        elif kind == "note":
            made.append(note(f"e{number}", **stated))
        elif kind == "intent":
            made.append(intent(f"e{number}", f"op{number // 50}", f"op{number // 50}"))
        else:
            reply = ModelReplied(status=chosen.choice(["completed", "error"]))
            made.append(
                event("t", f"e{number}", "ModelReplied", reply, invocation_id=f"in{number // 90}")
            )
    for start in range(0, count, 97):
        world.append(*made[start : start + 97])
        world.clock.now += chosen.randrange(3) * 1_000
    return made


def test_ranges_of_events(world: SqliteWorld) -> None:
    fill(world, 20)
    whole = world.store.events(TENANT, "t")
    assert len(whole) == 22
    for after, upto, limit in ((0, None, 5), (3, 9, 100), (9, 3, 100), (21, 10**12, 9), (-5, 2, 9)):
        wanted = [
            e for e in whole if after < e.sequence_number <= (10**9 if upto is None else upto)
        ][:limit]
        assert world.store.events(TENANT, "t", after=after, upto=upto, limit=limit) == wanted
    assert world.store.events(TENANT, "t", after=10**33) == []
    assert world.store.events(TENANT, "t", after=-(10**33), upto=10**33) == whole


def test_fold_rows_hold_what_the_fold_needs(world: SqliteWorld) -> None:
    fill(world, 60)
    whole = world.store.events(TENANT, "t")
    bare = [
        msgspec.structs.replace(
            e,
            digest=b"",
            chain=b"",
            payload_digest=b"",
            payload_length=0,
            refs=(),
            record_version=0,
            reducer_version=0,
        )
        for e in whole
    ]
    assert list(world.store.fold_rows(TENANT, "t", after=0, upto=62)) == bare
    assert list(world.store.fold_rows(TENANT, "t", after=10, upto=20)) == bare[10:20]
    assert list(world.store.fold_rows(TENANT, "t", after=62, upto=70)) == []


def test_look_ups_by_id_operation_and_invocation(world: SqliteWorld) -> None:
    fill(world, 300)
    whole = world.store.events(TENANT, "t")
    for one in whole[::17]:
        assert world.store.event_by_id(TENANT, "t", one.event_id) == one
    assert world.store.event_by_id(TENANT, "t", "nothing") is None
    for name, find in (
        ("operation_id", world.store.operation_events),
        ("invocation_id", world.store.invocation_events),
    ):
        for value in {getattr(e, name) for e in whole} - {None}:
            wanted = [e for e in whole if getattr(e, name) == value]
            assert find(TENANT, "t", value) == wanted
            assert find(TENANT, "t", value, limit=1) == wanted[:1]
            middle = wanted[len(wanted) // 2].sequence_number
            assert find(TENANT, "t", value, upto=middle) == [
                e for e in wanted if e.sequence_number <= middle
            ]
        assert find(TENANT, "t", "nothing") == []


@pytest.mark.parametrize("count", [3, BLOCK_EVENTS - 2, BLOCK_EVENTS * 3 + 40])
def test_neighbours_steps_and_times_are_those_of_a_search_through_all(
    world: SqliteWorld, count: int
) -> None:
    made = fill(world, count)
    whole = world.store.events(TENANT, "t")
    marks = {1: 1, 2: 14} | {n + 3: one.mark for n, one in enumerate(made)}
    chosen = random.Random(2)
    for _ in range(300):
        sought = tuple(chosen.sample([1, 3, 4, 5, 14, 19, 12, 60, 99, -1], chosen.randint(1, 3)))
        at = chosen.randint(-2, count + 6)
        ahead = [n for n in marks if n > at and marks[n] in sought]
        behind = [n for n in marks if n < at and marks[n] in sought]
        found = [
            world.store.neighbour(TENANT, "t", marks=sought, sequence_number=at, forward=forward)
            for forward in (True, False)
        ]
        assert found == [min(ahead, default=None), max(behind, default=None)], (sought, at)
    for step in range(-1, max((e.step or 0) for e in whole) + 3):
        wanted = next((e.sequence_number for e in whole if e.step == step), None)
        assert world.store.at_step(TENANT, "t", step) == wanted
    first, last = whole[0].recorded_at, whole[-1].recorded_at
    for instant in (0, first - 1, first, *range(first, last + 2_000, 700), last, last + 1, 2**60):
        wanted = sum(1 for e in whole if e.recorded_at <= instant)
        assert world.store.at_time(TENANT, "t", instant) == wanted
    assert world.findings() == []


@pytest.mark.parametrize("count", [0, 5, BLOCK_EVENTS - 2, 3 * BLOCK_EVENTS + 7])
def test_marks_are_those_of_the_events(world: SqliteWorld, count: int) -> None:
    made = fill(world, count)
    whole = world.store.events(TENANT, "t", limit=10_000)
    stated = bytes([1, 14, *(int(one.mark) for one in made)])
    assert len(stated) == len(whole)
    assert world.store.marks(TENANT, "t", first=1, last=10**12) == stated
    for first, last in ((1, 1), (2, 9), (BLOCK_EVENTS, BLOCK_EVENTS + 1), (200, 390), (9, 3)):
        assert world.store.marks(TENANT, "t", first=first, last=last) == stated[first - 1 : last]
    with pytest.raises(NotFound):
        world.store.marks("other", "t", first=1, last=2)


def test_heads_page_by_id(world: SqliteWorld) -> None:
    for name in ("c", "a", "b"):
        world.create(name)
    assert [h.trajectory_id for h in world.store.heads(TENANT)] == ["a", "b", "c"]
    assert [h.trajectory_id for h in world.store.heads(TENANT, after="a", limit=1)] == ["b"]


def test_a_foreign_id_and_an_unknown_id_look_the_same(world: SqliteWorld) -> None:
    world.create("theirs", tenant="other")
    world.claim("theirs", tenant="other")
    world.append(note("a", trajectory_id="theirs"), trajectory_id="theirs", tenant="other")
    store = world.store
    reads: list[Callable[[str], Any]] = [
        lambda name: store.head(TENANT, name),
        lambda name: store.events(TENANT, name),
        lambda name: list(store.fold_rows(TENANT, name, after=0, upto=9)),
        lambda name: store.event_by_id(TENANT, name, "a"),
        lambda name: store.operation_events(TENANT, name, "op"),
        lambda name: store.invocation_events(TENANT, name, "in"),
        lambda name: store.neighbour(TENANT, name, marks=(19,), sequence_number=0, forward=True),
        lambda name: store.marks(TENANT, name, first=1, last=9),
        lambda name: store.at_time(TENANT, name, 2**60),
        lambda name: store.at_step(TENANT, name, 1),
        lambda name: store.staged(TENANT, name),
        lambda name: list(store.verify(TENANT, name)),
    ]
    for read in reads:
        said = []
        for name in ("theirs", "nobodys"):
            with pytest.raises(NotFound) as caught:
                read(name)
            said.append(str(caught.value).replace(name, "it"))
        assert said[0] == said[1]
    for name in ("theirs", "nobodys"):
        claimed, appended = (
            world.claim_later(name),
            world.append_later([note("b", trajectory_id=name)], trajectory_id=name),
        )
        assert isinstance(world.refused(claimed), NotFound)
        assert isinstance(world.refused(appended), NotFound)
    assert store.heads(TENANT) == []
    assert store.ledger(TENANT) == []
    assert store.ledger(TENANT, trajectory_id="theirs") == []
    world.create("theirs")
    assert store.head("other", "theirs").sequence_number == 3
    assert store.head(TENANT, "theirs").sequence_number == 1
    assert world.findings() == []


def test_a_request_id_is_its_tenants_own(world: SqliteWorld) -> None:
    world.create("t", request_id="r")
    assert not world.create("t", request_id="r", tenant="other").duplicate


def test_an_import_source_is_remembered_with_its_events(world: SqliteWorld) -> None:
    world.create(standing="imported")
    blob = world.blobs.put(TENANT, b"original")

    def source(length: int) -> ImportSource:
        return ImportSource(
            source_id="s",
            importer="mini",
            version=1,
            trajectory_id="t",
            name="a.json",
            reading_digest=f"sha256:{length}",
            reading_length=length,
            segments=(SourceSegment(blob.digest, length, 3),),
            state={"next": "7"},
        )

    world.imports(note("a"), source=source(10)).result(SECONDS)
    assert world.store.import_source(TENANT, "s") == source(10)
    assert world.store.import_by_reading(TENANT, "mini", "sha256:10") == source(10)
    assert world.store.sources_of(TENANT, "t") == [source(10)]
    refused = world.imports(note("b"), expected_head=9, source=source(20))
    assert isinstance(world.refused(refused), StrandlineError)
    assert world.store.import_source(TENANT, "s") == source(10)
    world.imports(note("b"), expected_head=1, source=source(20)).result(SECONDS)
    assert world.store.import_source(TENANT, "s") == source(20)
    assert world.store.import_by_reading(TENANT, "mini", "sha256:10") is None
    assert world.store.import_by_reading(TENANT, "other", "sha256:20") is None
    assert world.store.import_source("other", "s") is None
    assert world.store.sources_of("other", "t") == []
    assert world.findings() == []


def test_notices_come_after_the_acknowledgement_with_the_newest_head(world: SqliteWorld) -> None:
    world.owned()
    notices = world.store.subscribe()
    assert notices.wait(0.0) == []
    for number in range(5):
        world.append(note(f"n{number}"))
    world.create("u")
    seen: dict[str, int] = {}
    while seen != {"t": 7, "u": 1}:
        for tenant, trajectory_id, head in notices.wait(SECONDS):
            assert tenant == TENANT
            assert head >= seen.get(trajectory_id, 0)
            seen[trajectory_id] = head
    waiting = threading.Thread(target=notices.wait, args=(SECONDS,))
    waiting.start()
    notices.close()
    waiting.join(5)
    assert not waiting.is_alive()
    assert notices.wait(SECONDS) == []


def test_reading_goes_on_while_others_write(world: SqliteWorld) -> None:
    world.owned()
    done = threading.Event()

    def write() -> None:
        for number in range(150):
            world.append(note(f"n{number}"))
        done.set()

    def read() -> int:
        seen = 0
        while not done.is_set():
            head = world.store.head(TENANT, "t")
            events = world.store.events(TENANT, "t", limit=1_000)
            assert len(events) >= head.sequence_number >= seen
            assert [e.sequence_number for e in events] == list(range(1, len(events) + 1))
            seen = head.sequence_number
        return seen

    results = together([write, read, read, read])
    assert results[0] is None
    assert all(isinstance(result, int) for result in results[1:])


def test_verify_walks_the_log_and_finds_nothing(world: SqliteWorld) -> None:
    fill(world, 700)
    steps = list(world.store.verify(TENANT, "t"))
    assert steps[-1] == (702, None)
    assert all(finding is None for _, finding in steps)
    assert list(world.store.verify(TENANT, "t", upto=10))[-1] == (10, None)


def test_ledger_pages_by_number(world: SqliteWorld) -> None:
    world.owned()
    for number in range(5):
        world.refused(world.append_later([note(f"n{number}")], epoch=9))
    rows = world.store.ledger(TENANT)
    assert [row.number for row in rows] == sorted({row.number for row in rows})
    assert world.store.ledger(TENANT, after=rows[1].number, limit=2) == rows[2:4]
    assert world.store.ledger(TENANT, limit=2, newest=True) == rows[-2:]
    assert world.store.ledger(TENANT, after=rows[-2].number, newest=True) == rows[-1:]
    assert world.store.ledger(TENANT, trajectory_id="other") == []


def test_payloads_up_to_their_bound_are_kept_inline(world: SqliteWorld) -> None:
    world.owned()
    payload = canonical({"text": "x" * 16_000})
    stated = NewEvent(event_id="big", type="note.big", schema_version=1, payload=payload)
    world.append(prepare("t", stated))
    found = world.store.event_by_id(TENANT, "t", "big")
    assert found is not None
    assert (found.payload, found.payload_digest) == (payload, sha256(payload))
