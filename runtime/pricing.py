"""Derived costs of summaries: the price table that holds, and what a summary costs by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from core import acts
from core.acts import Act, ActKind
from core.record.record import ModelTokens, TokenTotals
from core.rules.prices import KINDS, Derived, Table, day_of, derive, table_of
from store.ports import RecoveryStore

_PAGE = 1000
#: Acts about no trajectory that make up the table.
PRICE_KINDS: tuple[ActKind, ...] = ("price", "retract")
_ByModel = dict[str, tuple[int, int, int, int]]


class Tables:
    """The price table of each tenant, kept until another act about prices is there."""

    def __init__(self, store: RecoveryStore) -> None:
        self._store = store
        #: Tenant -> number of the newest such act, and the table then.
        self._known: dict[str, tuple[int, Table]] = {}

    def at(self, tenant: str) -> Table:
        """As `table_at`."""
        known = self._known.get(tenant)
        after = known[0] if known is not None else 0
        newer = self._store.acts(
            tenant, kinds=PRICE_KINDS, trajectory_id="", after=after, limit=_PAGE
        )
        if known is None or newer:
            newest = newer[-1].number if newer else 0
            known = self._known[tenant] = (newest, table_at(self._store, tenant))
        return known[1]


def table_at(store: RecoveryStore, tenant: str) -> Table:
    """The price table of a tenant as its acts stand now."""
    found: list[Act] = []
    while True:
        after = found[-1].number if found else 0
        page = store.acts(tenant, kinds=PRICE_KINDS, trajectory_id="", after=after, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return table_of(acts.prices(found))


def packed(by_model: Mapping[str, ModelTokens]) -> str | None:
    """Tokens by model as a summary keeps them; None where no model stated any."""
    if not by_model:
        return None
    plain = {name: msgspec.structs.astuple(tokens) for name, tokens in by_model.items()}
    return msgspec.json.encode(plain).decode()


def derived(summary: Mapping[str, Any], table: Table) -> Derived:
    """What the tokens of a summary cost by a table, on the day its source states it began."""
    packed_ = summary.get("tokens_by_model")
    by_model: _ByModel = (
        msgspec.json.decode(packed_, type=_ByModel) if isinstance(packed_, str) else {}
    )
    return derive(
        {name: ModelTokens(*tokens) for name, tokens in by_model.items()},
        TokenTotals(*(summary.get(f"{kind}_tokens") or 0 for kind in KINDS)),
        day_of(summary.get("started_at")),
        table,
    )
