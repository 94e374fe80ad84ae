"""DBOS on SQLite: durable steps a second, 64 concurrent workflows of sequential 1 KB steps.

Its acknowledgement: each step's result is committed (rollback journal, synchronous FULL) before
the next begins. Run by the Python of its own environment with the folder and the scale.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]

FOLDER, WORKFLOWS, STEPS, RUNS = Path(sys.argv[1]), *map(int, sys.argv[2:5])
RESULT = "r" * 1000

os.chdir(FOLDER)
DBOS(
    config={
        "name": "bench",
        "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite",
        "log_level": "ERROR",
        "application_version": "1",
        "executor_id": "local",
    }
)


@DBOS.step()  # type: ignore[untyped-decorator, unused-ignore]
def step(number: int) -> str:
    """One durable step."""
    return f"{number}:{RESULT}"


@DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]
def steps(count: int) -> int:
    """Sequential steps."""
    for number in range(count):
        step(number)
    return count


DBOS.launch()
rates = []
for _ in range(RUNS):
    started = time.perf_counter()
    handles = [DBOS.start_workflow(steps, STEPS) for _ in range(WORKFLOWS)]
    for handle in handles:
        handle.get_result()
    rates.append(WORKFLOWS * STEPS / (time.perf_counter() - started))
print(json.dumps({"peer": "dbos sync steps", "unit": "steps/s", "runs": rates}), flush=True)
DBOS.destroy()
