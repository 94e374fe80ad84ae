"""The demo's data: seeded once, found again, completed after an interruption."""

from __future__ import annotations

from collections import Counter

from core.events import registry
from ingest.demo import DATA, GENERATED_ID, generate, seed
from ingest.demo_copy import COPY_ID, install_copy
from runtime.time_travel import record_at
from store.open import Opened
from tests.ingest.support import TENANT, everything

EVENTS = 12_000


def test_seeding_twice_finds_its_data(opened: Opened) -> None:
    first = seed(opened.store, opened.blobs, events=2_000)
    before = everything(opened)
    second = seed(opened.store, opened.blobs, events=2_000)
    assert (first.fresh, second.fresh) == (True, False)
    assert everything(opened) == before
    assert first.imported == second.imported
    assert len(first.imported) == len(list(DATA.glob("*.traj.json"))) == 7
    assert opened.store.head(TENANT, GENERATED_ID).sequence_number == 2_000


def test_the_generated_log_has_every_family_its_runtime_may_report(opened: Opened) -> None:
    generate(opened.store, TENANT, events=EVENTS)
    head = opened.store.head(TENANT, GENERATED_ID)
    assert (head.sequence_number, head.owner_epoch, head.standing) == (EVENTS, 5, "reported")
    count: Counter[str] = Counter(
        event.type for event in opened.store.fold_rows(TENANT, GENERATED_ID, after=0, upto=EVENTS)
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
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, GENERATED_ID, EVENTS)
    record = view.require_reconstructed()
    assert record.operations.unsettled > 0
    assert record.plan.revision > 5
    assert record.ownership.grants == 5
    assert record.context.compactions > 0
    assert not [one for _, one in opened.store.verify(TENANT, GENERATED_ID) if one is not None]


def test_the_copy_has_what_only_a_service_may_write(opened: Opened) -> None:
    assert install_copy(opened.store, TENANT)
    assert not install_copy(opened.store, TENANT)
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
        if text.startswith("generation 2"):
            raise Stopped

    try:
        generate(opened.store, TENANT, events=3_000, note=stop)
    except Stopped:
        pass
    half = opened.store.head(TENANT, GENERATED_ID).sequence_number
    assert 0 < half < 3_000
    assert generate(opened.store, TENANT, events=3_000)
    generate(other.store, TENANT, events=3_000)

    def digests(store: Opened) -> list[bytes]:
        events = store.store.events(TENANT, GENERATED_ID, limit=3_000)
        return [event.digest for event in events if event.type != "OwnershipGranted"]

    assert digests(opened) == digests(other)
    assert len(digests(opened)) == 2_995


def test_the_committed_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 2 * 1024 * 1024
