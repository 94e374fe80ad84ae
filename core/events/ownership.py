"""OwnershipGranted and Resumed: who was responsible when, and how a generation continued."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.control import PlanItem
from core.events.fields import Digest, Payload, Positive

Cause = Literal["start", "expiry", "hand_off", "operator"]


class OwnershipGranted(Payload, frozen=True):
    """A new owner epoch: from here on no older epoch appends."""

    incarnation: Annotated[str, Meta(description="incarnation of the store that granted it")]
    owner_epoch: Annotated[int, Meta(ge=1)]
    worker: str
    cause: Cause


class SetBack(Payload, frozen=True):
    """The slices a fallback sets back, by value (RES-4)."""

    step: Annotated[int, Meta(ge=0)]
    plan_revision: Annotated[int, Meta(ge=0)] = 0
    plan: tuple[PlanItem, ...] = ()
    context_invocation_id: str | None = None
    workspace: str | None = None


class Resumed(Payload, frozen=True):
    """A generation's continuation starts."""

    target: Annotated[int, Meta(ge=0, description="boundary it continues from")]
    base_checkpoint: Annotated[
        str | None, Meta(description="generation.checkpoint_seq, e.g. 7.5")
    ] = None
    decided_by: str | None = None
    reason: str | None = None
    abandoned_from: Annotated[
        Positive | None, Meta(description="first abandoned sequence number, on a fallback")
    ] = None
    configuration: Annotated[
        Literal["pinned", "migrated", "unchanged"], Meta(description="configuration decision")
    ] = "unchanged"
    report_digest: Digest | None = None
    set_back: SetBack | None = None
