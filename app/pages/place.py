"""A place in a trajectory as its URL says it: boundary, tab, axis, comparison, rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from app import links

Tab = Literal["event", "state", "evidence"]
Axis = Literal["event", "time"]
TABS: tuple[Tab, ...] = ("event", "state", "evidence")
#: Rows of the log list: the usual window, and the largest.
ROWS = 40
ROWS_WIDE = 200


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

    def url(self, seq: int | None = None, **changes: object) -> str:
        """The address of this place with some parts changed."""
        place = replace(self, **changes) if changes else self  # type: ignore[arg-type]
        before, after = _around(replace(place, seq=0) if place.seq else place)
        return f"{before}@{place.seq if seq is None else seq}{after}"

    def go(self, **query: object) -> str:
        """The address of a jump from here."""
        return links.jump(self.trajectory_id, **self._query(), **query)

    def _query(self) -> dict[str, object]:
        return {
            "tab": self.tab if self.tab != "event" else None,
            "by": self.by if self.by != "event" else None,
            "all": "1" if self.all else None,
            "vs": self.vs,
            "rest": "1" if self.rest else None,
            "raw": "1" if self.raw else None,
            "rows": self.rows if self.rows != ROWS else None,
        }

    @property
    def state(self) -> dict[str, object]:
        """The query of this place: what is not at its default."""
        return self._query()

    @property
    def hidden(self) -> tuple[tuple[str, str], ...]:
        """The state as hidden fields, for forms that move elsewhere."""
        return tuple((k, str(v)) for k, v in self._query().items() if v is not None)


@lru_cache(maxsize=256)
def _around(place: Place) -> tuple[str, str]:
    """What stands before and after the boundary in a place's address; a page has 70 of them."""
    before, _, after = links.boundary(place.trajectory_id, 0, **place.state).partition("@0")
    return before, after
