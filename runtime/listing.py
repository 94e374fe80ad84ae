"""A list of trajectories by a query: summaries, and what the full-text index adds to them.

Terms on summaries are answered by the projections alone. A term of the index (`text:`, `tool:`)
is answered first where few trajectories hold it, and their ids go into the query; where many do,
the rows are read in order and the index is asked about each page of them.

INVARIANTS
1. A list is complete as far as it goes: it ends at its limit, at the end, or where looking ended,
   and in the last case the key to go on from is that of the last row looked at.
2. A count that did not look at everything says `at least`.
3. Rows that a term leaves out because they never recorded its value are counted beside the list.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from core.errors import InvalidInput, StoreStopped
from core.limits import (
    LIST_COUNT_MAX,
    LIST_COUNT_SECONDS_MAX,
    LIST_LOOK_MAX,
    PAGE_COUNT_SECONDS_MAX,
    PAGE_ROWS_MAX,
    SEARCH_SECONDS_MAX,
    SEARCH_TRAJECTORIES_MAX,
)
from core.query import KEYS, Query, Term, quoted
from store.ports import Hit, Projections, Sought, TextIndex

#: Names of the sort orders a list may ask for -> summary column.
SORTS: dict[str, str] = {
    "active": "active_at",
    "updated": "updated_at",
    "started": "started_at",
    "title": "title",
    "agent": "agent",
    "source": "source",
    "standing": "standing",
    "model": "model",
    "status": "state",
    "step": "step",
    "high_water": "high_water",
    "generation": "generation",
    "events": "events",
    "error": "errors",
    "unsettled": "unsettled",
    "unknown": "unknown",
    "in_doubt": "in_doubt",
    "tokens": "tokens",
    "input": "input_tokens",
    "output": "output_tokens",
    "cost": "cost",
    "duration": "duration_us",
}
#: Keys whose values are looked through where nothing has the one that was asked for.
_SUGGESTED = frozenset({"status", "source", "agent", "model", "tool", "tag"})
_KNOWN_VALUES = 200
_SUGGESTIONS = 3
Row = Mapping[str, object]
Key = tuple[object, str]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows that a term leaves out because they never recorded its value."""

    key: str
    count: int
    exact: bool
    instead: str
    """The query that lists them."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """A value of a term that no trajectory has, and values that some have."""

    key: str
    given: str
    values: tuple[str, ...]
    instead: tuple[str, ...]
    """The query with each of them."""
    alike: bool
    """They are like what was given; else they are some of those there are."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """One keyset page of trajectory summaries."""

    rows: tuple[Row, ...]
    """Summary columns, each with `trajectory_id` and `as_of_sequence`."""
    after: Key | None
    """Key to give as `after` for the next page; None at the end."""
    total: int
    """Trajectories that the filters let through."""
    exact: bool = True
    """False: at least so many."""
    left_out: tuple[LeftOut, ...] = ()
    behind: tuple[int, int] | None = None
    """(trajectories, events) that the index, which this list asked, lacks; None: not asked."""
    missing: tuple[int, int] = (0, 0)
    """(trajectories, events) that the list itself lacks: its cache was made anew and is being
    filled again from the log."""
    looked_through: int | None = None
    """Rows looked at where looking ended before the page was full."""
    nearest: tuple[Nearest, ...] = ()
    """Where nothing matches: what may have been meant."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """What a full-text search found."""

    hits: tuple[tuple[Hit, Row], ...]
    """With the summary of their trajectory; withdrawn and superseded ones are left out."""
    hidden: int
    """Hits in trajectories that are left out."""
    more: bool
    """There are more than were asked for."""
    behind: tuple[int, int]
    """(trajectories, events) that the index lacks."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a list is asked for."""

    query: Query
    filters: Mapping[str, object]
    """Of the projections, beside the query."""
    sort: str = "active"
    descending: bool = True
    after: Key | None = None
    limit: int = 50
    count_most: int | None = LIST_COUNT_MAX
    """Counting ends there; None: never. 0: nothing is counted."""
    explain: bool = False
    """Count what is left out, and count longer."""


def find(projections: Projections, index: TextIndex | None, tenant: str, ask: Ask) -> ListPage:
    """One page; InvalidInput for a sort or a term there is none of, SearchTimeout."""
    column = SORTS.get(ask.sort)
    if column is None:
        raise InvalidInput(f"sort is one of {', '.join(SORTS)}", field="sort")
    plain = tuple(term for term in ask.query.terms if term.key not in ("text", "tool"))
    indexed = [_sought(term) for term in ask.query.terms if term.key in ("text", "tool")]
    filters: dict[str, object] = dict(ask.filters)
    if plain:
        filters["terms"] = plain
    limit = max(1, min(ask.limit, PAGE_ROWS_MAX))
    behind: tuple[int, int] | None = None
    many: list[tuple[Sought, bool]] = []
    if indexed:
        if index is None:
            raise StoreStopped("this store keeps no full-text index")
        behind = index.behind(tenant)
        many = _narrow(index, tenant, indexed, filters)
    search = _Search(projections, index, tenant, filters, many, column, ask.descending)
    missing = projections.missing(tenant)
    while True:
        generation = projections.generation
        rows, following, looked = search.page(ask.after, limit)
        total, exact = search.count(rows, ask)
        missing = max(missing, projections.missing(tenant))
        if projections.generation == generation:
            break  # Else it was made anew meanwhile, and these rows may lack any.
    left_out = _left_out(projections, tenant, ask, filters) if ask.explain and not many else ()
    nearest: tuple[Nearest, ...] = ()
    if not rows and ask.after is None and not looked:
        nearest = _nearest(projections, index, tenant, ask.query)
    return ListPage(
        tuple(rows),
        following,
        total,
        exact and not any(missing),
        left_out,
        behind,
        missing,
        looked,
        nearest,
    )


def _sought(term: Term) -> tuple[Sought, bool]:
    if term.key == "tool" and len(term.values) > 1:
        raise InvalidInput("tool: takes one name; look for several one after the other", field="q")
    kind = "text" if term.key == "text" else "tool"
    return Sought(kind, str(term.values[0]), term.test == "begins"), term.negated  # type: ignore[arg-type]


def _narrow(
    index: TextIndex,
    tenant: str,
    indexed: list[tuple[Sought, bool]],
    filters: dict[str, object],
) -> list[tuple[Sought, bool]]:
    """Put the ids of what few trajectories hold into the filters; what many hold is returned."""
    many: list[tuple[Sought, bool]] = []
    within: set[str] | None = None
    without: set[str] = set()
    for sought, negated in indexed:
        ids = index.holding(tenant, sought, limit=SEARCH_TRAJECTORIES_MAX + 1)
        if len(ids) > SEARCH_TRAJECTORIES_MAX:
            many.append((sought, negated))
        elif negated:
            without.update(ids)
        else:
            within = set(ids) if within is None else within & set(ids)
    if within is not None:
        filters["ids"] = sorted(within - without)
    elif without:
        filters["not_ids"] = sorted(without)
    return many


@dataclass(frozen=True, slots=True)
class _Search:
    """Pages and counts of one list."""

    projections: Projections
    index: TextIndex | None
    tenant: str
    filters: Mapping[str, object]
    many: Sequence[tuple[Sought, bool]]
    column: str
    descending: bool

    def page(self, after: Key | None, limit: int) -> tuple[list[Row], Key | None, int | None]:
        """Rows, the key to go on from, and how many were looked at where looking ended early."""
        found: list[Row] = []
        looked = 0
        deadline = time.monotonic() + SEARCH_SECONDS_MAX
        step = limit + 1 if not self.many else PAGE_ROWS_MAX
        while True:
            rows = self.projections.list_summaries(
                self.tenant,
                sort=self.column,
                descending=self.descending,
                after=after,
                limit=step,
                filters=self.filters,
            )
            for row in self._held(rows):
                if len(found) == limit:
                    return found, self._key(found[-1]), None
                found.append(row)
            looked += len(rows)
            if len(rows) < step or not self.many:
                return found, None, None
            after = self._key(rows[-1])
            if looked >= LIST_LOOK_MAX or time.monotonic() > deadline:
                return found, after, looked

    def count(self, rows: Sequence[Row], ask: Ask) -> tuple[int, bool]:
        """How many there are, and whether all were counted."""
        if self.many or ask.count_most == 0:
            return len(rows), False
        return _count(self.projections, self.tenant, self.filters, ask)

    def _held(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those rows that the index's terms let through."""
        for sought, negated in self.many:
            if not rows:
                break
            assert self.index is not None
            ids = [str(row["trajectory_id"]) for row in rows]
            held = set(self.index.holding(self.tenant, sought, among=ids, limit=len(ids)))
            rows = [row for row in rows if (row["trajectory_id"] in held) != negated]
        return rows

    def _key(self, row: Row) -> Key:
        return row[self.column], str(row["trajectory_id"])


def _count(
    projections: Projections, tenant: str, filters: Mapping[str, object], ask: Ask
) -> tuple[int, bool]:
    if ask.count_most is None:
        return projections.count_summaries(tenant, filters), True
    seconds = PAGE_COUNT_SECONDS_MAX if ask.explain else LIST_COUNT_SECONDS_MAX
    return projections.count_some(tenant, filters, most=ask.count_most, seconds=seconds)


def _left_out(
    projections: Projections, tenant: str, ask: Ask, filters: Mapping[str, object]
) -> tuple[LeftOut, ...]:
    found = []
    terms = cast(tuple[Term, ...], filters.get("terms", ()))
    for term in terms:
        key = KEYS.get(term.key)
        if key is None or not key.optional or term.test in ("none", "any"):
            continue
        never = Term(term.key, "none", (), False, term.start, term.end, "was never recorded")
        others = {**filters, "terms": tuple(never if one is term else one for one in terms)}
        number, exact = _count(projections, tenant, others, ask)
        if number:
            instead = ask.query.replaced(term, f"{term.key}:none")
            found.append(LeftOut(term.key, number, exact, instead))
    return tuple(found)


def _nearest(
    projections: Projections, index: TextIndex | None, tenant: str, query: Query
) -> tuple[Nearest, ...]:
    """Of each term whose value nothing has: values that are there, the most alike first."""
    found = []
    for term in query.terms:
        if term.negated or term.test not in ("is", "begins") or term.key not in _SUGGESTED:
            continue
        if term.key == "tool" and index is None:
            continue
        if _holds(projections, index, tenant, term):
            continue
        there = _values(projections, index, tenant, term.key)
        alike = _alike(str(term.values[0]), there)
        values = alike or tuple(there[:_SUGGESTIONS])
        if values:
            instead = tuple(query.replaced(term, f"{term.key}:{quoted(one)}") for one in values)
            given = str(term.values[0])
            found.append(Nearest(term.key, given, values, instead, bool(alike)))
    return tuple(found)


def _holds(projections: Projections, index: TextIndex | None, tenant: str, term: Term) -> bool:
    """Whether any trajectory of the list has a value of this term."""
    if term.key == "tool":
        assert index is not None
        return bool(index.holding(tenant, _sought(term)[0], limit=1))
    return projections.count_summaries(tenant, {"terms": (term,)}, most=1) > 0


def _values(
    projections: Projections, index: TextIndex | None, tenant: str, key: str
) -> Sequence[str]:
    if key == "tool":
        assert index is not None
        return index.tools(tenant, limit=_KNOWN_VALUES)
    if key == "tag":
        return [tag for tag, _ in projections.tags(tenant, limit=_KNOWN_VALUES)]
    return projections.distinct(tenant, SORTS[key], limit=_KNOWN_VALUES)


def _alike(given: str, there: Sequence[str]) -> tuple[str, ...]:
    """Those that hold what was given, then those spelled like it."""
    plain = {_plain(value): value for value in reversed(there)}
    asked = _plain(given)
    holding = [value for one, value in plain.items() if asked in one]
    near = [plain[one] for one in get_close_matches(asked, plain, _SUGGESTIONS, 0.5)]
    return tuple(dict.fromkeys((*holding[:_SUGGESTIONS], *near)))[:_SUGGESTIONS]


def _plain(value: str) -> str:
    return value.casefold().replace("_", " ").replace("-", " ")


def search(
    projections: Projections,
    index: TextIndex | None,
    tenant: str,
    text: str,
    *,
    trajectory_id: str | None,
    after: int,
    limit: int,
) -> SearchPage:
    """Events that hold a text: of one trajectory those beyond `after`, or the first of each."""
    if index is None:
        raise StoreStopped("this store keeps no full-text index")
    limit = max(1, min(limit, PAGE_ROWS_MAX))
    hits = index.hits(tenant, text, trajectory_id=trajectory_id, after=after, limit=limit + 1)
    more, hits = len(hits) > limit, hits[:limit]
    ids = sorted({hit.trajectory_id for hit in hits})
    rows = projections.list_summaries(
        tenant,
        sort="id",
        descending=False,
        after=None,
        limit=len(ids),
        filters={"ids": ids, "hidden": (0, 1)},
    )
    known = {str(row["trajectory_id"]): row for row in rows}
    empty = {"title": None, "hidden": 0}
    shown = [(hit, known.get(hit.trajectory_id, empty)) for hit in hits]
    # Within one trajectory, whoever asks for it sees it.
    kept = [(hit, row) for hit, row in shown if trajectory_id is not None or not row["hidden"]]
    return SearchPage(tuple(kept), len(shown) - len(kept), more, index.behind(tenant))
