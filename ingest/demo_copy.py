"""A made-up run of another store, installed as a copy: it has what only a service may write.

Checkpoints, decided approvals, a crash, a resume and a fall-back. The events carry the fields of
their (imagined) store and are installed, never appended; so the trajectory is a replica, and what
it cannot show by itself is graded unknown. The same events come out each time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from core.canonical import digest_text, sha256
from core.errors import NotFound
from core.events import registry
from core.events.admission import Actual, Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.checkpoint import Checkpoint
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, ControlState, PlanChanged, PlanItem
from core.events.envelope import Event, Issuer, NewEvent, chain_start, chain_value
from core.events.fields import Change, Charge, Limit, MessageRef, Payload, Usage, WorkspaceChange
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import Cause, OwnershipGranted, Resumed, SetBack
from core.events.prepare import prepare
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from core.instants import Instant
from store.ports import InstallCommand, RecoveryStore

COPY_ID = "demo-release-copy"
_ORIGIN = "a1b2c3d4e5f60718"
_TURNS = 45
_CHECKPOINT_TURNS = 6


def install_copy(store: RecoveryStore, tenant: str = "local", *, began: Instant) -> bool:
    """Install the copy of a run that began then; False if it is there already."""
    try:
        store.head(tenant, COPY_ID)
        return False
    except NotFound:
        events = _tell(began)
    command = InstallCommand(tenant, COPY_ID, events, request_id=f"demo.{COPY_ID}")
    return not store.install(command).result().duplicate


@dataclass(slots=True)
class _Origin:
    """The store that the run is imagined to come from: it stamps and chains."""

    events: list[Event] = field(default_factory=list)
    chain: bytes = field(default_factory=lambda: chain_start(COPY_ID))
    clock: Instant = 0
    epoch: int = 0
    worker: str | None = None
    control_epoch: int = 0
    record_version: int = 0
    step: int = 0

    @property
    def head(self) -> int:
        """Sequence number of the last event."""
        return len(self.events)

    def add(
        self,
        issuer: Issuer,
        payload: Payload,
        *,
        operation_id: str | None = None,
        attempt_id: str | None = None,
        invocation_id: str | None = None,
    ) -> str:
        """Store one event; its id."""
        self.clock += 700_000 + (self.head * 7_919) % 4_000_000
        number = self.head + 1
        family = registry.FAMILIES[type(payload).__name__]
        stated = NewEvent(
            event_id=f"copy.{number:05d}",
            type=family.name,
            schema_version=family.version,
            payload=registry.encode(payload),
            occurred_at=self.clock - 5_000,
            step=self.step or None,
            operation_id=operation_id,
            attempt_id=attempt_id,
            invocation_id=invocation_id,
        )
        prepared = prepare(COPY_ID, stated, payload)
        worker = self.worker if issuer == "worker" or attempt_id is not None else None
        self.chain = chain_value(
            self.chain,
            prepared.digest,
            sequence_number=number,
            recorded_at=self.clock,
            issuer=issuer,
            owner_epoch=self.epoch,
            worker=worker,
            control_epoch=self.control_epoch,
            record_version=self.record_version,
            reducer_version=1,
        )
        self.events.append(
            Event(
                trajectory_id=COPY_ID,
                sequence_number=number,
                recorded_at=self.clock,
                event_id=stated.event_id,
                type=stated.type,
                schema_version=stated.schema_version,
                issuer=issuer,
                owner_epoch=self.epoch,
                control_epoch=self.control_epoch,
                record_version=self.record_version,
                reducer_version=1,
                digest=prepared.digest,
                chain=self.chain,
                payload_digest=prepared.payload_digest,
                payload_length=prepared.payload_length,
                worker=worker,
                payload=stated.payload,
                occurred_at=stated.occurred_at,
                step=stated.step,
                operation_id=operation_id,
                attempt_id=attempt_id,
                invocation_id=invocation_id,
            )
        )
        self.control_epoch += prepared.controls
        self.record_version += prepared.guarded
        return stated.event_id

    def grant(self, worker: str, cause: Cause) -> None:
        """A new owner epoch."""
        self.epoch, self.worker = self.epoch + 1, worker
        self.add("service", OwnershipGranted(_ORIGIN, self.epoch, worker, cause))


def _tell(began: Instant) -> tuple[Event, ...]:
    """The whole run."""
    story = _Story(_Origin(clock=began))
    story.begin()
    for turn in range(1, _TURNS + 1):
        story.turn(turn)
    story.end()
    return tuple(story.origin.events)


@dataclass(slots=True)
class _Story:
    """A release that is prepared, interrupted, taken up again and finished."""

    origin: _Origin
    checkpoint_seq: int = 0
    published: str | None = None
    covered: int = 0
    kept_step: int = 0
    messages: int = 0
    invocation: str | None = None
    revision: int = 0
    tree: str = "tree-0"
    kept_tree: str = "tree-0"

    def begin(self) -> None:
        """The task, its owner and the first plan."""
        self.origin.add(
            "service",
            TaskStarted(
                title="Prepare release 4.2 (a copy from another store)",
                standing="gated",
                capabilities=Capabilities(
                    intents="written_ahead",
                    exact_inputs="recorded",
                    workspace="recorded",
                    reservations="recorded",
                    ownership="recorded",
                    approvals="recorded",
                    times="recorded",
                ),
                task="Prepare release 4.2: notes, version, tag. Publishing needs an approval.",
                requester="release desk",
                agent="demo runtime 1.0",
                source="another Strandline store (made up)",
                model="example-model-large",
                limits=(
                    Limit(
                        resource="usd",
                        unit="nano_usd",
                        ceiling=5_000_000_000,
                        finalization_reserve=200_000_000,
                    ),
                ),
                checkpoint_slots=("context", "workspace"),
            ),
        )
        self.origin.grant("worker-1", "start")
        self._plan("the first plan")

    def turn(self, turn: int) -> None:
        """One turn, with what happens beside it."""
        self.origin.step += 1
        operation = self._model_and_intent(turn)
        if turn == 19:
            self._crash()
            return
        self._result(operation, turn)
        if turn % _CHECKPOINT_TURNS == 0:
            self._publish()
        if turn == 12:
            self._pause()
        if turn == 27:
            self._approve("publish-notes", "granted")
        if turn == 30:
            self._approve("publish-tag", "refused")
        if turn == 33:
            self._fall_back()
        if turn == 36:
            self._compact()

    def end(self) -> None:
        """Finalize and complete; one operation stays owed."""
        self.origin.add("worker", RuntimeInput(kind="clock", values={"hour": 12}, captured=True))
        self._control("FINALIZING", "RUNNING", "the work is done, the notes are written")
        self._control("COMPLETED", "FINALIZING", "release 4.2 is prepared")

    def _model_and_intent(self, turn: int) -> str:
        origin = self.origin
        invocation, operation = f"call-{origin.head}", f"op-{origin.head}"
        kept = self.messages
        text = f"turn {turn}: {'read the notes' if turn % 3 else 'change the version'}"
        raw = sha256(text.encode())
        self.messages += 1
        origin.add(
            "worker",
            ContextBuilt(
                manifest_digest=digest_text(hashlib.sha256(raw + bytes([kept % 256])).digest()),
                count=self.messages,
                base_invocation_id=self.invocation if kept else None,
                kept=kept,
                messages=(
                    MessageRef(role="user", digest=digest_text(raw), length=len(text), text=text),
                ),
                model="example-model-large",
                claim="rebuilt",
            ),
            invocation_id=invocation,
        )
        self.invocation = invocation
        origin.add("service", Authorized(decision="granted"), invocation_id=invocation)
        held = origin.add(
            "service",
            BudgetReserved(bounds=(Charge("usd", "nano_usd", 40_000_000),)),
            invocation_id=invocation,
        )
        origin.add(
            "worker",
            ModelReplied(
                status="completed",
                model="example-model-large-2026-10",
                text=text,
                finish_reason="tool_calls",
                usage=Usage(input=400 + turn, output=60, cache_read=kept * 90, cache_write=200),
                attempts=1,
            ),
            invocation_id=invocation,
        )
        origin.add(
            "worker",
            BudgetSettled(
                actual=(Actual("usd", "nano_usd", 1_500_000 + turn * 20_000),),
                scope="invocation",
                reservation_event=held,
                evidence="usage of the reply",
            ),
            invocation_id=invocation,
        )
        ids = {"operation_id": operation, "attempt_id": f"{operation}.1"}
        allowed = origin.add("service", Authorized(decision="granted", policy_version="7"), **ids)
        bound = origin.add(
            "service", BudgetReserved(bounds=(Charge("compute", "ms", 30_000),)), **ids
        )
        origin.add(
            "service",
            ToolIntent(
                kind="intent",
                tool="bash",
                tool_version="1",
                arguments={"command": f"make notes PART={turn}"},
                authorization_event=allowed,
                reservation_event=bound,
                deadline_at=origin.clock + 60_000_000,
            ),
            **ids,
            invocation_id=invocation,
        )
        return operation

    def _result(self, operation: str, turn: int) -> None:
        ids = {"operation_id": operation, "attempt_id": f"{operation}.1"}
        failed = turn in (8, 22)
        base, after = self.tree, self.tree if failed else f"tree-{turn}"
        self.tree = after
        text = f"# Part {turn}\n"
        written = Change(
            path=f"notes/part-{turn}.md",
            kind="written",
            digest=digest_text(sha256(text.encode())),
            length=len(text),
        )
        began = self.origin.clock
        self.origin.add(
            "worker",
            ToolResult(
                status="failed" if failed else "succeeded",
                basis="sender",
                observation=f"make: *** [Makefile:9: notes] Error 1: part {turn} has no source"
                if failed
                else f"notes/part-{turn}.md written",
                exit_code=2 if failed else 0,
                error="the command ended with 2" if failed else None,
                workspace=None if failed else WorkspaceChange(base, after, (written,)),
            ),
            **ids,
        )
        # The command ran from its intent to its result, less what the messages took.
        used = (self.origin.clock - began) // 1_000 - 20
        self.origin.add("worker", BudgetSettled(actual=(Actual("compute", "ms", used),)), **ids)

    def _publish(self) -> None:
        origin = self.origin
        self.checkpoint_seq += 1
        self.covered, self.kept_step, self.kept_tree = origin.head, origin.step, self.tree
        origin.add(
            "service",
            Checkpoint(
                covers=self.covered,
                chain=digest_text(origin.chain),
                manifest=digest_text(sha256(f"manifest {self.covered}".encode())),
                generation=origin.epoch,
                checkpoint_seq=self.checkpoint_seq,
                parent=self.published,
            ),
        )
        self.published = f"{origin.epoch}.{self.checkpoint_seq}"

    def _crash(self) -> None:
        """The worker dies after its intent: the next owner continues at the head."""
        self.origin.clock += 95_000_000
        self.origin.grant("worker-2", "expiry")
        self.checkpoint_seq = 0
        self.origin.add(
            "service",
            Resumed(
                target=self.origin.head - 1,
                base_checkpoint=self.published,
                decided_by="policy",
                reason="the owner's lease ran out; the tail is complete",
                configuration="pinned",
            ),
        )

    def _fall_back(self) -> None:
        """The workspace at the head cannot be rebuilt: continue at the last checkpoint."""
        origin = self.origin
        origin.clock += 40_000_000
        head = origin.head
        origin.grant("worker-3", "operator")
        self.checkpoint_seq = 0
        origin.add(
            "service",
            Resumed(
                target=self.covered,
                base_checkpoint=self.published,
                decided_by="operator",
                reason="a workspace change after the checkpoint was never captured",
                abandoned_from=self.covered + 1 if self.covered < head else None,
                configuration="unchanged",
                set_back=SetBack(
                    step=self.kept_step,
                    plan_revision=self.revision,
                    context_invocation_id=self.invocation,
                    workspace=self.kept_tree,
                ),
            ),
        )
        origin.step, self.tree = self.kept_step, self.kept_tree

    def _pause(self) -> None:
        self._control("PAUSED", "RUNNING", "the build machines are being updated")
        self.origin.clock += 600_000_000
        self._control("RUNNING", "PAUSED", "the update is done")

    def _approve(self, name: str, decision: str) -> None:
        origin = self.origin
        operation = f"op-{name}"
        origin.add(
            "worker",
            ApprovalRequested(
                approval_id=f"approval-{name}",
                tool="publish",
                tool_version="2",
                policy_version="7",
                reviewer="release desk",
                reason="publishing leaves the repository",
            ),
            operation_id=operation,
        )
        self._control("AWAITING_APPROVAL", "RUNNING", f"{name} waits for the release desk")
        origin.clock += 420_000_000
        origin.add(
            "operator",
            ApprovalResolved(
                approval_id=f"approval-{name}",
                decision="granted" if decision == "granted" else "refused",
                reviewer="release desk",
            ),
            operation_id=operation,
        )
        self._control("RUNNING", "AWAITING_APPROVAL", f"{name} was {decision}")
        if decision == "granted":
            self._publish_notes(operation)

    def _publish_notes(self, operation: str) -> None:
        """The approved operation is done: the approval is used."""
        ids = {"operation_id": operation, "attempt_id": f"{operation}.1"}
        allowed = self.origin.add(
            "service", Authorized(decision="granted", policy_version="7", basis="approval"), **ids
        )
        bound = self.origin.add(
            "service", BudgetReserved(bounds=(Charge("compute", "ms", 5_000),)), **ids
        )
        self.origin.add(
            "service",
            ToolIntent(
                kind="intent",
                tool="publish",
                tool_version="2",
                arguments={"what": "notes"},
                authorization_event=allowed,
                reservation_event=bound,
            ),
            **ids,
        )
        self.origin.add(
            "worker", ToolResult(status="succeeded", basis="query", proof="listed"), **ids
        )
        self.origin.add("worker", BudgetSettled(actual=(Actual("compute", "ms", 700),)), **ids)

    def _compact(self) -> None:
        self.origin.add(
            "worker",
            Compacted(
                summary="Parts 1 to 33 of the notes are written; two needed a second try.",
                last_sequence=self.origin.head,
                first_sequence=1,
                written_by=self.invocation,
                dropped=self.messages,
            ),
        )
        self.messages = 0
        self._plan("after the summary")

    def _plan(self, reason: str) -> None:
        self.revision += 1
        self.origin.add(
            "worker",
            PlanChanged(
                revision=self.revision,
                items=(
                    PlanItem(id="notes", text="write the notes", status="doing"),
                    PlanItem(id="tag", text="tag the release", depends_on=("notes",)),
                ),
                reason=reason,
            ),
        )

    def _control(self, to: ControlState, came_from: ControlState, reason: str) -> None:
        self.origin.add(
            "service",
            ControlChanged(
                to_state=to, from_state=came_from, requested_by="operator", reason=reason
            ),
        )
