"""TrajectoryRecord: the control state at one boundary, one field per slice.

INVARIANTS
1. A record is a function of the events up to its boundary and of the reducer version; it holds
   nothing that no event says, and no clock (LOG-1).
2. It is bounded: what is open is held by value, what is closed lies in the archive, which the
   record names by digest; open entities beyond a bound lie there too and are counted here. So a
   snapshot never copies a growing list. Texts are cut to a length; the event has the whole.
3. Nothing in it says *in doubt*, *in flight* or *established*: those are grades, computed
   outside (EFF-2, core.rules.grades).
"""

from __future__ import annotations

import msgspec

from core.events.control import ControlState, PlanItem
from core.events.envelope import Standing
from core.events.task import Capabilities
from core.events.tool import Basis, ResultStatus


class Slice(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of every part of a record. Immutable and free of cycles, so the collector skips it.

    Bytes are a function of the values only where a default is left out by its value; msgspec
    compares identity. So a part whose defaults are texts or parts writes them all.
    """


class HeldCapabilities(Capabilities, frozen=True, omit_defaults=False):
    """Capabilities, written in full."""


class Scope(Slice, frozen=True, omit_defaults=False):
    """What TaskStarted (and Forked) said."""

    title: str = ""
    standing: Standing = "gated"
    capabilities: HeldCapabilities = HeldCapabilities()
    agent: str | None = None
    source: str | None = None
    model: str | None = None
    requester: str | None = None
    parent_trajectory_id: str | None = None
    parent_operation_id: str | None = None
    forked_from: str | None = None
    forked_at: int | None = None
    deadline_at: int | None = None
    finalization_deadline_at: int | None = None
    checkpoint_slots: tuple[str, ...] = ()
    started_sequence: int = 0


class Evidence(Slice, frozen=True):
    """One ToolResult of an attempt, by reference."""

    sequence_number: int
    event_id: str
    status: ResultStatus
    basis: Basis
    adequate: bool
    """Whether it settles: a settling status, correlated with an intent, from who may say so."""


class Attempt(Slice, frozen=True):
    """One transport attempt: its intent and the evidence about it."""

    attempt_id: str
    intent_sequence: int
    owner_epoch: int
    control_epoch: int
    worker: str | None = None
    deadline_at: int | None = None
    reservation_event: str | None = None
    evidence: tuple[Evidence, ...] = ()
    """In order; at most EVIDENCE_PER_ATTEMPT_MAX, those that settle or disagree kept first."""
    evidence_dropped: int = 0
    """Further evidence that is in the log only."""
    outcome: ResultStatus | None = None
    """What the first adequate evidence says, or the one that was named to hold."""
    outcome_sequence: int | None = None
    outcome_basis: Basis | None = None
    disputed: bool = False
    """Adequate evidence disagrees and none has been named to hold (INB-5)."""

    @property
    def unsettled(self) -> bool:
        """A durable intent and no adequate evidence, or a dispute."""
        return self.outcome is None or self.disputed

    @property
    def withheld(self) -> bool:
        """The last word on this attempt is that it was not sent."""
        return bool(self.evidence) and self.evidence[-1].status == "withheld"


class Operation(Slice, frozen=True):
    """One logical operation with all its attempts."""

    operation_id: str
    tool: str
    kind: str
    """intent, or proposal (STD-2)."""
    first_sequence: int
    last_sequence: int
    tool_version: str | None = None
    arguments_digest: str | None = None
    input_revision: str | None = None
    step: int | None = None
    attempts: tuple[Attempt, ...] = ()
    attempts_dropped: int = 0
    """Attempts beyond ATTEMPTS_PER_OPERATION_MAX that are in the log only, oldest first."""
    attempts_dropped_unsettled: int = 0
    outcome: ResultStatus | None = None
    """Settled outcome by adequate evidence: that of the attempt that succeeded, else of the one
    that failed, else of the one without effect; None while no attempt has one."""
    outcome_sequence: int | None = None
    outcome_basis: Basis | None = None
    disputed: bool = False
    settlement_owner: str | None = None
    depends_on: tuple[str, ...] = ()
    compensates: str | None = None
    licence_sequence: int | None = None
    licence_attempt: str | None = None
    """The one attempt that an unused licence permits (EFF-8)."""

    @property
    def attempts_unsettled(self) -> int:
        """Attempts that are still owed an answer."""
        owed = sum(1 for attempt in self.attempts if attempt.unsettled)
        return owed + self.attempts_dropped_unsettled

    @property
    def unsettled(self) -> bool:
        """Durable intent and no adequate outcome, or a dispute (EFF-1).

        An operation whose only outcomes are failures is unsettled while another attempt is; one
        that succeeded is not, but *possibly repeated* (EFF-7).
        """
        if self.outcome is None or self.disputed:
            return True
        return self.outcome != "succeeded" and self.attempts_unsettled > 0

    @property
    def possibly_repeated(self) -> bool:
        """Established by one attempt while another is unsettled (EFF-7)."""
        return self.outcome == "succeeded" and not self.disputed and self.attempts_unsettled > 0

    @property
    def closed(self) -> bool:
        """Nothing about it is owed or permitted: it can leave the open table."""
        return (
            self.outcome is not None
            and not self.disputed
            and self.licence_sequence is None
            and self.attempts_unsettled == 0
        )


class Operations(Slice, frozen=True):
    """The operation table: the open ones by value, the closed ones counted and archived.

    `total == len(open) + spilled + sum(by_outcome.values())`.
    """

    open: dict[str, Operation] = {}
    total: int = 0
    by_outcome: dict[str, int] = {}
    """Closed operations by outcome."""
    unmatched_results: int = 0
    """Results whose operation or attempt has no intent in the prefix: matched to nothing."""
    spilled: int = 0
    """Open operations that lie in the archive because too many are open."""
    spilled_unsettled: int = 0

    @property
    def unsettled(self) -> int:
        """How many operations are unsettled."""
        by_value = sum(1 for operation in self.open.values() if operation.unsettled)
        return by_value + self.spilled_unsettled


class Call(Slice, frozen=True):
    """One model call (invocation)."""

    invocation_id: str
    first_sequence: int
    last_sequence: int
    charge: str
    """unreserved, reserved, partial or settled."""
    context_sequence: int | None = None
    reply_sequence: int | None = None
    status: str | None = None
    """None while no reply is recorded."""
    step: int | None = None
    model: str | None = None
    retry_of: str | None = None
    control_epoch: int = 0
    unreported: bool = False
    """It is counted as a reply without tokens; a further part may still bring them."""

    @property
    def closed(self) -> bool:
        """Replied, and nothing about its charge is owed."""
        return self.status is not None and self.charge in ("unreserved", "settled")


class TokenTotals(Slice, frozen=True):
    """Tokens reported by all replies so far; `unreported` counts replies without usage."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    unreported: int = 0


class ModelTokens(Slice, frozen=True):
    """Tokens reported by the replies of one model: what a price table needs."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Calls(Slice, frozen=True, omit_defaults=False):
    """Model calls: the open ones by value, the rest counted and archived."""

    open: dict[str, Call] = {}
    total: int = 0
    replied: int = 0
    """Replies recorded."""
    by_status: dict[str, int] = {}
    """Replies by status."""
    retries: int = 0
    tokens: TokenTotals = TokenTotals()
    models: tuple[str, ...] = ()
    """Models that served a reply, in order of first appearance, at most 16."""
    tokens_by_model: dict[str, ModelTokens] = {}
    """Of the models in `models`; the rest, and replies that name no model, are in no entry, so
    the entries add up to at most `tokens`."""
    spilled: int = 0


class Reservation(Slice, frozen=True):
    """Bounds set aside and not yet settled."""

    event_id: str
    sequence_number: int
    bounds: dict[str, int]
    """resource -> amount still outstanding, in its unit."""
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None
    settlement_owner: str | None = None
    last_sequence: int = 0
    final: bool = False
    """Settled: nothing more is owed for it."""


class Meter(Slice, frozen=True):
    """The last cumulative report of a meter about one scope and resource."""

    amount: int
    last_sequence: int


class Account(Slice, frozen=True):
    """One resource: integers of `unit`."""

    unit: str
    consumed: int = 0
    outstanding: int = 0
    ceiling: int | None = None
    finalization_reserve: int = 0
    overrun: int = 0
    """Amount observed above its bounds."""
    settlements: int = 0
    """Usage reports; 0: nothing was ever recorded, so `consumed` is no observation."""


class Budget(Slice, frozen=True):
    """Accounts by resource, and open reservations by event id; closed ones are counted only."""

    accounts: dict[str, Account] = {}
    """By resource; `resource (unit)` where a second unit of one resource appears."""
    accounts_dropped: int = 0
    """Amounts of resources beyond ACCOUNTS_MAX, in the log only."""
    open: dict[str, Reservation] = {}
    reservations: int = 0
    settlements: int = 0
    cumulative: dict[str, Meter] = {}
    """`meter|scope id|resource` -> last cumulative report (BUD-4)."""
    spilled: int = 0
    meters_spilled: int = 0


class Control(Slice, frozen=True, omit_defaults=False):
    """Control state and the two orderings it carries."""

    state: ControlState = "RUNNING"
    control_epoch: int = 0
    record_version: int = 0
    since_sequence: int = 0
    reason: str | None = None
    detail: str | None = None
    eligible: tuple[str, ...] = ()


class Approval(Slice, frozen=True):
    """One held action."""

    approval_id: str
    requested_sequence: int
    last_sequence: int
    tool: str
    operation_id: str | None = None
    decision: str | None = None
    """granted, refused, withdrawn, expired; void: unused at a fallback (RES-4)."""
    resolved_sequence: int | None = None
    expires_at: int | None = None
    too_late: bool = False
    used: bool = False
    """Its operation went on after the grant."""

    @property
    def closed(self) -> bool:
        """Decided, and no unused grant for a named operation."""
        if self.decision == "granted":
            return self.used or self.operation_id is None
        return self.decision is not None


class Approvals(Slice, frozen=True):
    """Approvals: those undecided, or granted and unused, by value; the rest counted and archived.

    `by_decision` counts every decided one by its present decision.
    """

    open: dict[str, Approval] = {}
    total: int = 0
    by_decision: dict[str, int] = {}
    unmatched: int = 0
    """Decisions on an approval that nobody requested in the prefix."""
    spilled: int = 0


class Plan(Slice, frozen=True):
    """The plan as of its newest revision."""

    revision: int = 0
    items: tuple[PlanItem, ...] = ()
    since_sequence: int = 0
    cut: bool = False
    """Items or texts beyond the record's bounds are in the event only."""


class Context(Slice, frozen=True):
    """The newest delivered input and what was compacted."""

    invocation_id: str | None = None
    sequence_number: int = 0
    messages: int = 0
    manifest_digest: str | None = None
    claim: str | None = None
    built: int = 0
    compactions: int = 0
    compacted_sequence: int = 0


class Workspace(Slice, frozen=True, omit_defaults=False):
    """The workspace root the log names, and how well it is known."""

    root: str | None = None
    captured: str = "not_captured"
    """captured, delta_known or not_captured (CKP-7)."""
    since_sequence: int = 0
    changes: int = 0


class Progress(Slice, frozen=True):
    """Two numbers, never a percentage (ORD-4)."""

    step: int = 0
    high_water: int = 0
    executed: int = 0
    """Steps executed, abandoned ones included."""


class Ownership(Slice, frozen=True):
    """The newest grant in the prefix."""

    owner_epoch: int = 0
    worker: str | None = None
    cause: str | None = None
    incarnation: str | None = None
    since_sequence: int = 0
    grants: int = 0


class Recovery(Slice, frozen=True):
    """Checkpoints and resumes seen so far, by reference."""

    checkpoints: int = 0
    head_generation: int = 0
    head_checkpoint_seq: int = 0
    head_covers: int = 0
    head_sequence: int = 0
    resumes: int = 0
    last_resumed_sequence: int = 0
    last_fallback_sequence: int = 0
    """The newest Resumed that set slices back (RES-4); what it abandoned follows."""
    abandoned_from: int | None = None
    abandoned_to: int | None = None


class Blocked(Slice, frozen=True):
    """The first event this version cannot fold; boundaries from it on are `unknown` (LOG-6)."""

    sequence_number: int
    type: str
    schema_version: int


class CheckpointRef(Slice, frozen=True):
    """One published checkpoint, by reference."""

    sequence_number: int
    covers: int
    generation: int
    checkpoint_seq: int


class Recent(Slice, frozen=True):
    """Entities that have left the open table and are not in a segment yet."""

    operations: dict[str, Operation] = {}
    calls: dict[str, Call] = {}
    approvals: dict[str, Approval] = {}
    checkpoints: dict[str, CheckpointRef] = {}
    reservations: dict[str, Reservation] = {}
    """Closed ones of which an older, open row may lie in a segment."""


class SegmentRef(Slice, frozen=True):
    """One archived segment: immutable rows (kind, key, entity), by digest."""

    digest: str
    rows: int
    kinds: str
    """Letters of the kinds of row it holds (core.record.archive)."""
    level: int
    first_sequence: int
    last_sequence: int


class Archive(Slice, frozen=True, omit_defaults=False):
    """What has left the open tables: recent entities by value, older ones in segments."""

    recent: Recent = Recent()
    segments: tuple[SegmentRef, ...] = ()
    """Newest first; a row stands for every older row of its key."""

    @property
    def rows(self) -> int:
        """Rows in all segments."""
        return sum(ref.rows for ref in self.segments)


class TrajectoryRecord(Slice, frozen=True, omit_defaults=False):
    """The state that the first `boundary` events represent."""

    trajectory_id: str
    boundary: int = 0
    reducer_version: int = 0
    scope: Scope = Scope()
    control: Control = Control()
    ownership: Ownership = Ownership()
    progress: Progress = Progress()
    operations: Operations = Operations()
    calls: Calls = Calls()
    budget: Budget = Budget()
    approvals: Approvals = Approvals()
    plan: Plan = Plan()
    context: Context = Context()
    workspace: Workspace = Workspace()
    recovery: Recovery = Recovery()
    event_counts: dict[str, int] = {}
    """type -> how many so far; unknown and note types included."""
    unparsed: int = 0
    first_occurred_at: int | None = None
    last_occurred_at: int | None = None
    last_recorded_at: int | None = None
    blocked: Blocked | None = None
    archive: Archive = Archive()
