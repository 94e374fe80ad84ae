"""Every operation of a record in pages: those held by value, then the archive's, newest first.

INVARIANTS
1. Following the cursor to its end gives every operation of the record exactly once, provided
   `current` knows a row that a newer one stands for (core.record.archive, invariant 3).
2. One page reads at most SCANNED_MAX archived rows, however long the log and however rare what is
   looked for; it says so by `scanned_to` where that ended it.

The order is that of the groups (by value, then segments from the newest on), and in each by last
event, the newest first. A cursor `(group, offset)` holds for one boundary only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from core.record.archive import OPERATION, Segments, unpack
from core.record.record import Operation, TrajectoryRecord

#: Archived operations looked at for one page: some 60 ms, and a log of 150,000 events.
SCANNED_MAX = 40_000

#: (last sequence number of a segment, 0 for those held by value; how many of it are behind)
Cursor = tuple[int, int]


class Slim(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The beginning of an archived operation's row: what a filter asks about."""

    tool: str
    kind: str
    first_sequence: int
    last_sequence: int
    tool_version: str | None = None
    arguments_digest: str | None = None
    input_revision: str | None = None
    step: int | None = None
    attempts: msgspec.Raw = msgspec.Raw()
    attempts_dropped: int = 0
    attempts_dropped_unsettled: int = 0
    outcome: str | None = None
    outcome_sequence: int | None = None
    outcome_basis: str | None = None
    disputed: bool = False


assert Slim.__struct_fields__ == Operation.__struct_fields__[1 : 1 + len(Slim.__struct_fields__)]
_SLIM = msgspec.json.Decoder(Slim)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which operations a page is of: all, or those of one tool and one state."""

    tool: str = ""
    state: str = ""
    """One of STATES, or empty: any."""

    STATES: ClassVar[tuple[str, ...]] = (
        "",
        "unsettled",
        "succeeded",
        "failed",
        "no_effect",
        "disputed",
    )

    def may(self, tool: str, outcome: str | None, *, disputed: bool) -> bool:
        """Whether a row with these values can be wanted; `has` decides."""
        if self.tool and tool != self.tool:
            return False
        if not self.state:
            return True
        if self.state == "unsettled":
            return outcome != "succeeded" or disputed
        return disputed if self.state == "disputed" else outcome == self.state

    def has(self, operation: Operation) -> bool:
        """Whether an operation is wanted."""
        if not self.may(operation.tool, operation.outcome, disputed=operation.disputed):
            return False
        if self.state == "unsettled":
            return operation.unsettled
        return self.state in ("", "disputed") or not operation.unsettled


@dataclass(frozen=True, slots=True)
class Listed:
    """One page."""

    rows: tuple[Operation, ...]
    after: Cursor | None
    """Where the next page goes on; None at the end."""
    scanned_to: int | None = None
    """The page ended because it had looked at enough: back to about this sequence number."""


def operations(
    record: TrajectoryRecord,
    segments: Segments,
    current: Callable[[Operation], bool],
    *,
    wanted: Wanted,
    limit: int,
    after: Cursor | None = None,
    scanned_max: int = SCANNED_MAX,
) -> Listed:
    """One page of the operations that are wanted. Raises what reading a segment raises."""
    group, offset = after or (0, 0)
    held = {**record.archive.recent.operations, **record.operations.open}
    rows: list[Operation] = []
    if group == 0:
        ordered = sorted(held.values(), key=lambda op: (-op.last_sequence, op.operation_id))
        for at, operation in enumerate(ordered[offset:], offset + 1):
            if wanted.has(operation):
                rows.append(operation)
                if len(rows) == limit:
                    return Listed(tuple(rows), (0, at))
        offset = 0
    scanned = 0
    for ref in record.archive.segments:
        if OPERATION not in ref.kinds or (group and ref.last_sequence > group):
            continue
        if scanned >= scanned_max:
            return Listed(tuple(rows), (ref.last_sequence, 0), ref.last_sequence)
        start = offset if ref.last_sequence == group else 0
        index = segments.index(ref.digest)
        found = [
            (-slim.last_sequence, key, raw, slim)
            for (kind, key), raw in index.items()
            if kind == OPERATION and key not in held
            for slim in (_SLIM.decode(raw),)
        ]
        found.sort(key=lambda row: row[:2])
        scanned += len(found)
        for at, (_, key, raw, slim) in enumerate(found[start:], start + 1):
            if not wanted.may(slim.tool, slim.outcome, disputed=slim.disputed):
                continue
            operation = unpack(OPERATION, key, raw)
            if wanted.has(operation) and current(operation):
                rows.append(operation)
                if len(rows) == limit:
                    return Listed(tuple(rows), (ref.last_sequence, at))
    return Listed(tuple(rows), None)
