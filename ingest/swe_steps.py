"""The steps of a SWE-agent run as events, in the order the run made them.

Each step is one model call: ContextBuilt, ModelReplied, ToolIntent, ToolResult, and RuntimeInput
for the state of the shell where it changed. Where a file has no steps, its history is read: each
assistant message is a reply, and the message after it what came back.

INVARIANTS
1. The events of the first k segments are the same whatever segments follow.
2. Every event points at the bytes it was made of.
3. A message is stated once for as long as later inputs begin with it: the log grows with what is
   new in each input, however often the file repeats the whole of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.canonical import canonical, digest_text
from core.errors import ImportRefused, InvalidInput
from core.events.admission import Actual, BudgetSettled
from core.events.context import RuntimeInput
from core.events.control import ControlChanged
from core.events.envelope import BlobRef
from core.events.fields import Limit, MessageRef, ToolCall
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ResultStatus, ToolIntent, ToolResult
from core.strictjson import loads
from ingest import replies, swe_refusals
from ingest.base import Findings
from ingest.build import Builder, NativeIds, original
from ingest.replies import Call

#: Messages up to so many characters are stated in the manifest too, for reading without a blob.
_SHORT_CHARS = 280
_TITLE_CHARS = 110
#: Fields of a message that reach the model; the others are the program's own.
_DELIVERED = (
    "role",
    "content",
    "tool_calls",
    "tool_call_ids",
    "tool_call_id",
    "name",
    "thinking_blocks",
    "cache_control",
)
_CLAIM = "the model asked for this; the source does not record whether or when it was sent"
_COVERS = "that the command came back with this output; its exit code is not recorded"
_TASK_MARKS = ("ISSUE:", "Here's the issue text:", "<pr_description>", "TASK DESCRIPTION:")

Claim = Literal["rebuilt", "partial"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message and its bytes within its segment's blob."""

    value: dict[str, Any]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step and the messages it repeats."""

    value: dict[str, Any]
    start: int
    end: int
    field: str
    """`query`, `messages`, or empty where the step repeats none."""
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """What one reading added."""

    blob: str
    length: int
    first: int
    """Steps in the segments before it."""
    steps: tuple[Step, ...]
    history: tuple[Message, ...]
    info: dict[str, Any]
    info_span: tuple[int, int]
    environment: str | None
    replay: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Held:
    """A message of the history, with where its bytes are."""

    value: dict[str, Any]
    ref: BlobRef

    @property
    def role(self) -> str:
        return str(self.value.get("role") or "")

    @property
    def demonstration(self) -> bool:
        return self.value.get("is_demo") is True

    @property
    def is_reply(self) -> bool:
        return self.role == "assistant" and not self.demonstration


_Manifest = tuple[int, int, str, list[tuple[_Held, MessageRef]]]


class Walk:
    """Turns segments into events; one instance per trajectory."""

    def __init__(self, builder: Builder, findings: Findings, first: Segment, layout: str) -> None:
        self.findings = findings
        self._builder = builder
        self._first = first
        self._layout = layout
        self._task = _task_of(first)
        self.title = _title_of(self._task, first)
        self._operations = NativeIds("op")
        self._invocations = NativeIds("inv")
        self._segment = first
        self._history: list[_Held] = []
        self._at = 0
        self._step = 0
        self._snapshot: tuple[_Held, ...] | None = None
        self._manifest: list[bytes] = []
        self._hash = hashlib.sha256()
        self._hashed = 0
        self._bases: dict[bool, str] = {}
        self._shell: object = None
        self._state: str | None = None
        self._totals: tuple[int, int] | None = None
        self._replies = 0
        self._unanswered = 0
        self._action = ""
        """The newest command."""
        self._refused = 0
        self._waiting: str | None = None
        self._demonstrations = 0

    # --- segments ----------------------------------------------------------------------------

    def segment(self, number: int, part: Segment) -> None:
        """Events of one segment."""
        self._segment = part
        if number == 0:
            self._started()
        self._history += [_Held(one.value, self._ref(one)) for one in part.history]
        self._demonstrations += sum(1 for one in part.history if one.value.get("is_demo") is True)
        for position, step in enumerate(part.steps):
            self._one_step(part.first + position, step, last=position == len(part.steps) - 1)
        if not part.first and not part.steps and not self._first.steps:
            self._history_only()
        self._settle(number, part)
        self._exit(number, part)

    def close(self) -> None:
        """After the last segment: what the source does not say."""
        found = self.findings
        found.gap("times", "the format has no timestamps")
        found.gap("intents before their effect", "actions are proposals the model made")
        found.gap("owners, leases and checkpoints", "the program has none")
        found.gap("reservations and authorizations", "the program makes none")
        found.gap("retries of a model call", "they happen inside the client and leave no trace")
        found.gap("changes of the workspace", "only the commands and their output are recorded")
        found.gap(
            "exit codes",
            "a step records what came back, not how the command ended; a result is succeeded for "
            "that alone, unless the program's own words say otherwise",
        )
        found.gap(
            "the request as it was sent",
            "the messages are known, the bytes on the wire are not, nor the tool descriptions",
        )
        if found.tokens.unreported:
            found.gap(
                f"tokens of {found.tokens.unreported} replies",
                "the program counts them for the whole run only; they are not counted as zero",
            )
        if self._demonstrations:
            found.notes.append(
                f"demonstrations: {self._demonstrations} of the messages; context, no steps of "
                "this run"
            )
        if self._refused:
            found.notes.append(f"{self._refused} results are `failed` by {swe_refusals.RULE}")
        if self._waiting is not None:
            self._unanswered += 1
        if self._unanswered:
            found.gap(
                f"the outcome of {self._unanswered} proposed command"
                + ("s" if self._unanswered > 1 else ""),
                "the file holds no observation for it, so whether it was sent is unknown",
            )
        if self._state is None:
            found.gap(
                "how the run ended",
                "no exit status is recorded: it may still run, or was interrupted",
            )

    # --- the start ---------------------------------------------------------------------------

    def _started(self) -> None:
        first = self._first
        agent = _object(first.replay.get("agent"))
        model = _object(agent.get("model"))
        name = model.get("name")
        version = first.info.get("swe_agent_version")
        ceiling = replies.nano_usd(model.get("per_instance_cost_limit"))
        problem = _object(first.replay.get("problem_statement"))
        labels = {
            key: value
            for key, value in (
                ("environment", first.environment),
                ("instance_id", problem.get("id")),
            )
            if isinstance(value, str) and value
        }
        refs = [self._ref(one) for one in first.history[:3]]
        if not refs and first.steps:
            refs = [self._bytes(first.steps[0].start, first.steps[0].end)]
        self._add(
            TaskStarted(
                title=self.title,
                standing="imported",
                capabilities=Capabilities(intents="proposals", exact_inputs="derived"),
                task=self._task,
                agent=f"SWE-agent {version}"
                if isinstance(version, str) and version
                else "SWE-agent",
                source=self._layout,
                model=name if isinstance(name, str) and name else None,
                limits=(Limit(resource="usd", unit="nano_usd", ceiling=ceiling),)
                if ceiling
                else (),
                labels=labels or None,
            ),
            key="task",
            where="the start",
            refs=_merged(refs) or (self._bytes(*first.info_span),),
        )
        self._count("run", "TaskStarted")

    # --- steps -------------------------------------------------------------------------------

    def _one_step(self, index: int, step: Step, *, last: bool) -> None:
        value = step.value
        where = f"step {index}"
        ref = self._bytes(step.start, step.end)
        self._shell_state(index, step, ref, before=True)
        if self._by_the_harness(step, last=last):
            self._note_of_harness(index, step, ref)
        else:
            reply = self._reply_in_history(value)
            context, claim = self._input_of(step, reply)
            invocation = self._context(context, claim, key=f"context:{index}", where=where, ref=ref)
            calls = replies.calls_of(self._history[reply].value) if reply is not None else ()
            if reply is not None:
                self._at = reply + 1
            self._reply_and_outcome(index, value, calls, invocation, ref)
        if step.field == "messages":
            self._snapshot = tuple(_Held(one.value, self._ref(one)) for one in step.messages)
        self._shell_state(index, step, ref, before=False)

    def _by_the_harness(self, step: Step, *, last: bool) -> bool:
        """Whether the program wrote this step itself: it asked no model."""
        value = step.value
        action = _text(value.get("action")).strip()
        if action:
            return not _text(value.get("response")) and action.startswith(("exit_", "skip"))
        if step.field == "query" and not step.messages:
            return True
        status = self._segment.info.get("exit_status")
        ended = isinstance(status, str) and "exit_" in status
        return last and ended and _text(value.get("response")).startswith("Exit")

    def _note_of_harness(self, index: int, step: Step, ref: BlobRef) -> None:
        value = step.value
        text = _text(value.get("response")) or _text(value.get("thought"))
        observation = _text(value.get("observation"))
        action = _text(value.get("action")).strip()
        values = {"action": action} if action else {}
        values |= {"observation": observation} if observation else {}
        self._step += 1
        self._add(
            RuntimeInput(kind="harness", values=values or None, text=text or None),
            key=f"harness:{index}",
            where=f"step {index}",
            refs=(ref,),
        )
        self._count("step the program wrote itself", "RuntimeInput")

    def _reply_in_history(self, value: dict[str, Any]) -> int | None:
        """Where this step's reply stands in the history; None where the history left it out."""
        for at in range(self._at, len(self._history)):
            held = self._history[at]
            if not held.is_reply:
                continue
            same = replies.text_of(held.value.get("content"))[0] == _text(value.get("response"))
            action = held.value.get("action")
            if same and (action is None or action == value.get("action")):
                return at
            if at - self._at > 8:
                return None
        return None

    def _input_of(self, step: Step, reply: int | None) -> tuple[Sequence[_Held] | int, Claim]:
        """What the step's model call was given, and how exactly that is known."""
        if step.field == "query":
            return [_Held(one.value, self._ref(one)) for one in step.messages], "rebuilt"
        if self._snapshot is not None:
            return self._snapshot, "rebuilt"
        if step.field == "messages":
            return self._before_own_reply(step), "rebuilt"
        self.findings.gap(
            "the input of each model call as it was sent",
            "this layout keeps the whole history only; the program may have shortened old messages",
        )
        end = reply if reply is not None else self._end_of_known()
        return end, "partial"

    def _before_own_reply(self, step: Step) -> list[_Held]:
        """`messages` of the first step, which was written after it, without what it added."""
        held = [_Held(one.value, self._ref(one)) for one in step.messages]
        text = _text(step.value.get("response"))
        for at in range(len(held) - 1, max(-1, len(held) - 4), -1):
            if held[at].is_reply and replies.text_of(held[at].value.get("content"))[0] == text:
                return held[:at]
        return held

    def _end_of_known(self) -> int:
        """One past the messages that surely came before a reply that the history left out."""
        for at in range(self._at, len(self._history)):
            if self._history[at].is_reply:
                return at
        return len(self._history)

    def _context(
        self, held: Sequence[_Held] | int, claim: Claim, *, key: str, where: str, ref: BlobRef
    ) -> str:
        """ContextBuilt of the next call, stated against the one before it; its invocation id.

        `held` are the messages, or how many of the history it was.
        """
        self._step += 1
        of_history = isinstance(held, int)
        if isinstance(held, int):
            kept, count, digest, fresh = self._of_history(held, where)
        else:
            kept, count, digest, fresh = self._of_messages(held, where)
        invocation = self._invocations.take(None, digest)
        model = _object(_object(self._first.replay.get("agent")).get("model")).get("name")
        self._add(
            ContextBuilt(
                manifest_digest=digest,
                count=count,
                base_invocation_id=self._bases.get(of_history),
                kept=kept,
                messages=tuple(one for _, one in fresh),
                model=model if isinstance(model, str) and model else None,
                claim=claim,
            ),
            key=key,
            where=where,
            refs=_merged([held.ref for held, _ in fresh]) or (ref,),
            invocation_id=invocation,
        )
        self._bases[of_history] = invocation
        self._count("messages before a reply", "ContextBuilt")
        return invocation

    def _of_messages(self, listed: Sequence[_Held], where: str) -> _Manifest:
        """(kept, count, digest, what is new) of an input that the file states whole."""
        delivered = [self._delivered(one, where) for one in listed]
        digests = [one for one, _ in delivered]
        kept = 0
        for old, new in zip(self._manifest, digests, strict=False):
            if old != new:
                break
            kept += 1
        self._manifest = digests
        digest = digest_text(hashlib.sha256(b"".join(digests)).digest())
        fresh = [(one, ref) for one, (_, ref) in zip(listed[kept:], delivered[kept:], strict=True)]
        return kept, len(digests), digest, fresh

    def _of_history(self, end: int, where: str) -> _Manifest:
        """The same of the first `end` items of the history; an earlier input is a part of it."""
        fresh = []
        kept = self._hashed
        for held in self._history[kept:end]:
            raw, ref = self._delivered(held, where)
            self._hash.update(raw)
            fresh.append((held, ref))
        self._hashed = max(kept, end)
        return kept, self._hashed, digest_text(self._hash.digest()), fresh

    def _delivered(self, held: _Held, where: str) -> tuple[bytes, MessageRef]:
        value = {name: held.value[name] for name in _DELIVERED if name in held.value}
        try:
            data = canonical(value)
        except InvalidInput as error:
            raise ImportRefused(f"{where}: {error}", where=where, reason="shape") from error
        digest = hashlib.sha256(data).digest()
        text = value.get("content")
        ref = MessageRef(
            role=held.role or "user",
            digest=digest_text(digest),
            length=len(data),
            blob=held.ref.digest,
            start=held.ref.start,
            end=held.ref.end,
            text=text if isinstance(text, str) and len(text) <= _SHORT_CHARS else None,
        )
        return digest, ref

    def _reply_and_outcome(
        self,
        index: int,
        value: dict[str, Any],
        calls: tuple[Call, ...],
        invocation: str,
        ref: BlobRef,
    ) -> None:
        action = _text(value.get("action"))
        operation_id = None
        if action.strip():
            native = calls[0].call_id if calls else None
            operation_id = self._operations.take(native, invocation, action)
        self._replied(
            _text(value.get("response")),
            calls,
            operation_id,
            invocation=invocation,
            key=f"reply:{index}",
            where=f"step {index}",
            ref=ref,
            thinking=value.get("reasoning_content"),
        )
        if operation_id is None:
            return
        self._intent(
            action,
            calls,
            operation_id,
            invocation=invocation,
            key=f"intent:{index}",
            where=f"step {index}",
            ref=ref,
        )
        observation = value.get("observation")
        if not isinstance(observation, str):
            self._unanswered += 1
            return
        self._result(
            observation,
            operation_id,
            key=f"result:{index}",
            where=f"step {index}",
            ref=ref,
            refused=value.get("state") == {} and not observation and "execution_time" in value,
            rule="same step",
        )

    def _replied(
        self,
        text: str,
        calls: tuple[Call, ...],
        operation_id: str | None,
        *,
        invocation: str,
        key: str,
        where: str,
        ref: BlobRef,
        thinking: object = None,
    ) -> None:
        listed = tuple(
            ToolCall(
                tool=call.tool,
                operation_id=operation_id if number == 0 else None,
                call_id=call.call_id,
            )
            for number, call in enumerate(calls)
        )
        if operation_id is not None and not listed:
            listed = (ToolCall(tool="shell", operation_id=operation_id),)
        rejected = None if operation_id is not None else "no command could be read from it"
        gaps = ("usage is not recorded", "the model that served it is not recorded")
        self._add(
            ModelReplied(
                status="completed",
                text=text,
                tool_calls=listed,
                reasoning=thinking if isinstance(thinking, str) and thinking else None,
                rejected=rejected,
                gaps=gaps,
            ),
            key=key,
            where=where,
            refs=(ref,),
            invocation_id=invocation,
        )
        self._replies += 1
        self.findings.tokens.count(None)
        self.findings.token_rules[replies.UNREPORTED] += 1
        self._count("reply the harness rejected" if rejected else "reply", "ModelReplied")

    def _intent(
        self,
        action: str,
        calls: tuple[Call, ...],
        operation_id: str,
        *,
        invocation: str,
        key: str,
        where: str,
        ref: BlobRef,
    ) -> None:
        call = calls[0] if calls else None
        self._action = action
        arguments: dict[str, Any] = {"command": action}
        if call is not None:
            given = call.arguments
            arguments = given if isinstance(given, dict) else {"command": action, "given": given}
        self._add(
            ToolIntent(
                kind="proposal",
                tool=call.tool if call is not None else "shell",
                arguments=arguments,
                call_id=call.call_id if call is not None else None,
                claim=_CLAIM,
            ),
            key=key,
            where=where,
            refs=(ref,),
            operation_id=operation_id,
            attempt_id=f"{operation_id}/1",
            invocation_id=invocation,
        )
        self._count("action", "ToolIntent")

    def _result(
        self,
        observation: str,
        operation_id: str,
        *,
        key: str,
        where: str,
        ref: BlobRef,
        refused: bool,
        rule: str,
    ) -> None:
        status: ResultStatus = "succeeded"
        covers: str | None = _COVERS
        error = proof = None
        if refused:
            status, covers = "unknown", None
            error = "the program recorded no state after it: it refused the command, or lost it"
        elif swe_refusals.timed_out(observation):
            status, covers = "timeout", None
        elif (words := swe_refusals.refused(self._action, observation)) is not None:
            status, covers = "failed", None
            proof = f"the observation says: {words}"
            self._refused += 1
        self._add(
            ToolResult(
                status=status,
                basis="sender",
                proof=proof,
                covers=covers,
                observation=observation,
                error=error,
                pairing=rule,
            ),
            key=key,
            where=where,
            refs=(ref,),
            operation_id=operation_id,
            attempt_id=f"{operation_id}/1",
        )
        self.findings.pairings[rule] += 1
        self._count("observation", "ToolResult")

    def _shell_state(self, index: int, step: Step, ref: BlobRef, *, before: bool) -> None:
        """What the program read of the shell: before the model call in 0.x, after it since."""
        given = step.value.get("state")
        as_text = isinstance(given, str)
        if as_text is not before:
            return
        state = _read_state(given) if isinstance(given, str) else given
        took = step.value.get("execution_time")
        took = took if isinstance(took, float | int) and not isinstance(took, bool) else None
        if (state is None or state in ({}, self._shell)) and not took:
            return
        values: dict[str, Any] = {}
        if state not in (None, {}) and state != self._shell:
            values["state"] = state
            self._shell = state
        if took:
            values["execution_seconds"] = took
        self._add(
            RuntimeInput(kind="environment", values=values),
            key=f"state:{index}",
            where=f"step {index}",
            refs=(ref,),
        )
        self._count("state of the shell", "RuntimeInput")

    # --- history only ------------------------------------------------------------------------

    def _history_only(self) -> None:
        self.findings.gap("steps", "the file has only the history: replies and what followed them")
        waiting = self._waiting
        for at in range(self._at, len(self._history)):
            held = self._history[at]
            where = f"history item {at}"
            if held.is_reply:
                if waiting is not None:
                    self._unanswered += 1
                waiting = self._reply_of_history(at, held, where)
            elif waiting is not None and held.role in ("user", "tool"):
                text = replies.text_of(held.value.get("content"))[0] or ""
                self._result(
                    text,
                    waiting,
                    key=f"result:h{at}",
                    where=where,
                    ref=held.ref,
                    refused=False,
                    rule="the message after the reply",
                )
                waiting = None
            elif self._replies:
                given = replies.text_of(held.value.get("content"))[0]
                self._add(
                    RuntimeInput(kind="message", values={"role": held.role}, text=given),
                    key=f"input:h{at}",
                    where=where,
                    refs=(held.ref,),
                )
                self._count("message to the model", "RuntimeInput")
        self._waiting = waiting
        self._at = len(self._history)

    def _reply_of_history(self, at: int, held: _Held, where: str) -> str | None:
        invocation = self._context(at, "partial", key=f"context:h{at}", where=where, ref=held.ref)
        said = replies.text_of(held.value.get("content"))[0] or ""
        calls = replies.calls_of(held.value)
        action = _text(held.value.get("action"))
        operation_id = None
        if action.strip() or calls:
            native = calls[0].call_id if calls else None
            operation_id = self._operations.take(native, invocation, action)
        self._replied(
            said,
            calls,
            operation_id,
            invocation=invocation,
            key=f"reply:h{at}",
            where=where,
            ref=held.ref,
        )
        if operation_id is not None:
            self._intent(
                action,
                calls,
                operation_id,
                invocation=invocation,
                key=f"intent:h{at}",
                where=where,
                ref=held.ref,
            )
        return operation_id

    # --- the end -----------------------------------------------------------------------------

    def _settle(self, number: int, part: Segment) -> None:
        """The run's totals; the program measures no single reply."""
        stats = _object(part.info.get("model_stats"))
        cost = replies.nano_usd(stats.get("instance_cost"))
        sent = replies.count(stats.get("tokens_sent"))
        received = replies.count(stats.get("tokens_received"))
        if cost is None and sent is None and received is None:
            return
        if not (cost or sent or received):
            if self._replies:
                self.findings.gap(
                    "what the run cost",
                    "its totals are all zero, as a replay or a person's demonstration writes them",
                )
            return
        totals = (cost or 0, (sent or 0) + (received or 0))
        if totals == self._totals:
            return
        self._totals = totals
        actual = []
        if cost is not None:
            actual.append(Actual(resource="usd", unit="nano_usd", amount=cost))
        if sent is not None or received is not None:
            actual.append(Actual(resource="tokens", unit="tokens", amount=totals[1]))
        self._add(
            BudgetSettled(
                actual=tuple(actual),
                scope="trajectory",
                reporting="cumulative",
                meter="SWE-agent",
                evidence=f"info.model_stats, totals of the run: tokens_sent {_said(sent)}, "
                f"tokens_received {_said(received)}, api_calls {_said(stats.get('api_calls'))}",
            ),
            key=f"total:{number}",
            where="info.model_stats",
            refs=(self._bytes(*part.info_span),),
        )
        self._count("totals of the run", "BudgetSettled")

    def _exit(self, number: int, part: Segment) -> None:
        status = part.info.get("exit_status")
        if not isinstance(status, str) or not status or status == self._state:
            return
        submission = part.info.get("submission")
        self._add(
            ControlChanged(
                to_state="COMPLETED" if status.lower() == "submitted" else "FAILED",
                from_state="RUNNING",
                detail=status,
                output=submission if isinstance(submission, str) and submission else None,
            ),
            key=f"ended:{number}",
            where="info.exit_status",
            refs=(self._bytes(*part.info_span),),
        )
        self._state = status
        self._count("exit status", "ControlChanged")

    # --- helpers -----------------------------------------------------------------------------

    def _add(
        self,
        payload: Any,
        *,
        key: str,
        where: str,
        refs: tuple[BlobRef, ...],
        operation_id: str | None = None,
        attempt_id: str | None = None,
        invocation_id: str | None = None,
    ) -> None:
        self._builder.add(
            payload,
            key=key,
            where=where,
            refs=refs,
            step=self._step or None,
            operation_id=operation_id,
            attempt_id=attempt_id,
            invocation_id=invocation_id,
        )

    def _ref(self, message: Message) -> BlobRef:
        return self._bytes(message.start, message.end)

    def _bytes(self, start: int, end: int) -> BlobRef:
        return original(self._segment.blob, self._segment.length, start, end)

    def _count(self, what: str, family: str) -> None:
        self.findings.became[what, family] += 1


def _merged(refs: Sequence[BlobRef]) -> tuple[BlobRef, ...]:
    """Messages of one blob that follow one another as one pointer, so that an event names few."""
    merged: list[BlobRef] = []
    for ref in refs:
        before = merged[-1] if merged else None
        if before is not None and before.digest == ref.digest:
            assert before.start is not None and before.end is not None
            assert ref.start is not None and ref.end is not None
            start, end = min(before.start, ref.start), max(before.end, ref.end)
            merged[-1] = original(ref.digest, ref.length, start, end)
        else:
            merged.append(ref)
    return tuple(merged)


def _task_of(first: Segment) -> str | None:
    """The task as given: the first message of the person that is no demonstration."""
    listed = first.history or (first.steps[0].messages if first.steps else ())
    for message in listed:
        if message.value.get("role") == "user" and message.value.get("is_demo") is not True:
            return replies.text_of(message.value.get("content"))[0]
    return None


def _title_of(task: str | None, first: Segment) -> str:
    """One line: the instance, and the first line of what the template was filled with."""
    text = task or ""
    for mark in _TASK_MARKS:
        _, found, rest = text.partition(mark)
        if found and rest.strip():
            text = rest
            break
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    line = "".join(char if char.isprintable() else " " for char in line)
    if len(line) > _TITLE_CHARS:
        line = line[: _TITLE_CHARS - 1] + "…"
    name = _object(first.replay.get("problem_statement")).get("id")
    if isinstance(name, str) and name:
        return f"{name}: {line}" if line else name
    return line or "SWE-agent run"


def _read_state(given: str) -> object:
    """A state as 0.x wrote it: the text of a JSON object; the text itself where it is none."""
    if not given.strip():
        return None
    try:
        return loads(given.encode("utf-8", "surrogatepass"))
    except InvalidInput:
        return given


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _said(value: object) -> str:
    found = replies.count(value)
    return "not recorded" if found is None else f"{found:,}"
