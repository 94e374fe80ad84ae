"""What people do beside the logs: notes, tags, withdrawals, saved views, prices.

An act is a row that is only ever added (LOG-2): an undo is a further act that names the earlier
one. The functions here fold acts, in the order of their numbers, into what holds now.

INVARIANTS
1. Folding is pure: the same acts give the same answer, and no act is read twice.
2. An act that names what is not there (a retraction of nothing) changes nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from core.canonical import canonical
from core.errors import InvalidInput
from core.instants import Instant
from core.wording import schema_error

ActKind = Literal[
    "note",
    "tag",
    "untag",
    "withdraw",
    "reinstate",
    "supersede",
    "view",
    "drop_view",
    "price",
    "retract",
]
KINDS: tuple[ActKind, ...] = get_args(ActKind)
#: An act is a short statement of a person.
ACT_BYTES_MAX = 8 * 1024
#: A million tokens for more than 100,000 USD is a slip of the hand, and would leave 64 bits.
PRICE_NANO_USD_MAX = 100_000 * 10**9


class Body(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of what an act says."""


class Note(Body, frozen=True):
    """Text of a person about a trajectory, or about the boundary the act names."""

    text: Annotated[str, Meta(min_length=1, max_length=4000)]


class Tag(Body, frozen=True):
    """A word to find a trajectory by; `untag` takes it off again."""

    tag: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._/-]{0,47}\Z")]


class Nothing(Body, frozen=True):
    """The act says all by its kind and its reason."""


class Supersede(Body, frozen=True):
    """A newer revision of the same source stands for this trajectory."""

    by: str
    importer: str = ""
    version: int = 0


class View(Body, frozen=True):
    """A named list of trajectories: its query as the URL carries it."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    query: Annotated[str, Meta(max_length=2000)]


class DropView(Body, frozen=True):
    """The view of that name is no longer offered."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]


class Price(Body, frozen=True):
    """What a model's tokens cost from a day on; nano-USD for a million tokens of each kind."""

    model: Annotated[str, Meta(min_length=1, max_length=100)]
    """A name, or the beginning of one and `*`."""
    since: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
    """First day it holds, UTC."""
    input: Annotated[int, Meta(ge=0, le=PRICE_NANO_USD_MAX)]
    output: Annotated[int, Meta(ge=0, le=PRICE_NANO_USD_MAX)]
    cache_read: Annotated[int, Meta(ge=0, le=PRICE_NANO_USD_MAX)]
    cache_write: Annotated[int, Meta(ge=0, le=PRICE_NANO_USD_MAX)]
    source: Annotated[str, Meta(max_length=200)] = ""


class Retract(Body, frozen=True):
    """The act of that number no longer holds (a note, a price, a supersession); it is still shown
    as made."""

    number: Annotated[int, Meta(ge=1)]


BODIES: Mapping[str, type[Body]] = {
    "note": Note,
    "tag": Tag,
    "untag": Tag,
    "withdraw": Nothing,
    "reinstate": Nothing,
    "supersede": Supersede,
    "view": View,
    "drop_view": DropView,
    "price": Price,
    "retract": Retract,
}
#: Acts about one trajectory; the others are about the tenant's desk.
ABOUT_TRAJECTORY: frozenset[ActKind] = frozenset(
    {"note", "tag", "untag", "withdraw", "reinstate", "supersede"}
)
#: Acts that take something away from others' sight, and so ask for a reason (CLM-5).
WITH_REASON: frozenset[ActKind] = frozenset({"withdraw", "reinstate"})


class Act(msgspec.Struct, frozen=True):
    """One act as it is stored."""

    number: int
    """Order of all acts of the store, from 1."""
    tenant: str
    kind: ActKind
    trajectory_id: str | None
    boundary: int | None
    """A note's boundary; None: the whole trajectory."""
    body: Body
    actor: str
    reason: str | None
    recorded_at: Instant
    request_id: str


class Standing(msgspec.Struct, frozen=True):
    """What acts say of one trajectory now."""

    notes: tuple[Act, ...] = ()
    """Those not retracted, in order."""
    retracted: tuple[Act, ...] = ()
    tags: tuple[str, ...] = ()
    """Sorted."""
    withdrawn: Act | None = None
    superseded: Act | None = None
    last: int = 0
    """Number of the newest act about it; 0: none."""


def decode(kind: str, data: object) -> Body:
    """The typed body of an act, from JSON values; InvalidInput names the field."""
    if kind not in BODIES:
        raise InvalidInput(f"there is no act {kind!r}", field="kind")
    try:
        body = msgspec.convert(data, BODIES[kind])
    except msgspec.ValidationError as error:
        why = schema_error(error, f"a {kind}")
        if "`$.tag`" in str(error):
            why = "a tag is 1 to 48 lower-case letters, digits, '.', '_', '/' or '-'"
        raise InvalidInput(why, field="body") from error
    if isinstance(body, Price):
        _check_day(body.since)
    if len(encode(body)) > ACT_BYTES_MAX:
        raise InvalidInput(f"a {kind} is at most {ACT_BYTES_MAX} bytes", field="body")
    return body


def _check_day(text: str) -> None:
    try:
        dt.date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"there is no day {text}", field="since") from error


def encode(body: Body) -> bytes:
    """Canonical bytes of a body."""
    plain: Any = msgspec.to_builtins(body)
    return canonical(plain)


def about(acts: Iterable[Act]) -> Standing:
    """What the acts about one trajectory add up to; `acts` in the order of their numbers."""
    notes: dict[int, Act] = {}
    retracted: list[Act] = []
    tags: set[str] = set()
    withdrawn: Act | None = None
    superseded: Act | None = None
    last = 0
    for act in acts:
        last = act.number
        body = act.body
        if isinstance(body, Note):
            notes[act.number] = act
        elif isinstance(body, Retract):
            gone = notes.pop(body.number, None)
            if gone is not None:
                retracted.append(gone)
            if superseded is not None and superseded.number == body.number:
                superseded = None
        elif isinstance(body, Tag):
            (tags.add if act.kind == "tag" else tags.discard)(body.tag)
        elif isinstance(body, Supersede):
            superseded = act
        elif act.kind == "withdraw":
            withdrawn = act
        elif act.kind == "reinstate":
            withdrawn = None
    return Standing(
        tuple(notes.values()), tuple(retracted), tuple(sorted(tags)), withdrawn, superseded, last
    )


def views(acts: Iterable[Act]) -> dict[str, Act]:
    """Saved views by name, in the order they were first saved; saving again replaces."""
    found: dict[str, Act] = {}
    for act in acts:
        if isinstance(act.body, View):
            found[act.body.name] = act
        elif isinstance(act.body, DropView):
            found.pop(act.body.name, None)
    return found


def prices(acts: Iterable[Act]) -> tuple[Act, ...]:
    """Prices that hold, in order; a later one for the same model and day replaces."""
    found: dict[tuple[str, str], Act] = {}
    numbers: dict[int, tuple[str, str]] = {}
    for act in acts:
        if isinstance(act.body, Price):
            key = (act.body.model, act.body.since)
            found[key] = act
            numbers[act.number] = key
        elif isinstance(act.body, Retract):
            key_of = numbers.get(act.body.number)
            if key_of is not None and found.get(key_of, act).number == act.body.number:
                del found[key_of]
    return tuple(found.values())
