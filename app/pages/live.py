"""The tails of pages that stay open: a number whenever something has moved, never HTML.

The page listens only while it stands at the end, and fetches its own address when told; so the
stream carries no state of the page, and what is shown is rendered in one place.

INVARIANTS
1. Every block carries an `id`, which is all it takes to go on: a reader that was dropped, or whose
   connection broke, gives it as Last-Event-ID and is told of what it missed by one number.
2. A reader that does not read is dropped (app.server), with that number as its last words; what
   waits for it meanwhile is one number (app.tails).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app import render
from app.deps import ReaderDep, RuntimeDep, TailsDep, TrajectoryPath
from app.render import Page
from app.server_scope import connection_of
from app.tails import Tails, Topic
from core.limits import INTEGER_MAX
from core.principal import Principal
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

#: How often at most a page is told: the page itself must throttle nothing, for a notice that it
#: drops is the last one where nothing more is appended.
PACE_SECONDS = 0.4
#: A silent stream says something this often, so that a dead connection is found on both sides.
PING_SECONDS = 15.0
#: A stream ends after so long and is taken up again by its page, so that none is held for ever.
STREAM_SECONDS_MAX = 600.0
#: A browser takes a broken stream up again after so long.
RETRY_MS = 1000
#: Lists are read from a cache that follows the log: after a notice it is asked again so often.
SETTLE_SECONDS = 0.5
SETTLE_TRIES = 12

AfterQuery = Annotated[int, Query(ge=0, le=INTEGER_MAX)]
LastEventId = Annotated[str, Header(max_length=20)]
#: What a stream is about, read from the store: its newest number.
Newest = Callable[[], Awaitable[int]]


def _told(after: int, last_event_id: str) -> int:
    """What the reader knows: the resume token of its browser, or what its page shows."""
    told = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else 0
    return min(max(after, told), INTEGER_MAX)


class Tail(StreamingResponse):
    """A stream of numbers. It takes a place when it begins, or is refused one before anything is
    sent, and gives it back however it ends."""

    def __init__(
        self,
        tails: Tails,
        topic: Topic,
        caller: str,
        *,
        event: str,
        seen: int,
        newest: Newest,
        settles: bool = False,
    ) -> None:
        """`settles`: `newest` may be behind the notice by some seconds."""
        super().__init__(self._blocks(), media_type="text/event-stream")
        self._place = tails.reading(topic, caller)
        self._event = event
        self._seen = seen
        self._newest = newest
        self._settles = settles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place as self._reader:
            connection = connection_of(scope)
            if connection is not None:
                connection.stream(self._last_words)
            await super().__call__(scope, receive, send)

    def _last_words(self) -> bytes:
        return _block("dropped", self._seen)

    async def _blocks(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        until = loop.time() + STREAM_SECONDS_MAX
        settling = 0
        yield format_sse_event(id=str(self._seen), retry=RETRY_MS)
        while loop.time() < until and not self._reader.ended:
            newest = await self._newest()
            if newest > self._seen:
                self._seen = newest
                yield _block(self._event, newest)
                await asyncio.sleep(PACE_SECONDS)
            elif settling > 0:
                settling -= 1
                await asyncio.sleep(SETTLE_SECONDS)
            elif await self._reader.wait(PING_SECONDS):
                settling = SETTLE_TRIES if self._settles else 0
            else:
                yield KEEPALIVE_COMMENT


def _block(event: str, number: int) -> bytes:
    return format_sse_event(event=event, data_str=str(number), id=str(number))


def _caller(request: Request, who: Principal) -> str:
    host = request.client.host if request.client else ""
    return f"{who.tenant} {who.name} {host}"


@router.get("/t/{trajectory_id}/live", response_class=Response)
async def trajectory(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    tails: TailsDep,
    trajectory_id: TrajectoryPath,
    *,
    after: AfterQuery = 0,
    last_event_id: LastEventId = "",
) -> Response:
    """`appended` with the new head, each time it has moved beyond what the page shows."""

    async def newest() -> int:
        return (await run_in_threadpool(runtime.head, who, trajectory_id)).sequence_number

    await newest()  # NotFound before anything is streamed.
    return Tail(
        tails,
        (who.tenant, trajectory_id),
        _caller(request, who),
        event="appended",
        seen=_told(after, last_event_id),
        newest=newest,
    )


@router.get("/trajectories/live", response_class=Response)
async def trajectories(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    tails: TailsDep,
    *,
    after: AfterQuery = 0,
    last_event_id: LastEventId = "",
) -> Response:
    """`moved` with the time of the newest change, each time a list has become older than that."""

    async def newest() -> int:
        return await run_in_threadpool(newest_change, runtime, who)

    return Tail(
        tails,
        (who.tenant, None),
        _caller(request, who),
        event="moved",
        seen=_told(after, last_event_id),
        newest=newest,
        settles=True,
    )


def newest_change(runtime: Runtime, who: Principal) -> int:
    """When the newest change that lists know was recorded; 0 where there is none."""
    found = runtime.projections.list_summaries(
        who.tenant, sort="updated", descending=True, after=None, limit=1, filters={}
    )
    return int(str(found[0]["updated_at"] or 0)) if found else 0


@dataclass(frozen=True, slots=True)
class NewerPage(Page):
    """How many trajectories changed since a list was read."""

    template: ClassVar[str] = "partials/_newer.html"
    parts: ClassVar[Mapping[str, str]] = {"newer": "partials/_newer.html"}

    since: int
    newer: int


@router.get("/trajectories/newer", response_class=HTMLResponse)
def newer(
    request: Request, who: ReaderDep, runtime: RuntimeDep, *, since: AfterQuery = 0
) -> Response:
    """The line above a list that says it has become older than the log."""
    found: dict[str, Any] = {"updated_at__gt": since}
    page = NewerPage(
        title="Newer", since=since, newer=runtime.projections.count_summaries(who.tenant, found)
    )
    return render.respond(request, page)
