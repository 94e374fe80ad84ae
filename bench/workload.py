"""Events of about one kilobyte, as a runtime of its own would report them.

Payloads are canonical bytes made from templates: encoding them is the producer's work, not the
store's, and the probes and peers send a constant body too.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.canonical import digest_text, sha256
from core.events import registry
from core.events.envelope import NewEvent
from core.events.fields import MessageRef, Payload, ToolCall, Usage
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.tool import ToolIntent, ToolResult

#: Fills a payload up to about one kilobyte.
_TEXT = "a line of ordinary output that a tool wrote, " * 20
_STARTED_AT = 1_763_000_000_000_000


def intent(trajectory: int, number: int) -> NewEvent:
    """One proposal of a tool call, 1 KB of arguments, its operation its own."""
    payload = b'{"arguments":{"command":"%s","number":%d},"kind":"proposal","tool":"bash"}' % (
        _TEXT.encode(),
        number,
    )
    return NewEvent(
        event_id=f"i-{trajectory}-{number}",
        type="ToolIntent",
        schema_version=1,
        payload=payload,
        occurred_at=_STARTED_AT + number,
        operation_id=f"op-{trajectory}-{number}",
        attempt_id=f"at-{trajectory}-{number}",
    )


def _event(kind: str, name: str, payload: Payload, step: int, at: int, **ids: str) -> NewEvent:
    return NewEvent(
        event_id=f"{kind}-{name}",
        type=type(payload).__name__,
        schema_version=registry.FAMILIES[type(payload).__name__].version,
        payload=registry.encode(payload),
        occurred_at=at,
        step=step,
        **ids,
    )


def turn(step: int) -> list[NewEvent]:
    """One turn of a reported run: context, reply, proposal, result; about 4 KB in four events."""
    name = f"{step:07d}"
    invocation, operation, attempt = f"call-{name}", f"op-{name}", f"try-{name}"
    at = _STARTED_AT + step * 4_000_000
    digest = digest_text(sha256(name.encode()))
    message = MessageRef(role="tool", digest=digest, length=len(_TEXT), text=_TEXT)
    built = ContextBuilt(
        manifest_digest=digest,
        count=2 * step,
        base_invocation_id=f"call-{step - 1:07d}" if step > 1 else None,
        kept=2 * step - 1 if step > 1 else 0,
        messages=(message,),
        model="bench-model",
    )
    replied = ModelReplied(
        status="completed",
        model="bench-model",
        text=f"{step}: {_TEXT}",
        tool_calls=(ToolCall(tool="bash", operation_id=operation, call_id=f"c{step}"),),
        finish_reason="tool_calls",
        usage=Usage(input=500 + step % 100, output=90 + step % 10),
    )
    proposed = ToolIntent(
        kind="proposal", tool=f"tool{step % 9}", arguments={"command": _TEXT, "number": step}
    )
    answered = ToolResult(
        status="succeeded", basis="sender", observation=f"{step}: {_TEXT}", exit_code=0
    )
    acting = {"operation_id": operation, "attempt_id": attempt}
    return [
        _event("c", name, built, step, at, invocation_id=invocation),
        _event("m", name, replied, step, at + 1_000_000, invocation_id=invocation),
        _event("i", name, proposed, step, at + 1_100_000, invocation_id=invocation, **acting),
        _event("r", name, answered, step, at + 3_000_000, **acting),
    ]


def history(events: int) -> Iterator[NewEvent]:
    """`events` events of turns, the last turn cut where the number says so."""
    made = 0
    step = 0
    while made < events:
        step += 1
        for event in turn(step)[: events - made]:
            made += 1
            yield event
