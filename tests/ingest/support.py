"""What the import tests share."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from core.events import registry
from core.events.envelope import Event
from ingest.base import Report
from ingest.demo import DATA
from ingest.pipeline import import_path, import_stream
from store.open import Opened

TENANT = "local"


def fixture(name: str) -> Path:
    """A committed trajectory by its short name."""
    return DATA / f"{name}.traj.json"


def document(name: str) -> dict[str, Any]:
    """The JSON of a committed trajectory."""
    value: dict[str, Any] = json.loads(fixture(name).read_text())
    return value


def dumped(value: object) -> bytes:
    """Bytes as mini-swe-agent writes them."""
    return json.dumps(value, indent=2).encode()


def take(opened: Opened, path: Path | str, **more: Any) -> Report:
    """Import one file by its path."""
    (report,) = import_path(opened.store, opened.blobs, TENANT, path, **more)
    return report


def give(opened: Opened, data: bytes, name: str = "run.traj.json") -> Report:
    """Import bytes as an upload."""
    return import_stream(opened.store, opened.blobs, TENANT, name, io.BytesIO(data))


def log_of(opened: Opened, trajectory_id: str) -> list[Event]:
    """All events of a short trajectory."""
    return opened.store.events(TENANT, trajectory_id, limit=10_000)


def typed(opened: Opened, event: Event) -> Any:
    """The payload of an event, from wherever it lies."""
    data = event.payload
    if data is None:
        assert event.payload_ref is not None
        data = opened.blobs.read(TENANT, event.payload_ref.digest)
    return registry.decode(event.type, event.schema_version, data)


def of_type(opened: Opened, trajectory_id: str, type_: str) -> list[Any]:
    """The payloads of one family, in order."""
    return [typed(opened, event) for event in log_of(opened, trajectory_id) if event.type == type_]


def families(opened: Opened, trajectory_id: str) -> Counter[str]:
    """How many events of each family."""
    return Counter(event.type for event in log_of(opened, trajectory_id))


def cost_nano(opened: Opened, trajectory_id: str) -> int | None:
    """Sum of the recorded cost; None if none is recorded."""
    settled = of_type(opened, trajectory_id, "BudgetSettled")
    amounts = [one.amount for payload in settled for one in payload.actual]
    return sum(amounts) if amounts else None


def everything(opened: Opened) -> list[tuple[str, int, bytes]]:
    """What the store holds: each trajectory with its head and chain."""
    return [
        (head.trajectory_id, head.sequence_number, head.chain)
        for head in opened.store.heads(TENANT)
    ]
