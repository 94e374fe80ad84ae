"""The client of a running server, against servers that misbehave."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.errors import ANSWERS, HttpRefused
from app.remote import Remote, error_of
from core.errors import AckUnknown, Fenced, NotFound, StoreStopped
from ingest import demo
from ingest.files import OpenedFile, walk

TOKEN = "stl_the-token-of-this-server-only"
FILE = sorted(demo.DATA.glob("*.traj.json"))[0]


class Peer:
    """A listener that gives every connection one answer and keeps what it was sent."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.heard: list[bytes] = []
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                sent = connection.recv(65536)
                self.heard.append(sent)
                connection.sendall(self._answer(sent))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@contextmanager
def peer(answer: Callable[[bytes], bytes]) -> Iterator[Peer]:
    made = Peer(answer)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def remote(url: str) -> Iterator[Remote]:
    made = Remote(url, TOKEN)
    try:
        yield made
    finally:
        made.close()


def response(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.fixture
def opened() -> Iterator[OpenedFile]:
    (found,) = walk(FILE)
    assert isinstance(found, OpenedFile)
    with found.file:
        yield found


def test_a_problem_is_the_error_of_its_code() -> None:
    problem = {"code": "fenced", "detail": "epoch 1 is not the newest", "status": 409, "newest": 2}
    answer = response("409 Conflict", json.dumps(problem).encode())
    with peer(lambda _: answer) as server, remote(server.url) as client:
        with pytest.raises(Fenced, match="epoch 1 is not the newest") as caught:
            client.get("/v1/trajectories/t1")
        assert caught.value.data["newest"] == 2
        assert f"bearer {TOKEN}".encode() in server.heard[0].replace(b"Bearer", b"bearer")
    for code in ANSWERS:
        error = error_of({"code": code, "detail": "said"})
        assert str(error) == "said"
        assert error.code == code or isinstance(error, HttpRefused)
    assert isinstance(error_of({"code": "not_found", "detail": "x"}), NotFound)


def test_an_answer_that_is_not_ours_is_no_result() -> None:
    answer = response("502 Bad Gateway", b"<h1>proxy</h1>")
    with peer(lambda _: answer) as server, remote(server.url) as client:
        with pytest.raises(StoreStopped, match="not like a Strandline server"):
            client.get("/v1/trajectories")


def test_a_redirect_is_not_followed() -> None:
    with peer(lambda _: response("200 OK", b"{}")) as other:
        answer = response("307 Temporary Redirect", b"", f"Location: {other.url}/v1/trajectories")
        with peer(lambda _: answer) as server, remote(server.url) as client:
            with pytest.raises(StoreStopped):
                client.get("/v1/trajectories")
            assert len(server.heard) == 1
        assert other.heard == []


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(lambda _: response("200 OK", b'{"by":"proxy"}')) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with peer(lambda _: response("200 OK", b'{"by":"server"}')) as server:
            with remote(server.url) as client:
                assert client.get("/v1/facts") == {"by": "server"}
        assert proxy.heard == []


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nContent-Le"])
def test_a_write_that_is_not_answered_is_unknown(opened: OpenedFile, reply: bytes) -> None:
    with peer(lambda _: reply) as server, remote(server.url) as client:
        with pytest.raises(AckUnknown, match="Run the same command again"):
            client.import_file(opened, lambda done, size, events: None)
        assert server.heard and server.heard[0].startswith(b"POST ")


def test_a_server_that_is_not_there_got_nothing(opened: OpenedFile, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with remote(url) as client:
        with pytest.raises(StoreStopped, match="no server answers"):
            client.import_file(opened, lambda done, size, events: None)
        with pytest.raises(StoreStopped, match="no server answers"):
            client.get("/v1/trajectories")
