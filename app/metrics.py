"""Counters for Prometheus: requests, and what the store counts of its writer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from runtime.service import Runtime
from store.ports import GroupStats

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(slots=True)
class _Kind:
    """What was counted of one route class. Only the event loop's thread counts."""

    answers: dict[int, int] = field(default_factory=dict)
    """Status -> how many."""
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0


_kinds: dict[str, _Kind] = {}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = ("open", "full", "poisoned", "closed")


def observe(kind: str, status: int, seconds: float) -> None:
    """Count one answer."""
    counted = _kinds.get(kind)
    if counted is None:
        counted = _kinds[kind] = _Kind()
    counted.answers[status] = counted.answers.get(status, 0) + 1
    counted.buckets[bisect_left(_BOUNDS, seconds)] += 1
    counted.seconds += seconds


@dataclass(slots=True)
class _Connections:
    """What became of connections; only the event loop's thread counts."""

    dropped: int = 0
    turned_away: int = 0


_connections = _Connections()


def count_dropped() -> None:
    """A client that took nothing of what waited for it was dropped."""
    _connections.dropped += 1


def count_turned_away() -> None:
    """A connection beyond the bound was answered 503, or closed."""
    _connections.turned_away += 1


#: Code -> writes one application refused before the store saw them; the store counts its own.
Refused = dict[str, int]


def refused_writes(early: Refused, stats: GroupStats) -> dict[str, int]:
    """Every write refused since start, by code: before the store, and by it."""
    codes = {*early, *stats.refused}
    return {code: early.get(code, 0) + stats.refused.get(code, 0) for code in sorted(codes)}


def exposition(runtime: Runtime, early: Refused) -> bytes:
    """The text of /metrics: this process's requests, then the store's counters as of now."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Requests(early))
    registry.register(_Store(runtime))
    return generate_latest(registry)


class _Requests(Collector):
    def __init__(self, early: Refused) -> None:
        self._early = early

    def collect(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "strandline_http_answers",
            "HTTP answers by route class and status",
            labels=("kind", "status"),
        )
        seconds = HistogramMetricFamily(
            "strandline_http_seconds",
            "Seconds from request to end of answer, by route class",
            labels=("kind",),
        )
        for kind, counted in sorted(_kinds.items()):
            for status, count in sorted(counted.answers.items()):
                answers.add_metric((kind, str(status)), count)
            seconds.add_metric((kind,), _cumulative(counted.buckets), counted.seconds)
        refused = CounterMetricFamily(
            "strandline_http_refused_writes",
            "Writes refused before they reached the store, by code",
            labels=("code",),
        )
        for code, count in sorted(self._early.items()):
            refused.add_metric((code,), count)
        yield answers
        yield seconds
        yield refused
        for name, text, value in (
            ("dropped", "Connections dropped because nothing was read", _connections.dropped),
            ("turned_away", "Connections beyond the bound", _connections.turned_away),
        ):
            yield CounterMetricFamily(f"strandline_http_connections_{name}", text, value=value)


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    names = [*map(str, _BOUNDS), "+Inf"]
    return list(zip(names, map(float, accumulate(buckets)), strict=True))


class _Store(Collector):
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def collect(self) -> Iterator[Metric]:
        stats, facts = self.runtime.stats(), self.runtime.facts()
        for name, text, value in (
            ("groups", "Group commits", stats.groups),
            ("members", "Requests in group commits", stats.members),
            ("events", "Events committed", stats.events),
        ):
            yield CounterMetricFamily(f"strandline_store_{name}", text, value=value)
        refused = CounterMetricFamily(
            "strandline_store_refused", "Writes the store refused, by code", labels=("code",)
        )
        for code, count in stats.refused.items():
            refused.add_metric((code,), count)
        yield refused
        yield from _histograms(stats)
        blobs, blob_bytes = self.runtime.blob_totals()
        for name, text, value in (
            ("queue_members", "Requests waiting for the writer", stats.queue_members),
            ("queue_bytes", "Bytes waiting for the writer", stats.queue_bytes),
            ("size_bytes", "Bytes of the log file", facts.size_bytes),
            ("free_bytes", "Bytes free where the log lies", facts.free_bytes),
            ("blobs", "Stored blobs", blobs),
            ("blob_bytes", "Bytes of stored blobs", blob_bytes),
            ("domain_verified", "Whether the declared failure domain holds", int(facts.verified)),
        ):
            yield GaugeMetricFamily(f"strandline_store_{name}", text, value=value)
        state = GaugeMetricFamily("strandline_store_state", "Writer state", labels=("state",))
        for name in _STATES:
            state.add_metric((name,), int(stats.state == name))
        yield state


def _histograms(stats: GroupStats) -> Iterator[Metric]:
    for name, text, buckets, scale in (
        ("queue_wait_seconds", "From arrival to the writer", stats.queue_wait_us, 1e-6),
        ("storage_seconds", "From the writer to the barrier", stats.storage_time_us, 1e-6),
        ("group_members_size", "Requests in one group", stats.group_members, 1.0),
    ):
        cumulative, total = 0, 0.0
        rows: list[tuple[str, float]] = []
        for bound, count in buckets:
            cumulative += count
            finite = bound != float("inf")
            total += count * (bound if finite else 0.0) * scale
            rows.append((str(bound * scale) if finite else "+Inf", float(cumulative)))
        if not rows or rows[-1][0] != "+Inf":
            rows.append(("+Inf", float(cumulative)))
        # The sum is bounded by the buckets' upper ends; the store keeps no exact one.
        yield HistogramMetricFamily(f"strandline_store_{name}", text, buckets=rows, sum_value=total)
