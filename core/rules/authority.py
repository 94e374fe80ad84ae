"""Who may append what (contract, section 1): one table, read by every door of the store.

INVARIANTS
1. A combination of standing, issuer, door and type that no row of `ROWS` names is refused (WHO-1).
2. A type outside the registry comes in by `install` only: a copy of a newer program's log is kept
   and shown, while an append of it is refused (LOG-6).
3. The issuer is the one the credential gives, never one a body states; only installed events
   bring theirs along, because nothing in a copy is restamped (INS-1).

The verbs of the service (door `verb`) add their rows here when they are built.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from core.events import registry
from core.events.envelope import Issuer, Standing

Door = Literal["create", "claim", "append", "import", "install", "verb"]

#: Stands in a row for every type under `note.`.
NOTES = registry.NOTE_PREFIX + "*"
#: Stands in a row for types that this program's registry does not know.
UNKNOWN = "(unknown)"

EVERY_FAMILY: frozenset[str] = frozenset(registry.FAMILIES)
EVERY_ISSUER: tuple[Issuer, ...] = get_args(Issuer)


class Row(NamedTuple):
    """These issuers may append these types to trajectories of these standings by this door."""

    door: Door
    standings: tuple[Standing, ...]
    issuers: tuple[Issuer, ...]
    types: frozenset[str]


ROWS: tuple[Row, ...] = (
    # The service opens a trajectory with its task, and grants its owner epochs (no lease, WHO-2).
    Row("create", ("gated", "reported"), ("service",), frozenset({"TaskStarted"})),
    Row("claim", ("gated", "reported"), ("service",), frozenset({"OwnershipGranted"})),
    # A gated worker reports what it saw; it cannot approve, license, grant or publish.
    Row(
        "append",
        ("gated",),
        ("worker",),
        frozenset(
            {
                "ContextBuilt",
                "ModelReplied",
                "PlanChanged",
                "Compacted",
                "RuntimeInput",
                "ApprovalRequested",
                "ToolResult",
                "BudgetSettled",
                NOTES,
            }
        ),
    ),
    # A runtime of its own reports what it did, but for what only the service can know.
    Row(
        "append",
        ("reported",),
        ("worker",),
        EVERY_FAMILY
        - {
            "TaskStarted",
            "OwnershipGranted",
            "Forked",
            "Resumed",
            "ApprovalResolved",
            "Checkpoint",
        }
        | {NOTES},
    ),
    # An importer asserts what its source holds, with epoch 0.
    Row("import", ("imported",), ("importer",), EVERY_FAMILY | {NOTES}),
    # An installed copy keeps whatever its origin's store accepted, newer types included.
    Row("install", ("replica",), EVERY_ISSUER, EVERY_FAMILY | {NOTES, UNKNOWN}),
)

_ALLOWED: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
for _row in ROWS:
    for _standing in _row.standings:
        for _issuer in _row.issuers:
            _types = _ALLOWED.setdefault((_row.door, _standing), {})
            _types[_issuer] = _types.get(_issuer, frozenset()) | _row.types


def refuse(standing: Standing, issuer: Issuer, door: Door, type_: str) -> str | None:
    """Why this event may not be appended, as a sentence for a person; None if it may be."""
    issuers = _ALLOWED.get((door, standing))
    if issuers is None:
        return f"nothing is appended to a trajectory of standing {standing} by {door}"
    types = issuers.get(issuer)
    if types is None:
        return f"the issuer {issuer} appends nothing by {door} to a {standing} trajectory"
    if type_ in types:
        return None
    if type_ in EVERY_FAMILY:
        return f"the issuer {issuer} may not assert {type_} by {door} on a {standing} trajectory"
    if registry.is_note(type_):
        return None if NOTES in types else f"notes are not appended by {door}"
    return None if UNKNOWN in types else f"{type_} is not an event type this program knows"
