"""What mini-swe-agent writes into texts and settings, and how it is read back.

Nothing here runs a pattern or a template that a file brings along: a file's own `action_regex`
is only recognised, never executed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import InvalidInput
from core.events.tool import ResultStatus
from core.limits import INTEGER_MAX
from core.strictjson import loads
from ingest import replies
from ingest.replies import Reply

#: The first line of output that ends a run as Submitted.
MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

#: What stands around a command in a text reply.
_FENCES: tuple[tuple[str, str], ...] = (
    ("```mswea_bash_command", "\n```"),
    ("```bash", "\n```"),
)
_TAGS = ("<mswea_bash_command>", "</mswea_bash_command>")
_TIMEOUT_TEMPLATE = "The last command <command>{{action['action']}}</command> timed out"
_LONG_CHARS = 200
_TITLE_CHARS = 110
_SECRET_NAMES = ("api_key", "apikey", "token", "secret", "password", "authorization", "credential")
_NO_SECRETS = ("max_tokens", "max_completion_tokens", "tokenizer")


class HasValue(Protocol):
    """A message."""

    @property
    def value(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """One command of a reply."""

    tool: str
    call_id: str | None
    arguments: Any

    @property
    def command(self) -> str | None:
        """The shell command, where the arguments hold one."""
        found = self.arguments.get("command") if isinstance(self.arguments, dict) else None
        return found if isinstance(found, str) else None


class Config:
    """`info.config`, read without trusting its shape."""

    def __init__(self, info: dict[str, Any]) -> None:
        whole = info.get("config")
        self._whole: dict[str, Any] = whole if isinstance(whole, dict) else {}
        self._info = info
        self.agent = self._section("agent")
        self.model = self._section("model")

    def _section(self, name: str) -> dict[str, Any]:
        value = self._whole.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def model_name(self) -> str | None:
        """Model asked for."""
        value = self.model.get("model_name")
        return value if isinstance(value, str) and value else None

    @property
    def model_type(self) -> str:
        """Class of the model adapter, or empty."""
        value = self._whole.get("model_type")
        return value if isinstance(value, str) else ""

    @property
    def text_based(self) -> bool:
        """2.x: commands are read from the text of a reply, no tools are sent."""
        return "textbased" in self.model_type.lower() or "action_regex" in self.model

    @property
    def action_regex(self) -> str | None:
        """The run's own pattern for commands, if it names one."""
        value = self.model.get("action_regex", self.agent.get("action_regex"))
        return value if isinstance(value, str) else None

    @property
    def ignores_costs(self) -> bool:
        """A cost that cannot be computed is written as 0."""
        return self.model.get("cost_tracking") == "ignore_errors"

    @property
    def timeout_prefix(self) -> tuple[str, str]:
        """What stands before and after the command in a 1.x time-out message."""
        template = self.agent.get("timeout_template")
        text = template if isinstance(template, str) and "{{" in template else _TIMEOUT_TEMPLATE
        before, _, rest = text.partition("{{")
        after = rest.partition("}}")[2]
        return before, after.partition("{")[0].rstrip("\n")

    def request(self) -> dict[str, Any]:
        """Decoding settings a call was made with; secrets left out."""
        kwargs = self.model.get("model_kwargs")
        if not isinstance(kwargs, dict):
            return {}
        kept, _ = _redacted({"model_kwargs": kwargs}, "")
        return kept if isinstance(kept, dict) and kwargs else {}

    def provenance(self) -> tuple[dict[str, Any], list[str]]:
        """(configuration with long texts as digests, paths of what was left out as secret)."""
        kept, paths = _redacted(self._whole, "")
        result: dict[str, Any] = kept if isinstance(kept, dict) else {}
        return result, paths


def _redacted(value: Any, path: str) -> tuple[Any, list[str]]:
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        paths: list[str] = []
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if _secret(name) and isinstance(item, str) and item:
                result[name] = "(left out: looks like a secret)"
                paths.append(here)
                continue
            result[name], below = _redacted(item, here)
            paths += below
        return result, paths
    if isinstance(value, list):
        pairs = [_redacted(item, f"{path}[{number}]") for number, item in enumerate(value)]
        return [item for item, _ in pairs], [inner for _, below in pairs for inner in below]
    if isinstance(value, str) and len(value) > _LONG_CHARS:
        data = value.encode("utf-8", "surrogatepass")
        return {"sha256": hashlib.sha256(data).hexdigest(), "length": len(data)}, []
    return value, []


def _secret(name: str) -> bool:
    lower = name.lower()
    return lower not in _NO_SECRETS and any(word in lower for word in _SECRET_NAMES)


# --- the task --------------------------------------------------------------------------------


def task_of(messages: Sequence[HasValue], info: dict[str, Any]) -> str | None:
    """The task as given: the first user message, without the template around it if known."""
    text = _first_user_text(messages)
    template = Config(info).agent.get("instance_template")
    if text is None or not isinstance(template, str) or "{{task}}" not in template:
        return text
    before, _, after = template.partition("{{task}}")
    before = before.rpartition("}")[2].lstrip()
    after = after.partition("{")[0].rstrip()
    start = text.find(before)
    if start < 0 or not after:
        return text
    start += len(before)
    end = text.find(after, start)
    return text[start:end].strip() if end >= 0 else text


def title_of(messages: Sequence[HasValue], info: dict[str, Any], instance: str | None) -> str:
    """One line: the instance, and the first line of the task."""
    text = task_of(messages, info) or ""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    line = "".join(char if char.isprintable() else " " for char in line)
    if len(line) > _TITLE_CHARS:
        line = line[: _TITLE_CHARS - 1] + "…"
    if instance:
        return f"{instance}: {line}" if line else instance
    return line or "mini-swe-agent run"


def _first_user_text(messages: Sequence[HasValue]) -> str | None:
    for message in messages:
        if message.value.get("role") == "user":
            return replies.text_of(message.value.get("content"))[0]
        if message.value.get("role") == "assistant":
            return None
    return None


# --- commands --------------------------------------------------------------------------------


def asked(listed: list[Any], value: dict[str, Any], recorded: Reply) -> tuple[Asked, ...]:
    """Commands as 2.x lists them in `extra.actions`; the tool's name is that of its call."""
    calls = replies.calls_of(value) or recorded.calls
    tools = {call.call_id: call.tool for call in calls if call.call_id is not None}
    found = []
    for item in listed:
        if not isinstance(item, dict):
            continue
        call_id = item.get("tool_call_id")
        call_id = call_id if isinstance(call_id, str) else None
        arguments = {key: inner for key, inner in item.items() if key != "tool_call_id"}
        tool = tools.get(call_id, "bash") if call_id is not None else "bash"
        found.append(Asked(tool, call_id, arguments))
    return tuple(found)


def commands_in(text: str, pattern: str | None) -> list[str] | None:
    """Commands in a text reply; None if the run used a pattern that is not known here."""
    if pattern is not None and "<mswea_bash_command>" in pattern:
        return _between(text, *_TAGS, newline=False)
    fences = _FENCES
    if pattern is not None:
        fences = tuple(fence for fence in _FENCES if pattern.startswith(fence[0]))
        if not fences:
            return None
    found: list[str] = []
    for start, end in fences:
        found += _between(text, start, end, newline=True)
    return found


def _between(text: str, start: str, end: str, *, newline: bool) -> list[str]:
    """Texts between the marks, in one pass."""
    found: list[str] = []
    at = text.find(start)
    while at >= 0:
        begin = at + len(start)
        if newline:
            line_end = text.find("\n", begin)
            if line_end < 0:
                break
            if text[begin:line_end].strip():
                at = text.find(start, begin)
                continue
            begin = line_end + 1
        stop = text.find(end, begin - 1 if newline else begin)
        if stop < 0:
            break
        found.append(text[begin : max(begin, stop)].strip())
        at = text.find(start, stop + len(end))
    return found


# --- results ---------------------------------------------------------------------------------


def status_of(code: int | None, error: object, kind: object) -> ResultStatus:
    """What a recorded outcome of a command says (see the choices in mini_swe_agent)."""
    if isinstance(error, str) and error:
        late = kind == "TimeoutExpired" or (not isinstance(kind, str) and "timed out" in error)
        return "timeout" if late else "unknown"
    if code is None or code == -1:
        return "unknown"
    return "succeeded" if code == 0 else "failed"


def code_in(text: str | None) -> int | None:
    """The return code a delivered observation begins with."""
    head = (text or "")[:200]
    start, mark, rest = head.partition("<returncode>")
    if mark and not start.strip():
        number = rest.partition("</returncode>")[0].strip()
        sign = number.removeprefix("-")
        if sign.isascii() and sign.isdigit() and len(sign) <= 9:
            return int(number)
    return None


def plain_result(
    text: str, command: str | None, config: Config, *, submitted: bool
) -> tuple[ResultStatus, int | None, bool, str | None] | None:
    """(status, code, complete, rest) of a 1.x observation; None if the text is none."""
    if submitted:
        return "succeeded", None, True, "the run ended here: no later call was given this text"
    before, after = config.timeout_prefix
    if command is not None and text.startswith(before + command + after):
        return "timeout", None, True, None
    if text.startswith(("Interrupted by user", "Command not executed", "Commands not executed")):
        return None
    code = code_in(text)
    complete, rest = completeness(text, None)
    if code is None:
        return "unknown", None, complete, rest
    return status_of(code, None, None), code, complete, rest


def completeness(text: str | None, raw: object) -> tuple[bool, str | None]:
    """Whether the model was given all of the output, and where the rest is."""
    if text is None:
        return True, None
    shown = _shown_output(text)
    if isinstance(raw, str):
        if shown is not None:
            whole = shown == raw
        else:
            whole = raw in text
        if not whole:
            return False, f"extra.raw_output of the original message, {len(raw):,} characters"
        return True, None
    if "<elided_chars>" in text and "<output_tail>" in text:
        return False, "not recorded: the program cut it before it was written"
    return True, None


def _shown_output(text: str) -> str | None:
    """The whole output a JSON observation shows; empty-handed where it was cut or is no JSON."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = loads(text.encode("utf-8", "surrogatepass"))
    except InvalidInput:
        return None
    output = value.get("output") if isinstance(value, dict) else None
    return output if isinstance(output, str) else None


def reason_in(text: str) -> str:
    """Why a reply was rejected, as the message to the model says it, in one line."""
    _, mark, rest = text.partition("<error>")
    inner = rest.partition("</error>")[0] if mark else text
    line = " ".join(inner.split())
    return line[:300] or "no reason given"


def status_word(info: dict[str, Any]) -> str | None:
    """The run's exit status, where it has one."""
    value = info.get("exit_status")
    return value if isinstance(value, str) and value else None


def instant(value: object) -> int | None:
    """Microseconds of a Unix time in seconds; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= INTEGER_MAX // 1_000_000:
        return None
    return round(value * 1_000_000)
