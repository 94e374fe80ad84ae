"""mini-swe-agent trajectories: 1.x, the bare list before it, and 2.x.

One JSON document, rewritten whole after every step, whose `messages` only grow. A second reading
is compared with the kept originals message by message, byte for byte: what is new becomes a
further segment, what differs is a conflict that names the message.

What a run may change about itself between two readings without new messages: its statistics
(rising), its exit status (from none to one), its submission, and three settings that a person can
change while it runs (`VOLATILE_SETTINGS`). Anything else that differs is a conflict.

Deliberate choices, with their reasons:
- ContextBuilt claims `rebuilt`, and `partial` for models called with tools: the messages of a
  prompt are all there (it is the list before the reply), but not the request as it was sent, and
  the description of the `bash` tool is not in the file at all (EVT-2).
- `Submitted` is COMPLETED, `KeyboardInterrupt` is CANCELLED, every other exit status is FAILED
  with the source's word as detail: a limit or an exception ended the run before the agent did.
- A reply that could not be parsed is lifted out of the message that reports it, as ModelReplied
  with `rejected`; its tool calls were never run and make no ToolIntent.
- Return code -1 with an exception is `timeout` where the exception is one, and `unknown`
  otherwise: an exception in the harness says nothing of the command (EFF-4).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from core.canonical import digest_text, sha256
from core.errors import ImportRefused, IntegrityConflict
from ingest import document
from ingest.base import Built, Findings, Kept, Sniff, Source
from ingest.build import Builder, SourceKey
from ingest.document import Document, Part
from ingest.mini_turns import Message, Segment, Walk, changed_settings, stated_calls

NAME = "mini-swe-agent"
VERSION = 1
ITEMS = "messages"
#: Settings a person can change while a run goes on (interactive agent).
VOLATILE_SETTINGS = ("mode", "step_limit", "cost_limit")

_FORMAT = re.compile(rb'"trajectory_format"\s*:\s*"(mini-swe-agent-[^"]{1,20})"')
_INFO = re.compile(rb'"(?:mini_version|model_stats|exit_status|api_calls)"\s*:')
_BARE = re.compile(rb'\s*\[\s*\{\s*"role"\s*:\s*"(?:system|user)"')


class MiniSweAgent:
    """The importer."""

    name = NAME
    version = VERSION
    title = "mini-swe-agent 1.x and 2.x"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """The format names itself near its end, or near its start if it was saved sorted."""
        for part, where in ((tail, "end"), (head, "start")):
            found = _FORMAT.search(part)
            if found:
                word = found.group(1).decode("utf-8", "replace")
                return Sniff(1.0, f"it says trajectory_format {word} near its {where}")
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"{") and _INFO.search(head):
            return Sniff(0.8, "it begins with the run's info, as mini-swe-agent writes it")
        if start.startswith(b"{") and name.endswith(".traj.json"):
            return Sniff(0.3, "its name ends in .traj.json")
        if _BARE.match(start):
            return Sniff(0.6, "it is a bare list of role and content, as before 1.0")
        return None

    def parse(self, source: Source) -> ParsedRun:
        """The document, checked."""
        data = document.read_whole(source.file, source.size, "the file")
        return ParsedRun(document.parse(data, ITEMS))

    def rebuild(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of the kept originals; see the port."""
        olds = [_segment(document.parse(part.data, ITEMS), part.digest) for part in kept]
        return _built(SourceKey(NAME, VERSION, source_id), olds, len(olds), None, 0)


@dataclass(frozen=True, slots=True)
class ParsedRun:
    """A validated document."""

    doc: Document

    def __post_init__(self) -> None:
        _check_shape(self.doc)

    @property
    def layout(self) -> str:
        """The variant, as the report names it."""
        if self.doc.is_list:
            return "mini-swe-agent bare list"
        word = _format_word(self.doc)
        if word == "mini-swe-agent-1.1":
            return "mini-swe-agent 2.x"
        if word is None or word == "mini-swe-agent-1":
            return "mini-swe-agent 1.x"
        return word

    @property
    def items(self) -> int:
        """Messages."""
        return len(self.doc.items)

    @property
    def lines(self) -> int:
        """Lines of the file."""
        return self.doc.lines

    @property
    def discriminator(self) -> str:
        """Digest of the first two messages: the prompt and the task of this run."""
        raw = [self.doc.raw(item) for item in self.doc.items[:2]]
        return hashlib.sha256(b"\n".join(raw)).hexdigest()[:20]

    def build(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of all readings of this run; see the port."""
        key = SourceKey(NAME, VERSION, source_id)
        if not kept:
            whole = _segment(self.doc, digest_text(sha256(self.doc.data)))
            return _built(key, [whole], 0, self.doc.data, len(self.doc.items))
        olds = [_segment(document.parse(part.data, ITEMS), part.digest) for part in kept]
        comparison = _Comparison(self.doc, olds)
        addition = comparison.addition()
        if addition is None:
            return _built(key, olds, len(olds), None, 0)
        new = document.parse(addition, ITEMS)
        fresh = _segment(new, digest_text(sha256(addition)))
        return _built(key, [*olds, fresh], len(olds), addition, len(new.items))


def _check_shape(doc: Document) -> None:
    if not doc.is_list and not doc.has_items:
        part = doc.fields.get(ITEMS)
        raise ImportRefused(
            "this is no mini-swe-agent trajectory: "
            + ("it has no list of messages" if part is None else "its messages are no list"),
            where=ITEMS if part is None else _place(doc, part),
            reason="shape",
        )
    if not doc.items:
        raise ImportRefused(
            "it holds no messages, so there is no run to import", where=ITEMS, reason="shape"
        )
    for index, item in enumerate(doc.items):
        value = item.value
        if not isinstance(value, dict):
            raise _refused(doc, index, "is no object")
        role = value.get("role")
        if role is not None and not isinstance(role, str):
            raise _refused(doc, index, "has a role that is no text")
        if role is None and "type" not in value and value.get("object") != "response":
            raise _refused(doc, index, "has no role")
    for name in ("info",):
        part = doc.fields.get(name)
        if part is not None and not isinstance(part.value, dict):
            raise ImportRefused(f"its {name} is no object", where=_place(doc, part), reason="shape")
    word = _format_word(doc)
    if word is not None and not word.startswith("mini-swe-agent-"):
        raise ImportRefused(
            f"its trajectory_format is {word[:40]!r}, not one of mini-swe-agent",
            where="trajectory_format",
            reason="shape",
        )


def _refused(doc: Document, index: int, why: str) -> ImportRefused:
    part = doc.items[index]
    line, column = document.line_and_column(doc.data, part.start)
    return ImportRefused(
        f"message {index} {why}",
        where=f"message {index}, line {line}, column {column} (byte {part.start})",
        line=line,
        column=column,
        offset=part.start,
        around=document.around(doc.data, part.start),
        reason="shape",
    )


def _place(doc: Document, part: Part) -> str:
    line, column = document.line_and_column(doc.data, part.start)
    return f"line {line}, column {column} (byte {part.start})"


def _format_word(doc: Document) -> str | None:
    part = doc.fields.get("trajectory_format")
    return part.value if part is not None and isinstance(part.value, str) else None


def _info(doc: Document) -> dict[str, Any]:
    part = doc.fields.get("info")
    return part.value if part is not None and isinstance(part.value, dict) else {}


def _segment(doc: Document, digest: str) -> Segment:
    length = len(doc.data)
    part = doc.fields.get("info")
    identity = doc.fields.get("instance_id")
    return Segment(
        blob=digest,
        length=length,
        messages=tuple(
            Message(item.value, item.start, item.end, sha256(doc.raw(item))) for item in doc.items
        ),
        info=_info(doc),
        info_span=(part.start, part.end) if part is not None else (0, length),
        bare=doc.is_list,
        format_word=_format_word(doc),
        instance_id=identity.value
        if identity is not None and isinstance(identity.value, str)
        else None,
    )


def _built(
    key: SourceKey, segments: list[Segment], olds: int, segment: bytes | None, items: int
) -> Built:
    builder = Builder(key)
    walk = Walk(builder, Findings(), segments[0])
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
        trajectory_id=key.trajectory_id,
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

    def __init__(self, doc: Document, olds: list[Segment]) -> None:
        self._doc = doc
        self._olds = olds
        self._known = [message for part in olds for message in part.messages]

    def addition(self) -> bytes | None:
        """The bytes to keep of what is new; None if nothing is. IntegrityConflict if it differs."""
        items = self._doc.items
        for index, (old, new) in enumerate(zip(self._known, items, strict=False)):
            if old.raw_digest != sha256(self._doc.raw(new)):
                same = old.value == new.value
                raise self._conflict(
                    f"message {index}",
                    f"message {index} differs from what was imported before"
                    + (" in its layout only" if same else ""),
                    f"{index}",
                )
        if len(items) < len(self._known):
            return None  # an earlier state of a run that is known further on
        fresh = items[len(self._known) :]
        changed = self._info_changed(bool(fresh))
        if not fresh and not changed:
            return None
        return self._bytes(fresh)

    def _info_changed(self, grown: bool) -> bool:
        """Whether info says something new; IntegrityConflict where it contradicts."""
        before, now = self._olds[-1].info, _info(self._doc)
        for name in changed_settings(before, now):
            if name.removeprefix("config.agent.") not in VOLATILE_SETTINGS:
                raise self._conflict(
                    f"info.{name}", f"info.{name} differs from what was imported before", "info"
                )
        status_before, status_now = before.get("exit_status"), now.get("exit_status")
        if status_before and status_before != status_now and not grown:
            raise self._conflict(
                "info.exit_status",
                f"the run ended as {status_before!r} when it was imported before, and now says "
                f"{status_now!r}",
                "info",
            )
        if _calls(now) < _calls(before):
            raise self._conflict(
                "info.model_stats.api_calls",
                f"the run had made {_calls(before)} model calls when it was imported before, and "
                f"now says {_calls(now)}",
                "info",
            )
        return before != now

    def _conflict(self, where: str, why: str, item: str) -> IntegrityConflict:
        return IntegrityConflict(
            f"{why}; nothing of this reading was imported. If it is another run under the same "
            "name, copy it to a name of its own and import that",
            where=where,
            item=item,
        )

    def _bytes(self, fresh: tuple[Part, ...]) -> bytes:
        """A document of the same layout with the original bytes of what is new."""
        listed = b",\n".join(self._doc.raw(part) for part in fresh)
        if self._doc.is_list:
            return b"[\n" + listed + b"\n]\n"
        parts = [
            b'"' + name.encode() + b'": ' + self._doc.raw(part)
            for name, part in self._doc.fields.items()
            if name in ("info", "trajectory_format", "instance_id")
        ]
        return b"{\n" + b",\n".join([*parts, b'"messages": [\n' + listed + b"\n]"]) + b"\n}\n"


def _calls(info: dict[str, Any]) -> int:
    return stated_calls(info) or 0
