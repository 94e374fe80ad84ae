"""What the command line may change of a measurement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How much to measure."""

    runs: int = 3
    quick: bool = False
    """Short runs that only show that the scripts work; their figures mean nothing."""
    peers: bool = True
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    out: Path | None = None

    def seconds(self, full: float) -> float:
        """How long one run takes."""
        return 0.5 if self.quick else full
