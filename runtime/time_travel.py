"""The record at any boundary: the nearest stored snapshot, and a fold of the events after it.

INVARIANTS
1. A snapshot is used only if its seal holds and its chain value is the log's at its boundary.
2. Snapshots and segments are a cache: one that is missing, damaged or of another reducer version
   is passed over for an earlier one, at last for the empty record; it never makes a read fail.
3. The log and its payloads are not a cache: where they cannot be read the record cannot be
   known, and the read raises; nothing is skipped.
4. A segment is stored before the snapshot that names it.
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import CorruptAt, InvalidInput, NotFound, NotReconstructed, Unavailable
from core.events.envelope import Event
from core.limits import SNAPSHOT_EVENTS
from core.record import difference as differ
from core.record import snapshot
from core.record.archive import OPERATION, CorruptSegment, Segments
from core.record.record import TrajectoryRecord
from core.record.reduce import REDUCER_VERSION, Fold, ReadPayload, empty
from store.ports import BlobStore, Head, Projections, RecoveryStore

#: Events read and folded in one go, between two of which a long fold can be interrupted.
CHUNK_EVENTS = SNAPSHOT_EVENTS * 8
#: Chain values of snapshot boundaries remembered as read from the log; some 100 bytes each.
_CHAINS_MAX = 50_000
#: Readers of segments kept for further calls, by tenant; each remembers parsed segments.
_READERS_MAX = 4


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record, and what it was made from."""

    record: TrajectoryRecord
    head: Head
    boundary: int
    snapshot_boundary: int
    """Boundary of the snapshot it started from; 0: from the first event."""
    folded: int
    """Events folded after it."""
    elapsed_us: int

    @property
    def reconstructed(self) -> bool:
        """Whether this version could fold every event up to the boundary (LOG-6)."""
        return self.record.blocked is None

    def require_reconstructed(self) -> TrajectoryRecord:
        """The record; NotReconstructed if an event in the prefix is beyond this version."""
        blocked = self.record.blocked
        if blocked is not None:
            raise NotReconstructed(
                f"boundary {self.boundary} is not reconstructed by this version: event "
                f"{blocked.sequence_number} is a {blocked.type} of schema version "
                f"{blocked.schema_version}, which it does not know; boundaries before it are",
                boundary=self.boundary,
                sequence_number=blocked.sequence_number,
                type=blocked.type,
                schema_version=blocked.schema_version,
            )
        return self.record


class SegmentLost(Unavailable):
    """A record segment is not in the cache; it is made again from the log."""

    code = "not_reconstructed"

    def __init__(self, digest: str) -> None:
        super().__init__("a record segment is not in the cache", digest=digest)
        self.digest = digest


class TimeTravel:
    """Reads records of one store. Safe from any thread."""

    def __init__(self, store: RecoveryStore, blobs: BlobStore, projections: Projections) -> None:
        self._store = store
        self._blobs = blobs
        self._projections = projections
        self._chains: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._readers: dict[str, list[Segments]] = {}

    def record_at(self, tenant: str, trajectory_id: str, boundary: int | None = None) -> RecordView:
        """The record at `boundary`, None for the head.

        Raises NotFound for an unknown trajectory or a boundary beyond the head, InvalidInput for
        a negative one, NotReconstructed where a payload is missing, CorruptAt where one is
        damaged. A prefix with an event this version does not know comes with
        `record.blocked` set: see `RecordView.require_reconstructed`.
        """
        started = time.perf_counter_ns()
        head = self._store.head(tenant, trajectory_id)
        target = head.sequence_number if boundary is None else boundary
        if target < 0:
            raise InvalidInput("a boundary is a number from 0 to the head", field="boundary")
        if target > head.sequence_number:
            raise NotFound(
                f"{trajectory_id} has no boundary {target}; its head is {head.sequence_number}",
                trajectory_id=trajectory_id,
                boundary=target,
                head=head.sequence_number,
            )
        base = self.base(tenant, trajectory_id, target)
        segments = self.segments(tenant)
        while True:
            fold = Fold(base, segments)
            try:
                self.advance(fold, segments, tenant, trajectory_id, target)
                break
            except (SegmentLost, CorruptSegment) as lost:
                base, segments = self.before_loss(tenant, base, lost)
        self.give_back(tenant, segments)
        return RecordView(
            record=fold.record(),
            head=head,
            boundary=target,
            snapshot_boundary=base.boundary,
            folded=target - base.boundary,
            elapsed_us=(time.perf_counter_ns() - started) // 1000,
        )

    def walk(
        self, tenant: str, trajectory_id: str, first: int = 0, last: int | None = None
    ) -> Iterator[TrajectoryRecord]:
        """The record of every boundary from `first` to `last` (None: the head), by one fold.

        Raises as record_at does, where it comes to what it cannot read.
        """
        view = self.record_at(tenant, trajectory_id, last)
        if not 0 <= first <= view.boundary:
            raise InvalidInput(f"the first boundary is from 0 to {view.boundary}", field="boundary")
        base = self.record_at(tenant, trajectory_id, first).record
        yield base
        segments = self.new_segments(tenant)
        segments.keep_made = True
        fold, read = Fold(base, segments), self._reader(tenant)
        while fold.boundary < view.boundary:
            upto = min(view.boundary, fold.boundary + CHUNK_EVENTS)
            rows = list(
                self._store.fold_rows(tenant, trajectory_id, after=fold.boundary, upto=upto)
            )
            fold.know(self._earlier(tenant, trajectory_id, fold, rows))
            for row in rows:
                fold.add_rows((row,), read)
                yield fold.record()

    def difference(
        self, tenant: str, trajectory_id: str, before: int, after: int, *, limit: int | None = None
    ) -> differ.Difference:
        """What differs between two boundaries, archived entities included; raises as record_at."""
        first = self.record_at(tenant, trajectory_id, before).record
        second = self.record_at(tenant, trajectory_id, after).record
        return self.compare(tenant, first, second, limit=limit)

    def compare(
        self,
        tenant: str,
        before: TrajectoryRecord,
        after: TrajectoryRecord,
        *,
        limit: int | None = None,
    ) -> differ.Difference:
        """The difference of two records that were read here."""
        bound = differ.CHANGES_MAX if limit is None else limit
        segments = self.segments(tenant)
        try:
            found = differ.difference(before, after, segments.bytes_of, limit=bound)
        except (SegmentLost, CorruptSegment):
            return differ.difference(before, after, None, limit=bound)
        self.give_back(tenant, segments)
        return found

    def base(self, tenant: str, trajectory_id: str, boundary: int) -> TrajectoryRecord:
        """The record of the nearest good snapshot at or below `boundary`, or the empty one."""
        while boundary > 0:
            found = self._projections.nearest(tenant, trajectory_id, boundary, REDUCER_VERSION)
            if found is None:
                break
            sequence, chain, sealed = found
            if chain == self._chain(tenant, trajectory_id, sequence):
                record = _unsealed(sealed, chain)
                if record is not None and record.trajectory_id == trajectory_id:
                    if record.boundary == sequence:
                        return record
            # An earlier one serves, and the fold that passes here stores this one anew.
            boundary = sequence - 1
        return empty(trajectory_id)

    def advance(
        self,
        fold: Fold,
        segments: Segments,
        tenant: str,
        trajectory_id: str,
        target: int,
    ) -> None:
        """Fold on to `target`, storing a snapshot at each snapshot boundary that is passed."""
        read = self._reader(tenant)
        while fold.boundary < target:
            upto = min(target, fold.boundary + CHUNK_EVENTS)
            rows = list(
                self._store.fold_rows(tenant, trajectory_id, after=fold.boundary, upto=upto)
            )
            if len(rows) != upto - fold.boundary:
                raise CorruptAt(
                    f"the log of {trajectory_id} has {len(rows)} of the events "
                    f"{fold.boundary + 1} to {upto}",
                    trajectory_id=trajectory_id,
                )
            fold.know(self._earlier(tenant, trajectory_id, fold, rows))
            snapshots: list[tuple[int, bytes, bytes, bytes]] = []
            start = 0
            while start < len(rows):
                here = fold.boundary
                end = start + SNAPSHOT_EVENTS - here % SNAPSHOT_EVENTS
                fold.add_rows(rows[start:end], read)
                start = end
                if fold.boundary % SNAPSHOT_EVENTS == 0:
                    snapshots.append(self._snapshot(fold, tenant, trajectory_id))
            self._keep(segments, tenant, trajectory_id, snapshots)

    def segments(self, tenant: str) -> Segments:
        """A reader of this tenant's segments, for one thread until it is given back."""
        idle = self._readers.setdefault(tenant, [])
        try:
            return idle.pop()
        except IndexError:
            return self.new_segments(tenant)

    def new_segments(self, tenant: str) -> Segments:
        """A reader of this tenant's segments that is nobody else's."""
        return Segments(lambda digest: self._segment(tenant, digest))

    def give_back(self, tenant: str, segments: Segments) -> None:
        """Keep a reader, with what it has parsed, for the next call."""
        idle = self._readers.setdefault(tenant, [])
        if len(idle) < _READERS_MAX and not segments.made and not segments.keep_made:
            idle.append(segments)

    def before_loss(
        self, tenant: str, base: TrajectoryRecord, lost: SegmentLost | CorruptSegment
    ) -> tuple[TrajectoryRecord, Segments]:
        """Where to start again after `base` led to a segment that cannot be read: a snapshot
        below which nothing names it, at last the empty record, which needs no stored segment."""
        segments = self.new_segments(tenant)
        if base.boundary == 0:
            segments.keep_made = True
            return base, segments
        firsts = [ref.first_sequence for ref in base.archive.segments if ref.digest == lost.digest]
        below = min([*firsts, base.boundary]) - 1
        return self.base(tenant, base.trajectory_id, below), segments

    def _segment(self, tenant: str, digest: str) -> bytes:
        data = self._projections.segment(tenant, digest)
        if data is None:
            raise SegmentLost(digest)
        return data

    def _chain(self, tenant: str, trajectory_id: str, sequence: int) -> bytes | None:
        """The log's chain value at a boundary; the log never changes, so once read it is known."""
        name = (tenant, trajectory_id, sequence)
        known = self._chains.get(name)
        if known is not None:
            return known
        found = self._store.events(
            tenant, trajectory_id, after=sequence - 1, upto=sequence, limit=1
        )
        if not found:
            return None
        if len(self._chains) >= _CHAINS_MAX:
            self._chains.clear()
        self._chains[name] = found[0].chain
        return found[0].chain

    def _snapshot(
        self, fold: Fold, tenant: str, trajectory_id: str
    ) -> tuple[int, bytes, bytes, bytes]:
        record = fold.record()
        chain = self._chain(tenant, trajectory_id, record.boundary)
        assert chain is not None, "the event was just folded"
        sealed = snapshot.seal(record, chain)
        return record.boundary, chain, sealed, snapshot.counts(record)

    def _keep(
        self,
        segments: Segments,
        tenant: str,
        trajectory_id: str,
        snapshots: list[tuple[int, bytes, bytes, bytes]],
    ) -> None:
        """Store what a fold made, segments first; a cache that takes nothing changes nothing."""
        if segments.made:
            newest = next(reversed(segments.made))
            self._projections.put_segments(tenant, list(segments.made.items()))
            stored = self._projections.segment(tenant, newest) is not None
            if stored and not segments.keep_made:
                segments.made.clear()
        if snapshots:
            self._projections.put_snapshots(tenant, trajectory_id, REDUCER_VERSION, snapshots)

    def _earlier(
        self, tenant: str, trajectory_id: str, fold: Fold, rows: list[Event]
    ) -> frozenset[str]:
        """Operation ids of these events that lie below them too, but not in the record by value."""
        held = fold.held_operations()
        ids = {
            event.operation_id
            for event in rows
            if event.operation_id is not None and event.operation_id not in held
        }
        if not ids or not fold.archives(OPERATION):
            return frozenset()
        return self._store.operations_begun(
            tenant, trajectory_id, frozenset(ids), upto=fold.boundary
        )

    def _reader(self, tenant: str) -> ReadPayload:
        def read(event: Event) -> bytes:
            ref = event.payload_ref
            assert ref is not None, "an event has a payload or a payload_ref"
            try:
                return self._blobs.read(tenant, ref.digest)
            except NotFound as error:
                raise NotReconstructed(
                    f"boundaries from {event.sequence_number} on cannot be reconstructed: the "
                    f"payload of that event, blob {ref.digest}, is missing",
                    sequence_number=event.sequence_number,
                    digest=ref.digest,
                ) from error

        return read


def _unsealed(sealed: bytes, chain: bytes) -> TrajectoryRecord | None:
    """The record of a sealed snapshot; None if it is damaged or of another version."""
    try:
        return snapshot.unseal(sealed, chain, REDUCER_VERSION)
    except (CorruptAt, InvalidInput):
        return None


#: One TimeTravel per store, so that what it has learnt of the cache serves the next call.
_OF_STORE: weakref.WeakKeyDictionary[RecoveryStore, TimeTravel] = weakref.WeakKeyDictionary()


def of_store(store: RecoveryStore, blobs: BlobStore, projections: Projections) -> TimeTravel:
    """The reader of records of this store."""
    known = _OF_STORE.get(store)
    if known is None:
        known = _OF_STORE[store] = TimeTravel(store, blobs, projections)
    return known


def record_at(  # noqa: PLR0917 - the three ports, then what is asked of them
    store: RecoveryStore,
    blobs: BlobStore,
    projections: Projections,
    tenant: str,
    trajectory_id: str,
    boundary: int | None = None,
) -> RecordView:
    """`TimeTravel.record_at` of this store."""
    return of_store(store, blobs, projections).record_at(tenant, trajectory_id, boundary)


def difference_between(  # noqa: PLR0917
    store: RecoveryStore,
    blobs: BlobStore,
    projections: Projections,
    tenant: str,
    before: TrajectoryRecord,
    after: TrajectoryRecord,
) -> differ.Difference:
    """`TimeTravel.compare` of this store."""
    return of_store(store, blobs, projections).compare(tenant, before, after)
