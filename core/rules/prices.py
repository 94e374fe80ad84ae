"""What tokens cost by a price table: a derived figure, never in a log.

INVARIANTS
1. The most exact name wins (a whole name before a beginning, a longer beginning before a shorter),
   then the newest day not after the day asked for, then what a person stated.
2. A cost is complete only if every token of it has a price; what has none is named, not zero.
3. Sums are exact: integers of nano-USD, rounded once, half up.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache

import msgspec

from core.acts import PRICE_NANO_USD_MAX, Act, Price
from core.canonical import canonical, sha256
from core.errors import InvalidInput
from core.instants import Instant, to_datetime
from core.limits import INTEGER_MAX
from core.record.record import ModelTokens, TokenTotals
from core.rules import price_list

#: Prices are for so many tokens.
PER_TOKENS = 1_000_000
_NANO = 1_000_000_000
KINDS = ("input", "output", "cache_read", "cache_write")


class PriceRow(msgspec.Struct, frozen=True):
    """One price: nano-USD for a million tokens of each kind, from a day on."""

    model: str
    since: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    source: str = ""
    act: int | None = None
    """The act that states it; None: it came with the program."""

    def matches(self, name: str) -> bool:
        """Whether this price is for a model of that name."""
        if self.model.endswith("*"):
            return name.startswith(self.model[:-1])
        return name == self.model

    def cost(self, tokens: ModelTokens) -> int:
        """Nano-USD times PER_TOKENS."""
        return sum(int(getattr(tokens, kind)) * int(getattr(self, kind)) for kind in KINDS)


class ModelCost(msgspec.Struct, frozen=True):
    """The tokens of one model, and what they cost where there is a price."""

    model: str | None
    """None: tokens of replies that name no model, or of models beyond the record's bound."""
    tokens: ModelTokens
    price: PriceRow | None
    nano_usd: int | None
    begins: str | None = None
    """Without a price on the day asked for: the first day that one of them holds; None: never."""


class Derived(msgspec.Struct, frozen=True):
    """What the tokens of one trajectory cost by a table."""

    models: tuple[ModelCost, ...]
    priced_nano_usd: int
    """Of the tokens that have a price."""
    undated: bool
    """The source states no time, so the newest prices were taken."""

    @property
    def unpriced(self) -> tuple[str | None, ...]:
        """Models with tokens and without a price."""
        return tuple(one.model for one in self.models if one.price is None)

    @property
    def nano_usd(self) -> int | None:
        """The cost of all recorded tokens; None where some have no price, or there are none."""
        return self.priced_nano_usd if self.models and not self.unpriced else None


class Table:
    """All prices that hold, in a form to look up in."""

    def __init__(self, rows: Iterable[PriceRow]) -> None:
        """A later row for the same model and day replaces."""
        held = {(row.model, row.since): row for row in rows}
        self.rows = tuple(sorted(held.values(), key=lambda row: (row.model, row.since)))
        plain = [msgspec.to_builtins(row) for row in self.rows]
        self.digest = sha256(b"strandline/prices/1\n", canonical(plain)).hex()[:16]
        """Names this content; another table, another digest."""

    def begins(self, model: str) -> str | None:
        """The first day that a price of a model holds; None: there is none of it."""
        names = {model, model.rpartition("/")[2]}
        days = [row.since for row in self.rows if any(row.matches(name) for name in names)]
        return min(days, default=None)

    def find(self, model: str, day: str | None) -> PriceRow | None:
        """The price of a model on a day (None: the newest); None where there is none.

        A name is looked up as it stands, then without what comes before its last `/`: the same
        model through another door, whose own price a person can state under the whole name.
        """
        for name in dict.fromkeys((model, model.rpartition("/")[2])):
            found = [
                row for row in self.rows if row.matches(name) and (day is None or row.since <= day)
            ]
            if found:
                return max(found, key=_exactness)
        return None


def _exactness(row: PriceRow) -> tuple[bool, int, str]:
    return not row.model.endswith("*"), len(row.model), row.since


@cache
def shipped() -> tuple[PriceRow, ...]:
    """The prices that come with the program."""
    return tuple(
        PriceRow(
            model, since, nano_usd(fresh), nano_usd(made), nano_usd(read), nano_usd(kept), source
        )
        for source, rows in price_list.ROWS.items()
        for model, since, fresh, made, read, kept in rows
    )


def table_of(stated: Iterable[Act]) -> Table:
    """The shipped prices, and over them those that people stated and that hold
    (`core.acts.prices`)."""
    rows = list(shipped())
    for act in stated:
        body = act.body
        if isinstance(body, Price):
            rows.append(
                PriceRow(
                    body.model,
                    body.since,
                    body.input,
                    body.output,
                    body.cache_read,
                    body.cache_write,
                    body.source,
                    act.number,
                )
            )
    return Table(rows)


def derive(
    by_model: Mapping[str, ModelTokens], total: TokenTotals, day: str | None, table: Table
) -> Derived:
    """What these tokens cost on a day (None: never stated)."""
    left = ModelTokens(
        *(
            max(0, getattr(total, kind) - sum(getattr(one, kind) for one in by_model.values()))
            for kind in KINDS
        )
    )
    priced = 0
    models: list[ModelCost] = []
    for model, tokens in (*by_model.items(), (None, left)):
        if not any(getattr(tokens, kind) for kind in KINDS):
            continue
        price = table.find(model, day) if model is not None else None
        cost = price.cost(tokens) if price is not None else None
        priced += cost or 0
        begins = table.begins(model) if model is not None and price is None else None
        nano = _rounded(cost) if cost is not None else None
        models.append(ModelCost(model, tokens, price, nano, begins))
    return Derived(tuple(models), _rounded(priced), day is None)


def day_of(instant: Instant | None) -> str | None:
    """The UTC day of an instant, as prices name it."""
    return to_datetime(instant).date().isoformat() if instant is not None else None


def nano_usd(text: str) -> int:
    """USD as typed (`3`, `0.075`) in nano-USD; InvalidInput for what is not a price."""
    try:
        if not text.strip().replace(".", "", 1).isdecimal() or not text.isascii():
            raise ValueError
        value = Decimal(text.strip()) * _NANO
    except (ValueError, ArithmeticError):
        raise InvalidInput("a price is a decimal number of USD, like 3 or 0.075", field="price")  # noqa: B904
    if value != int(value):
        raise InvalidInput("a price has at most nine decimals", field="price")
    if value > PRICE_NANO_USD_MAX:
        raise InvalidInput(
            f"a million tokens cost at most {PRICE_NANO_USD_MAX // _NANO:,} USD here",
            field="price",
        )
    return int(value)


def usd(nano: int) -> str:
    """A price as it is typed: shortest decimal text of USD."""
    whole, rest = divmod(nano, _NANO)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".")


def check_day(text: str) -> str:
    """InvalidInput for what is no day of the calendar."""
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InvalidInput("a day is YYYY-MM-DD", field="since") from error


def _rounded(amount: int) -> int:
    return min((2 * amount + PER_TOKENS) // (2 * PER_TOKENS), INTEGER_MAX)
