"""The difference of two records of one trajectory, as paths with their old and new values.

INVARIANTS
1. Equal records have no difference, and the difference of (b, a) is that of (a, b) turned round.
2. An entity (operation, call, approval) is compared wherever it lies: held open, recent or in a
   segment. Its path names the table it is in before, or else after: `operations.open.op-1.outcome`,
   `operations.closed.op-2`.
3. Bounded: at most `limit` changes are given; `total` counts all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from core.record.archive import APPROVAL, CALL, OPERATION, Load, Segments, rows_of
from core.record.record import Approval, Recent, TrajectoryRecord

CHANGES_MAX = 2000
#: What differs between any two boundaries and says nothing, or is compared by entity.
_LEFT_OUT = frozenset({"boundary", "trajectory_id", "reducer_version", "archive"})
_ENTITIES: tuple[tuple[str, str, Callable[[Recent], Mapping[str, Any]]], ...] = (
    ("operations", OPERATION, lambda recent: recent.operations),
    ("calls", CALL, lambda recent: recent.calls),
    ("approvals", APPROVAL, lambda recent: recent.approvals),
)
#: Fields by which the items of a list are told apart.
_IDENTITY = ("attempt_id", "sequence_number", "id")


@dataclass(frozen=True, slots=True)
class Change:
    """One path; `old` or `new` is None where it is not there."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs, in the order of the paths."""

    changes: tuple[Change, ...]
    total: int
    segments_compared: bool = True
    """False: archived entities lie between the two boundaries and could not be read."""

    @property
    def truncated(self) -> bool:
        """There are more changes than are given."""
        return self.total > len(self.changes)


def difference(
    before: TrajectoryRecord,
    after: TrajectoryRecord,
    load: Load | None = None,
    *,
    limit: int = CHANGES_MAX,
) -> Difference:
    """What differs between two records; `load` gives archived segments by digest.

    Without `load`, entities that were archived in between are not compared, and it is said.
    """
    if before.boundary > after.boundary:
        turned = difference(after, before, load, limit=limit)
        changes = tuple(Change(change.path, change.new, change.old) for change in turned.changes)
        return Difference(changes, turned.total, turned.segments_compared)
    archived = any(ref.last_sequence > before.boundary for ref in after.archive.segments)
    found = sorted(_changes(before, after, load), key=lambda change: change.path)
    return Difference(tuple(found[:limit]), len(found), load is not None or not archived)


def _changes(
    before: TrajectoryRecord, after: TrajectoryRecord, load: Load | None
) -> Iterator[Change]:
    for name in TrajectoryRecord.__struct_fields__:
        if name in _LEFT_OUT:
            continue
        if name in ("operations", "calls", "approvals"):
            old_slice, new_slice = getattr(before, name), getattr(after, name)
            for part in old_slice.__struct_fields__:
                if part != "open":
                    yield from _compare(
                        f"{name}.{part}", getattr(old_slice, part), getattr(new_slice, part)
                    )
        else:
            yield from _compare(name, getattr(before, name), getattr(after, name))
    yield from _entities(before, after, load)


def _entities(
    before: TrajectoryRecord, after: TrajectoryRecord, load: Load | None
) -> Iterator[Change]:
    archived = _archived(before, after, load) if load is not None else {}
    old_rows = _Rows(before, load)
    for name, kind, recent_of in _ENTITIES:
        old_open, new_open = getattr(before, name).open, getattr(after, name).open
        old_recent, new_recent = recent_of(before.archive.recent), recent_of(after.archive.recent)
        new_rows = archived.get(kind, {})
        for key in sorted({*old_open, *new_open, *old_recent, *new_recent, *new_rows}):
            old = old_open.get(key) or old_recent.get(key)
            new = new_open.get(key) or new_recent.get(key) or new_rows.get(key)
            if new is None:
                continue  # Archived since, and no segment to read it from: nothing is known.
            if old is None and _first_seen(new) <= before.boundary:
                old = old_rows.find(kind, key)
                if old is None:
                    continue
            held_open = key in old_open or (key not in old_recent and not new.closed)
            table = "open" if held_open else "closed"
            yield from _compare(f"{name}.{table}.{key}", old, new)


class _Rows:
    """The archived rows of the earlier record, read when first asked for."""

    def __init__(self, record: TrajectoryRecord, load: Load | None) -> None:
        self._refs = record.archive.segments
        self._segments = None if load is None else Segments(load)

    def find(self, kind: str, key: str) -> Any:
        if self._segments is None:
            return None
        return self._segments.find(self._refs, kind, key)


def _first_seen(entity: Any) -> int:
    if isinstance(entity, Approval):
        return entity.requested_sequence
    first: int = entity.first_sequence
    return first


def _archived(
    before: TrajectoryRecord, after: TrajectoryRecord, load: Load
) -> dict[str, dict[str, Any]]:
    """kind -> key -> newest row, of entities that changed after `before` and lie in segments."""
    found: dict[str, dict[str, Any]] = {}
    for ref in after.archive.segments:
        if ref.last_sequence > before.boundary:
            for kind, key, entity in rows_of(load(ref.digest)):
                if getattr(entity, "last_sequence", 0) > before.boundary:
                    found.setdefault(kind, {}).setdefault(key, entity)
    return found


def _compare(path: str, old: Any, new: Any) -> Iterator[Change]:
    if old is new or old == new:
        return
    if isinstance(old, msgspec.Struct) and type(old) is type(new):
        for name in old.__struct_fields__:
            yield from _compare(f"{path}.{name}", getattr(old, name), getattr(new, name))
        return
    old_items, new_items = _by_key(old), _by_key(new)
    if old_items is not None and new_items is not None:
        for key in sorted({*old_items, *new_items}):
            yield from _compare(f"{path}.{key}", old_items.get(key), new_items.get(key))
        return
    yield Change(path, msgspec.to_builtins(old), msgspec.to_builtins(new))


def _by_key(value: Any) -> Mapping[str, Any] | None:
    """A mapping as it is, a list of things with identities by these; None for other values."""
    if isinstance(value, dict):
        return value
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        for name in _IDENTITY:
            if name in value[0].__struct_fields__:
                items = {str(getattr(item, name)): item for item in value}
                return items if len(items) == len(value) else None
    return {} if value == () else None
