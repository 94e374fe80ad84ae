"""Two trajectories side by side: what each came to, and the first events that state otherwise.

Events are held against each other by their place alone: where one log has an event more, all that
follow stand against others. So this page says what differs at a place, and claims no point where
the two went apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.deps import ReaderDep, RuntimeDep
from app.presenters import compared, labels
from app.presenters.compared import Property
from app.presenters.labels import Line
from app.render import Page
from core.errors import NotFound, SearchTimeout, StoreStopped, StrandlineError
from core.events.envelope import Event
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import COMPARE_EVENTS_MAX, PAGE_ROWS_MAX, QUERY_CHARS_MAX
from core.principal import Principal
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

_PAGE = 200
_BACK_CHARS_MAX = 8 * QUERY_CHARS_MAX
#: Tools of one trajectory that are named; the rest is counted.
TOOLS_SHOWN = 12
_START = "TaskStarted"


@dataclass(frozen=True, slots=True)
class Walk:
    """How far two logs state the same, by place."""

    same: int
    """Leading events that state the same."""
    ended: bool
    """Whether a difference or the end of one of them was met."""
    looked: int
    family: int | None
    """The first place beyond the start where both have an event of one family, and it states
    something else; None: there is none among those looked at."""


@dataclass(frozen=True, slots=True)
class Side:
    """One event of a pair."""

    href: str
    line: Line


@dataclass(frozen=True, slots=True)
class Pair:
    """The events of both at one place."""

    place: int
    a: Side
    b: Side


@dataclass(frozen=True, slots=True)
class ComparePage(Page):
    """Two trajectories side by side."""

    template: ClassVar[str] = "pages/compare.html"
    section: ClassVar[str] = "Trajectories"

    now: int
    properties: tuple[Property, ...]
    walk: Walk
    a_at: str
    b_at: str
    """Addresses of the first events that differ; empty: none."""
    pair: Pair | None
    swap: str


@router.get("/trajectories/compare", response_class=HTMLResponse)
def compare(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    ids: Annotated[list[str], Query(alias="id", max_length=PAGE_ROWS_MAX)] = [],  # noqa: B006
    back: Annotated[str, Query(max_length=_BACK_CHARS_MAX)] = "",
) -> Response:
    """A and B: what each came to, and how far their logs state the same. Another number than two
    leads back to the list, which keeps what is selected and says what to do."""
    for one in ids:
        parse_trajectory_id(one)
    if len(ids) != 2 or ids[0] == ids[1]:
        there = links.picked(dict(parse_qsl(back)), "compare", list(dict.fromkeys(ids)))
        return RedirectResponse(there, 303)
    sides = tuple(_side(runtime, who, one) for one in ids)
    walk = _walk(runtime, who, ids[0], ids[1])
    at = [
        links.boundary(one, walk.same + 1)
        if walk.ended and walk.same < runtime.head(who, one).sequence_number
        else ""
        for one in ids
    ]
    page = ComparePage(
        title="Compare two trajectories",
        now=runtime.clock(),
        properties=compared.properties(sides[0], sides[1], runtime.clock()),
        walk=walk,
        a_at=at[0],
        b_at=at[1],
        pair=_pair(runtime, who, ids, walk.family) if walk.family is not None else None,
        swap=links.compare_trajectories(ids[1], ids[0]),
    )
    return render.respond(request, page)


def _side(runtime: Runtime, who: Principal, trajectory_id: str) -> compared.Given:
    head = runtime.head(who, trajectory_id)
    summary = runtime.summary(who, trajectory_id)
    if summary is None:
        raise NotFound(
            f"{trajectory_id} has no summary yet; try again in a moment",
            trajectory_id=trajectory_id,
        )
    tools: list[tuple[str, int]] | None = None
    indexed = 0
    if runtime.text_index is not None:
        try:
            tools = runtime.text_index.tools_of(who.tenant, trajectory_id, limit=PAGE_ROWS_MAX)
            indexed = runtime.text_index.watermark(who.tenant, trajectory_id)
        except (SearchTimeout, StoreStopped):
            tools = None
    behind = max(0, head.sequence_number - indexed)
    return compared.Given(summary, tools, behind, TOOLS_SHOWN)


def _walk(runtime: Runtime, who: Principal, a: str, b: str) -> Walk:
    """Both logs from their first events on, place by place, at most COMPARE_EVENTS_MAX. Events
    state the same by type, version and payload digest."""
    same, looked, parted, family = 0, 0, False, None
    while looked < COMPARE_EVENTS_MAX:
        ours = runtime.events(who, a, after=looked, limit=_PAGE)
        theirs = runtime.events(who, b, after=looked, limit=_PAGE)
        for one, other in zip(ours, theirs, strict=False):
            looked += 1
            if _states(one) == _states(other):
                same += not parted
                continue
            parted = True
            if one.type == other.type and one.type != _START:
                return Walk(same, True, looked, looked)
        if len(ours) < _PAGE or len(theirs) < _PAGE:
            return Walk(same, True, looked, family)
    return Walk(same, parted, looked, family)


def _states(event: Event) -> tuple[str, int, bytes]:
    return event.type, event.schema_version, event.payload_digest


def _pair(runtime: Runtime, who: Principal, ids: list[str], place: int) -> Pair:
    a, b = (
        Side(links.boundary(one, place, tab="event"), _line(runtime, who, one, place))
        for one in ids
    )
    return Pair(place, a, b)


def _line(runtime: Runtime, who: Principal, trajectory_id: str, place: int) -> Line:
    event = runtime.event(who, trajectory_id, place)
    try:
        return labels.line(event, runtime.typed(who, event))
    except StrandlineError as error:
        return labels.unreadable(event, render.reason(error))
