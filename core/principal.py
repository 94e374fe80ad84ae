"""Who is asking: the tenant and roles come from the credential, never from a body."""

from __future__ import annotations

from dataclasses import dataclass

from core.ids import Tenant


@dataclass(frozen=True, slots=True)
class Principal:
    """One authenticated caller."""

    tenant: Tenant
    name: str
    roles: frozenset[str]
