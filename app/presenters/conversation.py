"""The log as a conversation: events as a person reads them, who said what to whom.

INVARIANTS
1. An item says what its own event says, never what was learned after it.
2. A message that only brings what stands beside it already, as a result, a reply or the task, is
   left out; one that brings anything else is shown with what it brings.
3. Bounded: TEXT_CHARS of a message, RESULT_CHARS of a result, MESSAGES_MAX messages of an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.presenters import labels, messages
from app.presenters.context import colourless
from app.presenters.format import plural, size
from app.presenters.messages import ToolOf
from app.presenters.payloads import Reader, Text, compact_json
from app.presenters.terminal import Shown, one_line, terminal
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.context import Compacted, RuntimeInput
from core.events.control import TERMINAL, ControlChanged, PlanChanged
from core.events.envelope import Event
from core.events.fields import MessageRef
from core.events.marks import Mark
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.source import Unparsed
from core.events.task import TaskStarted
from core.events.tool import SETTLING, ToolIntent, ToolResult

#: Events that may say something to a reader.
MARKS: tuple[Mark, ...] = (
    Mark.TASK,
    Mark.CONTEXT,
    Mark.REPLY,
    Mark.REPLY_ERROR,
    Mark.INTENT,
    Mark.RESULT,
    Mark.RESULT_ERROR,
    Mark.RESULT_OPEN,
    Mark.CONTROL,
    Mark.CONTROL_FAILED,
    Mark.APPROVAL,
    Mark.COMPACTED,
    Mark.PLAN,
    Mark.INPUT,
    Mark.UNPARSED,
)
TEXT_CHARS = 4_000
RESULT_CHARS = 800
#: Messages of one input that are shown; of a rebuilt input nearly all were said before.
MESSAGES_MAX = 8
#: Inputs of programs that are no message to anybody.
_NAMES = frozenset({"title", "another title", "thread_name_updated"})

Side = Literal["given", "said", "done", "aside"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was said or done."""

    seq: int
    side: Side
    who: str
    family: str
    line: str = ""
    """In one line, where it has no text, or what its folded text is."""
    shown: Shown | None = None
    folded: bool = False
    """Its text is there and closed."""
    why: str = ""
    """Why its text cannot be shown; empty: it is, or there is none."""
    failed: bool = False
    operation_id: str = ""
    """The operation that it asks for."""


@dataclass(slots=True)
class Told:
    """Events in order, told one after the other; what was said before is remembered."""

    read: Reader
    tool_of: ToolOf
    _digests: set[str] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)

    def of(self, event: Event, payload: object) -> list[Item]:
        """The items of one event; none where it says nothing that does not stand here already."""
        tell = _TELL.get(type(payload))
        if tell is None:
            return []
        return list(tell(self, event, payload))

    def known(self, text: str | None) -> bool:
        """Whether a text was told already; from now on it is."""
        key = " ".join((text or "").split())
        if key in self._texts:
            return True
        if key:
            self._texts.add(key)
        return False


def _item(event: Event, side: Side, who: str, family: str, **more: object) -> Item:
    return Item(event.sequence_number, side, who, family, **more)  # type: ignore[arg-type]


def _text(text: str, limit: int = TEXT_CHARS) -> Shown:
    return colourless(terminal(text, limit))


def _task(told: Told, event: Event, p: TaskStarted) -> Iterable[Item]:
    if p.task and not told.known(p.task):
        yield _item(event, "given", "task", "control", shown=_text(p.task))
    elif not p.task:
        yield _item(event, "given", "task", "control", line=one_line(p.title, 200))


def _context(told: Told, event: Event, p: ContextBuilt) -> Iterable[Item]:
    """Messages given here first, but for replies and results, which stand by themselves."""
    fresh = [ref for ref in p.messages if not _seen(told, ref)]
    listed = [item for ref in fresh[-MESSAGES_MAX:] if (item := _given(told, event, ref))]
    if len(fresh) > MESSAGES_MAX:
        left = len(fresh) - MESSAGES_MAX
        said = f"{plural(left, 'earlier message')} of this input: the Context tab lists them"
        yield _item(event, "aside", "input", "model", line=said)
    if p.dropped:
        said = f"{plural(p.dropped, 'message')} left out by the sender from here on"
        yield _item(event, "aside", "input", "model", line=said)
    yield from listed


def _seen(told: Told, ref: MessageRef) -> bool:
    if ref.digest in told._digests:
        return True
    told._digests.add(ref.digest)
    return ref.role in ("assistant", "tool", "function")


def _given(told: Told, event: Event, ref: MessageRef) -> Item | None:
    """One message of an input; None where all of it stands here already."""
    role = one_line(ref.role, 20)
    text = Text(ref.text) if ref.text is not None else told.read(ref)
    if text.value is None:
        return _item(event, "given", role, "input", why=text.reason)
    said = messages.said(text.value, told.tool_of)
    parts = said.parts if said is not None else (messages.Part("", text.value),)
    kept = [
        part
        for part in parts
        if not part.what.startswith(("result", "error")) and not _known_part(told, part)
    ]
    words = "\n\n".join(filter(None, (part.what if not part.text else part.text for part in kept)))
    if not words.strip():
        return None
    system = role in ("system", "developer")
    return _item(
        event,
        "given",
        role,
        "control" if system else "input",
        shown=_text(words),
        folded=system,
        line=f"{one_line(words, 120)} · {size(ref.length)}" if system else "",
    )


def _known_part(told: Told, part: messages.Part) -> bool:
    return part.what == "empty text" or (bool(part.text) and told.known(part.text))


def _reply(told: Told, event: Event, p: ModelReplied) -> Iterable[Item]:
    who = one_line(p.model, 40) if p.model else "model"
    if p.reasoning and p.reasoning.strip():
        line = f"thinking, {plural(len(p.reasoning.split()), 'word')}: {one_line(p.reasoning, 120)}"
        yield _item(event, "said", who, "model", line=line, shown=_text(p.reasoning), folded=True)
    if p.status == "error":
        shown = _text(p.error) if p.error else None
        line = "" if shown else "the call failed"
        yield _item(event, "said", who, "bad", line=line, shown=shown, failed=True)
    elif p.text and p.text.strip():
        told.known(p.text)
        yield _item(event, "said", who, "model", shown=_text(p.text))
    elif not p.tool_calls and not (p.reasoning or "").strip():
        yield _item(event, "said", who, "model", line="no text and no tool call was recorded")


def _intent(told: Told, event: Event, p: ToolIntent) -> Iterable[Item]:
    about = labels.telling(p.arguments)
    whole = p.arguments if isinstance(p.arguments, str) else compact_json(p.arguments)
    longer = p.arguments is not None and len(whole) > len(about) + 40
    yield _item(
        event,
        "done",
        one_line(p.tool, 60),
        "tool",
        line=about or ("no arguments" if not p.arguments else one_line(whole, 120)),
        shown=_text(messages.given_as(p.arguments), RESULT_CHARS) if longer else None,
        folded=True,
        operation_id=event.operation_id or event.event_id,
    )


def _result(told: Told, event: Event, p: ToolResult) -> Iterable[Item]:
    tool = told.tool_of(event.operation_id or "") or "result"
    text = p.error if p.error and not p.observation else p.observation
    said = p.status.replace("_", " ")
    if p.exit_code is not None:
        said += f", exit {p.exit_code}"
    if p.status not in SETTLING:
        said += ", settles nothing"
    change = labels.changed(p.workspace)
    if change:
        said += f", {change}"
    if text:
        told.known(text)
        within = messages.said(text, told.tool_of)
        if within is not None:
            for part in within.parts:
                told.known(part.text)
    shown = _text(text, RESULT_CHARS) if text else None
    yield _item(
        event,
        "given",
        f"{tool} result" if tool != "result" else tool,
        "bad" if p.status == "failed" else "tool",
        line=said if shown else f"{said}, no output",
        shown=shown,
        failed=p.status == "failed",
    )


def _compacted(told: Told, event: Event, p: Compacted) -> Iterable[Item]:
    what = f", in place of {plural(p.dropped, 'message')}" if p.dropped else ""
    told.known(p.summary)
    yield _item(
        event,
        "aside",
        "compaction",
        "budget",
        line=f"a summary stands for what came before{what}: {one_line(p.summary, 120)}",
        shown=_text(p.summary) if p.summary.strip() else None,
        folded=True,
    )


def _input(told: Told, event: Event, p: RuntimeInput) -> Iterable[Item]:
    if p.kind in _NAMES or not p.text or not p.text.strip() or told.known(p.text):
        return
    message = p.kind in ("message", "user_message", "UserMessage", "AgentMessage")
    side: Side = "given" if message else "aside"
    who = "message" if p.kind == "message" else labels.in_words(p.kind)
    if len(p.text) <= 200 and "\n" not in p.text.strip():
        yield _item(event, side, who, "input", line=one_line(p.text, 200))
        return
    line = one_line(p.text, 120) if not message else ""
    yield _item(event, side, who, "input", line=line, shown=_text(p.text), folded=not message)


def _control(told: Told, event: Event, p: ControlChanged) -> Iterable[Item]:
    line, failed = labels.line(event, p).text, p.to_state == "FAILED"
    if p.output and not told.known(p.output):
        yield _item(event, "said", "handed in", "model", shown=_text(p.output))
    if p.to_state in TERMINAL or labels.turn_of(event, p) or p.reason:
        yield _item(event, "aside", "control", "control", line=line, failed=failed)


def _approval(told: Told, event: Event, p: ApprovalRequested | ApprovalResolved) -> Iterable[Item]:
    said = "asked for" if isinstance(p, ApprovalRequested) else p.decision
    line = labels.line(event, p).text
    yield _item(event, "aside", f"approval {said}", "approval", line=line)


def _plan(told: Told, event: Event, p: PlanChanged) -> Iterable[Item]:
    lines = [f"{item.status}: {item.text}" for item in p.items]
    line = labels.line(event, p).text
    shown = _text("\n".join(lines), RESULT_CHARS) if lines else None
    yield _item(event, "aside", "plan", "control", line=line, shown=shown, folded=True)


def _unparsed(told: Told, event: Event, p: Unparsed) -> Iterable[Item]:
    line = labels.line(event, p).text
    yield _item(event, "aside", "kept and not read", "bad", line=line, failed=True)


_TELL: dict[type[Any], Callable[[Told, Event, Any], Iterable[Item]]] = {
    TaskStarted: _task,
    ContextBuilt: _context,
    ModelReplied: _reply,
    ToolIntent: _intent,
    ToolResult: _result,
    Compacted: _compacted,
    RuntimeInput: _input,
    ControlChanged: _control,
    PlanChanged: _plan,
    ApprovalRequested: _approval,
    ApprovalResolved: _approval,
    Unparsed: _unparsed,
}


def unreadable(event: Event, why: str) -> Item:
    """An event whose payload cannot be read: it is missing, not empty."""
    return _item(event, "aside", event.type, "bad", why=why)


def of_note(seq: int, who: str, text: str) -> Item:
    """A note that somebody wrote at a boundary; it is no part of the log."""
    return Item(seq, "aside", f"note by {who}", "approval", shown=_text(text))


def cut(items: Sequence[Item], limit: int) -> tuple[tuple[Item, ...], int | None]:
    """The last `limit` items, whole events only but for a single one; and the first event that
    is left out of them, None: none is."""
    if len(items) <= limit:
        return tuple(items), None
    start = len(items) - limit
    while start < len(items) - 1 and items[start].seq == items[start - 1].seq:
        start += 1
    return tuple(items[start:]), items[start].seq
