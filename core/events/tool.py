"""ToolIntent and ToolResult: possible dispatch, and evidence of what came of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.fields import Json, Payload, WorkspaceChange

Basis = Literal["sender", "query", "callback", "operator", "gate"]
ResultStatus = Literal[
    "succeeded",
    "failed",
    "no_effect",
    "pending",
    "partial",
    "timeout",
    "unknown",
    "withheld",
]
#: Statuses that settle where the evidence is adequate (EVT-1).
SETTLING: frozenset[str] = frozenset({"succeeded", "failed", "no_effect"})


class ToolIntent(Payload, frozen=True):
    """An operation may from here on have been dispatched; a proposal only asks for it."""

    kind: Annotated[
        Literal["intent", "proposal"],
        Meta(description="intent: durable before the effect; proposal: the model asked (STD-2)"),
    ]
    tool: str
    tool_version: str | None = None
    arguments: Annotated[Json, Meta(description="canonical arguments")] = None
    input_revision: Annotated[str | None, Meta(description="workspace snapshot it reads")] = None
    requester: str | None = None
    deadline_at: Annotated[int | None, Meta(description="microseconds UTC")] = None
    authorization_event: Annotated[str | None, Meta(description="event id of Authorized")] = None
    reservation_event: Annotated[str | None, Meta(description="event id of BudgetReserved")] = None
    grant: Annotated[str | None, Meta(description="grant reference, never a secret")] = None
    depends_on: Annotated[tuple[str, ...], Meta(description="operation ids")] = ()
    id_travels: Annotated[
        Literal["header", "key", "content"] | None,
        Meta(description="where the operation id travels"),
    ] = None
    compensates: Annotated[str | None, Meta(description="operation this undoes (EFF-10)")] = None
    call_id: Annotated[str | None, Meta(description="the provider's id of the call")] = None
    claim: Annotated[
        str | None, Meta(description="what the source does not show of this, in words")
    ] = None


class ToolResult(Payload, frozen=True):
    """Evidence about one attempt."""

    status: ResultStatus
    basis: Basis
    proof: Annotated[str | None, Meta(description="signature, answer or finding behind it")] = None
    input_revision: str | None = None
    covers: Annotated[str | None, Meta(description="the check the outcome holds for")] = None
    job_handle: str | None = None
    observation: Annotated[str | None, Meta(description="what was delivered to the model")] = None
    observation_complete: Annotated[bool, Meta(description="false: the delivered text was cut")] = (
        True
    )
    observation_rest: Annotated[
        str | None, Meta(description="where the rest can be read, in words")
    ] = None
    exit_code: int | None = None
    error: str | None = None
    pairing: Annotated[
        str | None, Meta(description="rule that paired it with its intent, for imports")
    ] = None
    workspace: WorkspaceChange | None = None
    holds: Annotated[
        str | None,
        Meta(description="event id of the result that holds, where this one ends a dispute"),
    ] = None
