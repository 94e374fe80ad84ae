"""How a figure is taken: probe, product, probe in one run, void where the machine changed between.

Absolute figures wander by a factor of two on a shared machine; a ratio taken in one run does not.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Two probes further apart than this void the run between them.
PROBE_SPREAD_MAX = 1.5
#: Attempts for each run that is wanted, before the machine is called too noisy.
ATTEMPTS_PER_RUN_MAX = 4


def median(values: Sequence[float]) -> float:
    """The middle one; of an even number the mean of the two."""
    return statistics.median(values)


def percentile(values: Sequence[float], part: float) -> float:
    """Nearest-rank percentile, `part` from 0 to 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def milliseconds(action: Callable[[], object]) -> float:
    """Duration of one call."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


@dataclass
class Sandwich:
    """Valid runs of product between two probes, and how many were void."""

    before: list[Any] = field(default_factory=list)
    product: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    void: int = 0

    def ratios(self, of: Callable[[Any], float], probe: Callable[[Any], float]) -> list[float]:
        """Product over the mean of its two probes, run by run."""
        return [
            of(product) / ((probe(before) + probe(after)) / 2)
            for before, product, after in zip(self.before, self.product, self.after, strict=True)
        ]

    def probes(self, probe: Callable[[Any], float]) -> list[float]:
        """Every probe of the valid runs."""
        return [probe(value) for value in [*self.before, *self.after]]


def sandwich(
    probe: Callable[[], Any],
    product: Callable[[], Any],
    *,
    runs: int,
    key: Callable[[Any], float] = float,
    pause_seconds: float = 0.3,
) -> Sandwich:
    """`runs` valid runs; raises SystemExit where the machine stays too noisy for one."""
    done = Sandwich()
    while len(done.product) < runs:
        if done.void > runs * ATTEMPTS_PER_RUN_MAX:
            raise SystemExit(f"void: the probes of {done.void} runs differ by more than 1.5 times")
        before = probe()
        time.sleep(pause_seconds)
        between = product()
        time.sleep(pause_seconds)
        after = probe()
        low, high = sorted((key(before), key(after)))
        if high > low * PROBE_SPREAD_MAX:
            done.void += 1
            continue
        done.before.append(before)
        done.product.append(between)
        done.after.append(after)
    return done


def machine() -> dict[str, object]:
    """What a figure was taken on."""
    model = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cores": os.cpu_count(),
        "cpu": model[0] if model else platform.processor(),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """The commit measured, with a plus sign where the tree differs from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def rounded(value: float) -> float:
    """Four significant figures."""
    return float(f"{value:.4g}")


def result(
    goal: str,
    what: str,
    *,
    unit: str,
    product: Sequence[float],
    durable: str,
    probes: Mapping[str, Sequence[float]] | None = None,
    peers: Mapping[str, Mapping[str, object]] | None = None,
    ratios: Mapping[str, tuple[float, str, bool]] | None = None,
    **more: object,
) -> dict[str, object]:
    """One result; `ratios` are name -> (value, the goal's must, whether it is met)."""
    return {
        "goal": goal,
        "what": what,
        "unit": unit,
        "product": rounded(median(product)),
        "runs": [rounded(value) for value in product],
        "probes": {
            name: {"median": rounded(median(values)), "runs": [rounded(v) for v in values]}
            for name, values in (probes or {}).items()
        },
        "peers": dict(peers or {}),
        "ratios": {
            name: {"value": rounded(value), "must": must, "met": met}
            for name, (value, must, met) in (ratios or {}).items()
        },
        "durable_at_the_ack": durable,
        **more,
    }


def at_least(value: float, bound: float) -> tuple[float, str, bool]:
    """A ratio that must not be smaller."""
    return value, f">= {bound:g}", value >= bound


def at_most(value: float, bound: float) -> tuple[float, str, bool]:
    """A ratio that must not be larger."""
    return value, f"<= {bound:g}", value <= bound


def write(results: Sequence[Mapping[str, object]], out: Path | None) -> None:
    """One JSON line per result on standard output, and a file per goal where `out` is given."""
    stamp = {
        "commit": commit(),
        "machine": machine(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    for line in results:
        print(json.dumps({**line, **stamp}), flush=True)
    if out is not None and results:
        out.mkdir(parents=True, exist_ok=True)
        goal = str(results[0]["goal"]).lower()
        lines = [json.dumps({**line, **stamp}, indent=1) for line in results]
        (out / f"{goal}.json").write_text("[" + ",\n".join(lines) + "]\n")


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(f"  {text}", file=sys.stderr, flush=True)
