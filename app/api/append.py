"""The append route as a plain ASGI application: one durable event a request, many times a second.

The framework's routing and dependencies cost twice what the rest of an append costs, so the guard
hands this route's requests here (performance goal T6). It is the same handler as the declared
route in app.api.events, which describes it in /openapi.json and carries its authorization marker;
a test holds the two to the same answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app import auth, errors, wire
from app.api import answers, bodies
from core.errors import StrandlineError
from core.principal import Principal
from runtime.service import Runtime
from store.ports import Ack

_PREFIX = len("/v1/trajectories/")
_SUFFIX = len("/events")


class DirectAppend:
    """Answers `POST /v1/trajectories/{id}/events`; the guard has checked the path's form."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(scope, receive)
        except StrandlineError as error:
            response = errors.respond_to(scope, error)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        who = auth.permitted(scope["state"]["principal"], "write")
        content_type = b""
        for name, value in scope["headers"]:
            if name == b"content-type":
                content_type = value
        bodies.check_json(content_type.decode("latin-1"))
        path: str = scope["path"]
        return await append(
            self._state.parts.runtime, who, path[_PREFIX:-_SUFFIX], await _body(receive)
        )


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    parts = [body]
    while message.get("more_body", False):
        message = await receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


async def append(runtime: Runtime, who: Principal, trajectory_id: str, data: bytes) -> Response:
    """Commit the events of a body; answered after the barrier."""
    body, events, payloads = bodies.append_body(data)

    def commit() -> Future[Ack]:
        return runtime.append(
            who,
            trajectory_id,
            owner_epoch=body.owner_epoch,
            worker=body.worker,
            request_id=body.request_id,
            events=events,
            payloads=payloads,
            expected_head=body.expected_head,
            incarnation=body.incarnation,
        )

    # Reading a payload blob waits for the disk; nothing else in preparing an append does.
    waits = any(event.payload_ref is not None for event in events)
    future = await run_in_threadpool(commit) if waits else commit()
    return answers.json(wire.ack(await acknowledged(future)), 201)


async def acknowledged(future: Future[Ack]) -> Ack:
    """The acknowledgement. The store answers within ACK_SECONDS_MAX, with AckUnknown if need be;
    the write itself is never cancelled."""
    if not future.done():
        loop = asyncio.get_running_loop()
        box = _boxes.get(loop)
        if box is None:
            box = _boxes[loop] = Mailbox(loop)
        answered = loop.create_future()
        future.add_done_callback(lambda _: box.post(answered))
        await answered
    return future.result()


class Mailbox:
    """Carries a whole group's answers from the writer's thread to a loop by one wake-up.

    `post` appends before it looks at the flag, `_drain` clears the flag before it takes: an answer
    posted meanwhile is either taken by that run or wakes the loop again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._woken = False

    def post(self, answered: asyncio.Future[None]) -> None:
        """From any thread: let the coroutine that waits for `answered` go on."""
        self._waiting.append(answered)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop has ended, and with it whoever waited; the write is stored all the same.
                self._waiting.clear()

    def _drain(self) -> None:
        self._woken = False
        waiting = self._waiting
        while waiting:
            answered = waiting.popleft()
            if not answered.done():
                answered.set_result(None)


#: One mailbox for each running loop; a server has one.
_boxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()
