"""Keeps summaries and snapshots up to date behind the log: a follower, never in its way.

INVARIANTS
1. A summary names the boundary it was made at (`as_of_sequence`) and the newest act about its
   trajectory (`as_of_act`), and holds nothing that the record at that boundary and the acts up
   to that one do not say. Only its derived cost comes from elsewhere: a table it names
   (`priced_by`).
2. Stopping it anywhere loses nothing: it goes on from the nearest snapshot, and the log is the
   only thing it needs.
3. It holds the interpreter for at most some hundred microseconds while appends are coming: it
   folds SLICE_EVENTS at a time and rests for as long as makes that SHARE of one core
   (runtime.pace).
4. A summary is made again when an act about its trajectory is newer, and priced again, without a
   fold, when the price table is another.
5. A trajectory it cannot project (a missing payload, damage) is remembered as failed at that head
   and left alone until its log grows, but for what acts say of it; it never stops the others.
6. A cache that was made anew (its file was damaged or removed) is filled again at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core import acts
from core.acts import Act
from core.errors import NotFound, StoreStopped, StrandlineError
from core.events.control import TERMINAL
from core.events.envelope import Standing
from core.limits import ACTS_PER_TRAJECTORY_MAX, SNAPSHOT_EVENTS
from core.record.archive import CorruptSegment, Segments
from core.record.record import TrajectoryRecord
from core.record.reduce import REDUCER_VERSION, Fold
from core.rules.grades import grade
from core.rules.prices import Table
from runtime.pace import Pace
from runtime.pricing import derived, packed, table_at
from runtime.time_travel import SegmentLost, TimeTravel, of_store
from store.ports import BlobStore, Head, Notices, Projections, RecoveryStore

#: Notices are gathered this long before their trajectories are projected.
GATHER_SECONDS = 0.25
#: Of one core, while appends are coming.
SHARE = 0.12
#: Folded between two pauses: some 500 microseconds.
SLICE_EVENTS = 32
#: Folds kept for the next notice of their trajectory; each holds one bounded record.
FOLDS_KEPT_MAX = 64
#: Between two looks for a snapshot that a reader made meanwhile.
_LOOK_EVENTS = SNAPSHOT_EVENTS * 8
_HEADS_PAGE = 500
_PRICED_PAGE = 500

Summary = dict[str, object]
Progress = Callable[[str, int], None]


@dataclass(slots=True)
class _Live:
    """A fold that follows one trajectory."""

    base: TrajectoryRecord
    """Where the fold began."""
    fold: Fold
    segments: Segments


class Projector:
    """Follows one store. `start` runs it in a thread; `catch_up` runs it here."""

    def __init__(
        self,
        store: RecoveryStore,
        blobs: BlobStore,
        projections: Projections,
        *,
        tenants: Iterable[str] = ("local",),
    ) -> None:
        self._store = store
        self._projections = projections
        self._travel: TimeTravel = of_store(store, blobs, projections)
        self._tenants = tuple(tenants)
        self._tables: dict[str, Table] = {}
        """Price table of each tenant."""
        self._live: OrderedDict[tuple[str, str], _Live] = OrderedDict()
        #: Held while a trajectory is projected: one fold of it at a time.
        self._work = threading.Lock()
        self._urgent = 0
        """Callers that wait for one trajectory: no rest while it holds them up."""
        self._stop = threading.Event()
        self._pace = Pace(SHARE, self._stop)
        self._notices: Notices | None = None
        self._thread: threading.Thread | None = None
        self.failed: dict[tuple[str, str], tuple[int, str]] = {}
        """(tenant, trajectory) -> head and reason, where projecting failed."""

    def start(self) -> None:
        """Follow the store in a thread of its own, until `close`."""
        self._notices = self._store.subscribe(desk=True)
        self._projections.on_anew = self._notices.wake
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following; idempotent, and returns once the thread has ended."""
        self._stop.set()
        if self._notices is not None:
            self._notices.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def catch_up(
        self,
        tenant: str | None = None,
        trajectory_id: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> int:
        """Project one trajectory, or all of one tenant or of every one, up to its head; how many
        had to be. Errors of a single named trajectory are raised, others are kept in `failed`."""
        if trajectory_id is not None:
            assert tenant is not None, "a trajectory belongs to a tenant"
            self._urgent += 1
            try:
                return int(self._project(tenant, trajectory_id, gently=False))
            finally:
                self._urgent -= 1
        generation = self._projections.generation
        tenants = self._tenants if tenant is None else (tenant,)
        for one in tenants:
            self._price_again(one)
        done = sum(self._catch_up_all(one, gently=False, progress=progress) for one in tenants)
        if set(tenants) >= set(self._tenants) and not self._stop.is_set():
            self._projections.complete(generation)
        return done

    # --- following -------------------------------------------------------------------------------

    def _run(self) -> None:
        self._pace.begin()
        try:
            while not self._stop.is_set():
                self._follow_all(self._projections.generation)
        except StoreStopped:
            return

    def _follow_all(self, generation: int) -> None:
        """Everything that is behind, then whatever moves, until the cache is made anew."""
        assert self._notices is not None
        for tenant in self._tenants:
            self._price_again(tenant)
            self._catch_up_all(tenant, gently=True)
        if not self._stop.is_set():
            self._projections.complete(generation)
        while not self._stop.is_set() and self._projections.generation == generation:
            moved = self._notices.wait(60.0)
            if moved and not self._stop.wait(GATHER_SECONDS):
                moved += self._notices.wait(0.0)
            for tenant, trajectory_id in dict.fromkeys(name[:2] for name in moved):
                if self._stop.is_set():
                    return
                if trajectory_id == "":
                    self._price_again(tenant)
                else:
                    self._attempt(tenant, trajectory_id, gently=True)
                    self._rest()

    def _catch_up_all(self, tenant: str, *, gently: bool, progress: Progress | None = None) -> int:
        done, after = 0, ""
        acted = self._store.last_acts(tenant)
        while not self._stop.is_set():
            heads = self._store.heads(tenant, after=after, limit=_HEADS_PAGE)
            if not heads:
                break
            for head in heads:
                if self._stop.is_set():
                    break
                if self._behind(head, acted.get(head.trajectory_id, 0)):
                    done += self._attempt(tenant, head.trajectory_id, gently=gently)
                    if gently:
                        self._rest()
                    if progress is not None:
                        progress(head.trajectory_id, head.sequence_number)
            after = heads[-1].trajectory_id
        return done

    def _behind(self, head: Head, last_act: int) -> bool:
        summary = self._projections.summary(head.tenant, head.trajectory_id)
        return (
            summary is None
            or summary["as_of_sequence"] != head.sequence_number
            or summary["as_of_act"] != last_act
        )

    # --- prices ----------------------------------------------------------------------------------

    def _table(self, tenant: str) -> Table:
        table = self._tables.get(tenant)
        if table is None:
            table = self._tables[tenant] = table_at(self._store, tenant)
        return table

    def _price_again(self, tenant: str) -> None:
        """Derived costs by the table as it stands now, of every summary that is of another."""
        with self._work:
            table = self._tables[tenant] = table_at(self._store, tenant)
        while not self._stop.is_set():
            rows = self._projections.priced_otherwise(tenant, table.digest, limit=_PRICED_PAGE)
            if not rows:
                return
            priced = [(str(row["trajectory_id"]), derived(row, table).nano_usd) for row in rows]
            self._projections.put_prices(tenant, table.digest, priced)
            again = self._projections.priced_otherwise(tenant, table.digest, limit=1)
            if again and again[0]["trajectory_id"] == rows[0]["trajectory_id"]:
                return  # The cache takes no writes now; the next start finds these again.
            self._stop.wait(0.001)

    def _attempt(self, tenant: str, trajectory_id: str, *, gently: bool) -> bool:
        try:
            return self._project(tenant, trajectory_id, gently=gently)
        except StoreStopped:
            raise
        except NotFound:
            return False
        except StrandlineError as error:
            head = self._store.head(tenant, trajectory_id).sequence_number
            self.failed[tenant, trajectory_id] = (head, str(error))
            self._put_acted(tenant, trajectory_id)
            return False
        except Exception as error:  # a defect that one log meets must not stop the others
            head = self._store.head(tenant, trajectory_id).sequence_number
            self.failed[tenant, trajectory_id] = (head, f"{type(error).__name__}: {error}")
            self._put_acted(tenant, trajectory_id)
            return False

    # --- one trajectory --------------------------------------------------------------------------

    def _project(self, tenant: str, trajectory_id: str, *, gently: bool) -> bool:
        """Fold to the head and store the summary; False if it was there already or has failed."""
        with self._work:
            head = self._store.head(tenant, trajectory_id)
            if gently and self.failed.get((tenant, trajectory_id), (0, ""))[0] == (
                head.sequence_number or -1
            ):
                self._put_acted(tenant, trajectory_id)
                return False
            live = self._live.pop((tenant, trajectory_id), None)
            if live is None or live.fold.boundary > head.sequence_number:
                live = self._begin(tenant, trajectory_id, head.sequence_number)
            while True:
                try:
                    live = self._advance(live, tenant, trajectory_id, head, gently=gently)
                    break
                except (SegmentLost, CorruptSegment) as lost:
                    base, segments = self._travel.before_loss(tenant, live.base, lost)
                    live = _Live(base, Fold(base, segments), segments)
            self._live[tenant, trajectory_id] = live
            while len(self._live) > FOLDS_KEPT_MAX:
                self._live.popitem(last=False)
            reached = live.fold.boundary
            if reached == head.sequence_number:
                about = acts.about(self._acts_about(tenant, trajectory_id))
                summary = summary_of(live.fold.record(), head, about, self._table(tenant))
                self._projections.put_summary(tenant, trajectory_id, reached, summary)
                self.failed.pop((tenant, trajectory_id), None)
            return True

    def _put_acted(self, tenant: str, trajectory_id: str) -> None:
        """What people did about a trajectory whose log cannot be projected: its earlier summary,
        if it has one, leaves the lists all the same."""
        about = acts.about(self._acts_about(tenant, trajectory_id))
        self._projections.put_acted(tenant, trajectory_id, acted(about))

    def _acts_about(self, tenant: str, trajectory_id: str) -> list[Act]:
        return self._store.acts(tenant, trajectory_id=trajectory_id, limit=ACTS_PER_TRAJECTORY_MAX)

    def _begin(self, tenant: str, trajectory_id: str, boundary: int) -> _Live:
        segments = self._travel.new_segments(tenant)
        base = self._travel.base(tenant, trajectory_id, boundary)
        return _Live(base, Fold(base, segments), segments)

    def _advance(
        self, live: _Live, tenant: str, trajectory_id: str, head: Head, *, gently: bool
    ) -> _Live:
        target = head.sequence_number
        looked_at = -_LOOK_EVENTS
        while live.fold.boundary < target and not self._stop.is_set():
            if live.fold.boundary - looked_at >= _LOOK_EVENTS:
                looked_at = live.fold.boundary
                live = self._further(live, tenant, trajectory_id, target)
            upto = target
            if gently:
                upto = min(target, live.fold.boundary + SLICE_EVENTS)
            else:
                upto = min(target, live.fold.boundary + SNAPSHOT_EVENTS * 64)
            self._travel.advance(live.fold, live.segments, tenant, trajectory_id, upto)
            if gently and upto < target and not self._urgent:
                self._rest()
        return live

    def _further(self, live: _Live, tenant: str, trajectory_id: str, target: int) -> _Live:
        """This fold, or one from a snapshot beyond it that a reader of the record has stored."""
        boundary = live.fold.boundary
        if target - boundary <= SNAPSHOT_EVENTS:
            return live
        found = self._projections.nearest(tenant, trajectory_id, target, REDUCER_VERSION)
        if found is None or found[0] <= boundary:
            return live
        begun = self._begin(tenant, trajectory_id, target)
        return begun if begun.fold.boundary > boundary else live

    def _rest(self) -> None:
        assert self._notices is not None
        self._pace.rest(self._notices.moved_at)


def run_tokens(record: TrajectoryRecord) -> int | None:
    """Tokens that the budget was told of for the run, where no reply reports any; None: neither."""
    account = record.budget.accounts.get("tokens")
    if record.calls.replied > record.calls.tokens.unreported or account is None:
        return None
    return account.consumed if account.settlements and account.unit == "tokens" else None


def summary_of(record: TrajectoryRecord, head: Head, about: acts.Standing, table: Table) -> Summary:
    """The row of the trajectory list; None in it means: never recorded."""
    usd = record.budget.accounts.get("usd")
    tokens = record.calls.tokens
    reported = record.calls.replied > tokens.unreported
    state = record.control.state
    model = record.calls.models[0] if record.calls.models else record.scope.model
    summary: Summary = {
        "title": record.scope.title or None,
        "agent": record.scope.agent,
        "source": record.scope.source,
        "standing": head.standing,
        "model": model,
        "status": state,
        "step": record.progress.step,
        "high_water": record.progress.high_water,
        "generation": record.ownership.owner_epoch,
        "unsettled": record.operations.unsettled,
        "operations": record.operations.total,
        "input_tokens": tokens.input if reported else None,
        "output_tokens": tokens.output if reported else None,
        "cache_read_tokens": tokens.cache_read if reported else None,
        "cache_write_tokens": tokens.cache_write if reported else None,
        "run_tokens": run_tokens(record),
        "cost_nano_usd": usd.consumed
        if usd is not None and usd.settlements and usd.unit == "nano_usd"
        else None,
        "events": record.boundary,
        "started_at": record.first_occurred_at,
        "ended_at": record.last_occurred_at if state in TERMINAL else None,
        "last_at": record.last_occurred_at,
        "updated_at": record.last_recorded_at if record.boundary else head.created_at,
        "exit_detail": record.control.detail,
        "blocked": record.blocked is not None,
        "unreported": tokens.unreported,
        "replied": record.calls.replied,
        "tokens_by_model": packed(record.calls.tokens_by_model),
        "priced_by": table.digest,
        "parent_id": record.scope.parent_trajectory_id,
        "parent_operation": record.scope.parent_operation_id,
        **acted(about),
        "models": "\n".join(("", *record.calls.models, ""))
        if len(record.calls.models) > 1
        else None,
        "errors": record.operations.by_outcome.get("failed", 0)
        + record.calls.by_status.get("error", 0)
        + record.unparsed
        + (state == "FAILED"),
        **graded(record, head.standing),
    }
    summary["cost_derived_nano_usd"] = derived(summary, table).nano_usd
    return summary


def graded(record: TrajectoryRecord, standing: Standing) -> Summary:
    """How many unsettled operations are unknown and in doubt, by the log alone; None where old
    ones, which only the archive holds, would have to be graded too."""
    operations = record.operations
    if standing in ("imported", "replica"):
        return {"unknown": operations.unsettled, "in_doubt": 0}
    if operations.spilled_unsettled:
        return {"unknown": None, "in_doubt": None}
    words = [
        grade(operation, record, standing=standing, at_head=False).word
        for operation in operations.open.values()
        if operation.unsettled
    ]
    return {"unknown": words.count("unknown"), "in_doubt": words.count("in_doubt")}


def acted(about: acts.Standing) -> Summary:
    """The part of a row that acts make."""
    return {
        "tags": " ".join(about.tags) or None,
        "notes": len(about.notes),
        "withdrawn": about.withdrawn is not None,
        "superseded_by": superseded_by(about),
        "hidden": about.withdrawn is not None or about.superseded is not None,
        "as_of_act": about.last,
    }


def superseded_by(about: acts.Standing) -> str | None:
    """The trajectory that stands for this one, where one does."""
    body = about.superseded.body if about.superseded is not None else None
    return body.by if isinstance(body, acts.Supersede) else None
