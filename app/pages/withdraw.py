"""Withdraw one trajectory, or bring it back: a form with a reason, and the act behind it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.deps import ReaderDep, RuntimeDep, TrajectoryPath, WriterDep
from app.pages.desk import SendForm, form_of
from app.presenters.acted import Banner, banners
from app.presenters.terminal import one_line
from app.render import Page
from core.acts import Nothing
from core.errors import InvalidInput
from core.limits import INTEGER_MAX

router = APIRouter(include_in_schema=False)

REASON_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class WithdrawPage(Page):
    """One trajectory, with the form that withdraws it or brings it back."""

    template: ClassVar[str] = "pages/withdraw.html"
    section: ClassVar[str] = "Trajectories"

    now: int
    trajectory_id: str
    name: str
    withdrawn: bool
    banners: tuple[Banner, ...]
    source: str
    """Page of the source it was imported from, with all that became of it; empty: none."""
    form: SendForm
    request_id: str
    reason_max: int = REASON_CHARS_MAX


@router.get("/t/{trajectory_id}/withdraw", response_class=HTMLResponse)
def form(
    request: Request, who: ReaderDep, runtime: RuntimeDep, trajectory_id: TrajectoryPath
) -> Response:
    """What it would do, and the form."""
    said = runtime.standing_of(who, trajectory_id)
    summary = runtime.summary(who, trajectory_id) or {}
    name = one_line(str(summary.get("title") or trajectory_id), 80)
    found = banners(said)
    page = WithdrawPage(
        title=f"{'Bring back' if said.withdrawn else 'Withdraw'} {name}",
        now=runtime.clock(),
        trajectory_id=trajectory_id,
        name=name,
        withdrawn=said.withdrawn is not None,
        banners=tuple(one for one in found if one.word == "withdrawn"),
        source=links.import_source(trajectory_id) if runtime.sources(who, trajectory_id) else "",
        form=form_of(who, said.last),
        request_id=f"page.{secrets.token_hex(12)}",
    )
    return render.respond(request, page)


@router.post("/t/{trajectory_id}/withdraw")
def act(
    who: WriterDep,
    runtime: RuntimeDep,
    trajectory_id: TrajectoryPath,
    *,
    what: Annotated[str, Form(pattern="^(withdraw|reinstate)$")],
    reason: Annotated[str, Form(max_length=4 * REASON_CHARS_MAX)] = "",
    last: Annotated[int, Form(ge=0, le=INTEGER_MAX)] = 0,
    request_id: Annotated[str, Form(max_length=60)] = "",
) -> Response:
    """Record the act, and go to what it is about."""
    said = reason.strip()
    if not said or len(said) > REASON_CHARS_MAX:
        raise InvalidInput(f"say why, in 1 to {REASON_CHARS_MAX} characters", field="reason")
    runtime.act(
        who,
        "withdraw" if what == "withdraw" else "reinstate",
        Nothing(),
        request_id=request_id,
        trajectory_id=trajectory_id,
        reason=said,
        expected_last=last,
    )
    return RedirectResponse(links.trajectory(trajectory_id), 303)
