"""A place in a trajectory as its URL says it: boundary, tab, ribbon, log list, each tab's own."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal, get_args

from app import links

Tab = Literal["event", "conversation", "state", "context", "operations", "budget", "evidence"]
Axis = Literal["event", "time"]
Times = Literal["since", "clock"]
ContextView = Literal["changes", "only", "repeated", "all"]
TABS: tuple[Tab, ...] = get_args(Tab)
CONTEXT_VIEWS: tuple[ContextView, ...] = get_args(ContextView)
#: Rows of the log list: the usual window, and the largest.
ROWS = 40
ROWS_WIDE = 200
#: What counts at one boundary only: a move to another leaves it behind.
_HERE_ONLY = ("older", "m", "before")


@dataclass(frozen=True, slots=True)
class Place:
    """Everything the page of a boundary depends on. A link is a changed copy of it."""

    trajectory_id: str
    seq: int
    tab: Tab = "event"
    by: Axis = "event"
    all: bool = False
    """State tab: all of the record, not only what changed here."""
    vs: int | None = None
    """State tab: the boundary it is compared with."""
    rest: bool = False
    """State tab: what is still open and lies in the archive, too."""
    raw: bool = False
    """Event tab: the payload as JSON."""
    rows: int = ROWS
    times: Times = "since"
    """Log list: times from the trajectory's start, or of the day."""
    find: str = ""
    """Log list: only events whose text holds this, as the index reads it."""
    only: str = ""
    """Log list: only events of these lanes, by name, joined by commas."""
    zoom: str = ""
    """Ribbon: `first-last`, the stretch that is drawn; empty: around the boundary."""
    ctx: ContextView = "changes"
    """Context tab: which messages are listed."""
    m: int | None = None
    """Context tab: first message of the window that lists all."""
    state: str = ""
    """Operations tab: only those in this state."""
    tool: str = ""
    """Operations tab: only those of this tool."""
    older: str = ""
    """Operations tab: only those before this key."""
    before: int | None = None
    """Conversation tab: only what stands before this event."""

    def url(self, seq: int | None = None, **changes: object) -> str:
        """The address of this place with some parts changed."""
        place = replace(self, **changes) if changes else self  # type: ignore[arg-type]
        moves = seq is not None and seq != self.seq
        if moves and (place.older or place.m is not None or place.before is not None):
            place = replace(place, older="", m=None, before=None)
        before, after = _around(place)
        return f"{before}@{place.seq if seq is None else seq}{after}"

    def go(self, **query: object) -> str:
        """The address of a jump from here."""
        return links.jump(self.trajectory_id, **self.moving, **query)

    @property
    def query(self) -> dict[str, object]:
        """The query of this place: what is not at its default."""
        return {
            name: _written(value)
            for name, default in _DEFAULTS
            if (value := getattr(self, name)) != default
        }

    @property
    def moving(self) -> dict[str, object]:
        """The query that goes along to another boundary."""
        return {k: v for k, v in self.query.items() if k not in _HERE_ONLY}

    @property
    def hidden(self) -> tuple[tuple[str, str], ...]:
        """That query as hidden fields, for forms that move elsewhere."""
        return tuple((k, str(v)) for k, v in self.moving.items())

    def hidden_but(self, *names: str) -> tuple[tuple[str, str], ...]:
        """Hidden fields of a form that sets these by itself."""
        return tuple((k, v) for k, v in self.hidden if k not in names)


def _written(value: object) -> object:
    return "1" if value is True else value


#: (name, default) of what a place's query can hold, in the order of the address.
_DEFAULTS = tuple(
    (f.name, f.default) for f in fields(Place) if f.name not in ("trajectory_id", "seq")
)


@lru_cache(maxsize=256)
def _around(place: Place) -> tuple[str, str]:
    """What stands before and after the boundary in a place's address; a page has 70 of them."""
    before, _, after = links.boundary(place.trajectory_id, 0, **place.query).partition("@0")
    return before, after
