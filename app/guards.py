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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils.compat import uuid7

from app import auth, errors, logs, metrics
from app.settings import Settings
from core.errors import RateLimited, StrandlineError
from core.ids import TRAJECTORY_PATTERN
from core.limits import (
    APPEND_BODY_BYTES_MAX,
    BLOB_BYTES_MAX,
    BODY_BYTES_MAX,
    BODY_SECONDS_MAX,
    IMPORT_BODY_SECONDS_MAX,
    IMPORT_BYTES_MAX,
    QUEUE_MEMBERS_MAX,
    STREAMS_MAX,
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
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
#: Headers of which a second one would be read differently by different readers.
_SINGLE = frozenset({b"host", b"authorization", b"content-length", b"content-type", b"origin"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
_APPEND = re.compile(f"/v1/trajectories/{TRAJECTORY_PATTERN[1:-1]}/events")
HOSTS_KNOWN_MAX = 256
_LOG = structlog.get_logger("http")


@dataclass(frozen=True, slots=True)
class RouteClass:
    """Bounds that requests of one kind share."""

    name: str
    body_bytes: int
    body_seconds: float
    in_flight: int
    logged: bool = True
    """Whether an answer that is no refusal has its line too."""


APPEND = RouteClass("append", APPEND_BODY_BYTES_MAX, BODY_SECONDS_MAX, QUEUE_MEMBERS_MAX, False)
BLOB = RouteClass("blob", BLOB_BYTES_MAX, IMPORT_BODY_SECONDS_MAX, 16)
IMPORT = RouteClass("import", IMPORT_BYTES_MAX + MULTIPART_BYTES, IMPORT_BODY_SECONDS_MAX, 8)
WRITE = RouteClass("write", BODY_BYTES_MAX, BODY_SECONDS_MAX, 256)
READ = RouteClass("read", 0, BODY_SECONDS_MAX, 256)
#: Reads that go through a whole log or store.
SCAN = RouteClass("scan", 0, BODY_SECONDS_MAX, 8)
PROBE = RouteClass("probe", 0, BODY_SECONDS_MAX, 64, False)
#: Pages that follow the log: they stay open, and so must not stand in the way of reads.
STREAM = RouteClass("stream", 0, BODY_SECONDS_MAX, STREAMS_MAX, False)

_PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_STREAMS = re.compile("/(trajectories|t/[^/]+)/live")
_SCANS = ("/verify", "/export", "/v1/audit")


def route_class(method: str, path: str) -> RouteClass:
    """Which bounds a request comes under; the strictest that fits where none is named."""
    if method in SAFE_METHODS:
        if path in _PROBES:
            return PROBE
        if _STREAMS.fullmatch(path):
            return STREAM
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


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Whether an unsafe request comes from our own pages or from no browser at all."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return True
    host = headers.get(b"host", b"").decode("latin-1").lower()
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower() == host
    except ValueError:
        return False


#: Address of the peer, and its Authorization header.
Caller = tuple[str, bytes | None]
CALLERS_MAX = 4096


@dataclass(slots=True)
class Rate:
    """One token bucket per caller; callers beyond `CALLERS_MAX` push the least recent one out."""

    per_second: int
    clock: Callable[[], float] = time.monotonic
    buckets: OrderedDict[Caller, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, caller: Caller) -> bool:
        """Whether this caller may make one more request now."""
        now = self.clock()
        tokens, since = self.buckets.pop(caller, (float(self.per_second), now))
        tokens = min(float(self.per_second), tokens + (now - since) * self.per_second)
        allowed = tokens >= 1.0
        self.buckets[caller] = (tokens - 1.0 if allowed else tokens, now)
        if len(self.buckets) > CALLERS_MAX:
            self.buckets.popitem(last=False)
        return allowed


class Guard:
    """Request id, Host, origin, credential, rate and concurrency; then the body's bounds."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        credentials: auth.Credentials,
        append: ASGIApp | None = None,
        refused: metrics.Refused | None = None,
    ) -> None:
        """`append` answers the append route without the framework's routing (see app.api.append);
        without it the framework does. `refused` takes the counts of writes that were refused
        before the store saw them."""
        self.app = app
        self.append = append
        self.refused: metrics.Refused = {} if refused is None else refused
        self.credentials = credentials
        self.rate = Rate(settings.caller_requests_per_second)
        self.in_flight: dict[str, int] = {}
        names = {"127.0.0.1", "localhost", "::1"}
        names |= {host_name(host) or host for host in settings.allowed_hosts}
        if settings.host not in ("0.0.0.0", "::", ""):
            names.add(settings.host.lower())
        self.hosts = frozenset(names)
        #: Host headers seen and found ours, as bytes: parsed once. Bounded by the ports they name.
        self.known_hosts: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await Exchange(self, scope, receive, send).run()

    def refusal(
        self, scope: Scope, headers: Mapping[bytes, bytes], kind: RouteClass
    ) -> StrandlineError | None:
        """Why this request is not served, or None; sets `scope.state.principal`."""
        path: str = scope["path"]
        given: list[tuple[bytes, bytes]] = scope["headers"]
        if sum([len(name) + len(value) for name, value in given]) > HEAD_BYTES_MAX:
            return errors.HttpRefused(
                "headers_too_large", f"a request head holds at most {HEAD_BYTES_MAX} bytes"
            )
        if len(headers) != len(given) and _doubled(given):
            return errors.HttpRefused("bad_request", "a header stands twice that may stand once")
        if not self._ours(headers.get(b"host", b"")):
            return errors.HttpRefused(
                "misdirected_host",
                "this server does not answer to the host name of the request; name it in "
                "STRANDLINE_ALLOWED_HOSTS if it is yours",
            )
        if "\x00" in path:
            return errors.HttpRefused("not_found", "no address holds a NUL")
        authorization = headers.get(b"authorization")
        bearer = authorization is not None and authorization[:7].lower() == b"bearer "
        if scope["method"] not in SAFE_METHODS and not bearer and not same_origin(headers):
            return errors.HttpRefused(
                "cross_site", "a change must come from this site's own pages, or carry a token"
            )
        try:
            principal = self.credentials.check(authorization)
        except StrandlineError as error:
            return error
        scope["state"]["principal"] = principal
        if principal is None and not auth.is_public(path):
            return errors.HttpRefused("unauthorized", "this address needs a token")
        client = scope.get("client")
        if not self.rate.take((client[0] if client else "", authorization)):
            return RateLimited("this caller sends more requests a second than it may")
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:18]) > kind.body_bytes:
            return errors.HttpRefused(
                "body_too_large", f"this address takes at most {kind.body_bytes} bytes"
            )
        if self.in_flight.get(kind.name, 0) >= kind.in_flight:
            return errors.HttpRefused(
                "overloaded", f"{kind.in_flight} requests of this kind are already in flight"
            )
        return None

    def _ours(self, host: bytes) -> bool:
        if host in self.known_hosts:
            return True
        if host_name(host.decode("latin-1")) not in self.hosts:
            return False
        if len(self.known_hosts) < HOSTS_KNOWN_MAX:
            self.known_hosts.add(host)
        return True

    def route(self, scope: Scope) -> ASGIApp:
        """Who answers this request."""
        if (
            self.append is not None
            and scope["method"] == "POST"
            and _APPEND.fullmatch(scope["path"])
        ):
            return self.append
        return self.app


def _doubled(headers: list[tuple[bytes, bytes]]) -> bool:
    names = [name for name, _ in headers if name in _SINGLE]
    return len(names) != len(set(names))


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "deadline", "ended", "guard", "head", "headers", "kind", "late", "receive", "received",
        "request_id", "scope", "send", "started", "status",
    )  # fmt: skip

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard = guard
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers = dict(scope["headers"])
        self.kind = route_class(scope["method"], scope["path"])
        given = self.headers.get(b"x-request-id", b"")
        self.request_id = given.decode() if _REQUEST_ID.fullmatch(given) else uuid7().hex
        #: A HEAD is a GET whose body is not sent; a scan would be run for nothing.
        self.head = scope["method"] == "HEAD" and self.kind is not SCAN
        state = scope.setdefault("state", {})
        state["request_id"] = self.request_id
        state["head_only"] = self.head
        self.started = time.perf_counter()
        self.deadline: float | None = None
        self.received = 0
        self.ended = False
        self.late: StrandlineError | None = None
        """A refusal of the body, found while the route was reading it."""
        self.status = 0

    async def run(self) -> None:
        """Refuse, or let the route answer within its bounds; count and log either."""
        logs.request_id.set(self.request_id)
        refused = self.guard.refusal(self.scope, self.headers, self.kind)
        if refused is not None:
            await self._refuse(refused)
            self._done(None)
            return
        if b"," in self.headers.get(b"range", b""):
            self._drop_range()
        if self.head:
            # In a copy: the server looks in its own scope for whether a body may follow.
            self.scope = {**self.scope, "method": "GET"}
        in_flight = self.guard.in_flight
        in_flight[self.kind.name] = in_flight.get(self.kind.name, 0) + 1
        failed: BaseException | None = None
        try:
            await self.guard.route(self.scope)(self.scope, self._receive, self._send)
        except BodyRefused:
            pass
        except Exception as error:
            failed = error
        finally:
            in_flight[self.kind.name] -= 1
        if not self.status:
            late, self.late = self.late, None
            await self._refuse(
                late
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
            if self.scope["method"] not in SAFE_METHODS:
                self.late = errors.HttpRefused(
                    "bad_request", "its sender left before the body was complete"
                )
                raise BodyRefused
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
        if message["type"] == "http.response.start":
            if self.late is not None:
                # What the route made of the torn body is not what happened.
                raise BodyRefused
            self.status = message["status"]
            self._dress(message)
        elif self.head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self.send(message)

    def _dress(self, message: Message) -> None:
        headers = list(message.get("headers", ()))
        present = {name for name, _ in headers}
        headers += [item for item in SECURITY_HEADERS if item[0] not in present]
        headers.append((b"x-request-id", self.request_id.encode()))
        if not self.ended and self.scope["method"] not in SAFE_METHODS:
            # The rest of an unread body is not worth reading.
            headers.append((b"connection", b"close"))
        message["headers"] = headers

    async def _refuse(self, error: StrandlineError) -> None:
        self.late = None
        await errors.respond_to(self.scope, error)(self.scope, self.receive, self._send)

    def _done(self, failed: BaseException | None) -> None:
        elapsed = time.perf_counter() - self.started
        metrics.observe(self.kind.name, self.status, elapsed)
        refused = self.scope["state"].get("refused")
        if refused is not None and self.scope["method"] not in SAFE_METHODS:
            counts = self.guard.refused
            counts[refused] = counts.get(refused, 0) + 1
        if failed is not None:
            _LOG.error("request failed", path=self.scope["path"], exc_info=failed)
        elif self.status >= 400 or self.kind.logged or logs.debugging():
            _LOG.info(
                "request",
                method=self.scope["method"],
                path=self.scope["path"][:200],
                status=self.status,
                ms=round(elapsed * 1000, 3),
            )


class BodyRefused(Exception):
    """The body went over its bounds; the guard answers."""
