"""T10: the fragment of a random boundary over HTTP, as the scrubber asks for it.

The floor is the cheapest GET of the same server. The drag asks for 60 boundaries a second on a
schedule, whether or not earlier answers have come (so waiting shows), and looks for a queue.
"""

from __future__ import annotations

import http.client
import queue
import random
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import at_most, median, percentile, result, rounded, sandwich, say
from bench.options import Options
from bench.product import product
from bench.server import Server, serving

REQUESTS = 300
DRAG_PER_SECOND = 60
#: A browser opens at most six connections to one host.
DRAG_CONNECTIONS = 6
#: What htmx sends when the scrubber moves.
FRAGMENT = {
    "HX-Request": "true",
    "HX-Request-Type": "partial",
    "HX-Target": "section#boundary",
    "Accept": "text/html",
}


class Connection:
    """One keep-alive connection."""

    def __init__(self, server: Server) -> None:
        address = urlsplit(server.url)
        self._connection = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=30
        )

    def get(self, path: str, headers: dict[str, str]) -> float:
        """Milliseconds until the whole body is here."""
        started = time.perf_counter()
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        taken = (time.perf_counter() - started) * 1e3
        if answer.status != 200 or not body:
            raise SystemExit(f"GET {path}: {answer.status} {body[:300]!r}")
        return taken


def gets(server: Server, paths: list[str], headers: dict[str, str]) -> tuple[float, float]:
    """(p50, p99) in ms of these requests, one after the other on one connection."""
    connection = Connection(server)
    taken = [connection.get(path, headers) for path in paths]
    return percentile(taken, 0.5), percentile(taken, 0.99)


@dataclass
class Drag:
    """A held scrubber: requests on a schedule."""

    p50_ms: float
    p99_ms: float
    waiting_max: int
    first_quarter_ms: float
    last_quarter_ms: float


def drag(server: Server, trajectory_id: str, events: int, seconds: float) -> Drag:
    """Ask for 60 neighbouring boundaries a second; latency counts from the time planned."""
    count = int(DRAG_PER_SECOND * seconds)
    planned: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
    taken = [0.0] * count
    waiting = []
    stride = max(1, events // count)

    def work() -> None:
        connection = Connection(server)
        while (item := planned.get()) is not None:
            number, due = item
            connection.get(f"/t/{trajectory_id}/@{1 + number * stride % events}", FRAGMENT)
            taken[number] = (time.perf_counter() - due) * 1e3

    threads = [threading.Thread(target=work) for _ in range(DRAG_CONNECTIONS)]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    for number in range(count):
        due = started + number / DRAG_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        planned.put((number, due))
        waiting.append(planned.qsize())
    for _ in threads:
        planned.put(None)
    for thread in threads:
        thread.join()
    quarter = count // 4
    return Drag(
        p50_ms=percentile(taken, 0.5),
        p99_ms=percentile(taken, 0.99),
        waiting_max=max(waiting),
        first_quarter_ms=median(taken[:quarter]),
        last_quarter_ms=median(taken[-quarter:]),
    )


def t10(options: Options) -> list[dict[str, object]]:
    """Every size beside the GET floor; growth; the drag on the largest."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        data = Path(folder) / "data"
        names = {}
        with product(data) as made:
            for events in options.sizes:
                say(f"writing {events:,} events")
                names[events] = made.filled(events)
        with serving(data) as server:
            say("measuring")
            return _measured(options, server, names)


def _measured(options: Options, server: Server, names: dict[int, str]) -> list[dict[str, object]]:
    lines, middles = [], {}
    chosen = random.Random(7)
    for events, name in names.items():
        gets(server, [f"/t/{name}/@{events}"] * 20, FRAGMENT)

        def fragments(name: str = name, events: int = events) -> tuple[float, float]:
            boundaries = [chosen.randint(1, events) for _ in range(REQUESTS)]
            return gets(server, [f"/t/{name}/@{boundary}" for boundary in boundaries], FRAGMENT)

        done = sandwich(
            lambda: gets(server, ["/livez"] * REQUESTS, {}),
            fragments,
            runs=options.runs,
            key=lambda probe: probe[0],
        )
        middles[events] = median([run[0] for run in done.product])
        tail = median(done.ratios(lambda run: run[1], lambda probe: probe[1]))
        lines.append(
            result(
                "T10",
                f"fragment of a random boundary of {events:,} events over HTTP",
                unit="ms p50",
                product=[run[0] for run in done.product],
                durable="reads only",
                probes={
                    "GET /livez p50": done.probes(lambda probe: probe[0]),
                    "GET /livez p99": done.probes(lambda probe: probe[1]),
                },
                ratios={"p99 of the floor's p99": at_most(tail, 10)},
                p99_ms=rounded(median([run[1] for run in done.product])),
                events=events,
                void=done.void,
            )
        )
    smallest, largest = min(names), max(names)
    held = drag(server, names[largest], largest, options.seconds(10.0))
    lines.append(
        result(
            "T10",
            f"growth from {smallest:,} to {largest:,} events, and a drag of 60 boundaries a second",
            unit="ms p50",
            product=[middles[largest]],
            durable="reads only",
            ratios={
                "p50 at the largest of the smallest": at_most(
                    middles[largest] / middles[smallest], 1.2
                ),
                "drag: requests waiting at most": at_most(held.waiting_max, DRAG_CONNECTIONS),
            },
            drag={key: rounded(float(value)) for key, value in vars(held).items()},
        )
    )
    return lines
