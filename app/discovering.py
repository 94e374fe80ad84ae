"""`import --discover`: what the tools of a home folder hold, shown before any of it is taken."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from app import console
from app.presenters import format as fmt
from core.errors import NotFound
from ingest import discover
from ingest.discover import Found
from store.open import system_clock

_LEFT_NAMED = 10
COLUMNS = (
    console.Column("Tool"),
    console.Column("Project", stretches=True),
    console.Column("Sessions", right=True),
    console.Column("Size", right=True),
    console.Column("Newest"),
)


def look(homes: Sequence[str]) -> Found:
    """What the home folders hold; without any, the user's own. NotFound for one that is not."""
    if not homes:
        return discover.discover(Path.home(), os.environ)
    found = Found()
    for home in homes:
        folder = Path(home)
        if not folder.is_dir():
            raise NotFound(f"{console.safe(home)} is no folder", advice="Name a home folder.")
        more = discover.discover(folder, {})
        found.places += more.places
        found.projects += more.projects
        found.left += more.left
    return found


def show(found: Found) -> None:
    """A line for each tool and project, and what would be left."""
    now = system_clock()
    if found.projects:
        rows = [
            (
                one.tool,
                console.safe(one.name, 80),
                fmt.count(len(one.paths)),
                fmt.size(one.bytes),
                _ago(now - one.newest_at),
            )
            for one in found.projects
        ]
        console.table(COLUMNS, rows)
    else:
        console.say("No sessions were found. Looked in:")
        for place in found.places:
            console.say(f"  {place.path}{'' if place.there else ' (not there)'}")
    for skipped in found.left[:_LEFT_NAMED]:
        console.say(f"left: {console.safe(skipped.name, 300)}: {console.safe(skipped.why, 200)}")
    if len(found.left) > _LEFT_NAMED:
        console.say(f"left: {fmt.count(len(found.left) - _LEFT_NAMED)} more files")


def _ago(span: int) -> str:
    text = fmt.ago(span)
    return text if text.startswith(("now", "in ")) else f"{text} ago"


def lines(found: Found) -> list[dict[str, Any]]:
    """As JSON, one line for each tool and project."""
    return [
        {
            "tool": one.importer,
            "project": one.name,
            "sessions": len(one.paths),
            "bytes": one.bytes,
            "newest_at": one.newest_at,
            "paths": one.paths,
        }
        for one in found.projects
    ]


def chosen(homes: Sequence[str], *, yes: bool, json: bool, where: str) -> list[str]:
    """The paths to import: those found, if the person agrees; else none."""
    found = look(homes)
    if json and not yes:
        for line in lines(found):
            console.out_json(line)
        return []
    if not json:
        show(found)
    if not found.sessions or not (yes or _agreed(found, where)):
        return []
    return [path for project in found.projects for path in project.paths]


def _agreed(found: Found, where: str) -> bool:
    """Whether the person at the terminal says yes; without a terminal nobody can."""
    if not sys.stdin.isatty():
        console.note("Nothing was imported: there is no terminal to ask at. --yes takes them.")
        return False
    what = f"{fmt.plural(found.sessions, 'session')} ({fmt.size(found.bytes)})"
    return typer.confirm(f"Import {what} into {console.safe(where)}?")
