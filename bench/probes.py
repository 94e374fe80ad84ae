"""What the machine can do at best, with the product's own driver: the floors of each goal.

None of these validates, digests, fences or deduplicates anything; what they leave out is what the
product must do in the distance between its figure and theirs.
"""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson

from bench.measure import percentile
from store import sqlite_driver

BODY = os.urandom(512).hex().encode()


def _fresh(path: Path) -> Any:
    """A database as the product opens it: WAL, synchronous FULL."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    database = sqlite_driver.module.connect(
        str(path), isolation_level=None, check_same_thread=False
    )
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    return database


@dataclass
class GroupCommit:
    """Durable appends a second with one writer thread, and members of a group."""

    rate: float
    mean_group: float
    p50_ms: float
    p99_ms: float


def sqlite_rowid_group_commit(folder: Path, submitters: int, seconds: float) -> GroupCommit:
    """`submitters` threads each wait for their own 1 KB row; one thread commits what is queued."""
    with closing(_fresh(folder / "probe.db")) as database:
        database.execute(
            "CREATE TABLE ev(tid INTEGER, seq INTEGER, kind TEXT, at REAL, body BLOB, "
            "UNIQUE(tid, seq))"
        )
        waiting: queue.SimpleQueue[tuple[tuple[object, ...], threading.Lock] | None] = (
            queue.SimpleQueue()
        )
        groups: list[int] = []
        writer = threading.Thread(target=_commit_groups, args=(database, waiting, groups))
        writer.start()
        latencies: list[list[float]] = [[] for _ in range(submitters)]
        stop = time.perf_counter() + seconds

        def submit(number: int) -> None:
            done = threading.Lock()
            done.acquire()
            sequence = 0
            while (started := time.perf_counter()) < stop:
                waiting.put(((number, sequence, "step", 0.0, BODY), done))
                done.acquire()
                latencies[number].append(time.perf_counter() - started)
                sequence += 1

        _join([threading.Thread(target=submit, args=(n,)) for n in range(submitters)])
        waiting.put(None)
        writer.join()
    every = [latency for some in latencies for latency in some]
    return GroupCommit(
        rate=len(every) / seconds,
        mean_group=sum(groups) / max(1, len(groups)),
        p50_ms=percentile(every, 0.5) * 1e3,
        p99_ms=percentile(every, 0.99) * 1e3,
    )


def sqlite_rowid_batches(folder: Path, batch: int, seconds: float) -> float:
    """Rows of 1 KB a second, `batch` in each durable transaction, one connection."""
    with closing(_fresh(folder / "rows.db")) as database:
        database.execute(
            "CREATE TABLE ev(tid INTEGER, seq INTEGER, kind TEXT, at REAL, body BLOB, "
            "UNIQUE(tid, seq))"
        )
        sequence = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            rows = [(1, sequence + number, "step", 0.0, BODY) for number in range(batch)]
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO ev VALUES(?,?,?,?,?)", rows)
            database.execute("COMMIT")
            sequence += batch
        return sequence / (time.perf_counter() - started)


def import_floor(folder: Path, events: int) -> float:
    """Events a second of a history as bare rows: decoded, folded, a snapshot each 256."""
    floor = ScrubFloor(folder)
    started = time.perf_counter()
    floor.grow(events)
    taken = time.perf_counter() - started
    floor.close()
    return events / taken


def _commit_groups(database: Any, waiting: Any, groups: list[int]) -> None:
    last = False
    while not last:
        members = [waiting.get()]
        try:
            while len(members) < 1024:
                members.append(waiting.get_nowait())
        except queue.Empty:
            pass
        last = None in members
        members = [member for member in members if member is not None]
        if not members:
            continue
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO ev VALUES(?,?,?,?,?)", [row for row, _ in members])
        database.execute("COMMIT")
        groups.append(len(members))
        for _, done in members:
            done.release()


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Sync:
    """Latency of one append and one fdatasync."""

    p50_ms: float
    p99_ms: float


def fdatasync_growing(folder: Path, seconds: float) -> Sync:
    """512 bytes appended to a growing file, each made durable."""
    path = folder / "probe.log"
    latencies = []
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
    try:
        stop = time.perf_counter() + seconds
        while (started := time.perf_counter()) < stop:
            os.write(descriptor, BODY[:512])
            os.fdatasync(descriptor)
            latencies.append((time.perf_counter() - started) * 1e3)
    finally:
        os.close(descriptor)
        path.unlink()
    return Sync(percentile(latencies, 0.5), percentile(latencies, 0.99))


class _Row(msgspec.Struct):
    seq: int
    kind: str
    payload: dict[str, Any]


class ScrubFloor:
    """One trajectory as bare rows with a snapshot each 256: nearest snapshot, tail, fold."""

    EVERY = 256

    def __init__(self, folder: Path) -> None:
        self._path = folder / "floor.db"
        self._database = _fresh(self._path)
        self._database.execute("PRAGMA cache_size=-65536")
        self._database.execute("CREATE TABLE ev(id INTEGER PRIMARY KEY, kind TEXT, body BLOB)")
        self._database.execute("CREATE TABLE snap(id INTEGER PRIMARY KEY, body BLOB)")
        self._decoder = msgspec.json.Decoder(_Row)
        self._events = 0

    def grow(self, events: int) -> None:
        """Append rows up to `events`."""
        state: dict[str, Any] = self._at(self._events) if self._events else self._empty()
        while self._events < events:
            upto = min(events, self._events + 1000)
            rows, snaps = [], []
            for sequence in range(self._events + 1, upto + 1):
                body = orjson.dumps(
                    {
                        "seq": sequence,
                        "kind": ("model", "tool")[sequence & 1],
                        "payload": {
                            "tool": f"t{sequence % 9}",
                            "out": f"output line {sequence:07d} " * 40,
                            "usage": {"in": sequence % 500, "out": sequence % 90},
                        },
                    }
                )
                rows.append((sequence, "step", body))
                self._fold(state, self._decoder.decode(body))
                if sequence % self.EVERY == 0:
                    snaps.append((sequence, orjson.dumps(state)))
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT INTO ev VALUES(?,?,?)", rows)
            self._database.executemany("INSERT INTO snap VALUES(?,?)", snaps)
            self._database.execute("COMMIT")
            self._events = upto
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def scrub(self, count: int, seed: int) -> tuple[float, float]:
        """(p50, p99) in ms of the state at `count` random boundaries."""
        chosen = random.Random(seed)
        taken = []
        for _ in range(count):
            boundary = chosen.randint(1, self._events)
            started = time.perf_counter()
            state = self._at(boundary)
            taken.append((time.perf_counter() - started) * 1e3)
            assert state["n"] == boundary
        return percentile(taken, 0.5), percentile(taken, 0.99)

    def close(self) -> None:
        """Remove the database."""
        self._database.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    @staticmethod
    def _empty() -> dict[str, Any]:
        return {"n": 0, "out": 0, "tools": {}, "last": []}

    @staticmethod
    def _fold(state: dict[str, Any], row: _Row) -> None:
        state["n"] += 1
        state["out"] += row.payload["usage"]["out"]
        tool = row.payload["tool"]
        state["tools"][tool] = state["tools"].get(tool, 0) + 1
        state["last"].append(row.seq)
        del state["last"][:-50]

    def _at(self, boundary: int) -> dict[str, Any]:
        found = self._database.execute(
            "SELECT id, body FROM snap WHERE id<=? ORDER BY id DESC LIMIT 1", (boundary,)
        ).fetchone()
        covered, state = (found[0], orjson.loads(found[1])) if found else (0, self._empty())
        for (body,) in self._database.execute(
            "SELECT body FROM ev WHERE id>? AND id<=? ORDER BY id", (covered, boundary)
        ):
            self._fold(state, self._decoder.decode(body))
        return state
