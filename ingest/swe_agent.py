"""SWE-agent trajectories (`.traj`): 0.x, 1.0.x and 1.1, and files that hold a history only.

One JSON document, rewritten whole after every step, whose `trajectory` and `history` only grow. A
second reading is compared with the kept originals step by step, byte for byte: what is new becomes
a further segment, what differs is a conflict that names the step.

Deliberate choices, with their reasons:
- A step is one model call, one command and its outcome: ModelReplied, ToolIntent, ToolResult. A
  reply without a command is `rejected` and makes no ToolIntent; a step that the harness wrote
  itself (its note that a limit ended the run) is no reply and no command.
- The delivered input is `query` from 1.1 on (`rebuilt`: the messages are there, the request's
  bytes are not). Before it, `messages` was written after the step, so that it is the input of the
  next one. Where a file has neither, the input is the history up to there, and `partial`: the
  program may have shortened old messages before it sent them.
- An observation says that the command came back, not how: the program records no exit code. So a
  result is `succeeded` for that check alone, and names it (`covers`). Where the program's own words
  say that it rejected the command, it is `failed` and the proof quotes them (swe_refusals).
- `submitted` is COMPLETED. Every other exit status is FAILED with the source's word as detail, also
  `submitted (exit_cost)`: a limit ended the run, and the program handed in what was there.
- Totals that are all zero while there are replies are not stated: a person's demonstration or a
  replay writes them, and a zero there means that nothing was measured.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from core.canonical import canonical, digest_text, sha256
from core.errors import ImportRefused, IntegrityConflict, InvalidInput
from ingest import document
from ingest.base import Built, Findings, Kept, Sniff, Source
from ingest.build import Builder, SourceKey
from ingest.document import Document, Part
from ingest.swe_steps import Message, Segment, Step, Walk

NAME = "swe-agent"
VERSION = 1
STEPS = "trajectory"
HISTORY = "history"
#: What a history item may change between two readings: marks for the provider's cache move on.
_VOLATILE = ("cache_control", "tags")
#: What a run says of itself once it goes on: the rest must not change.
_FIXED = ("environment", "replay_config")

_STEP_LIST = re.compile(
    rb'\s*\{\s*(?:"environment"\s*:\s*(?:null|"[^"]{0,200}")\s*,\s*)?"trajectory"\s*:\s*\['
)
_STEP_FIELDS = re.compile(rb'"(?:execution_time|thought|observation)"\s*:')
_HISTORY_LIST = re.compile(rb'"history"\s*:\s*\[\s*\{')
_HISTORY_FIELDS = re.compile(rb'"(?:is_demo|message_type|agent|thought)"\s*:')


class SweAgent:
    """The importer."""

    name = NAME
    version = VERSION
    title = "SWE-agent .traj, 0.x and 1.x"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """Its lists have names and fields of their own; the name of the file adds little."""
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start.startswith(b"{"):
            return None
        if _STEP_LIST.match(start) and _STEP_FIELDS.search(head):
            return Sniff(0.95, "it begins with a list of steps, as SWE-agent writes them")
        if _HISTORY_LIST.search(head) and _HISTORY_FIELDS.search(head):
            return Sniff(0.9, "it holds a history in SWE-agent's words")
        if b'"trajectory"' in head and _STEP_FIELDS.search(head):
            return Sniff(0.85, "it holds steps in SWE-agent's words")
        if name.endswith(".traj"):
            return Sniff(0.3, "its name ends in .traj")
        return None

    def parse(self, source: Source) -> ParsedRun:
        """The document, checked."""
        data = document.read_whole(source.file, source.size, "the file")
        return ParsedRun(_read(data))

    def rebuild(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of the kept originals; see the port."""
        wholes = [_read_kept(part.data) for part in kept]
        olds, before = [], 0
        for part, whole in zip(kept, wholes, strict=True):
            olds.append(_segment(whole, part.digest, before))
            before += len(whole.steps)
        first = next((whole for whole in wholes if whole.steps), wholes[0])
        key = SourceKey(NAME, VERSION, source_id)
        return _built(_Readings(key, ParsedRun(first).layout, olds, len(olds)), None, 0)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A document with the elements of both lists."""

    doc: Document
    history: tuple[Part, ...]

    @property
    def steps(self) -> tuple[Part, ...]:
        return self.doc.items

    @property
    def info(self) -> dict[str, Any]:
        return _object(self.doc, "info")


def _read(data: bytes) -> _Whole:
    """The document and its history; ImportRefused where it is none of SWE-agent's."""
    doc = document.parse(data, STEPS)
    if doc.is_list:
        raise ImportRefused(
            "this is no SWE-agent trajectory: it is a list, not an object",
            where="the whole file",
            reason="shape",
        )
    part = doc.fields.get(HISTORY)
    history: tuple[Part, ...] = ()
    if part is not None and part.value is not None:
        if not isinstance(part.value, list):
            raise _wrong(doc, part, "its history is no list")
        history = inner(data, part)
    steps = doc.fields.get(STEPS)
    if steps is not None and steps.value is not None:
        raise _wrong(doc, steps, "its trajectory is no list")
    if not doc.items and not history:
        raise ImportRefused(
            "it holds no steps and no history, so there is no run to import",
            where=STEPS,
            reason="shape",
        )
    _check(doc, doc.items, "step")
    _check(doc, history, "history item")
    for name in ("info",):
        part = doc.fields.get(name)
        if part is not None and part.value is not None and not isinstance(part.value, dict):
            raise _wrong(doc, part, f"its {name} is no object")
    for number, item in enumerate(doc.items):
        for name in ("action", "response", "thought", "observation"):
            if not isinstance(item.value.get(name), str | None):
                raise _wrong(doc, item, f"step {number} has a {name} that is no text")
    return _Whole(doc, history)


def inner(data: bytes, part: Part) -> tuple[Part, ...]:
    """The elements of a list within the document, with their bytes there."""
    found = document.parse(data[part.start : part.end], "")
    return tuple(
        Part(one.value, part.start + one.start, part.start + one.end) for one in found.items
    )


def _check(doc: Document, parts: tuple[Part, ...], what: str) -> None:
    for number, part in enumerate(parts):
        if not isinstance(part.value, dict):
            raise _wrong(doc, part, f"{what} {number} is no object")


def _wrong(doc: Document, part: Part, why: str) -> ImportRefused:
    line, column = document.line_and_column(doc.data, part.start)
    return ImportRefused(
        why,
        where=f"line {line}, column {column} (byte {part.start})",
        line=line,
        column=column,
        offset=part.start,
        around=document.around(doc.data, part.start),
        reason="shape",
    )


def _object(doc: Document, name: str) -> dict[str, Any]:
    part = doc.fields.get(name)
    return part.value if part is not None and isinstance(part.value, dict) else {}


@dataclass(frozen=True, slots=True)
class ParsedRun:
    """A validated document."""

    whole: _Whole

    @property
    def layout(self) -> str:
        """The variant, as the report names it."""
        steps = self.whole.steps
        if not steps:
            return "SWE-agent history only"
        first = steps[0].value
        if "query" in first:
            return "SWE-agent 1.1"
        if "messages" in first or isinstance(first.get("state"), dict):
            return "SWE-agent 1.0"
        return "SWE-agent 0.x"

    @property
    def items(self) -> int:
        """Steps; history items where there are no steps."""
        return len(self.whole.steps) or len(self.whole.history)

    @property
    def lines(self) -> int:
        """Lines of the file."""
        return self.whole.doc.lines

    @property
    def discriminator(self) -> str:
        """Digest of the first items: the prompt and the task of this run."""
        doc = self.whole.doc
        raw = [doc.raw(item) for item in (self.whole.history[:3] or self.whole.steps[:1])]
        return hashlib.sha256(b"\n".join(raw)).hexdigest()[:20]

    def build(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of all readings of this run; see the port."""
        key = SourceKey(NAME, VERSION, source_id)
        doc = self.whole.doc
        if not kept:
            first = _segment(self.whole, digest_text(sha256(doc.data)), 0)
            return _built(_Readings(key, self.layout, [first], 0), doc.data, self.items)
        wholes = [_read_kept(part.data) for part in kept]
        olds, before = [], 0
        for part, whole in zip(kept, wholes, strict=True):
            olds.append(_segment(whole, part.digest, before))
            before += len(whole.steps)
        addition = _Comparison(self.whole, wholes).addition()
        if addition is None:
            return _built(_Readings(key, self.layout, olds, len(olds)), None, 0)
        new = _read_kept(addition)
        fresh = _segment(new, digest_text(sha256(addition)), before)
        items = len(new.steps) or len(new.history)
        return _built(_Readings(key, self.layout, [*olds, fresh], len(olds)), addition, items)


def _read_kept(data: bytes) -> _Whole:
    """A kept segment: as a document, but it may hold neither steps nor history (only `info`)."""
    doc = document.parse(data, STEPS)
    part = doc.fields.get(HISTORY)
    listed = part is not None and isinstance(part.value, list)
    return _Whole(doc, inner(data, part) if part is not None and listed else ())


def _segment(whole: _Whole, digest: str, before: int) -> Segment:
    doc = whole.doc
    part = doc.fields.get("info")
    return Segment(
        blob=digest,
        length=len(doc.data),
        first=before,
        steps=tuple(_step(doc, item) for item in whole.steps),
        history=tuple(_message(item) for item in whole.history),
        info=whole.info,
        info_span=(part.start, part.end) if part is not None else (0, len(doc.data)),
        environment=_text(doc, "environment"),
        replay=_replay(doc),
    )


def _step(doc: Document, item: Part) -> Step:
    value = item.value
    for name in ("query", "messages"):
        listed = value.get(name)
        if isinstance(listed, list) and any(listed):
            raw = document.parse(doc.raw(item), name)
            messages = tuple(
                Message(one.value, item.start + one.start, item.start + one.end)
                for one in raw.items
                if isinstance(one.value, dict) and one.value
            )
            return Step(value, item.start, item.end, name, messages)
    return Step(value, item.start, item.end, "query" if "query" in value else "", ())


def _message(item: Part) -> Message:
    return Message(item.value, item.start, item.end)


def _text(doc: Document, name: str) -> str | None:
    part = doc.fields.get(name)
    return part.value if part is not None and isinstance(part.value, str) else None


def _replay(doc: Document) -> dict[str, Any]:
    """The run's configuration: an object, or the text of one."""
    part = doc.fields.get("replay_config")
    value = part.value if part is not None else None
    if isinstance(value, str):
        try:
            value = document.parse(value.encode(), "").fields
            value = {name: one.value for name, one in value.items()}
        except (ImportRefused, UnicodeEncodeError):
            return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class _Readings:
    """All readings of one run."""

    key: SourceKey
    layout: str
    segments: list[Segment]
    known: int
    """How many of the segments were kept before."""


def _built(readings: _Readings, segment: bytes | None, items: int) -> Built:
    segments, olds = readings.segments, readings.known
    builder = Builder(readings.key)
    walk = Walk(builder, Findings(), segments[0], readings.layout)
    known = 0
    for number, part in enumerate(segments):
        if number == olds:
            known = len(builder.events)
        walk.segment(number, part)
    if olds == len(segments):
        known = len(builder.events)
    walk.close()
    return Built(
        importer=NAME,
        version=VERSION,
        trajectory_id=readings.key.trajectory_id,
        title=walk.title,
        events=tuple(builder.events),
        known=known,
        segment=segment,
        segment_items=items,
        findings=walk.findings,
        state={"events": str(len(builder.events))},
    )


class _Comparison:
    """A new reading against the kept originals."""

    def __init__(self, whole: _Whole, olds: list[_Whole]) -> None:
        self._new = whole
        self._olds = olds

    def addition(self) -> bytes | None:
        """The bytes to keep of what is new; None if nothing is. IntegrityConflict if it differs."""
        known_steps = [(old.doc, part) for old in self._olds for part in old.steps]
        for index, ((doc, old), new) in enumerate(zip(known_steps, self._new.steps, strict=False)):
            if doc.raw(old) != self._new.doc.raw(new):
                raise self._conflict(f"step {index}", old.value == new.value)
        known_history = [part for old in self._olds for part in old.history]
        for index, (old, new) in enumerate(zip(known_history, self._new.history, strict=False)):
            if _steady(old.value) != _steady(new.value):
                raise self._conflict(f"history item {index}", False)
        for name in _FIXED:
            was, is_now = self._olds[0].doc.fields.get(name), self._new.doc.fields.get(name)
            if (was.value if was else None) != (is_now.value if is_now else None):
                raise self._conflict(name, False)
        steps = self._new.steps[len(known_steps) :]
        history = self._new.history[len(known_history) :]
        if len(self._new.steps) < len(known_steps) or len(self._new.history) < len(known_history):
            return None  # an earlier state of a run that is known further on
        before, now = self._olds[-1].info, self._new.info
        ended = before.get("exit_status")
        if ended and ended != now.get("exit_status") and not steps:
            raise self._conflict("info.exit_status", False)
        if not steps and not history and before == now:
            return None
        return self._bytes(steps, history)

    def _conflict(self, where: str, layout_only: bool) -> IntegrityConflict:
        return IntegrityConflict(
            f"{where} differs from what was imported before"
            + (" in its layout only" if layout_only else "")
            + "; nothing of this reading was imported. If it is another run under the same name, "
            "copy it to a name of its own and import that",
            where=where,
            item=where,
        )

    def _bytes(self, steps: tuple[Part, ...], history: tuple[Part, ...]) -> bytes:
        """A document of the same layout with the original bytes of what is new."""
        doc = self._new.doc
        parts = [
            b'"' + name.encode() + b'": ' + doc.raw(part)
            for name, part in doc.fields.items()
            if name in ("info", *_FIXED)
        ]
        for name, listed in ((HISTORY, history), (STEPS, steps)):
            inside = b",\n".join(doc.raw(part) for part in listed)
            parts.append(b'"' + name.encode() + b'": [\n' + inside + b"\n]")
        return b"{\n" + b",\n".join(parts) + b"\n}\n"


def _steady(item: dict[str, Any]) -> bytes:
    """What must stay the same of a history item."""
    kept = {name: value for name, value in item.items() if name not in _VOLATILE}
    try:
        return sha256(canonical(_without_marks(kept)))
    except InvalidInput as error:
        raise ImportRefused(f"a history item is not canonical: {error}", where=HISTORY) from error


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        # A content of one text part is the same as the text: the mark alone makes it a list.
        if len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
            return value[0].get("text")
        return [_without_marks(one) for one in value]
    return value
