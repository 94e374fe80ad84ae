"""T6: one durable 1 KB event per POST over HTTP, 64 connections, the product's server as shipped.

Acknowledged means what T1's means; the answer leaves after it. The floor is a FastAPI route on
the same server that parses the same body and stores nothing.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

from bench import server, workload
from bench.measure import at_least, median, result, rounded, sandwich, say
from bench.options import Options
from bench.peers import run as peers

CONNECTIONS = 64
TRAJECTORIES = 64
DURABLE = "host: SQLite WAL, synchronous=FULL, one fsync per group, then the answer"
WORKER = "bench-worker"
_SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local sent = 0
function request()
  sent = sent + 1
  local body = string.gsub([==[{body}]==], "NUMBER", tostring(sent))
  return wrk.format("POST", "{path}" .. "{suffix}", nil, body)
end
"""


def script(folder: Path, name: str, *, product: bool) -> Path:
    """A wrk script whose every request is an event of its own; names keep runs apart."""
    event = workload.intent(0, 0)
    assert event.payload is not None
    body = {
        "owner_epoch": 1,
        "worker": WORKER,
        "request_id": f"{name}-NUMBER",
        "events": [
            {
                "event_id": f"{name}-NUMBER",
                "type": event.type,
                "schema_version": event.schema_version,
                "operation_id": f"op-{name}-NUMBER",
                "attempt_id": f"at-{name}-NUMBER",
                "occurred_at": event.occurred_at,
                "payload": json.loads(event.payload),
            }
        ],
    }
    target = (
        f'"/v1/trajectories/bench-" .. (sent % {TRAJECTORIES}) .. "/events"'
        if product
        else '"/raw"'
    )
    path = folder / f"{name}.lua"
    path.write_text(
        _SCRIPT.replace('"{path}" .. "{suffix}"', target).replace("{body}", json.dumps(body))
    )
    return path


def prepare(running: server.Server) -> None:
    """Create and claim the trajectories through the API."""
    for number in range(TRAJECTORIES):
        name = f"bench-{number}"
        task = {"title": f"Benchmark {number}"}
        running.post(
            "/v1/trajectories",
            {
                "request_id": f"make-{name}",
                "standing": "reported",
                "trajectory_id": name,
                "task": task,
            },
        )
        running.post(
            f"/v1/trajectories/{name}/claim", {"request_id": f"claim-{name}", "worker": WORKER}
        )


def t6(options: Options) -> list[dict[str, object]]:
    """Floor, product, floor; then the peer."""
    seconds = max(1.0, options.seconds(4.0))
    names = (f"r{number}" for number in itertools.count())
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as made:
        folder = Path(made)
        with (
            server.floor(peers.free_port(), folder) as floor,
            server.serving(folder / "data") as running,
        ):
            prepare(running)
            # The idle one of the two servers costs nothing; both stay up, so no start is measured.
            done = sandwich(
                lambda: peers.wrk(
                    floor, script(folder, next(names), product=False), CONNECTIONS, seconds
                ),
                lambda: peers.wrk(
                    running.url, script(folder, next(names), product=True), CONNECTIONS, seconds
                ),
                runs=options.runs,
                key=lambda run: run["rate"],
            )
    say("peer: restate")
    peer = (
        peers.restate(CONNECTIONS, seconds, options.runs)
        if options.peers
        else peers.recorded("restate")
    )
    rate = median([run["rate"] for run in done.product])
    ratio = median(done.ratios(lambda run: run["rate"], lambda run: run["rate"]))
    return [
        result(
            "T6",
            "one durable 1 KB event per POST, 64 connections, one server process",
            unit="requests/s",
            product=[run["rate"] for run in done.product],
            durable=DURABLE,
            probes={"FastAPI raw POST": done.probes(lambda run: run["rate"])},
            peers={"restate": peer},
            ratios={
                "of the floor": at_least(ratio, 0.5),
                "of restate": at_least(rate / float(str(peer["median"])), 5),
            },
            p50_ms=rounded(median([run["p50_ms"] for run in done.product])),
            p99_ms=rounded(median([run["p99_ms"] for run in done.product])),
            void=done.void,
        )
    ]
