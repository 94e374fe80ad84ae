"""What people do beside the logs: acts, the tree of sub-agents, and prices."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app import reads, wire
from app.api import answers, bodies
from app.deps import ReaderDep, RuntimeDep, TrajectoryPath, WriterDep
from core.acts import ActKind
from core.limits import INTEGER_MAX, PAGE_ROWS, PAGE_ROWS_MAX

router = APIRouter(prefix="/v1", tags=["acts"])

Kind = Annotated[ActKind | None, Query(description="only of this kind")]
After = Annotated[int, Query(ge=0, le=INTEGER_MAX, description="acts numbered above it")]
Limit = Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)]


@router.get(
    "/acts",
    operation_id="list_acts",
    response_model=answers.ActsAnswer,
    responses=answers.problems(),
)
def acts(
    who: ReaderDep,
    runtime: RuntimeDep,
    kind: Kind = None,
    after: After = 0,
    limit: Limit = PAGE_ROWS,
) -> Response:
    """All acts in the order they were made; nothing is ever taken out of it."""
    return answers.json(
        reads.acts(
            runtime,
            who,
            kinds=(kind,) if kind else (),
            trajectory_id=None,
            after=after,
            limit=limit,
        )
    )


@router.post(
    "/acts",
    operation_id="act",
    status_code=201,
    response_model=answers.ActAnswer,
    responses=answers.problems(404, 409, 415, 507),
    openapi_extra=bodies.model_body(bodies.DeskActBody),
)
async def act(request: Request, who: WriterDep, runtime: RuntimeDep) -> Response:
    """Record a view or a price, or take one back; answered once it is durable."""
    body = await bodies.read_model(request, bodies.DeskActBody)
    made = await run_in_threadpool(
        runtime.act,
        who,
        body.kind,
        body.body,
        request_id=body.request_id,
        reason=body.reason,
        expected_last=body.expected_last,
    )
    return answers.json({"outcome": "ok", "act": wire.act(made)}, 201)


@router.get(
    "/trajectories/{trajectory_id}/acts",
    operation_id="list_acts_of_trajectory",
    response_model=answers.TrajectoryActsAnswer,
    responses=answers.problems(404),
)
def acts_of(
    trajectory_id: TrajectoryPath,
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    kind: Kind = None,
    after: After = 0,
    limit: Limit = PAGE_ROWS,
) -> Response:
    """Acts about one trajectory in order, and what they add up to now."""
    return answers.json(
        reads.acts_of(
            runtime,
            who,
            trajectory_id,
            kinds=(kind,) if kind else (),
            after=after,
            limit=limit,
        )
    )


@router.post(
    "/trajectories/{trajectory_id}/acts",
    operation_id="act_on_trajectory",
    status_code=201,
    response_model=answers.ActAnswer,
    responses=answers.problems(404, 409, 415, 507),
    openapi_extra=bodies.model_body(bodies.ActBody),
)
async def act_on(
    trajectory_id: TrajectoryPath, request: Request, who: WriterDep, runtime: RuntimeDep
) -> Response:
    """Note, tag, withdraw, reinstate, supersede; answered once it is durable."""
    body = await bodies.read_model(request, bodies.ActBody)
    made = await run_in_threadpool(
        runtime.act,
        who,
        body.kind,
        body.body,
        request_id=body.request_id,
        trajectory_id=trajectory_id,
        boundary=body.boundary,
        reason=body.reason,
        expected_last=body.expected_last,
    )
    return answers.json({"outcome": "ok", "act": wire.act(made)}, 201)


@router.get(
    "/trajectories/{trajectory_id}/tree",
    operation_id="get_tree",
    response_model=answers.TreeAnswer,
    responses=answers.problems(404),
)
def tree(trajectory_id: TrajectoryPath, who: ReaderDep, runtime: RuntimeDep) -> Response:
    """Parent and sub-agents of a trajectory, each with what it and all below it add up to."""
    return answers.json(reads.tree(runtime, who, trajectory_id))


@router.get(
    "/prices",
    operation_id="list_prices",
    response_model=answers.PricesAnswer,
    responses=answers.problems(),
)
def prices(who: ReaderDep, runtime: RuntimeDep) -> Response:
    """The price table that derived costs are computed by: nano-USD for a million tokens."""
    return answers.json(reads.prices(runtime, who))
