"""Checkpoint: a recoverable boundary was published."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.events.fields import Digest, Payload


class Checkpoint(Payload, frozen=True):
    """The manifest at an exact covered boundary; its own sequence lies above it (CKP-4)."""

    covers: Annotated[int, Meta(ge=0, description="boundary p")]
    chain: Annotated[Digest, Meta(description="chain value at p")]
    manifest: Annotated[Digest, Meta(description="digest of the manifest blob")]
    generation: Annotated[int, Meta(ge=0, description="owner epoch that published it")]
    checkpoint_seq: Annotated[int, Meta(ge=1)]
    parent: Annotated[str | None, Meta(description="generation.checkpoint_seq before it")] = None
