"""Unparsed: original bytes an importer kept but could not read."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.events.fields import Payload


class Unparsed(Payload, frozen=True):
    """Kept, counted and shown; folds to nothing. The bytes are named in the envelope's refs."""

    where: Annotated[str, Meta(description="line, member or offset in the source")]
    why: str
