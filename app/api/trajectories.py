"""Create, claim and list trajectories; one trajectory's head."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app import reads, wire
from app.api import answers, bodies
from app.deps import ReaderDep, RuntimeDep, TrajectoryPath, WriterDep
from core.limits import LIST_COUNT_MAX, PAGE_ROWS, PAGE_ROWS_MAX, QUERY_CHARS_MAX
from runtime.service import SORTS

router = APIRouter(prefix="/v1/trajectories", tags=["trajectories"])


@router.post(
    "",
    operation_id="create_trajectory",
    status_code=201,
    response_model=answers.AckAnswer,
    responses=answers.problems(409, 415, 507),
    openapi_extra=bodies.model_body(bodies.CreateBody),
)
async def create(request: Request, who: WriterDep, runtime: RuntimeDep) -> Response:
    """Create a trajectory with its TaskStarted. The same request gets the same answer."""
    body = await bodies.read_model(request, bodies.CreateBody)
    task = bodies.task_of(body)
    made = await run_in_threadpool(
        runtime.create,
        who,
        request_id=body.request_id,
        standing=body.standing,
        task=task,
        trajectory_id=body.trajectory_id,
    )
    return answers.json(wire.ack(made), 201)


@router.post(
    "/{trajectory_id}/claim",
    operation_id="claim_trajectory",
    status_code=201,
    response_model=answers.GrantAnswer,
    responses=answers.problems(404, 409, 415, 507),
    openapi_extra=bodies.model_body(bodies.ClaimBody),
)
async def claim(
    trajectory_id: TrajectoryPath, request: Request, who: WriterDep, runtime: RuntimeDep
) -> Response:
    """Grant the next owner epoch; from its OwnershipGranted on no older epoch appends."""
    body = await bodies.read_model(request, bodies.ClaimBody)
    granted = await run_in_threadpool(
        runtime.claim,
        who,
        trajectory_id,
        request_id=body.request_id,
        worker=body.worker,
        expected_epoch=body.expected_epoch,
    )
    return answers.json(wire.grant(granted), 201)


Text = Annotated[str | None, Query(max_length=200)]


@router.get(
    "",
    operation_id="list_trajectories",
    response_model=answers.ListAnswer,
    responses=answers.problems(503),
)
def list_page(
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    sort: Annotated[str, Query(pattern=f"^({'|'.join(SORTS)})$")] = "active",
    direction: Annotated[Literal["asc", "desc"], Query()] = "desc",
    after: Annotated[str | None, Query(max_length=1024)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)] = PAGE_ROWS,
    standing: Annotated[Literal["gated", "reported", "imported", "replica"] | None, Query()] = None,
    status: Text = None,
    source: Text = None,
    agent: Text = None,
    model: Text = None,
    text: Text = None,
    q: Annotated[
        str, Query(max_length=QUERY_CHARS_MAX, description="a query, as on the Trajectories page")
    ] = "",
    count: Annotated[
        Literal["some", "exact"],
        Query(description=f"`some`: counting ends at {LIST_COUNT_MAX}"),
    ] = "some",
) -> Response:
    """Summaries, keyset-paged. They follow the log and may be behind it by a moment."""
    given = {
        "standing": standing,
        "status": status,
        "source": source,
        "agent": agent,
        "model": model,
        "text": text,
    }
    return answers.json(
        reads.list_page(
            runtime,
            who,
            sort=sort,
            descending=direction == "desc",
            after=after,
            limit=limit,
            filters={name: value for name, value in given.items() if value is not None},
            q=q,
            count=count,
        )
    )


@router.get(
    "/{trajectory_id}",
    operation_id="get_trajectory",
    response_model=answers.HeadAnswer,
    responses=answers.problems(404),
)
def get(trajectory_id: TrajectoryPath, who: ReaderDep, runtime: RuntimeDep) -> Response:
    """Head, standing, ownership, summary and import sources."""
    return answers.json(reads.trajectory(runtime, who, trajectory_id))
