"""Serving: uvicorn with bounded request heads, the lock file's URL, and an exit code.

INVARIANTS
1. The head of a request is bounded in bytes and seconds before any of our code sees it.
2. SIGTERM and SIGINT finish what is in flight, within `SHUTDOWN_SECONDS`, and exit 0; while the
   server starts, they end it with nothing served. A thread that does not end by itself does not
   keep the process.
3. Connections are bounded by what the system's descriptors allow: one beyond them is answered 503
   with Retry-After, and the descriptors kept back for files are never taken by connections.
4. A connection whose client takes nothing of what waits for it is dropped within
   STALL_SECONDS_MAX, a stream's within STREAM_STALL_SECONDS_MAX after its last words.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app import auth, errors, logs, metrics, wiring
from app.guards import HEAD_BYTES_MAX
from app.main import create_app
from app.server_scope import EXTENSION
from app.settings import Settings
from core.errors import InvalidInput
from core.limits import CONNECTIONS_MAX, STALL_SECONDS_MAX, STREAM_STALL_SECONDS_MAX

#: A head that has not arrived by then is answered 408.
HEAD_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 5
SHUTDOWN_SECONDS = 5
#: At the end, threads that work for requests may take so long.
LEAVE_SECONDS = 10.0
GC_THRESHOLDS = (5_000, 20, 20)
#: What a stream may have waiting: in the kernel, and in the process before its writer is paused.
STREAM_BUFFER_BYTES = 4096
#: A dropped reader may still take its last words for so long.
LINGER_SECONDS = 2.0
#: Connections beyond the bound whose request is awaited, so that its answer is surely read; those
#: beyond these are answered before they ask.
TURNED_AWAY_MAX = 64
#: They have so long to say what they want.
TURNED_AWAY_SECONDS = 2.0
#: Descriptors that connections leave to the log, readers of it, blobs and uploads.
DESCRIPTORS_KEPT = 256
CONNECTIONS_MIN = 8
#: The soft limit is raised up to this, where the hard one allows it.
DESCRIPTORS_WANTED = CONNECTIONS_MAX + TURNED_AWAY_MAX + 2 * DESCRIPTORS_KEPT
_LOG = structlog.get_logger("server")


class BoundedConfig(uvicorn.Config):
    """uvicorn's settings, and how many connections there may be."""

    connections_max: int = CONNECTIONS_MAX


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which itself would collect a head for ever, take connections until there
    are no descriptors, and wait for a client that never reads."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_bytes = 0
        self._in_head = True
        self._stall_seconds = STALL_SECONDS_MAX
        self._last_words: Callable[[], bytes] | None = None
        self._waiting = 0
        self._taken_at = 0.0
        bound = getattr(self.config, "connections_max", CONNECTIONS_MAX)
        beyond = len(self.connections) - bound
        self._turned_away = beyond > 0
        seconds = TURNED_AWAY_SECONDS if self._turned_away else HEAD_SECONDS
        self._head_timer = self.loop.call_later(seconds, self._head_late)
        if self._turned_away:
            metrics.count_turned_away()
        if beyond > TURNED_AWAY_MAX:
            self._close(*_TURNED_AWAY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._turned_away:
            if not self.transport.is_closing():
                self._close(*_TURNED_AWAY)
            return
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self._close(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_timer.cancel()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is answered as every other refusal is."""
        if not self.transport.is_closing():
            self._close(*_NO_HTTP)

    def _head_late(self) -> None:
        if self._in_head and not self.transport.is_closing():
            self._close(b"408 Request Timeout")

    def _close(self, status: bytes, headers: bytes = b"", body: bytes = b"") -> None:
        self.transport.write(
            b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, headers, len(body), body)
        )
        self.transport.close()

    # --- clients that do not read ------------------------------------------------------------

    def stream(self, last_words: Callable[[], bytes]) -> None:
        """A stream follows on this connection: `app.server_scope.Connection`."""
        self._last_words = last_words
        self._stall_seconds = STREAM_STALL_SECONDS_MAX
        self.transport.set_write_buffer_limits(high=STREAM_BUFFER_BYTES)
        held = self.transport.get_extra_info("socket")
        if held is not None:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, STREAM_BUFFER_BYTES)

    def look(self, now: float) -> None:
        """Drop the connection if its client has taken nothing for too long; called every second."""
        waiting = self.transport.get_write_buffer_size()
        if not waiting or waiting < self._waiting or not self._waiting:
            self._taken_at = now
        self._waiting = waiting
        if waiting and now - self._taken_at >= self._stall_seconds:
            self._drop(now)

    def _drop(self, now: float) -> None:
        metrics.count_dropped()
        if self._last_words is None or self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
            return
        words, self._last_words = self._last_words(), None
        if self.cycle.chunked_encoding:
            words = b"%x\r\n%b\r\n0\r\n\r\n" % (len(words), words)
        self._taken_at, self._stall_seconds = now, LINGER_SECONDS
        self.transport.write(words)
        self._waiting = self.transport.get_write_buffer_size()
        # What the route says from here on goes nowhere, and it learns at once that it may end.
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.flow.resume_writing()
        self.transport.close()


_NO_HTTP = (
    b"400 Bad Request",
    b"content-type: application/problem+json\r\ncache-control: no-store\r\n",
    orjson.dumps(errors.problem("bad_request", "this is no HTTP request that can be read", "")),
)
_TURNED_AWAY = (
    b"503 Service Unavailable",
    b"content-type: application/problem+json\r\nretry-after: 1\r\ncache-control: no-store\r\n",
    orjson.dumps(
        errors.problem("overloaded", "as many connections are open as this server may hold", "")
    ),
)


class Server(uvicorn.Server):
    """uvicorn's server, which says when it listens and when it stops, and watches its clients."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        listening: Callable[[], None],
        stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._listening = listening
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if not self.should_exit:
            self._listening()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedHttp):
                    connection.look(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets=sockets)


def serve(settings: Settings, *, announce: Callable[[str], None]) -> int:
    """Serve until stopped; the exit code. `announce(url)` is called once requests are taken.

    Raises InvalidInput where the port is taken or the settings are open to strangers, and what
    opening the store raises.
    """
    settings.checked_to_serve()
    logs.configure(settings.log_level, settings.log_format)
    stopped = _Stopped()
    with listener(settings) as bound:
        # What a start has written by then is whole or found unfinished by the next one.
        parts = wiring.open_parts(settings)
        try:
            exit_code = 0 if stopped.asked else _run(settings, parts, bound, announce, stopped)
        finally:
            parts.close()
    _leave(exit_code)
    return exit_code


class _Stopped:
    """The signals that stop a server: noted from here on, handled by uvicorn while it serves."""

    def __init__(self) -> None:
        self.asked = False
        self.server: uvicorn.Server | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        if self.asked and self.server is None:
            os._exit(0)  # Asked twice: a start may be cut off anywhere, as by a power failure.
        self.asked = True
        if self.server is not None:
            # Before uvicorn handles signals, and when it raises them again once it has stopped.
            self.server.should_exit = True


def _leave(exit_code: int) -> None:
    """End the process here if a thread is left that would keep it, or that is still at work."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    end = time.monotonic() + LEAVE_SECONDS
    for thread in others:
        if not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
    left = [thread.name for thread in others if thread.is_alive()]
    if left:
        _LOG.warning("ended without waiting for all threads", threads=left[:8])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _run(
    settings: Settings,
    parts: wiring.Parts,
    bound: socket.socket,
    announce: Callable[[str], None],
    stopped: _Stopped,
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

    def stopping() -> None:
        app.state.tails.end()

    app = create_app(settings, parts=parts, local_token=local_token, stop=stop)
    config = BoundedConfig(
        app,
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
    config.connections_max = connections_max()
    server = Server(config, listening=listening, stopping=stopping)
    stopped.server = server
    if stopped.asked:
        return 0
    # Uploads wait beside the data they will become, not in a /tmp that may be memory.
    tempfile.tempdir = str(parts.uploads)
    server.run(sockets=[bound])
    _LOG.info("stopped", exit_code=exit_code)
    return exit_code


def connections_max() -> int:
    """How many connections this process may hold; raises its soft limit on descriptors first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    held = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 64
    kept = min(DESCRIPTORS_KEPT, soft // 3)
    found = min(CONNECTIONS_MAX, soft - held - kept - TURNED_AWAY_MAX)
    if found < CONNECTIONS_MIN:
        _LOG.warning("the limit on open files is low; few connections can be held", limit=soft)
    return max(CONNECTIONS_MIN, found)


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
