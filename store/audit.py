"""Check every stored invariant of a store, offline or beside its server; findings name the rule.

What is checked, by label of the contract:

    SQLITE   the database file by its own integrity check
    LOG-1    numbers contiguous from 1 to the head; head row, blocks and log agree
    LOG-2    acts are numbered without a gap, readable, and about what is there
    LOG-3    recorded_at never decreases
    LOG-6    a type this program does not know came by install only
    ENV-1/2  digests and chain
    WHO-1    some door of the trajectory's standing lets this issuer assert this type
    APP-1    each event is stamped with the newest grant before it, or with none where it may be
    APP-3    every named blob is referred to by the tenant, there, and has its digest
    APP-4    events that an intent names are earlier in the log
    APP-9    a stored answer is readable and its event is the one it speaks of
    EFF-6    one binding for each operation id, and the one its intent states
    ORD-3    control_epoch and record_version are those of the fold at the boundary before
    ORD-4    the step that appends are held to is that of the fold
    OWN-5    owner epochs rise by one, each with its OwnershipGranted
    INS-2    staged events lie beyond the head and hold by themselves
    CLM-4    ledger rows are readable, and incidents are counted on their trajectory
    WHO-3    an import source names a trajectory that is there and blobs that are there
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, get_args

import msgspec

from core.errors import NotFound, StoreStopped, StrandlineError
from core.events import registry
from core.events.envelope import BlobRef, Event, Standing
from core.events.fields import Payload
from core.events.ownership import OwnershipGranted
from core.events.prepare import classify, prepare, turn_of
from core.record.archive import Segments
from core.record.reduce import Fold, empty
from core.rules.authority import refuse
from store import acts, blocks, verify
from store.open import Opened
from store.ports import Ack, Door, Finding, Grant, Head, SourceSegment
from store.reads import head_from
from store.sqlite_driver import Connection, DatabaseError, is_damage
from store.state import Piece
from store.transact import HEAD_COLUMNS

_PAGE = 500
_FINDINGS_PER_TRAJECTORY_MAX = 100
_DOORS: tuple[Door, ...] = get_args(Door)
Found = TypeVar("Found")


def audit(opened: Opened, tenant: str | None = None) -> Iterator[Finding | str]:
    """Findings, and lines of progress between them.

    With a tenant: of its trajectories and of the database file, and nothing that names another's.
    """
    for step in _audit(opened, tenant):
        if tenant is None or isinstance(step, str) or step.tenant in ("", tenant):
            yield step


def _audit(opened: Opened, tenant: str | None) -> Iterator[Finding | str]:
    with opened.connection() as connection:
        yield "checking the database file"
        yield from _database(connection)
        yield from _readable(_logs(opened, connection, tenant))
        yield "checking requests, ledger, sources and blobs"
        yield from _readable(_tables(opened, connection))


def _tables(opened: Opened, connection: Connection) -> Iterator[Finding]:
    with _snapshot(connection):
        yield from _readable(_orphans(connection))
        yield from _readable(_requests(connection))
        yield from _readable(_ledger(connection))
        yield from _readable(_sources(opened, connection))
        yield from _readable(_acts(connection))
        yield from _readable(_blobs(opened, connection))


def _logs(opened: Opened, connection: Connection, tenant: str | None) -> Iterator[Finding | str]:
    names = connection.execute(
        "SELECT tenant, trajectory_id, trajectory_key FROM trajectories "
        "ORDER BY tenant, trajectory_id"
    ).fetchall()
    for owner, trajectory_id, key in names:
        if tenant is not None and owner != tenant:
            continue
        yield f"checking {trajectory_id}"
        with _snapshot(connection):
            found = _readable(_log(opened, connection, key), owner, trajectory_id)
            for number, finding in enumerate(found):
                yield finding
                if number + 1 >= _FINDINGS_PER_TRAJECTORY_MAX:
                    yield f"{trajectory_id}: more findings are not listed"
                    break


def _log(opened: Opened, connection: Connection, key: int) -> Iterator[Finding]:
    yield from _Trajectory(opened, connection, _head_of(connection, key), key).findings()


def _readable(
    parts: Iterator[Found], tenant: str = "", trajectory_id: str = ""
) -> Iterator[Found | Finding]:
    """What a check finds, and a finding where damage ends it; the other checks go on."""
    try:
        yield from parts
    except StoreStopped:
        raise
    except Exception as error:
        if isinstance(error, DatabaseError) and not is_damage(error):
            raise
        detail = f"what is stored cannot be read: {error or type(error).__name__}"
        yield Finding("SQLITE", tenant, trajectory_id, None, detail)


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    """One state of the database, whatever a server beside this appends meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _head_of(connection: Connection, key: int) -> Head:
    row = connection.execute(
        f"SELECT {HEAD_COLUMNS} FROM trajectories WHERE trajectory_key = ?", (key,)
    ).fetchone()
    return head_from(row)


def _database(connection: Connection) -> Iterator[Finding]:
    try:
        for (line,) in connection.execute("PRAGMA integrity_check").fetchall():
            if line != "ok":
                yield Finding("SQLITE", "", "", None, str(line))
    except DatabaseError as error:
        yield Finding("SQLITE", "", "", None, str(error))


class _Trajectory:
    """One log, walked once from its first event."""

    def __init__(self, opened: Opened, connection: Connection, head: Head, key: int) -> None:
        self._opened = opened
        self._connection = connection
        self._head = head
        self._key = key
        self._types: dict[str, str] = {}
        self._bindings: dict[str, bytes] = {}
        self._epoch = 0
        self._worker: str | None = None
        self._control_epoch = 0
        self._record_version = 0
        self._step = 0
        self._blocked = False
        self._fold = Fold(empty(head.trajectory_id), Segments(_no_segment))
        self._marks: list[tuple[int, int | None]] = []

    def _finding(self, invariant: str, at: int | None, detail: str) -> Finding:
        return Finding(invariant, self._head.tenant, self._head.trajectory_id, at, detail)

    def findings(self) -> Iterator[Finding]:
        """All of them, in order of the log."""
        head = self._head
        broken = False
        for _, finding in self._opened.store.verify(head.tenant, head.trajectory_id):
            if finding is not None:
                broken = True
                yield finding
        if not broken:
            yield from self._walk()
        yield from self._beyond()

    def _walk(self) -> Iterator[Finding]:
        head, at = self._head, 0
        while at < head.sequence_number:
            page = self._opened.store.events(
                head.tenant, head.trajectory_id, after=at, upto=head.sequence_number, limit=_PAGE
            )
            for event in page:
                yield from self._event(event)
            at = page[-1].sequence_number
            yield from self._compare_fold(at)
            yield from self._blocks(at)
        stamps = (head.owner_epoch, head.control_epoch, head.record_version)
        found = (self._epoch, self._control_epoch, self._record_version)
        if stamps != found and not self._blocked:
            yield self._finding(
                "ORD-3",
                at,
                f"the head says (owner, control, record) {stamps}, the log gives {found}",
            )

        if head.step != self._step and not self._blocked:
            yield self._finding(
                "ORD-4", at, f"the head says step {head.step}, the log gives {self._step}"
            )

    def _event(self, event: Event) -> Iterator[Finding]:
        at = event.sequence_number
        payload, problem = self._payload(event)
        if problem is not None:
            yield self._finding("APP-3", at, problem)
        mark, guarded, controls = classify(event, payload if payload is not None else None)
        if isinstance(payload, OwnershipGranted):
            yield from self._grant(event, payload)
        yield from self._stamps(event)
        yield from self._right(event, known=problem is not None or payload is not None)
        for ref in _refs(event):
            reason = self._blob(ref)
            if reason is not None:
                yield self._finding("APP-3", at, f"blob {ref.digest}: {reason}")
        yield from self._references(event, payload)
        if payload is None:
            self._blocked = True
        self._control_epoch += controls
        self._record_version += guarded
        self._step = turn_of(payload).after(self._step, event.step)
        self._types[event.event_id] = event.type
        self._marks.append((mark, event.step))
        self._fold.add(event, payload)

    def _payload(self, event: Event) -> tuple[Payload | dict[str, Any] | None, str | None]:
        """(typed payload or None where unknown, what keeps it from being read)."""
        if not registry.is_known(event.type, event.schema_version):
            return None, None
        data = event.payload
        if data is None:
            assert event.payload_ref is not None, "verified before"
            try:
                data = self._opened.blobs.read(self._head.tenant, event.payload_ref.digest)
            except StrandlineError as error:
                return None, str(error)
        try:
            return registry.decode(event.type, event.schema_version, data), None
        except StrandlineError as error:
            return None, str(error)

    def _grant(self, event: Event, payload: OwnershipGranted) -> Iterator[Finding]:
        if self._head.standing != "replica" and payload.owner_epoch != self._epoch + 1:
            yield self._finding(
                "OWN-5",
                event.sequence_number,
                f"owner epoch {payload.owner_epoch} follows {self._epoch}",
            )
        self._epoch, self._worker = payload.owner_epoch, payload.worker

    def _stamps(self, event: Event) -> Iterator[Finding]:
        at = event.sequence_number
        imported = event.issuer == "importer"
        epoch = 0 if imported else self._epoch
        if self._head.standing == "replica":
            # An origin's own rules stamped these; the epoch is all that can be compared.
            self._epoch, self._worker = event.owner_epoch, event.worker
            epoch = event.owner_epoch
        if event.owner_epoch != epoch:
            yield self._finding(
                "APP-1", at, f"stamped with owner epoch {event.owner_epoch}, the grant is {epoch}"
            )
        if event.worker is not None and event.worker != self._worker:
            yield self._finding(
                "APP-1", at, f"stamped with worker {event.worker}, who has no grant"
            )
        if event.issuer == "worker" and event.worker is None:
            yield self._finding("APP-1", at, "asserted by a worker and stamped with none")
        stamped = (event.control_epoch, event.record_version)
        if stamped != (self._control_epoch, self._record_version):
            if not self._blocked:
                yield self._finding(
                    "ORD-3",
                    at,
                    f"stamped with (control_epoch, record_version) {stamped}, the record before it "
                    f"has {(self._control_epoch, self._record_version)}",
                )
            self._control_epoch, self._record_version = stamped

    def _right(self, event: Event, *, known: bool) -> Iterator[Finding]:
        standing: Standing = self._head.standing
        if not known and standing != "replica":
            yield self._finding(
                "LOG-6", event.sequence_number, f"{event.type} is unknown and was appended"
            )
        elif all(refuse(standing, event.issuer, door, event.type) for door in _DOORS):
            yield self._finding(
                "WHO-1",
                event.sequence_number,
                f"{event.issuer} may not assert {event.type} on a {standing} trajectory",
            )

    def _references(self, event: Event, payload: object) -> Iterator[Finding]:
        if event.type != "ToolIntent" or not isinstance(payload, Payload):
            return
        prepared = prepare(event.trajectory_id, event.stated(), payload)
        for named in prepared.names_events:
            if named not in self._types:
                yield self._finding(
                    "APP-4", event.sequence_number, f"names {named}, which is not before it"
                )
        if prepared.binding is None or event.operation_id is None:
            return
        row = self._connection.execute(
            "SELECT binding FROM events WHERE trajectory_key = ? AND sequence_number = ?",
            (self._key, event.sequence_number),
        ).fetchone()
        held = self._bindings.setdefault(event.operation_id, prepared.binding)
        if row[0] != prepared.binding or held != prepared.binding:
            yield self._finding(
                "EFF-6",
                event.sequence_number,
                f"operation {event.operation_id} has another binding",
            )

    def _compare_fold(self, at: int) -> Iterator[Finding]:
        record = self._fold.record()
        if record.blocked is not None or self._blocked:
            return
        if record.progress.step != self._step:
            yield self._finding(
                "ORD-4", at, f"the fold gives step {record.progress.step}, the log {self._step}"
            )
        folded = (record.control.control_epoch, record.control.record_version)
        if folded != (self._control_epoch, self._record_version):
            yield self._finding(
                "ORD-3",
                at,
                f"the fold gives (control_epoch, record_version) {folded}, the stamps lead to "
                f"{(self._control_epoch, self._record_version)}",
            )

    def _blocks(self, at: int) -> Iterator[Finding]:
        """Full blocks say what their events say."""
        while len(self._marks) >= blocks.BLOCK_EVENTS:
            some, self._marks = (
                self._marks[: blocks.BLOCK_EVENTS],
                self._marks[blocks.BLOCK_EVENTS :],
            )
            block = blocks.of(at - len(self._marks))
            wanted = blocks.Content(bytes([mark for mark, _ in some]), [step for _, step in some])
            row = self._connection.execute(
                "SELECT mark_set, step_min, step_max, marks, steps FROM blocks "
                "WHERE trajectory_key = ? AND block = ?",
                (self._key, block),
            ).fetchone()
            if row is None or tuple(row) != wanted.row():
                yield self._finding(
                    "LOG-1", blocks.first_of(block), f"block {block} does not say what is in it"
                )

    def _blob(self, ref: BlobRef) -> str | None:
        held = self._opened.blobs.info(self._head.tenant, ref.digest)
        if held is None:
            return "the tenant holds no reference to it"
        if held.length != ref.length:
            return f"the event says {ref.length} bytes, the reference {held.length}"
        return None

    def _beyond(self) -> Iterator[Finding]:
        """Nothing after the head; what is staged lies beyond a gap and holds by itself."""
        head = self._head
        row = self._connection.execute(
            "SELECT count(*) FROM events WHERE trajectory_key = ? AND "
            "(sequence_number > ? OR tenant != ?)",
            (self._key, head.sequence_number, head.tenant),
        ).fetchone()
        if row[0]:
            yield self._finding("LOG-1", None, f"{row[0]} events lie beyond the head or a tenant")
        staged = self._connection.execute(
            "SELECT sequence_number, digest, chain, body FROM staged WHERE trajectory_key = ? "
            "ORDER BY sequence_number",
            (self._key,),
        ).fetchall()
        if len(staged) != head.staged or max([0, *(r[0] for r in staged)]) != head.staged_to:
            yield self._finding("INS-2", None, "the head does not count what is staged")
        for number, digest, chain, body in staged:
            event = msgspec.msgpack.decode(body, type=Piece).event
            problem = verify.event_problem(event)
            if number <= head.sequence_number + 1:
                problem = "staged, though it does not lie beyond a gap"
            elif (event.sequence_number, event.digest, event.chain) != (number, digest, chain):
                problem = "the staged row and its event differ"
            if problem is not None:
                yield self._finding("INS-2", number, problem)


def _no_segment(digest: str) -> bytes:
    raise NotFound(f"a fold from the start asked for segment {digest}")


def _refs(event: Event) -> Iterator[BlobRef]:
    if event.payload_ref is not None:
        yield event.payload_ref
    yield from event.refs


def _orphans(connection: Connection) -> Iterator[Finding]:
    for table in ("events", "blocks", "staged"):
        (count,) = connection.execute(
            f"SELECT count(*) FROM {table} WHERE trajectory_key NOT IN "
            "(SELECT trajectory_key FROM trajectories)"
        ).fetchone()
        if count:
            yield Finding("LOG-1", "", "", None, f"{count} rows of {table} belong to no trajectory")


def _requests(connection: Connection) -> Iterator[Finding]:
    for tenant, request_id, kind, trajectory_id, answer, key in connection.execute(
        "SELECT r.tenant, r.request_id, r.kind, r.trajectory_id, r.answer, t.trajectory_key "
        "FROM requests r LEFT JOIN trajectories t "
        "ON t.tenant = r.tenant AND t.trajectory_id = r.trajectory_id"
    ).fetchall():
        problem = _request_problem(connection, kind, answer, key)
        if problem is not None:
            yield Finding("APP-9", tenant, trajectory_id, None, f"request {request_id}: {problem}")


def _request_problem(
    connection: Connection, kind: str, answer: bytes, key: int | None
) -> str | None:
    if kind == "act":
        return _act_answer_problem(connection, answer)
    if key is None:
        return "its trajectory is not there"
    try:
        if kind == "claim":
            grant = msgspec.json.decode(answer, type=Grant)
            number, chain = grant.sequence_number, None
        else:
            ack = msgspec.json.decode(answer, type=Ack)
            number, chain = ack.head, ack.chain
    except msgspec.DecodeError as error:
        return f"its answer cannot be read: {error}"
    if number == 0:
        return None
    row = connection.execute(
        "SELECT type, chain FROM events WHERE trajectory_key = ? AND sequence_number = ?",
        (key, number),
    ).fetchone()
    if row is None:
        return f"event {number} of its answer is not there"
    if kind == "claim" and row[0] != "OwnershipGranted":
        return f"event {number} of its answer is a {row[0]}"
    if chain is not None and row[1] != chain:
        return "its answer's chain value is not the log's"
    return None


def _act_answer_problem(connection: Connection, answer: bytes) -> str | None:
    try:
        answered = acts.from_answer(answer)
    except StrandlineError as error:
        return str(error)
    row = connection.execute(
        f"SELECT {acts.COLUMNS} FROM acts WHERE number = ?", (answered.number,)
    ).fetchone()
    if row is None:
        return f"act {answered.number} of its answer is not there"
    if tuple(row) != acts.row(answered):
        return f"act {answered.number} is not the one it was answered with"
    return None


def _acts(connection: Connection) -> Iterator[Finding]:
    if not acts.is_there(connection):
        return
    wanted, recorded_at = 1, 0
    for *row, head, request in connection.execute(
        f"SELECT {', '.join(f'a.{name}' for name in acts.COLUMNS.split(', '))}, "
        "t.sequence_number, r.kind FROM acts a "
        "LEFT JOIN trajectories t ON t.tenant = a.tenant AND t.trajectory_id = a.trajectory_id "
        "LEFT JOIN requests r ON r.tenant = a.tenant AND r.request_id = a.request_id "
        "ORDER BY a.number"
    ):
        number, tenant, trajectory_id = row[0], row[1], row[3] or ""
        problems = []
        if number != wanted:
            problems.append(f"act {wanted} is not there")
        wanted = number + 1
        try:
            act = acts.from_row(row)
        except StrandlineError as error:
            problems.append(str(error))
        else:
            if act.trajectory_id is not None and head is None:
                problems.append(f"act {number} is about a trajectory that is not there")
            elif act.boundary is not None and act.boundary > (head or 0):
                problems.append(f"act {number} is about boundary {act.boundary}, beyond the head")
            if act.recorded_at < recorded_at:
                problems.append(f"act {number}: recorded_at decreases")
            recorded_at = act.recorded_at
        if request != "act":
            problems.append(f"act {number} is the answer of no request")
        for problem in problems:
            yield Finding("LOG-2", tenant, trajectory_id, None, problem)


def _ledger(connection: Connection) -> Iterator[Finding]:
    counted: dict[tuple[str, str], int] = {}
    for number, tenant, trajectory_id, kind, detail in connection.execute(
        "SELECT number, tenant, trajectory_id, kind, detail FROM ledger ORDER BY number"
    ):
        if kind not in ("refused", "incident"):
            yield Finding("CLM-4", tenant, trajectory_id, None, f"ledger row {number} is {kind!r}")
        if kind == "incident":
            name = (tenant, trajectory_id)
            counted[name] = counted.get(name, 0) + 1
        try:
            msgspec.json.decode(detail, type=dict[str, Any])
        except msgspec.DecodeError as error:
            yield Finding("CLM-4", tenant, trajectory_id, None, f"ledger row {number}: {error}")
    for tenant, trajectory_id, incidents in connection.execute(
        "SELECT tenant, trajectory_id, incidents FROM trajectories"
    ):
        # A trajectory that was created after an incident of its id counts from its own start.
        if incidents > counted.get((tenant, trajectory_id), 0):
            yield Finding(
                "CLM-4", tenant, trajectory_id, None, f"{incidents} incidents, fewer in the ledger"
            )


def _sources(opened: Opened, connection: Connection) -> Iterator[Finding]:
    for tenant, source_id, trajectory_id, segments, key in connection.execute(
        "SELECT s.tenant, s.source_id, s.trajectory_id, s.segments, t.trajectory_key "
        "FROM import_sources s LEFT JOIN trajectories t "
        "ON t.tenant = s.tenant AND t.trajectory_id = s.trajectory_id"
    ).fetchall():
        if key is None:
            yield Finding(
                "WHO-3", tenant, trajectory_id, None, f"source {source_id} has no trajectory"
            )
        for segment in msgspec.json.decode(segments, type=tuple[SourceSegment, ...]):
            if opened.blobs.info(tenant, segment.blob) is None:
                yield Finding(
                    "WHO-3",
                    tenant,
                    trajectory_id,
                    None,
                    f"source {source_id}: its original {segment.blob} is not stored",
                )


def _blobs(opened: Opened, connection: Connection) -> Iterator[Finding]:
    checked: dict[str, str | None] = {}
    for tenant, digest in connection.execute("SELECT tenant, digest FROM blobs").fetchall():
        if digest not in checked:
            checked[digest] = opened.blobs.check(digest)
        problem = checked[digest]
        if problem is not None:
            yield Finding("BLB-1", tenant, "", None, f"blob {digest}: {problem}")
