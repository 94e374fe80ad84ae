"""Authorized, BudgetReserved and BudgetSettled: what was admitted and what it cost."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.events.fields import Charge, Payload


class Authorized(Payload, frozen=True):
    """A decision on one operation, attempt or invocation (named in the envelope)."""

    decision: Literal["granted", "denied", "licensed"]
    policy_version: str | None = None
    grant: Annotated[str | None, Meta(description="grant reference, never a secret")] = None
    basis: Annotated[str | None, Meta(description="what it was decided on")] = None
    actor: Annotated[str | None, Meta(description="who decided, where a person did")] = None
    reason: str | None = None
    ends_at: Annotated[int | None, Meta(description="microseconds UTC")] = None


class BudgetReserved(Payload, frozen=True):
    """Bounds set aside for one attempt or invocation before it is sent (BUD-1)."""

    bounds: tuple[Charge, ...]
    settlement_owner: Annotated[str | None, Meta(description="who must settle it")] = None
    finalization: Annotated[bool, Meta(description="spends the finalization reserve")] = False


class Actual(Payload, frozen=True):
    """Observed usage of one resource."""

    resource: str
    unit: str
    amount: Annotated[int, Meta(ge=0)]
    overrun: Annotated[bool, Meta(description="above its bound; recorded whole (BUD-2)")] = False


class BudgetSettled(Payload, frozen=True):
    """Observed usage with its evidence; what is not covered stays reserved (BUD-3)."""

    actual: tuple[Actual, ...]
    scope: Annotated[
        Literal["invocation", "attempt", "trajectory"], Meta(description="what it is the usage of")
    ] = "attempt"
    reporting: Annotated[
        Literal["incremental", "cumulative"], Meta(description="adds, or replaces (BUD-4)")
    ] = "incremental"
    meter: Annotated[str, Meta(description="who measured it")] = "provider"
    reservation_event: Annotated[str | None, Meta(description="event id it settles")] = None
    final: Annotated[bool, Meta(description="nothing more is owed for it")] = True
    evidence: Annotated[str | None, Meta(description="where the figure comes from")] = None
    unresolved: Annotated[tuple[Charge, ...], Meta(description="still reserved")] = ()
    settlement_owner: str | None = None
