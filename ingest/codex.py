"""Codex rollouts: `~/.codex/sessions/.../rollout-<time>-<uuid>.jsonl`, all layouts since 2025.

A growing file of JSON lines. Present files number their lines (`ordinal`) and state the tokens of
each reply (`token_usage_record`); earlier ones state a running total only; the earliest hold the
items without an envelope; 0.50 to 0.52 also wrote the words of `codex exec --json`.

Deliberate choices, with their reasons:
- A reply is what the model wrote between two inputs: the file names no reply until it states its
  tokens. Its parts are one ModelReplied; what arrives with a later segment continues it.
- Tokens come from `token_usage_record` where a file has any, else from the rises of the running
  total; a total that falls starts a new counter. Never from both. `turn.completed` does not say
  whether its usage is of the turn or of the session: it is kept as it is and not counted.
- A call id names one call of a session. A second call item with the same id is stated in its reply
  and makes no second operation; every result is kept.
- Calls that the provider carries out (`web_search`, `image_generation`) and the program's look-up
  of its own tools (`tool_search`) stand in the reply: they are no operations of this run.
- ContextBuilt is `partial`: the items are there, and so is the exact list after a compaction, but
  neither the tools nor the request as it was sent.
- Events that repeat the text of an item make no event of their own; one whose item never comes is
  kept as RuntimeInput.
- A turn that ended is PAUSED: a session has no end of its own.
- The history that a forked session copies is context, not what this session did: its calls and
  tokens belong to the session it was copied from. Only evidence makes a line part of the copy: the
  id of its turn, or that it was written within a second of the line before. What nothing shows to
  be copied counts here, so that no call and no token is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ingest.base import Line, LogRun, Sniff
from ingest.codex_lines import Entry
from ingest.codex_run import NAME, VERSION, CodexRun

_META = re.compile(rb'"type"\s*:\s*"session_meta"')
_PAYLOAD = re.compile(rb'"payload"\s*:\s*\{')
_ORIGINATOR = re.compile(rb'"(?:originator|cli_version|model_provider)"\s*:')
_EXEC = re.compile(rb'\{\s*"type"\s*:\s*"thread\.started"\s*,\s*"thread_id"\s*:')
_ENVELOPE = re.compile(
    rb'"type"\s*:\s*"(?:response_item|event_msg|turn_context)"[^\n]{0,80}"payload"\s*:\s*\{'
)
_BARE = re.compile(rb'\{\s*"id"\s*:\s*"[^"]{1,80}"\s*,\s*"timestamp"\s*:\s*"[^"]{1,40}"')
_BARE_ITEM = re.compile(rb'\n\{\s*"(?:record_type"\s*:\s*"state"|type"\s*:\s*"message"\s*,)')
_FILE = re.compile(
    r"(?:^|[/\\])rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-"
    r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\.jsonl$"
)
_STATED = re.compile(rb'"(?:id|thread_id)"\s*:\s*"([0-9A-Za-z-]{1,80})"')
#: A session that has said nothing yet waits for its first words, but not for ever.
_SILENT_LINES_MAX = 40
_REPLY_LINES_MAX = 400


class Codex:
    """The importer."""

    name = NAME
    version = VERSION
    title = "Codex rollout .jsonl"

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """The first line names the session; later ones have an envelope of their own."""
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start.startswith(b"{"):
            return None
        first = start.partition(b"\n")[0]
        if _META.search(first) and _PAYLOAD.search(first):
            sure = 1.0 if _ORIGINATOR.search(first) else 0.9
            return Sniff(sure, "its first line is a session_meta, as Codex writes it")
        if _EXEC.match(first):
            return Sniff(0.95, "it begins with thread.started, as codex exec --json writes it")
        if _ENVELOPE.search(head):
            return Sniff(0.85, "its lines have the envelope of a Codex rollout")
        if _BARE.match(first) and _BARE_ITEM.search(head):
            return Sniff(0.8, "a session line and bare items, as Codex wrote them until mid 2025")
        if _FILE.search(name):
            return Sniff(0.4, "it is named like a Codex rollout")
        return None

    def native_id(self, head: bytes, name: str) -> str | None:
        """The session that the file's name states."""
        found = _FILE.search(name)
        return f"session:{found.group(1).lower()}" if found else None

    def stated_id(self, head: bytes, tail: bytes) -> str | None:
        """The session that the first line states."""
        first = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
        if not any(form.match(first) for form in (_EXEC, _BARE)) and not _META.search(first):
            return None
        found = _STATED.search(first)
        return f"session:{found.group(1).decode().lower()}" if found else None

    def waiting(self, lines: tuple[Line, ...]) -> int:
        """A reply whose tokens are still to come, and a session that has said nothing yet."""
        entries = [Entry.of(line) for line in lines]
        if lines and lines[0].number == 1 and len(lines) <= _SILENT_LINES_MAX:
            if not any(one.begins for one in entries):
                return len(lines)
        count, output = 0, False
        for one in reversed(entries[-_REPLY_LINES_MAX:]):
            if not (one.is_output or one.repeats):
                break
            output = output or one.is_output
            count += 1
        return count if output else 0

    def start(self, source_id: str, name: str, companion: Callable[[str], bytes | None]) -> LogRun:
        """A run that has read nothing."""
        return CodexRun(source_id)
