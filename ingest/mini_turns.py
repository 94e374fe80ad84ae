"""The messages of a mini-swe-agent run as events, in the order the run made them.

Each turn is one model call: ContextBuilt (every message before the reply), ModelReplied,
BudgetSettled, a ToolIntent per action, a ToolResult per observation. What a segment's `info` adds
(calls without a reply, the run's total cost, the exit status) follows its last message, so that a
later segment only ever appends.

INVARIANTS
1. The events of the first k segments are the same whatever segments follow.
2. Every event points at the bytes it was made of.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import Any

from core.canonical import canonical, digest_text
from core.errors import ImportRefused, InvalidInput
from core.events.admission import Actual, BudgetSettled
from core.events.context import RuntimeInput
from core.events.control import ControlChanged, ControlState
from core.events.envelope import BlobRef
from core.events.fields import Limit, MessageRef, ToolCall
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from core.limits import INTEGER_MAX
from ingest import mini_text, replies
from ingest.base import Findings
from ingest.build import Builder, NativeIds, original
from ingest.replies import Reply

#: Messages up to so many characters are stated in the manifest too, for reading without a blob.
_SHORT_CHARS = 280
_CLAIM = "the model asked for this; the source does not record whether or when it was sent"
_EXIT_STATES: dict[str, ControlState] = {
    "submitted": "COMPLETED",
    "keyboardinterrupt": "CANCELLED",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message and its bytes within its segment's blob."""

    value: dict[str, Any]
    start: int
    end: int
    raw_digest: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """What one reading added."""

    blob: str
    length: int
    messages: tuple[Message, ...]
    info: dict[str, Any]
    info_span: tuple[int, int]
    bare: bool
    format_word: str | None
    instance_id: str | None


@dataclass(slots=True)
class _Action:
    """A command somebody asked for, until its result is found."""

    operation_id: str
    attempt_id: str
    call_id: str | None
    command: str | None
    turn: int = 0
    answered: bool = False


class _Commands:
    """The commands somebody asked for: those of the present turn, and the newest by call id.

    Each look-up takes constant time, whatever a file holds.
    """

    def __init__(self) -> None:
        self.total_open = 0
        self._number = 0
        self.turn: list[_Action] = []
        self.turn_open = 0
        self._next = 0
        self._turn_ids: dict[str, deque[_Action]] = {}
        self._newest: dict[str, _Action] = {}

    def begin_turn(self) -> None:
        """The next commands are those of another reply."""
        self._number += 1
        self.turn, self.turn_open, self._next = [], 0, 0
        self._turn_ids = {}

    def add(self, action: _Action) -> None:
        """One more command of this turn."""
        action.turn = self._number
        self.turn.append(action)
        self.turn_open += 1
        self.total_open += 1
        if action.call_id is not None:
            self._turn_ids.setdefault(action.call_id, deque()).append(action)
            self._newest[action.call_id] = action

    def answer(self, action: _Action) -> None:
        """A result of it was found; the first one closes it."""
        if not action.answered:
            action.answered = True
            self.total_open -= 1
            if action.turn == self._number:
                self.turn_open -= 1

    def by_call_id(self, call_id: str) -> _Action | None:
        """The first open command of this turn with that id."""
        waiting = self._turn_ids.get(call_id)
        while waiting:
            if not waiting[0].answered:
                return waiting[0]
            waiting.popleft()
        return None

    def newest(self, call_id: str) -> _Action | None:
        """The newest command with that id, of whatever turn."""
        return self._newest.get(call_id)

    def next_open(self) -> _Action | None:
        """The first open command of this turn."""
        while self._next < len(self.turn):
            if not self.turn[self._next].answered:
                return self.turn[self._next]
            self._next += 1
        return None


class Walk:
    """Turns segments into events; one instance per trajectory."""

    def __init__(self, builder: Builder, findings: Findings, first: Segment) -> None:
        self.findings = findings
        self.title = mini_text.title_of(first.messages, first.info, first.instance_id)
        self._builder = builder
        self._first = first
        self._v2 = first.format_word is not None and first.format_word != "mini-swe-agent-1"
        self._config = mini_text.Config(first.info)
        self._operations = NativeIds("op")
        self._invocations = NativeIds("inv")
        self._segment = first
        self._index = 0
        self._step = 0
        self._manifest = hashlib.sha256()
        self._refs: list[MessageRef] = []
        self._originals: list[BlobRef] = []
        self._delivered = 0
        self._invocation: str | None = None
        self._commands = _Commands()
        self._replies = 0
        self._unreplied = 0
        self._settled_nano = 0
        self._settled_replies = 0
        self._total_nano: int | None = None
        self._state: str | None = None
        self._settings = first.info

    # --- segments ----------------------------------------------------------------------------

    def segment(self, number: int, part: Segment) -> None:
        """Events of one segment."""
        self._segment = part
        if number == 0:
            self._started()
        else:
            self._settings_changed(number, part)
        for position, message in enumerate(part.messages):
            self._message(message, last=position == len(part.messages) - 1)
            self._index += 1
        self._calls_without_reply(part)
        self._total_cost(number, part)
        self._exit_by_info(number, part)
        self._settings = part.info

    def close(self) -> None:
        """After the last segment: what the source does not say."""
        self._standing_gaps()
        unanswered = self._commands.total_open
        if unanswered:
            self.findings.gap(
                f"the outcome of {unanswered} proposed command" + ("s" if unanswered > 1 else ""),
                "the file holds no result for it, so whether it was sent is unknown",
            )
        if self._state is None:
            self.findings.gap(
                "how the run ended",
                "no exit status is recorded: it may still run, or was interrupted",
            )

    def _standing_gaps(self) -> None:
        found = self.findings
        found.gap("intents before their effect", "actions are proposals the model made")
        found.gap("owners, leases and checkpoints", "the program has none")
        found.gap("reservations and authorizations", "the program makes none")
        found.gap("retries of a model call", "they happen inside the client and leave no trace")
        found.gap("changes of the workspace", "only the commands and their output are recorded")
        found.gap(
            "the request as it was sent",
            "the messages are known, the bytes on the wire are not: contexts are rebuilt",
        )
        if self._v2 and not self._config.text_based:
            found.gap("tool descriptions", "the program sends one tool, bash, and does not log it")
        if not self._v2:
            found.gap("times", "this layout has no timestamps")
        elif self._refs:
            found.gap(
                "when each command ended",
                "a result is stamped when it was written down, after all commands of its reply",
            )
        if self.findings.tokens.unreported:
            found.gap(
                f"tokens of {self.findings.tokens.unreported} replies",
                "the file holds no usage for them; they are not counted as zero",
            )

    # --- the start ---------------------------------------------------------------------------

    def _started(self) -> None:
        first, config = self._first, self._config
        limits: tuple[Limit, ...] = ()
        ceiling = replies.nano_usd(config.agent.get("cost_limit"))
        if ceiling:
            limits = (Limit(resource="usd", unit="nano_usd", ceiling=ceiling),)
        configuration, redacted = config.provenance()
        for path in redacted:
            self.findings.notes.append(
                f"info.config.{path} looks like a secret: left out of the event, kept in the "
                "original"
            )
        version = first.info.get("mini_version")
        known = isinstance(version, str) and version
        refs = [self._original(message) for message in first.messages[:2]]
        if first.info:
            refs.append(original(first.blob, first.length, *first.info_span))
        payload = TaskStarted(
            title=self.title,
            standing="imported",
            capabilities=Capabilities(
                intents="proposals",
                exact_inputs="derived",
                times="recorded" if self._v2 else "absent",
            ),
            task=mini_text.task_of(first.messages, first.info),
            agent=f"mini-swe-agent {version}" if known else "mini-swe-agent",
            source="mini-swe-agent bare list"
            if first.bare
            else ("mini-swe-agent 2.x" if self._v2 else "mini-swe-agent 1.x"),
            model=config.model_name,
            limits=limits,
            configuration=configuration or None,
            labels={"instance_id": first.instance_id} if first.instance_id else None,
        )
        self._builder.add(payload, key="task", where="the start", refs=tuple(refs))
        self._count("run", "TaskStarted")

    def _settings_changed(self, number: int, part: Segment) -> None:
        changed = changed_settings(self._settings, part.info)
        if not changed:
            return
        self._builder.add(
            RuntimeInput(kind="configuration", values=changed),
            key=f"settings:{number}",
            where="info.config",
            refs=(original(part.blob, part.length, *part.info_span),),
            step=self._step or None,
        )
        self._count("changed settings", "RuntimeInput")

    # --- messages ----------------------------------------------------------------------------

    def _message(self, message: Message, *, last: bool) -> None:
        value = message.value
        extra = value.get("extra") if isinstance(value.get("extra"), dict) else {}
        assert isinstance(extra, dict)
        role = value.get("role")
        if role == "exit":
            if last:  # The call that failed came before the end that names its error.
                self._calls_without_reply(self._segment)
            self._exit(message, extra)
        elif role == "assistant" or value.get("object") == "response":
            self._reply(message, extra)
        elif role == "tool" or value.get("type") == "function_call_output":
            self._tool_result(message, extra)
        elif role == "user" and self._replies_in(extra):
            self._rejected_reply(message, extra)
        elif role == "user" and ("returncode" in extra or "raw_output" in extra):
            self._tool_result(message, extra)
        elif role == "user" and isinstance(extra.get("actions"), list):
            self._human_command(message, extra)
        elif role == "user" and self._delivered and self._plain_result(message, last=last):
            pass
        elif self._delivered:
            self._input(message, extra)
        else:
            self._count(f"{role or 'other'} message before the first call", "ContextBuilt")
        self._deliver(message)

    @staticmethod
    def _replies_in(extra: dict[str, Any]) -> bool:
        return "response" in extra

    def _deliver(self, message: Message) -> None:
        """Add a message to what later calls are given."""
        delivered = {key: item for key, item in message.value.items() if key != "extra"}
        try:
            data = canonical(delivered)
        except InvalidInput as error:
            raise self._refused(str(error)) from error
        digest = hashlib.sha256(data).digest()
        self._manifest.update(digest)
        text = message.value.get("content")
        self._refs.append(
            MessageRef(
                role=str(message.value.get("role") or message.value.get("type") or "assistant"),
                digest=digest_text(digest),
                length=len(data),
                blob=self._segment.blob,
                start=message.start,
                end=message.end,
                text=text if isinstance(text, str) and len(text) <= _SHORT_CHARS else None,
            )
        )
        self._originals.append(self._original(message))

    def _reply(self, message: Message, extra: dict[str, Any]) -> None:
        value = message.value
        body = extra.get("response", value if value.get("object") == "response" else None)
        recorded = replies.read_response(body)
        text, other = replies.text_of(value.get("content"))
        text = recorded.text if text is None else text
        occurred = mini_text.instant(extra.get("timestamp"))
        invocation = self._context(recorded, message)
        actions = self._actions(value, extra, recorded, text)
        rejected = None
        if actions is None:
            rejected = "it did not hold exactly one action"
            actions = ()
            self.findings.gap(
                "why a reply was not accepted",
                "this layout reports it only as the next message to the model",
            )
        taken = [
            (action, self._operations.take(action.call_id, invocation, repr(action.command)))
            for action in actions
        ]
        calls = tuple(
            ToolCall(tool=action.tool, operation_id=operation_id, call_id=action.call_id)
            for action, operation_id in taken
        ) or tuple(ToolCall(tool=call.tool, call_id=call.call_id) for call in recorded.calls)
        self._replied(
            message,
            recorded,
            invocation,
            kind="reply",
            text=text,
            calls=calls,
            rejected=rejected,
            occurred=occurred,
            other=other,
        )
        self._settle(message, extra, recorded, invocation)
        self._commands.begin_turn()
        for number, (action, operation_id) in enumerate(taken):
            self._intent(
                message,
                number,
                action,
                operation_id=operation_id,
                invocation=invocation,
                occurred=occurred,
            )

    def _actions(
        self, value: dict[str, Any], extra: dict[str, Any], recorded: Reply, text: str | None
    ) -> tuple[mini_text.Asked, ...] | None:
        """Commands of an accepted reply; None if the harness cannot have accepted it."""
        listed = extra.get("actions")
        if isinstance(listed, list):
            return mini_text.asked(listed, value, recorded)
        calls = replies.calls_of(value)
        if calls:
            return tuple(mini_text.Asked(call.tool, call.call_id, call.arguments) for call in calls)
        commands = mini_text.commands_in(text or "", self._config.action_regex)
        if commands is None:
            self.findings.gap(
                "the commands of the replies",
                "the run used a pattern for commands that this version does not know",
            )
            return ()
        if len(commands) != 1:
            return None
        return (mini_text.Asked("bash", None, {"command": commands[0]}),)

    def _context(self, recorded: Reply, message: Message | None) -> str:
        """ContextBuilt of the next call; its invocation id."""
        self._step += 1
        digest = digest_text(self._manifest.digest())
        invocation = self._invocations.take(recorded.response_id, digest)
        new = tuple(self._refs[self._delivered :])
        refs = tuple(self._originals[self._delivered :])
        tool_calling = self._v2 and not self._config.text_based
        try:
            self._builder.add(
                ContextBuilt(
                    manifest_digest=digest,
                    count=len(self._refs),
                    base_invocation_id=self._invocation,
                    kept=self._delivered,
                    messages=new,
                    model=self._config.model_name,
                    request=self._config.request() or None,
                    claim="partial" if tool_calling else "rebuilt",
                ),
                key=f"context:{self._index}" if message else f"unreplied:{self._unreplied}",
                where=f"message {self._index}",
                refs=_merged(refs),
                step=self._step,
                invocation_id=invocation,
            )
        finally:
            self._delivered = len(self._refs)
        self._invocation = invocation
        self._count("messages before a reply", "ContextBuilt")
        return invocation

    def _replied(
        self,
        message: Message,
        recorded: Reply,
        invocation: str,
        *,
        kind: str,
        text: str | None,
        calls: tuple[ToolCall, ...],
        rejected: str | None,
        occurred: int | None,
        other: int = 0,
    ) -> None:
        gaps = ["transport attempts are not recorded"]
        if recorded.usage is None:
            gaps.append("usage is not recorded")
        if recorded.model is None:
            gaps.append("the model that served it is not recorded")
        if other or recorded.other_parts:
            gaps.append("parts that are no text are in the original only")
        self._builder.add(
            ModelReplied(
                status="completed",
                model=recorded.model,
                text=text,
                tool_calls=calls,
                finish_reason=recorded.finish_reason,
                usage=recorded.usage,
                usage_raw=recorded.usage_raw,
                provider=recorded.provider or None,
                response_id=recorded.response_id,
                rejected=rejected,
                gaps=tuple(gaps),
            ),
            key=f"{kind}:{self._index}",
            where=f"message {self._index}",
            refs=(self._original(message),),
            occurred_at=occurred,
            step=self._step,
            invocation_id=invocation,
        )
        self._replies += 1
        self._count("reply the harness rejected" if rejected else "reply", "ModelReplied")
        self._add_tokens(recorded)

    def _add_tokens(self, recorded: Reply) -> None:
        self.findings.token_rules[recorded.usage_rule] += 1
        self.findings.tokens.count(recorded.usage)

    def _settle(
        self, message: Message, extra: dict[str, Any], recorded: Reply, invocation: str
    ) -> None:
        """The cost of one reply, where one is recorded."""
        nano, meter, evidence = replies.nano_usd(extra.get("cost")), "mini-swe-agent", "extra.cost"
        if nano is None:
            nano = replies.nano_usd(recorded.cost_usd)
            meter, evidence = "provider", "usage.cost of the reply"
        if nano is None:
            return
        if nano == 0 and meter == "mini-swe-agent" and self._config.ignores_costs:
            evidence += "; costs were set to be ignored where unknown, so 0 may stand for unknown"
            self.findings.gap(
                "whether a cost of 0 is a price",
                "the run ignored unknown costs (cost_tracking: ignore_errors) and wrote 0 for them",
            )
        self._builder.add(
            BudgetSettled(
                actual=(Actual(resource="usd", unit="nano_usd", amount=nano),),
                scope="invocation",
                meter=meter,
                evidence=evidence,
            ),
            key=f"cost:{self._index}",
            where=f"message {self._index}",
            refs=(self._original(message),),
            step=self._step,
            invocation_id=invocation,
        )
        self._settled_nano += nano
        self._settled_replies += 1
        self._count("cost of a reply", "BudgetSettled")

    def _intent(
        self,
        message: Message,
        number: int,
        asked: mini_text.Asked,
        *,
        operation_id: str,
        invocation: str | None,
        occurred: int | None,
        requester: str | None = None,
    ) -> None:
        attempt_id = f"{operation_id}/1"
        self._builder.add(
            ToolIntent(
                kind="proposal",
                tool=asked.tool,
                arguments=asked.arguments,
                requester=requester,
                call_id=asked.call_id,
                claim=_CLAIM if requester is None else "a person gave this command",
            ),
            key=f"intent:{self._index}:{number}",
            where=f"message {self._index}",
            refs=(self._original(message),),
            occurred_at=occurred,
            step=self._step or None,
            operation_id=operation_id,
            attempt_id=attempt_id,
            invocation_id=invocation,
        )
        self._commands.add(_Action(operation_id, attempt_id, asked.call_id, asked.command))
        self._count("command", "ToolIntent")

    def _rejected_reply(self, message: Message, extra: dict[str, Any]) -> None:
        """A reply that could not be parsed lives in the message that reports it: lift it."""
        recorded = replies.read_response(extra.get("response"))
        why, _ = replies.text_of(message.value.get("content"))
        invocation = self._context(recorded, message)
        kind = extra.get("interrupt_type") or "FormatError"
        self._replied(
            message,
            recorded,
            invocation,
            kind="lifted",
            text=recorded.text,
            calls=tuple(ToolCall(tool=call.tool, call_id=call.call_id) for call in recorded.calls),
            rejected=f"{kind}: {mini_text.reason_in(why or '')}",
            occurred=mini_text.instant(extra.get("timestamp")),
        )
        self._settle(message, extra, recorded, invocation)
        self._commands.begin_turn()
        self._input(message, extra)

    def _human_command(self, message: Message, extra: dict[str, Any]) -> None:
        self._input(message, extra)
        self._commands.begin_turn()
        occurred = mini_text.instant(extra.get("timestamp"))
        for number, asked in enumerate(mini_text.asked(extra["actions"], {}, Reply())):
            key = f"{message.raw_digest.hex()}:{number}"
            operation_id = self._operations.take(asked.call_id, key)
            self._intent(
                message,
                number,
                asked,
                operation_id=operation_id,
                invocation=None,
                occurred=occurred,
                requester="person",
            )

    def _input(self, message: Message, extra: dict[str, Any]) -> None:
        text, _ = replies.text_of(message.value.get("content"))
        why = extra.get("interrupt_type")
        values = {"role": str(message.value.get("role") or message.value.get("type") or "")}
        if isinstance(why, str):
            values["interrupt_type"] = why
        self._builder.add(
            RuntimeInput(kind="message", values=values, text=text),
            key=f"input:{self._index}",
            where=f"message {self._index}",
            refs=(self._original(message),),
            occurred_at=mini_text.instant(extra.get("timestamp")),
            step=self._step or None,
        )
        self._count(
            f"message to the model ({why})" if why else "message to the model", "RuntimeInput"
        )

    # --- results -----------------------------------------------------------------------------

    def _tool_result(self, message: Message, extra: dict[str, Any]) -> None:
        value = message.value
        native = value.get("tool_call_id") or value.get("call_id")
        native = native if isinstance(native, str) else None
        action, rule = self._pair(native)
        text, other = replies.text_of(value.get("content", value.get("output")))
        code = extra.get("returncode")
        code = code if isinstance(code, int) and not isinstance(code, bool) else None
        if code is None:
            code = mini_text.code_in(text)
        error = extra.get("exception_info")
        status = mini_text.status_of(code, error, extra.get("exception_type"))
        complete, rest = mini_text.completeness(text, extra.get("raw_output"))
        if other:
            complete, rest = False, "parts that are no text are in the original message"
        self._result(
            message,
            action,
            native,
            ToolResult(
                status=status,
                basis="sender",
                observation=text,
                observation_complete=complete,
                observation_rest=rest,
                exit_code=code if code is not None and abs(code) <= INTEGER_MAX else None,
                error=error if isinstance(error, str) and error else None,
                pairing=rule,
            ),
            mini_text.instant(extra.get("timestamp")),
        )

    def _pair(self, native: str | None) -> tuple[_Action | None, str]:
        """The command a result answers, and the rule that says so."""
        if native is None:
            action = self._commands.next_open()
            return action, "order" if action is not None else "unpaired"
        action = self._commands.by_call_id(native)
        if action is not None:
            return action, "call id, within the reply"
        action = self._commands.newest(native)
        if action is None:
            return None, "unpaired"
        return action, "call id, a further result" if action.answered else "call id, earlier reply"

    def _plain_result(self, message: Message, *, last: bool) -> bool:
        """A user message that is the result of the only open command (1.x); else False."""
        waiting = self._commands.next_open() if self._commands.turn_open == 1 else None
        text, _ = replies.text_of(message.value.get("content"))
        if waiting is None or waiting.call_id is not None or text is None:
            return False
        found = mini_text.plain_result(
            text,
            waiting.command,
            self._config,
            submitted=last and mini_text.status_word(self._segment.info) == "Submitted",
        )
        if found is None:
            return False
        status, code, complete, rest = found
        self._result(
            message,
            waiting,
            None,
            ToolResult(
                status=status,
                basis="sender",
                observation=text,
                observation_complete=complete,
                observation_rest=rest,
                exit_code=code,
                pairing="order",
            ),
            None,
        )
        return True

    def _result(
        self,
        message: Message,
        action: _Action | None,
        native: str | None,
        payload: ToolResult,
        occurred: int | None,
    ) -> None:
        operation_id = attempt_id = None
        if action is not None:
            operation_id, attempt_id = action.operation_id, action.attempt_id
            self._commands.answer(action)
        elif native is not None:
            operation_id = self._operations.take(native)
        self._builder.add(
            payload,
            key=f"result:{self._index}",
            where=f"message {self._index}",
            refs=(self._original(message),),
            occurred_at=occurred,
            step=self._step or None,
            operation_id=operation_id,
            attempt_id=attempt_id,
        )
        self.findings.pairings[payload.pairing or "unpaired"] += 1
        self._count("observation", "ToolResult")

    # --- the end -----------------------------------------------------------------------------

    def _exit(self, message: Message, extra: dict[str, Any]) -> None:
        status = extra.get("exit_status")
        status = status if isinstance(status, str) and status else "(no exit status)"
        text, _ = replies.text_of(message.value.get("content"))
        submission = extra.get("submission")
        submission = submission if isinstance(submission, str) and submission else None
        if status == "Submitted":
            self._submitted(message, text)
        trouble = extra.get("exception_str")
        self._control(
            status,
            reason=trouble if isinstance(trouble, str) and trouble else None,
            output=submission,
            key=f"exit:{self._index}",
            ref=self._original(message),
            occurred=mini_text.instant(extra.get("timestamp")),
        )

    def _submitted(self, message: Message, text: str | None) -> None:
        """The exit message is the result of the command that submitted."""
        turn = self._commands.turn
        candidates = [
            action for action in turn if action.command and mini_text.MARKER in action.command
        ] or (turn if len(turn) == 1 else [])
        if len(candidates) != 1:
            if self._commands.turn_open:
                self.findings.gap(
                    "which command submitted",
                    "several commands, or none, of the last reply carry the word that submits",
                )
            return
        self._result(
            message,
            candidates[0],
            None,
            ToolResult(
                status="succeeded",
                basis="sender",
                proof="the run ended as Submitted on this command's output",
                observation=text,
                observation_rest="the run ended here: no later call was given this text",
                pairing="exit message",
            ),
            None,
        )

    def _calls_without_reply(self, part: Segment) -> None:
        """Calls that `info` counts and that left no reply."""
        stated = stated_calls(part.info)
        if stated is None:
            return
        missing = stated - self._replies - self._unreplied
        if missing < 0:
            self.findings.gap(
                "the count of model calls",
                f"info says {stated}, the messages hold {self._replies} replies",
            )
            return
        if missing == 0:
            return
        self.findings.gap(
            f"the reply of {missing} model call" + ("s" if missing > 1 else ""),
            f"info counts {stated} calls, the messages hold {self._replies} replies",
        )
        self._unreplied += missing
        if missing == 1 and not self._commands.turn_open:
            self._context(Reply(), None)

    def _total_cost(self, number: int, part: Segment) -> None:
        """The run's total, where no reply has a cost of its own."""
        stats = part.info.get("model_stats")
        total = replies.nano_usd(stats.get("instance_cost")) if isinstance(stats, dict) else None
        if total is None:
            return
        if self._settled_replies:
            if abs(total - self._settled_nano) > max(1, self._settled_replies):
                self.findings.gap(
                    "part of the cost",
                    f"the replies add up to {self._settled_nano / 1e9:.9g} USD, the run says "
                    f"{total / 1e9:.9g} USD",
                )
            return
        if total == self._total_nano or (total == 0 and not self._replies):
            return
        self._total_nano = total
        self._builder.add(
            BudgetSettled(
                actual=(Actual(resource="usd", unit="nano_usd", amount=total),),
                scope="trajectory",
                reporting="cumulative",
                meter="mini-swe-agent",
                evidence="info.model_stats.instance_cost, the total of the run",
            ),
            key=f"total:{number}",
            where="info.model_stats",
            refs=(original(part.blob, part.length, *part.info_span),),
            step=self._step or None,
        )
        self._count("cost of the run", "BudgetSettled")

    def _exit_by_info(self, number: int, part: Segment) -> None:
        status = mini_text.status_word(part.info)
        if status is None or status == self._state:
            return
        if part.messages and part.messages[-1].value.get("role") == "exit":
            self.findings.gap(
                "which exit status holds",
                f"the exit message says {self._state}, info says {status[:100]}",
            )
            return
        trouble, output = part.info.get("exception_str"), part.info.get("submission")
        self._control(
            status,
            reason=trouble if isinstance(trouble, str) and trouble else None,
            output=output if isinstance(output, str) and output else None,
            key=f"ended:{number}",
            ref=original(part.blob, part.length, *part.info_span),
            occurred=None,
        )

    def _control(
        self,
        status: str,
        *,
        reason: str | None,
        output: str | None,
        key: str,
        ref: BlobRef,
        occurred: int | None,
    ) -> None:
        self._builder.add(
            ControlChanged(
                to_state=_EXIT_STATES.get(status.lower(), "FAILED"),
                from_state="RUNNING",
                reason=reason,
                detail=status,
                output=output,
            ),
            key=key,
            where="the exit status",
            refs=(ref,),
            occurred_at=occurred,
            step=self._step or None,
        )
        self._state = status
        self._count("exit status", "ControlChanged")

    # --- helpers -----------------------------------------------------------------------------

    def _original(self, message: Message) -> BlobRef:
        return original(self._segment.blob, self._segment.length, message.start, message.end)

    def _refused(self, why: str) -> ImportRefused:
        return ImportRefused(
            f"message {self._index}: {why}", where=f"message {self._index}", reason="shape"
        )

    def _count(self, what: str, family: str) -> None:
        self.findings.became[what, family] += 1


def _merged(refs: tuple[BlobRef, ...]) -> tuple[BlobRef, ...]:
    """Neighbouring messages of one blob as one pointer, so that an event names few."""
    merged: list[BlobRef] = []
    for ref in refs:
        before = merged[-1] if merged else None
        if before is not None and before.digest == ref.digest:
            assert before.start is not None
            assert ref.end is not None
            merged[-1] = original(ref.digest, ref.length, before.start, ref.end)
        else:
            merged.append(ref)
    return tuple(merged)


def stated_calls(info: dict[str, Any]) -> int | None:
    """Model calls as `info` counts them; None where it does not."""
    stats = info.get("model_stats")
    return replies.count(stats.get("api_calls")) if isinstance(stats, dict) else None


_PROGRESS = ("model_stats", "exit_status", "submission", "exception_str", "traceback")


def changed_settings(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Paths of what a run says of itself, its progress apart, that differ: {from, to}."""
    old, new = _flat(before), _flat(now)
    return {
        name: {"from": old.get(name), "to": new.get(name)}
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


def _flat(info: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in info.items():
        if name in _PROGRESS:
            continue
        if name != "config" or not isinstance(value, dict):
            flat[name] = value
            continue
        for section, inner in value.items():
            if isinstance(inner, dict):
                flat.update({f"config.{section}.{key}": item for key, item in inner.items()})
            else:
                flat[f"config.{section}"] = inner
    return flat
