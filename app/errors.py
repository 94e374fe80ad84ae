"""One table from error to answer: status, title, Retry-After. HTML and JSON share it.

A problem is `{type, title, status, detail, code, outcome, request_id, ...data}` (RFC 9457);
`type` is the page of the code, `outcome` is `refused` (nothing was stored) or `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from app import links, render
from core.errors import StrandlineError


@dataclass(frozen=True, slots=True)
class Answer:
    """How one code is answered over HTTP."""

    status: int
    title: str
    retry_after_seconds: int | None = None
    outcome: str = "refused"


#: Every code of core.errors, then those that only HTTP knows. docs/errors/ has a page for each.
ANSWERS: dict[str, Answer] = {
    "invalid": Answer(422, "The request is not what the contract allows"),
    "not_found": Answer(404, "There is no such thing here"),
    "fenced": Answer(409, "A newer owner epoch has been granted"),
    "not_allowed": Answer(403, "This issuer may not assert this here"),
    "unknown_type": Answer(422, "The event type is not known to this version"),
    "missing_blob": Answer(422, "A named blob is not stored yet"),
    "unresolved": Answer(422, "A named event is not in this log"),
    "head_moved": Answer(409, "The log has moved since this was decided"),
    "sequence_gap": Answer(409, "The pieces do not continue the log"),
    "too_large": Answer(413, "The value is larger than its bound"),
    "busy": Answer(503, "The append queue is full", 1),
    "rate_limited": Answer(429, "Too many requests from this caller", 1),
    "search_timeout": Answer(503, "The search took too long", 5),
    "store_full": Answer(507, "The disk is full", 30),
    "store_stopped": Answer(503, "The store takes no writes", 5),
    "domain_unavailable": Answer(409, "The failure domain cannot be given"),
    "import_refused": Answer(422, "The file was not imported"),
    "integrity_conflict": Answer(409, "Two stories about one id"),
    "ack_unknown": Answer(503, "It is not known whether this is stored", 1, "unknown"),
    "not_reconstructed": Answer(409, "This version cannot fold that boundary", None, "unknown"),
    "corrupt": Answer(500, "Stored bytes disagree with their digest"),
    "unauthorized": Answer(401, "A credential is needed"),
    "forbidden": Answer(403, "This credential does not permit that"),
    "misdirected_host": Answer(421, "This server does not answer to that host name"),
    "cross_site": Answer(403, "The request came from another site"),
    "body_too_large": Answer(413, "The body is larger than this route takes"),
    "body_timeout": Answer(408, "The body did not arrive in time"),
    "headers_too_large": Answer(431, "The request head is too large"),
    "overloaded": Answer(503, "Too many requests at once", 1),
    "method_not_allowed": Answer(405, "This address does not take that method"),
    "not_acceptable": Answer(406, "No form of the answer is acceptable to the caller"),
    "unsupported_media_type": Answer(415, "The body is of a kind this route does not read"),
    "range_not_satisfiable": Answer(416, "The range lies outside the bytes"),
    "bad_request": Answer(400, "The request cannot be read"),
    "internal": Answer(500, "Something failed that should not", None, "unknown"),
}

_BY_STATUS: dict[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "body_timeout",
    413: "body_too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    421: "misdirected_host",
    422: "invalid",
    431: "headers_too_large",
}
#: `advice` is for the command line: what to do there.
_RESERVED = ("type", "title", "status", "detail", "code", "outcome", "request_id", "advice")


class HttpRefused(StrandlineError):
    """An error that only HTTP knows; its code is given."""

    def __init__(self, code: str, message: str, **data: object) -> None:
        super().__init__(message, **data)
        self.http_code = code


def code_of(error: StrandlineError) -> str:
    """The code an error is answered with; `internal` for one the table does not hold."""
    code = error.http_code if isinstance(error, HttpRefused) else error.code
    return code if code in ANSWERS else "internal"


def code_of_status(status: int) -> str:
    """The code of a status that a framework raised by itself."""
    return _BY_STATUS.get(status, "internal" if status >= 500 else "bad_request")


def problem(
    code: str, detail: str, request_id: str, data: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The problem object of one refusal; `data` cannot overwrite what the table says."""
    answer = ANSWERS[code]
    extra = {
        # An event's own `type` must not stand where the problem's does.
        ("event_type" if key == "type" else key): plain(value)
        for key, value in (data or {}).items()
        if key == "type" or key not in _RESERVED
    }
    return {
        "type": links.error_doc(code),
        "title": answer.title,
        "status": answer.status,
        "detail": detail,
        "code": code,
        "outcome": answer.outcome,
        "request_id": request_id,
        **extra,
    }


def plain(value: object) -> object:
    """A value of an error's data as JSON: digests in hex, sets as lists, the rest as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return f"sha256:{value.hex()}" if len(value) == 32 else value.hex()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def wants_html(scope: Scope) -> bool:
    """Whether the caller is a person's browser: it prefers text/html, and asks for no /v1/."""
    if scope["path"].startswith("/v1/"):
        return False
    accept = Headers(scope=scope).get("accept", "")
    html = _quality(accept, "text/html")
    return html > 0 and html >= _quality(accept, "application/json")


def _quality(accept: str, media_type: str) -> float:
    best = 0.0
    for part in accept[:1000].split(","):
        name, _, parameters = part.partition(";")
        if name.strip().lower() != media_type:
            continue
        quality = 1.0
        for parameter in parameters.split(";"):
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        best = max(best, quality)
    return best


def respond(
    scope: Scope,
    code: str,
    detail: str,
    data: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer to a refusal, as JSON or as a page, with Retry-After where one is known."""
    answer = ANSWERS[code]
    # For the guard, which counts the writes that were refused before the store saw them.
    scope.setdefault("state", {})["refused"] = code
    body = problem(code, detail, request_id_of(scope), data)
    sent = dict(headers or {})
    if answer.retry_after_seconds is not None:
        # Who refuses may know better than the table how long it will take.
        wait = (data or {}).get("retry_after", answer.retry_after_seconds)
        sent.setdefault("Retry-After", str(wait))
    if code == "unauthorized":
        sent["WWW-Authenticate"] = 'Basic realm="Strandline", charset="UTF-8"'
    sent["Vary"] = "Accept"
    if wants_html(scope):
        return HTMLResponse(render.error_page(scope, body), answer.status, headers=sent)
    return Response(
        orjson.dumps(body),
        answer.status,
        headers=sent,
        media_type="application/problem+json",
    )


def respond_to(scope: Scope, error: StrandlineError) -> Response:
    """The answer to an error of ours."""
    response = respond(scope, code_of(error), str(error), error.data)
    if error.counted:
        scope["state"]["refused"] = None
    return response


def request_id_of(scope: Scope) -> str:
    """The id this request is logged under."""
    return str(scope.get("state", {}).get("request_id", ""))
