"""Pages about the pages: the keyboard list, for those without JavaScript too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from app import auth, render
from app.render import Page

router = APIRouter(include_in_schema=False, dependencies=[auth.public()])


@dataclass(frozen=True, slots=True)
class KeysPage(Page):
    """Every shortcut and mark."""

    template: ClassVar[str] = "pages/keys.html"


@router.get("/keys", response_class=HTMLResponse)
def keys(request: Request) -> Response:
    """The list behind `?`, and what the marks mean."""
    return render.respond(request, KeysPage(title="Keyboard and marks"))
