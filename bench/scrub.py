"""T9: the record at a random boundary through the store API, from 1,000 to 1,000,000 events.

Reads only. The trajectories are written through `append` in batches and made durable first.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from bench import probes
from bench.measure import at_least, at_most, median, percentile, result, rounded, sandwich, say
from bench.options import Options
from bench.peers import run as peers
from bench.product import Product, product

BOUNDARIES = 400


def scrub(made: Product, trajectory_id: str, events: int, seed: int) -> tuple[float, float]:
    """(p50, p99) in ms of `record_at` at random boundaries."""
    chosen = random.Random(seed)
    taken = []
    for _ in range(BOUNDARIES):
        boundary = chosen.randint(1, events)
        started = time.perf_counter()
        view = made.record_at(trajectory_id, boundary)
        taken.append((time.perf_counter() - started) * 1e3)
        assert view.boundary == boundary
    return percentile(taken, 0.5), percentile(taken, 0.99)


def t9(options: Options) -> list[dict[str, object]]:
    """Every size beside the floor of the same size; growth from the smallest to the largest."""
    with (
        tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder,
        product(Path(folder)) as made,
    ):
        floor = probes.ScrubFloor(Path(folder))
        lines, middles, tails = [], {}, {}
        for events in options.sizes:
            say(f"writing {events:,} events")
            started = time.perf_counter()
            name = made.filled(events)
            filled_seconds = time.perf_counter() - started
            floor.grow(events)
            seeds = iter(range(1, 10_000))
            done = sandwich(
                lambda: floor.scrub(BOUNDARIES, next(seeds)),  # noqa: B023
                lambda: scrub(made, name, events, next(seeds)),  # noqa: B023
                runs=options.runs,
                key=lambda probe: probe[0],
            )
            middles[events] = median([run[0] for run in done.product])
            tails[events] = median([run[1] for run in done.product])
            ratio = median(done.ratios(lambda run: run[0], lambda probe: probe[0]))
            lines.append(
                result(
                    "T9",
                    f"record at a random boundary of {events:,} events, store API",
                    unit="ms p50",
                    product=[run[0] for run in done.product],
                    durable="reads only",
                    probes={"floor2_scrub p50": done.probes(lambda probe: probe[0])},
                    ratios={"p50 of the floor's": at_most(ratio, 2)},
                    p99_ms=rounded(tails[events]),
                    events=events,
                    append_events_per_s=rounded(events / filled_seconds),
                    void=done.void,
                )
            )
        floor.close()
    lines.append(_growth(options, middles, tails))
    return lines


def _growth(
    options: Options, middles: dict[int, float], tails: dict[int, float]
) -> dict[str, object]:
    smallest, largest = min(tails), max(tails)
    say("peer: eventsourcing")
    peer = (
        peers.measured("eventsourcing", [options.runs])
        if options.peers
        else peers.recorded("eventsourcing")
    )
    beside = min((size for size in middles if size >= 10_000), default=largest)
    return result(
        "T9",
        f"growth from {smallest:,} to {largest:,} events, and the peer at version 5000 of 10,000",
        unit="ms p50",
        product=[middles[beside]],
        durable="reads only",
        peers={"eventsourcing": peer},
        ratios={
            "p99 at the largest of the smallest": at_most(tails[largest] / tails[smallest], 2),
            "times faster than eventsourcing": at_least(
                float(str(peer["median"])) / middles[beside], 100
            ),
        },
        p99_ms={str(size): rounded(value) for size, value in tails.items()},
    )
