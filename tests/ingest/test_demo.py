"""The demo's data: seeded once, found again, completed after an interruption."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.events import registry
from core.events.admission import BudgetSettled
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.tool import ToolIntent, ToolResult
from core.rules.grades import grade
from core.rules.prices import day_of, derive, table_of
from ingest.demo import DATA, GENERATED_ID, SEARCH, Clock, committed, generate, now, seed
from ingest.demo_copy import COPY_ID, install_copy
from runtime.indexer import Indexer
from runtime.time_travel import record_at
from store.open import Opened, open_store
from store.search import SqliteTextIndex
from tests.ingest.support import TENANT, everything

EVENTS = 6_000
ENDS = 1_795_165_200_000_000


def test_seeding_twice_finds_its_data(opened: Opened) -> None:
    first = seed(opened.store, opened.blobs, events=2_000)
    before = everything(opened)
    second = seed(opened.store, opened.blobs, events=2_000)
    assert (first.fresh, second.fresh) == (True, False)
    assert everything(opened) == before
    assert first.imported == second.imported
    assert len(set(first.imported)) == len(first.imported) >= len(committed()) >= 10
    assert opened.store.head(TENANT, GENERATED_ID).sequence_number == 2_000


def test_it_shows_sub_agents_a_search_notes_tags_and_a_derived_cost(opened: Opened) -> None:
    seeded = seed(opened.store, opened.blobs, events=1_000)
    seed(opened.store, opened.blobs, events=1_000)
    acts = opened.store.acts(TENANT)
    assert [one.kind for one in acts] == ["note", "tag", "note", "tag"]
    assert [one.boundary is not None for one in acts] == [True, False, True, False]
    parts = (opened.store, opened.blobs, opened.projections)
    records = {
        name: record_at(*parts, TENANT, name, None).require_reconstructed()
        for name in seeded.trajectories
    }
    parents = [one.scope.parent_trajectory_id for one in records.values()]
    assert {one for one in parents if one} == {acts[0].trajectory_id, acts[2].trajectory_id}
    assert {"Claude Code", "Codex", "SWE-agent", "mini-swe-agent"} <= {
        re.split(r" [\dv]", one.scope.agent or "")[0] for one in records.values()
    }
    claude = records[acts[0].trajectory_id or ""]
    began = opened.store.events(TENANT, claude.trajectory_id, limit=1)[0].occurred_at
    cost = derive(claude.calls.tokens_by_model, claude.calls.tokens, day_of(began), table_of(()))
    assert "usd" not in claude.budget.accounts
    assert cost.nano_usd
    index = SqliteTextIndex(opened.data / "search.db", opened.incarnation, heads=lambda *_: [])
    try:
        Indexer(opened.store, opened.blobs, index).catch_up()
        found = {hit.trajectory_id for hit in index.hits(TENANT, SEARCH)}
        assert len(found & set(records)) >= 3
        assert any(
            name in found and one.scope.parent_trajectory_id in found
            for name, one in records.items()
        )
    finally:
        index.close()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The generated trajectory, written under its own clock, opened again under the real one."""
    data: Path = tmp_path_factory.mktemp("simulated")
    clock = Clock()
    with open_store(data, domain="process", clock=clock) as opened:
        assert generate(opened.store, TENANT, events=EVENTS, clock=clock)
    with open_store(data) as opened:
        yield opened


def test_the_generated_log_has_every_family_its_runtime_may_report(simulated: Opened) -> None:
    store = simulated.store
    head = store.head(TENANT, GENERATED_ID)
    assert (head.sequence_number, head.owner_epoch, head.standing) == (EVENTS, 7, "reported")
    count: Counter[str] = Counter(
        event.type for event in store.fold_rows(TENANT, GENERATED_ID, after=0, upto=EVENTS)
    )
    assert {
        "TaskStarted",
        "OwnershipGranted",
        "ContextBuilt",
        "ModelReplied",
        "Authorized",
        "BudgetReserved",
        "BudgetSettled",
        "ToolIntent",
        "ToolResult",
        "ControlChanged",
        "PlanChanged",
        "Compacted",
        "RuntimeInput",
    } <= set(count)
    view = record_at(store, simulated.blobs, simulated.projections, TENANT, GENERATED_ID, EVENTS)
    record = view.require_reconstructed()
    assert record.plan.revision > 2
    assert record.ownership.grants == 7
    assert record.context.compactions > 1
    assert not [one for _, one in store.verify(TENANT, GENERATED_ID) if one is not None]


def test_the_store_received_each_event_when_it_happened(simulated: Opened) -> None:
    last = 0
    for event in simulated.store.fold_rows(TENANT, GENERATED_ID, after=0, upto=EVENTS):
        if event.occurred_at is not None:
            assert 0 < event.recorded_at - event.occurred_at < 60_000_000, event.event_id
            assert last <= event.occurred_at
            last = event.occurred_at
    assert 0 < now() - last < 600_000_000


def test_outputs_codes_and_durations_fit_their_commands(simulated: Opened) -> None:
    store = simulated.store
    sent: dict[str, tuple[str, int]] = {}
    results = compute = 0
    first = last = 0
    for event in store.events(TENANT, GENERATED_ID, limit=EVENTS):
        assert event.payload is not None
        payload = registry.decode(event.type, event.schema_version, event.payload)
        last = event.recorded_at
        first = first or last
        name = event.operation_id or ""
        if isinstance(payload, ToolIntent):
            sent[name] = (payload.arguments["command"], event.recorded_at)
        elif isinstance(payload, ToolResult) and payload.exit_code is not None:
            assert event.occurred_at is not None
            results += 1
            line, at = sent[name]
            assert (payload.exit_code == 0) == (payload.status == "succeeded")
            text = payload.observation or ""
            assert ("FAILED" in text or " failed" in text or "fatal" in text) == (
                payload.status == "failed"
            ), (line, text)
            assert ("Ran " in text) == ("unittest" in line)
            sent[name] = (line, event.occurred_at - at)
        elif isinstance(payload, BudgetSettled) and payload.meter == "runtime":
            used = payload.actual[0].amount
            compute += used * 1000
            if payload.evidence == "wall time of the command":
                assert 0 < used * 1000 <= sent[name][1] < used * 1000 + 50_000
    assert results > 500
    assert 0 < compute < last - first


def test_a_prompt_is_what_was_cached_and_what_is_new(simulated: Opened) -> None:
    prompt = calls = 0
    for event in simulated.store.events(TENANT, GENERATED_ID, limit=EVENTS):
        assert event.payload is not None
        payload = registry.decode(event.type, event.schema_version, event.payload)
        if isinstance(payload, ContextBuilt) and payload.kept == 0:
            prompt = 0
        elif isinstance(payload, ModelReplied) and payload.usage is not None:
            usage = payload.usage
            assert usage.input is not None and usage.cache_write is not None
            assert usage.cache_read is not None
            # A call whose reply was lost put its prompt in the cache all the same.
            assert usage.cache_read == prompt or (payload.retry_of and usage.cache_read > prompt)
            prompt = usage.cache_read + usage.cache_write + usage.input
            assert prompt < 60_000
            calls += 1
    assert calls > 200


def test_what_is_unsettled_says_why(simulated: Opened) -> None:
    parts = (simulated.store, simulated.blobs, simulated.projections)
    for boundary in (*range(500, EVENTS, 500), EVENTS):
        record = record_at(*parts, TENANT, GENERATED_ID, boundary).require_reconstructed()
        grades = Counter(
            grade(one, record, standing="reported", at_head=False).word
            for one in record.operations.open.values()
            if one.unsettled
        )
        assert set(grades) <= {"in_flight", "in_doubt"}
        assert grades.total() <= 20
    # The loose ends, a push of each lost worker, and the last command.
    assert grades["in_flight"] == 1
    assert 8 <= grades["in_doubt"] <= 11
    assert len(record.approvals.open) == 2
    assert record.budget.accounts["usd"].outstanding == 0


def test_the_copy_has_what_only_a_service_may_write(opened: Opened) -> None:
    assert install_copy(opened.store, TENANT, began=ENDS)
    assert not install_copy(opened.store, TENANT, began=ENDS)
    head = opened.store.head(TENANT, COPY_ID)
    assert (head.standing, head.owner_epoch) == ("replica", 3)
    events = opened.store.events(TENANT, COPY_ID)
    shown = {event.type for event in events}
    assert set(registry.FAMILIES) - shown == {"Forked", "Unparsed"}
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, COPY_ID, None)
    record = view.require_reconstructed()
    assert record.recovery.resumes == 2
    assert record.recovery.abandoned_from is not None
    assert record.progress.step < record.progress.high_water + 10
    assert record.progress.executed == 45
    assert record.operations.unsettled == 1
    assert dict(record.approvals.by_decision) == {"granted": 1, "refused": 1}
    assert record.control.state == "COMPLETED"
    assert not [one for _, one in opened.store.verify(TENANT, COPY_ID) if one is not None]


def test_an_interrupted_seeding_is_completed(opened: Opened, other: Opened) -> None:
    class Stopped(Exception):
        pass

    def stop(text: str) -> None:
        if "owner epoch 2" in text:
            raise Stopped

    try:
        generate(opened.store, TENANT, events=2_000, ends=ENDS, note=stop)
    except Stopped:
        pass
    half = opened.store.head(TENANT, GENERATED_ID).sequence_number
    assert 0 < half < 2_000
    assert generate(opened.store, TENANT, events=2_000)
    generate(other.store, TENANT, events=2_000, ends=ENDS)

    def digests(store: Opened) -> list[bytes]:
        events = store.store.events(TENANT, GENERATED_ID, limit=2_000)
        return [event.digest for event in events if event.type != "OwnershipGranted"]

    assert digests(opened) == digests(other)
    assert len(digests(opened)) == 1_993


def test_the_committed_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 2 * 1024 * 1024
