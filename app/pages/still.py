"""One boundary as one HTML file to keep or to send: no script, no address, nothing of later.

INVARIANTS
1. The file asks for nothing: no script, no form, no link to a server, no image; its own policy
   forbids the rest, should something hostile have come through.
2. It holds nothing from after the boundary, not even marked as later: whoever gets it may have no
   way to see the difference.
3. It says from what it was made, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from html.parser import HTMLParser
from typing import ClassVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from app import render, wiring
from app.deps import ReaderDep, RuntimeDep, TrajectoryPath
from app.pages import boundary
from app.pages.boundary import BoundaryPage
from app.pages.place import ROWS_WIDE, TABS, Place
from app.pages.trajectory import BoundaryPath
from app.paths import STATIC
from app.render import Page
from core.canonical import digest_text

router = APIRouter(include_in_schema=False)

POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"


@dataclass(frozen=True, slots=True)
class StillPage(Page):
    """All tabs of one boundary, one after the other."""

    template: ClassVar[str] = "pages/still.html"

    base: BoundaryPage
    tabs: tuple[tuple[str, BoundaryPage], ...]
    chain: str
    """Chain value at the boundary; empty at 0."""
    incarnation: str
    version: str
    now: int


@router.get("/t/{trajectory_id}/@{seq}/page.html", response_class=HTMLResponse)
def still(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    trajectory_id: TrajectoryPath,
    seq: BoundaryPath,
) -> Response:
    """The file, as a download."""
    # Each tab as whole as it goes: what is left out of the file cannot be asked for.
    place = Place(trajectory_id, seq, all=True, ctx="all", rows=ROWS_WIDE)
    tabs = tuple(
        (tab, boundary.load(runtime, who, replace(place, tab=tab), sealed=True)) for tab in TABS
    )
    event = runtime.event(who, trajectory_id, seq) if seq else None
    page = StillPage(
        title=tabs[0][1].title,
        base=tabs[0][1],
        tabs=tabs,
        chain=digest_text(event.chain) if event is not None else "",
        incarnation=runtime.facts().incarnation,
        version=wiring.version(),
        now=runtime.clock(),
    )
    body = frozen(render.html(request, page), page.title)
    headers = {
        "Content-Disposition": f'attachment; filename="{trajectory_id}-at-{seq}.html"',
        "Cache-Control": "no-store",
    }
    return Response(body, media_type="text/html; charset=utf-8", headers=headers)


def frozen(html: str, title: str) -> str:
    """A rendered page as a file of its own."""
    parser = _Freeze()
    parser.feed(html)
    parser.close()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)} · Strandline</title>\n<style>\n{_style()}</style>\n</head>\n"
        f"<body>\n{''.join(parser.out).strip()}\n</body>\n</html>\n"
    )


@cache
def _style() -> str:
    text = (STATIC / "app.css").read_text(encoding="utf-8")
    assert "</" not in text and "@import" not in text and "url(h" not in text
    return text


_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "source", "wbr", "col", "option"})
#: Elements that are left out with all they hold.
_GONE = frozenset(
    {
        "audio", "base", "button", "datalist", "dialog", "embed", "form", "iframe", "img", "input",
        "link", "meta", "noscript", "object", "option", "script", "select", "source", "style",
        "textarea", "title", "video",
    }
)  # fmt: skip
#: Classes of what is later, and of what only leads somewhere.
_GONE_CLASSES = frozenset(
    {
        "aft",
        "future",
        "future-line",
        "later",
        "of-later",
        "more",
        "btn",
        "seg",
        "scrub",
        "find",
        "go",
        "zoomer",
    }
)
_KEPT = frozenset(
    {
        "class", "colspan", "cx", "cy", "d", "datetime", "dx", "fill", "height", "id", "lang",
        "offset", "open", "overflow", "patterntransform", "patternunits", "points",
        "preserveaspectratio", "r", "role", "rowspan", "rx", "ry", "scope", "text-anchor", "title",
        "transform", "viewbox", "width", "x", "x1", "x2", "y", "y1", "y2",
    }
)  # fmt: skip


class _Freeze(HTMLParser):
    """Writes what may stay. `title` elements stay within drawings only."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self._gone = 0
        """How deep within an element that is left out."""
        self._drawn = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._gone:
            self._gone += tag not in _VOID
            return
        if self._leaves(tag, attrs):
            self._gone = 0 if tag in _VOID else 1
            return
        self._drawn += tag == "svg"
        self.out.append(f"<{self._name(tag)}{self._attributes(tag, attrs)}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._gone and not self._leaves(tag, attrs):
            self.out.append(f"<{self._name(tag)}{self._attributes(tag, attrs)}/>")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if self._gone:
            self._gone -= 1
            return
        self._drawn -= tag == "svg"
        self.out.append(f"</{self._name(tag)}>")

    def handle_data(self, data: str) -> None:
        if not self._gone:
            self.out.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def _leaves(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> bool:
        if tag in _GONE and not (tag == "title" and self._drawn):
            return True
        given = dict(attrs)
        if "hidden" in given:
            return True
        return not _GONE_CLASSES.isdisjoint((given.get("class") or "").split())

    @staticmethod
    def _name(tag: str) -> str:
        """A link that leads nowhere is a text."""
        return "span" if tag == "a" else tag

    @staticmethod
    def _attributes(tag: str, attrs: Sequence[tuple[str, str | None]]) -> str:
        kept = []
        for name, value in attrs:
            own = name == "href" and tag == "use" and (value or "").startswith("#")
            if name in _KEPT or own or name.startswith("aria-"):
                kept.append(f' {name}="{escape(value)}"' if value is not None else f" {name}")
        return "".join(kept)
