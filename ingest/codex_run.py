"""The lines of a Codex rollout as events, segment after segment.

INVARIANTS
1. The events of a segment follow from it and those before it; a later segment only appends.
2. Every event points at the bytes it was made of.
3. A call's tokens are counted once: from its record, or from the rise of the total, never both.
4. TaskStarted states what the lines up to the first that says something say; a title that comes
   later stands where it was learned, and the last is the same however the file was cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.canonical import digest_text, sha256
from core.errors import ImportRefused, InvalidInput
from core.events.admission import Actual, Authorized, BudgetSettled
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, ControlState, PlanChanged
from core.events.envelope import BlobRef
from core.events.fields import MessageRef, Payload, ToolCall, Usage
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.source import Unparsed
from core.events.task import Capabilities, Parent, Restart, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from ingest import codex_items as items
from ingest import document, replies
from ingest.base import BuiltEvent, Findings, Gap, Grown, LogSegment
from ingest.build import Builder, NativeIds, SourceKey, original
from ingest.codex_lines import EVENT, EXEC, ITEM, SESSION, Entry

NAME = "codex"
VERSION = 1

_SHORT_CHARS = 280
_PENDING_MAX = 32
#: A copied history is written at once; a line so long after the one before is no part of it.
_COPY_US = 1_000_000
_CLAIM = "the model asked for this; the source does not record whether or when it was sent"
_NO_EVENT = "(no event)"
_MODEL_GAP = "the model named is the one asked for; the file does not say which one served"


@dataclass(slots=True)
class _Draft:
    """An event of this segment, until the segment has been read to its end."""

    payload: Payload | _Part
    key: str
    where: str
    refs: list[BlobRef]
    occurred_at: int | None = None
    step: int | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None


@dataclass(slots=True)
class _Reply:
    """One reply of a model, as far as it has been read."""

    invocation: str
    number: int
    stated: bool = False
    """Some part of it stands in an earlier segment."""
    part: _Part | None = None
    """Its part in this segment."""
    usage: Usage | None = None
    by_record: bool = False


@dataclass(slots=True)
class _Part:
    """What one segment holds of a reply."""

    reply: _Reply
    model: str | None
    continues: bool
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    encrypted: bool = False
    other_parts: int = 0
    usage: Usage | None = None
    usage_raw: dict[str, Any] | None = None
    response_id: str | None = None
    unseen: bool = False
    """No item of it is in the file."""
    draft: _Draft | None = None

    def payload(self) -> ModelReplied:
        """The event."""
        gaps = ["transport attempts are not recorded"]
        if self.usage is None and not self.continues:
            gaps.append("usage is not recorded")
        gaps.append(_MODEL_GAP if self.model else "the model that served it is not recorded")
        if self.encrypted:
            gaps.append("the reasoning is encrypted")
        if self.other_parts:
            gaps.append("parts that are no text are in the original only")
        if self.unseen:
            gaps.append("no item of the reply is in the file")
        return ModelReplied(
            status="completed",
            model=self.model,
            text="\n\n".join(self.texts) or None,
            tool_calls=tuple(self.calls),
            usage=self.usage,
            usage_raw=self.usage_raw,
            reasoning="\n\n".join(self.reasoning) or None,
            response_id=self.response_id,
            gaps=tuple(gaps),
            continues=self.continues,
        )


@dataclass(slots=True)
class _Call:
    """A call, until its result is found."""

    operation_id: str
    reply: int
    answered: bool = False


@dataclass(slots=True)
class _Held:
    """The text of an event whose item may still come."""

    kind: str
    text: str
    draft: _Draft


class CodexRun:
    """One session while it is derived."""

    def __init__(self, source_id: str) -> None:
        self.layout = ""
        self.findings = Findings()
        self._key = SourceKey(NAME, VERSION, source_id)
        self._segment: LogSegment | None = None
        self._drafts: list[_Draft] = []
        self._started = False
        self._titles = _Titles()
        self._title = self._titles.now
        self._thread: str | None = None
        self._model: str | None = None
        self._step = 0
        self._turn_step = 0
        self._control: ControlState = "RUNNING"
        self._operations = NativeIds("op")
        self._unmatched = NativeIds("unpaired")
        self._invocations = NativeIds("inv")
        self._calls: dict[str, _Call] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._open: _Reply | None = None
        self._last: _Reply | None = None
        self._manifest: list[MessageRef] = []
        self._hash = hashlib.sha256()
        self._kept = 0
        self._base: str | None = None
        self._fresh: list[BlobRef] = []
        self._turns: list[int] = []
        self._total: items.Counted | None = None
        self._records: set[str] = set()
        self._has_records = False
        self._held: dict[str, _Held] = {}
        self._seen: set[str] = set()
        self._plans = 0
        self._compactions = 0
        self._born: tuple[int | None, int | None] = (None, None)
        """When the session began, by its id, and when its first line was written."""
        self._copying = False
        self._by_turn = False
        """A turn of the copied history says when it began."""
        self._before: int | None = None
        """When the line before was written."""
        self._copied_from: str | None = None
        self._copied = 0
        self._refused = 0
        """Results that say in words that their call failed."""
        self._unknown_usage = 0
        self._handlers: dict[str, Callable[[Entry], None]] = {
            SESSION: self._session,
            ITEM: self._item,
            EVENT: self._event,
            EXEC: self._exec,
            "turn_context": self._turn_context,
            "compacted": self._compacted,
            "token_usage_record": self._record,
        }

    # --- segments ----------------------------------------------------------------------------

    def feed(self, segment: LogSegment) -> tuple[Grown, ...]:
        """What this segment adds."""
        self._segment, self._drafts = segment, []
        entries = [Entry.of(line) for line in segment.lines]
        if not entries:
            return ()
        if not self._started:
            self._start(entries)
        for entry in entries:
            if entry.line.value is None:
                where = f"line {entry.line.number}"
                self._add(entry, "unparsed", Unparsed(where=where, why=entry.line.why))
                self._count("line that could not be read", "Unparsed")
                continue
            if self._copied_from is None and (other := self._other_session(entry)) is not None:
                self._copied_from, self._copying = other, True
            if self._copied_from is not None and self._is_copied(entry):
                self._copy(entry)
            else:
                self._handlers.get(entry.type, self._other)(entry)
                self._named(entry)
            self._titles.hear(entry.user_text)
            self._retitle(entry)
        for reply in (self._open, self._last):
            if reply is not None:
                reply.stated, reply.part = True, None
        self._standing_gaps()
        grown = Grown(self._key.trajectory_id, None, self._title, self._events())
        return (grown,) if grown.events else ()

    def _events(self) -> tuple[BuiltEvent, ...]:
        builder = Builder(self._key)
        for draft in self._drafts:
            payload = draft.payload
            made = payload.payload() if isinstance(payload, _Part) else payload
            try:
                self._build(builder, draft, draft.key, made)
            except ImportRefused as error:
                self._count("line that makes no event", "Unparsed")
                unread = Unparsed(where=draft.where, why=str(error))
                self._build(builder, draft, f"{draft.key}:unparsed", unread)
        return tuple(builder.events)

    @staticmethod
    def _build(builder: Builder, draft: _Draft, key: str, payload: Payload) -> None:
        builder.add(
            payload,
            key=key,
            where=draft.where,
            refs=_merged(draft.refs),
            occurred_at=draft.occurred_at,
            step=draft.step,
            operation_id=draft.operation_id,
            attempt_id=draft.attempt_id,
            invocation_id=draft.invocation_id,
        )

    def _standing_gaps(self) -> None:
        found = self.findings
        found.gap("intents before their effect", "calls are proposals the model made")
        found.gap(
            "approvals",
            "the program does not write requests for approval by default: absent, not empty",
        )
        found.gap("owners, leases and reservations", "the program has none")
        found.gap("changes of the workspace", "only the calls and their output are recorded")
        found.gap("the request as it was sent", "the items are there, the tools and bytes are not")
        found.gap("how the session ended", "a session has no end of its own in this format")
        self._gap(
            "unanswered",
            sum(1 for call in self._calls.values() if not call.answered),
            "the outcome of {} proposed calls",
            "the file holds no output for them, so whether they were sent is unknown",
        )
        self._gap(
            "unreported",
            found.tokens.unreported,
            "tokens of {} replies",
            "the file states none for them; they are not counted as zero",
        )
        self._gap(
            "unknown usage",
            self._unknown_usage,
            "the meaning of {} statements of usage",
            "they do not say whether they are of one turn or of the whole session: kept, not added",
        )
        if self._copied_from is not None:
            self._gap(
                "copied",
                self._copied,
                "what {} copied lines did",
                "they are the history of another session, where their calls and tokens count",
            )

    def _gap(self, key: str, number: int, what: str, why: str) -> None:
        if number:
            self.findings.gaps[key] = Gap(what.format(f"{number:,}"), why)
        else:
            self.findings.gaps.pop(key, None)

    # --- the start ---------------------------------------------------------------------------

    def _start(self, entries: list[Entry]) -> None:
        self._started = True
        first = next((one for one in entries if one.type == SESSION), entries[0])
        meta = first.payload if first.type == SESSION else {}
        names = (meta.get("id"), meta.get("session_id"), first.payload.get("thread_id"))
        self._thread = next((name for name in map(items.text, names) if name), None)
        second = entries[1] if len(entries) > 1 else None
        entries = _beginning(entries)
        self.layout = _layout(entries)
        model = next((m for m in map(_model_of, entries) if m is not None), None)
        words = next((t for t in (one.user_text for one in entries) if t is not None), None)
        self._titles = _Titles(words, meta)
        self._title = self._titles.now
        forked = items.text(meta.get("forked_from_id"))
        born = items.instant_of_id(self._thread) or items.instant(meta.get("timestamp"))
        self._born = (born, first.at)
        if forked is None and second is not None:
            forked = self._other_session(second)
        if forked is not None:
            self._copied_from, self._copying = forked, True
        parent = _parent_of(meta)
        version = items.text(meta.get("cli_version"))
        self._add(
            first,
            "task",
            TaskStarted(
                title=self._title,
                standing="imported",
                capabilities=Capabilities(
                    intents="proposals", exact_inputs="derived", times="recorded"
                ),
                task=words,
                agent=f"Codex {version}" if version else "Codex",
                source=self.layout,
                model=model,
                parent=Parent(_trajectory_of(parent)) if parent is not None else None,
                restart=Restart(
                    description=f"continues a copy of Codex session {forked}",
                    trajectory_id=_trajectory_of(forked),
                )
                if forked is not None and forked != parent
                else None,
                configuration=items.values(_without(meta, "base_instructions", "dynamic_tools"))
                or None,
            ),
        )
        self._count("session", "TaskStarted")

    def _named(self, entry: Entry) -> None:
        """A name somebody gave this session."""
        payload = entry.payload
        if entry.type != EVENT or entry.kind != "thread_name_updated":
            return
        if self._copied_from is None or items.text(payload.get("thread_id")) == self._thread:
            self._titles.name(items.text(payload.get("thread_name")))

    def _retitle(self, entry: Entry) -> None:
        if self._titles.now != self._title:
            self._title = self._titles.now
            self._add(entry, "title", RuntimeInput(kind="title", text=self._title))
            self._count("a better title", "RuntimeInput")

    def _other_session(self, entry: Entry) -> str | None:
        """The session whose history follows, where the second line of the file names another."""
        if entry.type != SESSION or entry.line.number != 2:
            return None
        other = items.text(entry.payload.get("id"))
        return other if other != self._thread else None

    def _session(self, entry: Entry) -> None:
        given = entry.payload.get("base_instructions", entry.payload.get("instructions"))
        words = items.text(given) or items.text(items.obj(given).get("text"))
        if words is not None and not self._manifest:
            self._deliver(entry, {"role": "system", "content": words}, entry.span())
        if self._drafts and self._drafts[0].key == "task" and entry.line.number == 1:
            return
        kept = items.values(_without(entry.payload, "base_instructions"))
        self._input(entry, "session_meta", kept)

    # --- copied history ----------------------------------------------------------------------

    def _is_copied(self, entry: Entry) -> bool:
        """Whether a line of a session that began with a copy is part of the copy.

        Only evidence makes it one: without it the line counts here, because a token that is
        counted in two sessions can be seen and one that is counted in none cannot.
        """
        before, self._before = self._before, entry.at
        born, written = self._born
        began = items.instant_of_id(entry.payload.get("turn_id")) if _opens_turn(entry) else None
        if began is not None and born is not None:
            self._copying = began < born - 1000
            self._by_turn = True
        elif entry.type == "token_usage_record":
            thread = items.text(entry.payload.get("thread_id"))
            if thread is not None and thread == self._thread:
                self._copying = False
        elif not self._copying:
            pass
        elif written is None:
            self._copying = self._by_turn or entry.line.number <= 2
        elif entry.at is not None:
            since = written if _opens_turn(entry) else max(before or written, written)
            self._copying = entry.at - since <= _COPY_US
        return self._copying

    def _copy(self, entry: Entry) -> None:
        """A line of another session's history: context, and nothing this session did."""
        if entry.type == SESSION and entry.line.number == 1:
            self._session(entry)
            return
        self._copied += 1
        if entry.type == ITEM:
            words = self._words_of(entry)
            kept = {"type": entry.kind, "role": entry.payload.get("role"), "line": "copied"}
            call_id = items.text(entry.payload.get("call_id"))
            if call_id is not None:
                kept["call_id"] = call_id
            kept = {name: value for name, value in kept.items() if value is not None}
            self._input(entry, "copied history", kept, text=words)
            self._deliver_item(entry)
            return
        if entry.type == "turn_context":
            self._model = _model_of(entry) or self._model
        elif entry.type == "compacted":
            self._replace(entry)
        elif entry.kind == "token_count":
            total = items.counted(items.obj(entry.payload.get("info")).get("total_token_usage"))
            self._total = total or self._total
        elif entry.type == "token_usage_record":
            self._records.add(items.text(entry.payload.get("response_id")) or "")
        self._count(f"copied {entry.type} {_kind(entry)}".rstrip(), _NO_EVENT)

    # --- items -------------------------------------------------------------------------------

    def _item(self, entry: Entry) -> None:
        kind = entry.kind
        if entry.is_output:
            self._output_item(entry)
        elif kind in items.RESULTS:
            self._result_item(entry)
        elif kind in items.NOT_DELIVERED:
            self._input(entry, kind, items.values(_without(entry.payload, "type")))
            return
        else:
            self._given(entry)
        self._deliver_item(entry)

    def _words_of(self, entry: Entry) -> str | None:
        payload = entry.payload
        if entry.kind == "reasoning":
            return items.content(payload.get("summary"))[0]
        for name in ("content", "output"):
            if name in payload:
                return items.content(payload[name])[0]
        return None

    def _given(self, entry: Entry) -> None:
        """An item that the model was given: a message, or what the program looked up for it."""
        self._close()
        payload, kind = entry.payload, entry.kind
        if kind in ("message", "agent_message"):
            if entry.is_user_text:
                self._turns.append(len(self._manifest))
            words, other = items.content(payload.get("content"))
            if words is not None:
                self._meet(words)
            named = {
                name: value
                for name, value in payload.items()
                if name in ("role", "author", "recipient")
            }
            kept = items.values(named | ({"other_parts": other} if other else {}))
            self._input(entry, "message", kept, text=words)
            return
        self._input(entry, kind, items.values(_without(payload, "type", "encrypted_content")))

    def _output_item(self, entry: Entry) -> None:
        part = self._part(entry)
        payload, kind = entry.payload, entry.kind
        if kind == "message":
            words, part.other_parts = items.content(payload.get("content"))
            if words is not None:
                part.texts.append(words)
                self._meet(words)
        elif kind == "reasoning":
            words, _ = items.content(payload.get("summary"))
            part.encrypted = (
                part.encrypted or items.text(payload.get("encrypted_content")) is not None
            )
            if words is not None:
                part.reasoning.append(words)
            for one in items.listed(payload.get("summary")):
                said = items.text(items.obj(one).get("text"))
                if said is not None:
                    self._meet(said)
        elif kind in items.HOSTED:
            call_id = items.text(payload.get("call_id")) or items.text(payload.get("id"))
            part.calls.append(ToolCall(tool=items.HOSTED[kind], call_id=call_id))
            self._count(f"{kind} in a reply", "ModelReplied (part)")
        else:
            self._call(entry, part, items.asked(payload))

    def _call(self, entry: Entry, part: _Part, asked: items.Asked) -> None:
        known = self._calls.get(asked.call_id) if asked.call_id is not None else None
        if known is not None:
            part.calls.append(
                ToolCall(tool=asked.tool, operation_id=known.operation_id, call_id=asked.call_id)
            )
            self._count("further call item with a known call id", "ModelReplied (part)")
            note = f"line {entry.line.number} repeats a call id; it makes no second operation"
            if note not in self.findings.notes and len(self.findings.notes) < 20:
                self.findings.notes.append(note)
            return
        line = str(entry.line.number)
        operation_id = self._operations.take(asked.call_id, line, asked.tool)
        part.calls.append(
            ToolCall(tool=asked.tool, operation_id=operation_id, call_id=asked.call_id)
        )
        self._calls[asked.call_id or operation_id] = _Call(operation_id, part.reply.number)
        self._add(
            entry,
            "intent",
            ToolIntent(
                kind="proposal",
                tool=asked.tool,
                arguments=asked.arguments,
                call_id=asked.call_id,
                claim=_CLAIM,
            ),
            operation_id=operation_id,
            attempt_id=f"{operation_id}/1",
            invocation_id=part.reply.invocation,
        )
        self._count(f"{entry.kind}", "ToolIntent")
        if asked.tool == "update_plan":
            self._plan(entry, items.plan_items(asked.arguments), asked.arguments)

    def _plan(self, entry: Entry, plan: Any, arguments: object) -> None:
        if not plan:
            return
        self._plans += 1
        reason = items.text(items.obj(arguments).get("explanation"))
        self._add(entry, "plan", PlanChanged(revision=self._plans, items=plan, reason=reason))
        self._count("plan", "PlanChanged")

    def _result_item(self, entry: Entry) -> None:
        self._close()
        self._release()
        call_id = items.text(entry.payload.get("call_id"))
        ended = self._ended.pop(call_id, None) if call_id is not None else None
        found = items.outcome(entry.payload.get("output"), ended)
        self._result(entry, call_id, found)

    def _result(self, entry: Entry, call_id: str | None, found: items.Outcome) -> None:
        call = self._calls.get(call_id) if call_id is not None else None
        if call is None:
            rule = "unpaired"
            operation_id = self._unmatched.take(None, call_id or "", str(entry.line.number))
            attempt_id = None
        else:
            newest = self._last.number if self._last is not None else call.reply
            rule = (
                "call id, a further result"
                if call.answered
                else "call id, within the reply"
                if call.reply == newest
                else "call id, earlier reply"
            )
            call.answered = True
            operation_id, attempt_id = call.operation_id, f"{call.operation_id}/1"
        self._add(
            entry,
            "result",
            ToolResult(
                status=found.status,
                basis="sender",
                proof=found.proof,
                covers=found.covers,
                observation=found.observation,
                observation_complete=found.complete,
                observation_rest=found.rest,
                exit_code=found.exit_code,
                pairing=rule,
            ),
            operation_id=operation_id,
            attempt_id=attempt_id,
        )
        if found.status == "failed" and found.proof is not None:
            note = "{} results are `failed` by " + items.REFUSED
            if self._refused:
                self.findings.notes.remove(note.format(self._refused))
            self._refused += 1
            self.findings.notes.append(note.format(self._refused))
        self.findings.pairings[rule] += 1
        self._count(entry.kind, "ToolResult")

    # --- replies and their input -------------------------------------------------------------

    def _part(self, entry: Entry) -> _Part:
        """The part of the open reply in this segment; a reply begins where none is open."""
        self._release(("user_message", "UserMessage"))
        reply = self._open
        if reply is None:
            reply = self._begin(entry)
        return self._part_of(reply, entry, at=reply.number)

    def _begin(self, entry: Entry, *, unseen: bool = False) -> _Reply:
        self._step += 1
        if unseen:
            invocation = self._invocations.take(None, "unseen", str(entry.line.number))
        else:
            invocation = self._context(entry)
        reply = _Reply(invocation, self._step)
        self._last = reply
        if not unseen:
            self._open = reply
        self.findings.tokens.count(None)
        self.findings.token_rules[replies.UNREPORTED] += 1
        self._count("reply", "ModelReplied")
        return reply

    def _part_of(self, reply: _Reply, entry: Entry, *, at: int) -> _Part:
        part = reply.part
        if part is None:
            part = _Part(reply, self._model, reply.stated)
            reply.part = part
            part.draft = self._add(entry, "reply", part, step=at, invocation_id=reply.invocation)
        else:
            assert part.draft is not None
            part.draft.refs.append(self._ref(entry))
        return part

    def _context(self, entry: Entry) -> str:
        digest = digest_text(self._hash.digest())
        invocation = self._invocations.take(None, digest, str(entry.line.number))
        base = self._base if self._kept else None
        self._add(
            entry,
            "context",
            ContextBuilt(
                manifest_digest=digest,
                count=len(self._manifest),
                base_invocation_id=base,
                kept=self._kept,
                messages=tuple(self._manifest[self._kept :]),
                model=self._model,
                claim="partial",
            ),
            refs=self._fresh or [self._ref(entry)],
            invocation_id=invocation,
        )
        self._base, self._kept, self._fresh = invocation, len(self._manifest), []
        self._count("items before a reply", "ContextBuilt")
        return invocation

    def _close(self) -> None:
        """An input came: what the model writes next is another reply."""
        self._open = None

    def _deliver_item(self, entry: Entry) -> None:
        self._deliver(entry, entry.payload, entry.span())

    def _deliver(self, entry: Entry, item: dict[str, Any], span: tuple[int, int]) -> None:
        """Add an item to what later calls are given."""
        segment = self._segment
        assert segment is not None
        ref = _message(item, segment, entry.line.start + span[0], entry.line.start + span[1])
        self._manifest.append(ref)
        self._hash.update(bytes.fromhex(ref.digest[7:]))
        self._fresh.append(original(segment.blob, segment.length, entry.line.start, entry.line.end))

    def _compacted(self, entry: Entry) -> None:
        self._close()
        self._release()
        dropped = len(self._manifest)
        exact = self._replace(entry)
        summary = items.text(entry.payload.get("message"))
        if summary is None:
            summary = "(the summary is in the new context)" if exact else "(no summary recorded)"
        self._compactions += 1
        self._add(entry, "compacted", Compacted(summary=summary, dropped=dropped))
        self._count("compacted", "Compacted")
        if not exact:
            self.findings.gap(
                "the exact context after a compaction",
                "this layout states the summary only, not the list that took the place of the old",
            )

    def _replace(self, entry: Entry) -> bool:
        """Put the stated list in place of the context; whether the line states one."""
        listed = entry.payload.get("replacement_history")
        self._forget(0)
        if not isinstance(listed, list):
            words = items.text(entry.payload.get("message"))
            if words is not None:
                self._deliver(entry, {"role": "user", "content": words}, entry.span())
            return False
        begin, end = entry.span()
        try:
            doc = document.parse(entry.line.data[begin:end], "replacement_history")
            spans = [(begin + one.start, begin + one.end) for one in doc.items]
        except ImportRefused:
            spans = []
        if len(spans) != len(listed):
            spans = [(begin, end)] * len(listed)
        for item, span in zip(listed, spans, strict=True):
            if isinstance(item, dict):
                self._deliver(entry, item, span)
        return True

    def _forget(self, keep: int) -> None:
        """Only the first `keep` items stay in the context."""
        self._manifest = self._manifest[:keep]
        self._hash = hashlib.sha256()
        for one in self._manifest:
            self._hash.update(bytes.fromhex(one.digest[7:]))
        self._kept = min(self._kept, keep)
        self._turns = [at for at in self._turns if at < keep]
        if not keep:
            self._fresh = []

    # --- tokens ------------------------------------------------------------------------------

    def _record(self, entry: Entry) -> None:
        """Tokens of one reply, as present versions state them."""
        payload = entry.payload
        found = items.counted(payload.get("usage"))
        thread = items.text(payload.get("thread_id"))
        response_id = items.text(payload.get("response_id"))
        foreign = self._copied_from is not None and thread not in (None, self._thread)
        repeated = response_id is not None and response_id in self._records
        if found is None or foreign or repeated:
            self._count("token_usage_record counted elsewhere or empty", _NO_EVENT)
            return
        self._has_records = True
        if response_id is not None:
            self._records.add(response_id)
        reply = self._last
        usage = found.usage()
        if reply is None or reply.by_record:
            reply = self._begin(entry, unseen=True)
        elif reply.usage is not None:
            usage = items.beyond(usage, reply.usage)
        reply.by_record = True
        raw = payload.get("usage")
        self._settle(entry, reply, usage, items.RECORDS, raw=raw, response_id=response_id)

    def _token_count(self, entry: Entry) -> None:
        """The running total, written about twice for each reply."""
        info = entry.payload.get("info")
        if info is None and "usage" not in entry.payload:
            self._count("token_count with rate limits only", _NO_EVENT)
            return
        total = items.counted(items.obj(info).get("total_token_usage"))
        if total is None:
            self._unknown_usage += 1
            kept = items.values(_without(entry.payload, "type", "rate_limits"))
            self._input(entry, "token_count", kept)
            return
        rise, self._total = total.since(self._total), total
        if self._has_records or not rise.total:
            self._count("token_count that adds nothing", _NO_EVENT)
            return
        reply = self._last
        if reply is None or reply.usage is not None:
            reply = self._begin(entry, unseen=True)
        raw = items.obj(info).get("last_token_usage")
        self._settle(entry, reply, rise.usage(), items.TOTALS, raw=raw, response_id=None)

    def _settle(
        self,
        entry: Entry,
        reply: _Reply,
        usage: Usage,
        rule: str,
        *,
        raw: object,
        response_id: str | None,
    ) -> None:
        """Tokens of a reply became known."""
        self._close()
        if not items.amount(usage) and reply.usage is not None:
            self._count("usage that was counted already", _NO_EVENT)
            return
        unseen = reply.part is None and not reply.stated
        part = self._part_of(reply, entry, at=reply.number)
        part.unseen = part.unseen or unseen
        part.usage = items.added(part.usage, usage)
        part.response_id = part.response_id or response_id
        if isinstance(raw, dict):
            part.usage_raw = items.values(raw)
        found = self.findings
        if reply.usage is None:
            found.tokens.unreported -= 1
            found.token_rules[replies.UNREPORTED] -= 1
            if not found.token_rules[replies.UNREPORTED]:
                del found.token_rules[replies.UNREPORTED]
            found.token_rules[rule] += 1
        found.tokens.count(usage)
        reply.usage = items.added(reply.usage, usage)
        self._add(
            entry,
            "tokens",
            BudgetSettled(
                actual=(
                    Actual(resource="tokens", unit="tokens", amount=items.amount(reply.usage)),
                ),
                scope="invocation",
                reporting="cumulative",
                meter="Codex",
                evidence=f"line {entry.line.number}: {rule}",
            ),
            step=reply.number,
            invocation_id=reply.invocation,
        )
        self._count("tokens of a reply", "BudgetSettled")

    # --- events ------------------------------------------------------------------------------

    def _event(self, entry: Entry) -> None:
        kind, payload = entry.kind, entry.payload
        if kind == "token_count":
            self._release()
            self._token_count(entry)
        elif kind == "user_message" or entry.repeats:
            self._repeat(entry, payload.get("message", payload.get("text")))
        elif kind in ("task_started", "turn_started"):
            self._turn(entry, "RUNNING", None)
        elif kind in ("task_complete", "turn_complete"):
            error = items.text(items.obj(payload.get("error")).get("message"))
            self._turn(entry, "PAUSED", error)
        elif kind == "turn_aborted":
            self._turn(entry, "PAUSED", items.text(payload.get("reason")))
        elif kind == "thread_rolled_back":
            self._rolled_back(entry)
        elif kind == "context_compacted":
            self._count("context_compacted (the compacted line says it)", _NO_EVENT)
        elif kind == "guardian_assessment":
            self._guardian(entry)
        elif kind == "item_completed":
            self._item_completed(entry)
        elif kind == "codex/event/raw_item":
            self._input(entry, "raw_item", items.values(items.obj(payload.get("payload"))))
        else:
            call_id = items.text(payload.get("call_id"))
            if kind == "exec_command_end" and call_id is not None:
                self._ended[call_id] = {"exit_code": payload.get("exit_code")}
            words = items.text(payload.get("message")) if kind in ("error", "warning") else None
            left = _without(payload, "type", *(("message",) if words is not None else ()))
            known = self._calls.get(call_id) if call_id is not None else None
            self._input(
                entry,
                kind,
                items.values(left),
                text=words,
                operation_id=known.operation_id if known is not None else None,
            )

    def _item_completed(self, entry: Entry) -> None:
        item = items.obj(entry.payload.get("item"))
        kind = items.text(item.get("type")) or "item"
        if kind in ("UserMessage", "AgentMessage", "Reasoning"):
            words, _ = items.content(item.get("content"))
            listed = item.get("summary_text")
            if words is None and isinstance(listed, list):
                words = "".join(one for one in listed if isinstance(one, str)) or None
            self._repeat(entry, words, kind=kind)
            return
        identity = items.text(item.get("id"))
        if kind == "CommandExecution" and identity is not None:
            self._ended[identity] = {"exit_code": item.get("exit_code")}
        known = self._calls.get(identity) if identity is not None else None
        self._input(
            entry,
            "item_completed",
            {"item": items.values(item)},
            operation_id=known.operation_id if known is not None else None,
        )

    def _turn(self, entry: Entry, state: ControlState, reason: str | None) -> None:
        self._close()
        self._release()
        self._seen.clear()
        self._add(
            entry,
            "control",
            ControlChanged(
                to_state=state, from_state=self._control, reason=reason, detail=entry.kind
            ),
        )
        self._control = state
        self._turn_step = self._step
        self._count(entry.kind, "ControlChanged")

    def _rolled_back(self, entry: Entry) -> None:
        self._close()
        self._release()
        number = replies.count(entry.payload.get("num_turns")) or 0
        if number:
            starts = self._turns[-number:]
            if starts:
                self._forget(starts[0])
            self._fresh = []
        self._add(
            entry,
            "control",
            ControlChanged(
                to_state=self._control,
                from_state=self._control,
                reason=f"the last {number} turns were taken out of the context",
                detail=entry.kind,
            ),
        )
        self._count(entry.kind, "ControlChanged")

    def _guardian(self, entry: Entry) -> None:
        payload = entry.payload
        word = items.text(payload.get("status")) or ""
        target = items.text(payload.get("target_item_id"))
        call = self._calls.get(target) if target is not None else None
        if word not in ("approved", "denied") or call is None:
            self._input(entry, "guardian_assessment", items.values(_without(payload, "type")))
            return
        self._add(
            entry,
            "authorized",
            Authorized(
                decision="granted" if word == "approved" else "denied",
                basis="guardian_assessment",
                actor="the program's guardian model",
                reason=items.text(payload.get("rationale")),
            ),
            operation_id=call.operation_id,
            attempt_id=f"{call.operation_id}/1",
        )
        self._count("guardian_assessment", "Authorized")

    def _turn_context(self, entry: Entry) -> None:
        self._close()
        self._release()
        self._model = _model_of(entry) or self._model
        self._input(entry, "turn_context", items.values(entry.payload))

    def _other(self, entry: Entry) -> None:
        """A line of a type that says something of the session and nothing of a call."""
        self._input(entry, entry.type, items.values(entry.payload))

    # --- codex exec --json -------------------------------------------------------------------

    def _exec(self, entry: Entry) -> None:
        kind, payload = entry.kind, entry.payload
        if kind == "turn.started":
            self._turn(entry, "RUNNING", None)
        elif kind in ("turn.completed", "turn.failed"):
            self._turn_usage(entry, payload.get("usage"), replied=kind == "turn.completed")
            reason = items.text(items.obj(payload.get("error")).get("message"))
            self._turn(entry, "PAUSED", reason or items.text(payload.get("message")))
        elif kind == "thread.started":
            self._input(entry, kind, items.values(_without(payload, "type")))
        elif kind == "error":
            self._input(entry, kind, None, text=items.text(payload.get("message")))
        else:
            self._exec_item(entry, items.obj(payload.get("item")))

    def _turn_usage(self, entry: Entry, usage: object, *, replied: bool) -> None:
        """What a turn's end says of tokens; a turn that ended had a reply, seen or not."""
        self._release()
        if isinstance(usage, dict):
            self._unknown_usage += 1
        if replied and self._step == self._turn_step:
            reply = self._begin(entry, unseen=True)
            part = self._part_of(reply, entry, at=reply.number)
            part.unseen = True
            part.usage_raw = items.values(usage) if isinstance(usage, dict) else None
        elif isinstance(usage, dict):
            self._input(entry, "usage of the turn", items.values(usage))

    def _exec_item(self, entry: Entry, item: dict[str, Any]) -> None:
        kind = items.text(item.get("type")) or items.text(item.get("item_type")) or ""
        words, ends = items.text(item.get("text")), entry.kind == "item.completed"
        if kind in ("agent_message", "assistant_message", "reasoning"):
            if not ends:
                self._count(f"{entry.kind} of a {kind}", _NO_EVENT)
                return
            part = self._part(entry)
            (part.reasoning if kind == "reasoning" else part.texts).append(words or "")
            self._deliver(entry, item, (0, len(entry.line.data)))
        elif kind == "todo_list":
            self._plan(entry, items.todo_items(item), None)
        elif kind in ("command_execution", "mcp_tool_call", "file_change", "collab_tool_call"):
            self._exec_call(entry, item, kind, ends=ends)
        elif kind == "web_search" and ends:
            part = self._part(entry)
            part.calls.append(ToolCall(tool=kind, call_id=items.text(item.get("id"))))
        else:
            self._input(entry, kind or entry.kind, items.values(item))

    def _exec_call(self, entry: Entry, item: dict[str, Any], kind: str, *, ends: bool) -> None:
        identity = items.text(item.get("id"))
        if identity is None or identity not in self._calls:
            if kind == "command_execution":
                asked = items.Asked("shell", identity, {"command": item.get("command")})
            elif kind == "mcp_tool_call":
                tool = f"{item.get('server')}.{item.get('tool')}"
                asked = items.Asked(tool, identity, item.get("arguments"))
            else:
                asked = items.Asked(kind, identity, items.values(_without(item, "id", "type")))
            self._call(entry, self._part(entry), asked)
        if not ends:
            return
        self._close()
        code = items.whole(item.get("exit_code"))
        output = item.get("aggregated_output", item.get("result"))
        if code is None and item.get("status") in ("failed", "declined"):
            output = {"content": items.content(output)[0], "success": False}
        elif code is None and item.get("status") == "completed":
            output = {"content": items.content(output)[0], "success": True}
        self._result(entry, identity, items.outcome(output, {"exit_code": code}))

    # --- events that repeat an item ----------------------------------------------------------

    def _meet(self, words: str) -> None:
        """An item states this text: an event that repeats it says nothing new."""
        name = _name(words)
        self._seen.add(name)
        held = self._held.pop(name, None)
        if held is not None:
            self._count(f"{held.kind} (its item says it)", _NO_EVENT)

    def _repeat(self, entry: Entry, given: object, *, kind: str | None = None) -> None:
        kind = kind or entry.kind
        words = items.text(given)
        if words is None:
            self._count(f"{kind} without a text", _NO_EVENT)
            return
        name = _name(words)
        if name in self._seen or name in self._held:
            self._count(f"{kind} (its item says it)", _NO_EVENT)
            return
        draft = self._draft(entry, "repeat", RuntimeInput(kind=kind, text=words))
        self._held[name] = _Held(kind, words, draft)
        if len(self._held) > _PENDING_MAX:
            self._release()

    def _release(self, kinds: tuple[str, ...] = ()) -> None:
        """The item of these texts did not come: they are inputs of their own."""
        for name, held in list(self._held.items()):
            if kinds and held.kind not in kinds:
                continue
            del self._held[name]
            held.draft.step = self._step or None
            self._drafts.append(held.draft)
            self._count(held.kind, "RuntimeInput")

    # --- helpers -----------------------------------------------------------------------------

    def _input(
        self,
        entry: Entry,
        kind: str,
        kept: Any,
        *,
        text: str | None = None,
        operation_id: str | None = None,
    ) -> None:
        self._add(
            entry,
            "input",
            RuntimeInput(kind=kind, values=kept or None, text=text),
            operation_id=operation_id,
        )
        self._count(kind, "RuntimeInput")

    def _add(self, entry: Entry, what: str, payload: Payload | _Part, **more: Any) -> _Draft:
        draft = self._draft(entry, what, payload, **more)
        self._drafts.append(draft)
        return draft

    def _draft(self, entry: Entry, what: str, payload: Payload | _Part, **more: Any) -> _Draft:
        number = entry.line.number
        refs = more.pop("refs", None) or [self._ref(entry)]
        step = more.pop("step", None) or self._step or None
        return _Draft(
            payload,
            "task" if what == "task" else f"{number}:{what}",
            f"line {number}",
            list(refs),
            entry.at,
            step,
            **more,
        )

    def _ref(self, entry: Entry) -> BlobRef:
        segment = self._segment
        assert segment is not None
        return original(segment.blob, segment.length, entry.line.start, entry.line.end)

    def _count(self, what: str, family: str) -> None:
        self.findings.became[what, family] += 1


def _message(item: dict[str, Any], segment: LogSegment, start: int, end: int) -> MessageRef:
    try:
        data = items.delivered(item)
    except InvalidInput:
        data = repr(item).encode("utf-8", "backslashreplace")
    words, _ = items.content(item.get("content"))
    kind = items.text(item.get("type"))
    return MessageRef(
        role=items.text(item.get("role")) or (kind or "message").replace("_", " "),
        digest=digest_text(sha256(data)),
        length=len(data),
        blob=segment.blob,
        start=start,
        end=end,
        text=words if words is not None and len(words) <= _SHORT_CHARS else None,
    )


def _merged(refs: list[BlobRef]) -> tuple[BlobRef, ...]:
    """Lines of one segment as one pointer from the first to the last of them."""
    merged: dict[str, BlobRef] = {}
    for ref in refs:
        before = merged.get(ref.digest)
        if before is None:
            merged[ref.digest] = ref
            continue
        assert before.start is not None and before.end is not None
        assert ref.start is not None and ref.end is not None
        start, end = min(before.start, ref.start), max(before.end, ref.end)
        merged[ref.digest] = original(ref.digest, ref.length, start, end)
    return tuple(merged.values())


def _trajectory_of(thread: str) -> str:
    """The trajectory of another session, imported under the id that its file's name states."""
    return SourceKey(NAME, VERSION, f"session:{thread.lower()}").trajectory_id


def _parent_of(meta: dict[str, Any]) -> str | None:
    """The session that started this one as a sub-agent."""
    spawned = items.obj(
        items.obj(items.obj(meta.get("source")).get("subagent")).get("thread_spawn")
    )
    return items.text(meta.get("parent_thread_id")) or items.text(spawned.get("parent_thread_id"))


def _model_of(entry: Entry) -> str | None:
    if entry.type == "turn_context":
        return items.text(entry.payload.get("model"))
    if entry.type == EVENT and entry.kind == "thread_settings_applied":
        return items.text(items.obj(entry.payload.get("thread_settings")).get("model"))
    return None


def _layout(entries: list[Entry]) -> str:
    """The variant of the format, from the first segment."""
    first = entries[0].line.value or {}
    if first.get("type") == "thread.started":
        return "codex exec --json"
    if entries[0].type == SESSION and entries[0].bare:
        return "Codex rollout, bare items"
    if any(one.type == EXEC or one.kind == "codex/event/raw_item" for one in entries):
        return "Codex rollout with words of codex exec"
    if "ordinal" in first:
        return "Codex rollout, numbered lines"
    return "Codex rollout"


class _Titles:
    """One line: the newest name given, else the first words of the person, else the folder."""

    def __init__(self, words: str | None = None, meta: dict[str, Any] | None = None) -> None:
        folder = (items.text((meta or {}).get("cwd")) or "").rstrip("/").rpartition("/")[2]
        folder = items.one_line(folder)
        self.now = f"Codex session in {folder}" if folder else "Codex session"
        self._rank = 0
        self.hear(words)

    def hear(self, words: str | None) -> None:
        """Words of the person; only the first count."""
        if not self._rank:
            self._take(1, words)

    def name(self, name: str | None) -> None:
        """A name given to the session."""
        self._take(2, name)

    def _take(self, rank: int, given: str | None) -> None:
        line = items.one_line(given or "")
        if line:
            self._rank, self.now = rank, line


def _beginning(entries: list[Entry]) -> list[Entry]:
    """The lines up to the first in which somebody says something; all where nobody does."""
    for number, entry in enumerate(entries, 1):
        if entry.begins:
            return entries[:number]
    return entries


def _opens_turn(entry: Entry) -> bool:
    return entry.type == "turn_context" or (
        entry.type == EVENT and entry.kind in ("task_started", "turn_started")
    )


def _kind(entry: Entry) -> str:
    return entry.kind if entry.kind != entry.type else ""


def _name(words: str) -> str:
    return hashlib.sha256(words.strip().encode("utf-8", "surrogatepass")).hexdigest()


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if name not in names}
