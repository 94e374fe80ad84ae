"""The lines of one agent of a Claude Code session as the events of one trajectory.

Each model call is ContextBuilt (what the lines before it hold), ModelReplied, BudgetSettled (its
tokens) and a ToolIntent for each call it asks for. A reply is written as several lines with one
message id and equal or growing usage: lines that follow each other become one ModelReplied; what
comes later, after a tool's answer or in a later segment, continues it with what usage rose by.

Deliberate choices, with their reasons:
- What the program wrote in the model's place (`<synthetic>`) is a RuntimeInput: no model was
  called. Only where it reports that a call failed is it a ModelReplied, with status `error`.
- A refusal that a tool's answer states becomes ApprovalRequested and ApprovalResolved at the place
  of the answer: that it was asked follows from the answer, when it was asked is not recorded.
- An interruption is ControlChanged to PAUSED, and the next prompt or reply sets RUNNING again: the
  session waits for a person meanwhile. api_error and queue-operation lines are ControlChanged that
  leave the state as it is, so that they are seen among what steers the run.
- A file-history-snapshot is a RuntimeInput and no Checkpoint: a checkpoint binds a chain value and
  a manifest, and the line has neither.
- Nothing is left out: a line of an unknown type is a RuntimeInput of that kind.

INVARIANTS
1. The events of a line follow from it and the lines before it; a segment's end only closes the
   reply that is open.
2. Every event points at the bytes of the lines it was made of.
3. No event repeats an image: it says what the image is and points at its bytes.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from core.canonical import canonical, digest_text, sha256
from core.errors import ImportRefused
from core.events.admission import Actual, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, ControlState, PlanChanged
from core.events.envelope import BlobRef
from core.events.fields import MessageRef, Payload, ToolCall, Usage
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.source import Unparsed
from core.events.task import TaskStarted
from core.events.tool import ToolIntent
from ingest import claude_lines, claude_results, replies
from ingest.base import BuiltEvent, Findings, Line, LogSegment
from ingest.build import Builder, NativeIds, SourceKey, original
from ingest.claude_context import Manifest
from ingest.claude_lines import an_object, kind_of, text
from ingest.claude_titles import Titles

#: Messages up to so many characters are stated in the manifest too, for reading without a blob.
_SHORT_CHARS = 280
_ERROR_CHARS = 2000
#: Lines remembered to know a repeated one.
_SEEN_MAX = 50_000
_CLAIM = "the model asked for this; the source does not record whether or when it was sent"
_BY_PROVIDER = "run by the provider within its reply; the source shows no sending"
#: Fields of every line whose changes are stated.
_SURROUNDINGS = ("cwd", "gitBranch", "version", "sessionId")
_IMAGE_SCHEMA = "base64"
#: Images of one line that an event points at one by one; all of them are in the original line.
_IMAGES_MAX = 100


@dataclass(slots=True)
class Call:
    """One tool call, until and after its answer."""

    operation_id: str
    tool: str
    arguments: bytes
    """Digest of its canonical arguments."""
    source: str | None
    """uuid of the line that asked for it."""
    native: str | None
    kept: Any = None
    """Its arguments, for tools that hand in a plan."""
    answered: bool = False


@dataclass(slots=True)
class _Reply:
    """A reply that was stated, and may be continued."""

    invocation_id: str
    status: Any
    usage: Usage | None = None
    cost: int | None = None
    settled: tuple[int, int | None] = (0, None)


@dataclass(slots=True)
class _Open:
    """Lines of one reply that follow each other, not yet stated."""

    message_id: str | None
    lines: list[tuple[Line, dict[str, Any]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spawn:
    """A call that starts a sub-agent."""

    trajectory_id: str
    operation_id: str
    prompt: str | None
    title: str | None
    kind: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event comes from."""

    key: str
    where: str
    refs: tuple[BlobRef, ...]
    occurred_at: int | None


class Chain:
    """One trajectory while its source is derived."""

    def __init__(
        self, key: SourceKey, sub: str | None, findings: Findings, unit: str = "line"
    ) -> None:
        self.key = key
        self.sub = sub
        self.findings = findings
        self.title = ""
        self.started = False
        self.open_calls = 0
        self.spawns: list[Spawn] = []
        """Calls that start sub-agents, until the run takes them."""
        self._unit = unit
        self._builder = Builder(key)
        self._segment: LogSegment | None = None
        self._events = 0
        self._step = 0
        self._state: ControlState = "RUNNING"
        self._manifest = Manifest()
        self._operations = NativeIds("op")
        self._invocations = NativeIds("inv")
        self._replies: dict[str, _Reply] = {}
        self._open: _Open | None = None
        self._calls: dict[str, Call] = {}
        self._nameless: dict[str | None, deque[Call]] = {}
        """Open calls without an id, by the line that asked; all of them under None."""
        self._seen: OrderedDict[str, bytes] = OrderedDict()
        self._around: dict[str, str] = {}
        self._policy: str | None = None
        self._plan = claude_results.PlanBook()
        self._compacting: int | None = None
        self._compacted_from = 1
        self._titles = Titles("")
        self._compacted_upto = 0

    # --- segments ----------------------------------------------------------------------------

    def begin(self, segment: LogSegment) -> None:
        """The next lines are of this segment."""
        self._segment = segment
        self._builder = Builder(self.key)

    def end(self) -> tuple[BuiltEvent, ...]:
        """What the segment added."""
        self.flush()
        built = tuple(self._builder.events)
        self._events += len(built)
        self._builder = Builder(self.key)
        return built

    def start(self, payload: TaskStarted, lines: list[Line], titles: Titles) -> None:
        """The first event; `lines` are those it points at. `titles` has taken the lines it was
        read from, except those that give a title: these count at their own place."""
        self.started = True
        self.title, self._titles = payload.title, titles
        refs = tuple(self._original(line) for line in lines)
        at = claude_lines.instant((lines[0].value or {}).get("timestamp"))
        self._add(payload, Place("task", "the start", refs, at))
        self._count(payload.source or "session", "TaskStarted")

    # --- lines -------------------------------------------------------------------------------

    def take(self, line: Line) -> None:
        """Events of one line."""
        if line.value is None:
            self.flush()
            self._unparsed(line, line.why)
            return
        try:
            self._take(line, claude_lines.tamed(line))
        except ImportRefused as error:
            if error.data.get("reason") == "too_large":
                raise
            self._open = None
            self._unparsed(line, str(error))

    def _take(self, line: Line, value: dict[str, Any]) -> None:
        self._titles.take(value)
        self._taken(line, value)
        if self._titles.now != self.title:
            self.title = self._titles.now
            self._input(line, value, "title", {"by": "the lines so far"}, self.title, key="title")

    def _taken(self, line: Line, value: dict[str, Any]) -> None:
        type_ = text(value.get("type"))
        if self._continues(type_, value):
            assert self._open is not None
            self._open.lines.append((line, value))
            return
        self.flush()
        if self._repeats(line, value):
            return
        if type_ is None:
            self._unparsed(line, "it is an object without a type")
            return
        self._surroundings(line, value)
        if type_ == "assistant":
            self._assistant(line, value)
        elif type_ == "user":
            self._user(line, value)
        elif type_ == "system":
            self._system(line, value)
        elif type_ == "attachment":
            self._attachment(line, value)
        elif type_ == "queue-operation":
            self._queue(line, value)
        elif type_ == "permission-mode":
            self._policy_is(line, value.get("permissionMode"))
        else:
            self._other(line, value, type_)
        self._manifest.place(text(value.get("uuid")))

    def _continues(self, type_: str | None, value: dict[str, Any]) -> bool:
        if self._open is None or type_ != "assistant" or self._open.message_id is None:
            return False
        message = an_object(value.get("message"))
        if text(message.get("id")) != self._open.message_id or _is_local(value):
            return False
        return text(value.get("uuid")) not in self._seen

    def _repeats(self, line: Line, value: dict[str, Any]) -> bool:
        """Whether the same line stands in this file before; then it is said, and no more."""
        uuid = text(value.get("uuid"))
        if uuid is None:
            return False
        digest = hashlib.blake2b(line.data, digest_size=12).digest()
        if self._seen.get(uuid) == digest:
            self._input(line, value, "repeated line", {"uuid": uuid}, None)
            return True
        self._seen[uuid] = digest
        if len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)
        return False

    def _surroundings(self, line: Line, value: dict[str, Any]) -> None:
        """Where the program ran, where it differs from the line before."""
        changed: dict[str, Any] = {}
        for name in _SURROUNDINGS:
            now = text(value.get(name))
            before = self._around.get(name)
            if now is None or now == before:
                continue
            self._around[name] = now
            if before is not None:
                changed[name] = {"from": before, "to": now}
        if changed:
            self._input(line, value, "environment", changed, None, key="surroundings")
        mode = value.get("permissionMode") if value.get("type") == "user" else None
        if text(mode) is not None:
            self._policy_is(line, mode)

    def _policy_is(self, line: Line, mode: object) -> None:
        named = text(mode)
        if named is None or named == self._policy:
            if (line.value or {}).get("type") == "permission-mode":
                self._input(line, line.value or {}, "policy", {"permission_mode": mode}, None)
            return
        values = {"permission_mode": named, "before": self._policy}
        self._policy = named
        self._input(
            line,
            line.value or {},
            "policy",
            {key: item for key, item in values.items() if item is not None},
            None,
            key="input" if (line.value or {}).get("type") == "permission-mode" else "policy",
        )

    # --- replies -----------------------------------------------------------------------------

    def _assistant(self, line: Line, value: dict[str, Any]) -> None:
        message = an_object(value.get("message"))
        if _is_local(value):
            if value.get("isApiErrorMessage") is True:
                self._failed_call(line, value)
            else:
                said = claude_lines.text_of(message.get("content"))
                values = {"role": "assistant", "written_by": "the program"}
                self._input(line, value, "message", values, said)
            return
        self._open = _Open(text(message.get("id")), [(line, value)])

    def flush(self) -> None:
        """State the reply whose lines were held together."""
        held, self._open = self._open, None
        if held is None:
            return
        known = self._replies.get(held.message_id) if held.message_id is not None else None
        self._speaks_again(held.lines[0])
        reply = known or self._called(held)
        calls = [
            (line, number, block, self._call_of(block, value, f"{self._offset(line)}:{number}"))
            for line, value in held.lines
            for number, block in enumerate(blocks_of(value))
            if kind_of(block).endswith("tool_use")
        ]
        self._replied(held, reply, tuple(one[3][0] for one in calls), continues=known is not None)
        for line, number, block, (call, fresh) in calls:
            if fresh:
                self._intent(line, number, block, call, invocation=reply.invocation_id)
            else:
                self._count("call stated again", "(nothing)")
        for line, value in held.lines:
            self._provider_results(line, value)
        for line, value in held.lines:
            self._deliver(line, value, "assistant", spoken=True)
            uuid = text(value.get("uuid"))
            self._manifest.place(uuid)
            if uuid is not None and uuid not in self._seen:
                self._seen[uuid] = hashlib.blake2b(line.data, digest_size=12).digest()

    def _called(self, held: _Open) -> _Reply:
        """A model call begins: ContextBuilt."""
        line, value = held.lines[0]
        invocation = self._invocations.take(held.message_id, self._offset(line))
        self._context(line, value, invocation)
        aborted = any(one.get("isAbortedMidStream") is True for _, one in held.lines)
        reply = _Reply(invocation, "cancelled" if aborted else "completed")
        if held.message_id is not None:
            self._replies[held.message_id] = reply
        return reply

    def _context(self, line: Line, value: dict[str, Any], invocation: str) -> None:
        self._step += 1
        delivered = self._manifest.deliver(invocation)
        self._add(
            ContextBuilt(
                manifest_digest=delivered.manifest_digest,
                count=delivered.count,
                base_invocation_id=delivered.base,
                kept=delivered.kept,
                messages=delivered.messages,
                claim="partial",
                dropped=delivered.dropped,
            ),
            self._place(line, "context", refs=delivered.refs or (self._original(line),)),
            invocation_id=invocation,
        )
        self._count("lines before a reply", "ContextBuilt")

    def _replied(
        self, held: _Open, reply: _Reply, calls: tuple[Call, ...], *, continues: bool
    ) -> None:
        """ModelReplied and what its tokens came to."""
        messages = [an_object(value.get("message")) for _, value in held.lines]
        texts = [claude_lines.text_of(message.get("content")) for message in messages]
        usage: Usage | None = None
        for message in messages:
            usage = claude_lines.larger(usage, claude_lines.usage_of(message.get("usage")))
        line, value = held.lines[-1]
        stated = claude_lines.rise(reply.usage, usage)
        raw = [message["usage"] for message in messages if an_object(message.get("usage"))]
        self._add(
            ModelReplied(
                status=reply.status,
                model=_last(message.get("model") for message in messages),
                text="\n".join(one for one in texts if one) or None,
                reasoning="\n\n".join(
                    one for message in messages for one in claude_lines.thinking_of(message)
                )
                or None,
                tool_calls=tuple(
                    ToolCall(tool=call.tool, operation_id=call.operation_id, call_id=call.native)
                    for call in calls
                ),
                finish_reason=_last(message.get("stop_reason") for message in messages),
                usage=stated,
                usage_raw=raw[-1] if raw else None,
                provider=_provenance(held) or None,
                response_id=held.message_id,
                gaps=self._gaps(messages, usage, continues=continues),
                continues=continues,
            ),
            self._place(
                line,
                f"reply:{self._offset(held.lines[0][0])}",
                refs=tuple(self._original(one) for one, _ in held.lines),
                occurred_at=claude_lines.instant(value.get("timestamp")),
            ),
            invocation_id=reply.invocation_id,
        )
        found = self.findings
        if not continues:
            found.tokens.count(stated)
            found.token_rules[claude_lines.UNREPORTED if usage is None else claude_lines.ONCE] += 1
            self._count("reply", "ModelReplied")
        else:
            if stated is not None:
                found.tokens.count(stated)
            found.token_rules[claude_lines.RISE] += 1
            self._count("further part of a reply", "ModelReplied")
        reply.usage = claude_lines.larger(reply.usage, usage)
        for _, one in held.lines:
            cost = replies.nano_usd(one.get("costUSD"))
            if cost is not None:
                reply.cost = max(cost, reply.cost or 0)
        self._settle(held.lines, reply)

    def _gaps(
        self, messages: list[dict[str, Any]], usage: Usage | None, *, continues: bool
    ) -> tuple[str, ...]:
        gaps = [] if continues else ["transport attempts are not recorded"]
        if usage is None:
            gaps.append("usage is not recorded")
        hidden = sum(
            kind_of(block) == "redacted_thinking"
            for message in messages
            for block in claude_lines.blocks_of(message)
        )
        if hidden:
            what = "a thinking block is" if hidden == 1 else f"{hidden} thinking blocks are"
            gaps.append(f"{what} encrypted")
            self.findings.gap("some of the thinking", "the provider encrypted it")
        return tuple(gaps)

    def _settle(self, lines: list[tuple[Line, dict[str, Any]]], reply: _Reply) -> None:
        """Tokens, and cost where the line states one, so far for this reply."""
        if reply.usage is None and reply.cost is None:
            return
        tokens = 0 if reply.usage is None else claude_lines.total(reply.usage)
        now = (tokens, reply.cost)
        if reply.settled == now and now != (0, None):
            return
        reply.settled = now
        actual: list[Actual] = []
        evidence: list[str] = []
        if reply.usage is not None:
            actual.append(Actual(resource="tokens", unit="tokens", amount=tokens))
            evidence.append("message.usage, its four kinds added")
        if reply.cost is not None:
            actual.append(Actual(resource="usd", unit="nano_usd", amount=reply.cost))
            evidence.append("costUSD of the line")
        line = lines[-1][0]
        self._add(
            BudgetSettled(
                actual=tuple(actual),
                scope="invocation",
                reporting="cumulative",
                meter="provider",
                evidence="; ".join(evidence),
            ),
            self._place(line, "settled"),
            invocation_id=reply.invocation_id,
        )
        self._count("usage of a reply", "BudgetSettled")

    def _failed_call(self, line: Line, value: dict[str, Any]) -> None:
        """The program says, in the model's place, that a call failed."""
        message = an_object(value.get("message"))
        said = claude_lines.text_of(message.get("content"))
        self._speaks_again((line, value))
        invocation = self._invocations.take(text(message.get("id")), self._offset(line))
        self._context(line, value, invocation)
        self._add(
            ModelReplied(
                status="error",
                error=said or text(value.get("error")) or "the program reports an API error",
                provider=_provenance(_Open(None, [(line, value)])) or None,
                gaps=("usage is not recorded: the program writes zeros for a failed call",),
            ),
            self._place(line, "failed"),
            invocation_id=invocation,
        )
        self.findings.tokens.count(None)
        self.findings.token_rules[claude_lines.UNREPORTED] += 1
        self._count("failed call", "ModelReplied")

    # --- calls -------------------------------------------------------------------------------

    def _call_of(
        self, block: dict[str, Any], value: dict[str, Any], place: str
    ) -> tuple[Call, bool]:
        """The call a block asks for, and whether it is a new one."""
        native = text(block.get("id"))
        tool = text(block.get("name")) or "(unnamed)"
        arguments = sha256(canonical(block.get("input")))
        known = self._calls.get(native) if native is not None else None
        if known is not None and known.tool == tool and known.arguments == arguments:
            return known, False
        operation = self._operations.take(native, tool, arguments.hex(), "" if native else place)
        call = Call(operation, tool, arguments, text(value.get("uuid")), native)
        if tool in claude_results.PLAN_TOOLS:
            call.kept = block.get("input")
        if native is not None:
            self._calls[native] = call
        else:
            for source in {call.source, None}:
                self._nameless.setdefault(source, deque()).append(call)
        return call, True

    def _intent(
        self,
        line: Line,
        number: int,
        block: dict[str, Any],
        call: Call,
        *,
        invocation: str,
    ) -> None:
        own = kind_of(block) == "tool_use"
        given = block.get("input")
        self._add(
            ToolIntent(
                kind="proposal",
                tool=call.tool,
                arguments=claude_lines.without_images(given),
                call_id=call.native,
                claim=_CLAIM if own else _BY_PROVIDER,
            ),
            self._place(line, f"intent:{number}"),
            operation_id=call.operation_id,
            attempt_id=f"{call.operation_id}/1",
            invocation_id=invocation,
        )
        self.open_calls += 1
        self._count("tool_use" if own else kind_of(block), "ToolIntent")
        if call.tool in claude_results.AGENT_TOOLS:
            asked = an_object(given)
            self.spawns.append(
                Spawn(
                    self.key.trajectory_id,
                    call.operation_id,
                    text(asked.get("prompt")),
                    text(asked.get("description")),
                    text(asked.get("subagent_type")),
                )
            )

    def _provider_results(self, line: Line, value: dict[str, Any]) -> None:
        """Answers the provider gave within a reply (web search and the like)."""
        for number, block in enumerate(blocks_of(value)):
            if kind_of(block).endswith("tool_result"):
                self._result(line, value, number, block)

    # --- what a user line holds --------------------------------------------------------------

    def _user(self, line: Line, value: dict[str, Any]) -> None:
        message = an_object(value.get("message"))
        blocks = blocks_of(value)
        results = [
            (number, block)
            for number, block in enumerate(blocks)
            if kind_of(block) == "tool_result"
        ]
        if value.get("isCompactSummary") is True:
            self._compacted(line, value, claude_lines.text_of(message.get("content")))
            self._deliver(line, value, "user", spoken=True)
            return
        for number, block in results:
            self._result(line, value, number, block)
        rest = [block for block in blocks if kind_of(block) != "tool_result"]
        said = claude_lines.text_of(rest)
        if rest and said is not None and said.startswith(claude_lines.INTERRUPTED):
            self._interrupted(line, value, said)
        elif rest or not results:
            self._said(line, value, said, results=bool(results))
        self._deliver(line, value, "user", spoken=bool(rest))

    def _said(self, line: Line, value: dict[str, Any], said: str | None, *, results: bool) -> None:
        """A prompt, or what the program added in a person's place."""
        command = claude_lines.command_of(value)
        local = claude_lines.is_no_prompt(said)
        values: dict[str, Any] = {"role": "user"}
        if value.get("isMeta") is True:
            values["added_by"] = "the program"
        elif command is not None or (not local and not results):
            self._goes_back(line, value)
            self._speaks_again((line, value))
            if command is not None:
                values["command"] = command
        elif local:
            values["local"] = claude_lines.local_word(said)
        origin = text(an_object(value.get("origin")).get("kind"))
        if origin is not None:
            values["origin"] = origin
        images = claude_lines.images_of(an_object(value.get("message")).get("content"))
        if images:
            values["images"] = [image.plain() for image in images]
        self._input(line, value, "message", values, said, images=images)

    def _goes_back(self, line: Line, value: dict[str, Any]) -> None:
        """A prompt that follows an earlier line than the last one continues from there."""
        if "parentUuid" not in value:
            return
        parent = value["parentUuid"]
        held = self._manifest.count
        if parent is None:
            if not held:
                return
            self._manifest.clear()
            self._input(line, value, "new root", {"left": held}, None, key="root")
            return
        kept = self._manifest.earlier(parent) if isinstance(parent, str) else None
        if kept is None:
            return
        if not self._manifest.back_to(kept):
            self.findings.gap(
                "some returns to an earlier message",
                "the session goes back so often that contexts were left in file order",
            )
            return
        values = {"to_message": parent, "kept": kept, "left": held - kept}
        self._input(line, value, "rewind", values, None, key="rewind")

    def _interrupted(self, line: Line, value: dict[str, Any], said: str) -> None:
        self._control(
            line,
            value,
            to="PAUSED",
            by="user",
            detail=said[:200],
            reason=None,
            key="interrupted",
        )
        self._count("interruption", "ControlChanged")

    def _speaks_again(self, at: tuple[Line, dict[str, Any]]) -> None:
        """After an interruption the first prompt or reply says that the run goes on."""
        if self._state != "PAUSED":
            return
        line, value = at
        self._control(
            line,
            value,
            to="RUNNING",
            by=None,
            detail=None,
            reason="derived: a further message follows the interruption",
            key="resumed",
        )
        self._count("message after an interruption", "ControlChanged")

    # --- results -----------------------------------------------------------------------------

    def _result(
        self, line: Line, value: dict[str, Any], number: int, block: dict[str, Any]
    ) -> None:
        native = text(block.get("tool_use_id")) or text(value.get("sourceToolUseID"))
        call, rule = self._pair(native, text(value.get("sourceToolAssistantUUID")))
        tool = call.tool if call is not None else None
        kept = call.kept if call is not None else None
        answer = claude_results.read(tool, block, value, rule, kept)
        operation = call.operation_id if call is not None else None
        if operation is None and native is not None:
            operation = self._operations.take(native)
        if call is not None and not call.answered:
            call.answered = True
            self.open_calls -= 1
        images = claude_lines.images_of(block.get("content"))
        place = self._place(
            line, f"result:{number}", refs=(self._original(line), *self._images(line, images))
        )
        if answer.decision is not None:
            self._decided(place, answer.decision, tool or "(unknown)", operation)
        self._add(
            answer.result,
            place,
            operation_id=operation,
            attempt_id=f"{operation}/1" if operation is not None else None,
        )
        self.findings.pairings[rule] += 1
        self._count("tool_result", "ToolResult")
        if call is not None and tool in claude_results.PLAN_TOOLS:
            self._planned(place, call, answer.result.status, answer.result.observation, value)

    def _pair(self, native: str | None, source: str | None) -> tuple[Call | None, str]:
        """The call a result answers, and the rule that says so."""
        if native is not None:
            call = self._calls.get(native)
            if call is not None:
                return call, "call id, a further result" if call.answered else "call id"
        if source is not None:
            found, rule = self._first_open(source), "the line that asked, in order"
        else:
            found, rule = (self._first_open(None) if native is None else None), "order"
        return found, rule if found is not None else "unpaired"

    def _first_open(self, source: str | None) -> Call | None:
        waiting = self._nameless.get(source)
        while waiting:
            if not waiting[0].answered:
                return waiting[0]
            waiting.popleft()
        return None

    def _decided(
        self, place: Place, decision: claude_results.Decision, tool: str, operation: str | None
    ) -> None:
        identity = f"{operation or 'call'}/asked"
        self._add(
            ApprovalRequested(
                approval_id=identity,
                tool=tool,
                reviewer=decision.reviewer,
                reason="derived from the answer; when it was asked is not recorded",
            ),
            Place(place.key + ":asked", place.where, place.refs, None),
            operation_id=operation,
        )
        self._add(
            ApprovalResolved(
                approval_id=identity,
                decision="granted" if decision.granted else "refused",
                reviewer=decision.reviewer,
                evidence=decision.evidence[:_ERROR_CHARS],
            ),
            Place(place.key + ":decided", place.where, place.refs, place.occurred_at),
            operation_id=operation,
        )
        word = "grant" if decision.granted else "refusal"
        self._count(f"{word} in a tool_result", "ApprovalRequested")
        self._count(f"{word} in a tool_result", "ApprovalResolved")

    def _planned(
        self, place: Place, call: Call, status: str, said: str | None, value: dict[str, Any]
    ) -> None:
        kept, call.kept = call.kept, None
        if status != "succeeded":
            return
        items = self._plan.after(call.tool, kept, said, value.get("toolUseResult"))
        if items is None:
            return
        self._add(
            PlanChanged(revision=self._plan.revision, items=items, reason=f"{call.tool} succeeded"),
            Place(place.key + ":plan", place.where, place.refs, place.occurred_at),
            operation_id=call.operation_id,
        )
        self._count(call.tool, "PlanChanged")

    # --- the other lines ---------------------------------------------------------------------

    def _system(self, line: Line, value: dict[str, Any]) -> None:
        subtype = text(value.get("subtype"))
        if subtype == "compact_boundary":
            self._compacting = self._manifest.clear()
            self._compacted_upto = self._sequence
            self._input(
                line, value, "compact boundary", claude_lines.rest_of(value, "subtype"), None
            )
        elif subtype in ("api_error", "error"):
            self._api_error(line, value, subtype)
        else:
            said = text(value.get("content"))
            leave = ("subtype", "content") if said is not None else ("subtype",)
            kind = "system" if subtype is None else f"system {subtype}"
            self._input(line, value, kind, claude_lines.rest_of(value, *leave), said)

    def _api_error(self, line: Line, value: dict[str, Any], subtype: str) -> None:
        attempt, most = value.get("retryAttempt"), value.get("maxRetries")
        status = an_object(value.get("error")).get("status")
        detail = subtype
        if isinstance(status, int) and status:
            detail += f" {status}"
        if isinstance(attempt, int) and isinstance(most, int) and most:
            detail += f", attempt {attempt} of {most}"
        self._control(
            line,
            value,
            to=self._state,
            by=None,
            detail=detail,
            reason=_error_text(value.get("error")) or text(value.get("content")),
            key="api-error",
        )
        self._count(f"system {subtype}", "ControlChanged")

    def _queue(self, line: Line, value: dict[str, Any]) -> None:
        operation = text(value.get("operation")) or "unknown"
        self._control(
            line,
            value,
            to=self._state,
            by="user",
            detail=f"queue-operation {operation}"[:200],
            reason=claude_lines.text_of(value.get("content")),
            key="queue",
        )
        self._count("queue-operation", "ControlChanged")

    def _attachment(self, line: Line, value: dict[str, Any]) -> None:
        attached = an_object(value.get("attachment"))
        kind = text(attached.get("type")) or "unknown"
        images = claude_lines.images_of(attached)
        said = None
        leave: set[str] = set()
        for name in ("prompt", "content", "text", "snippet"):
            said = claude_lines.text_of(attached.get(name))
            if said is not None:
                leave = {name} if isinstance(attached.get(name), str) else set()
                break
        if kind == "queued_command":
            self._speaks_again((line, value))
        values = {
            key: claude_lines.without_images(item)
            for key, item in attached.items()
            if key not in leave and item is not None
        }
        name = "message" if kind == "queued_command" else "attachment"
        self._input(line, value, name, values, said, images=images)

    def _compacted(self, line: Line, value: dict[str, Any], said: str | None) -> None:
        dropped = self._compacting if self._compacting is not None else self._manifest.clear()
        upto = self._compacted_upto if self._compacting is not None else self._sequence
        self._compacting = None
        self._add(
            Compacted(
                summary=said or "",
                first_sequence=self._compacted_from if upto >= self._compacted_from else None,
                last_sequence=upto if upto >= self._compacted_from else None,
                dropped=dropped,
            ),
            self._place(line, "compacted"),
        )
        self._compacted_from = self._sequence
        self._count("summary of a compaction", "Compacted")

    def _other(self, line: Line, value: dict[str, Any], type_: str) -> None:
        named = claude_lines.title_line(value)
        if named is not None:
            values = claude_lines.rest_of(value) | {"by": type_}
            holds = named[1] == self._titles.now
            if holds:
                self.title = named[1]
            self._input(line, value, "title" if holds else "another title", values, named[1])
        elif type_ == "progress":
            self._input(line, value, "progress", _progress(value), None)
        elif type_ == "file-history-snapshot":
            self._input(line, value, "file history", _history(value), None)
        else:
            self._input(line, value, type_[:100], claude_lines.rest_of(value), None)

    # --- helpers -----------------------------------------------------------------------------

    @property
    def _sequence(self) -> int:
        """Sequence number of the newest event: an imported log holds these events only."""
        return self._events + len(self._builder.events)

    def _unparsed(self, line: Line, why: str) -> None:
        where = f"{self._unit} {line.number}"
        self._add(Unparsed(where=where, why=why[:_ERROR_CHARS]), self._place(line, "unparsed"))
        self._count("line that cannot be read", "Unparsed")

    def _input(
        self,
        line: Line,
        value: dict[str, Any],
        kind: str,
        values: dict[str, Any],
        said: str | None,
        *,
        key: str = "input",
        images: list[claude_lines.Image] | None = None,
    ) -> None:
        refs = (self._original(line), *self._images(line, images or []))
        place = self._place(line, key, refs=refs)
        self._add(RuntimeInput(kind=kind, values=values or None, text=said), place)
        what = text(value.get("type")) or kind
        self._count(what[:100] if key == "input" else f"{kind}, stated beside", "RuntimeInput")

    def _control(
        self,
        line: Line,
        value: dict[str, Any],
        *,
        to: ControlState,
        by: str | None,
        detail: str | None,
        reason: str | None,
        key: str,
    ) -> None:
        self._add(
            ControlChanged(
                to_state=to,
                from_state=self._state,
                requested_by=by,
                reason=reason,
                detail=detail,
            ),
            self._place(line, key),
        )
        self._state = to

    def _deliver(self, line: Line, value: dict[str, Any], role: str, *, spoken: bool) -> None:
        """Add the message of a line to what later calls are given."""
        message = an_object(value.get("message"))
        data = canonical({"role": message.get("role"), "content": message.get("content")})
        digest = sha256(data)
        said = claude_lines.text_of(message.get("content"))
        assert self._segment is not None
        start, end = claude_lines.span_of_message(line, message)
        ref = MessageRef(
            role=text(message.get("role")) or role,
            digest=digest_text(digest),
            length=len(data),
            blob=self._segment.blob,
            start=start,
            end=end,
            text=said if said is not None and len(said) <= _SHORT_CHARS else None,
        )
        self._manifest.add(digest, ref, self._original(line), spoken=spoken)

    def _original(self, line: Line) -> BlobRef:
        assert self._segment is not None
        return original(self._segment.blob, self._segment.length, line.start, line.end)

    def _images(self, line: Line, images: list[claude_lines.Image]) -> tuple[BlobRef, ...]:
        """Where the base64 text of images stands in the original."""
        assert self._segment is not None
        found: list[BlobRef] = []
        after = 0
        for image in images[:_IMAGES_MAX]:
            encoded = image.encoded.encode("utf-8", "surrogatepass")
            at = line.data.find(encoded, after) if encoded else -1
            if at < 0:
                continue
            after = at + len(encoded)
            start = line.end - len(line.data) + at
            found.append(
                BlobRef(
                    digest=self._segment.blob,
                    length=self._segment.length,
                    role="required",
                    media_type=image.media_type[:100],
                    schema=_IMAGE_SCHEMA,
                    start=start,
                    end=start + len(encoded),
                )
            )
        return tuple(found)

    def _offset(self, line: Line) -> str:
        """First byte of a line in the whole source: part of the ids of its events."""
        assert self._segment is not None
        return str(self._segment.offset + line.start)

    def _place(
        self,
        line: Line,
        key: str,
        *,
        refs: tuple[BlobRef, ...] = (),
        occurred_at: int | None = None,
    ) -> Place:
        if occurred_at is None:
            value = line.value or {}
            occurred_at = claude_lines.instant(value.get("timestamp"))
        return Place(
            f"{self._offset(line)}:{key}",
            f"{self._unit} {line.number}",
            refs or (self._original(line),),
            occurred_at,
        )

    def _add(
        self,
        payload: Payload,
        place: Place,
        *,
        operation_id: str | None = None,
        attempt_id: str | None = None,
        invocation_id: str | None = None,
    ) -> None:
        self._builder.add(
            payload,
            key=place.key,
            where=place.where,
            refs=place.refs,
            occurred_at=place.occurred_at,
            step=self._step or None,
            operation_id=operation_id,
            attempt_id=attempt_id,
            invocation_id=invocation_id,
        )

    def _count(self, what: str, family: str) -> None:
        self.findings.became[what, family] += 1


def blocks_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of a line's message."""
    return claude_lines.blocks_of(an_object(value.get("message")))


def _is_local(value: dict[str, Any]) -> bool:
    """Whether the program wrote this in the model's place."""
    message = an_object(value.get("message"))
    return message.get("model") == claude_lines.SYNTHETIC or value.get("isApiErrorMessage") is True


def _last(values: Any) -> str | None:
    found = [one for one in values if text(one) is not None]
    return found[-1] if found else None


def _provenance(held: _Open) -> dict[str, Any]:
    """What the lines say of where a reply came from."""
    found: dict[str, Any] = {}
    for _, value in held.lines:
        message = an_object(value.get("message"))
        for name, item in (
            ("request_id", value.get("requestId")),
            ("effort", value.get("effort")),
            ("service_tier", an_object(message.get("usage")).get("service_tier")),
            ("stop_sequence", message.get("stop_sequence")),
            ("stop_details", message.get("stop_details")),
            ("supersedes", value.get("supersedesUuids")),
            ("error_details", value.get("errorDetails")),
        ):
            if item is not None:
                found[name] = item
        for block in claude_lines.blocks_of(message):
            if kind_of(block) == "fallback":
                found["fallback"] = {"from": block.get("from"), "to": block.get("to")}
    return found


def _error_text(error: object) -> str | None:
    """What an error object says, however deep its message lies."""
    for _ in range(4):
        if isinstance(error, str):
            return error[:_ERROR_CHARS] or None
        if not isinstance(error, dict):
            return None
        said = text(error.get("message")) or text(error.get("formatted"))
        if said is not None:
            return said[:_ERROR_CHARS]
        error = error.get("error") or error.get("cause")
    return None


def _progress(value: dict[str, Any]) -> dict[str, Any]:
    """What a progress line says; the sub-agent's message it may repeat stays in the original."""
    data = an_object(value.get("data"))
    found = {
        key: item
        for key, item in data.items()
        if isinstance(item, str | int | bool) and not (isinstance(item, str) and len(item) > 2000)
    }
    for name in ("toolUseID", "parentToolUseID"):
        if text(value.get(name)) is not None:
            found[name] = value[name]
    return found


def _history(value: dict[str, Any]) -> dict[str, Any]:
    """Which files a file-history-snapshot names."""
    snapshot = an_object(value.get("snapshot"))
    files = an_object(snapshot.get("trackedFileBackups"))
    return {
        "message": value.get("messageId"),
        "update": value.get("isSnapshotUpdate") is True,
        "files": [
            {"path": path}
            | {
                key: item
                for key, item in an_object(backup).items()
                if isinstance(item, str | int) and key != "path"
            }
            for path, backup in files.items()
        ],
    }
