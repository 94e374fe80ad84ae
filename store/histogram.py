"""Fixed-bound histograms of the writer; one writer thread adds, anyone reads a snapshot."""

from __future__ import annotations

from bisect import bisect_left

#: Microseconds: from a flush of a fast disk to the acknowledgement's own limit.
TIMES_US: tuple[float, ...] = (
    100, 200, 400, 800, 1_500, 3_000, 6_000, 12_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000, 30_000_000, float("inf"),
)  # fmt: skip
MEMBERS: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, float("inf"))


class Histogram:
    """Counts per upper bound, and the sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * len(bounds)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def snapshot(self) -> tuple[tuple[float, int], ...]:
        """(upper bound, count) pairs, not cumulative."""
        return tuple(zip(self.bounds, self.counts, strict=True))
