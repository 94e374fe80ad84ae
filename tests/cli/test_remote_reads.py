"""A server that stops in the middle: of what was only asked, and of an import it has taken."""

from __future__ import annotations

import socket
import threading

import pytest

from app.remote import Remote
from core.errors import AckUnknown, StoreStopped
from ingest import demo
from ingest.files import OpenedFile, walk


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"])
@pytest.mark.parametrize("verb", ["get", "lines"])
def test_a_read_that_is_not_answered_stores_nothing_and_says_so(reply: bytes, verb: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply)

        peer = threading.Thread(target=answer, daemon=True)
        peer.start()
        client = Remote(f"http://127.0.0.1:{listener.getsockname()[1]}", None)
        try:
            with pytest.raises(StoreStopped, match="nothing was to be stored"):
                list(getattr(client, verb)("/v1/audit"))
        finally:
            client.close()
        peer.join(10)


def test_an_import_whose_server_goes_away_before_its_report_is_unknown() -> None:
    body = b'{"state":"running","url":"/v1/imports/0"}'
    taken = b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    (opened,) = walk(sorted(demo.DATA.glob("*.traj.json"))[0])
    assert isinstance(opened, OpenedFile)
    with opened.file, socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            listener.close()
            with connection:
                received = b""
                while len(received.partition(b"\r\n\r\n")[2]) < opened.size:
                    received += connection.recv(65536)
                connection.sendall(taken + body)

        peer = threading.Thread(target=answer, daemon=True)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        peer.start()
        client = Remote(url, None)
        try:
            with pytest.raises(AckUnknown, match="Run the same command again"):
                client.import_file(opened, lambda done, size, events: None)
        finally:
            client.close()
        peer.join(10)
