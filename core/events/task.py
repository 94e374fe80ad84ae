"""TaskStarted: what a trajectory is, who asked for it and what it may spend."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.envelope import Standing
from core.events.fields import Digest, Json, Limit, Payload

Captured = Literal["recorded", "derived", "absent"]


class Capabilities(Payload, frozen=True):
    """What the source of this trajectory has (STD-1)."""

    intents: Annotated[
        Literal["written_ahead", "proposals", "absent"],
        Meta(description="whether an intent is durable before its effect"),
    ] = "absent"
    exact_inputs: Annotated[Captured, Meta(description="delivered model inputs")] = "absent"
    workspace: Captured = "absent"
    reservations: Captured = "absent"
    ownership: Captured = "absent"
    approvals: Captured = "absent"
    times: Annotated[Captured, Meta(description="when each thing happened")] = "absent"
    replay_boundary: Annotated[
        Captured, Meta(description="clocks, ids and environment a replay needs")
    ] = "absent"


class Parent(Payload, frozen=True):
    """The operation of another trajectory that this one carries out."""

    trajectory_id: str
    operation_id: Annotated[
        str | None, Meta(description="absent where the source names only the trajectory")
    ] = None


class Restart(Payload, frozen=True):
    """The source state a restart began from; a restart is a new trajectory."""

    description: str
    revision: str | None = None
    trajectory_id: str | None = None


class TaskStarted(Payload, frozen=True):
    """A trajectory begins: task, standing, limits and provenance."""

    title: Annotated[str, Meta(description="one line for lists")]
    standing: Annotated[Standing, Meta(description="gated, reported, imported or replica")]
    capabilities: Capabilities = Capabilities()
    task: Annotated[str | None, Meta(description="the task as given")] = None
    requester: str | None = None
    agent: Annotated[str | None, Meta(description="agent program and version")] = None
    source: Annotated[str | None, Meta(description="format it was imported from")] = None
    model: Annotated[str | None, Meta(description="model asked for, where one is fixed")] = None
    parent: Parent | None = None
    restart: Restart | None = None
    limits: Annotated[tuple[Limit, ...], Meta(description="ceilings and reserves")] = ()
    deadline_at: Annotated[int | None, Meta(description="microseconds UTC")] = None
    finalization_deadline_at: Annotated[int | None, Meta(description="microseconds UTC")] = None
    record: Annotated[Digest | None, Meta(description="initial record, if not empty")] = None
    workspace: Annotated[str | None, Meta(description="initial workspace root")] = None
    checkpoint_slots: Annotated[
        tuple[str, ...], Meta(description="slots every checkpoint must fill (CKP-2)")
    ] = ()
    configuration: Annotated[
        dict[str, Json] | None, Meta(description="configuration provenance")
    ] = None
    labels: dict[str, str] | None = None
