"""LangGraph's SqliteSaver: put (4 KB state) and put_writes (1 KB) a second, 64 threads.

Its acknowledgement: two commits a step (WAL, synchronous FULL). Run by the Python of its own
environment with the folder, the number of threads, the seconds and the runs.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
import uuid
from pathlib import Path

from langgraph.checkpoint.base import (  # type: ignore[import-not-found, unused-ignore]
    empty_checkpoint,
)
from langgraph.checkpoint.base.id import uuid6  # type: ignore[import-not-found, unused-ignore]
from langgraph.checkpoint.sqlite import (  # type: ignore[import-not-found, unused-ignore]
    SqliteSaver,
)

FOLDER, THREADS, SECONDS, RUNS = (
    Path(sys.argv[1]),
    int(sys.argv[2]),
    float(sys.argv[3]),
    int(sys.argv[4]),
)
STATE, WRITE = "state text " * 372, "state text " * 93


def run(number: int) -> float:
    """Steps a second of one fresh database."""
    path = FOLDER / f"langgraph{number}.sqlite"
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    done = [0] * THREADS
    stop = time.perf_counter() + SECONDS

    def work(thread: int) -> None:
        config = {"configurable": {"thread_id": f"t{thread}", "checkpoint_ns": ""}}
        while time.perf_counter() < stop:
            step = done[thread]
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6(clock_seq=step & 0x3FFF))
            checkpoint["channel_values"] = {"n": step, "note": f"{STATE}{step}"}
            versions = {"n": f"{step:032}.0", "note": f"{step:032}.0"}
            checkpoint["channel_versions"] = versions
            metadata = {"source": "loop", "step": step, "parents": {}}
            config = saver.put(config, checkpoint, metadata, versions)
            saver.put_writes(config, [("note", WRITE)], str(uuid.uuid4()))
            done[thread] += 1

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(done) / (time.perf_counter() - started)
    connection.close()
    return rate


rates = [run(number) for number in range(RUNS)]
print(
    json.dumps({"peer": "langgraph put+put_writes", "unit": "steps/s", "runs": rates}), flush=True
)
