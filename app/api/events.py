"""The log over HTTP: append, and read by range or one by one.

`append` is async and reads its body itself: one durable event per request is the rate that
matters (performance goal T6), and a thread hop per request costs half of it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from app import reads, wire
from app.api import answers, bodies
from app.deps import ReaderDep, RuntimeDep, SequencePath, TrajectoryPath, WriterDep
from core.errors import AckUnknown
from core.limits import ACK_SECONDS_MAX, EVENTS_PAGE_MAX, INTEGER_MAX
from runtime.service import Runtime
from store.ports import Ack

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
    body, events = bodies.append_body(await bodies.read_json(request))
    runtime: Runtime = request.app.state.parts.runtime

    def commit() -> Future[Ack]:
        return runtime.append(
            who,
            trajectory_id,
            owner_epoch=body.owner_epoch,
            worker=body.worker,
            request_id=body.request_id,
            events=events,
            expected_head=body.expected_head,
            incarnation=body.incarnation,
        )

    # Reading a payload blob waits for the disk; nothing else in preparing an append does.
    waits = any(event.payload_ref is not None for event in events)
    future = await run_in_threadpool(commit) if waits else commit()
    return answers.json(wire.ack(await acknowledged(future)), 201)


async def acknowledged(future: Future[Ack]) -> Ack:
    """The acknowledgement, or AckUnknown after ACK_SECONDS_MAX; the write is never cancelled."""
    loop = asyncio.get_running_loop()
    answered = loop.create_future()

    def release() -> None:
        if not answered.done():
            answered.set_result(None)

    future.add_done_callback(lambda _: loop.call_soon_threadsafe(release))
    timer = loop.call_later(ACK_SECONDS_MAX, release)
    try:
        await answered
    finally:
        timer.cancel()
    if not future.done():
        raise AckUnknown(
            f"the durable barrier was not answered within {ACK_SECONDS_MAX:.0f} s; send the "
            "identical request again"
        )
    return future.result()


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
