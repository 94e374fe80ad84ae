"""What a browser sees: T15 the list, T16 the page of 10,000 events, T17 its weight at a million,
T18 the start of a server and its memory.

Every load is cold: a new browser context without a cache. Bytes are those that came over the wire,
nodes those of the document once it is still.
"""

from __future__ import annotations

import http.client
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.measure import at_least, at_most, median, percentile, result, rounded, say
from bench.options import Options
from bench.peers import run as peers
from bench.product import WHO, Product, product
from bench.server import Server, serving
from ingest import pipeline

CHROMIUM = "/usr/bin/chromium"
VIEW = {"width": 1400, "height": 900}
LIST_PEER_TRACES = 1_000
#: Nothing changes for so long: the page is still.
STILL_MS = 700
_WATCH = """
window.__last = performance.now();
new MutationObserver(() => { window.__last = performance.now() })
  .observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
window.__tasks = [];
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) window.__tasks.push(entry.duration)
}).observe({type: 'longtask', buffered: true});
"""
_STILL = """[performance.now() - window.__last, window.__last,
  document.getElementsByTagName('*').length]"""


@dataclass
class Load:
    """One cold load."""

    readable_ms: float
    """Until the text that was waited for is on the page; without one, until it is still."""
    still_ms: float
    bytes: int
    requests: int
    nodes: int


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium that reaches nothing but this machine."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only these goals need it

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking",
                  "--disable-dev-shm-usage", "--disable-component-update"],
        )  # fmt: skip
        try:
            yield running
        finally:
            running.close()


def load(running: Any, url: str, text: str, runs: int) -> Load:
    """Medians of `runs` cold loads; `text` is waited for."""
    found = [_load(running, url, text) for _ in range(runs)]
    return Load(
        *(  # type: ignore[arg-type]
            median([getattr(one, name) for one in found])
            for name in ("readable_ms", "still_ms", "bytes", "requests", "nodes")
        )
    )


def _load(running: Any, url: str, text: str) -> Load:
    context = running.new_context(viewport=VIEW)
    try:
        context.add_init_script(_WATCH)
        page = context.new_page()
        page.route(
            "**/*",
            lambda route: (
                route.continue_()
                if "//127.0.0.1" in route.request.url or not route.request.url.startswith("http")
                else route.abort()
            ),
        )
        devtools = context.new_cdp_session(page)
        devtools.send("Network.enable")
        came = [0, 0]

        def count(event: dict[str, Any]) -> None:
            came[0] += int(event.get("encodedDataLength", 0))
            came[1] += 1

        devtools.on("Network.loadingFinished", count)
        started = time.perf_counter()
        page.goto(url, wait_until="commit", timeout=60_000)
        readable = 0.0
        if text:
            page.wait_for_function(
                "text => document.body && document.body.innerText.includes(text)",
                arg=text,
                timeout=90_000,
                polling=20,
            )
            readable = (time.perf_counter() - started) * 1e3
        page.wait_for_load_state("load", timeout=60_000)
        deadline = time.perf_counter() + 60
        while True:
            quiet, last, nodes = page.evaluate(_STILL)
            if quiet > STILL_MS or time.perf_counter() > deadline:
                break
            time.sleep(0.05)
        return Load(readable or float(last), float(last), came[0], came[1], int(nodes))
    finally:
        context.close()


def longest_task_while_dragged(running: Any, url: str, runs: int) -> list[float]:
    """Longest task in ms (0: none above 50) while the scrubber is dragged from end to end."""
    longest = []
    for _ in range(runs):
        context = running.new_context(viewport=VIEW)
        context.add_init_script(_WATCH)
        page = context.new_page()
        page.goto(url, wait_until="load")
        page.wait_for_timeout(500)
        slider = page.locator("input[type=range]").first
        box = slider.bounding_box()
        assert box is not None, "the page has no scrubber"
        middle = box["y"] + box["height"] / 2
        page.evaluate("window.__tasks.length = 0")
        page.mouse.move(box["x"] + box["width"] - 8, middle)
        page.mouse.down()
        for step in range(120):
            page.mouse.move(box["x"] + 8 + (box["width"] - 16) * (119 - step) / 119, middle)
            page.wait_for_timeout(16)
        page.mouse.up()
        page.wait_for_timeout(500)
        assert "@" in page.url
        longest.append(float(max(page.evaluate("window.__tasks"), default=0.0)))
        context.close()
    return longest


def _told(viewer: dict[str, object], loads: dict[int, Load]) -> dict[str, object]:
    pages = {str(size): {k: rounded(float(v)) for k, v in asdict(one).items()}
             for size, one in loads.items()}  # fmt: skip
    return {"how": viewer["how"], "pages": pages}


def _peer_loads(
    running: Any, name: str, sizes: Sequence[int], options: Options
) -> tuple[dict[int, Load], dict[str, object]]:
    """Loads of a peer's own pages, or what was recorded of them."""
    if not options.peers:
        viewer: dict[str, object] = {**peers.RECORDED_VIEWERS[name], "how": peers.LABEL}
        loads = _recorded(viewer)
        return loads, _told(viewer, loads)
    with peers.viewer(name, 0, sizes) as viewer:
        pages = viewer.get("pages")
        if not isinstance(pages, dict):
            loads = _recorded(viewer)
        else:
            loads = {
                int(size): load(running, str(url), str(viewer["text"]), max(2, options.runs))
                for size, url in pages.items()
            }
        return loads, _told(viewer, loads)


def _recorded(viewer: dict[str, object]) -> dict[int, Load]:
    times: Any = viewer["page_ms"]
    weights: Any = viewer["page_bytes"]
    nodes: Any = viewer["page_nodes"]
    return {size: Load(ms, ms, weights[size], 0, nodes[size]) for size, ms in times.items()}


def _pages(options: Options) -> tuple[int, ...]:
    return (1_000, 10_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000)


@contextmanager
def _filled(sizes: Sequence[int], samples: Sequence[Path] = ()) -> Iterator[tuple[Server, Any]]:
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        data = Path(folder) / "data"
        names: dict[Any, str] = {}
        with product(data) as made:
            for size in sizes:
                say(f"writing {size:,} events")
                names[size] = made.filled(size)
            for sample in samples:
                for report in pipeline.import_path(
                    made.runtime.store, made.runtime.blobs, WHO.tenant, sample
                ):
                    names[sample] = report.trajectories[0].id
            made.projector.catch_up()
        with serving(data) as server:
            yield server, names


def t16(options: Options) -> list[dict[str, object]]:
    """The page of 10,000 events until its first events are readable, beside the viewers."""
    with browser() as running:
        with _filled((10_000,)) as (server, names):
            url = f"{server.url}/t/{names[10_000]}"
            load(running, url, "ModelReplied", 1)
            ours = [load(running, url, "ModelReplied", 1) for _ in range(max(3, options.runs))]
            first = load(running, f"{url}/@1", "TaskStarted", 1)
        others = {
            name: _peer_loads(running, name, [10_000] if not options.quick else [1_000], options)
            for name in ("phoenix", "mlflow")
        }
    readable = median([one.readable_ms for one in ours])
    theirs = {name: loads[max(loads)].readable_ms for name, (loads, _) in others.items()}
    return [
        result(
            "T16",
            "page of 10,000 events, cold cache, until the first events are readable",
            unit="ms",
            product=[one.readable_ms for one in ours],
            durable="reads only",
            peers={name: told for name, (_, told) in others.items()},
            ratios={
                "of phoenix": at_most(readable / theirs["phoenix"], 0.2),
                "of mlflow": at_most(readable / theirs["mlflow"], 0.06),
                "every event reachable (first boundary opens)": at_least(
                    float(first.readable_ms > 0), 1
                ),
            },
        )
    ]


def t17(options: Options) -> list[dict[str, object]]:
    """Weight, nodes and time of the page from 10^3 to 10^6 events; the largest sample dragged."""
    sizes = _pages(options)
    largest = _largest_sample()
    with browser() as running:
        with _filled(sizes, [largest] if largest is not None else []) as (server, names):
            loads = {}
            for size in sizes:
                url = f"{server.url}/t/{names[size]}/@{size // 2}"
                load(running, url, "ModelReplied", 1)
                loads[size] = load(running, url, "ModelReplied", max(3, options.runs))
            dragged = {
                str(name): longest_task_while_dragged(running, f"{server.url}/t/{identity}", 3)
                for name, identity in (
                    (name if isinstance(name, int) else name.name, identity)
                    for name, identity in names.items()
                )
                if name != 10_000
            }
        others = {
            "phoenix": _peer_loads(running, "phoenix", [1_000], options),
            "mlflow": _peer_loads(running, "mlflow", [1_000], options),
            "inspect": _peer_loads(running, "inspect", [100 if options.quick else 500], options),
        }
    small, large = loads[min(sizes)], loads[max(sizes)]
    phoenix, _ = others["phoenix"]
    longest = {name: max(taken) for name, taken in dragged.items()}
    return [
        result(
            "T17",
            f"the page at {max(sizes):,} events beside {min(sizes):,}",
            unit="bytes",
            product=[one.bytes for one in loads.values()],
            durable="reads only",
            peers={name: told for name, (_, told) in others.items()},
            ratios={
                "bytes at the largest of the smallest": at_most(large.bytes / small.bytes, 1.2),
                "nodes at the largest of the smallest": at_most(large.nodes / small.nodes, 1.2),
                "time at the largest of the smallest": at_most(
                    large.readable_ms / small.readable_ms, 1.2
                ),
                "nodes": at_most(max(one.nodes for one in loads.values()), 3_000),
                "bytes": at_most(max(one.bytes for one in loads.values()), 300_000),
                "bytes of phoenix": at_most(large.bytes / phoenix[max(phoenix)].bytes, 0.05),
                "longest task while dragged, ms": at_most(max(longest.values()), 100),
            },
            pages={str(size): asdict(one) for size, one in loads.items()},
            longest_task_ms=longest,
        )
    ]


def _largest_sample() -> Path | None:
    folder = Path(__file__).resolve().parent.parent.parent / "shared" / "samples"
    files = [
        path
        for kind in ("claude_code", "codex_rollout", "swe_agent", "mini_swe_agent")
        for path in (folder / kind).rglob("*")
        if path.is_file() and path.suffix in (".jsonl", ".traj", ".json")
    ]
    return max(files, key=lambda path: path.stat().st_size, default=None)


# ---- T15 ---------------------------------------------------------------------------------------


def list_times(server: Server, query: str, pages: int) -> list[float]:
    """Milliseconds of each of `pages` successive pages of 100 by the API."""
    address = urlsplit(server.url)
    taken = []
    after = ""
    with closing(
        http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    ) as connection:
        for _ in range(pages):
            started = time.perf_counter()
            connection.request("GET", f"/v1/trajectories?limit=100&{query}{after}")
            answer = connection.getresponse()
            body = answer.read()
            taken.append((time.perf_counter() - started) * 1e3)
            if answer.status != 200:
                raise SystemExit(f"list: {answer.status} {body[:300]!r}")
            said = json.loads(body)
            assert said["trajectories"], query
            after = f"&after={said['next_after']}" if said["next_after"] else ""
    return taken


def _summaries(made: Product, count: int) -> None:
    """`count` summaries as a projector writes them; their logs are not needed for a list."""
    chosen = random.Random(3)
    statuses = ("RUNNING", "COMPLETED", "FAILED", "CANCELLED")
    for number in range(count):
        at = 1_763_000_000_000_000 + chosen.randrange(10**13)
        made.runtime.projections.put_summary(
            WHO.tenant,
            f"run-{number:07d}",
            10,
            {
                "title": f"Repair case {number}",
                "agent": f"agent {number % 7}",
                "source": None,
                "standing": "reported",
                "model": f"model-{number % 5}",
                "status": statuses[number % 4],
                "step": number % 90,
                "high_water": number % 90,
                "generation": 1,
                "unsettled": int(number % 50 == 0),
                "operations": number % 80,
                "input_tokens": chosen.randrange(10**6),
                "output_tokens": chosen.randrange(10**5),
                "cost_nano_usd": chosen.randrange(10**10),
                "events": 10,
                "started_at": at,
                "last_at": at + 60_000_000,
                "updated_at": at,
            },
        )


QUERIES = {
    "newest": "",
    "status": "status=FAILED",
    "model and cost": "q=model%3Amodel-3+cost%3A%3E5",
    "by tokens": "sort=input",
}


def t15(options: Options) -> list[dict[str, object]]:
    """100 of 10,000 and of 1,000,000 trajectories, filtered, keyset, over the API."""
    sizes = (1_000, 10_000) if options.quick else (10_000, 1_000_000)
    found: dict[int, dict[str, list[float]]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
            data = Path(folder) / "data"
            with product(data) as made:
                say(f"writing {size:,} summaries")
                _summaries(made, size)
            with serving(data) as server:
                found[size] = {}
                for name, query in QUERIES.items():
                    list_times(server, query, 3)
                    found[size][name] = [
                        one
                        for _ in range(max(3, options.runs))
                        for one in list_times(server, query, 5)
                    ]
    if options.peers:
        with peers.viewer("phoenix", LIST_PEER_TRACES, []) as viewer:
            phoenix = viewer
    else:
        phoenix = {**peers.RECORDED_VIEWERS["phoenix"], "how": peers.LABEL}
    listed: Any = phoenix["list_100_ms"]
    peer_ms = median([float(one) for one in listed])
    small, large = (found[size] for size in sizes)
    worst = max(median(taken) for taken in small.values())
    growth = {name: median(large[name]) / median(small[name]) for name in QUERIES}
    return [
        result(
            "T15",
            f"a page of 100 of {sizes[0]:,} and of {sizes[1]:,} trajectories, API, keyset",
            unit="ms",
            product=small["newest"],
            durable="reads only",
            peers={
                "phoenix": {
                    "median": rounded(peer_ms),
                    "unit": "ms",
                    "traces": phoenix["traces"],
                    "how": phoenix["how"],
                }
            },
            ratios={
                "slowest query of phoenix": at_most(worst / peer_ms, 0.1),
                **{
                    f"{name}: at the larger of the smaller": at_most(value, 1.5)
                    for name, value in growth.items()
                },
            },
            p50_ms={
                str(size): {name: rounded(median(taken)) for name, taken in some.items()}
                for size, some in found.items()
            },
            p99_ms={
                str(size): {name: rounded(percentile(taken, 0.99)) for name, taken in some.items()}
                for size, some in found.items()
            },
        )
    ]


# ---- T18 ---------------------------------------------------------------------------------------


def _memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("no memory is told of the server")


def _start(data: Path, then: Callable[[Server], float]) -> tuple[float, float]:
    started = time.perf_counter()
    with serving(data) as server:
        taken = time.perf_counter() - started
        return taken, then(server)


def t18(options: Options) -> list[dict[str, object]]:
    """Start on an existing store; resident memory after a history was written through HTTP."""
    from bench import ingest  # noqa: PLC0415 - only this goal writes through the server

    events = 10_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        data = Path(folder) / "data"
        per_log = min(events, 100_000)
        requests = ingest.bodies(per_log)
        with serving(data) as server:
            idle = _memory_mb(server.pid)
            say(f"posting {events:,} events")
            for number in range(events // per_log):
                ingest.post_history(server, [f"log{number}"], requests)
            time.sleep(3)
            loaded = _memory_mb(server.pid)
        starts = [
            _start(data, lambda server: _memory_mb(server.pid)) for _ in range(max(3, options.runs))
        ]
    found = {}
    for name in ("phoenix", "mlflow"):
        if options.peers:
            with peers.viewer(name, 0, [10_000] if not options.quick else [1_000]) as viewer:
                found[name] = viewer
        else:
            found[name] = {**peers.RECORDED_VIEWERS[name], "how": peers.LABEL}
    phoenix, mlflow = found["phoenix"], found["mlflow"]
    seconds = median([one for one, _ in starts])
    return [
        result(
            "T18",
            f"start on a store of {events:,} events, and memory after they were posted",
            unit="s",
            product=[one for one, _ in starts],
            durable="host",
            peers={
                name: {key: said[key] for key in ("cold_start_s", "idle_mb", "loaded_mb", "how")}
                for name, said in found.items()
            },
            ratios={
                "start of phoenix": at_most(seconds / float(str(phoenix["cold_start_s"])), 0.2),
                "memory of phoenix idle": at_most(loaded / float(str(phoenix["idle_mb"])), 0.4),
                "memory of mlflow loaded": at_most(loaded / float(str(mlflow["loaded_mb"])), 0.1),
            },
            memory_mb={
                "idle": rounded(idle),
                "after the events": rounded(loaded),
                "after a start": rounded(median([one for _, one in starts])),
            },
        )
    ]
