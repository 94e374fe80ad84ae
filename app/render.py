"""From a page object to HTML: the whole page, or the one part of it that htmx asked for.

INVARIANTS
1. Every template is autoescaped, whatever its name, and no template marks text as safe (a test
   greps for it).
2. Every text that reaches a template has its hidden characters named (`finalize`), so that no
   template can forget it; a None or an unknown name in a template is an error, not an empty text.
3. A part is the very partial that the page includes, rendered with the same object.
4. Answers vary by HX-Request and HX-Target, so that no cache takes a part for a page.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse
from starlette.types import Scope

from app import links
from app.paths import STATIC, TEMPLATES
from app.presenters import format as fmt
from app.presenters.terminal import one_line, visible
from core.errors import StrandlineError

THEMES = ("light", "dark")
#: Pages of the navigation: (name, link, key that follows `g`).
NAVIGATION = (
    ("Overview", links.home(), "o"),
    ("Trajectories", links.trajectories(), "t"),
    ("Import", links.imports(), "i"),
    ("Health", links.health(), "h"),
    ("Settings", links.prices(), "s"),
)
#: Keys of the `?` list, in the order shown: (keys, what they do).
KEYS: tuple[tuple[str, str], ...] = (
    ("/", "search, or jump to a boundary"),
    ("j k", "next, previous boundary; in a list, row"),
    ("J K", "next, previous turn"),
    ("m M", "next, previous model call"),
    ("t T", "next, previous tool call"),
    ("e E", "next, previous error"),
    ("c C", "next, previous checkpoint"),
    ("d D", "next, previous in doubt or unknown"),
    ("f", "find in this log"),
    ("h H", "next, previous hit of it"),
    ("0 $", "first, last boundary"),
    ("[ ]", "previous, next tab"),
    ("y", "copy the link to this boundary"),
    ("n", "write a note at this boundary"),
    ("g o", "overview"),
    ("g t", "trajectories"),
    ("g i", "import"),
    ("g h", "health"),
    ("g s", "settings: prices"),
    ("?", "this list"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """What one page shows; each page is a subclass with its template and its parts."""

    template: ClassVar[str]
    #: Element id -> partial that renders that element, for htmx.
    parts: ClassVar[Mapping[str, str]] = {}
    section: ClassVar[str] = ""

    title: str


def _finalize(value: Any) -> Any:
    if type(value) is str:
        return visible(value)
    if value is None:
        raise TypeError("a template would show None; an absence needs its mark and its reason")
    return value


def json_data(value: object) -> Markup:
    """JSON for a `<script type="application/json">`: no `<`, `>` or `&` stands in it."""
    text = orjson.dumps(value).decode()
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@cache
def asset(name: str) -> str:
    """The address of a static file, with its content hash, so that it can be cached for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"{links.static(name)}?v={digest}"


@cache
def environment() -> Environment:
    """The one template environment."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.globals.update(
        links=links,
        asset=asset,
        navigation=NAVIGATION,
        keys=KEYS,
        moment=fmt.moment,
        json_data=json_data,
        log10=math.log10,
    )
    env.filters.update(
        count=fmt.count,
        size=fmt.size,
        duration=fmt.duration,
        money=fmt.money,
        short_id=fmt.short_id,
        short_digest=fmt.short_digest,
        exact=fmt.exact,
        plural=fmt.plural,
        one_line=one_line,
    )
    return env


def _theme(connection: HTTPConnection) -> str:
    theme = connection.cookies.get("theme", "")
    return theme if theme in THEMES else ""


def part_asked(request: Request, page: Page) -> str | None:
    """The partial htmx asked for, or None for the whole page (a history restore included)."""
    if request.headers.get("HX-Request") != "true":
        return None
    if request.headers.get("HX-History-Restore-Request") == "true":
        return None
    return page.parts.get(request.headers.get("HX-Target", "").rpartition("#")[2])


def html(connection: HTTPConnection, page: Page, template: str | None = None) -> str:
    """The page, or one of its partials, as text."""
    chosen = environment().get_template(template or page.template)
    return chosen.render(
        page=page,
        theme=_theme(connection),
        path=connection.scope.get("path", ""),
        part=template is not None,
    )


def respond(
    request: Request,
    page: Page,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """The answer to a page request: whole, or the part that was asked for."""
    part = part_asked(request, page)
    sent = {"Vary": "HX-Request, HX-Target, Cookie", **(headers or {})}
    return HTMLResponse(html(request, page, part), status, headers=sent)


# ---- errors ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ErrorPage(Page):
    """What is true now, what to do, the code and the request."""

    template: ClassVar[str] = "pages/error.html"

    status: int
    detail: str
    code: str
    outcome: str
    now_true: str
    request_id: str
    doc: str
    data: tuple[tuple[str, str], ...]
    trajectory_id: str
    """The trajectory it is about, which there is; empty: none."""


NOW_TRUE = {
    "refused": "Nothing was changed.",
    "unknown": "It is not known whether anything was changed; the log says.",
    "read": "Nothing was to be changed: this was a read.",
}
#: Said by the sentence or shown apart; `field` and `errors` are for programs.
_SHOWN_APART = {
    "type", "title", "status", "detail", "code", "outcome", "request_id", "field", "errors",
}  # fmt: skip


def error_page(scope: Scope, problem: Mapping[str, object]) -> str:
    """The page of one problem, as text; used for every refusal a browser meets."""
    connection = HTTPConnection(scope)
    outcome = str(problem["outcome"])
    reading = scope.get("method", "GET") in ("GET", "HEAD") and outcome == "refused"
    page = ErrorPage(
        title=str(problem["title"]),
        status=int(str(problem["status"])),
        detail=_sentence(str(problem["detail"]), str(problem.get("trajectory_id", ""))),
        code=str(problem["code"]),
        outcome=outcome,
        now_true=NOW_TRUE["read" if reading else outcome],
        request_id=str(problem["request_id"]),
        doc=str(problem["type"]),
        data=tuple(
            (name.replace("_", " "), one_line(_words(value), 200))
            for name, value in problem.items()
            if name not in _SHOWN_APART and value is not None
        ),
        trajectory_id=str(problem.get("trajectory_id") or ""),
    )
    return html(connection, page)


def _words(value: object) -> str:
    """A value of a problem's data as text; never a repr."""
    if isinstance(value, list):
        return ", ".join(_words(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _sentence(text: str, name: str) -> str:
    """A detail as a sentence: a capital first (an id keeps its own letters), a stop last."""
    if not (name and text.startswith(name)):
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def reason(error: StrandlineError) -> str:
    """An error as the reason of an absence, on one line."""
    return one_line(str(error), 200)
