"""The table of trajectories: query, sort, columns and page are the URL; a page follows a key."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.cursors import cursor, key_of
from app.deps import ReaderDep, RuntimeDep, WatchDep, WriterDep
from app.pages.live import newest_change
from app.presenters import table
from app.presenters.found import excerpt
from app.presenters.summaries import TrajectoryRow, row
from app.presenters.table import Chip, Column, KeyHelp, Missing, Near, Picker, Wrong
from app.presenters.terminal import one_line
from app.render import Page
from core import query as language
from core.acts import DropView, View
from core.errors import InvalidInput, SearchTimeout, StoreStopped, StrandlineError
from core.events.control import ControlState
from core.events.envelope import Standing
from core.limits import PAGE_COUNT_MAX, PAGE_ROWS, PAGE_ROWS_MAX, QUERY_CHARS_MAX
from core.principal import Principal
from core.query import quoted
from core.words import phrases
from runtime.listing import SORTS
from runtime.service import ListPage, Runtime

router = APIRouter(include_in_schema=False)

SIZES = (20, PAGE_ROWS, PAGE_ROWS_MAX)
#: Values that a picker offers; others are typed.
CHOICES_MAX = 12
VIEWS_MAX = 50
#: Lists that most people look for: (name, query).
READY_VIEWS = (
    ("Today", "active:<24h"),
    ("Unsettled", "unsettled:>0"),
    ("Failed", "status:failed"),
    ("Imported", "standing:imported"),
)
#: What of the URL a saved view keeps.
_STATE = ("q", "sort", "dir", "limit", "cols")
#: What of it a selection comes back to.
_BACK = (*_STATE, "after")
#: How long excerpts are looked for; rows beyond it stand without.
HITS_SECONDS = 1.0


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
    all_hits: str
    """Address of all events that hold the text of the query, or empty."""
    near: tuple[Near, ...]
    """Where nothing matches: what may have been meant."""
    picked: tuple[str, ...]
    """Selected already: what was asked for takes another number of them."""
    picked_elsewhere: tuple[str, ...]
    """Those of them that are not among the rows."""
    pick_error: str
    back: str
    """This page of the list, to come back to."""
    total: int
    exact: bool
    all: int
    all_exact: bool
    missing: tuple[Missing, ...]
    behind: tuple[int, int]
    """(trajectories, events) that the index lacks, where the list asked it; else zeros."""
    lacks: tuple[int, int]
    """(trajectories, events) that the list lacks while its cache is filled again; else zeros."""
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
            "sort": self.sort if self.sort != "active" else "",
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
        return self.url(sort=name if name != "active" else "", dir="asc" if turned else "")

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
    watch: WatchDep,
    *,
    q: Annotated[str, Query(max_length=4 * QUERY_CHARS_MAX)] = "",
    status: Annotated[ControlState | Literal["", "OPEN"], Query()] = "",
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
    pick: Annotated[Literal["", "compare", "export"], Query()] = "",
    picked: Annotated[list[str], Query(alias="id", max_length=PAGE_ROWS_MAX)] = [],  # noqa: B006
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
    found, failed = ListPage((), None, 0), ""
    # Before the list is read: what comes meanwhile is then counted as newer, and never missed.
    since = newest_change(runtime, who)
    try:
        found = runtime.list(
            who,
            sort=sort or "active",
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
    now = runtime.clock()
    sought = _text_of(query)
    followed = watch.following()
    rows = _with_hits(
        runtime, who, tuple(row(summary, now, followed) for summary in found.rows), sought
    )
    columns = table.chosen(names, rows)
    chosen = any(name in table.BY_NAME for name in names)
    cols = ",".join(column.name for column in columns) if chosen else ""
    state = {
        "sort": sort if sort != "active" else "",
        "dir": "" if descending else "asc",
        "limit": size if size != PAGE_ROWS else "",
        "cols": cols,
    }

    def href(text: str) -> str:
        return links.trajectories(q=text, **state)

    page = TrajectoriesPage(
        title="Trajectories",
        now=now,
        q=asked,
        chips=table.chips(query, href),
        mistakes=table.mistakes(query, href),
        pickers=table.pickers(query, _known(runtime, who), href),
        views=_views(runtime, who, {"q": asked, **state}),
        sort=sort or "active",
        descending=descending,
        limit=size,
        columns=columns,
        cols=cols,
        rows=rows,
        all_hits=links.find(text=sought) if sought else "",
        near=table.near(found.nearest, href),
        picked=tuple(picked),
        picked_elsewhere=tuple(one for one in picked if one not in {r.trajectory_id for r in rows}),
        pick_error=_pick_error(pick, len(picked)),
        back=urlencode({key: text for key, text in request.query_params.items() if key in _BACK}),
        since=since,
        total=found.total,
        exact=found.exact,
        all=min(all_, PAGE_COUNT_MAX),
        all_exact=all_ <= PAGE_COUNT_MAX and not any(found.missing),
        missing=table.missing(found.left_out, href),
        behind=found.behind or (0, 0),
        lacks=found.missing,
        failed=failed,
        looked=found.looked_through or 0,
        next=cursor(found.after) or "",
        paged=bool(after),
    )
    return render.respond(request, page)


def _text_of(query: language.Query) -> str:
    """What the first `text:` term looks for; empty: nothing."""
    return next((str(term.values[0]) for term in query.of("text") if not term.negated), "")


def _with_hits(
    runtime: Runtime, who: Principal, rows: tuple[TrajectoryRow, ...], sought: str
) -> tuple[TrajectoryRow, ...]:
    """Each row with the first event that holds the text, as far as HITS_SECONDS goes."""
    index = runtime.text_index
    if not sought or index is None:
        return rows
    found = []
    end = time.monotonic() + HITS_SECONDS
    words = phrases(sought)
    for one in rows:
        if time.monotonic() < end:
            try:
                hits = index.hits(who.tenant, sought, trajectory_id=one.trajectory_id, limit=1)
                if hits:
                    number = hits[0].sequence_number
                    around = excerpt(runtime.text_of(who, one.trajectory_id, number), words, 40)
                    hit = links.boundary(one.trajectory_id, number, tab="event", find=sought)
                    found.append(replace(one, hit=hit, excerpt=around))
                    continue
            except StrandlineError:
                # The row stands without it; the page of the event says why.
                pass
        found.append(one)
    return tuple(found)


def _pick_error(pick: str, number: int) -> str:
    """Why what was asked for took another number of rows; empty: it was not asked for."""
    if pick == "export":
        return "Nothing is selected to export: tick one row or more, and press again."
    if pick != "compare":
        return ""
    if number > 2:
        return (
            f"A comparison takes two trajectories, and {number} are selected: untick "
            f"{number - 2}, and press again."
        )
    missing = "two rows" if number == 0 else "one row more"
    return (
        f"A comparison takes two trajectories, and {number} {'is' if number == 1 else 'are'} "
        + (f"selected: tick {missing}, and press again.")
    )


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
