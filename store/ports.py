"""The ports of durable storage. Each docstring is the contract its test suite attacks.

Nothing above `store/` knows which database is behind them. Writes return a
`concurrent.futures.Future`, resolved only after the declared barrier (APP-5); it raises the errors
of `core.errors`. Reads are synchronous, safe from any thread, and take the tenant first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import BinaryIO, Literal, Protocol

import msgspec

from core.acts import Act, ActKind, Body
from core.events.envelope import BlobRef, Event, Issuer, Standing
from core.events.prepare import Prepared
from core.instants import Instant

Door = Literal["create", "claim", "append", "import", "install", "verb"]
Domain = Literal["process", "host", "volume"]


class AppendCommand(msgspec.Struct, frozen=True):
    """Append events to one trajectory: all or nothing."""

    tenant: str
    trajectory_id: str
    issuer: Issuer
    door: Door
    request_id: str
    events: tuple[Prepared, ...]
    owner_epoch: int | None = None
    """Fenced doors give the epoch they hold; unfenced ones None (WHO-2)."""
    worker: str | None = None
    expected_head: int | None = None
    source: ImportSource | None = None
    """For imports: what to remember of the source, in the same transaction. Its own trajectory may
    be another: a sub-agent's events lie in the file of the one that asked for it."""
    source_length: int | None = None
    """The `reading_length` of the source that this was decided on, 0 for one not known yet:
    HeadMoved where another import of it has come since. None: not compared."""
    incarnation: str | None = None
    """Fenced doors: the incarnation that granted the epoch (INS-4); None: not compared."""
    creates: Standing | None = None
    """Create the trajectory with this standing where there is none, in the same transaction; for
    imports, so that none is ever left empty."""


class ImportSource(msgspec.Struct, frozen=True):
    """What was imported from one source so far, so that a grown file appends (WHO-3)."""

    source_id: str
    importer: str
    version: int
    trajectory_id: str
    name: str
    reading_digest: str
    """Digest of the whole file at the last reading."""
    reading_length: int
    segments: tuple[SourceSegment, ...]
    state: dict[str, str] = {}
    """Whatever else the importer needs to continue; small."""


class SourceSegment(msgspec.Struct, frozen=True):
    """One kept original: a blob holding the bytes one reading added."""

    blob: str
    length: int
    items: int
    """Native items (messages, lines) of the source that this segment holds."""


class CreateCommand(msgspec.Struct, frozen=True):
    """Create a trajectory with its first event (TaskStarted), by request_id (APP-9)."""

    tenant: str
    trajectory_id: str
    standing: Standing
    issuer: Issuer
    request_id: str
    request_digest: bytes
    first: Prepared | None = None
    """The service's TaskStarted; None for imports, whose source says it in its own events."""


class ClaimCommand(msgspec.Struct, frozen=True):
    """Grant the next owner epoch by compare-and-set, with its OwnershipGranted (OWN-5)."""

    tenant: str
    trajectory_id: str
    worker: str
    cause: Literal["start", "expiry", "hand_off", "operator"]
    request_id: str
    request_digest: bytes
    expected_epoch: int | None = None
    """The newest epoch the caller knows; None: whatever is newest when it commits."""


class InstallCommand(msgspec.Struct, frozen=True):
    """Install events that already carry their store's fields (INS-1); pieces in any order."""

    tenant: str
    trajectory_id: str
    events: tuple[Event, ...]
    blobs: tuple[BlobRef, ...] = ()
    request_id: str = ""


class ActCommand(msgspec.Struct, frozen=True):
    """Record one act of a person (core.acts), by request_id (APP-9)."""

    tenant: str
    kind: ActKind
    body: Body
    actor: str
    request_id: str
    request_digest: bytes
    trajectory_id: str | None = None
    boundary: int | None = None
    reason: str | None = None
    expected_last: int | None = None
    """Number of the newest act about the trajectory that the actor saw (without one: of the newest
    view, or price), 0 for none; HeadMoved if another has come since. None: not compared."""


class Ack(msgspec.Struct, frozen=True):
    """Durable in `failure_domain`, with every blob the events name."""

    trajectory_id: str
    sequence_numbers: tuple[int, ...]
    head: int
    chain: bytes
    failure_domain: Domain
    queue_wait_us: int
    storage_time_us: int
    duplicate: bool = False
    """Every event was already stored."""
    duplicates: tuple[bool, ...] = ()
    owner_epoch: int = 0
    """The epoch the (first) event was accepted under."""
    fenced: bool = False
    """A duplicate, and the caller's epoch is no longer the newest."""


class Grant(msgspec.Struct, frozen=True):
    """An owner epoch, durable with its OwnershipGranted at `sequence_number`."""

    trajectory_id: str
    incarnation: str
    owner_epoch: int
    worker: str
    sequence_number: int
    head: int
    failure_domain: Domain


class Head(msgspec.Struct, frozen=True):
    """What the store knows of one trajectory without folding it."""

    trajectory_id: str
    tenant: str
    standing: Standing
    sequence_number: int
    """Head of the contiguous prefix; 0 when empty."""
    chain: bytes
    recorded_at: Instant
    owner_epoch: int
    worker: str | None
    control_epoch: int
    record_version: int
    created_at: Instant
    staged: int = 0
    """Installed events that lie beyond a gap and wait for it to close (INS-2)."""
    staged_to: int = 0
    """Highest staged sequence number."""
    incidents: int = 0
    """Integrity conflicts recorded against it."""
    step: int = 0
    """Present step of the log, to which an append is held (ORD-4)."""


class LedgerRow(msgspec.Struct, frozen=True):
    """One refused write or incident: kept beside the log (CLM-4).

    Kept are refusals of the fence, of an issuer's right, and of integrity (an incident).
    """

    number: int
    tenant: str
    trajectory_id: str
    recorded_at: Instant
    kind: Literal["refused", "incident"]
    code: str
    issuer: str
    worker: str | None
    offered_epoch: int | None
    held_epoch: int
    request_id: str
    detail: dict[str, object]


class GroupStats(msgspec.Struct, frozen=True):
    """Counters of the writer since start; histograms as (upper bound, count)."""

    groups: int
    members: int
    events: int
    queue_members: int
    queue_bytes: int
    queue_wait_us: tuple[tuple[float, int], ...]
    storage_time_us: tuple[tuple[float, int], ...]
    group_members: tuple[tuple[float, int], ...]
    refused: Mapping[str, int]
    state: Literal["open", "full", "poisoned", "closed"]


class StoreFacts(msgspec.Struct, frozen=True):
    """What was declared and what was verified of the real settings (DOM-1, DOM-2)."""

    declared_domain: Domain
    verified: bool
    checks: tuple[Check, ...]
    incarnation: str
    schema_revision: str
    engine: str
    path: str
    size_bytes: int
    free_bytes: int


class Check(msgspec.Struct, frozen=True):
    """One verified setting."""

    name: str
    expected: str
    found: str
    ok: bool
    warning: bool = False


class Finding(msgspec.Struct, frozen=True):
    """One violation found by audit or verify."""

    invariant: str
    tenant: str
    trajectory_id: str
    sequence_number: int | None
    detail: str


class RecoveryStore(Protocol):
    """The log with its heads, grants, requests and ledger.

    GUARANTEES (each attacked by tests/contract/)
    1. Sequence numbers of a trajectory are contiguous from 1; recorded_at never decreases.
    2. A write under a stale epoch changes nothing but the ledger (APP-1).
    3. Same event id and digest: the existing acknowledgement, looked up before the fence; same id
       and another digest: IntegrityConflict, an incident, nothing overwritten (APP-2).
    4. All or nothing per command; a member is decided on what earlier members of its group left,
       and one member's refusal never disturbs another (APP-4).
    5. A future resolves only after the barrier; a failed barrier gives AckUnknown to every member
       and poisons the writer (APP-6).
    6. Missing blobs and unresolved event references refuse the command (APP-3, APP-4).
    7. A request_id answered once gives the same answer again; another request under it is an
       IntegrityConflict (APP-9).
    8. Every read is limited to its tenant; a foreign id and an unknown id look the same.
    """

    def create(self, command: CreateCommand) -> Future[Ack]: ...
    def claim(self, command: ClaimCommand) -> Future[Grant]: ...
    def append(self, command: AppendCommand) -> Future[Ack]: ...
    def install(self, command: InstallCommand) -> Future[Ack]: ...
    def act(self, command: ActCommand) -> Future[Act]:
        """Record an act; NotFound for a trajectory or boundary that is not there."""
        ...

    def acts(
        self,
        tenant: str,
        *,
        kinds: tuple[ActKind, ...] = (),
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[Act]:
        """Acts numbered above `after`, in order; those of `kinds`, about `trajectory_id` (empty:
        about none, the tenant's desk)."""
        ...

    def last_acts(self, tenant: str) -> dict[str, int]:
        """Trajectory id -> number of the newest act about it; those without acts are left out."""
        ...

    def head(self, tenant: str, trajectory_id: str) -> Head:
        """NotFound if this tenant has no such trajectory."""
        ...

    def heads(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[Head]:
        """Heads by trajectory id, keyset-paged."""
        ...

    def events(
        self,
        tenant: str,
        trajectory_id: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Event]:
        """Events with after < sequence_number <= upto, in order, at most `limit`."""
        ...

    def fold_rows(
        self, tenant: str, trajectory_id: str, *, after: int, upto: int
    ) -> Iterable[Event]:
        """Like `events`, without bound and cheaper: for the fold only.

        Empty: digest, chain, payload_digest, payload_length, refs, record_version and
        reducer_version.
        """
        ...

    def event_by_id(self, tenant: str, trajectory_id: str, event_id: str) -> Event | None: ...
    def operation_events(
        self,
        tenant: str,
        trajectory_id: str,
        operation_id: str,
        *,
        upto: int | None = None,
        limit: int = 200,
    ) -> list[Event]: ...
    def invocation_events(
        self,
        tenant: str,
        trajectory_id: str,
        invocation_id: str,
        *,
        upto: int | None = None,
        limit: int = 200,
    ) -> list[Event]: ...
    def operations_begun(
        self, tenant: str, trajectory_id: str, operation_ids: frozenset[str], *, upto: int
    ) -> frozenset[str]:
        """Those of these operation ids that a ToolIntent with sequence_number <= upto names: what
        only a grant or a reservation has named so far is no operation yet."""
        ...

    def neighbour(
        self,
        tenant: str,
        trajectory_id: str,
        *,
        marks: tuple[int, ...],
        sequence_number: int,
        forward: bool,
    ) -> int | None:
        """Next (or previous) sequence number whose mark is one of `marks`."""
        ...

    def marks(self, tenant: str, trajectory_id: str, *, first: int, last: int) -> bytes:
        """The marks of the events first..last (core.events.marks), one byte each; fewer where the
        log ends before."""
        ...

    def at_time(self, tenant: str, trajectory_id: str, instant: Instant) -> int:
        """Last sequence number with recorded_at <= instant; 0 if none."""
        ...

    def at_step(self, tenant: str, trajectory_id: str, step: int) -> int | None:
        """First sequence number that states this step."""
        ...

    def staged(self, tenant: str, trajectory_id: str) -> list[tuple[int, int]]:
        """Ranges installed beyond the first gap, inclusive."""
        ...

    def ledger(
        self,
        tenant: str,
        *,
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 200,
        newest: bool = False,
    ) -> list[LedgerRow]:
        """Rows numbered above `after`, in order: the first `limit` of them, or the newest."""
        ...

    def import_source(self, tenant: str, source_id: str) -> ImportSource | None: ...
    def import_by_reading(self, tenant: str, importer: str, digest: str) -> ImportSource | None: ...
    def import_by_session(self, tenant: str, importer: str, session: str) -> list[ImportSource]:
        """The sources that state this session (`ImportSource.state["session"]`), by source id."""
        ...

    def sources_of(self, tenant: str, trajectory_id: str) -> list[ImportSource]: ...
    def sources(
        self, tenant: str, *, after: str = "", limit: int = 200
    ) -> list[tuple[ImportSource, Instant]]:
        """Import sources by source id, keyset-paged, each with when it was last read."""
        ...

    def verify(
        self, tenant: str, trajectory_id: str, *, upto: int | None = None
    ) -> Iterator[tuple[int, Finding | None]]:
        """Re-derive digests and chain; yields progress (sequence, None) and findings."""
        ...

    def subscribe(self, *, desk: bool = False) -> Notices:
        """Follow what commits from now on; `desk`: also acts about no trajectory (Notices)."""
        ...

    def facts(self) -> StoreFacts: ...
    def stats(self) -> GroupStats: ...
    def close(self) -> None:
        """Finish what is queued, then stop; idempotent."""
        ...


class Notices(Protocol):
    """After-commit notices (tenant, trajectory_id, head); bounded, newest head per trajectory.

    An act about a trajectory is one too, whose head may not have moved. With `desk`, an empty
    trajectory id and the number of the newest act tell of a view or a price.
    """

    @property
    def moved_at(self) -> float:
        """Monotonic seconds of the newest notice, taken or not; -inf before the first."""
        ...

    def wait(self, timeout_seconds: float) -> list[tuple[str, str, int]]: ...
    def wake(self) -> None:
        """Let whoever waits, now or next, return at once."""
        ...

    def close(self) -> None: ...


class BlobStore(Protocol):
    """Content-addressed bytes (BLB-1, BLB-2).

    1. `put` returns only when bytes, directory entry and the tenant's reference row are durable;
       StoreFull and StoreStopped where they cannot be, TooLarge beyond `limit`.
    2. `read` verifies the digest; CorruptAt if the bytes differ, NotFound if the tenant holds no
       reference (a digest grants nothing), Unavailable-kind NotFound(missing=True) if the row is
       there and the file is not.
    """

    def put(self, tenant: str, data: bytes | BinaryIO, *, limit: int | None = None) -> BlobRef: ...
    def put_many(self, tenant: str, items: Iterable[bytes]) -> list[BlobRef]:
        """Like put, with one directory barrier and one reference transaction for all."""
        ...

    def read(self, tenant: str, digest: str) -> bytes: ...
    def open(self, tenant: str, digest: str) -> BinaryIO:
        """A stream for large blobs; verified before the first byte is given out."""
        ...

    def read_range(self, tenant: str, digest: str, start: int, end: int) -> bytes:
        """Bytes of a part; the whole blob is verified once per process."""
        ...

    def info(self, tenant: str, digest: str) -> BlobRef | None: ...
    def state(self, tenant: str, digest: str) -> Literal["present", "missing", "unknown"]: ...
    def totals(self) -> tuple[int, int]:
        """(count, bytes)."""
        ...


class Hit(msgspec.Struct, frozen=True):
    """One event whose text holds what was looked for."""

    trajectory_id: str
    sequence_number: int
    type: str


class Sought(msgspec.Struct, frozen=True):
    """What a trajectory shall hold: a text in one of its events, or a tool its intents name."""

    kind: Literal["text", "tool"]
    value: str
    begins: bool = False
    """Of a tool: the beginning of its name."""


class TextIndex(Protocol):
    """Full text of events: a cache beside the log that follows it. Dropping it loses nothing.

    A text is words and beginnings of words (`pars*`), which one event must all hold, in any order
    and case; words in double quotes stand side by side. It is never read as an expression.
    Every read raises InvalidInput for a text that holds no word, and SearchTimeout where it took
    longer than SEARCH_SECONDS_MAX.
    """

    def hits(
        self,
        tenant: str,
        text: str,
        *,
        trajectory_id: str | None = None,
        after: int = 0,
        limit: int = 200,
        descending: bool = False,
    ) -> list[Hit]:
        """Within one trajectory: hits by sequence number, those beyond `after` (descending: below
        it; 0: from the end). Without one: at most one hit of each trajectory, its first, of the
        trajectories indexed last first; `after` and `descending` do not apply."""
        ...

    def count(self, tenant: str, text: str, trajectory_id: str) -> int: ...
    def position(self, tenant: str, text: str, trajectory_id: str, sequence_number: int) -> int:
        """How many hits lie at or before a sequence number."""
        ...

    def holding(
        self, tenant: str, sought: Sought, *, among: Sequence[str] | None = None, limit: int
    ) -> list[str]:
        """Ids of at most `limit` trajectories that hold it; of `among` (some hundred), where given,
        all that do."""
        ...

    def tools(self, tenant: str, *, limit: int) -> list[str]:
        """Names of tools that intents name, those of most trajectories first."""
        ...

    def tools_of(self, tenant: str, trajectory_id: str, *, limit: int) -> list[tuple[str, int]]:
        """(tool, how many intents name it) of one trajectory as far as it is indexed, the most
        used first."""
        ...

    def watermark(self, tenant: str, trajectory_id: str) -> int:
        """Events up to this sequence number are indexed; 0: none."""
        ...

    def behind(self, tenant: str) -> tuple[int, int]:
        """(trajectories, events) of the log that are not indexed yet."""
        ...


class Projections(Protocol):
    """A cache beside the log: snapshots, segments, summaries. Dropping it loses nothing."""

    generation: int
    """How often it was made anew, empty, since it was opened."""
    on_anew: Callable[[], None] | None
    """Called each time it was, from any thread; must not wait."""

    def complete(self, generation: int) -> None:
        """Summaries of all of the log are there, unless it was made anew since that generation."""
        ...

    def missing(self, tenant: str) -> tuple[int, int]:
        """(trajectories, events) that lists lack because it was made anew and is not filled again;
        (0, 0) otherwise, be it some moments behind the log."""
        ...

    def nearest(
        self, tenant: str, trajectory_id: str, boundary: int, reducer_version: int
    ) -> tuple[int, bytes, bytes] | None:
        """Newest snapshot at or below `boundary`: (sequence, chain there, record bytes)."""
        ...

    def put_snapshots(
        self,
        tenant: str,
        trajectory_id: str,
        reducer_version: int,
        rows: Iterable[tuple[int, bytes, bytes, bytes]],
    ) -> None:
        """Rows (sequence, chain, record bytes, event counts as JSON)."""
        ...

    def counts(
        self, tenant: str, trajectory_id: str, boundaries: tuple[int, ...], reducer_version: int
    ) -> dict[int, bytes]: ...
    def segment(self, tenant: str, digest: str) -> bytes | None: ...
    def put_segments(self, tenant: str, rows: Iterable[tuple[str, bytes]]) -> None: ...
    def put_summary(
        self, tenant: str, trajectory_id: str, sequence_number: int, summary: Mapping[str, object]
    ) -> None: ...
    def list_summaries(
        self,
        tenant: str,
        *,
        sort: str,
        descending: bool,
        after: tuple[object, str] | None,
        limit: int,
        filters: Mapping[str, object],
    ) -> list[dict[str, object]]:
        """Rows by `sort` (a summary column, or id, updated, started, ended, cost) and then id.

        `after` is the (value, id) of the last row seen; unrecorded values sort below all others.
        Filters: `<column>` (equal; a list: any of; None: never recorded), `<column>__ge`, `__le`,
        `__gt`, `__lt`, `__ne`, `text` (in title or id), `tag` (one, or any of a list), `terms`
        (of core.query, but `text` and `tool`, which are the index's), `ids` and `not_ids` (some
        thousand).
        InvalidInput for another name. Withdrawn and superseded trajectories are left out, unless a
        filter names `hidden`, `withdrawn` or `superseded_by`; `hidden=(0, 1)` lists all.
        """
        ...

    def put_acted(self, tenant: str, trajectory_id: str, acted: Mapping[str, object]) -> None:
        """Set what acts say of a trajectory (tags, notes, withdrawn, superseded_by, hidden,
        as_of_act) in a summary that is there; what is older than it holds changes nothing."""
        ...

    def put_prices(
        self, tenant: str, priced_by: str, rows: Iterable[tuple[str, int | None]]
    ) -> None:
        """Set the derived cost (nano-USD; None: not all tokens have a price) of trajectories, by
        the price table of that digest."""
        ...

    def priced_otherwise(
        self, tenant: str, priced_by: str, *, limit: int
    ) -> list[dict[str, object]]:
        """Up to `limit` summaries whose derived cost is of another table: id, token columns,
        `tokens_by_model` and `started_at`."""
        ...

    def children(
        self, tenant: str, trajectory_ids: Sequence[str], *, limit: int
    ) -> list[dict[str, object]]:
        """Summaries that name one of these (at most some hundred) as parent, by id; hidden too."""
        ...

    def superseded_by(
        self, tenant: str, trajectory_ids: Sequence[str], *, limit: int
    ) -> list[dict[str, object]]:
        """Summaries that one of these stands for, by id."""
        ...

    def distinct(self, tenant: str, column: str, *, limit: int) -> list[str]:
        """The first values of a column of summaries that are listed, in order."""
        ...

    def tags(self, tenant: str, *, limit: int) -> list[tuple[str, int]]:
        """Tags with how many listed trajectories have each, most used first."""
        ...

    def summary(self, tenant: str, trajectory_id: str) -> dict[str, object] | None: ...
    def count_summaries(
        self, tenant: str, filters: Mapping[str, object], *, most: int | None = None
    ) -> int:
        """How many rows the filters let through; counting ends at `most`."""
        ...

    def count_some(
        self, tenant: str, filters: Mapping[str, object], *, most: int, seconds: float
    ) -> tuple[int, bool]:
        """The same, to `most` or for `seconds`, whichever ends first; whether all were counted."""
        ...

    def drop(self) -> None: ...
    def close(self) -> None: ...
