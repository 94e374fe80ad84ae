"""The real server as a child: bad sockets, signals, a disk that fails, a second server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from app.server import HEAD_BYTES_MAX
from tests import served
from tests.require import need
from tests.served import Serving
from tests.web.api_world import append, claim, create, note, owned, problem


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served.serving(tmp_path_factory.mktemp("server") / "data") as running:
        with client_of(running) as client:
            owned(client)
        yield running
        assert running.process.poll() is None, "the server did not survive"
        with client_of(running) as client:
            assert client.get("/readyz").status_code == 200


def client_of(running: Serving) -> httpx2.Client:
    return httpx2.Client(base_url=running.url, timeout=30)


def connect(running: Serving) -> socket.socket:
    parts = urlsplit(running.url)
    assert parts.hostname and parts.port
    made = socket.create_connection((parts.hostname, parts.port), timeout=30)
    return made


def said(connection: socket.socket, text: bytes) -> bytes:
    """Send, then read to the end."""
    connection.sendall(text)
    return rest(connection)


def rest(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


HEAD = b"POST /v1/trajectories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def test_a_large_body_is_refused_with_flat_memory(server: Serving) -> None:
    before = rss_mb(server.process.pid)
    with connect(server) as connection:
        text = HEAD + b"Content-Length: 209715200\r\n\r\n" + b"x" * 100_000
        answer = said(connection, text)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"body_too_large" in answer
    with connect(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        # It is closed on us long before 200 MB.
        with pytest.raises(OSError):
            for _ in range(3200):
                connection.sendall(chunk)
    assert rss_mb(server.process.pid) - before < 64


def test_a_head_that_never_ends_is_closed(server: Serving) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Huge: ")
        with pytest.raises(OSError):
            for _ in range(1024):
                connection.sendall(b"a" * 65536)
    with connect(server) as connection:
        text = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Huge: " + b"a" * (HEAD_BYTES_MAX + 9)
        answer = said(connection, text + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_two_lengths_are_not_two_requests(server: Serving) -> None:
    with connect(server) as connection:
        answer = said(
            connection,
            HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        )
    assert b" 200 " not in answer


def test_a_head_is_a_get_without_its_body(server: Serving) -> None:
    """Also where the body is streamed, or refused; the connection goes on, the log is quiet."""
    paths = ("/", "/livez", "/v1/trajectories/t1/export", "/v1/blobs", "/nothing")
    with connect(server) as connection:
        for path in paths:
            connection.sendall(f"HEAD {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                chunk = connection.recv(65536)
                assert chunk, path
                answer += chunk
            assert answer.startswith(b"HTTP/1.1 ") and answer.count(b"\r\n\r\n") == 1
        text = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        assert said(connection, text).endswith(b'{"live":true}')
    assert '"level":"error"' not in server.log.read_text()


@pytest.mark.parametrize("text", [b"\x16\x03\x01\x02\x00\x01\x00", b"GARBAGE\r\n\r\n",
                                  b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n"])  # fmt: skip
def test_what_is_not_http_is_refused(server: Serving, text: bytes) -> None:
    with connect(server) as connection:
        connection.settimeout(5)
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in answer and b'"bad_request"' in answer


def test_a_client_that_leaves_in_the_middle_changes_nothing(server: Serving) -> None:
    with client_of(server) as client:
        head = client.get("/v1/trajectories/t1").json()["head"]
    for length in (1, 200):
        with connect(server) as connection:
            path = b"POST /v1/trajectories/t1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            connection.sendall(path + b"Content-Type: application/json\r\n")
            connection.sendall(b"Content-Length: 300\r\n\r\n" + b"{" * length)
    with connect(server) as connection:
        connection.sendall(b"POST /v1/imports HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        connection.sendall(b"Content-Length: 300\r\n\r\n{")
        time.sleep(0.2)
    with client_of(server) as client:
        assert client.get("/v1/trajectories/t1").json()["head"] == head
    deadline = time.monotonic() + 10
    while '"path":"/v1/imports","status":400' not in server.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert '"level":"error"' not in server.log.read_text()


def test_a_slow_head_and_a_slow_body_end(tmp_path: Path) -> None:
    """In a server of its own whose deadlines are short."""
    program = (
        "import sys, app.server, app.guards as g\n"
        "app.server.HEAD_SECONDS = 0.5\n"
        "g.WRITE = g.RouteClass('write', g.WRITE.body_bytes, 0.5, 9)\n"
        "import app.cli\n"
        f"sys.argv = ['strandline', 'serve', '--port', '0', '--data', {str(tmp_path / 'data')!r}]\n"
        "app.cli.main()\n"
    )
    process = subprocess.Popen(
        [served.MAIN[0], "-c", program], env=served.environment(), stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, cwd=served.ROOT,
    )  # fmt: skip
    try:
        url = served._url(process, tmp_path / "data", tmp_path / "none.log")
        running = Serving(process, tmp_path / "data", url, tmp_path / "none.log")
        with connect(running) as head, connect(running) as body, connect(running) as idle:
            head.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0")
            body.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
            assert rest(head).startswith(b"HTTP/1.1 408 ")
            slow = rest(body)
            assert slow.startswith(b"HTTP/1.1 408 ") and b"body_timeout" in slow
            assert rest(idle).startswith(b"HTTP/1.1 408 ")
        with client_of(running) as client:
            assert client.get("/livez").status_code == 200
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_many_writers_at_once_are_each_answered_once(server: Serving) -> None:
    per_thread, threads = 25, 16
    failures: list[str] = []

    def work(number: int) -> None:
        parts = urlsplit(server.url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        for one in range(per_thread):
            body = {"owner_epoch": 1, "worker": "w1", "request_id": f"m{number}.{one}",
                    "events": [note(f"m{number}.{one}")]}  # fmt: skip
            connection.request("POST", "/v1/trajectories/t1/events", json.dumps(body),
                               {"Content-Type": "application/json"})  # fmt: skip
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 201:
                failures.append(text.decode())
        connection.close()

    with client_of(server) as client:
        before = client.get("/v1/trajectories/t1").json()["head"]
        pool = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        assert failures == []
        after = client.get("/v1/trajectories/t1").json()["head"]
        assert after - before == per_thread * threads
        metrics = client.get("/metrics").text
        members = float(metrics.split("\nstrandline_store_members_total ")[1].split()[0])
        groups = float(metrics.split("\nstrandline_store_groups_total ")[1].split()[0])
        assert groups < members, "nothing was committed together"
        last = json.loads(client.get("/v1/trajectories/t1/verify").text.splitlines()[-1])
        assert (last["verified_to"], last["findings"]) == (after, 0)


# --- the lock, signals, crashes ---------------------------------------------------------------


def test_the_lock_file_names_the_server_to_its_owner_only(server: Serving) -> None:
    lock = server.data / "strandline.lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    found = server.lock
    assert (found["pid"], found["url"]) == (server.process.pid, server.url)
    assert found["token"].startswith("stl_") and len(found["token"]) > 40
    with client_of(server) as client:
        answer = client.get("/v1/facts", headers={"authorization": f"Bearer {found['token']}"})
        assert answer.status_code == 200
    assert found["token"] not in server.log.read_text()


def test_a_second_server_is_refused_and_names_the_first(server: Serving) -> None:
    second = served.run("serve", "--data", server.data, "--port", "0")
    assert second.code == 6
    assert f"process {server.process.pid}" in second.err
    assert server.lock["token"] not in second.err + second.out
    assert server.process.poll() is None


def test_sigterm_finishes_and_exits_0(tmp_path: Path) -> None:
    with served.serving(tmp_path / "data") as running:
        with client_of(running) as client:
            owned(client)
            append(client, note("e1"))
        with connect(running):  # an idle connection does not keep it
            started = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - started < 10
        assert (running.data / "strandline.lock").read_text() == ""
    assert served.run("verify", "--data", tmp_path / "data").code == 0


def test_after_kill_9_everything_acknowledged_is_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acknowledged: list[int] = []
    with served.serving(data) as running:
        with client_of(running) as client:
            owned(client)

            def pour() -> None:
                try:
                    for number in range(10_000):
                        answer = append(client, note(f"e{number}"))
                        acknowledged.extend(answer.json()["sequence_numbers"])
                except (httpx2.HTTPError, ValueError):
                    return

            thread = threading.Thread(target=pour)
            thread.start()
            while len(acknowledged) < 50:
                time.sleep(0.01)
            running.process.kill()
            running.process.wait(30)
            thread.join()
        # The file it left names a dead process; it owns nothing.
        assert running.lock["pid"] == running.process.pid
    with served.serving(data) as again, client_of(again) as client:
        head = client.get("/v1/trajectories/t1").json()["head"]
        assert acknowledged[-1] <= head <= acknowledged[-1] + 1
        last = json.loads(client.get("/v1/trajectories/t1/verify").text.splitlines()[-1])
        assert (last["verified_to"], last["findings"]) == (head, 0)
        assert claim(client, request_id="claim-2") == 2


def test_a_failed_barrier_is_unknown_and_ends_the_server_with_70(tmp_path: Path) -> None:
    strace = need("strace")
    with served.serving(tmp_path / "data") as running:
        with client_of(running) as client:
            owned(client)
            tracer = subprocess.Popen(
                [strace, "-f", "-qq", "-p", str(running.process.pid), "-e", "signal=none",
                 "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO",
                 "-o", str(tmp_path / "trace")],
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                deadline = time.monotonic() + 20
                while "TracerPid:\t0" in Path(f"/proc/{running.process.pid}/status").read_text():
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                time.sleep(0.3)  # every thread is attached
                answer = append(client, note("e1"))
                found = problem(answer, 503, "ack_unknown")
                assert found["outcome"] == "unknown"
                assert answer.headers["retry-after"]
                assert running.process.wait(30) == 70
            finally:
                tracer.terminate()
                tracer.wait(10)
        assert "EIO" in (tmp_path / "trace").read_text(), "the fault did not occur"
        assert "durable barrier failed" in running.log.read_text()
    # The next start copies the log out and verifies it; the identical request is then answered.
    with served.serving(tmp_path / "data") as again, client_of(again) as client:
        assert client.get("/readyz").json() == {"ready": True, "state": "open", "reasons": []}
        assert (again.data / "CURRENT").read_text().strip() == "store-000002.db"
        retried = append(client, note("e1"))
        assert (retried.status_code, retried.json()["sequence_numbers"]) == (201, [3])
        last = json.loads(client.get("/v1/trajectories/t1/verify").text.splitlines()[-1])
        assert (last["verified_to"], last["findings"]) == (3, 0)


def test_a_full_disk_is_507_reads_go_on_and_writes_come_back(tmp_path: Path) -> None:
    need("root")
    mount = tmp_path / "small"
    mount.mkdir()
    image = tmp_path / "image"
    with image.open("wb") as out:
        out.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(mount)], check=False, capture_output=True
    )
    need("root", mounted.returncode == 0, "loop mounts are not possible here")
    try:
        with served.serving(mount / "data") as running, client_of(running) as client:
            owned(client)
            filler = mount / "filler"
            _fill(filler)
            answers = [append(client, *_batch(number)) for number in range(80)]
            refused = [answer for answer in answers if answer.status_code != 201]
            assert refused, "the disk never filled"
            found = problem(refused[-1], 507, "store_full")
            assert found["outcome"] == "refused"
            assert refused[-1].headers["retry-after"]
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["reasons"]) == (503, ["full"])
            # These bodies find no room before the store is asked.
            large = os.urandom(4 << 20)
            for path in ("/v1/blobs", "/v1/imports"):
                problem(client.post(path, content=large), 507, "store_full")
            form = client.post("/import", files={"files": ("a.traj.json", large)})
            problem(form, 507, "store_full")
            assert client.get("/v1/trajectories/t1/record/head").status_code == 200
            filler.unlink()
            deadline = time.monotonic() + 60
            while append(client, *_batch(500)).status_code != 201:
                assert time.monotonic() < deadline, "writes did not come back"
                time.sleep(0.5)
            assert client.get("/readyz").status_code == 200
            assert running.stop() == 0
        assert served.run("verify", "--data", mount / "data").code == 0
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb") as out:
        try:
            while True:
                out.write(b"\0" * 65536)
                out.flush()
        except OSError:
            pass


def _batch(number: int) -> list[dict[str, object]]:
    return [note(f"f{number}.{one}", text="x" * 4000) for one in range(100)]


# --- beyond this machine ----------------------------------------------------------------------


def test_beyond_this_machine_a_token_is_needed_to_start_and_to_read(tmp_path: Path) -> None:
    refused = served.run("serve", "--host", "0.0.0.0", "--port", "0", "--data", tmp_path / "data")
    assert refused.code == 2
    assert "STRANDLINE_TOKEN" in refused.err
    weak = served.run("serve", "--data", tmp_path / "d", env={"STRANDLINE_TOKEN": "short"})
    assert weak.code == 2 and "weak" in weak.err
    token = "0123456789abcdefghij"
    with (
        served.serving(
            tmp_path / "data", "--host", "0.0.0.0", env={"STRANDLINE_TOKEN": token}
        ) as running,
        client_of(running) as client,
    ):
        assert client.get("/").status_code == 401
        assert client.get("/livez").status_code == 200
        assert client.get("/", auth=("any", token)).status_code == 200
        # Commands on this machine need no token: the lock file has one for them.
        assert served.run("list", "--data", tmp_path / "data").code == 0
        assert served.run("list", "--server", running.url).code == 6
        env = {"STRANDLINE_TOKEN": token}
        assert served.run("list", "--server", running.url, env=env).code == 0


def test_a_port_that_is_taken_is_said(server: Serving, tmp_path: Path) -> None:
    port = str(urlsplit(server.url).port)
    taken = served.run("serve", "--port", port, "--data", tmp_path / "other")
    assert taken.code == 2
    assert f"port {port}" in taken.err and "--port" in taken.err
    assert not (tmp_path / "other" / "CURRENT").exists()


def test_it_starts_without_a_home_in_a_bare_locale(tmp_path: Path) -> None:
    """And SIGINT ends it as SIGTERM does."""
    env = {"LC_ALL": "C", "LANG": "C", "HOME": "/nonexistent"}
    data = tmp_path / "päth with späces %25 #"
    with served.serving(data, env=env) as running, client_of(running) as client:
        create(client)
        assert running.stop(signal.SIGINT) == 0
