"""One imported source: what it became, withdraw it or bring it back; derive again what is old."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app import links, render, sources
from app.deps import ImporterDep, PartsDep, RuntimeDep, TrajectoryPath
from app.presenters import sources as shown
from app.presenters.sources import SourceDetail
from app.render import Page
from app.wiring import Parts
from core.acts import Nothing
from core.errors import HeadMoved, InvalidInput, NotFound
from core.instants import Instant
from core.principal import Principal
from ingest.logs import trajectories_of
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

REASON_CHARS_MAX = 500
#: Sources derived again by one press of the button; the page says if there are more.
REDERIVED_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class SourcePage(Page):
    """One source, with the form that withdraws it or brings it back."""

    template: ClassVar[str] = "pages/source.html"
    parts: ClassVar[Mapping[str, str]] = {}
    section: ClassVar[str] = "Import"

    now: Instant
    source: SourceDetail
    trajectory_id: str
    last: int
    request_id: str
    reason_max: int


@router.get("/import/source/{trajectory_id}", response_class=HTMLResponse)
def source(
    trajectory_id: TrajectoryPath, request: Request, who: ImporterDep, runtime: RuntimeDep
) -> Response:
    """What a source became."""
    row = sources.of_trajectory(runtime, who, trajectory_id)
    page = SourcePage(
        title=f"Source of {row.own.title or trajectory_id}"[:120],
        now=runtime.clock(),
        source=shown.detail(row),
        trajectory_id=trajectory_id,
        last=row.own.last_act,
        request_id=f"page.{secrets.token_hex(12)}",
        reason_max=REASON_CHARS_MAX,
    )
    return render.respond(request, page)


@router.post("/import/source/{trajectory_id}")
async def act(
    trajectory_id: TrajectoryPath, request: Request, who: ImporterDep, runtime: RuntimeDep
) -> Response:
    """Withdraw all that a source became, or bring it back."""
    async with request.form(max_files=0, max_fields=8) as form:
        sent = {name: value.strip() for name, value in form.items() if isinstance(value, str)}
    wanted, reason = sent.get("act", ""), sent.get("reason", "")
    if wanted not in ("withdraw", "reinstate") or not sent.get("last", "").isdecimal():
        raise InvalidInput("the form is not one of this page; open it again", field="form")
    if not reason or len(reason) > REASON_CHARS_MAX:
        raise InvalidInput(f"say why, in 1 to {REASON_CHARS_MAX} characters", field="reason")
    await run_in_threadpool(
        _act,
        runtime,
        who,
        trajectory_id,
        _Asked(wanted, reason, int(sent["last"][:15]), sent.get("request_id", "")),
    )
    return RedirectResponse(links.import_source(trajectory_id), 303)


@dataclass(frozen=True, slots=True)
class _Asked:
    act: str
    reason: str
    last: int
    """Newest act about the source's own trajectory that the person saw."""
    request_id: str


def _act(runtime: Runtime, who: Principal, trajectory_id: str, asked: _Asked) -> None:
    """One act for each trajectory of the source that is not as it is wanted; its own last, so that
    what was cut off can be asked for again."""
    row = sources.of_trajectory(runtime, who, trajectory_id)
    if row.own.last_act != asked.last:
        raise HeadMoved("somebody has acted on this source since you opened the page; look again")
    for name in reversed(trajectories_of(row.source)):
        try:
            standing = runtime.standing_of(who, name)
        except NotFound:
            continue  # A sub-agent whose log was cut off before its first event.
        if (standing.withdrawn is not None) == (asked.act == "withdraw"):
            continue
        runtime.act(
            who,
            "withdraw" if asked.act == "withdraw" else "reinstate",
            Nothing(),
            request_id=f"{asked.request_id}.{name}"[:120],
            trajectory_id=name,
            reason=asked.reason,
            expected_last=standing.last,
        )


@router.post("/import/rederive")
async def rederive(who: ImporterDep, parts: PartsDep) -> Response:
    """Derive again, from kept originals, what older importers read."""
    done, refused = await run_in_threadpool(_rederive, parts, who)
    return RedirectResponse(links.imports_rederived(done, refused), 303)


def _rederive(parts: Parts, who: Principal) -> tuple[int, int]:
    reports = [report for _, report in parts.rederive(who, limit=REDERIVED_AT_ONCE)]
    return sum(one.ok for one in reports), sum(not one.ok for one in reports)
