"""The search box of every page: an id jumps there, any other text is looked for everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.deps import ReaderDep, RuntimeDep, SequencePath, TrajectoryPath
from app.presenters import table
from app.presenters.found import Found, excerpt
from app.presenters.summaries import TrajectoryRow, row
from app.presenters.terminal import one_line
from app.render import Page
from core.errors import InvalidInput, NotFound, SearchTimeout, StoreStopped, StrandlineError
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import PAGE_ROWS
from core.principal import Principal
from core.query import quoted
from core.words import phrases
from runtime.service import Runtime, SearchPage
from store.ports import Hit

router = APIRouter(include_in_schema=False)

BY_TITLE_MAX = 10


@dataclass(frozen=True, slots=True)
class FindPage(Page):
    """Trajectories by title and id, and events by text."""

    template: ClassVar[str] = "pages/find.html"
    section: ClassVar[str] = "Trajectories"

    now: int
    text: str
    by_title: tuple[TrajectoryRow, ...]
    columns: tuple[table.Column, ...]
    more_by_title: str
    """Address of all of them, or empty."""
    found: tuple[Found, ...]
    more: str
    """Address of the list of all trajectories that hold the text, or empty."""
    hidden: int
    failed: str
    behind: tuple[int, int]


@router.get("/find", response_class=HTMLResponse)
def find(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    text: Annotated[str, Query(max_length=400)] = "",
) -> Response:
    """Jump, or list what holds the text."""
    asked = text.strip()
    there = _place(runtime, who, asked)
    if there is not None:
        return RedirectResponse(there, 303)
    by_title = runtime.list(
        who, query=runtime.query(f"title:{quoted(asked)}" if asked else ""), limit=BY_TITLE_MAX
    )
    page, failed = SearchPage((), 0, more=False, behind=(0, 0)), ""
    if asked:
        try:
            page = runtime.search(who, asked, limit=PAGE_ROWS)
        except (InvalidInput, SearchTimeout, StoreStopped) as error:
            failed = render.reason(error)
    now = runtime.clock()
    rows = tuple(row(summary, now) for summary in by_title.rows) if asked else ()
    sought = () if failed or not asked else phrases(asked)
    in_text = links.trajectories(text=asked)
    return render.respond(
        request,
        FindPage(
            title=f"Search: {one_line(asked, 60)}" if asked else "Search",
            now=now,
            text=asked,
            by_title=rows,
            columns=table.chosen((), rows),
            more_by_title=links.trajectories(q=f"title:{quoted(asked)}")
            if asked and by_title.after
            else "",
            found=tuple(
                Found(
                    links.boundary(hit.trajectory_id, hit.sequence_number, tab="event", find=asked),
                    links.boundary(hit.trajectory_id, hit.sequence_number, find=asked),
                    one_line(str(summary["title"] or hit.trajectory_id), 120),
                    hit.trajectory_id,
                    f"event {hit.sequence_number:,}, {one_line(hit.type, 60)}",
                    excerpt(_text(runtime, who, hit), sought),
                )
                for hit, summary in page.hits
            ),
            more=in_text if page.more else "",
            hidden=page.hidden,
            failed=failed,
            behind=page.behind,
        ),
    )


@router.get("/t/{trajectory_id}@{seq:int}")
def typed_place(
    request: Request, who: ReaderDep, trajectory_id: TrajectoryPath, seq: SequencePath
) -> Response:
    """`ID@300`, as the command line writes a boundary, leads to its address."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(links.boundary(trajectory_id, seq) + query, 302)


def _place(runtime: Runtime, who: Principal, text: str) -> str | None:
    """The address that an id, or `id@boundary`, means; None where there is no such thing."""
    name, _, boundary = text.partition("@")
    try:
        parse_trajectory_id(name)
        head = runtime.head(who, name)
    except (InvalidInput, NotFound):
        return None
    if not boundary:
        return links.trajectory(name)
    number = boundary.replace(",", "")
    if not number.isascii() or not number.isdigit() or len(number) > 12:
        return None
    if not 1 <= int(number) <= head.sequence_number:
        return None
    return links.boundary(name, int(number))


def _text(runtime: Runtime, who: Principal, hit: Hit) -> str:
    """The texts of an event; empty where its payload cannot be read."""
    try:
        return runtime.text_of(who, hit.trajectory_id, hit.sequence_number)
    except StrandlineError:
        return ""
