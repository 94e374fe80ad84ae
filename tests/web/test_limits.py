"""Too many, too slow, too far away: what a real server answers, and that it goes on (D 39)."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from core.limits import QUEUE_MEMBERS_MAX, STREAMS_PER_CALLER_MAX
from tests import served
from tests.require import need
from tests.served import Serving
from tests.web.api_world import append, note, owned

APPENDS = 10_000
#: A server whose streams are paced, and whose patience is short, so that a test need not wait.
HASTY = """
import sys, app.pages.live, app.server, app.tails
sys.modules["app.pages.live"].PACE_SECONDS = app.tails.GATHER_SECONDS = 0.0
app.server.STREAM_STALL_SECONDS_MAX = 1.0
app.server.LINGER_SECONDS = {linger}
app.server.STALL_SECONDS_MAX = 2.0
import app.cli
sys.argv = ['strandline', 'serve', '--port', '0', '--data', {data!r}]
app.cli.main()
"""


def client_of(running: Serving) -> httpx2.Client:
    return httpx2.Client(base_url=running.url, timeout=60)


def connect(running: Serving, *, receive_bytes: int | None = None) -> socket.socket:
    parts = urlsplit(running.url)
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(30)
    made.connect((parts.hostname, parts.port))
    return made


def head_of(running: Serving) -> int:
    with client_of(running) as client:
        return int(client.get("/v1/trajectories/t1").json()["head"])


def metric(running: Serving, name: str) -> float:
    with client_of(running) as client:
        text = client.get("/metrics").text
    return float(text.split(f"\n{name} ")[1].split()[0])


@contextmanager
def hasty(folder: Path, *, linger: float = 0.5) -> Iterator[Serving]:
    """A server of HASTY with an owned trajectory `t1`."""
    data, log = folder / "data", folder / "hasty.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", HASTY.format(data=str(data), linger=linger)],
            env=served.environment(),
            stdout=stream,
            stderr=stream,
        )
        try:
            running = Serving(process, data, served._url(process, data, log), log)
            with client_of(running) as client:
                owned(client)
            yield running
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served.serving(tmp_path_factory.mktemp("limits") / "data") as running:
        with client_of(running) as client:
            owned(client)
        yield running
        assert running.process.poll() is None, "the server did not survive"


# --- ten thousand at once ---------------------------------------------------------------------


def _append_bytes(number: int) -> bytes:
    body = json.dumps(
        {"owner_epoch": 1, "worker": "w1", "request_id": f"n{number}",
         "events": [note(f"n{number}")]}
    ).encode()  # fmt: skip
    return (
        b"POST /v1/trajectories/t1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


async def _once(host: str, port: int, number: int, ready: asyncio.Event) -> tuple[int, bytes]:
    """Connect, wait until all have connected, send; (status, answer)."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await ready.wait()
        writer.write(_append_bytes(number))
        answer = await reader.read()
    finally:
        writer.close()
    if not answer:
        raise ConnectionResetError("Reset")
    return int(answer[9:12]), answer


async def _wave(url: str, numbers: list[int]) -> dict[int, tuple[int, bytes]]:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    ready = asyncio.Event()
    tasks = [asyncio.ensure_future(_once(parts.hostname, parts.port, n, ready)) for n in numbers]
    await asyncio.sleep(2.0)
    ready.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    return {
        number: answer if isinstance(answer, tuple) else (0, repr(answer).encode())
        for number, answer in zip(numbers, answers, strict=True)
    }


def test_ten_thousand_appends_at_once_are_each_answered_and_none_is_lost(server: Serving) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = APPENDS + 500
    need("descriptors", hard in (-1, *range(wanted, hard + 1)), f"fewer than {wanted} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    peak = _Peak(server.process.pid)
    try:
        before = head_of(server)
        waiting, rounds, stored = list(range(APPENDS)), 0, 0
        while waiting:
            rounds += 1
            assert rounds <= 20, f"{len(waiting)} were still refused"
            found = asyncio.run(_wave(server.url, waiting))
            statuses = Counter(status for status, _ in found.values())
            for status, answer in found.values():
                if status == 503:
                    assert b"retry-after:" in answer.lower(), answer[:300]
                    assert b'"outcome":"refused"' in answer, answer[-300:]
                elif status == 201:
                    stored += 1
                elif status != 408:  # Slow cores took longer than a head may wait: not read.
                    # Closed before it was read: nothing was said, so nothing may be concluded.
                    assert status == 0 and b"Reset" in answer, (status, answer[:300])
            if rounds == 1:
                assert statuses[201] > 0 and statuses[503] > 0, statuses
            waiting = [number for number, (status, _) in found.items() if status != 201]
        assert stored == APPENDS
        assert head_of(server) - before == APPENDS
        # 4,096 in the queue at most, about 20 KB for each connection, and nothing that grows.
        assert peak.stop() < 600
        with client_of(server) as client:
            ready = client.get("/readyz")
            assert ready.status_code == 200, ready.text
            facts = client.get("/metrics").text
        queued = float(facts.split("\nstrandline_store_queue_members ")[1].split()[0])
        assert queued <= QUEUE_MEMBERS_MAX
    finally:
        peak.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class _Peak:
    """The most memory a process held while it was watched, in MB."""

    def __init__(self, pid: int) -> None:
        self._statm = Path(f"/proc/{pid}/statm")
        self._most = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            pages = int(self._statm.read_text().split()[1])
            self._most = max(self._most, pages * os.sysconf("SC_PAGESIZE") / 2**20)

    def stop(self) -> float:
        self._stop.set()
        self._thread.join()
        return self._most


# --- far away, and never reading --------------------------------------------------------------


class _Relay:
    """Passes bytes on, each a second and a half late in either direction."""

    SECONDS = 1.5

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(self._target)
        self._sockets += near, far
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                time.sleep(self.SECONDS)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            one.close()


def test_a_client_three_seconds_away_is_answered_and_holds_up_nobody(server: Serving) -> None:
    parts = urlsplit(server.url)
    assert parts.hostname and parts.port
    relay = _Relay(parts.hostname, parts.port)
    answered: list[tuple[float, int]] = []

    def far() -> None:
        began = time.monotonic()
        with httpx2.Client(base_url=f"http://127.0.0.1:{relay.port}", timeout=30) as client:
            status = append(client, note("far"), request_id="far").status_code
        answered.append((time.monotonic() - began, status))

    thread = threading.Thread(target=far)
    thread.start()
    waits = []
    with client_of(server) as client:
        number = 0
        while thread.is_alive():
            began = time.monotonic()
            answer = append(client, note(f"near{number}"), request_id=f"near{number}")
            assert answer.status_code == 201
            waits.append(time.monotonic() - began)
            number += 1
            time.sleep(0.01)
    relay.close()
    assert answered[0][1] == 201 and answered[0][0] >= 3.0
    assert len(waits) > 20 and max(waits) < 1.5, (len(waits), max(waits))


def _stream(running: Serving, path: str, *, receive_bytes: int | None = None) -> socket.socket:
    made = connect(running, receive_bytes=receive_bytes)
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return made


def _grow(running: Serving, until: threading.Event, name: str) -> threading.Thread:
    """Append in a thread, so that a stream has something to say, until told to stop."""

    def work() -> None:
        with client_of(running) as client:
            number = 0
            while not until.is_set():
                append(client, note(f"{name}{number}"), request_id=f"{name}{number}")
                number += 1

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("late", [False, True])
def test_a_reader_that_never_reads_is_dropped_and_goes_on_from_its_token(
    tmp_path: Path, late: bool
) -> None:
    """`late`: it wakes up in time to read its last words."""
    with hasty(tmp_path, linger=20.0 if late else 0.5) as running:
        stop = threading.Event()
        grower = _grow(running, stop, "g")
        slow = _stream(running, "/t/t1/live?after=2", receive_bytes=2048)
        try:
            deadline = time.monotonic() + 30
            while metric(running, "strandline_http_connections_dropped_total") < 1:
                assert time.monotonic() < deadline, "it was never dropped"
                time.sleep(0.1)
            if not late:
                while metric(running, "strandline_http_connections_dropped_total") < 2:
                    assert time.monotonic() < deadline, "its descriptor was never given back"
                    time.sleep(0.1)
        finally:
            stop.set()
            grower.join()
        received = b""
        try:
            while chunk := slow.recv(65536):
                received += chunk
        except ConnectionResetError:
            assert not late
        slow.close()
        assert received.startswith(b"HTTP/1.1 200 ")
        told = [line[4:] for line in received.decode().splitlines() if line.startswith("id: ")]
        whole = received.decode().rpartition("\n\n")[0]
        token = int([line[4:] for line in whole.splitlines() if line.startswith("id: ")][-1])
        if late:
            assert "event: dropped" in whole and received.endswith(b"0\r\n\r\n")
        head = head_of(running)
        assert 2 <= token < head and len(told) > 1
        with httpx2.Client(base_url=running.url, timeout=30) as client:
            again = {"Last-Event-ID": str(token)}
            with client.stream("GET", "/t/t1/live?after=2", headers=again) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        assert int(line[6:]) == head, "what was missed is told by one number"
                        break


def test_an_answer_that_nobody_reads_does_not_hold_its_connection(tmp_path: Path) -> None:
    with hasty(tmp_path) as running:
        with client_of(running) as client:
            for number in range(40):
                append(client, *[note(f"f{number}.{one}", text="x" * 12_000) for one in range(40)])
        readers = [_stream(running, "/v1/trajectories/t1/export") for _ in range(9)]
        deadline = time.monotonic() + 30
        while metric(running, "strandline_http_connections_dropped_total") < 8:
            assert time.monotonic() < deadline, "exports without a reader hold their places"
            time.sleep(0.1)
        with client_of(running) as client:
            assert client.get("/v1/trajectories/t1/export").status_code == 200
        for reader in readers:
            reader.close()


# --- bounds on streams and connections --------------------------------------------------------


def test_streams_of_one_caller_are_bounded_and_others_are_read(server: Serving) -> None:
    with ExitStack() as stack:
        for _ in range(STREAMS_PER_CALLER_MAX):
            one = stack.enter_context(_stream(server, "/t/t1/live?after=1"))
            assert one.recv(12) == b"HTTP/1.1 200"
        refused = stack.enter_context(_stream(server, "/t/t1/live"))
        answer = refused.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in answer.lower()
        with client_of(server) as client:
            assert client.get("/", headers={"accept": "text/html"}).status_code == 200
    deadline = time.monotonic() + 10
    while True:
        with _stream(server, "/t/t1/live") as again:
            if again.recv(12) == b"HTTP/1.1 200":
                break
        assert time.monotonic() < deadline, "places were not given back"
        time.sleep(0.1)


def test_streams_end_at_once_when_the_server_stops(tmp_path: Path) -> None:
    with served.serving(tmp_path / "data") as running:
        with client_of(running) as client:
            owned(client)
        with _stream(running, "/t/t1/live") as one, _stream(running, "/trajectories/live") as other:
            assert one.recv(12) == other.recv(12) == b"HTTP/1.1 200"
            time.sleep(0.3)
            began = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - began < 4


def test_where_descriptors_run_out_it_says_so_and_goes_on_listening(tmp_path: Path) -> None:
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256));"
        "import app.cli;"
        f"sys.argv = ['strandline', 'serve', '--port', '0', '--data', {str(tmp_path / 'd')!r}];"
        "app.cli.main()"
    )
    log = tmp_path / "log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", limited],
            env=served.environment(),
            stdout=stream,
            stderr=stream,
        )
    try:
        running = Serving(process, tmp_path / "d", served._url(process, tmp_path / "d", log), log)
        with client_of(running) as client:
            owned(client)
        with ExitStack() as stack:
            held = [stack.enter_context(connect(running)) for _ in range(400)]
            time.sleep(0.5)
            answers = Counter[str]()
            for one in held:
                try:
                    one.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    said = one.recv(65536)
                except OSError:
                    said = b""
                if said.startswith(b"HTTP/1.1 503 "):
                    assert b"retry-after: 1" in said and b'"code":"overloaded"' in said
                answers[said[9:12].decode() or "closed"] += 1
            assert answers["200"] >= 50 and answers["503"] >= 20, answers
            # Files are still to be had: a write needs the log, and a page its readers.
            assert len(os.listdir(f"/proc/{process.pid}/fd")) < 256
        with client_of(running) as client:
            assert append(client, note("after")).status_code == 201
            assert client.get("/", headers={"accept": "text/html"}).status_code == 200
        # And where the limit falls below what is held already, it waits and comes back.
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (8, 256))
        late = connect(running)
        late.settimeout(0.5)
        with pytest.raises(OSError):
            late.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if late.recv(100) == b"":
                raise ConnectionResetError
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
        late.close()
        with client_of(running) as client:
            assert client.get("/livez").status_code == 200
        assert "Traceback" not in log.read_text()
    finally:
        process.terminate()
        assert process.wait(30) == 0
