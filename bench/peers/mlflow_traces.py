"""MLflow's server on SQLite: ingest, memory, pages. usage: FOLDER PORT TRACES SPANS..."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import held
import httpx
import traces


def main() -> None:
    """Start, fill, measure, hold."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    sizes = [int(text) for text in sys.argv[4:]]
    url = f"http://127.0.0.1:{port}"
    home = Path(sys.executable).parent
    environment = {
        **os.environ,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "PATH": f"{home}:{os.environ['PATH']}",
    }
    command = [
        str(home / "mlflow"), "server", "--backend-store-uri", f"sqlite:///{folder}/m.db",
        "--default-artifact-root", str(folder / "art"), "--host", "127.0.0.1",
        "--port", str(port), "--workers", "1",
    ]  # fmt: skip

    def start() -> tuple[subprocess.Popen[bytes], float]:
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        return process, held.wait_for(f"{url}/health", process, 180)

    def stop(process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)

    process, _ = start()
    client = httpx.Client(base_url=url, timeout=180)

    def post(data: bytes) -> None:
        answer = client.post(
            "/v1/traces",
            content=data,
            headers={"content-type": "application/x-protobuf", "x-mlflow-experiment-id": "0"},
        )
        if answer.status_code != 200:
            raise SystemExit(f"{answer.status_code} {answer.text[:300]}")

    post(traces.body(traces.spans(os.urandom(16), 2, root=os.urandom(8)), "bench"))
    rates = []
    for _ in range(3):
        bodies = [
            traces.body(traces.spans(os.urandom(16), 100, root=os.urandom(8)), "bench")
            for _ in range(20)
        ]
        began = time.perf_counter()
        for data in bodies:
            post(data)
        rates.append(2000 / (time.perf_counter() - began))
    pages = {}
    for size in sizes:
        trace = os.urandom(16)
        for data in traces.bodies_of_trace(trace, size, "bench"):
            post(data)
        pages[size] = f"{url}/#/experiments/0/traces?selectedEvaluationId=tr-{trace.hex()}"
    loaded = held.memory_mb(process.pid)
    stop(process)
    process, again = start()
    try:
        held.hold(
            {
                "peer": "mlflow",
                "ingest_spans_per_s": rates,
                "cold_start_s": again,
                "idle_mb": held.memory_mb(process.pid),
                "loaded_mb": loaded,
                "pages": pages,
                "text": "tool.bash",
            }
        )
    finally:
        stop(process)


main()
