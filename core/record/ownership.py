"""Slice: grants so far, the newest epoch and its worker (OWN-5, OWN-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events.envelope import Event
from core.events.ownership import OwnershipGranted
from core.record import cut
from core.record.record import Ownership

if TYPE_CHECKING:
    from core.record.draft import Draft


def ownership_granted(draft: Draft, event: Event, payload: OwnershipGranted) -> None:
    """A new owner epoch; a grant settles nothing. One that is no newer is only counted."""
    now = draft.ownership
    if payload.owner_epoch > now.owner_epoch:
        draft.ownership = Ownership(
            payload.owner_epoch,
            cut.text(payload.worker),
            payload.cause,
            cut.text(payload.incarnation),
            event.sequence_number,
            now.grants + 1,
        )
    else:
        draft.ownership = Ownership(
            now.owner_epoch,
            now.worker,
            now.cause,
            now.incarnation,
            now.since_sequence,
            now.grants + 1,
        )
