"""eventsourcing on SQLite: the aggregate at version 5000 of 10,000 events of 0.9 KB.

Run by the Python of its own environment with the folder and the runs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from eventsourcing.application import Application  # type: ignore[import-not-found, unused-ignore]
from eventsourcing.domain import Aggregate, event  # type: ignore[import-not-found, unused-ignore]

FOLDER, RUNS = Path(sys.argv[1]), int(sys.argv[2])
EVENTS, VERSION = 10_000, 5_000
BODY = "e" * 900


class Run(Aggregate):  # type: ignore[misc, unused-ignore]
    """One trajectory as an aggregate."""

    @event("Started")  # type: ignore[untyped-decorator, unused-ignore]
    def __init__(self) -> None:
        self.steps = 0
        self.length = 0

    @event("Stepped")  # type: ignore[untyped-decorator, unused-ignore]
    def step(self, kind: str, body: str) -> None:
        """One event."""
        self.steps += 1
        self.length += len(body)


application = Application(
    env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(FOLDER / "es.sqlite")}
)
aggregate = Run()
for number in range(EVENTS - 1):
    aggregate.step("tool", BODY)
    if number % 100 == 99:
        application.save(aggregate)
application.save(aggregate)
taken = []
for _ in range(RUNS):
    started = time.perf_counter()
    found = application.repository.get(aggregate.id, version=VERSION)
    taken.append((time.perf_counter() - started) * 1e3)
    assert found.version == VERSION
print(
    json.dumps({"peer": "eventsourcing version 5000 of 10k", "unit": "ms", "runs": taken}),
    flush=True,
)
application.close()
