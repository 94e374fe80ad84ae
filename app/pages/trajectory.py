"""The trajectory at a boundary, its jumps, and its verification."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.deps import FollowedDep, ReaderDep, RuntimeDep, TrajectoryPath
from app.pages import boundary
from app.pages.place import ROWS, ROWS_WIDE, Axis, ContextView, Place, Tab, Times
from app.presenters.format import count, duration
from app.presenters.terminal import one_line
from core.errors import NotFound
from core.limits import INTEGER_MAX

router = APIRouter(include_in_schema=False)

BoundaryPath = Annotated[int, Path(ge=0, le=INTEGER_MAX)]
TabQuery = Annotated[Tab, Query()]
AxisQuery = Annotated[Axis, Query()]
FlagQuery = Annotated[Literal["0", "1"], Query()]
#: Digits only; an empty field means none.
NumberQuery = Annotated[str, Query(pattern=r"^[0-9 ,]{0,24}$")]


_CLOCKS = {"occurred": "occurred, as they state it", "recorded": "were recorded"}


def _number(text: str) -> int | None:
    digits = text.replace(",", "").replace(" ", "")
    return min(int(digits), INTEGER_MAX) if digits else None


def _place(
    *,
    trajectory_id: TrajectoryPath,
    tab: TabQuery = "event",
    by: AxisQuery = "event",
    all_: Annotated[Literal["0", "1"], Query(alias="all")] = "0",
    vs: NumberQuery = "",
    rest: FlagQuery = "0",
    raw: FlagQuery = "0",
    rows: NumberQuery = "",
    times: Annotated[Times, Query()] = "since",
    find: Annotated[str, Query(max_length=200)] = "",
    only: Annotated[str, Query(pattern=r"^[a-z,]{0,120}$")] = "",
    zoom: Annotated[str, Query(pattern=r"^([0-9]{1,10}-[0-9]{1,10})?$")] = "",
    ctx: Annotated[ContextView, Query()] = "changes",
    m: NumberQuery = "",
    state: Annotated[str, Query(pattern=r"^[a-z_]{0,20}$")] = "",
    tool: Annotated[str, Query(max_length=200)] = "",
    older: Annotated[str, Query(pattern=r"^[0-9.]{0,40}$")] = "",
    before: NumberQuery = "",
) -> Place:
    wide = _number(rows) == ROWS_WIDE
    return Place(
        trajectory_id=trajectory_id,
        seq=0,
        tab=tab,
        by=by,
        all=all_ == "1",
        vs=_number(vs),
        rest=rest == "1",
        raw=raw == "1",
        rows=ROWS_WIDE if wide else ROWS,
        times=times,
        find=find.strip(),
        only=only,
        zoom=zoom,
        ctx=ctx,
        m=_number(m),
        state=state,
        tool=tool.strip(),
        older=older,
        before=_number(before),
    )


#: The place a request names, its boundary aside.
PlaceDep = Annotated[Place, Depends(_place)]


@router.get("/t/{trajectory_id}")
def head(
    request: Request, who: ReaderDep, runtime: RuntimeDep, trajectory_id: TrajectoryPath
) -> Response:
    """The newest boundary, under its own address."""
    newest = runtime.head(who, trajectory_id).sequence_number
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(links.boundary(trajectory_id, newest) + query, 302)


@router.get("/t/{trajectory_id}/@{seq}", response_class=HTMLResponse)
def at(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    place: PlaceDep,
    seq: BoundaryPath,
    *,
    followed: FollowedDep,
    wait: FlagQuery = "0",
) -> Response:
    """One boundary. `wait=1`: of a search in this log, once the index has caught up."""
    page = boundary.load(runtime, who, replace(place, seq=seq), wait=wait == "1", followed=followed)
    return render.respond(request, page)


@router.get("/t/{trajectory_id}/@{seq}/ahead", response_class=HTMLResponse)
def ahead(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    place: PlaceDep,
    seq: BoundaryPath,
    *,
    since: Annotated[int, Query(ge=0, le=INTEGER_MAX)] = 0,
) -> Response:
    """What has come after a boundary since its page was read, for that page."""
    return render.respond(request, boundary.ahead(runtime, who, replace(place, seq=seq), since))


@router.get("/t/{trajectory_id}/go", response_class=HTMLResponse)
def go(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    place: PlaceDep,
    *,
    followed: FollowedDep,
    q: Annotated[str, Query(max_length=200)] = "",
    from_: Annotated[int, Query(alias="from", ge=0, le=INTEGER_MAX)] = 0,
) -> Response:
    """The boundary that a typed jump or the scrubber means; where it means none, says so."""
    found = runtime.find(who, place.trajectory_id, q, near=from_) if q.strip() else from_
    if found is not None:
        there = replace(place, seq=found)
        if request.headers.get("HX-Request") != "true":
            return RedirectResponse(there.url(), 303)
        page = boundary.load(runtime, who, there, followed=followed)
        # A link that was followed is a step back away; a drag and a followed tail are not.
        told = "HX-Push-Url" if request.headers.get("HX-Boosted") == "true" else "HX-Replace-Url"
        return render.respond(request, page, headers={told: there.url()})
    newest = runtime.head(who, place.trajectory_id).sequence_number
    clock = runtime.clock_of(who, place.trajectory_id)
    notice = (
        f"Nothing here is called {one_line(q, 80)}. A jump takes a sequence number up to "
        f"{count(newest)}, step:12, a UTC time (when events {_CLOCKS[clock]}; 03:00 is on the day "
        "shown), or the id of an event, operation or call."
    )
    here = replace(place, seq=min(from_, newest))
    page = boundary.load(runtime, who, here, notice=notice, followed=followed)
    return render.respond(request, page, status=404, headers={"HX-Push-Url": "false"})


@router.get("/t/{trajectory_id}/@{seq}/verify", response_class=HTMLResponse)
def verify(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    trajectory_id: TrajectoryPath,
    seq: BoundaryPath,
    *,
    followed: FollowedDep,
) -> Response:
    """Derive every digest and chain value up to the boundary again, and say what was found."""
    place = Place(trajectory_id, seq, "evidence")
    newest = runtime.head(who, trajectory_id).sequence_number
    if seq > newest:
        raise NotFound(
            f"{trajectory_id} has no boundary {seq}; its head is {newest}",
            trajectory_id=trajectory_id,
            boundary=seq,
            head=newest,
        )
    started = runtime.clock()
    findings: list[str] = []
    reached = 0
    for sequence_number, finding in runtime.verify(who, trajectory_id, upto=seq):
        reached = max(reached, sequence_number)
        if finding is not None and len(findings) < 20:
            findings.append(f"{count(sequence_number)}: {finding.invariant}: {finding.detail}")
    took = duration(max(0, runtime.clock() - started))
    said = f"{count(reached)} of {count(seq)} events derived again in {took}"
    page = boundary.load(runtime, who, place, verified=(said, tuple(findings)), followed=followed)
    return render.respond(request, page)
