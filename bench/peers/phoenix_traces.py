"""Phoenix on SQLite: ingest until countable, list, pages. usage: FOLDER PORT TRACES SPANS..."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import held
import httpx
import traces

PROJECT = "bench"
LIST = """query($id:ID!,$n:Int!){node(id:$id){... on Project{spans(first:$n,
filterCondition:"parent_id is None",sort:{col:startTime,dir:desc}){edges{node{id name spanKind
statusCode startTime latencyMs cumulativeTokenCountTotal input{truncatedValue}
output{truncatedValue} trace{traceId numSpans}}}}}}}"""


def main() -> None:
    """Start, fill, measure, hold."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    small, sizes = int(sys.argv[3]), [int(text) for text in sys.argv[4:]]
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(port + 1),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    command = [str(Path(sys.executable).parent / "phoenix"), "serve"]

    def start() -> tuple[subprocess.Popen[bytes], float]:
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        return process, held.wait_for(f"{url}/healthz", process, 120)

    process, _ = start()
    client = httpx.Client(base_url=url, timeout=120)

    def ask(query: str, **variables: object) -> dict[str, object]:
        answer = client.post("/graphql", json={"query": query, "variables": variables}).json()
        if "errors" in answer:
            raise SystemExit(str(answer["errors"])[:500])
        return dict(answer["data"])

    def project() -> tuple[str, int]:
        found = ask("{projects{edges{node{id name recordCount}}}}")
        for edge in found["projects"]["edges"]:  # type: ignore[index]
            if edge["node"]["name"] == PROJECT:
                return edge["node"]["id"], int(edge["node"]["recordCount"])
        return "", 0

    def post(data: bytes) -> None:
        while True:
            answer = client.post(
                "/v1/traces", content=data, headers={"content-type": "application/x-protobuf"}
            )
            if answer.status_code == 200:
                return
            if answer.status_code not in (429, 503):
                raise SystemExit(f"{answer.status_code} {answer.text[:200]}")
            time.sleep(0.05)

    def until(count: int) -> None:
        while project()[1] < count:
            time.sleep(0.5)

    rates = []
    for _ in range(3):
        before = project()[1]
        bodies = [
            traces.body(
                [
                    span
                    for _ in range(5)
                    for span in traces.spans(os.urandom(16), 100, root=os.urandom(8))
                ],
                PROJECT,
            )
            for _ in range(4)
        ]
        began = time.perf_counter()
        for data in bodies:
            post(data)
        until(before + 2000)
        rates.append(2000 / (time.perf_counter() - began))
    count = project()[1]
    pages = {}
    for size in sizes:
        trace = os.urandom(16)
        for data in traces.bodies_of_trace(trace, size, PROJECT):
            post(data)
        count += size
        until(count)
        pages[size] = trace.hex()
    for _ in range(0, small, 100):
        some = [s for _ in range(100) for s in traces.spans(os.urandom(16), 2, root=os.urandom(8))]
        post(traces.body(some, PROJECT))
        count += len(some)
        until(count)
    identity, _ = project()
    listed = held.milliseconds(lambda: ask(LIST, id=identity, n=100), 7)
    loaded = held.memory_mb(process.pid)
    process.terminate()
    process.wait(60)
    process, again = start()
    try:
        held.hold(
            {
                "peer": "phoenix",
                "ingest_spans_per_s": rates,
                "list_100_ms": listed,
                "traces": 60 + len(sizes) + small,
                "cold_start_s": again,
                "idle_mb": held.memory_mb(process.pid),
                "loaded_mb": loaded,
                "pages": {
                    size: f"{url}/projects/{identity}/traces/{trace}"
                    for size, trace in pages.items()
                },
                "text": "tool.bash",
            }
        )
    finally:
        process.terminate()
        process.wait(60)


main()
