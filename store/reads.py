"""The read half of the recovery store, on lent connections; it works without a writer too."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from core.acts import Act, ActKind
from core.errors import NotFound
from core.events.envelope import Event
from core.events.marks import Mark
from core.instants import Instant
from core.limits import EVENTS_PER_TRAJECTORY_MAX, INTEGER_MAX
from store import acts, blocks, rows, verify
from store.engine import Readers
from store.ports import Finding, Head, ImportSource, LedgerRow, SourceSegment
from store.sqlite_driver import Connection
from store.state import HeadState
from store.transact import HEAD_COLUMNS

_KEYS_CACHED_MAX = 100_000
_PAGE = 1_000
_SOURCE_COLUMNS = (
    "source_id, importer, version, trajectory_id, name, reading_digest, reading_length, segments, "
    "state"
)


class LogReader:
    """The reads of `store.ports.RecoveryStore`; safe from any thread."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._keys: dict[tuple[str, str], int] = {}
        #: Protects `_keys` when it is cleared; entries never change.
        self._lock = threading.Lock()
        self._acts_there = False

    # --- reads: heads ----------------------------------------------------------------------------

    def head(self, tenant: str, trajectory_id: str) -> Head:
        with self._readers.use() as connection:
            row = connection.execute(
                f"SELECT {HEAD_COLUMNS} FROM trajectories WHERE tenant = ? AND trajectory_id = ?",
                (tenant, trajectory_id),
            ).fetchone()
        if row is None:
            raise NotFound(f"there is no trajectory {trajectory_id}")
        return head_from(row)

    def heads(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[Head]:
        with self._readers.use() as connection:
            found = connection.execute(
                f"SELECT {HEAD_COLUMNS} FROM trajectories WHERE tenant = ? AND trajectory_id > ? "
                "ORDER BY trajectory_id LIMIT ?",
                (tenant, after, limit),
            ).fetchall()
        return [head_from(row) for row in found]

    def totals(self, tenant: str) -> tuple[int, int]:
        """(trajectories, events) of a tenant's log; looks at every head."""
        with self._readers.use() as connection:
            row = connection.execute(
                "SELECT count(*), coalesce(sum(sequence_number), 0) FROM trajectories "
                "WHERE tenant = ?",
                (tenant,),
            ).fetchone()
        return int(row[0]), int(row[1])

    def _key(self, connection: Connection, tenant: str, trajectory_id: str) -> int:
        """The internal key; NotFound where this tenant has no such trajectory."""
        name = (tenant, trajectory_id)
        key = self._keys.get(name)
        if key is None:
            row = connection.execute(
                "SELECT trajectory_key FROM trajectories WHERE tenant = ? AND trajectory_id = ?",
                name,
            ).fetchone()
            if row is None:
                raise NotFound(f"there is no trajectory {trajectory_id}")
            key = int(row[0])
            with self._lock:
                if len(self._keys) >= _KEYS_CACHED_MAX:
                    self._keys.clear()
                self._keys[name] = key
        return key

    # --- reads: events ---------------------------------------------------------------------------

    def events(
        self,
        tenant: str,
        trajectory_id: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Event]:
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            found = connection.execute(
                f"{rows.SELECT_EVENT} WHERE trajectory_key = ? AND sequence_number > ? "
                "AND sequence_number <= ? AND tenant = ? ORDER BY sequence_number LIMIT ?",
                (key, _bounded(after), _bounded(upto), tenant, limit),
            ).fetchall()
        return [rows.event(trajectory_id, row) for row in found]

    def fold_rows(
        self, tenant: str, trajectory_id: str, *, after: int, upto: int
    ) -> Iterable[Event]:
        at, end = _bounded(after), _bounded(upto)
        while at < end:
            # Pages, so that no read transaction outlives the consumer's patience.
            with self._readers.use() as connection:
                key = self._key(connection, tenant, trajectory_id)
                found = connection.execute(
                    f"{rows.SELECT_FOLD} WHERE trajectory_key = ? AND sequence_number > ? "
                    "AND sequence_number <= ? AND tenant = ? ORDER BY sequence_number LIMIT ?",
                    (key, at, end, tenant, _PAGE),
                ).fetchall()
            for row in found:
                yield rows.fold_event(trajectory_id, row)
            if len(found) < _PAGE:
                return
            at = found[-1][0]

    def event_by_id(self, tenant: str, trajectory_id: str, event_id: str) -> Event | None:
        found = self._where((tenant, trajectory_id), "event_id", event_id, upto=None, limit=1)
        return found[0] if found else None

    def operation_events(
        self,
        tenant: str,
        trajectory_id: str,
        operation_id: str,
        *,
        upto: int | None = None,
        limit: int = 200,
    ) -> list[Event]:
        name = (tenant, trajectory_id)
        return self._where(name, "operation_id", operation_id, upto=upto, limit=limit)

    def operations_begun(
        self, tenant: str, trajectory_id: str, operation_ids: frozenset[str], *, upto: int
    ) -> frozenset[str]:
        begun: set[str] = set()
        ids = sorted(operation_ids)
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            for start in range(0, len(ids), _PAGE):
                some = ids[start : start + _PAGE]
                found = connection.execute(
                    "SELECT DISTINCT operation_id FROM events WHERE trajectory_key = ? "
                    f"AND operation_id IN ({', '.join('?' * len(some))}) AND tenant = ? "
                    "AND +sequence_number <= ? AND +mark = ?",
                    (key, *some, tenant, _bounded(upto), int(Mark.INTENT)),
                ).fetchall()
                begun.update(row[0] for row in found)
        return frozenset(begun)

    def invocation_events(
        self,
        tenant: str,
        trajectory_id: str,
        invocation_id: str,
        *,
        upto: int | None = None,
        limit: int = 200,
    ) -> list[Event]:
        name = (tenant, trajectory_id)
        return self._where(name, "invocation_id", invocation_id, upto=upto, limit=limit)

    def _where(
        self, name: tuple[str, str], column: str, value: str, *, upto: int | None, limit: int
    ) -> list[Event]:
        tenant, trajectory_id = name
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            # `+` keeps the order from choosing the index: few rows have the value.
            found = connection.execute(
                f"{rows.SELECT_EVENT} WHERE trajectory_key = ? AND {column} = ? AND tenant = ? "
                "AND +sequence_number <= ? ORDER BY +sequence_number LIMIT ?",
                (key, value, tenant, _bounded(upto), limit),
            ).fetchall()
        return [rows.event(trajectory_id, row) for row in found]

    def neighbour(
        self,
        tenant: str,
        trajectory_id: str,
        *,
        marks: tuple[int, ...],
        sequence_number: int,
        forward: bool,
    ) -> int | None:
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            at = _bounded(sequence_number)
            return blocks.neighbour(connection, key, marks, at, forward=forward)

    def marks(self, tenant: str, trajectory_id: str, *, first: int, last: int) -> bytes:
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            return blocks.between(connection, key, max(1, first), _bounded(last))

    def at_time(self, tenant: str, trajectory_id: str, instant: Instant) -> int:
        """By bisection: recorded_at never decreases along a trajectory (LOG-3)."""
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            head = connection.execute(
                "SELECT sequence_number FROM trajectories WHERE tenant = ? AND trajectory_id = ?",
                (tenant, trajectory_id),
            ).fetchone()[0]
            low, high = 0, int(head)
            while low < high:
                middle = (low + high + 1) // 2
                row = connection.execute(
                    "SELECT recorded_at FROM events WHERE trajectory_key = ? "
                    "AND sequence_number = ? AND tenant = ?",
                    (key, middle, tenant),
                ).fetchone()
                if row[0] <= instant:
                    low = middle
                else:
                    high = middle - 1
        return low

    def at_step(self, tenant: str, trajectory_id: str, step: int) -> int | None:
        if not 0 <= step <= INTEGER_MAX:
            return None
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            return blocks.at_step(connection, key, step)

    # --- reads: beside the log -------------------------------------------------------------------

    def staged(self, tenant: str, trajectory_id: str) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        with self._readers.use() as connection:
            key = self._key(connection, tenant, trajectory_id)
            for (number,) in connection.execute(
                "SELECT sequence_number FROM staged WHERE trajectory_key = ? AND tenant = ? "
                "ORDER BY sequence_number",
                (key, tenant),
            ):
                if ranges and ranges[-1][1] == number - 1:
                    ranges[-1] = (ranges[-1][0], number)
                else:
                    ranges.append((number, number))
        return ranges

    def ledger(
        self,
        tenant: str,
        *,
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 200,
        newest: bool = False,
    ) -> list[LedgerRow]:
        one = "" if trajectory_id is None else "AND trajectory_id = ? "
        values = (tenant,) if trajectory_id is None else (tenant, trajectory_id)
        with self._readers.use() as connection:
            found = connection.execute(
                "SELECT number, tenant, trajectory_id, recorded_at, kind, code, issuer, worker, "
                "offered_epoch, held_epoch, request_id, detail FROM ledger "
                f"WHERE tenant = ? {one}AND number > ? "
                f"ORDER BY number {'DESC' if newest else 'ASC'} LIMIT ?",
                (*values, after, limit),
            ).fetchall()
        return [_ledger_row(row) for row in (reversed(found) if newest else found)]

    def acts(
        self,
        tenant: str,
        *,
        kinds: tuple[ActKind, ...] = (),
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[Act]:
        # `+` where nothing else is asked for: then the order of all acts is quicker than an index.
        own = "tenant = ?" if kinds or trajectory_id is not None else "+tenant = ?"
        where, values = [own, "number > ?"], list[object]([tenant, _number(after)])
        if trajectory_id is not None:
            where.append("trajectory_id IS ?")
            values.append(trajectory_id or None)
        if kinds:
            # `+` where the trajectory is named: it has few acts, and a kind may have many.
            column = "kind" if trajectory_id is None else "+kind"
            where.append(f"{column} IN ({', '.join('?' * len(kinds))})")
            values.extend(kinds)
        with self._readers.use() as connection:
            if not self._holds_acts(connection):
                return []
            found = connection.execute(
                f"SELECT {acts.COLUMNS} FROM acts WHERE {' AND '.join(where)} "
                "ORDER BY number LIMIT ?",
                (*values, limit),
            ).fetchall()
        return [acts.from_row(row) for row in found]

    def last_acts(self, tenant: str) -> dict[str, int]:
        with self._readers.use() as connection:
            if not self._holds_acts(connection):
                return {}
            return dict(
                connection.execute(
                    "SELECT trajectory_id, max(number) FROM acts WHERE tenant = ? "
                    "AND trajectory_id IS NOT NULL GROUP BY trajectory_id",
                    (tenant,),
                ).fetchall()
            )

    def _holds_acts(self, connection: Connection) -> bool:
        """False in a store that this program has only read: it was made before there were acts."""
        self._acts_there = self._acts_there or acts.is_there(connection)
        return self._acts_there

    def import_source(self, tenant: str, source_id: str) -> ImportSource | None:
        found = self._sources("source_id = ?", (tenant, source_id))
        return found[0] if found else None

    def import_by_reading(self, tenant: str, importer: str, digest: str) -> ImportSource | None:
        found = self._sources("importer = ? AND reading_digest = ?", (tenant, importer, digest))
        return found[0] if found else None

    def import_by_session(self, tenant: str, importer: str, session: str) -> list[ImportSource]:
        return self._sources("importer = ? AND session = ?", (tenant, importer, session))

    def sources(
        self, tenant: str, *, after: str = "", limit: int = 200
    ) -> list[tuple[ImportSource, Instant]]:
        with self._readers.use() as connection:
            found = connection.execute(
                f"SELECT {_SOURCE_COLUMNS}, updated_at FROM import_sources "
                "WHERE tenant = ? AND source_id > ? ORDER BY source_id LIMIT ?",
                (tenant, after, limit),
            ).fetchall()
        return [(_source(row[:-1]), int(row[-1])) for row in found]

    def sources_of(self, tenant: str, trajectory_id: str) -> list[ImportSource]:
        return self._sources("trajectory_id = ?", (tenant, trajectory_id))

    def _sources(self, condition: str, values: tuple[str, ...]) -> list[ImportSource]:
        with self._readers.use() as connection:
            found = connection.execute(
                f"SELECT {_SOURCE_COLUMNS} FROM import_sources "
                f"WHERE tenant = ? AND {condition} ORDER BY source_id",
                values,
            ).fetchall()
        return [_source(row) for row in found]

    def verify(
        self, tenant: str, trajectory_id: str, *, upto: int | None = None
    ) -> Iterator[tuple[int, Finding | None]]:
        head = self.head(tenant, trajectory_id)
        return verify.walk(self, head, upto)


def _bounded(sequence_number: int | None) -> int:
    """A sequence number within what the database can compare."""
    if sequence_number is None:
        return EVENTS_PER_TRAJECTORY_MAX
    return min(max(sequence_number, 0), EVENTS_PER_TRAJECTORY_MAX)


def _number(number: int) -> int:
    """A row number within what the database can compare."""
    return min(max(number, 0), INTEGER_MAX)


def head_from(row: Any) -> Head:
    """A row of HEAD_COLUMNS as a head."""
    state = HeadState(*row)
    return Head(
        trajectory_id=state.trajectory_id,
        tenant=state.tenant,
        standing=state.standing,
        sequence_number=state.sequence_number,
        chain=state.chain,
        recorded_at=state.recorded_at,
        owner_epoch=state.owner_epoch,
        worker=state.worker,
        control_epoch=state.control_epoch,
        record_version=state.record_version,
        created_at=state.created_at,
        staged=state.staged,
        staged_to=state.staged_to,
        incidents=state.incidents,
        step=state.step,
    )


def _ledger_row(row: Any) -> LedgerRow:
    return LedgerRow(*[*row[:-1], msgspec.json.decode(row[-1])])


def _source(row: Any) -> ImportSource:
    segments = msgspec.json.decode(row[-2], type=tuple[SourceSegment, ...])
    state = msgspec.json.decode(row[-1], type=dict[str, str])
    return ImportSource(*[*row[:-2], segments, state])
