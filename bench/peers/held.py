"""What every viewer's script does: wait for its server, weigh it, say what it found, stay.

Runs in a peer's environment: nothing of the product is imported here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float) -> float:
    """Seconds until `url` answers 200."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if process.poll() is not None:
            raise SystemExit("the server ended before it answered")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return time.perf_counter() - began
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server did not answer")


def memory_mb(pid: int) -> float:
    """Resident memory of a process and its children, in MB (10^6 bytes)."""
    kilobytes = 0
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS"):
                    kilobytes = int(line.split()[1])
    except OSError:
        return 0.0
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return kilobytes * 1024 / 1e6 + sum(memory_mb(int(child)) for child in children)


def milliseconds(action: Callable[[], Any], count: int) -> list[float]:
    """Durations of `count` calls."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def hold(said: dict[str, object]) -> None:
    """Say what was found and where pages are, then stay until the caller closes our input."""
    print(json.dumps(said), flush=True)
    sys.stdin.read()
