"""The tail of an open trajectory: a number whenever its head has moved, never HTML.

The page listens only while it stands at the end, and fetches its own address when told; so the
stream carries no state of the page, and what is shown is rendered in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from app.deps import ReaderDep, RuntimeDep, TrajectoryPath
from core.errors import Busy
from core.limits import INTEGER_MAX

router = APIRouter(include_in_schema=False)

#: Readers of tails at once; beyond them a page is told to come again, and shows what it has.
READERS_MAX = 64
#: Also how often at most a page is told: the page itself must throttle nothing, for a notice that
#: it drops is the last one where nothing more is appended.
POLL_SECONDS = 0.4
#: A stream ends after so long and is taken up again by its page, so that none is held for ever.
STREAM_SECONDS_MAX = 600.0


class _Places:
    """How many tails are read; touched only by the event loop's own thread."""

    def __init__(self) -> None:
        self.taken = 0


_PLACES = _Places()


async def _place() -> AsyncIterator[None]:
    if _PLACES.taken >= READERS_MAX:
        raise Busy(f"{READERS_MAX} pages follow a trajectory already; reload to see newer events")
    _PLACES.taken += 1
    try:
        yield
    finally:
        _PLACES.taken -= 1


async def _known(who: ReaderDep, runtime: RuntimeDep, trajectory_id: TrajectoryPath) -> None:
    """NotFound before anything is streamed."""
    await run_in_threadpool(runtime.head, who, trajectory_id)


@router.get(
    "/t/{trajectory_id}/live",
    response_class=EventSourceResponse,
    dependencies=[Depends(_known), Depends(_place)],
)
async def live(
    who: ReaderDep,
    runtime: RuntimeDep,
    trajectory_id: TrajectoryPath,
    *,
    after: Annotated[int, Query(ge=0, le=INTEGER_MAX)] = 0,
    last_event_id: Annotated[str, Header(max_length=20)] = "",
) -> AsyncIterator[ServerSentEvent]:
    """`appended` with the new head, each time it has moved beyond what the page shows."""
    told = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else 0
    seen = max(after, told)
    until = asyncio.get_running_loop().time() + STREAM_SECONDS_MAX
    while asyncio.get_running_loop().time() < until:
        head = await run_in_threadpool(runtime.head, who, trajectory_id)
        if head.sequence_number > seen:
            seen = head.sequence_number
            yield ServerSentEvent(event="appended", raw_data=str(seen), id=str(seen))
        await asyncio.sleep(POLL_SECONDS)
