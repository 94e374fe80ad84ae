"""Forked: a branch's origin."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.events.fields import Digest, Json, Payload


class Forked(Payload, frozen=True):
    """This trajectory continues another's prefix under a declared intervention (BRN-1)."""

    parent: Annotated[str, Meta(description="trajectory id")]
    boundary: Annotated[int, Meta(ge=0, description="last inherited sequence number")]
    chain: Annotated[Digest, Meta(description="the parent's chain value there")]
    intervention: Annotated[Json, Meta(description="what was changed on purpose")] = None
    reason: str | None = None
