"""Reading a model provider's reply (chat completions or responses layout) into our terms.

Nothing here trusts a type: a field of another shape than the provider documents is read as
absent, and the caller says so in a gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from core.errors import InvalidInput
from core.events.fields import Usage
from core.limits import INTEGER_MAX
from core.strictjson import loads

#: Rules a reply's tokens are counted by; the report names them.
INCLUSIVE = "input = prompt_tokens minus cached and cache-written tokens, which it includes"
EXCLUSIVE = "input = prompt_tokens as written; the cached tokens exceed it, so it excludes them"
UNREPORTED = "tokens not recorded"

_PROVENANCE = (
    "id",
    "provider",
    "object",
    "created",
    "created_at",
    "system_fingerprint",
    "service_tier",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a reply."""

    tool: str
    call_id: str | None
    arguments: Any
    """The JSON value, or the text itself where it is no JSON."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a response body says."""

    model: str | None = None
    text: str | None = None
    calls: tuple[Call, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    usage_rule: str = UNREPORTED
    usage_raw: dict[str, Any] | None = None
    cost_usd: object = None
    """`usage.cost` as a provider that prices its replies states it."""
    provider: dict[str, Any] = field(default_factory=dict)
    response_id: str | None = None
    other_parts: int = 0
    """Content parts that are no text (images); they are in the original only."""


def read_response(response: object) -> Reply:
    """A response body as the harness kept it; anything but an object reads as empty."""
    if not isinstance(response, dict):
        return Reply()
    usage_raw = response.get("usage") if isinstance(response.get("usage"), dict) else None
    usage, rule = read_usage(usage_raw)
    message, finish = _message(response)
    text, other = text_of(message.get("content"))
    return Reply(
        model=_text(response.get("model")),
        text=text,
        calls=calls_of(message),
        finish_reason=finish,
        usage=usage,
        usage_rule=rule,
        usage_raw=usage_raw,
        cost_usd=usage_raw.get("cost") if usage_raw else None,
        provider={key: response[key] for key in _PROVENANCE if _plain(response.get(key))},
        response_id=_text(response.get("id")),
        other_parts=other,
    )


def _message(response: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """(message, finish reason) of either layout; a responses body becomes a chat message."""
    choices = response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        reason = _text(choices[0].get("finish_reason"))
        return (message if isinstance(message, dict) else {}), reason
    output = response.get("output")
    if not isinstance(output, list):
        return {}, None
    parts: list[Any] = []
    calls: list[Any] = []
    for item in output:
        if not isinstance(item, dict):
            continue
        if item.get("type") == "function_call":
            calls.append({"id": item.get("call_id") or item.get("id"), "function": item})
        elif item.get("type") == "message" and isinstance(item.get("content"), list):
            parts.extend(item["content"])
    return {"content": parts or None, "tool_calls": calls}, _text(response.get("status"))


def calls_of(message: dict[str, Any]) -> tuple[Call, ...]:
    """The tool calls of a chat message, in order."""
    listed = message.get("tool_calls")
    if not isinstance(listed, list):
        return ()
    calls = []
    for item in listed:
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict):
            continue
        name = _text(function.get("name")) or "(unnamed)"
        calls.append(Call(name, _text(item.get("id")), arguments_of(function.get("arguments"))))
    return tuple(calls)


def arguments_of(raw: object) -> Any:
    """Arguments as a JSON value; the text itself where it is not canonical JSON."""
    if not isinstance(raw, str):
        return raw
    try:
        return loads(raw.encode("utf-8", "surrogatepass"))
    except InvalidInput:
        return raw


def text_of(content: object) -> tuple[str | None, int]:
    """(text of a message's content, how many of its parts are no text)."""
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        return None, 0
    texts = [part["text"] for part in content if isinstance(part, dict) and _text(part.get("text"))]
    return ("".join(texts) if texts else None), len(content) - len(texts)


def read_usage(raw: dict[str, Any] | None) -> tuple[Usage | None, str]:
    """Four disjoint buckets of an OpenAI-style usage object, and the rule they follow."""
    if raw is None:
        return None, UNREPORTED
    prompt = count(raw.get("prompt_tokens"))
    prompt = count(raw.get("input_tokens")) if prompt is None else prompt
    output = count(raw.get("completion_tokens"))
    output = count(raw.get("output_tokens")) if output is None else output
    if prompt is None and output is None:
        return None, UNREPORTED
    details = raw.get("prompt_tokens_details") or raw.get("input_tokens_details")
    inner = details if isinstance(details, dict) else {}
    cached = _first(inner.get("cached_tokens"), raw.get("cache_read_input_tokens"))
    written = _first(
        raw.get("cache_creation_input_tokens"),
        inner.get("cache_creation_tokens"),
        inner.get("cache_write_tokens"),
    )
    rest, rule = prompt, INCLUSIVE
    if prompt is not None:
        within = (cached or 0) + (written or 0)
        rest, rule = (prompt - within, INCLUSIVE) if within <= prompt else (prompt, EXCLUSIVE)
    return Usage(input=rest, output=output, cache_read=cached, cache_write=written), rule


def nano_usd(value: object) -> int | None:
    """A cost in US dollars as integer nano-dollars; None if it is no cost."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(repr(value) if isinstance(value, float) else str(value))
        nano = int((amount * 1_000_000_000).to_integral_value())
    except (InvalidOperation, OverflowError, ValueError):
        return None
    return nano if 0 <= nano <= INTEGER_MAX else None


def count(value: object) -> int | None:
    """A token count, or None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= INTEGER_MAX else None


def _first(*values: object) -> int | None:
    for value in values:
        found = count(value)
        if found is not None:
            return found
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
