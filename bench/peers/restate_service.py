"""The service that Restate invokes: an echo, served by hypercorn of its own environment."""

from __future__ import annotations

import restate  # type: ignore[import-not-found, unused-ignore]

bench = restate.Service("bench")


@bench.handler()  # type: ignore[untyped-decorator, unused-ignore]
async def echo(ctx: restate.Context, text: str) -> str:
    """Answer with what was given; the invocation itself is durable."""
    return text


app = restate.app(services=[bench])
