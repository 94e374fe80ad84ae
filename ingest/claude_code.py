"""Claude Code sessions: growing files of JSON lines, and the web export of one.

A session's file is named after its id, `<uuid>.jsonl`; a sub-agent's is
`<uuid>/subagents/agent-<id>.jsonl` (before that, `agent-<id>.jsonl` beside the session's). So both
have an identity wherever they lie, and can come in any order.

A resumed session's file begins with a copy of the history. Where the copy keeps the session id or
names its origin (`forkedFrom`), the report says how many lines it is and TaskStarted names the
other session. Where the copy carries the new id and nothing else, one file alone cannot show it:
the same replies are then counted in both sessions.

A web export is one JSON document, `{"loglines": [...]}`, with the same lines. It is compared with
the kept originals line by line: what is new becomes a further segment, what differs is a conflict.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.canonical import digest_text, sha256
from core.errors import ImportRefused, IntegrityConflict
from ingest import claude_run, claude_titles, document
from ingest.base import Built, BuiltEvent, Kept, Line, LogRun, LogSegment, Sniff, Source
from ingest.build import SourceKey
from ingest.claude_lines import an_object, text
from ingest.claude_run import NAME, VERSION, Run
from ingest.document import Document

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_SESSION_NAME = re.compile(rf"({_UUID})\.jsonl")
_AGENT_NAME = re.compile(r"agent-([A-Za-z0-9_-]{1,80})\.jsonl")
_ITEMS = "loglines"
_EXPORT = re.compile(rb'\s*\{\s*"loglines"\s*:\s*\[')
_KEYS = re.compile(rb'"(?:parentUuid|isSidechain|leafUuid)"\s*:')
_TALK = frozenset({"user", "assistant"})
#: Line types of the program without a message; each carries a field that is its own.
_OTHERS: dict[str, tuple[str, ...]] = {
    "summary": ("leafUuid",),
    "file-history-snapshot": ("snapshot",),
    "queue-operation": ("operation", "sessionId"),
    "permission-mode": ("permissionMode", "sessionId"),
    "mode": ("mode", "sessionId"),
    "custom-title": ("customTitle", "sessionId"),
    "ai-title": ("aiTitle", "sessionId"),
    "agent-name": ("agentName", "sessionId"),
    "last-prompt": ("lastPrompt", "sessionId"),
    "worktree-state": ("worktreeSession", "sessionId"),
    "attachment": ("attachment", "sessionId", "uuid"),
    "progress": ("data", "sessionId", "uuid"),
    "system": ("sessionId", "uuid", "isSidechain"),
}
_HEAD_LINES = 40
_STATED_LINES = 400


class ClaudeCode:
    """The importer of session files."""

    name = NAME
    version = VERSION
    title = "Claude Code sessions (.jsonl)"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """By the fields of its first lines; another program's lines outweigh one like ours."""
        lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        cut = len(lines) == 1 and len(head) >= 4096
        ours = foreign = 0
        for line in lines[:_HEAD_LINES]:
            value = _lenient(line)
            if value is None:
                continue
            if _is_ours(value):
                ours += 1
            else:
                foreign += 1
        if ours and ours >= foreign:
            return Sniff(0.9, "its lines have the fields of a Claude Code session")
        if ours:
            return Sniff(0.3, "a few of its lines have the fields of a Claude Code session")
        if cut and head.lstrip().startswith(b"{") and _KEYS.search(head):
            return Sniff(0.6, "its first line begins like one of a Claude Code session")
        named = _SESSION_NAME.fullmatch(_base(name)) or _AGENT_NAME.fullmatch(_base(name))
        if named and not foreign and head.lstrip().startswith(b"{"):
            return Sniff(0.25, "it is named like a Claude Code session")
        return None

    def native_id(self, head: bytes, name: str) -> str | None:
        """The session its name states, with the sub-agent where it is one."""
        session, agent = _named(name, head)
        if session is None:
            return None
        source = claude_run.session_source(session)
        return source if agent is None else claude_run.agent_source(source, agent)

    def stated_id(self, head: bytes, tail: bytes) -> str | None:
        """The session that its last line names: the first may be copied from another. And the
        sub-agent, where the first line names it too: a session may hold lines of sub-agents."""
        session, agent = _stated(tail.split(b"\n")[::-1])
        if session is None:
            return None
        source = claude_run.session_source(session)
        first = _stated(head.removeprefix(b"\xef\xbb\xbf").split(b"\n"))[1]
        return source if agent is None or agent != first else claude_run.agent_source(source, agent)

    def waiting(self, lines: tuple[Line, ...]) -> int:
        """A reply whose end was not written, and a beginning that nobody has asked in yet."""
        if not lines:
            return 0
        values = [line.value or {} for line in lines]
        if lines[0].number == 1 and not any(map(claude_titles.begins, values)):
            return len(lines)
        held = 0
        message_id = _open_reply(values[-1])
        if message_id is None:
            return 0
        for value in reversed(values):
            if text(an_object(value.get("message")).get("id")) != message_id:
                break
            held += 1
        return held

    def start(self, source_id: str, name: str, companion: Callable[[str], bytes | None]) -> LogRun:
        """A run; a sub-agent's file is read with the description beside it."""
        session, agent = _named(name, b"")
        named = _AGENT_NAME.fullmatch(_base(name))
        meta = claude_run.meta_of(companion(".meta.json")) if named else {}
        return Run(source_id, session=session, agent=agent, meta=meta)


def _base(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _named(name: str, head: bytes) -> tuple[str | None, str | None]:
    """(session, sub-agent) as a file's name states them; beside its session's file, a sub-agent's
    first lines must say the same of it and name the session."""
    parts = name.replace("\\", "/").split("/")
    found = _SESSION_NAME.fullmatch(parts[-1])
    if found:
        return found.group(1).lower(), None
    found = _AGENT_NAME.fullmatch(parts[-1])
    if not found:
        return None, None
    agent = found.group(1)
    if len(parts) > 2 and parts[-2] == "subagents" and re.fullmatch(_UUID, parts[-3]):
        return parts[-3].lower(), agent
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:_HEAD_LINES]:
        value = _lenient(line) or {}
        session = text(value.get("sessionId"))
        if session is not None and len(session) <= 100 and value.get("agentId") == agent:
            return session, agent
    return None, None


def _stated(lines: list[bytes]) -> tuple[str | None, str | None]:
    """Session and sub-agent of the first of these lines that names a session."""
    for line in lines[:_STATED_LINES]:
        value = _lenient(line) or {}
        session, agent = text(value.get("sessionId")), text(value.get("agentId"))
        if session is not None and 0 < len(session) <= 100:
            return session.lower() if re.fullmatch(_UUID, session) else session, agent
    return None, None


def _lenient(line: bytes) -> dict[str, Any] | None:
    """The object of a line that is whole; only for guessing."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_ours(value: dict[str, Any]) -> bool:
    type_ = value.get("type")
    if not isinstance(type_, str):
        return False
    if type_ in _TALK:
        message = value.get("message")
        if not isinstance(message, dict) or "content" not in message:
            return False
        return message.get("role") == type_ and "sessionId" in value and "timestamp" in value
    fields = _OTHERS.get(type_)
    return fields is not None and all(field in value for field in fields)


def _open_reply(value: dict[str, Any]) -> str | None:
    """The message id of a line after which further parts of its reply may come."""
    message = an_object(value.get("message"))
    if value.get("type") != "assistant" or text(message.get("stop_reason")) is not None:
        return None
    return text(message.get("id"))


# --- the web export --------------------------------------------------------------------------


class ClaudeExport:
    """The importer of web exports."""

    name = "claude-code-export"
    version = VERSION
    title = "Claude Code web exports (.json)"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """By its only field."""
        if _EXPORT.match(head.removeprefix(b"\xef\xbb\xbf")):
            return Sniff(0.9, "it is one object with a list of loglines")
        return None

    def parse(self, source: Source) -> ParsedExport:
        """The document, checked."""
        data = document.read_whole(source.file, source.size, "the file")
        return ParsedExport(document.parse(data, _ITEMS))

    def rebuild(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of the kept originals; see the port."""
        documents = [(document.parse(part.data, _ITEMS), part.digest) for part in kept]
        return _built(source_id, documents, len(documents), None, 0)


@dataclass(frozen=True, slots=True)
class ParsedExport:
    """A validated document."""

    doc: Document

    def __post_init__(self) -> None:
        if self.doc.is_list or not self.doc.has_items:
            raise ImportRefused(
                "this is no Claude Code export: it has no list of loglines",
                where=_ITEMS,
                reason="shape",
            )
        if not self.doc.items:
            raise ImportRefused("it holds no loglines", where=_ITEMS, reason="shape")
        for index, item in enumerate(self.doc.items):
            if not isinstance(item.value, dict) or not isinstance(item.value.get("type"), str):
                line, column = document.line_and_column(self.doc.data, item.start)
                raise ImportRefused(
                    f"logline {index + 1} is no object with a type",
                    where=f"logline {index + 1}, line {line}, column {column} (byte {item.start})",
                    line=line,
                    column=column,
                    offset=item.start,
                    around=document.around(self.doc.data, item.start),
                    reason="shape",
                )

    @property
    def layout(self) -> str:
        """The variant, as the report names it."""
        return claude_run.EXPORT

    @property
    def items(self) -> int:
        """Loglines."""
        return len(self.doc.items)

    @property
    def lines(self) -> int:
        """Lines of the file."""
        return self.doc.lines

    @property
    def discriminator(self) -> str:
        """Digest of the first two loglines."""
        raw = [self.doc.raw(item) for item in self.doc.items[:2]]
        return hashlib.sha256(b"\n".join(raw)).hexdigest()[:20]

    def build(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of all readings of this export; see the port."""
        olds = [document.parse(part.data, _ITEMS) for part in kept]
        known = [old.raw(item) for old in olds for item in old.items]
        items = self.doc.items
        for index, (old, new) in enumerate(zip(known, items, strict=False)):
            if old != self.doc.raw(new):
                raise IntegrityConflict(
                    f"logline {index + 1} differs from what was imported before; nothing of this "
                    "reading was imported. If it is another session under the same name, copy it "
                    "to a name of its own and import that",
                    where=f"logline {index + 1}",
                    item=str(index + 1),
                )
        fresh = items[len(known) :]
        addition: bytes | None = None
        if not kept:
            addition = self.doc.data
        elif fresh:
            listed = b",\n".join(self.doc.raw(item) for item in fresh)
            addition = b'{"loglines": [\n' + listed + b"\n]}\n"
        documents = [(old, part.digest) for old, part in zip(olds, kept, strict=True)]
        if addition is not None:
            new_doc = self.doc if not kept else document.parse(addition, _ITEMS)
            documents.append((new_doc, digest_text(sha256(addition))))
        return _built(source_id, documents, len(kept), addition, len(fresh))


def _built(
    source_id: str,
    documents: list[tuple[Document, str]],
    olds: int,
    addition: bytes | None,
    items: int,
) -> Built:
    key = SourceKey(ClaudeExport.name, VERSION, source_id)
    run = Run(source_id, layout=claude_run.EXPORT, importer=ClaudeExport.name)
    events: list[BuiltEvent] = []
    known = offset = number = 0
    title = ""
    for index, (doc, digest) in enumerate(documents):
        lines = tuple(
            Line(number + place, item.start, item.end, doc.raw(item), item.value)
            for place, item in enumerate(doc.items, 1)
        )
        segment = LogSegment(index, digest, len(doc.data), offset, lines)
        for grown in run.feed(segment):
            events += grown.events
            title = grown.title
        offset, number = offset + len(doc.data), number + len(lines)
        if index < olds:
            known = len(events)
    return Built(
        importer=ClaudeExport.name,
        version=VERSION,
        trajectory_id=key.trajectory_id,
        title=title,
        events=tuple(events),
        known=known,
        segment=addition,
        segment_items=items,
        findings=run.findings,
        state={"events": str(len(events))},
    )
