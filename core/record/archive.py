"""The archive of a record: entities that have left the open tables, in immutable segments.

INVARIANTS
1. Which entities lie in which segment depends on sequence numbers only, so the segments of a
   record are a function of the prefix, wherever its fold was interrupted.
2. A segment never changes: it is named by the SHA-256 of its bytes. Reading one verifies them.
3. Of several rows of one key the newest segment's counts; what is held by value goes before all.

At every SEGMENT_EVENTS-th event the closed entities that have been quiet for ARCHIVE_LAG_EVENTS
go into one segment of level 0, with the oldest open ones beyond OPEN_BY_VALUE_MAX. SEGMENT_FANOUT
windows of a level are merged into one segment of the next, up to SEGMENT_LEVEL_MAX; so a row is
written a bounded number of times, and a record names few segments.

A segment is a JSON array of rows `[kind, key, values]`, sorted by kind and key. The values are
those of the entity's fields in their order, without its key and without defaults at the end: a
quarter of the bytes of the record's own form, and segments are most of what a record costs. A
change of an entity's fields therefore takes a new reducer version.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple

from core.canonical import digest_text, sha256
from core.errors import CorruptAt
from core.limits import (
    ARCHIVE_LAG_EVENTS,
    OPEN_BY_VALUE_MAX,
    SEGMENT_EVENTS,
    SEGMENT_FANOUT,
    SEGMENT_LEVEL_MAX,
)
from core.record.record import (
    Approval,
    Archive,
    Attempt,
    Call,
    CheckpointRef,
    Evidence,
    Meter,
    Operation,
    Recent,
    Reservation,
    SegmentRef,
)

OPERATION, CALL, APPROVAL, RESERVATION, METER, CHECKPOINT = "ocarmk"
KINDS: dict[str, type[Any]] = {
    OPERATION: Operation,
    CALL: Call,
    APPROVAL: Approval,
    RESERVATION: Reservation,
    METER: Meter,
    CHECKPOINT: CheckpointRef,
}

Load = Callable[[str], bytes]
Row = tuple[str, str, msgspec.Raw]
Index = dict[tuple[str, str], msgspec.Raw]

_ROWS = msgspec.json.Decoder(list[Row])
#: Kinds whose first field is their key.
_KEYED = frozenset({OPERATION, CALL, APPROVAL, RESERVATION})
_DEFAULTS = (None, 0, ())
_ENCODER = msgspec.json.Encoder(order="deterministic")
#: Rows of parsed segments kept for further look-ups; a row is some 300 bytes.
_PARSED_ROWS_MAX = 60_000

Entity = TypeVar("Entity")


class CorruptSegment(CorruptAt):
    """The bytes of a record segment are not those of its digest."""

    def __init__(self, digest: str) -> None:
        super().__init__("a record segment does not match its digest", digest=digest)
        self.digest = digest


class Segments:
    """Reads segments through `load`, remembers the newest few parsed, collects the new ones.

    `load(digest)` gives a segment's bytes and raises what it raises where it cannot; CorruptSegment
    here where the bytes are not those of the digest. `made` holds segments written by folds
    since it was last emptied: whoever keeps the record keeps them first; `keep_made` asks not to
    empty it. One thread at a time.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._parsed: OrderedDict[str, Index] = OrderedDict()
        self._parsed_rows = 0
        self.made: dict[str, bytes] = {}
        self.keep_made = False

    def bytes_of(self, digest: str) -> bytes:
        """The verified bytes of a segment."""
        made = self.made.get(digest)
        if made is not None:
            return made
        data = self._load(digest)
        if digest_text(sha256(data)) != digest:
            raise CorruptSegment(digest)
        return data

    def index(self, digest: str) -> Index:
        """The rows of a segment by kind and key."""
        index = self._parsed.get(digest)
        if index is not None:
            self._parsed.move_to_end(digest)
            return index
        index = {(kind, key): raw for kind, key, raw in _ROWS.decode(self.bytes_of(digest))}
        self._parsed[digest] = index
        self._parsed_rows += len(index)
        while self._parsed_rows > _PARSED_ROWS_MAX and len(self._parsed) > 1:
            _, dropped = self._parsed.popitem(last=False)
            self._parsed_rows -= len(dropped)
        return index

    def find(self, refs: Iterable[SegmentRef], kind: str, key: str) -> Any:
        """The newest row of a key as its entity, None if no segment of `refs` has one."""
        for ref in refs:
            if kind in ref.kinds:
                raw = self.index(ref.digest).get((kind, key))
                if raw is not None:
                    return unpack(kind, key, raw)
        return None

    def put(self, rows: list[tuple[str, str, Any]]) -> str:
        """Make a segment of these rows, entities or raw; its digest."""
        rows.sort(key=_key_of)
        data = _ENCODER.encode(rows)
        digest = digest_text(sha256(data))
        self.made[digest] = data
        return digest


def rows_of(data: bytes) -> Iterable[tuple[str, str, Any]]:
    """(kind, key, entity) of every row of a segment's bytes."""
    for kind, key, raw in _ROWS.decode(data):
        yield kind, key, unpack(kind, key, raw)


def pack(kind: str, entity: Any) -> list[Any]:
    """The values of a row."""
    values = _values(entity)
    return values[1:] if kind in _KEYED else values


def unpack(kind: str, key: str, raw: msgspec.Raw) -> Any:
    """The entity of a row."""
    values = msgspec.json.decode(raw)
    if kind in _KEYED:
        values.insert(0, key)
    if kind == OPERATION:
        if len(values) > _ATTEMPTS:
            values[_ATTEMPTS] = tuple(map(_attempt, values[_ATTEMPTS]))
        if len(values) > _DEPENDS_ON:
            values[_DEPENDS_ON] = tuple(values[_DEPENDS_ON])
    return KINDS[kind](*values)


def _values(entity: Any) -> list[Any]:
    """Field values, nested parts as lists, defaults at the end left out."""
    values = list(astuple(entity))
    least = len(values) - len(entity.__struct_defaults__)
    while len(values) > least and values[-1] in _DEFAULTS:
        values.pop()
    nested = _NESTED.get(type(entity))
    if nested is not None and len(values) > nested:
        values[nested] = [_values(part) for part in values[nested]]
    return values


def _attempt(values: list[Any]) -> Attempt:
    if len(values) > _EVIDENCE:
        values[_EVIDENCE] = tuple(Evidence(*one) for one in values[_EVIDENCE])
    return Attempt(*values)


_ATTEMPTS = Operation.__struct_fields__.index("attempts")
_EVIDENCE = Attempt.__struct_fields__.index("evidence")
_NESTED: dict[type[Any], int] = {Operation: _ATTEMPTS, Attempt: _EVIDENCE}
_DEPENDS_ON = Operation.__struct_fields__.index("depends_on")


class ArchiveDraft:
    """The archive while a fold runs."""

    __slots__ = (
        "approvals",
        "calls",
        "checkpoints",
        "closed_here",
        "earlier",
        "operations",
        "refs",
        "reservations",
        "segments",
    )

    def __init__(
        self, archive: Archive, segments: Segments, earlier: Container[str] | None
    ) -> None:
        self.operations: dict[str, Operation] = dict(archive.recent.operations)
        self.calls: dict[str, Call] = dict(archive.recent.calls)
        self.approvals: dict[str, Approval] = dict(archive.recent.approvals)
        self.checkpoints: dict[str, CheckpointRef] = dict(archive.recent.checkpoints)
        self.reservations: dict[str, Reservation] = dict(archive.recent.reservations)
        self.refs: list[SegmentRef] = list(archive.segments)
        self.segments = segments
        self.earlier = earlier
        self.closed_here: set[str] = set()

    def freeze(self) -> Archive:
        """The archive as part of a record."""
        return Archive(
            recent=Recent(
                operations=dict(self.operations),
                calls=dict(self.calls),
                approvals=dict(self.approvals),
                checkpoints=dict(self.checkpoints),
                reservations=dict(self.reservations),
            ),
            segments=tuple(self.refs),
        )

    def operation(self, operation_id: str) -> Operation | None:
        """An archived operation. Where `earlier` is known, an id outside it costs nothing."""
        if (
            self.earlier is not None
            and operation_id not in self.earlier
            and operation_id not in self.closed_here
        ):
            return None
        return self.find(OPERATION, operation_id, Operation)

    def find(self, kind: str, key: str, type_: type[Entity]) -> Entity | None:
        """The newest archived row of a key."""
        entity = self.segments.find(self.refs, kind, key)
        assert entity is None or isinstance(entity, type_)
        return entity

    def close_window(self, boundary: int, rows: list[tuple[str, str, Any]]) -> None:
        """Write the window that ends at `boundary`: these rows, and what has been quiet."""
        quiet = boundary - ARCHIVE_LAG_EVENTS
        rows = [(kind, key, pack(kind, entity)) for kind, key, entity in rows]
        _take_quiet(self.operations, OPERATION, quiet, rows)
        _take_quiet(self.calls, CALL, quiet, rows)
        _take_quiet(self.approvals, APPROVAL, quiet, rows)
        _take_quiet(self.reservations, RESERVATION, quiet, rows)
        for name in [n for n, c in self.checkpoints.items() if c.sequence_number <= quiet]:
            rows.append((CHECKPOINT, name, pack(CHECKPOINT, self.checkpoints.pop(name))))
        if rows:
            self._write(rows, 0, boundary - SEGMENT_EVENTS + 1, boundary)
            if self.earlier is not None:
                self.closed_here.update(key for kind, key, _ in rows if kind == OPERATION)
        span = SEGMENT_EVENTS
        for level in range(SEGMENT_LEVEL_MAX):
            span *= SEGMENT_FANOUT
            if boundary % span:
                break
            self._merge(level, boundary - span + 1, boundary)

    def _merge(self, level: int, first: int, last: int) -> None:
        """Put all segments of a level into one of the next; the newest row of a key stays."""
        group = [ref for ref in self.refs if ref.level == level]
        if not group:
            return
        index: Index = {}
        for ref in reversed(group):
            index.update(self.segments.index(ref.digest))
        self.refs = [ref for ref in self.refs if ref.level > level]
        rows = [(kind, key, raw) for (kind, key), raw in index.items()]
        self._write(rows, level + 1, first, last)

    def _write(self, rows: list[tuple[str, str, Any]], level: int, first: int, last: int) -> None:
        digest = self.segments.put(rows)
        kinds = "".join(sorted({row[0] for row in rows}))
        self.refs.insert(0, SegmentRef(digest, len(rows), kinds, level, first, last))


def _key_of(row: tuple[str, str, Any]) -> tuple[str, str]:
    return row[0], row[1]


def _take_quiet(
    entities: dict[str, Any], kind: str, quiet: int, rows: list[tuple[str, str, Any]]
) -> None:
    for key in [key for key, entity in entities.items() if entity.last_sequence <= quiet]:
        rows.append((kind, key, pack(kind, entities.pop(key))))


def spill(open_: dict[str, Any], kind: str, rows: list[tuple[str, str, Any]]) -> list[Any]:
    """Move the longest quiet entities beyond OPEN_BY_VALUE_MAX from `open_` into `rows`."""
    excess = len(open_) - OPEN_BY_VALUE_MAX
    if excess <= 0:
        return []
    oldest = sorted(open_, key=lambda key: (open_[key].last_sequence, key))[:excess]
    moved = [open_.pop(key) for key in oldest]
    rows.extend(zip((kind for _ in oldest), oldest, moved, strict=True))
    return moved
