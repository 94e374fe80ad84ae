"""Pages from our own documents: the error codes (docs/errors/<code>.md, shown where a problem's
`type` points), and the glossary."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Path, Request, Response
from markdown_it import MarkdownIt
from markupsafe import Markup

from app import auth, links, render
from app.errors import ANSWERS
from app.paths import ERROR_DOCS, GLOSSARY
from core.errors import NotFound

router = APIRouter(include_in_schema=False, dependencies=[auth.public()])


@dataclass(frozen=True, slots=True)
class ErrorDoc(render.Page):
    """The page of one code."""

    template: ClassVar[str] = "pages/error_doc.html"

    code: str
    status: int
    outcome: str
    body: Markup


@dataclass(frozen=True, slots=True)
class ErrorDocs(render.Page):
    """The list of codes."""

    template: ClassVar[str] = "pages/error_docs.html"

    rows: tuple[tuple[str, str, int, str], ...]
    """(code, link, status, title)."""


@router.get("/docs/errors")
def index(request: Request) -> Response:
    """Every code with its title and status."""
    rows = tuple(
        (code, links.error_doc(code), answer.status, answer.title)
        for code, answer in sorted(ANSWERS.items())
    )
    return render.respond(request, ErrorDocs(title="Error codes", rows=rows))


@router.get("/docs/errors/{code}")
def one(request: Request, code: Annotated[str, Path(max_length=64)]) -> Response:
    """What is true when this code is answered, why, and what to do."""
    answer = ANSWERS.get(code)
    if answer is None:
        raise NotFound("there is no such error code")
    page = ErrorDoc(
        title=code, code=code, status=answer.status, outcome=answer.outcome, body=doc(code)
    )
    return render.respond(request, page)


@functools.cache
def doc(code: str) -> Markup:
    """HTML of a code's page, made from our own file; raw HTML in it stays text."""
    text = (ERROR_DOCS / f"{code}.md").read_text(encoding="utf-8")
    return Markup(MarkdownIt("commonmark", {"html": False}).render(text))


@dataclass(frozen=True, slots=True)
class Word:
    """One entry of the glossary."""

    anchor: str
    word: Markup
    meaning: Markup


@dataclass(frozen=True, slots=True)
class GlossaryPage(render.Page):
    """What every word means here."""

    template: ClassVar[str] = "pages/glossary.html"

    words: tuple[Word, ...]


@router.get("/docs/glossary")
def glossary(request: Request) -> Response:
    """One meaning for each word, each with an address of its own."""
    return render.respond(request, GlossaryPage(title="Glossary", words=words()))


_ROW = re.compile(r"^\| (\*\*.+?) \| (.+) \|$", re.MULTILINE)
_FIRST = re.compile(r"\*\*(.+?)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@functools.cache
def words() -> tuple[Word, ...]:
    """The rows of docs/glossary.md; a link to another document is its text alone."""
    inline = MarkdownIt("commonmark", {"html": False})
    found = []
    for word, meaning in _ROW.findall(GLOSSARY.read_text(encoding="utf-8")):
        first = _FIRST.search(word)
        assert first is not None
        found.append(
            Word(
                first[1].lower().replace(" ", "-"),
                Markup(inline.renderInline(word)),
                Markup(inline.renderInline(_LINK.sub(r"\1", meaning))),
            )
        )
    return tuple(found)
