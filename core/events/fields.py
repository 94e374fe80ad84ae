"""Building blocks of payload schemas: the base class, and the parts several families share.

Every field carries its description as data (`msgspec.Meta`), because `docs/events.md` is
generated from the schemas. Payload structs refuse unknown fields: a field this version does not
know means another schema version.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.limits import INTEGER_MAX


class Payload(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of every payload."""


Natural = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Positive = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
Json = Any


class Limit(Payload, frozen=True):
    """The ceiling of one resource."""

    resource: Annotated[str, Meta(description="usd, tokens, compute, or another declared name")]
    unit: Annotated[str, Meta(description="the integer unit, e.g. nano_usd, tokens, ms")]
    ceiling: Annotated[int, Meta(ge=0, description="most that may ever be consumed")]
    finalization_reserve: Annotated[
        int, Meta(ge=0, description="part of the ceiling kept for finalization")
    ] = 0


class Charge(Payload, frozen=True):
    """An amount of one resource, in integers of its unit."""

    resource: str
    unit: str
    amount: Annotated[int, Meta(ge=0, description="in the unit")]


class Change(Payload, frozen=True):
    """One change of a workspace file."""

    path: Annotated[str, Meta(description="relative, as the source names it")]
    kind: Literal["written", "edited", "deleted", "mode", "link"]
    digest: Annotated[Digest | None, Meta(description="of the new content, durable first")] = None
    length: Natural | None = None
    mode: int | None = None
    diff: Annotated[str | None, Meta(description="unified diff, where the source gives one")] = None


class WorkspaceChange(Payload, frozen=True):
    """How an event changed the workspace (CKP-7)."""

    base: Annotated[str | None, Meta(description="root before")] = None
    after: Annotated[str | None, Meta(description="root after")] = None
    changes: Annotated[tuple[Change, ...], Meta(description="in order")] = ()


class Usage(Payload, frozen=True):
    """Tokens of one model call in four disjoint kinds."""

    input: Annotated[Natural | None, Meta(description="uncached input tokens")] = None
    output: Annotated[Natural | None, Meta(description="output tokens, reasoning included")] = None
    cache_read: Annotated[Natural | None, Meta(description="input tokens read from a cache")] = None
    cache_write: Annotated[Natural | None, Meta(description="input tokens put in a cache")] = None


class MessageRef(Payload, frozen=True):
    """One delivered message or tool description, by digest, with where its bytes are."""

    role: Annotated[str, Meta(description="system, user, assistant, tool, or as the source says")]
    digest: Annotated[Digest, Meta(description="of the message's bytes as delivered")]
    length: Annotated[int, Meta(ge=0, description="bytes")]
    blob: Annotated[Digest | None, Meta(description="blob that holds the bytes")] = None
    start: Annotated[Natural | None, Meta(description="first byte within the blob")] = None
    end: Annotated[Natural | None, Meta(description="one past the last byte")] = None
    text: Annotated[str | None, Meta(description="the text itself, where it is short")] = None


class ToolCall(Payload, frozen=True):
    """One tool call a model reply asks for."""

    tool: str
    operation_id: str | None = None
    call_id: Annotated[str | None, Meta(description="the provider's id of the call")] = None
