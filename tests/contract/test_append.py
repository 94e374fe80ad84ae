"""Guarantees 1 to 7 of RecoveryStore, and corners R8 to R13."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from core.errors import (
    Busy,
    Fenced,
    HeadMoved,
    IntegrityConflict,
    InvalidInput,
    MissingBlob,
    NotAllowed,
    NotFound,
    StoreStopped,
    UnresolvedReference,
)
from core.events import registry
from core.events.control import ControlChanged, PlanChanged
from core.events.envelope import BlobRef, NewEvent, chain_start
from core.events.fields import Payload
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.prepare import STATES, Prepared, prepare
from core.events.task import TaskStarted
from core.events.tool import ToolIntent, ToolResult
from core.limits import GROUP_BYTES_MAX, QUEUE_MEMBERS_MAX
from store.ports import AppendCommand, CreateCommand, ImportSource
from store.verify import chain_after
from tests.contract.worlds import (
    SECONDS,
    TENANT,
    SqliteWorld,
    event,
    intent,
    note,
    together,
    with_ref,
)


def logged(world: SqliteWorld, trajectory_id: str = "t") -> list[str]:
    return [e.event_id for e in world.store.events(TENANT, trajectory_id)]


# --- order ---------------------------------------------------------------------------------------


def test_numbers_are_contiguous_and_each_event_chains_to_the_one_before(world: SqliteWorld) -> None:
    world.owned()
    for number in range(5):
        ack = world.append(note(f"a{number}"), note(f"b{number}"))
        assert ack.sequence_numbers == (3 + 2 * number, 4 + 2 * number)
        assert ack.head == 4 + 2 * number
        assert ack.failure_domain == "host"
    events = world.store.events(TENANT, "t")
    assert [e.sequence_number for e in events] == list(range(1, 13))
    chain = chain_start("t")
    for one in events:
        chain = chain_after(chain, one)
        assert one.chain == chain
    head = world.store.head(TENANT, "t")
    assert (head.sequence_number, head.chain) == (12, chain)


def test_recorded_at_never_decreases_though_the_clock_goes_back(world: SqliteWorld) -> None:
    world.owned()
    world.append(note("a"))
    world.clock.now -= 5_000_000
    world.append(note("b"))
    world.clock.now += 9_000_000
    world.append(note("c"))
    times = [e.recorded_at for e in world.store.events(TENANT, "t")]
    assert times == sorted(times)
    assert times[-2] == times[-3]
    assert times[-1] == world.clock.now


def test_events_are_stamped_with_the_record_they_follow(world: SqliteWorld) -> None:
    world.owned()
    world.append(
        event("t", "p1", "PlanChanged", PlanChanged(revision=1, items=())),
        note("n1"),
        event("t", "c1", "ControlChanged", ControlChanged(from_state="RUNNING", to_state="PAUSED")),
        note("n2"),
    )
    found = {
        e.event_id: (e.record_version, e.control_epoch, e.owner_epoch, e.worker, e.issuer)
        for e in world.store.events(TENANT, "t")
    }
    assert found["started"] == (0, 0, 0, None, "service")
    assert found["p1"] == (1, 0, 1, "w1", "worker")
    assert found["n1"] == (2, 0, 1, "w1", "worker")
    assert found["c1"] == (2, 0, 1, "w1", "worker")
    assert found["n2"] == (3, 1, 1, "w1", "worker")
    head = world.store.head(TENANT, "t")
    assert (head.record_version, head.control_epoch) == (3, 1)
    assert world.findings() == []


def test_a_grant_leaves_control_epoch_and_record_version(world: SqliteWorld) -> None:
    world.create()
    before = world.store.head(TENANT, "t")
    grant = world.claim()
    after = world.store.head(TENANT, "t")
    assert (after.control_epoch, after.record_version) == (
        before.control_epoch,
        before.record_version,
    )
    (granted,) = world.store.events(TENANT, "t", after=1)
    assert granted.type == "OwnershipGranted"
    assert (granted.owner_epoch, granted.worker) == (grant.owner_epoch, None)


# --- the fence -----------------------------------------------------------------------------------


def test_a_stale_owner_changes_nothing_but_the_ledger(world: SqliteWorld) -> None:
    world.owned()
    world.append(note("a"))
    world.claim(worker="w2")
    before = world.store.head(TENANT, "t")
    error = world.refused(world.append_later([note("b")]))
    assert isinstance(error, Fenced)
    assert error.data["owner_epoch"] == 2
    assert world.store.head(TENANT, "t") == before
    assert world.store.event_by_id(TENANT, "t", "b") is None
    (row,) = world.store.ledger(TENANT)
    assert (row.kind, row.code, row.offered_epoch, row.held_epoch, row.worker) == (
        "refused",
        "fenced",
        1,
        2,
        "w1",
    )


@pytest.mark.parametrize(
    "more",
    [
        {"epoch": 2, "worker": "w1"},
        {"epoch": 0, "worker": "w1"},
        {"epoch": 1, "worker": "w2"},
        {"epoch": 1, "worker": "w1", "incarnation": "another"},
    ],
)
def test_only_the_very_grant_passes_the_fence(world: SqliteWorld, more: dict[str, Any]) -> None:
    world.owned()
    assert isinstance(world.refused(world.append_later([note("a")], **more)), Fenced)
    world.append(note("a"), incarnation=world.opened.incarnation)


def test_an_append_that_states_no_epoch_is_refused(world: SqliteWorld) -> None:
    world.owned()
    error = world.refused(world.append_later([note("a")], epoch=None, worker=None))
    assert isinstance(error, InvalidInput)


def test_epoch_0_never_passes_on_an_unclaimed_trajectory(world: SqliteWorld) -> None:
    world.create()
    assert isinstance(world.refused(world.append_later([note("a")], epoch=0)), Fenced)


def test_r10_an_append_refused_at_the_fence_is_fresh_after_a_new_claim(world: SqliteWorld) -> None:
    world.owned()
    world.claim(worker="w2")
    world.refused(world.append_later([note("a")]))
    world.claim(worker="w1")
    ack = world.append(note("a"), epoch=3)
    assert (ack.duplicate, ack.owner_epoch) == (False, 3)
    assert [row.code for row in world.store.ledger(TENANT)] == ["fenced"]


@pytest.mark.parametrize("claim_first", [True, False])
def test_an_append_and_a_claim_in_one_group_are_decided_in_order(
    world: SqliteWorld, claim_first: bool
) -> None:
    world.owned()
    with world.one_group():
        if claim_first:
            world.claim_later(worker="w2")
            append = world.append_later([note("a")])
        else:
            append = world.append_later([note("a")])
            world.claim_later(worker="w2")
    if claim_first:
        assert isinstance(world.refused(append), Fenced)
        assert logged(world)[-1].startswith("grant.")
    else:
        assert append.result(SECONDS).owner_epoch == 1
        assert logged(world)[-2] == "a"
    assert world.findings() == []


# --- deduplication -------------------------------------------------------------------------------


def test_the_same_event_again_is_the_same_acknowledgement(world: SqliteWorld) -> None:
    world.owned()
    first = world.append(note("a"), note("b"))
    again = world.append(note("a"), note("b"))
    assert again.sequence_numbers == first.sequence_numbers
    assert (again.duplicate, again.duplicates, again.fenced) == (True, (True, True), False)
    assert logged(world)[2:] == ["a", "b"]


def test_r8_a_duplicate_is_found_before_the_fence_and_keeps_its_epoch(world: SqliteWorld) -> None:
    world.owned()
    world.append(note("a"))
    world.claim(worker="w1")
    old = world.append(note("a"), epoch=1)
    assert (old.duplicate, old.fenced, old.owner_epoch) == (True, True, 1)
    new = world.append(note("a"), epoch=2)
    assert (new.duplicate, new.fenced, new.owner_epoch) == (True, False, 1)
    stored = world.store.event_by_id(TENANT, "t", "a")
    assert stored is not None and stored.owner_epoch == 1
    assert world.store.ledger(TENANT) == []


@pytest.mark.parametrize("epoch", [1, 2])
def test_r9_the_same_id_with_other_bytes_is_a_conflict_whatever_the_epoch(
    world: SqliteWorld, epoch: int
) -> None:
    world.owned()
    world.append(note("a", "one"))
    world.claim(worker="w1")
    before = world.store.events(TENANT, "t")
    error = world.refused(world.append_later([note("a", "two")], epoch=epoch))
    assert isinstance(error, IntegrityConflict)
    assert world.store.events(TENANT, "t") == before
    (row,) = world.store.ledger(TENANT)
    assert (row.kind, row.code) == ("incident", "integrity_conflict")
    assert row.detail["event_id"] == "a"
    assert world.store.head(TENANT, "t").incidents == 1


@pytest.mark.parametrize("between", [0, 40])
def test_however_long_ago_it_was_stored_it_is_known_before_anything_is_refused(
    world: SqliteWorld, between: int
) -> None:
    world.owned()
    world.append(note("a", "one"))

    def others(epoch: int) -> None:
        for number in range(between):
            world.append(note(f"{epoch}.{number}"), epoch=epoch, worker=f"w{epoch}")

    others(1)
    world.claim(worker="w2")
    others(2)
    stale = world.append(note("a", "one"), epoch=1)
    assert (stale.duplicate, stale.fenced, stale.sequence_numbers) == (True, True, (3,))
    world.claim(worker="w3")
    others(3)
    moved = world.append(note("a", "one"), epoch=3, worker="w3", expected_head=2)
    assert (moved.duplicate, moved.fenced, moved.sequence_numbers) == (True, False, (3,))
    assert world.store.ledger(TENANT) == []
    world.claim(worker="w4")
    others(4)
    error = world.refused(world.append_later([note("a", "two")], epoch=1))
    assert isinstance(error, IntegrityConflict)
    assert world.findings() == []


def test_a_request_may_hold_stored_and_new_events(world: SqliteWorld) -> None:
    world.owned()
    world.append(note("a"))
    ack = world.append(note("a"), note("b"))
    assert ack.sequence_numbers == (3, 4)
    assert (ack.duplicate, ack.duplicates) == (False, (True, False))


def test_r12_a_duplicate_and_a_conflict_in_the_originals_group(world: SqliteWorld) -> None:
    world.owned()
    with world.one_group():
        first = world.append_later([note("a", "one")])
        same = world.append_later([note("a", "one")])
        other = world.append_later([note("a", "two")])
        assert not (first.done() or same.done() or other.done())
    assert first.result(SECONDS).sequence_numbers == (3,)
    assert same.result(SECONDS).duplicate
    assert same.result(SECONDS).sequence_numbers == (3,)
    assert isinstance(world.refused(other), IntegrityConflict)
    assert logged(world)[2:] == ["a"]


def test_one_id_twice_in_one_request_is_refused(world: SqliteWorld) -> None:
    world.owned()
    assert isinstance(world.refused(world.append_later([note("a"), note("a")])), InvalidInput)
    error = world.refused(world.append_later([note("a", "one"), note("a", "two")]))
    assert isinstance(error, IntegrityConflict)
    assert logged(world)[2:] == []


def test_an_event_id_is_unique_in_its_trajectory_only(world: SqliteWorld) -> None:
    world.owned("t")
    world.owned("u")
    world.append(note("a"))
    ack = world.append(note("a", trajectory_id="u"), trajectory_id="u")
    assert not ack.duplicate


# --- groups --------------------------------------------------------------------------------------


def test_an_import_makes_its_trajectory_with_its_events_or_not_at_all(world: SqliteWorld) -> None:
    absent = BlobRef(digest="sha256:" + "0" * 64, length=1)
    bad = world.imports(note("a"), with_ref("b", absent), expected_head=0, creates="imported")
    assert isinstance(world.refused(bad), MissingBlob)
    for standing in ("gated", "reported", "replica"):
        refused = world.imports(note("a"), expected_head=0, creates=standing)
        assert isinstance(world.refused(refused), NotAllowed)
    assert isinstance(world.refused(world.imports(note("a"))), NotFound)
    assert world.store.heads(TENANT) == []
    with world.one_group():
        first = world.imports(note("a"), note("b"), expected_head=0, creates="imported")
        again = world.imports(note("a"), note("b"), expected_head=0, creates="imported")
        late = world.imports(note("c"), expected_head=0, creates="imported")
    assert first.result(SECONDS).sequence_numbers == (1, 2)
    assert again.result(SECONDS).duplicate
    assert isinstance(world.refused(late), HeadMoved)
    (head,) = world.store.heads(TENANT)
    assert (head.standing, head.sequence_number, head.owner_epoch) == ("imported", 2, 0)
    assert world.findings() == []
    world.reopen()
    assert world.imports(note("a"), note("b"), creates="imported").result(SECONDS).duplicate


def test_all_or_nothing_for_each_request(world: SqliteWorld) -> None:
    world.owned()
    absent = BlobRef(digest="sha256:" + "0" * 64, length=1)
    error = world.refused(world.append_later([note("a"), with_ref("b", absent), note("c")]))
    assert isinstance(error, MissingBlob)
    assert error.data["digests"] == [absent.digest]
    assert logged(world)[2:] == []


@pytest.mark.parametrize(
    "part",
    [
        {"length": 999},
        {"length": 4},
        {"start": 3, "end": 2},
        {"start": 0, "end": 6},
        {"start": -1},
        {"end": -1},
    ],
)
def test_what_an_event_says_of_a_blob_is_true_of_it(
    world: SqliteWorld, part: dict[str, int]
) -> None:
    world.owned()
    ref = world.blobs.put(TENANT, b"bytes")
    wrong = msgspec.structs.replace(ref, **part)
    with pytest.raises(InvalidInput):
        world.append(with_ref("a", wrong))
    with world.one_group():
        fine = world.append_later([with_ref("b", msgspec.structs.replace(ref, start=1, end=5))])
    assert fine.result(SECONDS).sequence_numbers == (3,)
    assert world.findings() == []


@pytest.mark.parametrize("type_", sorted(STATES))
def test_an_event_says_what_it_is_about_unless_its_source_does_not(
    world: SqliteWorld, type_: str
) -> None:
    payloads = {
        "ContextBuilt": ContextBuilt(manifest_digest="sha256:" + "0" * 64, count=0),
        "ModelReplied": ModelReplied(status="completed"),
        "ToolIntent": ToolIntent(kind="proposal", tool="shell"),
        "ToolResult": ToolResult(status="succeeded", basis="sender"),
    }
    world.owned()
    every = {name: f"{name}-1" for name in STATES[type_]}
    for name in every:
        rest = {key: value for key, value in every.items() if key != name}
        bare = event("t", "a", type_, payloads[type_], **rest)
        error = world.refused(world.append_later([bare]))
        assert isinstance(error, InvalidInput) and error.data["field"] == name
    world.append(event("t", "a", type_, payloads[type_], **every))
    world.create("file", standing="imported")
    bare = event("file", "a", type_, payloads[type_])
    assert world.imports(bare, trajectory_id="file").result(SECONDS).sequence_numbers == (1,)


def test_r11_a_member_that_depends_on_a_refused_one_is_refused_alone(world: SqliteWorld) -> None:
    world.owned()
    world.owned("u")
    absent = BlobRef(digest="sha256:" + "0" * 64, length=1)
    with world.one_group():
        bad = world.append_later([with_ref("a", absent)], expected_head=2)
        dependent = world.append_later([note("b")], expected_head=3)
        independent = world.append_later([note("c")], expected_head=2)
        other = world.append_later([note("d", trajectory_id="u")], trajectory_id="u")
    assert isinstance(world.refused(bad), MissingBlob)
    assert isinstance(world.refused(dependent), HeadMoved)
    assert independent.result(SECONDS).sequence_numbers == (3,)
    assert other.result(SECONDS).sequence_numbers == (3,)
    assert world.findings() == []


def test_a_member_is_decided_on_what_earlier_members_left(world: SqliteWorld) -> None:
    world.owned()
    with world.one_group():
        first = world.append_later([note("a")], expected_head=2)
        second = world.append_later([note("b")], expected_head=3)
        third = world.append_later([note("c")], expected_head=3)
    assert first.result(SECONDS).head == 3
    assert second.result(SECONDS).head == 4
    assert isinstance(world.refused(third), HeadMoved)


def test_a_whole_life_in_one_group(world: SqliteWorld) -> None:
    with world.one_group():
        first = world.store.create(_create(world, "t"))
        granted = world.claim_later()
        appended = world.append_later([note("a")])
    assert first.result(SECONDS).head == 1
    assert granted.result(SECONDS).owner_epoch == 1
    assert appended.result(SECONDS).sequence_numbers == (3,)
    assert world.findings() == []


def _create(world: SqliteWorld, trajectory_id: str) -> Any:
    started = TaskStarted(title="T", standing="reported")
    return CreateCommand(
        tenant=TENANT,
        trajectory_id=trajectory_id,
        standing="reported",
        issuer="service",
        request_id=world.request(),
        request_digest=b"d" * 32,
        first=event(trajectory_id, "started", "TaskStarted", started),
    )


def test_r13_a_large_member_flushes_alone(world: SqliteWorld) -> None:
    world.owned()
    text = "x" * 15_000
    large = [note(f"l{n}", text) for n in range(GROUP_BYTES_MAX // 15_000 + 2)]
    before = world.store.stats().groups
    with world.one_group():
        futures = [
            world.append_later([note("a")]),
            world.append_later(large),
            world.append_later([note("b")]),
        ]
    acks = [future.result(SECONDS) for future in futures]
    assert world.store.stats().groups == before + 4
    assert acks[1].head == 2 + 1 + len(large)
    assert logged(world)[2] == "a"
    assert world.store.events(TENANT, "t", after=acks[1].head)[0].event_id == "b"


def test_r13_what_cannot_be_encoded_is_refused_before_it_joins(world: SqliteWorld) -> None:
    world.owned()
    good = note("a")
    poison = msgspec.structs.replace(
        good, event=msgspec.structs.replace(good.event, attempt_id="\ud800")
    )
    huge = msgspec.structs.replace(good, event=msgspec.structs.replace(good.event, step=2**70))
    groups = world.store.stats().groups
    for bad in (poison, huge):
        assert isinstance(world.refused(world.append_later([bad])), InvalidInput)
    assert world.store.stats().groups == groups
    with world.one_group():
        bad_future = world.append_later([poison])
        fine = world.append_later([note("b")])
    assert isinstance(world.refused(bad_future), InvalidInput)
    assert fine.result(SECONDS).sequence_numbers == (3,)


def test_a_full_queue_refuses_and_drops_nothing(world: SqliteWorld) -> None:
    world.owned()
    with world.one_group():
        futures = [world.append_later([note(f"n{n}")]) for n in range(QUEUE_MEMBERS_MAX + 5)]
        late = [future for future in futures if future.done()]
    assert len(late) == 5
    for future in late:
        error = world.refused(future)
        assert isinstance(error, Busy)
        assert int(str(error.data["retry_after"])) >= 1
    for future in futures[:-5]:
        future.result(SECONDS)
    assert world.store.head(TENANT, "t").sequence_number == 2 + QUEUE_MEMBERS_MAX
    assert world.store.stats().refused["busy"] == 5


def test_appends_of_many_threads_all_find_their_place(world: SqliteWorld) -> None:
    world.owned()

    def work(worker: int) -> list[int]:
        return [world.append(note(f"{worker}-{n}")).sequence_numbers[0] for n in range(20)]

    numbers = together([lambda w=worker: work(w) for worker in range(8)])
    assert sorted(n for some in numbers for n in some) == list(range(3, 163))
    for some in numbers:
        assert some == sorted(some)
    assert world.findings() == []


def test_closing_finishes_what_is_queued(world: SqliteWorld) -> None:
    world.owned()
    futures = [world.append_later([note(f"n{n}")]) for n in range(300)]
    world.store.close()
    assert {future.result(0).failure_domain for future in futures} == {"host"}
    assert isinstance(world.refused(world.append_later([note("late")])), StoreStopped)
    world.store.close()


# --- decided on the head -------------------------------------------------------------------------


def test_expected_head_must_be_the_head(world: SqliteWorld) -> None:
    world.owned()
    assert world.append(note("a"), expected_head=2).head == 3
    error = world.refused(world.append_later([note("b")], expected_head=2))
    assert isinstance(error, HeadMoved)
    assert error.data["head"] == 3
    assert world.append(note("a"), expected_head=2).duplicate


# --- requests ------------------------------------------------------------------------------------


def test_the_same_create_again_gives_the_same_answer(world: SqliteWorld) -> None:
    first = world.create(request_id="r")
    world.claim()
    again = world.create(request_id="r")
    assert (again.head, again.chain, again.sequence_numbers) == (
        first.head,
        first.chain,
        first.sequence_numbers,
    )
    assert again.duplicate
    assert world.store.head(TENANT, "t").sequence_number == 2


def test_the_same_claim_again_gives_the_same_grant(world: SqliteWorld) -> None:
    world.create()
    first = world.claim(request_id="r")
    world.claim(worker="w2")
    assert world.claim(request_id="r") == first
    assert world.store.head(TENANT, "t").owner_epoch == 2
    world.reopen()
    assert world.claim(request_id="r") == first


def test_another_request_under_a_used_id_is_a_conflict(world: SqliteWorld) -> None:
    world.create(request_id="r")
    error = world.refused(world.claim_later(request_id="r"))
    assert isinstance(error, IntegrityConflict)
    with pytest.raises(IntegrityConflict):
        world.create("u", request_id="r")
    with pytest.raises(NotFound):
        world.store.head(TENANT, "u")
    assert [row.kind for row in world.store.ledger(TENANT)] == ["incident", "incident"]


def test_a_trajectory_id_is_created_once(world: SqliteWorld) -> None:
    world.create()
    with pytest.raises(IntegrityConflict):
        world.create()
    assert world.store.head(TENANT, "t").sequence_number == 1


def test_two_identical_claims_in_one_group_are_one(world: SqliteWorld) -> None:
    world.create()
    with world.one_group():
        one = world.claim_later(request_id="r")
        two = world.claim_later(request_id="r")
    assert one.result(SECONDS) == two.result(SECONDS)
    assert world.store.head(TENANT, "t").owner_epoch == 1


# --- claims --------------------------------------------------------------------------------------


def test_claims_at_one_moment_get_one_epoch_each(world: SqliteWorld) -> None:
    world.create()
    grants = together([lambda w=w: world.claim(worker=f"w{w}") for w in range(8)])
    assert sorted(grant.owner_epoch for grant in grants) == list(range(1, 9))
    head = world.store.head(TENANT, "t")
    newest = max(grants, key=lambda grant: grant.owner_epoch)
    assert (head.owner_epoch, head.worker) == (8, newest.worker)
    assert world.findings() == []


@pytest.mark.parametrize("first", ["w1", "w2"])
def test_of_two_compare_and_set_claims_the_first_commit_wins(
    world: SqliteWorld, first: str
) -> None:
    world.create()
    second = "w2" if first == "w1" else "w1"
    with world.one_group():
        wins = world.claim_later(worker=first, expected_epoch=0)
        loses = world.claim_later(worker=second, expected_epoch=0)
    assert wins.result(SECONDS).worker == first
    error = world.refused(loses)
    assert isinstance(error, Fenced)
    assert error.data["owner_epoch"] == 1


def test_claiming_nothing_or_an_import_is_refused(world: SqliteWorld) -> None:
    assert isinstance(world.refused(world.claim_later("nowhere")), NotFound)
    world.create("i", standing="imported")
    assert isinstance(world.refused(world.claim_later("i")), NotAllowed)


# --- references ----------------------------------------------------------------------------------


def test_a_blob_must_be_durable_before_it_is_named(world: SqliteWorld) -> None:
    world.owned()
    ref = world.blobs.put(TENANT, b"bytes")
    world.append(with_ref("a", ref))
    foreign = world.blobs.put("other", b"theirs")
    assert isinstance(world.refused(world.append_later([with_ref("b", foreign)])), MissingBlob)


def test_a_reference_that_states_another_length_is_refused(world: SqliteWorld) -> None:
    world.owned()
    ref = world.blobs.put(TENANT, b"bytes")
    wrong = msgspec.structs.replace(ref, length=6)
    assert isinstance(world.refused(world.append_later([with_ref("a", wrong)])), InvalidInput)
    part = msgspec.structs.replace(ref, start=1, end=3)
    world.append(with_ref("b", part))
    assert world.findings() == []


def test_a_blob_of_an_earlier_member_counts(world: SqliteWorld) -> None:
    world.owned()
    ref = BlobRef(digest="sha256:" + "1" * 64, length=3)
    with world.one_group():
        world.store.put_blobs(TENANT, ((ref.digest, ref.length),))
        ack = world.append_later([with_ref("a", ref)])
    assert ack.result(SECONDS).head == 3


def test_an_intent_names_events_that_are_earlier(world: SqliteWorld) -> None:
    world.owned()
    named = intent("i", "op", "ls", authorization_event="auth", reservation_event="res")
    error = world.refused(world.append_later([named]))
    assert isinstance(error, UnresolvedReference)
    assert error.data["named"] == "auth"
    assert logged(world)[2:] == []


def test_an_operation_id_is_bound_once(world: SqliteWorld) -> None:
    world.owned()
    world.append(intent("i1", "op", "ls"))
    world.append(intent("i2", "op", "ls"))
    error = world.refused(world.append_later([intent("i3", "op", "rm -r")]))
    assert isinstance(error, IntegrityConflict)
    with world.one_group():
        world.append_later([intent("j1", "op2", "a")])
        other = world.append_later([intent("j2", "op2", "b")])
    assert isinstance(world.refused(other), IntegrityConflict)
    both = world.append_later([intent("k1", "op3", "a"), intent("k2", "op3", "b")])
    assert isinstance(world.refused(both), IntegrityConflict)
    world.reopen()
    again = world.append_later([intent("i4", "op", "rm -r")])
    assert isinstance(world.refused(again), IntegrityConflict)
    assert logged(world)[2:] == ["i1", "i2", "j1"]


def test_what_an_issuer_may_not_assert_is_refused_and_kept(world: SqliteWorld) -> None:
    world.create("g", standing="gated")
    world.claim("g")
    bad = intent("i", "op", "ls", trajectory_id="g")
    error = world.refused(world.append_later([bad], trajectory_id="g"))
    assert isinstance(error, NotAllowed)
    (row,) = world.store.ledger(TENANT, trajectory_id="g")
    assert (row.kind, row.code, row.detail["type"]) == ("refused", "not_allowed", "ToolIntent")


# --- imports -------------------------------------------------------------------------------------


def test_an_import_carries_epoch_0_and_no_worker(world: SqliteWorld) -> None:
    world.create(standing="imported")
    world.imports(note("a"), note("b"), expected_head=0).result(SECONDS)
    events = world.store.events(TENANT, "t")
    assert {(e.issuer, e.owner_epoch, e.worker) for e in events} == {("importer", 0, None)}
    assert isinstance(world.refused(world.imports(note("c"), expected_head=0)), HeadMoved)
    assert isinstance(world.refused(world.append_later([note("d")])), Fenced)


def test_an_unknown_trajectory_is_not_found(world: SqliteWorld) -> None:
    assert isinstance(world.refused(world.append_later([note("a")])), NotFound)


def test_a_bad_name_is_refused_before_it_joins(world: SqliteWorld) -> None:
    for trajectory_id in ("", "a b", "../x", "x" * 200):
        future = world.append_later([note("a")], trajectory_id=trajectory_id)
        assert isinstance(world.refused(future), InvalidInput)


def test_an_event_prepared_for_another_trajectory_is_refused(world: SqliteWorld) -> None:
    world.owned()
    world.owned("u")
    future = world.append_later([note("a", trajectory_id="u")])
    assert isinstance(world.refused(future), InvalidInput)


def test_an_append_without_events_is_refused(world: SqliteWorld) -> None:
    world.owned()
    assert isinstance(world.refused(world.append_later([])), InvalidInput)


def test_an_append_states_the_present_step_or_the_next(world: SqliteWorld) -> None:
    def at(event_id: str, step: int | None, payload: Payload | None = None) -> Prepared:
        built = payload is not None
        stated = NewEvent(
            event_id=event_id,
            type="ContextBuilt" if built else "note.seen",
            schema_version=1,
            payload=registry.encode(payload) if payload is not None else b"{}",
            step=step,
            invocation_id=event_id if built else None,
        )
        return prepare("t", stated)

    turn = ContextBuilt(manifest_digest="sha256:" + "0" * 64, count=0)
    retry = msgspec.structs.replace(turn, retry_of="c1")
    world.owned()
    assert isinstance(world.refused(world.append_later([at("far", 2, turn)])), InvalidInput)
    world.append(at("c1", 1, turn), at("n1", 1), at("r1", 2, retry), at("n2", None))
    assert world.store.head(TENANT, "t").step == 1, "a retry begins no step"
    world.append(at("c2", None, turn), at("c3", 3, turn))
    assert world.store.head(TENANT, "t").step == 3
    for event_id, step in (("low", 2), ("high", 5)):
        error = world.refused(world.append_later([at("ok." + event_id, 3), at(event_id, step)]))
        assert isinstance(error, InvalidInput)
        assert error.data["field"] == "step"
    world.reopen()
    assert world.store.head(TENANT, "t").step == 3
    assert isinstance(world.refused(world.append_later([at("c1.again", 1, turn)])), InvalidInput)
    assert world.append(at("c1", 1, turn)).duplicate, "a retry is known before it is held to a step"
    assert world.findings() == []


def test_a_new_event_keeps_all_it_states(world: SqliteWorld) -> None:
    world.owned()
    ref = world.blobs.put(TENANT, b"x" * 30)
    stated = NewEvent(
        event_id="full",
        type="note.full",
        schema_version=3,
        payload=b'{"a":1}',
        occurred_at=5,
        step=1,
        operation_id="op",
        attempt_id="at",
        invocation_id="in",
        refs=(
            msgspec.structs.replace(ref, media_type="text/plain", schema="s/1", start=1, end=9),
            msgspec.structs.replace(ref, role="diagnostic"),
        ),
    )
    world.append(prepare("t", stated))
    found = world.store.event_by_id(TENANT, "t", "full")
    assert found is not None
    assert found.stated() == stated
    by_ref = msgspec.structs.replace(stated, event_id="by-ref", payload=None, payload_ref=ref)
    world.append(prepare("t", by_ref, {}))
    found = world.store.event_by_id(TENANT, "t", "by-ref")
    assert found is not None
    assert found.stated() == by_ref


def test_the_queue_wait_and_the_storage_time_are_told_apart(world: SqliteWorld) -> None:
    world.owned()
    with world.one_group():
        future = world.append_later([note("a")])
        time.sleep(0.06)
    ack = future.result(SECONDS)
    assert ack.queue_wait_us >= 50_000
    assert 0 < ack.storage_time_us
    stats = world.store.stats()
    assert sum(count for _, count in stats.queue_wait_us) == stats.members
    assert sum(count for _, count in stats.storage_time_us) == stats.groups


# --- what is known of an import's source -----------------------------------------------------


def _source(length: int, trajectory_id: str = "t") -> ImportSource:
    return ImportSource(
        source_id="s",
        importer="log",
        version=1,
        trajectory_id=trajectory_id,
        name="a.jsonl",
        reading_digest=f"sha256:{length:064x}",
        reading_length=length,
        segments=(),
    )


def test_an_import_decided_on_another_reading_of_its_source_looks_again(world: SqliteWorld) -> None:
    """R38: also where the trajectory's own head did not move, and within one group."""
    world.imports(note("a"), source=_source(10), source_length=0, creates="imported").result(
        SECONDS
    )
    late = world.imports(note("b"), source=_source(12), source_length=0)
    assert isinstance(world.refused(late), HeadMoved)
    with world.one_group():
        sub = world.imports(
            note("c", trajectory_id="sub"),
            trajectory_id="sub",
            source=_source(15),
            source_length=10,
            creates="imported",
        )
        late = world.imports(note("b"), expected_head=1, source=_source(20), source_length=10)
    assert sub.result(SECONDS).head == 1
    assert isinstance(world.refused(late), HeadMoved)
    assert world.store.import_source(TENANT, "s") == _source(15)
    assert world.imports(note("b"), source=_source(20), source_length=15).result(SECONDS).head == 2
    assert world.store.import_source(TENANT, "s") == _source(20)


def test_an_import_that_was_cut_otherwise_by_another_looks_again_before_it_is_a_conflict(
    world: SqliteWorld,
) -> None:
    world.imports(note("a", "one"), expected_head=0, creates="imported").result(SECONDS)
    late = world.imports(note("a", "two"), expected_head=0)
    assert isinstance(world.refused(late), HeadMoved)
    assert world.store.ledger(TENANT) == []
    again = world.imports(note("a", "two"), expected_head=1)
    assert isinstance(world.refused(again), IntegrityConflict)


def test_only_an_import_states_its_source(world: SqliteWorld) -> None:
    world.owned()
    command = AppendCommand(
        tenant=TENANT,
        trajectory_id="t",
        issuer="worker",
        door="append",
        request_id="r",
        events=(note("x"),),
        owner_epoch=1,
        worker="w1",
        source=_source(1),
    )
    with pytest.raises(InvalidInput, match="only an import"):
        world.store.append(command).result(SECONDS)
