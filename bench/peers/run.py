"""Make the peers' environments, run them, or fall back on recorded figures, labelled so."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.measure import ROOT, median, rounded, say

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = Path(os.environ.get("STRANDLINE_BENCH_PEERS") or ROOT / "bench" / ".peers")
LABEL = "recorded on 2026-11-29"
#: Medians of the same tests on a quiet machine with 2 cores, used where a peer does not run.
RECORDED = {
    "dbos": ("dbos sync steps", "steps/s", 394.0),
    "langgraph": ("langgraph put+put_writes", "steps/s", 1992.0),
    "eventsourcing": ("eventsourcing version 5000 of 10k", "ms", 98.0),
    "restate": ("restate invocations", "invocations/s", 955.0),
    "langgraph_history": ("langgraph get_state_history, 10k checkpoints", "ms", 736.0),
    "phoenix": ("phoenix spans until countable", "spans/s", 148.0),
    "mlflow": ("mlflow spans acknowledged", "spans/s", 517.0),
}
#: What the trace viewers showed on the same day: see `viewer`.
RECORDED_VIEWERS: dict[str, dict[str, object]] = {
    "phoenix": {
        "ingest_spans_per_s": [148.0],
        "list_100_ms": [119.0],
        "traces": 11_300,
        "cold_start_s": 8.6,
        "idle_mb": 428.0,
        "loaded_mb": 544.0,
        "page_ms": {1_000: 6_400.0, 10_000: 6_200.0},
        "page_bytes": {1_000: 6_160_000, 10_000: 6_160_000},
        "page_nodes": {1_000: 29_500, 10_000: 29_500},
    },
    "mlflow": {
        "ingest_spans_per_s": [517.0],
        "cold_start_s": 3.9,
        "idle_mb": 690.0,
        "loaded_mb": 2_470.0,
        "page_ms": {1_000: 6_500.0, 10_000: 22_300.0},
        "page_bytes": {1_000: 9_200_000, 10_000: 33_600_000},
        "page_nodes": {1_000: 36_000, 10_000: 342_000},
    },
    "inspect": {
        "cold_start_s": 1.3,
        "idle_mb": 122.0,
        "page_ms": {500: 1_700.0},
        "page_bytes": {500: 7_060_000},
        "page_nodes": {500: 676},
    },
}


def recorded(name: str) -> dict[str, object]:
    """The figure of 2026-11-29, said to be that."""
    peer, unit, value = RECORDED[name]
    return {"peer": peer, "unit": unit, "median": value, "how": LABEL}


#: The script that measures a peer.
_SCRIPTS = {
    "dbos": "dbos_steps.py",
    "eventsourcing": "eventsourcing_rebuild.py",
    "langgraph": "langgraph_puts.py",
    "langgraph_history": "langgraph_history.py",
}


def measured(name: str, arguments: Sequence[object]) -> dict[str, object]:
    """One peer's figure of now; the recorded one where it is not installed or fails."""
    python = ENVIRONMENTS / name.partition("_")[0] / "bin" / "python"
    script = HERE / _SCRIPTS[name]
    if not python.exists():
        say(f"{name} is not installed (python -m bench peers): using the figure {LABEL}")
        return recorded(name)
    with tempfile.TemporaryDirectory(prefix="strandline-peer-") as folder:
        done = subprocess.run(
            [python, script, folder, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"peer"')]
    if done.returncode or not lines:
        say(f"{name} failed, using the figure {LABEL}: {done.stderr[-500:]}")
        return recorded(name)
    return _figure(json.loads(lines[-1]))


@contextmanager
def viewer(name: str, traces: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """A trace viewer that runs, filled with `traces` small traces and one of each of `sizes`
    spans: what its script found, and the address of each large trace under `pages`. Where it
    does not run: the recorded figures, `how` saying so, and no pages."""
    python = ENVIRONMENTS / name / "bin" / "python"
    recorded_figures = {**RECORDED_VIEWERS[name], "peer": name, "how": LABEL}
    if not python.exists():
        say(f"{name} is not installed (python -m bench peers): using the figures {LABEL}")
        yield recorded_figures
        return
    say(f"peer: {name}")
    with tempfile.TemporaryDirectory(prefix="strandline-viewer-") as folder:
        (Path(folder) / "home").mkdir()
        with (Path(folder) / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [
                    str(python),
                    str(HERE / f"{name}_traces.py"),
                    folder,
                    str(free_port()),
                    str(traces),
                ]
                + [str(size) for size in sizes],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "HOME": f"{folder}/home"},
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = next((one for one in process.stdout if one.startswith(b'{"peer"')), b"")
            if not line:
                said = (Path(folder) / "errors").read_text(errors="replace")
                say(f"{name} failed, using the figures {LABEL}: {said[-600:]}")
                yield recorded_figures
            else:
                yield {**json.loads(line), "how": "measured in this run"}
        finally:
            process.stdin.close()
            process.wait(120)


def _figure(said: dict[str, object]) -> dict[str, object]:
    runs = [float(run) for run in said.pop("runs")]  # type: ignore[attr-defined]
    return {
        **said,
        "median": rounded(median(runs)),
        "runs": [rounded(run) for run in runs],
        "how": "measured in this run",
    }


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wrk(url: str, script: Path, connections: int, seconds: float) -> dict[str, float]:
    """Requests a second and latencies in ms by wrk; any answer that is not 2xx is an error."""
    said = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", script, url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"wrk saw failures:\n{said}")
    return {
        "rate": float(_found(r"Requests/sec:\s+([\d.]+)", said)),
        "p50_ms": _milliseconds(_found(r"(?m)^ +50%\s+(\S+)", said)),
        "p99_ms": _milliseconds(_found(r"(?m)^ +99%\s+(\S+)", said)),
    }


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"wrk said something unexpected:\n{text}")
    return match[1]


def _milliseconds(text: str) -> float:
    for unit, factor in (("us", 1e-3), ("ms", 1.0), ("s", 1e3)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise ValueError(text)


def restate(connections: int, seconds: float, runs: int) -> dict[str, object]:
    """Restate's echo invocations by wrk; recorded where server or SDK is not installed."""
    server = (
        ENVIRONMENTS / "restate-npm/node_modules/@restatedev/restate-server-linux-x64"
        "/bin/restate-server"
    )
    if not server.exists() or not (ENVIRONMENTS / "restate/bin/hypercorn").exists():
        say(f"restate is not installed (python -m bench peers): using the figure {LABEL}")
        return recorded("restate")
    with (
        tempfile.TemporaryDirectory(prefix="strandline-restate-") as folder,
        _restate(server, Path(folder)) as ingress,
    ):
        script = Path(folder) / "echo.lua"
        script.write_text(
            'wrk.method = "POST"\nwrk.body = "\\"x\\""\n'
            'wrk.headers["Content-Type"] = "application/json"\n'
        )
        url = f"{ingress}/bench/echo"
        wrk(url, script, 16, 1)
        taken = [wrk(url, script, connections, seconds) for _ in range(runs)]
    figure = _figure(
        {
            "peer": "restate invocations",
            "unit": "invocations/s",
            "runs": [run["rate"] for run in taken],
        }
    )
    return {**figure, "p99_ms": rounded(median([run["p99_ms"] for run in taken]))}


@contextmanager
def _restate(server: Path, folder: Path) -> Iterator[str]:
    ingress, admin, node, service = (free_port() for _ in range(4))
    environment = {
        **os.environ,
        "RESTATE_BASE_DIR": str(folder / "data"),
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    hypercorn = [ENVIRONMENTS / "restate/bin/hypercorn", "restate_service:app", "-w", "1"]
    with (folder / "log").open("wb") as log:
        started = [
            subprocess.Popen([server], env=environment, stdout=log, stderr=log),
            subprocess.Popen(
                [*hypercorn, "--bind", f"127.0.0.1:{service}"], cwd=HERE, stdout=log, stderr=log
            ),
        ]
        try:
            _answers(f"http://127.0.0.1:{admin}/health")
            _answers(f"http://127.0.0.1:{ingress}/restate/health")
            register = urllib.request.Request(
                f"http://127.0.0.1:{admin}/deployments",
                json.dumps({"uri": f"http://127.0.0.1:{service}", "force": True}).encode(),
                {"content-type": "application/json"},
            )
            _answers(register)
            yield f"http://127.0.0.1:{ingress}"
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(20)


def _answers(request: str | urllib.request.Request, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                answer.read()
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def install() -> None:
    """Make every environment of peers.toml; the product's own stays as it is."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    for name, peer in tomllib.loads((HERE / "peers.toml").read_text()).items():
        folder = ENVIRONMENTS / name
        say(f"{name}: {', '.join([*peer['python'], *peer.get('npm', ())])}")
        subprocess.run(
            [uv, "venv", "-q", "--allow-existing", "-p", sys.executable, folder], check=True
        )
        subprocess.run([uv, "pip", "install", "-q", "-p", folder, *peer["python"]], check=True)
        if "npm" in peer:
            node = ENVIRONMENTS / f"{name}-npm"
            node.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["npm", "install", "--silent", "--no-save", "--prefix", node, *peer["npm"]],
                check=True,
            )
