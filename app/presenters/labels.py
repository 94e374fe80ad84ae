"""One line for every event: its family (which is its colour and lane) and a short text.

Texts come from the payload of that event alone, so that a line never says what was learned after
it. Untrusted words are cut to one line here and made visible; templates escape them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from app.presenters.format import amount, count, plural, short_digest, short_id
from app.presenters.terminal import one_line
from core.events.admission import Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.branch import Forked
from core.events.checkpoint import Checkpoint
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, PlanChanged
from core.events.envelope import Event
from core.events.fields import Charge, WorkspaceChange
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import OwnershipGranted, Resumed
from core.events.source import Unparsed
from core.events.task import TaskStarted
from core.events.tool import SETTLING, ToolIntent, ToolResult

Family = Literal["model", "tool", "control", "approval", "budget", "ckpt", "doubt", "bad", "input"]

FAMILY: dict[str, Family] = {
    "TaskStarted": "control",
    "ContextBuilt": "model",
    "ModelReplied": "model",
    "Authorized": "control",
    "BudgetReserved": "budget",
    "BudgetSettled": "budget",
    "ToolIntent": "tool",
    "ToolResult": "tool",
    "ControlChanged": "control",
    "PlanChanged": "control",
    "ApprovalRequested": "approval",
    "ApprovalResolved": "approval",
    "Compacted": "budget",
    "RuntimeInput": "input",
    "OwnershipGranted": "control",
    "Checkpoint": "ckpt",
    "Resumed": "control",
    "Forked": "control",
    "Unparsed": "bad",
}

#: The argument that says most about a call, tried in this order.
TELLING = ("command", "cmd", "path", "file_path", "filename", "query", "pattern", "url", "code")


@dataclass(frozen=True, slots=True)
class Line:
    """What a list shows of one event."""

    type: str
    family: Family
    text: str
    error: bool = False
    """A failure the event itself states: the square is crossed."""


def line(event: Event, payload: object) -> Line:
    """The line of one event; `payload` is None where this version does not know the type."""
    if payload is None:
        return Line(
            event.type, "bad", f"version {event.schema_version}, not known to this version", True
        )
    if isinstance(payload, Mapping):
        return Line(event.type, "input", _mapping(payload))
    describe = _DESCRIBE.get(type(payload))
    family = FAMILY.get(event.type, "input")
    text, error = describe(event, payload) if describe else ("", False)
    return Line(event.type, "bad" if error else family, text, error)


def unreadable(event: Event, why: str) -> Line:
    """The line of an event whose payload cannot be read; missing is not empty."""
    return Line(event.type, "bad", one_line(why), True)


def telling(arguments: object) -> str:
    """The most telling words of a call's arguments, on one line."""
    if isinstance(arguments, Mapping):
        for key in TELLING:
            value = arguments.get(key)
            if isinstance(value, str) and value.strip():
                return one_line(value, 120)
            if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
                return one_line(" ".join(value), 120)
        return _mapping(arguments)
    return one_line(arguments, 120) if isinstance(arguments, str) else ""


#: Lines of an output that say nothing: brackets, the return code that stands beside it anyway.
_EMPTY_LINE = re.compile(
    r"[\s{}\[\](),]*|</?\w+>|<returncode>.*|\s*\"?(returncode|exit_code)\"?\s*:.*"
)
#: Keys under which tools put what they printed.
_OUTPUTS = ("output", "stdout", "content", "text", "result", "stderr", "exception_info")


def gist(text: str, limit: int = 70) -> str:
    """The first line of an output that says something; JSON and tags around it are looked into."""
    head = text[:4000]
    if head.lstrip().startswith("{") and len(text) <= len(head):
        try:
            value = orjson.loads(head)
        except orjson.JSONDecodeError:
            value = None
        if isinstance(value, dict):
            for key in _OUTPUTS:
                if isinstance(value.get(key), str) and value[key].strip():
                    return one_line(value[key], limit)
            return one_line(_mapping(value), limit)
    for line_ in head.split("\n", 40)[:40]:
        if not _EMPTY_LINE.fullmatch(line_):
            return one_line(line_, limit)
    return ""


def tokens(usage: object) -> str:
    """Tokens of one reply in short: `412 out · 31,204 in`."""
    parts = []
    for name, label in (("output", "out"), ("input", "in"), ("cache_read", "cached")):
        value = getattr(usage, name, None)
        if value:
            parts.append(f"{count(value)} {label}")
    return " · ".join(parts)


def _mapping(value: Mapping[Any, Any]) -> str:
    shown = []
    for key, item in list(value.items())[:4]:
        short = one_line(item, 40) if isinstance(item, str) else _brief(item)
        shown.append(f"{one_line(str(key), 30)}={short}")
    return one_line(" ".join(shown), 120)


#: A name as programs write it: its words.
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^A-Za-z0-9_.-]+")
#: Ids, which say nothing to a reader, and what is told in numbers of no unit.
_NO_WORD = re.compile(r"(^|_)(id|ids|uuid|nanos|secs|ms)$|I[dD]s?$|Uuid$|Ms$")
_FIRST = ("type", "kind", "status")
_DEEP = 3
_STATED = 3


def in_words(name: str) -> str:
    """`item_completed` or `UserMessage` as words; what is words already stays."""
    text = one_line(name, 40)
    if " " in text or not text.isascii():
        return text
    return " ".join(w if w.isupper() else w.lower() for w in _WORDS.findall(text)) or text


def stated(values: Mapping[Any, Any]) -> str:
    """The first few things that nested values state, as `name value`; ids are left out."""
    said: list[str] = []
    waiting: list[tuple[Mapping[Any, Any], int]] = [(values, 1)]
    while waiting and len(said) < _STATED:
        inner, depth = waiting.pop(0)
        first = sorted(list(inner.items())[:12], key=lambda item: item[0] not in _FIRST)
        for key, value in first:
            if isinstance(value, Mapping):
                if depth < _DEEP:
                    waiting.append((value, depth + 1))
            elif value not in (None, "") and not _NO_WORD.search(str(key)) and len(said) < _STATED:
                if isinstance(value, list | tuple):
                    shown = f"{len(value)} listed" if value else "none"
                else:
                    shown = one_line(value, 40) if isinstance(value, str) else _brief(value)
                said.append(f"{in_words(str(key))} {shown}")
    return one_line(" · ".join(said), 120)


def _brief(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{len(value)}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}"
    return "null" if value is None else str(value)


def _join(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)


def _task(event: Event, p: TaskStarted) -> tuple[str, bool]:
    return _join(one_line(p.title, 100), p.agent and one_line(p.agent, 40)), False


def _context(event: Event, p: ContextBuilt) -> tuple[str, bool]:
    new = len(p.messages)
    return _join(
        plural(p.count, "message"),
        f"{new} new" if p.kept and new else None,
        f"{count(p.input_tokens)} tokens" if p.input_tokens is not None else None,
        f"{count(p.dropped)} dropped" if p.dropped else None,
        p.claim,
        f"asks {short_id(p.retry_of)} again" if p.retry_of else None,
    ), False


def _reply(event: Event, p: ModelReplied) -> tuple[str, bool]:
    if p.status == "error":
        return _join("error", one_line(p.error or "", 100)), True
    calls = list(dict.fromkeys(one_line(call.tool, 40) for call in p.tool_calls))
    number = len(p.tool_calls)
    said = one_line(p.text or "", 70)
    return _join(
        None if p.status == "completed" else p.status,
        ("tool call " if number == 1 else f"{number} tool calls ") + ", ".join(calls[:3])
        if calls
        else None,
        said or None,
        tokens(p.usage) or None,
        "not accepted" if p.rejected else None,
    ), False


def _authorized(event: Event, p: Authorized) -> tuple[str, bool]:
    named = event.operation_id or event.invocation_id
    return _join(
        f"{p.decision}{' ' + short_id(named) if named else ''}",
        f"by policy {one_line(p.policy_version, 30)}" if p.policy_version else None,
        one_line(p.reason or "", 60) or None,
    ), p.decision == "denied"


def _charges(charges: tuple[Charge, ...]) -> str:
    return ", ".join(amount(charge.amount, charge.unit) for charge in charges[:4])


def _reserved(event: Event, p: BudgetReserved) -> tuple[str, bool]:
    what = "model call" if event.invocation_id else "attempt"
    return _join(
        f"{what} ≤ {_charges(p.bounds)}", "finalization" if p.finalization else None
    ), False


def _settled(event: Event, p: BudgetSettled) -> tuple[str, bool]:
    actual = ", ".join(amount(used.amount, used.unit) for used in p.actual[:4])
    return _join(
        actual or "nothing used",
        "overrun" if any(used.overrun for used in p.actual) else None,
        None if p.final else "more is owed",
        "whole run" if p.scope == "trajectory" else None,
    ), False


def _intent(event: Event, p: ToolIntent) -> tuple[str, bool]:
    return _join(
        f"{one_line(p.tool, 40)} {telling(p.arguments)}".strip(),
        "proposal" if p.kind == "proposal" else None,
        f"undoes {short_id(p.compensates)}" if p.compensates else None,
    ), False


def _result(event: Event, p: ToolResult) -> tuple[str, bool]:
    said = gist(p.error or p.observation or "")
    return _join(
        p.status,
        f"exit {p.exit_code}" if p.exit_code is not None else None,
        changed(p.workspace),
        said or None,
        "delivered text was cut" if not p.observation_complete else None,
        f"job {one_line(p.job_handle, 40)}" if p.job_handle else None,
        "settles nothing" if p.status not in SETTLING else None,
    ), p.status == "failed"


def changed(change: WorkspaceChange | None) -> str | None:
    """How many files an event says it changed, or None where it says nothing of them."""
    return plural(len(change.changes), "file") + " changed" if change is not None else None


#: Words of sessions for a turn's beginning and end, which pause and resume nothing.
TURNS = {
    "task_started": "turn began",
    "turn_started": "turn began",
    "turn.started": "turn began",
    "task_complete": "turn ended",
    "turn_complete": "turn ended",
    "turn.completed": "turn ended",
    "turn.failed": "turn failed",
    "turn_aborted": "turn broken off",
}


def turn_of(event: Event, p: ControlChanged) -> str:
    """What a turn of an imported session did here; empty where the event says something else."""
    return TURNS.get(p.detail or "", "") if event.issuer == "importer" else ""


def _control(event: Event, p: ControlChanged) -> tuple[str, bool]:
    if turn := turn_of(event, p):
        return _join(turn, one_line(p.reason or "", 80) or None), p.detail == "turn.failed"
    arrow = f"{p.from_state} → {p.to_state}" if p.from_state else p.to_state
    said = _join(one_line(p.detail or "", 40) or None, one_line(p.reason or "", 80) or None)
    return _join(arrow, said or None), p.to_state == "FAILED"


def _plan(event: Event, p: PlanChanged) -> tuple[str, bool]:
    done = sum(1 for item in p.items if item.status == "done")
    return f"revision {p.revision} · {plural(len(p.items), 'item')}, {done} done", False


def _requested(event: Event, p: ApprovalRequested) -> tuple[str, bool]:
    return _join(
        f"{short_id(p.approval_id)} {one_line(p.tool, 40)}",
        f"held for {one_line(p.reviewer, 40)}" if p.reviewer else "held",
    ), False


def _resolved(event: Event, p: ApprovalResolved) -> tuple[str, bool]:
    return _join(
        f"{short_id(p.approval_id)} {p.decision}",
        f"by {one_line(p.reviewer, 40)}" if p.reviewer else None,
        "too late" if p.too_late else None,
    ), False


def _compacted(event: Event, p: Compacted) -> tuple[str, bool]:
    span = (
        f"{count(p.first_sequence)} to {count(p.last_sequence)}"
        if p.first_sequence and p.last_sequence
        else None
    )
    return _join(span, one_line(p.summary, 90) or None), False


def _input(event: Event, p: RuntimeInput) -> tuple[str, bool]:
    said = one_line(p.text or "", 90)
    if not said and isinstance(p.values, Mapping):
        said = stated(p.values)
    return _join(in_words(p.kind), said or None, changed(p.workspace)), False


def _ownership(event: Event, p: OwnershipGranted) -> tuple[str, bool]:
    return f"generation {p.owner_epoch} to {one_line(p.worker, 40)} · {p.cause}", False


def _checkpoint(event: Event, p: Checkpoint) -> tuple[str, bool]:
    return (
        f"{p.generation}.{p.checkpoint_seq} covers {count(p.covers)} · {short_digest(p.manifest)}"
    ), False


def _resumed(event: Event, p: Resumed) -> tuple[str, bool]:
    abandoned = (
        f"fell back, abandoned from {count(p.abandoned_from)}"
        if p.abandoned_from
        else "nothing abandoned"
    )
    base = f"from {one_line(p.base_checkpoint, 20)}, " if p.base_checkpoint else ""
    return f"{base}target {count(p.target)}, {abandoned}", False


def _forked(event: Event, p: Forked) -> tuple[str, bool]:
    return _join(
        f"from {short_id(p.parent)} at {count(p.boundary)}", one_line(p.reason or "", 60) or None
    ), False


def _unparsed(event: Event, p: Unparsed) -> tuple[str, bool]:
    return _join(one_line(p.where, 60), one_line(p.why, 80)), True


_DESCRIBE: dict[type[Any], Callable[[Event, Any], tuple[str, bool]]] = {
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


def describes() -> frozenset[type[Any]]:
    """The payload classes that have a line; a test compares them with the registry."""
    return frozenset(_DESCRIBE)
