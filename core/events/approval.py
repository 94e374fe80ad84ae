"""ApprovalRequested and ApprovalResolved: what is held for a person, and their decision."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.fields import Digest, Payload


class ApprovalRequested(Payload, frozen=True):
    """An exact action is held (CTL-3)."""

    approval_id: str
    tool: str
    tool_version: str | None = None
    arguments_digest: Digest | None = None
    input_revision: str | None = None
    policy_version: str | None = None
    versions: Annotated[dict[str, str] | None, Meta(description="further bound versions")] = None
    reviewer: str | None = None
    expires_at: Annotated[int | None, Meta(description="microseconds UTC")] = None
    reason: str | None = None


class ApprovalResolved(Payload, frozen=True):
    """A reviewer's decision, or its end."""

    approval_id: str
    decision: Literal["granted", "refused", "withdrawn", "expired"]
    reviewer: str | None = None
    evidence: str | None = None
    expires_at: Annotated[int | None, Meta(description="microseconds UTC")] = None
    too_late: Annotated[bool, Meta(description="withdrawn after the permit was out")] = False
