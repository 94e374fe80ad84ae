"""Hypothesis generators: one per event family, and whole logs that could have happened.

Ids come from small pools, so that results meet intents, settlements meet reservations, and also
miss them: a log here may be any order of any events, as an import or an installed copy may be.
`plausible` keeps the order of a run; `any_log` keeps none.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, get_args

from hypothesis import strategies as st

from core.canonical import sha256
from core.events import registry
from core.events.admission import Actual, Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.branch import Forked
from core.events.checkpoint import Checkpoint
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, ControlState, PlanChanged, PlanItem
from core.events.envelope import (
    BlobRef,
    Event,
    Issuer,
    NewEvent,
    Standing,
    chain_start,
    chain_value,
    event_digest,
    payload_identity,
)
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
from core.events.ownership import Cause, OwnershipGranted, Resumed, SetBack
from core.events.prepare import classify
from core.events.source import Unparsed
from core.events.task import Capabilities, Parent, Restart, TaskStarted
from core.events.tool import Basis, ResultStatus, ToolIntent, ToolResult
from core.limits import PAYLOAD_INLINE_BYTES_MAX
from core.record.reduce import REDUCER_VERSION

TRAJECTORY = "t-1"
OPERATIONS = [f"op-{n}" for n in range(6)]
ATTEMPTS = ["1", "2"]
INVOCATIONS = [f"inv-{n}" for n in range(6)]
WORKERS = ["w-1", "w-2"]
RESOURCES = [("usd", "nano_usd"), ("tokens", "tokens"), ("usd", "cents")]
ISSUERS: tuple[Issuer, ...] = get_args(Issuer)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
names = st.sampled_from(["bash", "edit", "naïve tool", "🛠"])
naturals = st.integers(0, 2**53 - 1)
amounts = st.integers(0, 1000)
instants = st.integers(1_700_000_000_000_000, 1_800_000_000_000_000)
digests = st.integers(0, 3).map(lambda n: "sha256:" + sha256(bytes([n])).hex())
operations = st.sampled_from(OPERATIONS)
event_ids = st.integers(1, 12).map("e-{}".format)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
charges = st.builds(
    lambda resource, amount: Charge(*resource, amount), st.sampled_from(RESOURCES), amounts
)
charge_lists = st.lists(charges, max_size=3).map(tuple)
limits = st.builds(
    lambda resource, ceiling, reserve: Limit(*resource, ceiling, reserve),
    st.sampled_from(RESOURCES),
    amounts,
    amounts,
)
limit_lists = st.lists(limits, max_size=2).map(tuple)
messages = st.lists(
    st.builds(MessageRef, st.sampled_from(["system", "user", "tool"]), digests, amounts), max_size=3
).map(tuple)
changes = st.builds(
    Change,
    path=texts,
    kind=st.sampled_from(["written", "edited", "deleted"]),
    digest=maybe(digests),
)
workspace_changes = st.builds(
    WorkspaceChange,
    base=maybe(st.sampled_from(["root-1", "root-2"])),
    after=maybe(st.sampled_from(["root-1", "root-2"])),
    changes=st.lists(changes, max_size=2).map(tuple),
)
plan_items = st.lists(
    st.builds(PlanItem, st.sampled_from(["a", "b", "c"]), texts, depends_on=st.just(("a",))),
    max_size=3,
).map(tuple)
states = st.sampled_from(get_args(ControlState))

#: One generator per family; a test holds the keys to the registry's.
PAYLOADS: dict[str, st.SearchStrategy[Any]] = {
    "TaskStarted": st.builds(
        TaskStarted,
        title=texts,
        standing=st.sampled_from(get_args(Standing)),
        capabilities=st.builds(Capabilities),
        task=maybe(texts),
        agent=maybe(texts),
        source=maybe(texts),
        model=maybe(names),
        parent=maybe(st.builds(Parent, texts, texts)),
        restart=maybe(st.builds(Restart, texts)),
        limits=limit_lists,
        deadline_at=maybe(instants),
        workspace=maybe(st.just("root-1")),
        checkpoint_slots=st.lists(texts, max_size=2).map(tuple),
        labels=maybe(st.dictionaries(texts, texts, max_size=2)),
    ),
    "ContextBuilt": st.builds(
        ContextBuilt,
        manifest_digest=digests,
        count=amounts,
        base_invocation_id=maybe(st.sampled_from(INVOCATIONS)),
        messages=messages,
        model=maybe(names),
        request=maybe(st.dictionaries(texts, json_values, max_size=2)),
        claim=st.sampled_from(["exact", "rebuilt", "partial"]),
        retry_of=maybe(st.sampled_from(INVOCATIONS)),
    ),
    "ModelReplied": st.builds(
        ModelReplied,
        status=st.sampled_from(["completed", "error", "cancelled", "superseded"]),
        model=maybe(names),
        text=maybe(texts),
        tool_calls=st.lists(st.builds(ToolCall, names), max_size=2).map(tuple),
        usage=maybe(
            st.builds(
                Usage,
                input=maybe(amounts),
                output=maybe(amounts),
                cache_read=maybe(amounts),
                cache_write=maybe(amounts),
            )
        ),
        usage_raw=maybe(st.dictionaries(texts, json_values, max_size=2)),
        continues=st.booleans(),
    ),
    "Authorized": st.builds(
        Authorized,
        decision=st.sampled_from(["granted", "denied", "licensed"]),
        policy_version=maybe(texts),
        ends_at=maybe(instants),
    ),
    "BudgetReserved": st.builds(
        BudgetReserved, bounds=charge_lists, settlement_owner=maybe(st.sampled_from(WORKERS))
    ),
    "BudgetSettled": st.builds(
        BudgetSettled,
        actual=st.lists(
            st.builds(
                lambda resource, amount: Actual(*resource, amount),
                st.sampled_from(RESOURCES),
                amounts,
            ),
            max_size=3,
        ).map(tuple),
        scope=st.sampled_from(["invocation", "attempt", "trajectory"]),
        reporting=st.sampled_from(["incremental", "cumulative"]),
        meter=st.sampled_from(["provider", "harness"]),
        reservation_event=maybe(event_ids),
        final=st.booleans(),
        unresolved=charge_lists,
        settlement_owner=maybe(st.sampled_from(WORKERS)),
    ),
    "ToolIntent": st.builds(
        ToolIntent,
        kind=st.sampled_from(["intent", "proposal"]),
        tool=names,
        arguments=json_values,
        input_revision=maybe(st.sampled_from(["rev-1", "rev-2"])),
        deadline_at=maybe(instants),
        reservation_event=maybe(event_ids),
        depends_on=st.lists(operations, max_size=2).map(tuple),
        compensates=maybe(operations),
    ),
    "ToolResult": st.builds(
        ToolResult,
        status=st.sampled_from(get_args(ResultStatus)),
        basis=st.sampled_from(get_args(Basis)),
        input_revision=maybe(st.sampled_from(["rev-1", "rev-2"])),
        observation=maybe(texts),
        exit_code=maybe(st.integers(-128, 255)),
        workspace=maybe(workspace_changes),
        holds=maybe(event_ids),
    ),
    "ControlChanged": st.builds(
        ControlChanged,
        to_state=states,
        from_state=maybe(states),
        reason=maybe(texts),
        detail=maybe(texts),
        limits=limit_lists,
        eligible=st.lists(operations, max_size=2).map(tuple),
        owners=maybe(st.dictionaries(operations, st.sampled_from(WORKERS), max_size=2)),
    ),
    "PlanChanged": st.builds(PlanChanged, revision=st.integers(1, 9), items=plan_items),
    "ApprovalRequested": st.builds(
        ApprovalRequested,
        approval_id=st.sampled_from(["a-1", "a-2", "a-3"]),
        tool=names,
        expires_at=maybe(instants),
    ),
    "ApprovalResolved": st.builds(
        ApprovalResolved,
        approval_id=st.sampled_from(["a-1", "a-2", "a-3"]),
        decision=st.sampled_from(["granted", "refused", "withdrawn", "expired"]),
        expires_at=maybe(instants),
        too_late=st.booleans(),
    ),
    "Compacted": st.builds(Compacted, summary=texts, first_sequence=maybe(st.integers(1, 9))),
    "RuntimeInput": st.builds(
        RuntimeInput,
        kind=st.sampled_from(["clock", "message"]),
        values=json_values,
        text=maybe(texts),
        workspace=maybe(workspace_changes),
    ),
    "OwnershipGranted": st.builds(
        OwnershipGranted,
        incarnation=st.just("inc-1"),
        owner_epoch=st.integers(1, 9),
        worker=st.sampled_from(WORKERS),
        cause=st.sampled_from(get_args(Cause)),
    ),
    "Checkpoint": st.builds(
        Checkpoint,
        covers=st.integers(0, 40),
        chain=digests,
        manifest=digests,
        generation=st.integers(0, 3),
        checkpoint_seq=st.integers(1, 4),
    ),
    "Resumed": st.builds(
        Resumed,
        target=st.integers(0, 40),
        base_checkpoint=maybe(st.sampled_from(["0.1", "1.2", "2.1", "3.4", "9.9"])),
        abandoned_from=maybe(st.integers(1, 40)),
        set_back=maybe(
            st.builds(
                SetBack,
                step=st.integers(0, 9),
                plan_revision=st.integers(0, 9),
                plan=plan_items,
                context_invocation_id=maybe(st.sampled_from(INVOCATIONS)),
                workspace=maybe(st.just("root-1")),
            )
        ),
    ),
    "Forked": st.builds(
        Forked, parent=texts, boundary=st.integers(0, 40), chain=digests, intervention=json_values
    ),
    "Unparsed": st.builds(Unparsed, where=texts, why=texts),
}
notes = st.dictionaries(texts, json_values, max_size=3)


@dataclass(slots=True)
class Said:
    """One event as a producer says it, with who says it."""

    type: str
    payload: Payload | dict[str, Any] | bytes
    issuer: Issuer = "worker"
    worker: str | None = "w-1"
    event_id: str | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None
    step: int | None = None
    occurred_at: int | None = None
    schema_version: int = 1
    refs: tuple[BlobRef, ...] = ()


@dataclass(slots=True)
class Log:
    """Stored events with their payloads; `blobs` holds those that lie in no row."""

    trajectory_id: str
    events: list[Event] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def pairs(self) -> list[tuple[Event, Any]]:
        return list(zip(self.events, self.payloads, strict=True))

    def read(self, event: Event) -> bytes:
        assert event.payload_ref is not None
        return self.blobs[event.payload_ref.digest]


def new_event(said: Said, number: int, *, inline_max: int = PAYLOAD_INLINE_BYTES_MAX) -> NewEvent:
    """What a producer would send; its payload lies in a blob beyond `inline_max` bytes."""
    data = payload_bytes(said)
    ref = None
    if len(data) > inline_max:
        ref = BlobRef("sha256:" + sha256(data).hex(), len(data), media_type="application/json")
    return NewEvent(
        event_id=said.event_id or f"e-{number}",
        type=said.type,
        schema_version=said.schema_version,
        payload=None if ref is not None else data,
        payload_ref=ref,
        occurred_at=said.occurred_at,
        step=said.step,
        operation_id=said.operation_id,
        attempt_id=said.attempt_id,
        invocation_id=said.invocation_id,
        refs=said.refs,
    )


def payload_bytes(said: Said) -> bytes:
    if isinstance(said.payload, bytes):
        return said.payload
    if isinstance(said.payload, dict):
        from core.canonical import canonical

        return canonical(said.payload)
    return registry.encode(said.payload)


def store(
    said: Iterable[Said],
    *,
    trajectory_id: str = TRAJECTORY,
    inline_max: int = PAYLOAD_INLINE_BYTES_MAX,
) -> Log:
    """The log a store makes of what was said, stamped and chained as the contract has it."""
    log = Log(trajectory_id)
    chain = chain_start(trajectory_id)
    owner_epoch, control_epoch, record_version = 0, 0, 0
    for number, one in enumerate(said, start=1):
        new = new_event(one, number, inline_max=inline_max)
        data = payload_bytes(one)
        known = registry.is_known(one.type, one.schema_version)
        payload = registry.decode(one.type, one.schema_version, data) if known else None
        if new.payload_ref is not None:
            log.blobs[new.payload_ref.digest] = data
        if isinstance(payload, OwnershipGranted):
            owner_epoch = max(owner_epoch, payload.owner_epoch)
        identity = payload_identity(new)
        digest = event_digest(trajectory_id, new, identity)
        stamps: dict[str, Any] = {
            "sequence_number": number,
            "recorded_at": 1_700_000_000_000_000 + number * 1_000,
            "issuer": one.issuer,
            "owner_epoch": owner_epoch,
            "worker": one.worker,
            "control_epoch": control_epoch,
            "record_version": record_version,
            "reducer_version": REDUCER_VERSION,
        }
        chain = chain_value(chain, digest, **stamps)
        event = Event(
            trajectory_id=trajectory_id,
            event_id=new.event_id,
            type=new.type,
            schema_version=new.schema_version,
            digest=digest,
            chain=chain,
            payload_digest=identity[0],
            payload_length=identity[1],
            payload=new.payload,
            payload_ref=new.payload_ref,
            occurred_at=new.occurred_at,
            step=new.step,
            operation_id=new.operation_id,
            attempt_id=new.attempt_id,
            invocation_id=new.invocation_id,
            refs=new.refs,
            **stamps,
        )
        _, guarded, controls = classify(event, payload)
        record_version += guarded
        control_epoch += controls
        log.events.append(event)
        log.payloads.append(payload)
    return log


@st.composite
def said(draw: st.DrawFn, *, unknown: bool = False) -> Said:
    """One event of any family or a note, by any issuer; now and then of an unknown type."""
    kinds = [*PAYLOADS, *PAYLOADS, "note.remark", *(["FromTheFuture"] if unknown else [])]
    type_ = draw(st.sampled_from(kinds))
    payload: Any
    if type_ in PAYLOADS:
        payload = draw(PAYLOADS[type_])
    else:
        payload = draw(notes)
    about_tool = type_ in ("ToolIntent", "ToolResult", "Authorized")
    about_model = type_ in ("ContextBuilt", "ModelReplied")
    either = type_ in ("BudgetReserved", "BudgetSettled")
    tool = about_tool or (either and draw(st.booleans()))
    return Said(
        type=type_,
        payload=payload,
        issuer=draw(st.sampled_from(ISSUERS)),
        worker=draw(maybe(st.sampled_from(WORKERS))),
        operation_id=draw(maybe(operations) if not about_tool else operations)
        if tool or type_.startswith("Approval")
        else None,
        attempt_id=draw(maybe(st.sampled_from(ATTEMPTS))) if tool else None,
        invocation_id=draw(st.sampled_from(INVOCATIONS))
        if about_model or (either and not tool)
        else None,
        step=draw(maybe(st.integers(0, 9))) if about_model else None,
        occurred_at=draw(maybe(instants)),
    )


@st.composite
def any_log(
    draw: st.DrawFn, *, max_size: int = 40, unknown: bool = False, inline_max: int | None = None
) -> Log:
    """Any order of any events."""
    events = draw(st.lists(said(unknown=unknown), max_size=max_size))
    bound = PAYLOAD_INLINE_BYTES_MAX if inline_max is None else inline_max
    return store(events, inline_max=bound)


def plausible(length: int, seed: int = 0, *, standing: Standing = "reported") -> list[Said]:
    """A run that could have happened, of `length` events: turns of context, reply, settlement,
    intent and result, with retries, refusals, late and missing results, pauses and plans."""
    chance = random.Random(seed)
    out = [
        Said(
            "TaskStarted",
            TaskStarted(
                title=f"run {seed}", standing=standing, limits=(Limit("usd", "nano_usd", 10**12),)
            ),
            issuer="service",
            worker=None,
        ),
        Said("OwnershipGranted", OwnershipGranted("inc-1", 1, "w-1", "start"), issuer="service"),
    ]
    late: list[Said] = []
    step = 0
    while len(out) < length:
        step += 1
        out.extend(_turn(chance, step, late))
        if late and chance.random() < 0.2:
            out.append(late.pop(0))
        if chance.random() < 0.02:
            out.append(Said("ControlChanged", ControlChanged("PAUSED", "RUNNING", reason="asked")))
            out.append(Said("ControlChanged", ControlChanged("RUNNING", "PAUSED")))
        if chance.random() < 0.02:
            out.append(Said("PlanChanged", PlanChanged(step, (PlanItem("a", f"step {step}"),))))
        if chance.random() < 0.02:
            out.append(Said("Compacted", Compacted("earlier turns")))
        if chance.random() < 0.01:
            out.append(Said("note.remark", {"step": step}))
    return out[:length]


def _turn(chance: random.Random, step: int, late: list[Said]) -> list[Said]:
    invocation, operation = f"inv-{step}", f"op-{step}"
    digest = "sha256:" + sha256(str(step).encode()).hex()
    at = {"step": step}
    turn = [
        Said(
            "ContextBuilt",
            ContextBuilt(digest, step * 2, messages=(MessageRef("user", digest, 40),)),
            invocation_id=invocation,
            **at,
        ),
        Said(
            "BudgetReserved",
            BudgetReserved((Charge("usd", "nano_usd", 5_000),)),
            invocation_id=invocation,
            **at,
        ),
    ]
    if chance.random() < 0.97:
        usage = Usage(100 + step, 20, 5, 0) if chance.random() < 0.9 else None
        reply = ModelReplied("completed", "model-1", "text " * 20, usage=usage)
        turn.append(Said("ModelReplied", reply, invocation_id=invocation, **at))
        settled = BudgetSettled((Actual("usd", "nano_usd", 3_000 + step % 3_000),), "invocation")
        turn.append(Said("BudgetSettled", settled, invocation_id=invocation, **at))
    turn.append(
        Said(
            "ToolIntent",
            ToolIntent("proposal", "bash", arguments={"command": f"run {step}"}),
            operation_id=operation,
            attempt_id="1",
            **at,
        )
    )
    status = chance.choice(["succeeded"] * 8 + ["failed", "timeout"])
    result = Said(
        "ToolResult",
        ToolResult(status, "sender", observation="out " * 10),
        operation_id=operation,
        attempt_id="1",
        **at,
    )
    if chance.random() < 0.9:
        turn.append(result)
        if status == "failed" and chance.random() < 0.5:
            turn.append(
                Said(
                    "ToolIntent",
                    ToolIntent("proposal", "bash", arguments={"command": f"run {step}"}),
                    operation_id=operation,
                    attempt_id="2",
                    **at,
                )
            )
    elif chance.random() < 0.6:
        late.append(result)
    return turn
