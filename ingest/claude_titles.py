"""What an agent of a Claude Code session is called, line by line.

A title somebody gave outranks one made of what was said; of the same rank the newest given and the
first said holds. So the title after all lines does not depend on where the file was cut.

INVARIANTS
1. The title at a line follows from it and the lines before it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ingest import claude_lines
from ingest.claude_lines import an_object, text

#: Rank of a `summary` among claude_lines.title_line: it names a session by a line of it.
_SUMMARY = 2
#: Lines and summaries remembered to know whether a summary is of this session.
_LINES_MAX, _SUMMARIES_MAX = 50_000, 1000


class Titles:
    """The best title so far."""

    def __init__(
        self,
        nameless: str,
        *,
        given: str | None = None,
        kind: str | None = None,
        is_agent: bool = False,
    ) -> None:
        """`nameless`: what it is called while nothing is said; `given`: what the call that started
        a sub-agent says it is for; `kind`: of which kind that is."""
        self._nameless = nameless
        self._given = given
        self._kind = kind
        self._is_agent = is_agent
        self._named: tuple[int, str] | None = None
        self._own: tuple[int, str] | None = None
        """(place among the summaries, title) of the last summary of this session."""
        self._foreign: str | None = None
        """The first summary there is, of whatever session."""
        self._summaries = 0
        self._waiting: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """Leaf of a summary whose line was not seen -> the summary."""
        self._lines: OrderedDict[str, None] = OrderedDict()
        self._prompt: str | None = None
        self._command: str | None = None
        self._reply: str | None = None
        self._folder: str | None = None

    @property
    def now(self) -> str:
        """The title as far as lines were taken."""
        if not self._is_agent:
            place = f" in {self._folder}" if self._folder else ""
            return self._found() or self._nameless + place
        said = claude_lines.one_line(self._given or self._found() or "")
        name = self._kind or self._nameless
        return f"{name}: {said}" if said else name

    def _found(self) -> str | None:
        if self._named is not None:
            return self._named[1]
        if self._own is not None:
            return self._own[1]
        if self._command is not None:
            said = f"{self._command}: {self._prompt}" if self._prompt else self._command
            return claude_lines.one_line(said)
        return self._prompt or self._reply or self._foreign

    def take(self, value: dict[str, Any]) -> None:
        """The next line; taking a line twice changes nothing."""
        self._line(text(value.get("uuid")))
        named = claude_lines.title_line(value)
        if named is not None:
            self._title(named, text(value.get("leafUuid")))
            return
        if self._folder is None:
            self._folder = claude_lines.project_of(text(value.get("cwd")))
        if self._kind is None:
            self._kind = (text(value.get("attributionAgent")) or "")[:60] or None
        if self._command is None and self._prompt is None:
            self._command = claude_lines.command_of(value)
        if self._prompt is None:
            self._prompt = claude_lines.one_line(claude_lines.prompt_of(value) or "") or None
        if self._reply is None:
            self._reply = claude_lines.one_line(claude_lines.first_word(value)) or None

    def _title(self, named: tuple[int, str], leaf: str | None) -> None:
        rank, title = named
        if rank != _SUMMARY:
            if self._named is None or rank <= self._named[0]:
                self._named = named
            return
        self._summaries += 1
        self._foreign = self._foreign or title
        if leaf is None:
            return
        if leaf in self._lines:
            self._own = (self._summaries, title)
            return
        self._waiting[leaf] = (self._summaries, title)
        if len(self._waiting) > _SUMMARIES_MAX:
            self._waiting.popitem(last=False)

    def _line(self, uuid: str | None) -> None:
        if uuid is None or uuid in self._lines:
            return
        self._lines[uuid] = None
        if len(self._lines) > _LINES_MAX:
            self._lines.popitem(last=False)
        held = self._waiting.pop(uuid, None)
        if held is not None and (self._own is None or held[0] > self._own[0]):
            self._own = held


def begins(value: dict[str, Any]) -> bool:
    """Whether a line says what an agent is about: its first prompt or command, or its first reply
    where there is none before it."""
    return (
        (value.get("type") == "assistant" and bool(an_object(value.get("message"))))
        or claude_lines.prompt_of(value) is not None
        or claude_lines.command_of(value) is not None
    )
