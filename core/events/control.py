"""ControlChanged and PlanChanged: how the continuation is steered."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.fields import Limit, Payload

ControlState = Literal[
    "RUNNING",
    "PAUSED",
    "AWAITING_APPROVAL",
    "FINALIZING",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
]
TERMINAL: frozenset[str] = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


class ControlChanged(Payload, frozen=True):
    """The control state changed, or a pause, cancel or interruption took force."""

    to_state: ControlState
    from_state: ControlState | None = None
    request: Annotated[str | None, Meta(description="request that asked for it")] = None
    requested_by: str | None = None
    reason: Annotated[str | None, Meta(description="in words; an importer quotes its source")] = (
        None
    )
    detail: Annotated[str | None, Meta(description="the source's own word, e.g. exit status")] = (
        None
    )
    guards: Annotated[tuple[str, ...], Meta(description="conditions it was decided under")] = ()
    limits: Annotated[tuple[Limit, ...], Meta(description="changed grants")] = ()
    eligible: Annotated[
        tuple[str, ...], Meta(description="operation ids whose results stay eligible (ORD-2)")
    ] = ()
    owners: Annotated[
        dict[str, str] | None, Meta(description="settlement owner of unsettled work")
    ] = None
    output: Annotated[str | None, Meta(description="what the run handed in at its end")] = None


class PlanItem(Payload, frozen=True):
    """One item of a plan."""

    id: str
    text: str
    status: Annotated[str, Meta(description="open, doing, done, dropped")] = "open"
    depends_on: tuple[str, ...] = ()
    owner: str | None = None


class PlanChanged(Payload, frozen=True):
    """The plan as of a new revision."""

    revision: Annotated[int, Meta(ge=1)]
    items: tuple[PlanItem, ...]
    reason: str | None = None
