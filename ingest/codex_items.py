"""What Codex writes into the items and events of a rollout, read without trusting any shape.

Pure: nothing here knows where in the file it stands.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

from core import instants
from core.canonical import canonical
from core.errors import InvalidInput
from core.events.control import PlanItem
from core.events.fields import Usage
from core.events.tool import ResultStatus
from core.instants import Instant
from core.limits import INTEGER_MAX
from core.strictjson import loads
from ingest import replies

#: Rules a reply's tokens are counted by; the report names them.
RECORDS = "token_usage_record of the reply"
TOTALS = "rise of the running total (token_count)"

#: Response items that the model wrote.
OUTPUT = frozenset(
    {
        "reasoning",
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "tool_search_call",
        "web_search_call",
        "image_generation_call",
    }
)
#: Calls that the program carries out and answers; each is an operation.
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
#: Calls that stand in the reply only: the provider carries them out, or they only list tools.
HOSTED = {
    "tool_search_call": "tool_search",
    "web_search_call": "web_search",
    "image_generation_call": "image_generation",
}
RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
#: Response items that are never given to the model.
NOT_DELIVERED = frozenset({"ghost_snapshot"})
#: Every type of response item known; older files hold them without an envelope.
ITEMS = (
    OUTPUT
    | RESULTS
    | NOT_DELIVERED
    | {"message", "agent_message", "tool_search_output", "compaction", "compaction_summary"}
)

#: What the program adds to an item for itself.
_OWN_FIELDS = ("internal_chat_message_metadata_passthrough", "metadata")
_COVERS = "that the call came back with this output; no exit status is recorded"
_EXIT_CODE = re.compile(
    r"^(?:Exit code: |exit code: |Process exited with code |\(exit code )(-?\d{1,9})\b", re.M
)
#: Sentences of the program, not of a command, at the beginning of an output: the call did not run
#: or was given up.
_REFUSED = re.compile(
    r"apply_patch verification failed\b|failed to parse (?:function|custom tool) arguments\b"
    r"|unsupported (?:custom tool )?call\b|tool call (?:error|failed)\b|(?:err|execution error): "
    r"|patch rejected\b|(?:unified exec|exec_command|write_stdin) failed\b"
)
#: Named in the report beside how many results it decided.
REFUSED = "the program's own words at the beginning of the output"
_RUNNING = re.compile(r"^Process running with session ID \S+", re.M)
_CUT = re.compile(
    r"…\d+ (?:tokens|chars|characters) truncated…|\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]"
)
_HEAD_CHARS = 600
_TITLE_CHARS = 110
_QUOTED_CHARS = 200
_VALUES_BYTES_MAX = 8 * 1024
_PLAN_WORDS = {"pending": "open", "in_progress": "doing", "completed": "done"}
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def text(value: object) -> str | None:
    """A text that says something, else None."""
    return value if isinstance(value, str) and value else None


def one_line(whole: str) -> str:
    """The first line that says something, printable and short."""
    line = next((part.strip() for part in whole.splitlines() if part.strip()), "")
    line = "".join(char if char.isprintable() else " " for char in line)
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def obj(value: object) -> dict[str, Any]:
    """An object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """A list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def instant(value: object) -> Instant | None:
    """Microseconds of an ISO time with an offset or Z; None for anything that is none, and for one
    that no event can state (before 1970)."""
    if not isinstance(value, str) or not 16 <= len(value) <= 40:
        return None
    try:
        moment = dt.datetime.fromisoformat(value)
        found = instants.from_datetime(moment) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
    return found if found is not None and found >= 0 else None


def instant_of_id(value: object) -> Instant | None:
    """Microseconds that an id of version 7 states; None for any other id."""
    if not isinstance(value, str) or not _UUID7.fullmatch(value.lower()):
        return None
    return int(value[:8] + value[9:13], 16) * 1000


def content(value: object) -> tuple[str | None, int]:
    """(text of a content, how many of its parts are no text): a text, a part, or a list."""
    return replies.text_of([value] if isinstance(value, dict) else value)


def delivered(item: dict[str, Any]) -> bytes:
    """Canonical bytes of an item as the model is given it; InvalidInput where it is none."""
    return canonical({name: value for name, value in item.items() if name not in _OWN_FIELDS})


def values(payload: dict[str, Any]) -> dict[str, Any]:
    """A payload as an event may state it: large parts are left out, and named."""
    kept: dict[str, Any] = {}
    left: list[str] = []
    room = _VALUES_BYTES_MAX
    for name, value in payload.items():
        try:
            size = len(canonical(value))
        except InvalidInput:
            size = room + 1
        if size > room:
            left.append(name)
            continue
        kept[name] = value
        room -= size
    if left:
        kept["left_out"] = {"fields": left, "why": "large; in the original line"}
    return kept


# --- calls and results -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a reply."""

    tool: str
    call_id: str | None
    arguments: Any


def asked(item: dict[str, Any]) -> Asked:
    """The call of an item of `CALLS`."""
    kind = item.get("type")
    call_id = text(item.get("call_id")) or text(item.get("id"))
    if kind == "local_shell_call":
        return Asked("local_shell", call_id, item.get("action"))
    name = text(item.get("name")) or "(unnamed)"
    space = text(item.get("namespace"))
    tool = f"{space}.{name}" if space else name
    if kind == "custom_tool_call":
        given = item.get("input")
        return Asked(tool, call_id, {"input": given} if isinstance(given, str) else given)
    return Asked(tool, call_id, replies.arguments_of(item.get("arguments")))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back of a call."""

    status: ResultStatus
    observation: str | None
    complete: bool = True
    rest: str | None = None
    exit_code: int | None = None
    covers: str | None = None
    proof: str | None = None


def outcome(output: object, ended: dict[str, Any] | None) -> Outcome:
    """Of an output item; `ended` is the program's own note that the command ended, if any."""
    inner = obj(output)
    success = inner.get("success")
    if "content" in inner and inner.get("type") is None:
        output = inner["content"]
    given, other = content(output)
    code: int | None = None
    if given is not None and given.startswith('{"output"'):
        given, code = _wrapped(given)
    complete, rest = True, None
    if other:
        complete, rest = False, "parts that are no text are in the original line"
    if given is not None and _CUT.search(given):
        complete, rest = False, "not recorded: the program cut it before it was written"
    head = (given or "")[:_HEAD_CHARS]
    if code is None:
        found = _EXIT_CODE.search(head)
        code = int(found.group(1)) if found else exit_code(ended)
    status, covers, proof = _status(head, code, success)
    return Outcome(status, given, complete, rest, code, covers, proof)


def _wrapped(given: str) -> tuple[str, int | None]:
    """Output of earlier versions: an object with the output and how the command ended."""
    try:
        value = obj(loads(given.encode("utf-8", "surrogatepass")))
    except InvalidInput:
        return given, None
    output = value.get("output")
    code = whole(obj(value.get("metadata")).get("exit_code"))
    return (output, code) if isinstance(output, str) else (given, None)


def exit_code(ended: dict[str, Any] | None) -> int | None:
    """The exit code that an end event or item states."""
    return whole((ended or {}).get("exit_code"))


def whole(value: object) -> int | None:
    """An integer that every reader keeps, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) <= INTEGER_MAX else None


def _status(
    head: str, code: int | None, success: object
) -> tuple[ResultStatus, str | None, str | None]:
    lower = head.lstrip().lower()
    if lower.startswith(("aborted", "interrupted")):
        return "unknown", None, None
    if "rejected by user" in lower[:200]:
        return "no_effect", None, "the program says that the person refused it"
    if "timed out after" in lower[:200]:
        return "timeout", None, None
    if code is None and _RUNNING.search(head):
        return "partial", None, None
    if code is not None:
        return ("succeeded" if code == 0 else "failed"), None, None
    if success is False:
        return "failed", None, None
    if success is True:
        return "succeeded", None, None
    if _REFUSED.match(head.lstrip()):
        return "failed", None, f"the output says: {head.strip().splitlines()[0][:_QUOTED_CHARS]}"
    return "succeeded", _COVERS, None


def plan_items(arguments: object) -> tuple[PlanItem, ...] | None:
    """The items of an `update_plan` call; None where it has none."""
    listed = obj(arguments).get("plan")
    return _plan(listed, "step")


def todo_items(item: dict[str, Any]) -> tuple[PlanItem, ...] | None:
    """The items of a `todo_list` item of `codex exec --json`."""
    return _plan(item.get("items"), "text")


def _plan(listed: object, name: str) -> tuple[PlanItem, ...] | None:
    if not isinstance(listed, list):
        return None
    found = []
    for number, one in enumerate(listed, 1):
        step = obj(one)
        word = text(step.get("status")) or ("completed" if step.get("completed") else "pending")
        found.append(
            PlanItem(
                id=str(number),
                text=text(step.get(name)) or "(no text)",
                status=_PLAN_WORDS.get(word, word),
            )
        )
    return tuple(found)


# --- tokens ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens as Codex counts them: input includes what was cached and what was put in a cache."""

    input: int
    cached: int
    written: int | None
    output: int

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output

    def usage(self) -> Usage:
        """In four disjoint kinds; a part that exceeds its whole is cut to it."""
        cached = min(self.cached, self.input)
        written = None if self.written is None else min(self.written, self.input - cached)
        return Usage(
            input=self.input - cached - (written or 0),
            output=self.output,
            cache_read=cached,
            cache_write=written,
        )

    def since(self, before: Counted | None) -> Counted:
        """What this total adds to the one before it; one that fell starts a new counter."""
        if before is None or self.total < before.total:
            return self
        written = None
        if self.written is not None:
            written = max(0, self.written - (before.written or 0))
        return Counted(
            max(0, self.input - before.input),
            max(0, self.cached - before.cached),
            written,
            max(0, self.output - before.output),
        )


def counted(value: object) -> Counted | None:
    """A usage object in Codex's words; None for anything else."""
    raw = obj(value)
    given = replies.count(raw.get("input_tokens"))
    output = replies.count(raw.get("output_tokens"))
    if given is None or output is None:
        return None
    return Counted(
        given,
        replies.count(raw.get("cached_input_tokens")) or 0,
        replies.count(raw.get("cache_write_input_tokens")),
        output,
    )


def amount(usage: Usage) -> int:
    """Tokens of all four kinds."""
    return sum(one or 0 for one in (usage.input, usage.output, usage.cache_read, usage.cache_write))


def added(one: Usage | None, two: Usage) -> Usage:
    """Both together, kind by kind."""
    if one is None:
        return two

    def both(a: int | None, b: int | None) -> int | None:
        return a if b is None else b if a is None else a + b

    return Usage(
        input=both(one.input, two.input),
        output=both(one.output, two.output),
        cache_read=both(one.cache_read, two.cache_read),
        cache_write=both(one.cache_write, two.cache_write),
    )


def beyond(whole_: Usage, known: Usage) -> Usage:
    """What of `whole_` was not counted yet; never below zero."""

    def rest(a: int | None, b: int | None) -> int | None:
        return None if a is None else max(0, a - (b or 0))

    return Usage(
        input=rest(whole_.input, known.input),
        output=rest(whole_.output, known.output),
        cache_read=rest(whole_.cache_read, known.cache_read),
        cache_write=rest(whole_.cache_write, known.cache_write),
    )
