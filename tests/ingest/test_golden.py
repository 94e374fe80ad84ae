"""Three boundaries of a fixture fold to the records written by hand beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.record.record import TrajectoryRecord
from runtime.time_travel import record_at
from store.open import Opened
from tests.ingest.support import TENANT, fixture, take

GOLDEN = Path(__file__).resolve().parent.parent / "golden/imports/mini_swe_agent"
#: Not written by hand: digests, ids derived from digests, and the store's own clock.
DERIVED = {"manifest_digest", "arguments_digest", "event_id", "last_recorded_at", "trajectory_id"}


def without_derived(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_derived(item) for key, item in value.items() if key not in DERIVED}
    if isinstance(value, list | tuple):
        return [without_derived(item) for item in value]
    return value


def plain(record: dict[str, Any]) -> Any:
    """A record with its defaults filled in and without what is not written by hand."""
    filled = json.loads(json.dumps(record))
    filled.setdefault("trajectory_id", "any")
    for operation in filled.get("operations", {}).get("open", {}).values():
        for attempt in operation["attempts"]:
            for evidence in attempt.get("evidence", []):
                evidence.setdefault("event_id", "any")
    value = msgspec.to_builtins(msgspec.convert(filled, TrajectoryRecord, strict=False))
    value.pop("archive")
    return without_derived(value)


@pytest.mark.parametrize("boundary", [6, 14, 27])
def test_a_boundary_folds_to_the_record_written_by_hand(opened: Opened, boundary: int) -> None:
    expected = json.loads((GOLDEN / f"command-timeout.at-{boundary}.json").read_text())
    closed = expected.pop("closed")
    report = take(opened, fixture("command-timeout"))
    view = record_at(
        opened.store,
        opened.blobs,
        opened.projections,
        TENANT,
        report.trajectories[0].id,
        boundary,
    )
    found = msgspec.to_builtins(view.record)
    recent = found["archive"]["recent"]
    assert {
        "operations": {key: row["outcome"] for key, row in recent.get("operations", {}).items()},
        "calls": {key: row["charge"] for key, row in recent.get("calls", {}).items()},
    } == closed
    assert plain(found) == plain(expected)
