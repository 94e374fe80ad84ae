"""ContextBuilt and ModelReplied: what a model was given, and what came back."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.fields import Digest, Json, MessageRef, Natural, Payload, Positive, ToolCall, Usage


class ContextBuilt(Payload, frozen=True):
    """The delivered input of one model call, as a delta against an earlier one.

    The manifest is the first `kept` entries of the base invocation's manifest, then `messages`.
    Stated as a delta because prompts grow: whole manifests would be quadratic in the turns.
    """

    manifest_digest: Annotated[
        Digest, Meta(description="SHA-256 over the ordered raw digests of all its messages")
    ]
    count: Annotated[int, Meta(ge=0, description="messages in the whole manifest")]
    base_invocation_id: Annotated[str | None, Meta(description="manifest this extends")] = None
    kept: Annotated[int, Meta(ge=0, description="leading messages taken from the base")] = 0
    messages: Annotated[tuple[MessageRef, ...], Meta(description="appended messages")] = ()
    tools: Annotated[tuple[MessageRef, ...], Meta(description="tool descriptions")] = ()
    model: Annotated[str | None, Meta(description="model asked for")] = None
    request: Annotated[
        dict[str, Json] | None, Meta(description="decoding and assembly configuration")
    ] = None
    wire_digest: Annotated[Digest | None, Meta(description="of the request body as sent")] = None
    claim: Annotated[
        Literal["exact", "rebuilt", "partial"], Meta(description="how exact this is (EVT-2)")
    ] = "partial"
    redactions: Annotated[int, Meta(ge=0)] = 0
    dropped: Annotated[int, Meta(ge=0, description="messages left out of the assembly")] = 0
    retry_of: Annotated[str | None, Meta(description="invocation this asks again")] = None
    input_tokens: Annotated[Natural | None, Meta(description="as counted by the sender")] = None


class ModelReplied(Payload, frozen=True):
    """What was observed of one model call."""

    status: Annotated[
        Literal["completed", "error", "cancelled", "superseded"],
        Meta(description="completed: a whole reply was received"),
    ]
    model: Annotated[str | None, Meta(description="model that served it, as reported")] = None
    text: Annotated[str | None, Meta(description="text of the reply")] = None
    reasoning: Annotated[
        str | None, Meta(description="what the model wrote before it, where that is readable")
    ] = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Annotated[Usage | None, Meta(description="tokens; absent where not reported")] = None
    usage_raw: Annotated[
        dict[str, Json] | None, Meta(description="usage as the provider wrote it")
    ] = None
    provider: Annotated[dict[str, Json] | None, Meta(description="provider provenance")] = None
    response_id: str | None = None
    rejected: Annotated[
        str | None, Meta(description="why the harness did not accept the reply, if it did not")
    ] = None
    error: Annotated[str | None, Meta(description="the error, where status is error")] = None
    gaps: Annotated[tuple[str, ...], Meta(description="what the source does not record")] = ()
    retry_of: str | None = None
    attempts: Annotated[
        Positive | None, Meta(description="transport attempts; absent: unobserved")
    ] = None
    continues: Annotated[
        bool,
        Meta(
            description="a further part of the reply already stated under this invocation; its "
            "usage is what the reply's tokens rose by"
        ),
    ] = False
