"""Payloads as blocks a template can show: one function per family, none of which may hide data.

A function gets the typed payload and a reader for blobs, and gives blocks. If it fails, the page
still shows the raw JSON and says so. Everything untrusted goes through app.presenters.terminal,
is cut at its bound with its size, and is escaped by the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import orjson

from app.presenters import diffs
from app.presenters.diffs import Run, looks_like_diff
from app.presenters.format import amount, count, exact, outcome, plural, short_digest, size
from app.presenters.labels import turn_of
from app.presenters.messages import ToolOf, said
from app.presenters.terminal import Shown, one_line, plain, terminal
from core.events.admission import Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.branch import Forked
from core.events.checkpoint import Checkpoint
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, PlanChanged
from core.events.envelope import Event
from core.events.fields import MessageRef, Usage, WorkspaceChange
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import OwnershipGranted, Resumed
from core.events.source import Unparsed
from core.events.task import TaskStarted
from core.events.tool import SETTLING, ToolIntent, ToolResult
from core.limits import DISPLAY_CHARS_MAX

#: Characters shown of one message of a delivered input; the whole is a link away.
MESSAGE_CHARS = 3000
#: Messages of one input that are shown; a delta is rarely more than four.
MESSAGES_MAX = 24
ROWS_MAX = 60

Kind = Literal["kv", "text", "terminal", "diff", "json", "messages", "table", "note", "prose"]
#: Reads one message: its text, or why it cannot be shown.
Reader = Callable[[MessageRef], "Text"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text that was read, or the reason it is absent."""

    value: str | None = None
    absent: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """A value that is not there: which of the six absences, and why."""

    kind: Literal["unknown", "expired", "never", "incomparable", "forbidden", "empty"]
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """One term with its value; `code` for ids and bytes; `seq` links to a boundary."""

    name: str
    value: str | Absent
    code: bool = False
    seq: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: str
    shown: Shown | None
    note: str = ""
    absent: Absent | None = None
    href_digest: str | None = None
    raw: Shown | None = None
    """Its bytes, where `shown` says in words what they hold."""


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a payload."""

    kind: Kind
    title: str = ""
    note: str = ""
    rows: tuple[Row, ...] = ()
    shown: Shown | None = None
    runs: tuple[Run, ...] = ()
    messages: tuple[Message, ...] = ()
    head: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    whole: str = ""
    """`payload` where the cut text's whole is this event's payload."""


@dataclass(slots=True)
class Rows:
    """Rows under way: what was not stated gets none, what is absent gets its reason."""

    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, value: object, *, code: bool = False, title: str = "") -> None:
        """A row, unless the value was not stated."""
        if value is None or value in ("", ()):
            return
        text = value if isinstance(value, str) else _plain_value(value)
        self.rows.append(Row(name, one_line(text, 400), code=code, title=title))

    def instant(self, name: str, value: int | None) -> None:
        if value is not None:
            self.rows.append(Row(name, exact(value)))

    def digest(self, name: str, value: str | None) -> None:
        if value is not None:
            self.rows.append(Row(name, short_digest(value), code=True, title=value))

    def boundary(self, name: str, value: int | None) -> None:
        if value:
            self.rows.append(Row(name, count(value), seq=value))

    def absent(self, name: str, kind: Any, reason: str) -> None:
        self.rows.append(Row(name, Absent(kind, reason)))

    def block(self, title: str = "") -> list[Block]:
        return [Block("kv", title, rows=tuple(self.rows))] if self.rows else []


def _plain_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return compact_json(value)


def compact_json(value: object) -> str:
    """A value as one line of JSON."""
    return orjson.dumps(msgspec.to_builtins(value), option=orjson.OPT_NON_STR_KEYS).decode()


def pretty_json(value: object) -> str:
    """A value as indented JSON."""
    return orjson.dumps(
        msgspec.to_builtins(value), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    ).decode()


def text_block(title: str, text: str | None, *, note: str = "", ansi: bool = False) -> list[Block]:
    """A long text as terminal output, a diff or prose; nothing where none was stated."""
    if text is None:
        return []
    if text == "":
        return [Block("note", title, note="empty: 0 characters were recorded")]
    if looks_like_diff(text):
        part = text[:DISPLAY_CHARS_MAX]
        shown = Shown((), len(text), len(part))
        return [
            Block("diff", title, note=note, runs=diffs.runs(part), shown=shown, whole="payload")
        ]
    shown = terminal(text) if ansi else plain(text)
    kind: Kind = "terminal" if ansi else "prose"
    return [Block(kind, title, note=note, shown=shown, whole="payload")]


def json_block(title: str, value: object) -> list[Block]:
    """A value as indented JSON, cut at the display bound."""
    return [Block("json", title, shown=plain(pretty_json(value)), whole="payload")]


def _no_tool(_call_id: str) -> str:
    return ""


def blocks(
    event: Event, payload: object, read: Reader, tool_of: ToolOf = _no_tool
) -> tuple[Block, ...]:
    """The blocks of one event. `tool_of` names the tool of a call id. Raises nothing that a
    payload of the registry can cause."""
    if payload is None:
        return (
            Block(
                "note",
                "Not known to this version",
                note=f"{one_line(event.type)} version {event.schema_version} is kept byte for byte "
                "and shown raw. Boundaries from here on are not reconstructed by this version.",
            ),
        )
    if isinstance(payload, Mapping):
        return tuple(json_block("Note", payload))
    if isinstance(payload, ContextBuilt):
        return tuple(_context(event, payload, read, tool_of))
    show = SHOW.get(type(payload))
    if show is None:
        return tuple(json_block(event.type, payload))
    found = tuple(show(event, payload, read))
    return found or (Block("note", note="Its payload states nothing beyond the envelope."),)


# ---- one function per family -------------------------------------------------------------


def _task(event: Event, p: TaskStarted, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Standing", p.standing)
    rows.add("Agent", p.agent)
    rows.add("Source", p.source)
    rows.add("Model", p.model, code=True)
    rows.add("Requester", p.requester)
    if p.parent is not None:
        rows.add(
            "Part of",
            f"{p.parent.trajectory_id}, operation {p.parent.operation_id or 'not stated'}",
            code=True,
        )
    if p.restart is not None:
        rows.add("Restart from", p.restart.description)
        rows.add("Revision", p.restart.revision, code=True)
    rows.instant("Deadline", p.deadline_at)
    rows.instant("Finalization deadline", p.finalization_deadline_at)
    rows.add("Workspace", p.workspace, code=True)
    rows.add("Checkpoint slots", p.checkpoint_slots)
    for limit in p.limits:
        reserve = (
            f", {amount(limit.finalization_reserve, limit.unit)} kept for finalization"
            if limit.finalization_reserve
            else ""
        )
        rows.add(
            f"Ceiling {one_line(limit.resource, 30)}", amount(limit.ceiling, limit.unit) + reserve
        )
    for key, value in list((p.labels or {}).items())[:20]:
        rows.add(one_line(key, 40), value)
    found = rows.block()
    found += text_block("Task", p.task)
    capabilities = [
        (name.replace("_", " "), str(getattr(p.capabilities, name)).replace("_", " "))
        for name in p.capabilities.__struct_fields__
    ]
    found.append(
        Block("table", "What the source has", head=("Part", "Held"), cells=tuple(capabilities))
    )
    if p.configuration:
        found += json_block("Configuration", p.configuration)
    return found


def _context(
    event: Event, p: ContextBuilt, read: Reader, tool_of: ToolOf = _no_tool
) -> list[Block]:
    rows = Rows()
    rows.add("Model", p.model, code=True)
    rows.add("Messages", f"{count(p.count)} in all, {count(p.kept)} kept from an earlier call")
    if p.base_invocation_id:
        rows.add("Extends", p.base_invocation_id, code=True)
    rows.add("Input tokens", p.input_tokens)
    rows.add("Dropped", p.dropped or None)
    rows.add("Redactions", p.redactions or None)
    rows.add("Asks again", p.retry_of, code=True)
    rows.add("How exact", CLAIMS.get(p.claim, p.claim))
    rows.digest("Manifest", p.manifest_digest)
    rows.digest("Request as sent", p.wire_digest)
    if p.wire_digest is None:
        rows.absent("Request as sent", "never", "not recorded: its digest was not stated")
    found = rows.block()
    messages = [_message(ref, read, tool_of) for ref in p.messages[-MESSAGES_MAX:]]
    note = ""
    if p.kept:
        note = f"{plural(p.kept, 'earlier message')} unchanged, not repeated here"
    if len(p.messages) > MESSAGES_MAX:
        note += f"; the last {MESSAGES_MAX} of {len(p.messages)} are shown"
    if messages:
        found.append(
            Block("messages", "Delivered with this call", note=note, messages=tuple(messages))
        )
    elif p.kept:
        found.append(Block("note", "Delivered with this call", note=note))
    if p.tools:
        cells = tuple(
            (one_line(tool.text or tool.role, 60), size(tool.length), short_digest(tool.digest))
            for tool in p.tools[:ROWS_MAX]
        )
        found.append(
            Block("table", "Tools described", head=("Tool", "Size", "Digest"), cells=cells)
        )
    if p.request:
        found += json_block("Request", p.request)
    return found


CLAIMS = {
    "exact": "exact: rebuilds the request body as sent",
    "rebuilt": "rebuilt: the parts are known, the bytes as sent are not",
    "partial": "partial: some of what was sent is not known",
}


def _message(ref: MessageRef, read: Reader, tool_of: ToolOf) -> Message:
    text = Text(ref.text) if ref.text is not None else read(ref)
    where = ref.blob or ref.digest
    if text.value is None:
        kind: Any = text.absent or "unknown"
        return Message(
            one_line(ref.role, 20), None, size(ref.length), Absent(kind, text.reason), where
        )
    shown = terminal(text.value, MESSAGE_CHARS)
    told = said(text.value, tool_of)
    if told is None:
        return Message(one_line(ref.role, 20), shown, size(ref.length), None, ref.blob)
    words = terminal(told.text, MESSAGE_CHARS)
    return Message(one_line(ref.role, 20), words, size(ref.length), None, ref.blob, shown)


def usage_rows(rows: Rows, usage: Usage | None) -> None:
    """The four disjoint kinds of tokens, each stated or said not to be."""
    if usage is None:
        rows.absent("Tokens", "never", "not reported with this reply")
        return
    for name, label in (
        ("input", "Input tokens, uncached"),
        ("cache_read", "Read from cache"),
        ("cache_write", "Written to cache"),
        ("output", "Output tokens"),
    ):
        value = getattr(usage, name)
        if value is not None:
            rows.add(label, value)


def _reply(event: Event, p: ModelReplied, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Status", p.status)
    rows.add("Model", p.model, code=True)
    rows.add("Finish reason", p.finish_reason)
    usage_rows(rows, p.usage)
    if p.attempts is None:
        rows.absent("Transport attempts", "never", "unobserved: the source does not count them")
    else:
        rows.add("Transport attempts", p.attempts)
    rows.add("Asks again", p.retry_of, code=True)
    rows.add("Response id", p.response_id, code=True)
    rows.add("Not accepted", p.rejected)
    for gap in p.gaps[:10]:
        rows.absent("Gap", "never", one_line(gap, 160))
    found = text_block("Error", p.error, ansi=True)
    found += text_block("Reply", p.text)
    found += text_block("Reasoning", p.reasoning)
    if p.text is None and not p.tool_calls and p.error is None:
        found.append(Block("note", "Reply", note="no text and no tool call was recorded"))
    if p.tool_calls:
        cells = tuple(
            (
                one_line(c.tool, 60),
                one_line(c.operation_id or "not named", 60),
                one_line(c.call_id or "none", 60),
            )
            for c in p.tool_calls[:ROWS_MAX]
        )
        found.append(
            Block("table", "Asks for", head=("Tool", "Operation", "Provider's id"), cells=cells)
        )
    found += rows.block("Call")
    if p.usage_raw:
        found += json_block("Usage as the provider wrote it", p.usage_raw)
    if p.provider:
        found += json_block("Provider", p.provider)
    return found


def _intent(event: Event, p: ToolIntent, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Tool", p.tool + (f", version {p.tool_version}" if p.tool_version else ""))
    rows.add("Kind", KINDS[p.kind])
    rows.add("Not shown by the source", p.claim)
    rows.add("Input revision", p.input_revision, code=True)
    rows.add("Requester", p.requester)
    rows.instant("Deadline", p.deadline_at)
    rows.add("Authorized by", p.authorization_event, code=True)
    rows.add("Reserved by", p.reservation_event, code=True)
    rows.add("Depends on", p.depends_on)
    rows.add("Operation id travels in", p.id_travels)
    rows.add("Undoes", p.compensates, code=True)
    rows.add("Provider's id", p.call_id, code=True)
    return _arguments(p.arguments) + rows.block("Call")


KINDS = {
    "intent": "intent: durable before it could be sent",
    "proposal": "proposal: the model asked for it; whether it was sent, its result says or nothing",
}


def _arguments(arguments: object) -> list[Block]:
    """Arguments: long texts in full as they read, the rest as JSON."""
    if not isinstance(arguments, Mapping):
        return json_block("Arguments", arguments) if arguments is not None else []
    found: list[Block] = []
    rest: dict[str, object] = {}
    for key, value in arguments.items():
        if isinstance(value, str) and (
            "\n" in value or len(value) > 60 or key in ("command", "cmd")
        ):
            found += text_block(one_line(str(key), 60), value, ansi=True)
        else:
            rest[str(key)] = value
    return found + (json_block("Arguments", rest) if rest else [])


def _result(event: Event, p: ToolResult, read: Reader) -> list[Block]:
    rows = Rows()
    settles = "settles" if p.status in SETTLING else "settles nothing"
    if p.covers:
        rows.add("Status", outcome(p.status, p.covers))
        rows.add("Settles", "for that alone" if p.status in SETTLING else "nothing")
    else:
        rows.add("Status", f"{p.status}, {settles}")
    rows.add("Basis", BASES[p.basis])
    rows.add("Exit code", p.exit_code)
    rows.add("Input revision", p.input_revision, code=True)
    rows.add("Job", p.job_handle, code=True)
    rows.add("Proof", p.proof)
    rows.add("Paired with its intent", p.pairing)
    rows.add("Ends the dispute for", p.holds, code=True)
    found = text_block("Error", p.error, ansi=True)
    note = "" if p.observation_complete else "the text was already cut when it was delivered"
    if p.observation_rest:
        note = f"{note}; the rest: {one_line(p.observation_rest, 120)}".removeprefix("; ")
    if p.observation is None:
        if p.error is None:
            found.append(Block("note", "Delivered output", note="none was recorded"))
    else:
        found += text_block("Delivered output", p.observation, note=note, ansi=True)
    found += _workspace(p.workspace)
    return found + rows.block("Evidence")


BASES = {
    "sender": "sender: the reply to this attempt, seen by who sent it",
    "query": "query: the endpoint was asked",
    "callback": "callback: the endpoint's signed answer",
    "operator": "operator: a person's recorded finding",
    "gate": "gate: it was not let out",
}


def _workspace(change: WorkspaceChange | None) -> list[Block]:
    if change is None:
        return []
    rows = Rows()
    rows.add("Root before", change.base, code=True)
    rows.add("Root after", change.after, code=True)
    found = rows.block("Workspace")
    cells = tuple(
        (
            one_line(c.path, 120),
            c.kind,
            size(c.length) if c.length is not None else "size not stated",
            short_digest(c.digest) if c.digest else "no digest",
        )
        for c in change.changes[:ROWS_MAX]
    )
    if cells:
        left_out = len(change.changes) - len(cells)
        found.append(
            Block(
                "table",
                plural(len(change.changes), "file") + " changed",
                head=("Path", "Change", "Size", "Digest"),
                cells=cells,
                note=f"{left_out} more in the raw payload" if left_out else "",
            )
        )
    for c in change.changes[:8]:
        if c.diff:
            found += text_block(one_line(c.path, 120), c.diff)
    return found


def _authorized(event: Event, p: Authorized, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Decision", p.decision)
    rows.add("Policy", p.policy_version)
    rows.add("Basis", p.basis)
    rows.add("Decided by", p.actor)
    rows.add("Reason", p.reason)
    rows.add("Grant", p.grant, code=True)
    rows.instant("Ends", p.ends_at)
    return rows.block("Admission")


def _reserved(event: Event, p: BudgetReserved, read: Reader) -> list[Block]:
    rows = Rows()
    for bound in p.bounds:
        rows.add(f"At most, {one_line(bound.resource, 30)}", amount(bound.amount, bound.unit))
    rows.add("Settled by", p.settlement_owner)
    rows.add("Spends the finalization reserve", p.finalization or None)
    return rows.block("Reserved")


def _settled(event: Event, p: BudgetSettled, read: Reader) -> list[Block]:
    rows = Rows()
    for used in p.actual:
        over = ", above its bound" if used.overrun else ""
        rows.add(f"Used, {one_line(used.resource, 30)}", amount(used.amount, used.unit) + over)
    for left in p.unresolved:
        rows.add(f"Still reserved, {one_line(left.resource, 30)}", amount(left.amount, left.unit))
    rows.add("Is the usage of", p.scope)
    rows.add("Reporting", p.reporting)
    rows.add("Measured by", p.meter)
    rows.add("Settles reservation", p.reservation_event, code=True)
    rows.add("Nothing more is owed", p.final)
    rows.add("Evidence", p.evidence)
    rows.add("Rest settled by", p.settlement_owner)
    return rows.block("Usage")


def _control(event: Event, p: ControlChanged, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("State", f"{p.from_state} → {p.to_state}" if p.from_state else p.to_state)
    rows.add("The source's word", p.detail)
    if turn := turn_of(event, p):
        rows.add("Means", f"{turn}: the session goes on with the next one; nobody paused it")
    rows.add("Asked for by", p.requested_by)
    rows.add("Request", p.request, code=True)
    rows.add("Guards", p.guards)
    rows.add("Results that stay eligible", p.eligible)
    for limit in p.limits:
        rows.add(f"Ceiling {one_line(limit.resource, 30)}", amount(limit.ceiling, limit.unit))
    for key, owner in list((p.owners or {}).items())[:ROWS_MAX]:
        rows.add(f"{one_line(key, 60)} is settled by", owner)
    return (
        rows.block("Control") + text_block("Reason", p.reason) + text_block("Handed in", p.output)
    )


def _plan(event: Event, p: PlanChanged, read: Reader) -> list[Block]:
    cells = tuple(
        (one_line(i.id, 30), i.status, one_line(i.text, 200), ", ".join(i.depends_on) or "nothing")
        for i in p.items[:ROWS_MAX]
    )
    note = one_line(p.reason or "", 200)
    return [
        Block(
            "table",
            f"Plan, revision {p.revision}",
            head=("Item", "Status", "What", "After"),
            cells=cells,
            note=note,
        )
    ]


def _requested(event: Event, p: ApprovalRequested, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Approval", p.approval_id, code=True)
    rows.add("Held action", p.tool + (f", version {p.tool_version}" if p.tool_version else ""))
    rows.digest("Arguments", p.arguments_digest)
    rows.add("Input revision", p.input_revision, code=True)
    rows.add("Policy", p.policy_version)
    for key, value in list((p.versions or {}).items())[:20]:
        rows.add(one_line(key, 40), value)
    rows.add("Held for", p.reviewer)
    rows.instant("Expires", p.expires_at)
    rows.add("Reason", p.reason)
    return rows.block("Held")


def _resolved(event: Event, p: ApprovalResolved, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Approval", p.approval_id, code=True)
    rows.add("Decision", p.decision + (", too late: the permit was out" if p.too_late else ""))
    rows.add("Reviewer", p.reviewer)
    rows.add("Evidence", p.evidence)
    rows.instant("Expires", p.expires_at)
    return rows.block("Decision")


def _compacted(event: Event, p: Compacted, read: Reader) -> list[Block]:
    rows = Rows()
    rows.boundary("From", p.first_sequence)
    rows.boundary("To", p.last_sequence)
    rows.add("Replaces", plural(p.dropped, "message") if p.dropped is not None else None)
    rows.add("Written by", p.written_by, code=True)
    return text_block("Summary", p.summary) + rows.block("Stands for")


def _input(event: Event, p: RuntimeInput, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Kind", p.kind)
    rows.add("Captured for replay", p.captured)
    found = text_block("Message", p.text, ansi=True) + rows.block()
    if p.values is not None:
        found += json_block("Values", p.values)
    return found + _workspace(p.workspace)


def _ownership(event: Event, p: OwnershipGranted, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Generation", p.owner_epoch)
    rows.add("Worker", p.worker, code=True)
    rows.add("Cause", p.cause.replace("_", " "))
    rows.add("Incarnation", p.incarnation, code=True)
    return rows.block("Owner from here on")


def _checkpoint(event: Event, p: Checkpoint, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Checkpoint", f"{p.generation}.{p.checkpoint_seq}")
    rows.boundary("Covers", p.covers)
    rows.digest("Manifest", p.manifest)
    rows.digest("Chain there", p.chain)
    rows.add("Parent", p.parent)
    return rows.block("Published")


def _resumed(event: Event, p: Resumed, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("From checkpoint", p.base_checkpoint)
    rows.boundary("Continues from", p.target)
    rows.boundary("Abandoned from", p.abandoned_from)
    rows.add("Configuration", p.configuration)
    rows.add("Decided by", p.decided_by)
    rows.add("Reason", p.reason)
    rows.digest("Report", p.report_digest)
    found = rows.block("Continuation")
    if p.set_back is not None:
        found += json_block("Set back, by value", p.set_back)
    return found


def _forked(event: Event, p: Forked, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Parent", p.parent, code=True)
    rows.add("At boundary", p.boundary)
    rows.digest("Chain there", p.chain)
    rows.add("Reason", p.reason)
    found = rows.block("Origin")
    return found + (
        json_block("Intervention", p.intervention) if p.intervention is not None else []
    )


def _unparsed(event: Event, p: Unparsed, read: Reader) -> list[Block]:
    rows = Rows()
    rows.add("Where", p.where)
    rows.add("Why", p.why)
    return rows.block("Kept and not read")


SHOW: dict[type[Any], Callable[[Event, Any, Reader], list[Block]]] = {
    TaskStarted: _task,
    ContextBuilt: _context,
    ModelReplied: _reply,
    Authorized: _authorized,
    BudgetReserved: _reserved,
    BudgetSettled: _settled,
    ToolIntent: _intent,
    ToolResult: _result,
    ControlChanged: _control,
    PlanChanged: _plan,
    ApprovalRequested: _requested,
    ApprovalResolved: _resolved,
    Compacted: _compacted,
    RuntimeInput: _input,
    OwnershipGranted: _ownership,
    Checkpoint: _checkpoint,
    Resumed: _resumed,
    Forked: _forked,
    Unparsed: _unparsed,
}


def envelope(event: Event) -> tuple[Row, ...]:
    """The envelope: what the producer stated, then what the store set."""
    rows = Rows()
    rows.add("Event id", event.event_id, code=True)
    rows.add("Type", f"{event.type} version {event.schema_version}")
    if event.occurred_at is None:
        rows.absent("Occurred", "never", "the source states no time")
    else:
        rows.instant("Occurred", event.occurred_at)
    rows.instant("Recorded", event.recorded_at)
    if event.step is None:
        rows.absent("Step", "never", "no step is stated for this event")
    else:
        rows.add("Step", event.step)
    rows.add("Operation", event.operation_id, code=True)
    rows.add("Attempt", event.attempt_id, code=True)
    rows.add("Invocation", event.invocation_id, code=True)
    rows.add("Asserted by", event.issuer)
    owner = f"generation {event.owner_epoch}" if event.owner_epoch else "epoch 0: not under a lease"
    rows.add("Accepted under", owner + (f", {event.worker}" if event.worker else ""))
    rows.add(
        "Decided on",
        f"control epoch {event.control_epoch}, record version {event.record_version}, "
        f"reducer {event.reducer_version}",
    )
    return tuple(rows.rows)


def raw(data: bytes) -> Shown:
    """The payload's own bytes as indented JSON, or as text where they are not JSON."""
    try:
        return plain(pretty_json(orjson.loads(data)))
    except orjson.JSONDecodeError:
        return plain(data[: DISPLAY_CHARS_MAX * 4].decode("utf-8", "replace"))
