"""T1, T4, T5: durable appends through the in-process runtime on SQLite, domain `host`.

Acknowledged means: COMMIT in WAL mode with synchronous=FULL has returned, one fsync per group.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import probes, workload
from bench.measure import at_least, at_most, median, percentile, result, rounded, sandwich, say
from bench.options import Options
from bench.peers import run as peers
from bench.product import Product, product

CONCURRENT = 64
DURABLE = "host: SQLite WAL, synchronous=FULL, one fsync per group, then the acknowledgement"


@dataclass
class Load:
    """What one run of appends showed."""

    rate: float
    p50_ms: float
    p99_ms: float
    appends: int
    groups: int
    members: int

    @property
    def mean_group(self) -> float:
        """Members of one group."""
        return self.members / max(1, self.groups)


def appends(trajectories: int, seconds: float) -> Load:
    """Each trajectory has one thread that waits for each acknowledgement; a fresh store."""
    with (
        tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder,
        product(Path(folder)) as made,
    ):
        owned = [made.reported(f"bench-{number}") for number in range(trajectories)]
        before = made.runtime.stats()
        latencies: list[list[float]] = [[] for _ in owned]
        barrier = threading.Barrier(trajectories + 1)
        stop = [0.0]

        def work(number: int) -> None:
            mine = latencies[number]
            append = owned[number].append
            barrier.wait()
            sent = 0
            while (started := time.perf_counter()) < stop[0]:
                append([workload.intent(number, sent)]).result()
                mine.append((time.perf_counter() - started) * 1e3)
                sent += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(trajectories)]
        for thread in threads:
            thread.start()
        stop[0] = time.perf_counter() + seconds
        barrier.wait()
        for thread in threads:
            thread.join()
        after = made.runtime.stats()
    every = [latency for mine in latencies for latency in mine]
    return Load(
        rate=len(every) / seconds,
        p50_ms=percentile(every, 0.5),
        p99_ms=percentile(every, 0.99),
        appends=len(every),
        groups=after.groups - before.groups,
        members=after.members - before.members,
    )


def _with_folder(probe: Callable[[Path], object]) -> object:
    with tempfile.TemporaryDirectory(prefix="strandline-probe-") as folder:
        return probe(Path(folder))


def t1(options: Options) -> list[dict[str, object]]:
    """Durable appends a second, 64 trajectories: probe, product, probe; then the peers."""
    seconds = options.seconds(3.0)
    done = sandwich(
        lambda: _with_folder(
            lambda folder: probes.sqlite_rowid_group_commit(folder, CONCURRENT, seconds)
        ),
        lambda: appends(CONCURRENT, seconds),
        runs=options.runs,
        key=lambda probe: probe.rate,
    )
    dbos, langgraph = _peers(options)
    rate = median([load.rate for load in done.product])
    probe = median(done.ratios(lambda load: load.rate, lambda floor: floor.rate))
    return [
        result(
            "T1",
            "durable appends of one 1 KB event, 64 trajectories, in-process runtime, SQLite FULL",
            unit="appends/s",
            product=[load.rate for load in done.product],
            durable=DURABLE,
            probes={"sqlite_rowid_group_commit(64)": done.probes(lambda floor: floor.rate)},
            peers={"dbos": dbos, "langgraph": langgraph},
            ratios={
                "of the probe": at_least(probe, 0.5),
                "of dbos": at_least(rate / float(str(dbos["median"])), 20),
                "of langgraph": at_least(rate / float(str(langgraph["median"])), 4),
            },
            p50_ms=rounded(median([load.p50_ms for load in done.product])),
            p99_ms=rounded(median([load.p99_ms for load in done.product])),
            mean_group=rounded(median([load.mean_group for load in done.product])),
            void=done.void,
        )
    ]


def _peers(options: Options) -> tuple[dict[str, object], dict[str, object]]:
    if not options.peers:
        return peers.recorded("dbos"), peers.recorded("langgraph")
    say("peers: dbos, langgraph")
    return (
        peers.measured("dbos", [CONCURRENT, 10 if options.quick else 25, options.runs]),
        peers.measured("langgraph", [CONCURRENT, options.seconds(3.0), options.runs]),
    )


def t4(options: Options) -> list[dict[str, object]]:
    """Acknowledgement latency of one trajectory against an fdatasync of a growing file."""
    seconds = options.seconds(3.0)
    done = sandwich(
        lambda: _with_folder(lambda folder: probes.fdatasync_growing(folder, seconds)),
        lambda: appends(1, seconds),
        runs=options.runs,
        key=lambda probe: probe.p50_ms,
    )
    middle = median(done.ratios(lambda load: load.p50_ms, lambda sync: sync.p50_ms))
    tail = median(done.ratios(lambda load: load.p99_ms, lambda sync: sync.p99_ms))
    return [
        result(
            "T4",
            "acknowledgement of one 1 KB intent, one trajectory, in-process, SQLite FULL",
            unit="ms p50",
            product=[load.p50_ms for load in done.product],
            durable=DURABLE,
            probes={
                "fdatasync(growing) p50": done.probes(lambda sync: sync.p50_ms),
                "fdatasync(growing) p99": done.probes(lambda sync: sync.p99_ms),
            },
            ratios={
                "p50 of the probe's": at_most(middle, 2),
                "p99 of the probe's": at_most(tail, 4),
            },
            p99_ms=[rounded(load.p99_ms) for load in done.product],
            void=done.void,
        )
    ]


def t5(options: Options) -> list[dict[str, object]]:
    """Group commit: commits for appends at 64 trajectories, and the rate against one."""
    seconds = options.seconds(2.0)
    done = sandwich(
        lambda: appends(1, seconds),
        lambda: appends(CONCURRENT, seconds),
        runs=options.runs,
        key=lambda load: load.rate,
    )
    ratio = median(done.ratios(lambda load: load.rate, lambda load: load.rate))
    share = median([load.appends / max(1, load.groups) for load in done.product])
    return [
        result(
            "T5",
            "group commit: 64 trajectories against one, in-process, SQLite FULL",
            unit="appends/s",
            product=[load.rate for load in done.product],
            durable=DURABLE,
            probes={"one trajectory": done.probes(lambda load: load.rate)},
            ratios={
                "appends for each commit": at_least(share, 8),
                "rate(64) of rate(1)": at_least(ratio, 4),
            },
            mean_group=rounded(median([load.mean_group for load in done.product])),
            void=done.void,
        )
    ]


def profile(seconds: float = 3.0) -> Product | None:
    """Only the product's load of T1, for a profiler to watch."""
    say(repr(appends(CONCURRENT, seconds)))
    return None
