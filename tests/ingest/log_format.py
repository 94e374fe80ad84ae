"""A small log format for tests of the pipeline: one JSON object a line, `{"say": text}`.

`"session": id` in the first line names its session. `{"do": tool, "id": call}` is a call,
`{"done": call, "out": text}` its result, `"agent": name` makes a line part of a sub-agent's log,
`{"part": id, ...}` lines belong to one reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from core.events.context import RuntimeInput
from core.events.fields import Payload
from core.events.source import Unparsed
from core.events.task import Parent, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from ingest.base import Findings, Grown, Line, LogRun, LogSegment, Sniff
from ingest.build import Builder, SourceKey, original


class SayRun:
    """One source while it is derived."""

    def __init__(self, importer: SayLog, source_id: str, about: bytes | None) -> None:
        self.layout = "say 1"
        self.findings = Findings()
        self._importer = importer
        self._source_id = source_id
        self._about = about
        self._started: set[str | None] = set()

    def _key(self, sub: str | None) -> SourceKey:
        source_id = self._source_id if sub is None else f"{self._source_id}#agent:{sub}"
        return SourceKey(self._importer.name, self._importer.version, source_id)

    def feed(self, segment: LogSegment) -> tuple[Grown, ...]:
        """Events of a segment."""
        builders: dict[str | None, Builder] = {}
        for line in segment.lines:
            value = line.value or {}
            sub = value.get("agent") if isinstance(value.get("agent"), str) else None
            if value.get("quiet"):
                continue
            builder = builders.setdefault(sub, Builder(self._key(sub)))
            refs = (original(segment.blob, segment.length, line.start, line.end),)
            if sub not in self._started:
                self._started.add(sub)
                builder.add(self._start(sub), key="start", where="line 1", refs=refs)
            for payload, more in self._payloads(line, value):
                key = f"{line.number}:{type(payload).__name__}"
                builder.add(payload, key=key, where=f"line {line.number}", refs=refs, **more)
                self.findings.became["line", type(payload).__name__] += 1
        ordered = sorted(builders, key=lambda sub: sub or "")
        return tuple(
            Grown(self._key(sub).trajectory_id, sub, "say", tuple(builders[sub].events))
            for sub in ordered
        )

    def _start(self, sub: str | None) -> TaskStarted:
        parent = Parent(self._key(None).trajectory_id) if sub is not None else None
        about = self._about.decode() if self._about is not None else None
        return TaskStarted(title=sub or "say", standing="imported", parent=parent, task=about)

    def _payloads(
        self, line: Line, value: dict[str, Any]
    ) -> tuple[tuple[Payload, dict[str, Any]], ...]:
        if line.value is None:
            return ((Unparsed(where=f"line {line.number}", why=line.why), {}),)
        if "do" in value:
            ids = {"operation_id": value["id"], "attempt_id": f"{value['id']}.1"}
            intent = ToolIntent(kind="proposal", tool=value["do"], arguments=value.get("with", {}))
            return ((intent, ids),)
        if "done" in value:
            ids = {"operation_id": value["done"], "attempt_id": f"{value['done']}.1"}
            result = ToolResult(
                status="succeeded", basis="sender", observation=str(value.get("out", ""))
            )
            return ((result, ids),)
        said = RuntimeInput(kind="message", text=str(value.get("say", "")))
        return ((said, {}),)


class SayLog:
    """The importer."""

    name = "say"
    version = 1
    title = "Say (a test format)"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """By the name."""
        return Sniff(0.9, "it is called .say.jsonl") if ".say.jsonl" in name else None

    def native_id(self, head: bytes, name: str) -> str | None:
        """`session-<id>.say.jsonl` names its session."""
        base = name.rpartition("/")[2]
        if not base.startswith("session-"):
            return None
        return f"session:{base.removeprefix('session-').partition('.')[0]}"

    def stated_id(self, head: bytes, tail: bytes) -> str | None:
        """`"session": <id>` of its first line."""
        try:
            session = json.loads(head.partition(b"\n")[0]).get("session")
        except ValueError:
            return None
        return f"session:{session}" if session is not None else None

    def waiting(self, lines: tuple[Line, ...]) -> int:
        """The last lines with one `part`."""
        last = (lines[-1].value or {}).get("part")
        if last is None:
            return 0
        count = 0
        for line in reversed(lines):
            if (line.value or {}).get("part") != last:
                break
            count += 1
        return count

    def start(self, source_id: str, name: str, companion: Callable[[str], bytes | None]) -> LogRun:
        """A run that has read nothing."""
        return SayRun(self, source_id, companion(".about.txt"))
