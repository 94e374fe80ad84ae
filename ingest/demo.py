"""Data to look at: committed trajectories, a copy, and a generated one of 100,000 events.

The generated trajectory is `reported`: a runtime of its own, under an owner epoch, says what it
did. It is written by the store's ordinary commands (create, claim, append) in batches. Nothing in
it is random: the same seed gives the same events, so that an interrupted seeding is completed by
running it again.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from core.canonical import digest_text, sha256
from core.errors import ImportRefused, NotFound
from core.events import registry
from core.events.admission import Actual, Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, PlanChanged, PlanItem
from core.events.envelope import NewEvent
from core.events.fields import (
    Change,
    Charge,
    Limit,
    MessageRef,
    Payload,
    ToolCall,
    Usage,
    WorkspaceChange,
)
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import Cause
from core.events.prepare import Prepared, prepare
from core.events.source import Unparsed
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ResultStatus, ToolIntent, ToolResult
from core.instants import Instant
from ingest.demo_copy import COPY_ID, install_copy
from ingest.pipeline import import_path
from store.ports import (
    Ack,
    AppendCommand,
    BlobStore,
    ClaimCommand,
    CreateCommand,
    RecoveryStore,
)

DATA = Path(__file__).resolve().parent / "demo_data"
GENERATED_ID = "demo-nightly-build"
GENERATED_EVENTS = 100_000
_SEED = 20261129
_BATCH = 1000
_IN_FLIGHT = 4
#: 2026-11-01 02:00 UTC, when the imagined run began.
_BEGAN: Instant = 1_793_498_400_000_000
_GENERATIONS: tuple[tuple[str, Cause], ...] = (
    ("worker-a1", "start"),
    ("worker-b7", "expiry"),
    ("worker-b7", "operator"),
    ("worker-c3", "hand_off"),
    ("worker-a1", "expiry"),
)
_FILES = (
    "build/plan.toml",
    "src/cache.py",
    "src/resolve.py",
    "src/report.py",
    "tests/test_cache.py",
    "tests/test_resolve.py",
    "docs/nightly.md",
)
_THOUGHTS = (
    "The cache test fails again on the second run; I look at what it leaves behind.",
    "The lock file is newer than the plan. I compare both before I change either.",
    "Two of the failures share a cause: the resolver keeps a stale entry.",
    "The report counts skipped tests as passed. I read how it adds them up.",
    "This is green now. I run the whole suite once more before I go on.",
    "The build machine has half the memory; I try with a smaller batch.",
    "The change from last night removed a retry. I put it back where it belongs.",
    "Nothing to repair here: the failure came from the network and passed on a second try.",
)
_COMMANDS = (
    "python3 -m unittest tests.test_cache",
    "python3 -m unittest tests.test_resolve",
    "git diff --stat",
    "sed -n '1,80p' src/resolve.py",
    "grep -n stale src/cache.py",
    "make nightly TARGET=report",
    "cat build/plan.toml",
)
_OUTPUTS = (
    "Ran 48 tests in 2.1s\n\nOK",
    "Ran 48 tests in 2.3s\n\nFAILED (failures=1)",
    " src/cache.py | 12 ++++++------\n 1 file changed, 6 insertions(+), 6 deletions(-)",
    "41:    if entry.stale:\n77:        self.stale += 1",
    "report: 212 passed, 3 skipped, 1 failed",
    "target = 'report'\nworkers = 4\nretries = 2",
)


@dataclass(frozen=True, slots=True)
class Seeded:
    """What the demo folder holds now."""

    imported: tuple[str, ...]
    """Trajectory ids of the committed files."""
    generated: str
    events: int
    """Events of the generated trajectory."""
    fresh: bool
    """Something was written now."""
    copied: str = COPY_ID

    @property
    def trajectories(self) -> tuple[str, ...]:
        """All trajectory ids of the demo."""
        return (*self.imported, self.copied, self.generated)


def seed(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str = "local",
    *,
    events: int = GENERATED_EVENTS,
    note: Callable[[str], None] = lambda text: None,
) -> Seeded:
    """Import the committed files and generate the long trajectory; what is there is left alone."""
    imported: list[str] = []
    fresh = False
    for path in sorted(DATA.glob("*.traj.json")):
        for report in import_path(store, blobs, tenant, path, as_name=f"demo/{path.name}"):
            if not report.ok:
                raise ImportRefused(f"{path.name}: {report.refused[0].why}")
            fresh = fresh or report.outcome != "unchanged"
            imported += [one.id for one in report.trajectories]
            note(f"{path.name}: {report.trajectories[0].events} events")
    copied = install_copy(store, tenant)
    note(f"{COPY_ID}: a copy from another store")
    written = generate(store, tenant, events=events, note=note)
    return Seeded(tuple(imported), GENERATED_ID, events, fresh or copied or written)


def generate(
    store: RecoveryStore,
    tenant: str = "local",
    *,
    trajectory_id: str = GENERATED_ID,
    events: int = GENERATED_EVENTS,
    note: Callable[[str], None] = lambda text: None,
) -> bool:
    """Write a `reported` trajectory of exactly `events` events; False if it was all there.

    At least 1,000 events. Raises what the store raises.
    """
    try:
        if store.head(tenant, trajectory_id).sequence_number >= events:
            return False
    except NotFound:
        pass
    scribe = _Scribe(trajectory_id)
    store.create(_creation(scribe, tenant)).result()
    share = (events - 1) // len(_GENERATIONS)
    for number, (worker, cause) in enumerate(_GENERATIONS, 1):
        last = number == len(_GENERATIONS)
        grant = store.claim(
            ClaimCommand(
                tenant=tenant,
                trajectory_id=trajectory_id,
                worker=worker,
                cause=cause,
                request_id=f"demo.{trajectory_id}.claim.{number}",
                request_digest=sha256(f"{trajectory_id} {number} {worker}".encode()),
            )
        ).result()
        count = (events - 1 - share * (number - 1) if last else share) - 1
        _write(store, tenant, scribe, worker=worker, epoch=grant.owner_epoch, count=count)
        note(f"generation {number} of {len(_GENERATIONS)}: {worker}, {count + 1:,} events")
    return True


def _creation(scribe: _Scribe, tenant: str) -> CreateCommand:
    first = scribe.first()
    request_id = f"demo.{scribe.trajectory_id}.create"
    return CreateCommand(
        tenant=tenant,
        trajectory_id=scribe.trajectory_id,
        standing="reported",
        issuer="service",
        request_id=request_id,
        request_digest=sha256(request_id.encode()),
        first=first,
    )


def _write(
    store: RecoveryStore, tenant: str, scribe: _Scribe, *, worker: str, epoch: int, count: int
) -> None:
    """One generation's events, a few batches ahead of the writer."""
    waiting: list[Future[Ack]] = []
    while count > 0:
        batch = tuple(scribe.take(min(_BATCH, count)))
        count -= len(batch)
        waiting.append(
            store.append(
                AppendCommand(
                    tenant=tenant,
                    trajectory_id=scribe.trajectory_id,
                    issuer="worker",
                    door="append",
                    request_id=f"demo.{batch[0].event.event_id}",
                    events=batch,
                    owner_epoch=epoch,
                    worker=worker,
                )
            )
        )
        if len(waiting) >= _IN_FLIGHT:
            waiting.pop(0).result()
    for one in waiting:
        one.result()


class _Hash(Protocol):
    """A running SHA-256."""

    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> _Hash: ...


@dataclass(slots=True)
class _Scribe:
    """Tells the story turn by turn."""

    trajectory_id: str
    number: int = 0
    step: int = 0
    clock: Instant = _BEGAN
    plan: int = 0
    retried: str | None = None
    invocation: str | None = None
    messages: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(_SEED))
    manifest: _Hash = field(default_factory=hashlib.sha256)
    ready: list[Prepared] = field(default_factory=list)
    reservation: str | None = None
    approvals: int = 0
    open_operations: int = 0

    def first(self) -> Prepared:
        """TaskStarted."""
        payload = TaskStarted(
            title="Keep the nightly build green (generated)",
            standing="reported",
            capabilities=Capabilities(
                intents="written_ahead",
                exact_inputs="recorded",
                workspace="recorded",
                reservations="recorded",
                ownership="recorded",
                approvals="recorded",
                times="recorded",
            ),
            task="Each night, find out why the build is red, repair what can be repaired, and say "
            "what cannot. Ask before anything outside the repository changes.",
            requester="nightly schedule",
            agent="demo runtime 1.0",
            source="generated by strandline demo",
            model="example-model-large",
            limits=(
                Limit(resource="usd", unit="nano_usd", ceiling=900_000_000_000),
                Limit(resource="tokens", unit="tokens", ceiling=2_000_000_000),
            ),
        )
        event = NewEvent(
            event_id="demo.task",
            type="TaskStarted",
            schema_version=registry.FAMILIES["TaskStarted"].version,
            payload=registry.encode(payload),
        )
        return prepare(self.trajectory_id, event, payload)

    def take(self, count: int) -> list[Prepared]:
        """The next `count` events."""
        while len(self.ready) < count:
            self._turn()
        taken, self.ready = self.ready[:count], self.ready[count:]
        return taken

    def _add(
        self,
        payload: Payload,
        *,
        operation_id: str | None = None,
        attempt_id: str | None = None,
        invocation_id: str | None = None,
    ) -> str:
        self.number += 1
        self.clock += self.dice.randrange(40_000, 2_400_000)
        family = registry.FAMILIES[type(payload).__name__]
        event = NewEvent(
            event_id=f"demo.{self.number:07d}",
            type=family.name,
            schema_version=family.version,
            payload=registry.encode(payload),
            occurred_at=self.clock,
            step=self.step,
            operation_id=operation_id,
            attempt_id=attempt_id,
            invocation_id=invocation_id,
        )
        self.ready.append(prepare(self.trajectory_id, event, payload))
        return event.event_id

    def _turn(self) -> None:
        """One turn of the loop: what is asked, what came back, what was done."""
        dice = self.dice
        if self.retried is None:
            self.step += 1
        if self.step % 97 == 0:
            self._compact()
        invocation = self._call()
        if dice.random() < 0.015 and self.retried is None:
            self._lost_reply(invocation)
            return
        operations = [f"op-{self.step}-{n}" for n in range(1, dice.choice((1, 1, 1, 2, 3)) + 1)]
        self._reply(invocation, operations)
        self.retried = None
        if self.step % 60 == 1:
            self._plan()
        for operation in operations:
            self._operate(operation, invocation)
        self._aside()

    def _call(self) -> str:
        invocation = f"call-{self.step}" + ("r" if self.retried else "")
        kept = self.messages
        new = []
        for role in ("system", "user") if kept == 0 else ("assistant", "tool"):
            text = self.dice.choice(_THOUGHTS if role == "assistant" else _OUTPUTS)
            data = f"{role}: {text}".encode()
            raw = sha256(data)
            self.manifest.update(raw)
            new.append(MessageRef(role=role, digest=digest_text(raw), length=len(data), text=text))
        self.messages += len(new)
        self._add(
            ContextBuilt(
                manifest_digest=digest_text(self.manifest.copy().digest()),
                count=self.messages,
                base_invocation_id=self.invocation if kept else None,
                kept=kept,
                messages=tuple(new),
                model="example-model-large",
                request={"temperature": 0, "max_tokens": 4096},
                claim="rebuilt",
                retry_of=self.retried,
            ),
            invocation_id=invocation,
        )
        self.invocation = invocation
        self.reservation = self._add(
            BudgetReserved(
                bounds=(Charge(resource="usd", unit="nano_usd", amount=60_000_000),),
                settlement_owner="worker",
            ),
            invocation_id=invocation,
        )
        return invocation

    def _lost_reply(self, invocation: str) -> None:
        self._add(
            ModelReplied(
                status="error",
                error="the connection was closed before a reply came",
                gaps=("usage is not recorded",),
                attempts=1,
            ),
            invocation_id=invocation,
        )
        self.retried = invocation

    def _reply(self, invocation: str, operations: list[str]) -> None:
        fresh, output = self.dice.randrange(300, 2_200), self.dice.randrange(40, 700)
        cached = self.messages * 90
        usage = Usage(input=fresh, output=output, cache_read=cached, cache_write=fresh // 2)
        self._add(
            ModelReplied(
                status="completed",
                model="example-model-large-2026-10",
                text=self.dice.choice(_THOUGHTS),
                tool_calls=tuple(
                    ToolCall(tool="bash", operation_id=operation) for operation in operations
                ),
                finish_reason="tool_calls",
                usage=usage,
                response_id=f"resp-{invocation}",
                retry_of=self.retried,
                attempts=1,
            ),
            invocation_id=invocation,
        )
        cost = fresh * 2_000 + output * 8_000 + cached * 200
        self._add(
            BudgetSettled(
                actual=(
                    Actual(resource="usd", unit="nano_usd", amount=cost, overrun=cost > 60_000_000),
                    Actual(resource="tokens", unit="tokens", amount=fresh + output + cached),
                ),
                scope="invocation",
                meter="provider",
                reservation_event=self.reservation,
                evidence="usage of the reply",
            ),
            invocation_id=invocation,
        )

    def _operate(self, operation: str, invocation: str) -> None:
        """One operation: admitted, written ahead, run, and usually answered."""
        dice = self.dice
        attempt = f"{operation}.1"
        ids = {"operation_id": operation, "attempt_id": attempt}
        allowed = self._add(
            Authorized(
                decision="granted", policy_version="nightly-3", basis="inside the repository"
            ),
            **ids,
        )
        reserved = self._add(
            BudgetReserved(bounds=(Charge(resource="compute", unit="ms", amount=60_000),)), **ids
        )
        self._add(
            ToolIntent(
                kind="intent",
                tool="bash",
                tool_version="1",
                arguments={"command": dice.choice(_COMMANDS)},
                deadline_at=self.clock + 60_000_000,
                authorization_event=allowed,
                reservation_event=reserved,
            ),
            **ids,
            invocation_id=invocation,
        )
        roll = dice.random()
        if roll < 0.002 and self.open_operations < 14:
            self.open_operations += 1
            self._inconclusive(ids)
            return
        status: ResultStatus = "failed" if roll < 0.06 else "succeeded"
        changed = status == "succeeded" and dice.random() < 0.15
        self._add(
            ToolResult(
                status=status,
                basis="sender",
                observation=dice.choice(_OUTPUTS),
                exit_code=0 if status == "succeeded" else 1,
                error=None if status == "succeeded" else "the command ended with 1",
                workspace=self._change() if changed else None,
            ),
            **ids,
        )
        self._add(
            BudgetSettled(
                actual=(Actual(resource="compute", unit="ms", amount=dice.randrange(200, 30_000)),),
                reservation_event=reserved,
                meter="runtime",
                evidence="wall time of the command",
            ),
            **ids,
        )

    def _inconclusive(self, ids: dict[str, str]) -> None:
        if self.open_operations % 3 == 0:
            return  # No word of it at all.
        late = self.open_operations % 2 == 0
        self._add(
            ToolResult(
                status="timeout" if late else "pending",
                basis="sender",
                job_handle=None if late else f"job-{self.number}",
                error="no answer within 60 s" if late else None,
            ),
            **ids,
        )

    def _change(self) -> WorkspaceChange:
        path = self.dice.choice(_FILES)
        data = f"{path} {self.number}".encode()
        return WorkspaceChange(
            base=f"tree-{self.step - 1}",
            after=f"tree-{self.step}",
            changes=(
                Change(
                    path=path, kind="edited", digest=digest_text(sha256(data)), length=len(data)
                ),
            ),
        )

    def _plan(self) -> None:
        self.plan += 1
        night = self.plan
        items = (
            PlanItem(id=f"n{night}.1", text="find what is red", status="done"),
            PlanItem(
                id=f"n{night}.2", text="repair it", status="doing", depends_on=(f"n{night}.1",)
            ),
            PlanItem(
                id=f"n{night}.3",
                text="run the whole suite",
                status="open",
                depends_on=(f"n{night}.2",),
            ),
        )
        self._add(PlanChanged(revision=self.plan, items=items, reason=f"night {night} begins"))

    def _compact(self) -> None:
        self._add(
            Compacted(
                summary="The cache keeps stale entries after a failed resolve; repaired in "
                "src/cache.py, watched since. The report counts skipped tests apart.",
                written_by=self.invocation,
                dropped=self.messages,
            )
        )
        self.manifest = hashlib.sha256()
        self.messages = 0

    def _aside(self) -> None:
        """What happens beside the loop, now and then."""
        step = self.step
        if step % 25 == 0:
            self._add(RuntimeInput(kind="clock", values={"night": step // 60 + 1}, captured=True))
        if step % 400 == 0:
            self._add(
                ControlChanged(
                    to_state="PAUSED",
                    from_state="RUNNING",
                    requested_by="operator",
                    reason="the build machines are being updated",
                )
            )
            self._add(
                ControlChanged(
                    to_state="RUNNING",
                    from_state="PAUSED",
                    requested_by="operator",
                    reason="the update is done",
                )
            )
        if step % 1700 == 0 and self.approvals < 5:
            self.approvals += 1
            self._add(
                ApprovalRequested(
                    approval_id=f"approval-{self.approvals}",
                    tool="publish",
                    policy_version="nightly-3",
                    reviewer="release desk",
                    reason="publishing leaves the repository",
                ),
                operation_id=f"op-{step}-publish",
            )
        if step % 2900 == 0:
            self._add(Unparsed(where=f"line {step} of runtime.log", why="the line is no JSON"))
