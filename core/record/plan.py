"""Slice: the plan as of its newest revision."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.events.control import PlanChanged, PlanItem
from core.events.envelope import Event
from core.events.ownership import Resumed
from core.limits import PLAN_ITEMS_MAX
from core.record import cut
from core.record.record import Plan

if TYPE_CHECKING:
    from core.record.draft import Draft


def plan_changed(draft: Draft, event: Event, payload: PlanChanged) -> None:
    """A revision replaces the whole plan."""
    draft.plan = _plan(payload.revision, payload.items, event.sequence_number)


def resumed(draft: Draft, event: Event, payload: Resumed) -> None:
    """A fallback sets the plan to its value at the target (RES-4)."""
    back = payload.set_back
    if back is not None:
        draft.plan = _plan(back.plan_revision, back.plan, event.sequence_number)


def _plan(revision: int, items: tuple[PlanItem, ...], sequence: int) -> Plan:
    held = tuple(_item(item) for item in items[:PLAN_ITEMS_MAX])
    return Plan(revision, held, sequence, held != items)


def _item(item: PlanItem) -> PlanItem:
    # The default status is left out of the bytes by identity; interning makes it one object.
    return replace(
        item,
        id=cut.name(item.id),
        text=cut.text(item.text) or "",
        status=sys.intern(cut.name(item.status)),
        depends_on=cut.items(item.depends_on),
        owner=cut.text(item.owner),
    )
