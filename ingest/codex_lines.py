"""One line of a rollout, whatever its layout, as a type and a payload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ingest import codex_items as items
from ingest.base import Line

#: Events that say again what an item says.
REPEATS = frozenset(
    {
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
    }
)
_TURN_ENDS = frozenset({"task_complete", "turn_complete", "turn_aborted", "turn.completed"})
_EXEC_PREFIXES = ("thread.", "turn.", "item.")
_CONTEXT_MARKS = ("<", "# AGENTS.md instructions", "# Context from my IDE")
_SCANNER = json.JSONDecoder()

SESSION, ITEM, EVENT, EXEC = "session_meta", "response_item", "event_msg", "exec"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a line is, without its envelope."""

    line: Line
    type: str
    """`session_meta`, `response_item`, `event_msg`, `exec`, or the line's own type."""
    payload: dict[str, Any]
    bare: bool = False
    """It has no envelope: the payload is the whole line."""

    @classmethod
    def of(cls, line: Line) -> Entry:
        """The entry of a line; one that could not be read is empty."""
        value = line.value
        if value is None:
            return cls(line, "", {}, True)
        type_, payload = value.get("type"), value.get("payload")
        if isinstance(type_, str) and isinstance(payload, dict):
            if type_ == EVENT:
                return cls._event(line, payload)
            return cls(line, type_, payload)
        if isinstance(value.get("record_type"), str):
            return cls(line, str(value["record_type"]), value, True)
        if isinstance(type_, str):
            if type_ in items.ITEMS:
                return cls(line, ITEM, value, True)
            if type_.startswith(_EXEC_PREFIXES) or type_ == "error":
                return cls(line, EXEC, value, True)
            return cls(line, type_, value, True)
        if "id" in value and "timestamp" in value:
            return cls(line, SESSION, value, True)
        return cls(line, "a line of no known type", value, True)

    @classmethod
    def _event(cls, line: Line, payload: dict[str, Any]) -> Entry:
        kind = payload.get("type")
        if isinstance(kind, str) and kind.startswith(_EXEC_PREFIXES):
            return cls(line, EXEC, payload)
        if kind == "codex/event/raw_item":
            for name in ("payload", "item"):
                inner = payload.get(name)
                if isinstance(inner, dict) and items.text(inner.get("type")) in items.ITEMS:
                    return cls(line, ITEM, inner)
        return cls(line, EVENT, payload)

    @property
    def kind(self) -> str:
        """The payload's own type; the entry's where it has none."""
        kind = self.payload.get("type")
        return kind if isinstance(kind, str) and kind else self.type

    @property
    def at(self) -> int | None:
        """When the line was written, where it says so."""
        return items.instant((self.line.value or {}).get("timestamp"))

    @property
    def role(self) -> str:
        """Role of a message item."""
        return items.text(self.payload.get("role")) or "user"

    @property
    def is_output(self) -> bool:
        """An item that the model wrote."""
        if self.type == EXEC:
            kind = items.obj(self.payload.get("item")).get("type")
            return kind in ("agent_message", "assistant_message", "reasoning")
        if self.type != ITEM:
            return False
        kind = self.kind
        return kind in items.OUTPUT or (kind == "message" and self.role == "assistant")

    @property
    def repeats(self) -> bool:
        """An event that says again what the model wrote."""
        return self.type == EVENT and self.kind in REPEATS

    @property
    def is_user_text(self) -> bool:
        """Words of a person, not what the program adds for them."""
        return self.user_text is not None

    @property
    def user_text(self) -> str | None:
        """The words of a person in this line, if it holds any."""
        if self.type == EVENT and self.kind == "user_message":
            found = items.text(self.payload.get("message"))
        elif self.type == ITEM and self.kind == "message" and self.role == "user":
            found, _ = items.content(self.payload.get("content"))
        else:
            return None
        if found is None or not found.strip() or found.lstrip().startswith(_CONTEXT_MARKS):
            return None
        return found

    @property
    def ends_turn(self) -> bool:
        """A turn ended here."""
        return self.type in (EVENT, EXEC) and self.kind in _TURN_ENDS

    @property
    def begins(self) -> bool:
        """Somebody says something here: what comes before it only opens the session."""
        return self.is_user_text or self.is_output or self.ends_turn

    def span(self) -> tuple[int, int]:
        """First byte and one past the last byte of the payload, within the line's data."""
        data = self.line.data
        if self.bare or (self.line.value or {}).get("payload") is not self.payload:
            return 0, len(data)
        text = data.decode("utf-8", "surrogatepass")
        at = text.find('"payload"')
        if at < 0 or text.count("{", 0, at) != 1:
            return 0, len(data)
        begin = text.find("{", at)
        try:
            _, end = _SCANNER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            return 0, len(data)
        if len(text) == len(data):
            return begin, end
        first = len(text[:begin].encode("utf-8", "surrogatepass"))
        return first, first + len(text[begin:end].encode("utf-8", "surrogatepass"))
