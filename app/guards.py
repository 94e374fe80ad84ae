"""What every request passes before a route sees it, as plain ASGI: refuse early, refuse cheaply.

INVARIANTS
1. Every answer carries the request's id, and the headers of `SECURITY_HEADERS`.
2. A Host that this server does not answer to is refused before anything is read (DNS rebinding).
3. An unsafe method without a Bearer credential must come from our own origin; the list of safe
   methods is an allow-list (GET, HEAD, OPTIONS).
4. A body beyond its route's bytes, or later than its seconds, is refused without being held.
5. Requests in flight are bounded per class, so that imports cannot starve appends (APP-7).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils.compat import uuid7

from app import auth, errors, logs, metrics
from app.settings import Settings
from core.errors import RateLimited, StrandlineError
from core.limits import (
    APPEND_BODY_BYTES_MAX,
    BLOB_BYTES_MAX,
    BODY_BYTES_MAX,
    BODY_SECONDS_MAX,
    IMPORT_BODY_SECONDS_MAX,
    IMPORT_BYTES_MAX,
    QUEUE_MEMBERS_MAX,
)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Names and values of one request's headers together; browsers send about 2 KB.
HEAD_BYTES_MAX = 64 * 1024
#: Framing of a multipart upload around the file itself.
MULTIPART_BYTES = 64 * 1024
#: The hash is that of the empty inline style, which the chart library sets on elements.
CSP = (
    "default-src 'none'; script-src 'self'; "
    "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS: tuple[tuple[str, str], ...] = (
    ("Content-Security-Policy", CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_LOG = structlog.get_logger("http")


@dataclass(frozen=True, slots=True)
class RouteClass:
    """Bounds that requests of one kind share."""

    name: str
    body_bytes: int
    body_seconds: float
    in_flight: int


APPEND = RouteClass("append", APPEND_BODY_BYTES_MAX, BODY_SECONDS_MAX, QUEUE_MEMBERS_MAX)
BLOB = RouteClass("blob", BLOB_BYTES_MAX, IMPORT_BODY_SECONDS_MAX, 16)
IMPORT = RouteClass("import", IMPORT_BYTES_MAX + MULTIPART_BYTES, IMPORT_BODY_SECONDS_MAX, 8)
WRITE = RouteClass("write", BODY_BYTES_MAX, BODY_SECONDS_MAX, 256)
READ = RouteClass("read", 0, BODY_SECONDS_MAX, 256)
#: Reads that go through a whole log or store.
SCAN = RouteClass("scan", 0, BODY_SECONDS_MAX, 8)
PROBE = RouteClass("probe", 0, BODY_SECONDS_MAX, 64)

_PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_SCANS = ("/verify", "/export", "/v1/audit")


def route_class(method: str, path: str) -> RouteClass:
    """Which bounds a request comes under; the strictest that fits where none is named."""
    if method in SAFE_METHODS:
        if path in _PROBES:
            return PROBE
        return SCAN if path.endswith(_SCANS) else READ
    if path.startswith("/v1/trajectories/") and path.endswith("/events"):
        return APPEND
    if path.startswith("/v1/blobs"):
        return BLOB
    if path in ("/v1/imports", "/import"):
        return IMPORT
    return WRITE


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def same_origin(headers: Headers) -> bool:
    """Whether an unsafe request comes from our own pages or from no browser at all."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


@dataclass(slots=True)
class Rate:
    """One token bucket per caller; callers beyond `CALLERS` push the least recent one out."""

    per_second: int
    clock: Callable[[], float] = time.monotonic
    buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    CALLERS = 4096

    def take(self, caller: str) -> bool:
        """Whether this caller may make one more request now."""
        now = self.clock()
        tokens, since = self.buckets.pop(caller, (float(self.per_second), now))
        tokens = min(float(self.per_second), tokens + (now - since) * self.per_second)
        allowed = tokens >= 1.0
        self.buckets[caller] = (tokens - 1.0 if allowed else tokens, now)
        if len(self.buckets) > self.CALLERS:
            self.buckets.popitem(last=False)
        return allowed


class Guard:
    """Request id, Host, origin, credential, rate and concurrency; then the body's bounds."""

    def __init__(self, app: ASGIApp, settings: Settings, credentials: auth.Credentials) -> None:
        self.app = app
        self.credentials = credentials
        self.rate = Rate(settings.caller_requests_per_second)
        self.in_flight: dict[str, int] = {}
        names = {"127.0.0.1", "localhost", "::1"}
        names |= {host_name(host) or host for host in settings.allowed_hosts}
        if settings.host not in ("0.0.0.0", "::", ""):
            names.add(settings.host.lower())
        self.hosts = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await Exchange(self, scope, receive, send).run()

    def refusal(self, scope: Scope, headers: Headers, kind: RouteClass) -> StrandlineError | None:
        """Why this request is not served, or None; sets `scope.state.principal`."""
        path: str = scope["path"]
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_BYTES_MAX:
            return errors.HttpRefused(
                "headers_too_large", f"a request head holds at most {HEAD_BYTES_MAX} bytes"
            )
        if host_name(headers.get("host", "")) not in self.hosts:
            return errors.HttpRefused(
                "misdirected_host",
                "this server does not answer to the host name of the request; name it in "
                "STRANDLINE_ALLOWED_HOSTS if it is yours",
            )
        if "\x00" in path:
            return errors.HttpRefused("not_found", "no address holds a NUL")
        bearer = headers.get("authorization", "")[:7].lower() == "bearer "
        if scope["method"] not in SAFE_METHODS and not bearer and not same_origin(headers):
            return errors.HttpRefused(
                "cross_site", "a change must come from this site's own pages, or carry a token"
            )
        try:
            scope["state"]["principal"] = self.credentials.check(headers)
        except StrandlineError as error:
            return error
        if scope["state"]["principal"] is None and not auth.is_public(path):
            return errors.HttpRefused("unauthorized", "this address needs a token")
        client = scope.get("client")
        if not self.rate.take(f"{client[0] if client else ''}|{headers.get('authorization', '')}"):
            return RateLimited("this caller sends more requests a second than it may")
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:18]) > kind.body_bytes:
            return errors.HttpRefused(
                "body_too_large", f"this address takes at most {kind.body_bytes} bytes"
            )
        if self.in_flight.get(kind.name, 0) >= kind.in_flight:
            return errors.HttpRefused(
                "overloaded", f"{kind.in_flight} requests of this kind are already in flight"
            )
        return None


class Exchange:
    """One request and its answer."""

    __slots__ = ("deadline", "ended", "guard", "headers", "kind", "late", "receive", "received",
                 "request_id", "scope", "send", "started", "status")  # fmt: skip

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard = guard
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers = Headers(scope=scope)
        self.kind = route_class(scope["method"], scope["path"])
        given = self.headers.get("x-request-id", "")
        self.request_id = given if _REQUEST_ID.fullmatch(given) else uuid7().hex
        scope.setdefault("state", {})["request_id"] = self.request_id
        self.started = time.perf_counter()
        self.deadline: float | None = None
        self.received = 0
        self.ended = False
        self.late: StrandlineError | None = None
        """A refusal of the body, found while the route was reading it."""
        self.status = 0

    async def run(self) -> None:
        """Refuse, or let the route answer within its bounds; count and log either."""
        structlog.contextvars.bind_contextvars(request_id=self.request_id)
        refused = self.guard.refusal(self.scope, self.headers, self.kind)
        if refused is not None:
            await self._refuse(refused)
            self._done(None)
            return
        if "," in self.headers.get("range", ""):
            self._drop_range()
        in_flight = self.guard.in_flight
        in_flight[self.kind.name] = in_flight.get(self.kind.name, 0) + 1
        failed: BaseException | None = None
        try:
            await self.guard.app(self.scope, self._receive, self._send)
        except BodyRefused:
            pass
        except Exception as error:
            failed = error
        finally:
            in_flight[self.kind.name] -= 1
        if not self.status:
            await self._refuse(
                self.late
                or errors.HttpRefused(
                    "internal",
                    "the request failed inside the server; the log names it by this request id",
                )
            )
        self._done(failed)

    def _drop_range(self) -> None:
        """Several ranges cost more than they are worth; the whole is a right answer to them."""
        self.scope["headers"] = [item for item in self.scope["headers"] if item[0] != b"range"]

    async def _receive(self) -> Message:
        if self.ended:
            return await self.receive()
        if self.late is not None:
            raise BodyRefused
        if self.deadline is None:
            self.deadline = asyncio.get_running_loop().time() + self.kind.body_seconds
        try:
            async with asyncio.timeout_at(self.deadline):
                message = await self.receive()
        except TimeoutError:
            self.late = errors.HttpRefused(
                "body_timeout", f"the body did not arrive within {self.kind.body_seconds:.0f} s"
            )
            raise BodyRefused from None
        if message["type"] != "http.request":
            self.ended = True
            return message
        self.ended = not message.get("more_body", False)
        self.received += len(message.get("body", b""))
        if self.received > self.kind.body_bytes:
            self.late = errors.HttpRefused(
                "body_too_large", f"this address takes at most {self.kind.body_bytes} bytes"
            )
            raise BodyRefused
        return message

    async def _send(self, message: Message) -> None:
        if self.late is not None and message["type"] == "http.response.start":
            # What the route made of the torn body is not what happened.
            raise BodyRefused
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._dress(message)
        await self.send(message)

    def _dress(self, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        headers["X-Request-ID"] = self.request_id
        for name, value in SECURITY_HEADERS:
            headers.setdefault(name, value)
        if not self.ended and self.scope["method"] not in SAFE_METHODS:
            # The rest of an unread body is not worth reading.
            headers["Connection"] = "close"

    async def _refuse(self, error: StrandlineError) -> None:
        response = errors.respond_to(self.scope, error)
        if self.scope["method"] not in SAFE_METHODS and not self.ended:
            response.headers["Connection"] = "close"
        await response(self.scope, self.receive, self._send_refusal)

    async def _send_refusal(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._dress(message)
        await self.send(message)

    def _done(self, failed: BaseException | None) -> None:
        elapsed = time.perf_counter() - self.started
        metrics.observe(self.kind.name, self.status, elapsed)
        if failed is not None:
            _LOG.error("request failed", path=self.scope["path"], exc_info=failed)
        elif self.status >= 400 or logs.debugging():
            _LOG.info(
                "request",
                method=self.scope["method"],
                path=self.scope["path"][:200],
                status=self.status,
                ms=round(elapsed * 1000, 3),
            )
        structlog.contextvars.clear_contextvars()


class BodyRefused(Exception):
    """The body went over its bounds; the guard answers."""
