"""The log over HTTP: append, and read by range or one by one.

`append` is async and reads its body itself: one durable event per request is the rate that
matters (performance goal T6), and a thread hop per request costs half of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from app import reads
from app.api import answers, bodies
from app.api.append import append as append_events
from app.deps import ReaderDep, RuntimeDep, SequencePath, TrajectoryPath, WriterDep
from core.limits import EVENTS_PAGE_MAX, INTEGER_MAX
from runtime.service import Runtime

router = APIRouter(prefix="/v1/trajectories/{trajectory_id}", tags=["events"])


@router.post(
    "/events",
    operation_id="append_events",
    status_code=201,
    response_model=answers.AckAnswer,
    responses=answers.problems(404, 409, 415, 507),
    openapi_extra=bodies.json_body(bodies.APPEND_SCHEMA),
)
async def append(trajectory_id: TrajectoryPath, request: Request, who: WriterDep) -> Response:
    """Append events as the worker that holds `owner_epoch`: all of them or none.

    Answered after the declared barrier. A duplicate (same event ids, same content) is answered
    with the existing acknowledgement.
    """
    runtime: Runtime = request.app.state.parts.runtime
    return await append_events(runtime, who, trajectory_id, await bodies.read_json(request))


@router.get(
    "/events",
    operation_id="read_events",
    response_model=answers.EventsAnswer,
    responses={
        **answers.problems(404),
        200: {"content": {answers.JSONL: {"schema": {"type": "string"}}}},
    },
)
def read(
    trajectory_id: TrajectoryPath,
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    after: Annotated[int, Query(ge=0, le=INTEGER_MAX, description="events beyond this")] = 0,
    upto: Annotated[int | None, Query(ge=0, le=INTEGER_MAX, description="and up to this")] = None,
    limit: Annotated[int, Query(ge=1, le=EVENTS_PAGE_MAX)] = EVENTS_PAGE_MAX,
    form: Annotated[
        Literal["json", "jsonl"],
        Query(alias="format", description="jsonl: the whole range, one event a line, no limit"),
    ] = "json",
) -> Response:
    """Events with after < sequence_number <= upto, in order."""
    if form == "jsonl":
        return StreamingResponse(
            reads.event_lines(runtime, who, trajectory_id, after, upto), media_type=answers.JSONL
        )
    return answers.json(
        reads.events(runtime, who, trajectory_id, after=after, upto=upto, limit=limit)
    )


@router.get(
    "/events/{sequence_number}",
    operation_id="read_event",
    response_model=answers.EventAnswer,
    responses=answers.problems(404),
)
def read_one(
    trajectory_id: TrajectoryPath,
    sequence_number: SequencePath,
    who: ReaderDep,
    runtime: RuntimeDep,
) -> Response:
    """One event, its payload included where it lies in the event."""
    return answers.json(reads.event(runtime, who, trajectory_id, sequence_number))


@router.get(
    "/events/{sequence_number}/payload",
    operation_id="read_payload",
    response_class=Response,
    responses={
        **answers.problems(404),
        200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}},
    },
)
def read_payload(
    trajectory_id: TrajectoryPath,
    sequence_number: SequencePath,
    who: ReaderDep,
    runtime: RuntimeDep,
) -> Response:
    """The payload's exact bytes, from the event or its blob, as a download."""
    event = runtime.event(who, trajectory_id, sequence_number)
    return download(
        runtime.payload(who, event),
        f"{trajectory_id}-{sequence_number}.json",
        event.payload_digest.hex(),
    )


def download(data: bytes, name: str, digest_hex: str) -> Response:
    """Untrusted bytes that no browser will show as a page."""
    return Response(data, media_type=BINARY, headers=download_headers(name, digest_hex))


BINARY = "application/octet-stream"


def download_headers(name: str, digest_hex: str) -> dict[str, str]:
    """Headers of a download: attachment, never sniffed, sandboxed, tagged by its digest."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "ETag": f'"sha256-{digest_hex}"',
    }
