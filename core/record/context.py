"""Slice: the newest delivered input, and compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events.envelope import Event
from core.events.ownership import Resumed
from core.record import lean
from core.record.record import Context

if TYPE_CHECKING:
    from core.record.draft import Draft


class ContextDraft:
    """The slice while a fold runs."""

    __slots__ = (
        "built",
        "claim",
        "compacted_sequence",
        "compactions",
        "invocation_id",
        "manifest_digest",
        "messages",
        "sequence_number",
    )

    def __init__(self, context: Context) -> None:
        self.invocation_id = context.invocation_id
        self.sequence_number = context.sequence_number
        self.messages = context.messages
        self.manifest_digest = context.manifest_digest
        self.claim = context.claim
        self.built = context.built
        self.compactions = context.compactions
        self.compacted_sequence = context.compacted_sequence

    def freeze(self) -> Context:
        """The slice as part of a record."""
        return Context(
            self.invocation_id,
            self.sequence_number,
            self.messages,
            self.manifest_digest,
            self.claim,
            self.built,
            self.compactions,
            self.compacted_sequence,
        )


def context_built(draft: Draft, event: Event, payload: lean.ContextBuilt) -> None:
    """A new delivered input."""
    context = draft.context
    context.invocation_id = event.invocation_id or event.event_id
    context.sequence_number = event.sequence_number
    context.messages = payload.count
    context.manifest_digest = payload.manifest_digest
    context.claim = payload.claim
    context.built += 1


def compacted(draft: Draft, event: Event, payload: object) -> None:
    """A summary stands for earlier events from the next context on."""
    draft.context.compactions += 1
    draft.context.compacted_sequence = event.sequence_number


def resumed(draft: Draft, event: Event, payload: Resumed) -> None:
    """A fallback sets the context back by the invocation it names; its size is in that event."""
    if payload.set_back is None:
        return
    context = draft.context
    context.invocation_id = payload.set_back.context_invocation_id
    context.sequence_number = 0
    context.messages = 0
    context.manifest_digest = None
    context.claim = None
