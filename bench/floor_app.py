"""The HTTP floor: a FastAPI route that parses a raw body and answers, on the product's server."""

from __future__ import annotations

import orjson
from fastapi import FastAPI, Request
from starlette.responses import Response

app = FastAPI(openapi_url=None)


@app.post("/raw")
async def raw(request: Request) -> Response:
    """Parse and answer; nothing is stored."""
    events = orjson.loads(await request.body())["events"]
    return Response(b'{"ok":true,"events":%d}' % len(events), media_type="application/json")
