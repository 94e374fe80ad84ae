"""Terms of the query language as conditions on summaries.

INVARIANTS
1. Values are bound, never written into the statement; names come from the tables below.
2. What was never recorded fulfils no comparison, turned round or not (core.query, 4).
"""

from __future__ import annotations

from collections.abc import Mapping

from core.errors import InvalidInput
from core.query import BARE, Term

#: Key -> column or expression of a summary.
COLUMNS: Mapping[str, str] = {
    "status": "state",
    "standing": "standing",
    "source": "source",
    "agent": "agent",
    "model": "model",
    "id": "trajectory_id",
    "title": "title",
    "parent": "parent_id",
    "error": "errors",
    "unsettled": "unsettled",
    "unknown": "unknown",
    "in_doubt": "in_doubt",
    "step": "step",
    "events": "events",
    "tokens": "tokens",
    "input": "input_tokens",
    "output": "output_tokens",
    "cost": "cost",
    "duration": "duration_us",
    "started": "started_at",
    "active": "active_at",
    "updated": "updated_at",
}
_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_HIDDEN = {"yes": "+hidden = 1", "no": "+hidden = 0", "any": "1"}
_LAST = "\U0010ffff"

Condition = tuple[str, list[object]]


def condition(
    tenant: str, term: Term, *, steers: bool = True, several_models: bool = True
) -> Condition:
    """The condition of one term; InvalidInput for a key that summaries do not hold.

    One that does not steer is only looked at in rows that another index gives: `+` hides its
    column from the planner. Where no row has several models, a model is a column like others.
    """
    if term.key == "withdrawn":
        return _HIDDEN[str(term.values[0])], []
    sign = "" if steers else "+"
    found, values = (
        _model(term) if term.key == "model" and several_models else _plain(tenant, term, sign)
    )
    if not term.negated:
        return found, values
    return f"NOT ({found})", values


def may_steer(term: Term) -> bool:
    """Whether an index could give the rows of a term."""
    return not term.negated and term.test not in ("none", "any", "has") and term.key in COLUMNS


def _plain(tenant: str, term: Term, sign: str) -> Condition:
    if term.key == BARE:
        pattern = _part(str(term.values[0]))
        return (
            "(coalesce(title, '') LIKE ? ESCAPE '\\' OR trajectory_id LIKE ? ESCAPE '\\')",
            [pattern, pattern],
        )
    if term.key == "tag":
        marks = ", ".join("?" * len(term.values))
        return (
            "trajectory_id IN (SELECT trajectory_id FROM tags WHERE tenant = ? "
            f"AND tag IN ({marks}))",
            [tenant, *term.values],
        )
    column = COLUMNS.get(term.key)
    if column is None:
        raise InvalidInput(f"a list of summaries has no {term.key}", field="q")
    column = sign + column
    if term.test in ("none", "any"):
        return f"{column} IS {'NOT ' if term.test == 'any' else ''}NULL", []
    if term.test == "begins":
        return _begins(column, str(term.values[0]))
    if term.test == "has":
        return (
            "(" + " OR ".join([f"{column} LIKE ? ESCAPE '\\'"] * len(term.values)) + ")",
            [_part(str(value)) for value in term.values],
        )
    if term.test == "is":
        if len(term.values) == 1:
            return f"{column} = ?", [term.values[0]]
        return f"{column} IN ({', '.join('?' * len(term.values))})", list(term.values)
    found = f"{column} {_SIGNS[term.test]} ?"
    if term.upto is not None:
        return f"({found} AND {column} < ?)", [term.values[0], term.upto]
    return found, [term.values[0]]


def _model(term: Term) -> Condition:
    """The first model, or any of several; `models` holds them between line ends."""
    if term.test in ("none", "any"):
        return f"model IS {'NOT ' if term.test == 'any' else ''}NULL", []
    parts: list[str] = []
    values: list[object] = []
    for value in term.values:
        one, more = (
            _begins("model", str(value)) if term.test == "begins" else ("model = ?", [value])
        )
        end = "" if term.test == "begins" else "\n"
        parts += [one, "coalesce(instr(lower(models), ?), 0)"]
        values += [*more, f"\n{_lower(str(value))}{end}"]
    # A model that was never recorded is not another model either.
    return f"(CASE WHEN model IS NULL THEN NULL ELSE {' OR '.join(parts)} END)", values


def _lower(text: str) -> str:
    """As SQLite's `lower`, which knows the letters A to Z only."""
    return "".join(char.lower() if char.isascii() else char for char in text)


def _begins(column: str, stem: str) -> Condition:
    return f"({column} >= ? AND {column} < ?)", [stem, stem + _LAST]


def _part(text: str) -> str:
    """A LIKE pattern of what holds `text`."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
