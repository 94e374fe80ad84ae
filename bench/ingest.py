"""T7: 500 events in each POST, durable and readable at the answer; T8: a history into the store;
T13: every state of a history.

The trace viewers are asked for what they promise: Phoenix until a span can be counted, MLflow until
its synchronous answer. Ours are readable by id, by range and in the record before the clock stops.
"""

from __future__ import annotations

import http.client
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench import probes, workload
from bench.measure import at_least, median, result, rounded, sandwich, say
from bench.options import Options
from bench.peers import run as peers
from bench.product import WHO, product
from bench.server import Server, serving
from core.events.envelope import NewEvent
from ingest import native, pipeline
from runtime.projector import Projector
from store.open import open_store

BATCH = 500
WORKER = "bench-worker"
CONNECTIONS = 2
DURABLE = "host: SQLite WAL, synchronous=FULL, one fsync per group, then the answer"


def wire(event: NewEvent) -> dict[str, object]:
    """One event as a runtime posts it."""
    assert event.payload is not None
    stated = {
        "event_id": event.event_id,
        "type": event.type,
        "schema_version": event.schema_version,
        "occurred_at": event.occurred_at,
        "step": event.step,
        "operation_id": event.operation_id,
        "attempt_id": event.attempt_id,
        "invocation_id": event.invocation_id,
        "payload": msgspec.Raw(event.payload),
    }
    return {key: value for key, value in stated.items() if value is not None}


def bodies(events: int) -> list[bytes]:
    """Requests of BATCH events each."""
    source = workload.history(events)
    made = []
    while batch := list(itertools.islice(source, BATCH)):
        made.append(
            msgspec.json.encode(
                {
                    "owner_epoch": 1,
                    "worker": WORKER,
                    "request_id": f"r-{batch[0].event_id}",
                    "events": [wire(event) for event in batch],
                }
            )
        )
    return made


def _own(server: Server, name: str) -> None:
    server.post(
        "/v1/trajectories",
        {
            "request_id": f"make-{name}",
            "standing": "reported",
            "trajectory_id": name,
            "task": {"title": f"Benchmark {name}"},
        },
    )
    server.post(f"/v1/trajectories/{name}/claim", {"request_id": f"claim-{name}", "worker": WORKER})


def _post_all(server: Server, name: str, requests: Sequence[bytes]) -> None:
    address = urlsplit(server.url)
    with closing(
        http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    ) as connection:
        for data in requests:
            connection.request(
                "POST",
                f"/v1/trajectories/{name}/events",
                data,
                {"content-type": "application/json"},
            )
            answer = connection.getresponse()
            said = answer.read()
            if answer.status not in (200, 201):
                raise SystemExit(f"append: {answer.status} {said[:300]!r}")


def post_history(server: Server, names: Sequence[str], requests: Sequence[bytes]) -> float:
    """Events a second until all of them are acknowledged and the last of each log is readable by
    range, by number and in its record."""
    for name in names:
        _own(server, name)
    started = time.perf_counter()
    threads = [threading.Thread(target=_post_all, args=(server, name, requests)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        root = f"/v1/trajectories/{name}"
        head = int(json.loads(server.get(root))["head"])
        json.loads(server.get(f"{root}/events/{head}"))
        page = json.loads(server.get(f"{root}/events?after={head - BATCH}&limit={BATCH}"))
        record = json.loads(server.get(f"{root}/record/head"))
        assert len(page["events"]) == BATCH
        assert record["boundary"] == head
    taken = time.perf_counter() - started
    return len(names) * len(requests) * BATCH / taken


def t7(options: Options) -> list[dict[str, object]]:
    """Product on a running server; the two viewers beside it."""
    requests = bodies(2_000 if options.quick else 20_000)
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as made:
        folder = Path(made)
        numbers = itertools.count()
        with serving(folder / "data") as server:

            def once() -> float:
                names = [f"b{next(numbers)}" for _ in range(CONNECTIONS)]
                return post_history(server, names, requests)

            once()
            done = sandwich(
                lambda: probes.sqlite_rowid_batches(folder, 1000, options.seconds(1.0)),
                once,
                runs=options.runs,
            )
    found = {}
    for name in ("phoenix", "mlflow"):
        if options.peers:
            with peers.viewer(name, 0, []) as viewer:
                found[name] = viewer
        else:
            found[name] = {**peers.RECORDED_VIEWERS[name], "how": peers.LABEL}
    rate = median(done.product)
    rates = {
        name: median([float(one) for one in said["ingest_spans_per_s"]])  # type: ignore[attr-defined]
        for name, said in found.items()
    }
    return [
        result(
            "T7",
            f"{BATCH} events of 1 KB in each POST, {CONNECTIONS} connections, until readable",
            unit="events/s",
            product=done.product,
            durable=DURABLE,
            probes={"sqlite rowid rows/s in batches of 1000": done.probes(float)},
            peers={
                name: {"unit": "spans/s", "median": rounded(rates[name]), "how": said["how"]}
                for name, said in found.items()
            },
            ratios={
                "of phoenix": at_least(rate / rates["phoenix"], 100),
                "of mlflow": at_least(rate / rates["mlflow"], 30),
            },
            void=done.void,
        )
    ]


# ---- T8 ----------------------------------------------------------------------------------------


@dataclass
class _Lines:
    """A history as lines, as a runtime would have written it to a file."""

    data: list[bytes]


class _Told(msgspec.Struct):
    event_id: str
    type: str
    schema_version: int
    payload: msgspec.Raw
    occurred_at: int | None = None
    step: int | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None


_TOLD = msgspec.json.Decoder(_Told)


def lines_of(events: int) -> _Lines:
    """`events` events as JSON lines."""
    return _Lines([msgspec.json.encode(wire(event)) for event in workload.history(events)])


def append_history(folder: Path, history: _Lines) -> float:
    """Events a second: decoded, validated, made canonical, digested, chained, deduplicated,
    durable, folded, with snapshots and summary."""
    with product(folder) as made:
        owned = made.reported("history")
        data = history.data
        started = time.perf_counter()
        for at in range(0, len(data), 1000):
            batch = []
            for line in data[at : at + 1000]:
                told = _TOLD.decode(line)
                batch.append(
                    NewEvent(
                        event_id=told.event_id,
                        type=told.type,
                        schema_version=told.schema_version,
                        payload=bytes(told.payload),
                        occurred_at=told.occurred_at,
                        step=told.step,
                        operation_id=told.operation_id,
                        attempt_id=told.attempt_id,
                        invocation_id=told.invocation_id,
                    )
                )
            owned.append(batch).result()
        made.projector.catch_up(WHO.tenant, "history")
        return len(data) / (time.perf_counter() - started)


def install_bundle(folder: Path, bundle: Path, events: int) -> float:
    """Events a second of a whole import of our own export: two passes, both verified."""
    with open_store(folder) as opened:
        started = time.perf_counter()
        for report in pipeline.import_path(opened.store, opened.blobs, WHO.tenant, bundle):
            assert report.ok, report.refused
        Projector(opened.store, opened.blobs, opened.projections).catch_up()
        return events / (time.perf_counter() - started)


def t8(options: Options) -> list[dict[str, object]]:
    """Between the floor that only folds and snapshots; bare rows beside it."""
    events = 5_000 if options.quick else 100_000
    history = lines_of(events)
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as made:
        folder = Path(made)
        done = sandwich(
            lambda: probes.import_floor(folder, events),
            lambda: append_history(folder / f"s{next(numbers)}", history),
            runs=options.runs,
        )
        rows = [
            probes.sqlite_rowid_batches(folder, 1000, options.seconds(1.5))
            for _ in range(options.runs)
        ]
        bundle = folder / "bundle.jsonl"
        with product(folder / "origin") as origin:
            name = origin.filled(events)
            with bundle.open("wb") as out:
                native.export(origin.runtime.store, origin.runtime.blobs, WHO.tenant, name, out)
        say("installing a bundle")
        installed = [
            install_bundle(folder / f"i{next(numbers)}", bundle, events)
            for _ in range(options.runs)
        ]
    ratio = median(done.ratios(float, float))
    return [
        result(
            "T8",
            f"a history of {events:,} events: decoded to folded, appends of 1,000",
            unit="events/s",
            product=done.product,
            durable=DURABLE,
            probes={
                "floor2_import: rows, fold, snapshots": done.probes(float),
                "sqlite rowid rows/s in batches of 1000": rows,
            },
            ratios={
                "of the import floor": at_least(ratio, 0.25),
                "of bare rows": at_least(median(done.product) / median(rows), 0.15),
            },
            bundle_events_per_s=[rounded(one) for one in installed],
            void=done.void,
        )
    ]


# ---- T13 ---------------------------------------------------------------------------------------


def t13(options: Options) -> list[dict[str, object]]:
    """Every record of a log beside LangGraph's get_state_history."""
    steps = 1_000 if options.quick else 10_000
    with (
        tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder,
        product(Path(folder)) as made,
    ):
        name = made.filled(steps)

        def walk() -> float:
            started = time.perf_counter()
            count = sum(1 for _ in made.runtime.walk(WHO, name))
            assert count == steps + 1
            return (time.perf_counter() - started) * 1e3

        walk()
        taken = [walk() for _ in range(max(3, options.runs))]
    say("peer: langgraph")
    peer = (
        peers.measured("langgraph_history", [steps, max(3, options.runs)])
        if options.peers
        else peers.recorded("langgraph_history")
    )
    return [
        result(
            "T13",
            f"every record of a log of {steps:,} events",
            unit="ms",
            product=taken,
            durable="reads only",
            peers={"langgraph": peer},
            ratios={
                "times faster than get_state_history": at_least(
                    float(str(peer["median"])) / median(taken), 3
                )
            },
        )
    ]
