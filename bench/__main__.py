"""`python -m bench`: measure the goals; one JSON line per result, progress on standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench import append, http_append, ingest, pages, scrub, scrub_http
from bench.measure import ROOT, say, write
from bench.options import Options
from bench.peers import run as peers

GOALS: dict[str, Callable[[Options], list[dict[str, object]]]] = {
    "t1": append.t1,
    "t4": append.t4,
    "t5": append.t5,
    "t6": http_append.t6,
    "t7": ingest.t7,
    "t8": ingest.t8,
    "t9": scrub.t9,
    "t10": scrub_http.t10,
    "t13": ingest.t13,
    "t15": pages.t15,
    "t16": pages.t16,
    "t17": pages.t17,
    "t18": pages.t18,
}


def main(arguments: list[str]) -> int:
    """0 if every must that was measured is met, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("goal", nargs="*", help=f"{', '.join(GOALS)}; peers; all of them if none")
    parser.add_argument("--runs", type=int, default=3, help="valid runs of each measurement")
    parser.add_argument("--quick", action="store_true", help="show that it works; no figures")
    parser.add_argument("--no-peers", action="store_true", help="use the recorded figures")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="events, T9 and T10")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    given = parser.parse_args(arguments)
    options = Options(
        runs=1 if given.quick else given.runs,
        quick=given.quick,
        peers=not given.no_peers,
        sizes=(1_000, 10_000) if given.quick else tuple(map(int, given.sizes.split(","))),
        out=None if given.quick else given.out,
    )
    unmet = 0
    for name in given.goal or GOALS:
        if name == "peers":
            peers.install()
            continue
        say(name)
        results = GOALS[name](options)
        write(results, options.out)
        unmet += _unmet(results)
    return 1 if unmet and not options.quick else 0


def _unmet(results: list[dict[str, object]]) -> int:
    count = 0
    for line in results:
        for what, ratio in dict(line["ratios"]).items():  # type: ignore[call-overload]
            count += not ratio["met"]
            sign = "met " if ratio["met"] else "MISS"
            say(f"{sign} {line['goal']} {what}: {ratio['value']} (must be {ratio['must']})")
    return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
