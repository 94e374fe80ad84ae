"""The table of trajectories: query, sort, columns and page are the URL; a page follows a key."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.cursors import cursor, key_of
from app.deps import ReaderDep, RuntimeDep, WriterDep
from app.pages.live import newest_change
from app.presenters import table
from app.presenters.summaries import TrajectoryRow, row
from app.presenters.table import Chip, Column, KeyHelp, Missing, Picker, Wrong
from app.presenters.terminal import one_line
from app.render import Page
from core import query as language
from core.acts import DropView, View
from core.errors import InvalidInput, SearchTimeout, StoreStopped
from core.events.control import ControlState
from core.events.envelope import Standing
from core.limits import PAGE_COUNT_MAX, PAGE_ROWS, PAGE_ROWS_MAX, QUERY_CHARS_MAX
from core.principal import Principal
from core.query import quoted
from runtime.listing import SORTS
from runtime.service import ListPage, Runtime

router = APIRouter(include_in_schema=False)

SIZES = (20, PAGE_ROWS, PAGE_ROWS_MAX)
#: Values that a picker offers; others are typed.
CHOICES_MAX = 12
VIEWS_MAX = 50
#: Lists that most people look for: (name, query).
READY_VIEWS = (
    ("Today", "updated:<24h"),
    ("Unsettled", "unsettled:>0"),
    ("Failed", "status:failed"),
    ("Imported", "standing:imported"),
)
#: What of the URL a saved view keeps.
_STATE = ("q", "sort", "dir", "limit", "cols")


@dataclass(frozen=True, slots=True)
class ViewLink:
    """One list to go to."""

    name: str
    href: str
    here: bool
    saved: bool


@dataclass(frozen=True, slots=True)
class TrajectoriesPage(Page):
    """One page of the table."""

    template: ClassVar[str] = "pages/trajectories.html"
    parts: ClassVar[Mapping[str, str]] = {"list": "partials/_list.html"}
    section: ClassVar[str] = "Trajectories"

    now: int
    q: str
    chips: tuple[Chip, ...]
    mistakes: tuple[Wrong, ...]
    pickers: tuple[Picker, ...]
    views: tuple[ViewLink, ...]
    sort: str
    descending: bool
    limit: int
    columns: tuple[Column, ...]
    cols: str
    """As the URL carries them; empty: the default ones."""
    rows: tuple[TrajectoryRow, ...]
    total: int
    exact: bool
    all: int
    all_exact: bool
    missing: tuple[Missing, ...]
    behind: tuple[int, int]
    """(trajectories, events) that the index lacks, where the list asked it; else zeros."""
    failed: str
    """Why the list could not be made, or empty."""
    looked: int
    """Rows looked at where looking ended before the page was full; 0: it is full, or the end."""
    next: str
    paged: bool
    since: int
    """The newest change that this list knows."""
    newer: int = 0

    sizes: ClassVar[tuple[int, ...]] = SIZES
    all_columns: ClassVar[tuple[Column, ...]] = table.COLUMNS
    unsorted: ClassVar[frozenset[str]] = table.NOT_SORTED
    query_chars_max: ClassVar[int] = QUERY_CHARS_MAX
    help: ClassVar[tuple[KeyHelp, ...]] = table.help_keys()

    def state(self) -> dict[str, object]:
        """What the URL carries of this list, without its place in it."""
        return {
            "q": self.q,
            "sort": self.sort if self.sort != "updated" else "",
            "dir": "" if self.descending else "asc",
            "limit": self.limit if self.limit != PAGE_ROWS else "",
            "cols": self.cols,
        }

    def url(self, **changes: object) -> str:
        """The same table with some parts of its state changed, from its first page."""
        return links.trajectories(**{**self.state(), **changes})

    def sort_url(self, name: str) -> str:
        """Sort by a column; again turns it round."""
        turned = name == self.sort and self.descending
        return self.url(sort=name if name != "updated" else "", dir="asc" if turned else "")

    def export_url(self, form: str) -> str:
        """Everything this query lists, as a file."""
        state = self.state()
        return links.export_trajectories(q=self.q, sort=state["sort"], dir=state["dir"], form=form)

    @property
    def view_query(self) -> str:
        """What a saved view of this list keeps."""
        return urlencode({key: str(value) for key, value in self.state().items() if value})


def _query_text(
    q: str, *, status: str, standing: str, source: str, unsettled: bool, text: str
) -> str:
    """The query, with terms for what a plain link or a picker's form gave beside it."""
    given = [("status", status), ("standing", standing), ("source", source)]
    terms = [f"{name}:{quoted(value)}" for name, value in given if value]
    if unsettled:
        terms.append("unsettled:>0")
    if text:
        plain = text.replace('"', " ").strip()
        terms.append(f'text:"{plain}"' if not plain.endswith("*") else f"text:{plain}")
    return " ".join([q.strip(), *terms]).strip()


@router.get("/trajectories", response_class=HTMLResponse)
def trajectories(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    q: Annotated[str, Query(max_length=4 * QUERY_CHARS_MAX)] = "",
    status: Annotated[ControlState | Literal[""], Query()] = "",
    standing: Annotated[Standing | Literal[""], Query()] = "",
    source: Annotated[str, Query(max_length=100)] = "",
    unsettled: Annotated[Literal["", "0", "1"], Query()] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    sort: Annotated[str, Query(pattern=f"^(|{'|'.join(SORTS)})$")] = "",
    direction: Annotated[Literal["", "asc", "desc"], Query(alias="dir")] = "",
    limit: Annotated[str, Query(pattern=r"^(|[0-9]{1,4})$")] = "",
    cols: Annotated[str, Query(max_length=300)] = "",
    col: Annotated[list[str], Query(max_length=40)] = [],  # noqa: B006
    after: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """The table. A query with mistakes is answered by what the rest of it lists."""
    asked = _query_text(
        q,
        status=status,
        standing=standing,
        source=source.strip(),
        unsettled=unsettled == "1",
        text=text.strip(),
    )
    query = runtime.query(asked)
    size = max(1, min(int(limit or PAGE_ROWS), PAGE_ROWS_MAX))
    descending = direction != "asc"
    key = key_of(after)
    names = col or cols.split(",")
    columns = table.chosen(names)
    shown = tuple(column.name for column in columns)
    found, failed = ListPage((), None, 0), ""
    # Before the list is read: what comes meanwhile is then counted as newer, and never missed.
    since = newest_change(runtime, who)
    try:
        found = runtime.list(
            who,
            sort=sort or "updated",
            descending=descending,
            after=key,
            limit=size,
            query=query,
            count_most=PAGE_COUNT_MAX,
            explain=True,
        )
    except (SearchTimeout, StoreStopped) as error:
        failed = render.reason(error)
    all_ = runtime.projections.count_summaries(who.tenant, {}, most=PAGE_COUNT_MAX + 1)
    cols = "" if shown == table.DEFAULT else ",".join(shown)
    state = {
        "sort": sort if sort != "updated" else "",
        "dir": "" if descending else "asc",
        "limit": size if size != PAGE_ROWS else "",
        "cols": cols,
    }

    def href(text: str) -> str:
        return links.trajectories(q=text, **state)

    page = TrajectoriesPage(
        title="Trajectories",
        now=runtime.clock(),
        q=asked,
        chips=table.chips(query, href),
        mistakes=table.mistakes(query, href),
        pickers=table.pickers(query, _known(runtime, who), href),
        views=_views(runtime, who, {"q": asked, **state}),
        sort=sort or "updated",
        descending=descending,
        limit=size,
        columns=columns,
        cols=cols,
        rows=tuple(row(summary) for summary in found.rows),
        since=since,
        total=found.total,
        exact=found.exact,
        all=min(all_, PAGE_COUNT_MAX),
        all_exact=all_ <= PAGE_COUNT_MAX,
        missing=table.missing(found.left_out, href),
        behind=found.behind or (0, 0),
        failed=failed,
        looked=found.looked_through or 0,
        next=cursor(found.after) or "",
        paged=bool(after),
    )
    return render.respond(request, page)


def _known(runtime: Runtime, who: Principal) -> dict[str, Sequence[str]]:
    """Values that are there, for the pickers."""
    known: dict[str, Sequence[str]] = {
        key: runtime.projections.distinct(who.tenant, key, limit=CHOICES_MAX)
        for key in ("source", "model")
    }
    known["tag"] = [tag for tag, _ in runtime.projections.tags(who.tenant, limit=CHOICES_MAX)]
    if runtime.text_index is not None:
        try:
            known["tool"] = runtime.text_index.tools(who.tenant, limit=CHOICES_MAX)
        except (SearchTimeout, StoreStopped):
            known["tool"] = ()
    return known


def _views(runtime: Runtime, who: Principal, state: Mapping[str, object]) -> tuple[ViewLink, ...]:
    """Ready lists, then saved ones; `here` marks the one that is shown."""
    here = {key: str(value) for key, value in state.items() if value}
    found = [
        ViewLink(name, links.trajectories(q=text), here == {"q": text}, saved=False)
        for name, text in READY_VIEWS
    ]
    for name, act in list(runtime.views(who).items())[:VIEWS_MAX]:
        if isinstance(act.body, View):
            kept = {key: text for key, text in parse_qsl(act.body.query) if key in _STATE}
            found.append(
                ViewLink(one_line(name, 60), links.trajectories(**kept), here == kept, saved=True)
            )
    return tuple(found)


@router.post("/trajectories/views")
def save_view(
    who: WriterDep,
    runtime: RuntimeDep,
    name: Annotated[str, Form(max_length=60)],
    query: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Keep the list under a name; the same name again replaces it."""
    plain = name.strip()
    if not plain or not plain.isprintable():
        raise InvalidInput(
            "a view needs a name of printable characters, e.g. “Over budget”", field="name"
        )
    if len(runtime.views(who)) >= VIEWS_MAX and plain not in runtime.views(who):
        raise InvalidInput(f"at most {VIEWS_MAX} views are kept; drop one first", field="name")
    kept = {key: text for key, text in parse_qsl(query) if key in _STATE}
    view = View(plain, urlencode(kept))
    runtime.act(who, "view", view, request_id=f"page.{secrets.token_hex(12)}")
    return RedirectResponse(links.trajectories(**kept), 303)


@router.post("/trajectories/views/drop")
def drop_view(
    who: WriterDep,
    runtime: RuntimeDep,
    name: Annotated[str, Form(max_length=60)],
    query: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Offer a saved view no longer; the act that saved it stays."""
    if name in runtime.views(who):
        runtime.act(who, "drop_view", DropView(name), request_id=f"page.{secrets.token_hex(12)}")
    kept = {key: text for key, text in parse_qsl(query) if key in _STATE}
    return RedirectResponse(links.trajectories(**kept), 303)


assert {column.name for column in table.COLUMNS} - table.NOT_SORTED <= set(SORTS)
assert all(not language.parse(text, 0).mistakes for _, text in READY_VIEWS)
