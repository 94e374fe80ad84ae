"""Slice: published checkpoints and resumes, by reference (ORD-1, RES-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.events.checkpoint import Checkpoint
from core.events.envelope import Event
from core.events.ownership import Resumed
from core.record import archive
from core.record.record import CheckpointRef

if TYPE_CHECKING:
    from core.record.draft import Draft


def checkpoint(draft: Draft, event: Event, payload: Checkpoint) -> None:
    """A published checkpoint; the newest is that of the highest (owner_epoch, checkpoint_seq)."""
    now = draft.recovery
    draft.archive.checkpoints[f"{payload.generation}.{payload.checkpoint_seq}"] = CheckpointRef(
        event.sequence_number, payload.covers, payload.generation, payload.checkpoint_seq
    )
    order = (payload.generation, payload.checkpoint_seq)
    if order > (now.head_generation, now.head_checkpoint_seq):
        draft.recovery = replace(
            now,
            checkpoints=now.checkpoints + 1,
            head_generation=payload.generation,
            head_checkpoint_seq=payload.checkpoint_seq,
            head_covers=payload.covers,
            head_sequence=event.sequence_number,
        )
    else:
        draft.recovery = replace(now, checkpoints=now.checkpoints + 1)


def resumed(draft: Draft, event: Event, payload: Resumed) -> None:
    """A generation continues. On a fallback the events from `abandoned_from` up to the grant
    that ended the old tail are abandoned, and checkpoints beyond the target leave the lineage:
    the head is then the base that the event names."""
    sequence = event.sequence_number
    now = replace(
        draft.recovery, resumes=draft.recovery.resumes + 1, last_resumed_sequence=sequence
    )
    if payload.set_back is not None:
        first = payload.abandoned_from or payload.target + 1
        granted = draft.ownership.since_sequence
        last = granted - 1 if granted > first else sequence - 1
        now = replace(
            now,
            last_fallback_sequence=sequence,
            abandoned_from=first if first <= last else None,
            abandoned_to=last if first <= last else None,
        )
        if now.head_covers > payload.target:
            base = _find(draft, payload.base_checkpoint)
            now = replace(
                now,
                head_generation=base.generation,
                head_checkpoint_seq=base.checkpoint_seq,
                head_covers=base.covers,
                head_sequence=base.sequence_number,
            )
    draft.recovery = now


def _find(draft: Draft, name: str | None) -> CheckpointRef:
    """The named checkpoint; the empty one where the prefix has none of that name."""
    found: CheckpointRef | None = None
    if name is not None:
        found = draft.archive.checkpoints.get(name) or draft.archive.find(
            archive.CHECKPOINT, name, CheckpointRef
        )
    return found or CheckpointRef(0, 0, 0, 0)
