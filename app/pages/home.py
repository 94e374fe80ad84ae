"""The first page: the way to one's own files while the store is empty, then what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from app import links, render
from app.deps import PartsDep, ReaderDep, RuntimeDep
from app.paths import program
from app.presenters.format import count, size
from app.presenters.formats import FORMATS, Format
from app.presenters.standing import control_word
from app.presenters.summaries import TrajectoryRow, row
from app.render import Page

router = APIRouter(include_in_schema=False)

RECENT = 12


@dataclass(frozen=True, slots=True)
class FirstRunPage(Page):
    """Nothing is here yet: how to bring one's own sessions."""

    template: ClassVar[str] = "pages/first_run.html"
    section: ClassVar[str] = "Overview"

    formats: tuple[Format, ...]
    data_folder: str
    command: str
    demo: str


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing that needs a look: how many, what, and where."""

    number: int
    grade: str
    what: str
    why: str
    href: str


@dataclass(frozen=True, slots=True)
class OverviewPage(Page):
    """What needs a look, the store, and the newest trajectories."""

    template: ClassVar[str] = "pages/overview.html"
    section: ClassVar[str] = "Overview"

    now: int
    attention: tuple[Attention, ...]
    facts: tuple[tuple[str, str], ...]
    domain: str
    verified: bool
    rows: tuple[TrajectoryRow, ...]
    total: int
    by_status: tuple[tuple[str, int], ...]


@router.get("/", response_class=HTMLResponse)
def home(request: Request, who: ReaderDep, runtime: RuntimeDep, parts: PartsDep) -> Response:
    """First-run page or overview."""
    found = runtime.list(who, limit=RECENT)
    if not found.total:
        folder = str(parts.folder)
        return render.respond(
            request,
            FirstRunPage(
                title="Start here",
                formats=FORMATS,
                data_folder=folder,
                command=f"{program()} import PATH --data {_shell(folder)}",
                demo=f"{program()} demo",
            ),
        )
    counted = runtime.projections.count_summaries
    open_ = counted(who.tenant, {"unsettled__ge": 1, "standing": ["gated", "reported"]})
    unknown = counted(who.tenant, {"unsettled__ge": 1, "standing": ["imported", "replica"]})
    failed = counted(who.tenant, {"status": "FAILED"})
    incidents = sum(
        1 for entry in runtime.ledger(who, limit=1000, newest=True) if entry.kind == "incident"
    )
    blocked = counted(who.tenant, {"blocked__ge": 1})
    waiting = counted(who.tenant, {"status": "AWAITING_APPROVAL"})
    attention = [
        Attention(
            incidents,
            "bad",
            "integrity incidents",
            "the same id came with other bytes; the first is kept, nothing was overwritten",
            links.health(),
        ),
        Attention(
            open_,
            "open",
            "trajectories with unsettled operations",
            "an operation without outcome evidence; open one to see which, and how it is graded",
            links.trajectories(unsettled="1"),
        ),
        Attention(
            waiting,
            "open",
            "trajectories that await an approval",
            "an action is held until somebody decides; open one to see which",
            links.trajectories(status="AWAITING_APPROVAL"),
        ),
        Attention(
            blocked,
            "unknown",
            "trajectories not folded to their end",
            "an event of a newer version lies in the log; nothing was skipped",
            links.trajectories(),
        ),
        Attention(
            failed,
            "bad",
            "trajectories that ended FAILED",
            "by a limit, an exception or their own word",
            links.trajectories(status="FAILED"),
        ),
        Attention(
            unknown,
            "unknown",
            "imported trajectories with unsettled calls",
            "calls whose outcome the file does not establish: no result in it, or one that says "
            "nothing of the effect",
            links.trajectories(standing="imported", unsettled="1"),
        ),
    ]
    store, stats = runtime.facts(), runtime.stats()
    blobs, blob_bytes = runtime.blob_totals()
    states = [
        ("RUNNING", counted(who.tenant, {"status": "RUNNING", "standing": ["gated", "reported"]})),
        *(
            (status, counted(who.tenant, {"status": status}))
            for status in ("PAUSED", "AWAITING_APPROVAL", "COMPLETED", "FAILED", "CANCELLED")
        ),
        *(
            (
                control_word("RUNNING", standing, at_end=True),
                counted(who.tenant, {"status": "RUNNING", "standing": standing}),
            )
            for standing in ("imported", "replica")
        ),
    ]
    page = OverviewPage(
        title="Overview",
        now=runtime.clock(),
        attention=tuple(item for item in attention if item.number),
        facts=(
            ("Log", f"{size(store.size_bytes)}, {store.engine}"),
            ("Blobs", f"{count(blobs)}, {size(blob_bytes)}"),
            ("Free disk", size(store.free_bytes)),
            ("Group commits", _groups(stats.groups, stats.events)),
            ("Queue", f"{count(stats.queue_members)} waiting, writer {stats.state}"),
        ),
        domain=store.declared_domain,
        verified=store.verified,
        rows=tuple(row(summary) for summary in found.rows),
        total=found.total,
        by_status=tuple((status, number) for status, number in states if number),
    )
    return render.respond(request, page)


def _groups(groups: int, events: int) -> str:
    if not groups:
        return "none since start"
    return f"{count(groups)} for {count(events)} events since start"


def _shell(path: str) -> str:
    """A path as one shell word."""
    safe = all(char.isalnum() or char in "/._-+" for char in path)
    return path if safe else "'" + path.replace("'", "'\"'\"'") + "'"
