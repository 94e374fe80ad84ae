"""Serving: uvicorn with bounded request heads, the lock file's URL, and an exit code.

INVARIANTS
1. The head of a request is bounded in bytes and seconds before any of our code sees it.
2. SIGTERM and SIGINT finish what is in flight, within `SHUTDOWN_SECONDS`, and exit 0.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import tempfile
from collections.abc import Callable

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app import auth, logs, wiring
from app.guards import HEAD_BYTES_MAX
from app.main import create_app
from app.settings import Settings
from core.errors import InvalidInput

#: A head that has not arrived by then is answered 408.
HEAD_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 5
SHUTDOWN_SECONDS = 5
GC_THRESHOLDS = (5_000, 20, 20)
_LOG = structlog.get_logger("server")


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which itself would collect a head for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self._close(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_timer.cancel()
        super().on_headers_complete()

    def _head_late(self) -> None:
        if self._in_head and not self.transport.is_closing():
            self._close(b"408 Request Timeout")

    def _close(self, status: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server, which says when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._listening()


def serve(settings: Settings, *, announce: Callable[[str], None]) -> int:
    """Serve until stopped; the exit code. `announce(url)` is called once requests are taken.

    Raises InvalidInput where the port is taken or the settings are open to strangers, and what
    opening the store raises.
    """
    settings.checked_to_serve()
    logs.configure(settings.log_level, settings.log_format)
    with listener(settings) as bound:
        parts = wiring.open_parts(settings)
        try:
            return _run(settings, parts, bound, announce)
        finally:
            parts.close()


def _run(
    settings: Settings,
    parts: wiring.Parts,
    bound: socket.socket,
    announce: Callable[[str], None],
) -> int:
    url = _url(settings, bound)
    local_token = auth.mint()
    exit_code = 0

    def stop(code: int) -> None:
        nonlocal exit_code
        exit_code = code
        server.should_exit = True

    def listening() -> None:
        # What was imported lives as long as the process: the collector need not walk it for
        # every few requests, which cost a fifth of an append.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        parts.publish(url, local_token)
        _LOG.info("serving", url=url, data=str(parts.folder), version=wiring.version())
        announce(url)

    config = uvicorn.Config(
        create_app(settings, parts=parts, local_token=local_token, stop=stop),
        http=BoundedHttp,
        loop="uvloop",
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = Server(config, listening)
    # uvicorn raises the signal again once it has stopped; a stop that was asked for is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # Uploads wait beside the data they will become, not in a /tmp that may be memory.
    tempfile.tempdir = str(parts.uploads)
    server.run(sockets=[bound])
    _LOG.info("stopped", exit_code=exit_code)
    return exit_code


def listener(settings: Settings) -> socket.socket:
    """A bound socket; InvalidInput where the address or port cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise InvalidInput(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}. Choose "
            "another with --port (0 lets the system choose)",
            field="port",
        ) from error
    return bound


def _url(settings: Settings, bound: socket.socket) -> str:
    host = settings.host
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{bound.getsockname()[1]}"
