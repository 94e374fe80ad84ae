"""The table of trajectories: filters, sort and page are the URL; a page follows a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from app import links, render
from app.cursors import cursor, key_of
from app.deps import ReaderDep, RuntimeDep
from app.presenters.summaries import TrajectoryRow, row
from app.render import Page
from core.events.control import ControlState
from core.events.envelope import Standing
from core.limits import PAGE_ROWS, PAGE_ROWS_MAX
from core.principal import Principal
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

SIZES = (20, PAGE_ROWS, PAGE_ROWS_MAX)
#: Columns: (sort key or empty, heading, numeric).
COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("title", "Title", False),
    ("agent", "Agent, source", False),
    ("model", "Model", False),
    ("status", "Status", False),
    ("step", "Step", True),
    ("high_water", "High-water", True),
    ("generation", "Gen.", True),
    ("unsettled", "Unsettled", True),
    ("", "Tokens", True),
    ("cost", "Cost", True),
    ("", "Duration", True),
    ("updated", "Updated", True),
)
_SORTS = tuple(key for key, _, _ in COLUMNS if key)
#: Sources offered in the filter; more are found by their text.
SOURCES_MAX = 12
Sort = Literal[
    "title", "agent", "model", "status", "step", "high_water", "generation", "unsettled", "cost",
    "updated",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters as the form shows them."""

    q: str
    status: str
    standing: str
    source: str
    unsettled: bool

    def chosen(self) -> dict[str, object]:
        """As the list takes them."""
        found: dict[str, object] = {}
        if self.q:
            found["text"] = self.q
        for name in ("status", "standing", "source"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        if self.unsettled:
            found["unsettled__ge"] = 1
        return found

    def query(self) -> dict[str, object]:
        """As the URL carries them."""
        return {
            "q": self.q,
            "status": self.status,
            "standing": self.standing,
            "source": self.source,
            "unsettled": "1" if self.unsettled else "",
        }


@dataclass(frozen=True, slots=True)
class TrajectoriesPage(Page):
    """One page of the table."""

    template: ClassVar[str] = "pages/trajectories.html"
    parts: ClassVar[Mapping[str, str]] = {"list": "partials/_list.html"}
    section: ClassVar[str] = "Trajectories"

    now: int
    filters: Filters
    sort: str
    descending: bool
    limit: int
    rows: tuple[TrajectoryRow, ...]
    total: int
    all: int
    left_out: int
    left_out_href: str
    left_out_why: str
    next: str
    first: str
    sources: tuple[str, ...]
    paged: bool

    statuses: ClassVar[tuple[str, ...]] = get_args(ControlState)
    standings: ClassVar[tuple[str, ...]] = get_args(Standing)
    sizes: ClassVar[tuple[int, ...]] = SIZES
    columns: ClassVar[tuple[tuple[str, str, bool], ...]] = COLUMNS

    def url(self, **changes: object) -> str:
        """The same table with some parts of its state changed, from its first page."""
        state = {
            **self.filters.query(),
            "sort": self.sort if self.sort != "updated" else "",
            "dir": "" if self.descending else "asc",
            "limit": self.limit if self.limit != PAGE_ROWS else "",
        }
        return links.trajectories(**{**state, **changes})

    def sort_url(self, key: str) -> str:
        """Sort by a column; again turns it round."""
        turned = key == self.sort and self.descending
        return self.url(sort=key if key != "updated" else "", dir="asc" if turned else "")


@router.get("/trajectories", response_class=HTMLResponse)
def trajectories(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    q: Annotated[str, Query(max_length=200)] = "",
    status: Annotated[ControlState | Literal[""], Query()] = "",
    standing: Annotated[Standing | Literal[""], Query()] = "",
    source: Annotated[str, Query(max_length=100)] = "",
    unsettled: Annotated[Literal["", "0", "1"], Query()] = "",
    sort: Annotated[Sort | Literal[""], Query()] = "",
    direction: Annotated[Literal["", "asc", "desc"], Query(alias="dir")] = "",
    limit: Annotated[str, Query(pattern=r"^(|[0-9]{1,4})$")] = "",
    after: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """The table."""
    filters = Filters(q.strip(), status, standing, source.strip(), unsettled == "1")
    size = max(1, min(int(limit or PAGE_ROWS), PAGE_ROWS_MAX))
    descending = direction != "asc"
    found = runtime.list(
        who,
        sort=sort or "updated",
        descending=descending,
        after=key_of(after),
        limit=size,
        filters=filters.chosen(),
    )
    left_out, why, href = _left_out(runtime, who, filters)
    page = TrajectoriesPage(
        title="Trajectories",
        now=runtime.clock(),
        filters=filters,
        sort=sort or "updated",
        descending=descending,
        limit=size,
        rows=tuple(row(summary) for summary in found.rows),
        total=found.total,
        all=runtime.projections.count_summaries(who.tenant, {}),
        left_out=left_out,
        left_out_href=href,
        left_out_why=why,
        next=cursor(found.after) or "",
        first="",
        sources=_sources(runtime, who, filters.source),
        paged=bool(after),
    )
    return render.respond(request, page)


def _left_out(runtime: Runtime, who: Principal, filters: Filters) -> tuple[int, str, str]:
    """How many rows the filter by source leaves out because they record none."""
    if not filters.source:
        return 0, "", ""
    others = {key: value for key, value in filters.chosen().items() if key != "source"}
    number = runtime.projections.count_summaries(who.tenant, {**others, "source": None})
    return (
        number,
        "they were not imported and record no source",
        links.trajectories(**{**filters.query(), "source": ""}),
    )


def _sources(runtime: Runtime, who: Principal, chosen: str) -> tuple[str, ...]:
    """Distinct sources, by skipping from one to the next."""
    found: list[str] = []
    last = ""
    while len(found) < SOURCES_MAX:
        page = runtime.projections.list_summaries(
            who.tenant,
            sort="source",
            descending=False,
            after=None,
            limit=1,
            filters={"source__gt": last},
        )
        if not page:
            break
        last = str(page[0]["source"])
        found.append(last)
    if chosen and chosen not in found:
        found.append(chosen)
    return tuple(found)
