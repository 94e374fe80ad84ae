"""Compacted and RuntimeInput: inputs of assembly and supervision."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.events.fields import Json, Natural, Payload, Positive, WorkspaceChange


class Compacted(Payload, frozen=True):
    """A summary stands for earlier events in later contexts."""

    summary: str
    first_sequence: Annotated[Positive | None, Meta(description="first event it stands for")] = None
    last_sequence: Positive | None = None
    written_by: Annotated[str | None, Meta(description="invocation that wrote it")] = None
    dropped: Annotated[Natural | None, Meta(description="messages it replaces")] = None


class RuntimeInput(Payload, frozen=True):
    """A clock, id, policy, flag, environment or message the harness took in."""

    kind: Annotated[
        str,
        Meta(description="clock, id, policy, flags, environment, message, title (its text), ..."),
    ]
    values: Annotated[Json, Meta(description="what was taken in")] = None
    text: Annotated[str | None, Meta(description="a message, where it is one")] = None
    captured: Annotated[bool, Meta(description="the replay boundary captures it")] = False
    workspace: WorkspaceChange | None = None
