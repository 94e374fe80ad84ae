"""Any value of a valid source may be anything: every importer reads it or refuses it with words."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import ImportRefused
from core.events.prepare import prepare
from ingest.base import BuiltEvent, Importer, LogImporter, Source
from ingest.claude_code import ClaudeCode
from ingest.codex import Codex
from ingest.demo import DATA
from ingest.mini_swe_agent import MiniSweAgent
from ingest.swe_agent import SweAgent
from tests.ingest.loglines import derive

GOLDEN = Path(__file__).resolve().parent.parent / "golden/imports/claude_code"
ANYTHING: tuple[Any, ...] = (
    *(5, -1, 1.5, 2**60, True, False, None, "", "x", "\x00", "1900-01-01T00:00:00Z"),
    *([], {}, [5], [None], [[]], [{}], {"type": 5}, {"type": []}, [{"type": {}}], {"text": 5}),
)


def _item(**payload: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": payload}


def _said(**payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": payload}


_USAGE = {"input_tokens": 9, "cached_input_tokens": 3, "output_tokens": 4}
_PLAN = json.dumps({"plan": [{"step": "s", "status": "pending"}], "explanation": "e"})
#: One line of each kind that Codex writes.
CODEX: list[dict[str, Any]] = [
    {
        "type": "session_meta",
        "payload": {
            "id": "01a1f82f-1e80-7a1b-82c3-d4e5f6a7b8c9",
            "timestamp": "2026-06-19T10:00:00.000Z",
            "cwd": "/x",
            "cli_version": "1",
            "base_instructions": {"text": "do"},
            "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}},
            "git": {"branch": "b"},
        },
    },
    {"type": "turn_context", "payload": {"model": "m", "turn_id": "t", "cwd": "/x"}},
    _said(type="task_started", turn_id="01a1f82f-1e80-7a1b-82c3-d4e5f6a7b8c9"),
    _said(type="thread_settings_applied", thread_settings={"model": "m"}),
    _said(type="user_message", message="do it", images=[]),
    _item(type="message", role="user", content=[{"type": "input_text", "text": "do it"}]),
    _item(
        type="reasoning",
        summary=[{"type": "summary_text", "text": "s"}],
        content=None,
        encrypted_content="e",
    ),
    _said(type="agent_reasoning", text="s"),
    _said(type="agent_message", message="m"),
    _item(type="message", role="assistant", content=[{"type": "output_text", "text": "m"}]),
    _item(type="function_call", name="shell", namespace="n", arguments='{"a":1}', call_id="1"),
    _item(type="function_call_output", call_id="1", output={"content": "c", "success": True}),
    _item(type="function_call", name="update_plan", arguments=_PLAN, call_id="2"),
    _item(type="function_call_output", call_id="2", output=[{"type": "text", "text": "c"}]),
    _item(type="custom_tool_call", name="apply_patch", input="i", call_id="3", status="completed"),
    _said(type="exec_command_end", call_id="3", exit_code=0, stdout="o"),
    _item(
        type="custom_tool_call_output",
        call_id="3",
        output='{"output":"o","metadata":{"exit_code":1}}',
    ),
    _item(type="local_shell_call", id="4", action={"type": "exec", "command": ["a"]}),
    _item(type="web_search_call", id="5", action={"query": "q"}),
    _item(type="tool_search_call", call_id="6"),
    _item(type="tool_search_output", call_id="6", tools=[]),
    _item(type="image_generation_call", id="7", result="r"),
    _item(type="ghost_snapshot", ghost_commit={"id": "g"}),
    _item(type="agent_message", content=[{"type": "text", "text": "t"}], author="a"),
    _said(
        type="token_count",
        info={"total_token_usage": _USAGE, "last_token_usage": _USAGE},
        rate_limits={"primary": {"used_percent": 1.0}},
    ),
    {
        "type": "token_usage_record",
        "payload": {"usage": _USAGE, "response_id": "r", "thread_id": "t"},
    },
    _said(type="guardian_assessment", status="approved", target_item_id="1", rationale="r"),
    _said(
        type="item_completed",
        item={"type": "AgentMessage", "content": [{"type": "Text", "text": "t"}], "id": "i"},
    ),
    _said(type="item_completed", item={"type": "Reasoning", "summary_text": ["t"]}),
    _said(type="item_completed", item={"type": "CommandExecution", "id": "1", "exit_code": 0}),
    _said(type="codex/event/raw_item", payload={"type": "message", "role": "user", "content": "c"}),
    _said(type="codex/event/raw_item", item={"type": "reasoning", "summary": []}),
    _said(type="thread_name_updated", thread_id="t", thread_name="n"),
    _said(type="thread_rolled_back", num_turns=1),
    _said(type="error", message="m"),
    {
        "type": "compacted",
        "payload": {
            "message": "m",
            "replacement_history": [{"type": "message", "role": "user", "content": "c"}],
        },
    },
    _said(type="context_compacted"),
    _said(type="turn_aborted", reason="interrupted"),
    _said(type="task_complete", error={"message": "m"}, last_agent_message="l"),
    {"record_type": "state"},
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    *(
        {"type": kind, "item": item}
        for kind in ("item.started", "item.completed")
        for item in (
            {"id": "e1", "type": "reasoning", "text": "t"},
            {"id": "e2", "type": "agent_message", "text": "t"},
            {"id": "e3", "type": "todo_list", "items": [{"text": "t", "completed": True}]},
            {
                "id": "e4",
                "type": "command_execution",
                "command": "c",
                "aggregated_output": "o",
                "exit_code": 0,
                "status": "completed",
            },
            {
                "id": "e5",
                "item_type": "mcp_tool_call",
                "server": "s",
                "tool": "t",
                "arguments": {},
                "result": {"content": [{"type": "text", "text": "t"}]},
                "status": "completed",
            },
            {"id": "e6", "type": "file_change", "changes": [{"path": "p"}], "status": "failed"},
            {"id": "e7", "type": "web_search", "query": "q"},
        )
    ),
    {"type": "turn.completed", "usage": _USAGE},
    {"type": "turn.failed", "error": {"message": "m"}},
    {"type": "error", "message": "m"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
]
for _number, _line in enumerate(CODEX):
    _line["timestamp"] = f"2026-06-19T10:00:{_number % 60:02d}.000Z"

Place = tuple[Any, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place of a JSON value."""
    if here:
        yield here
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*here, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from places(item, (*here, at))


def kinds(value: Any) -> tuple[Any, ...]:
    """What a line or message is, by the words it says of itself, outermost first."""
    found: list[Any] = []
    while isinstance(value, dict):
        found += [value.get(name) for name in ("type", "subtype", "role", "name", "operation")]
        value = next(
            (value[name] for name in ("payload", "message", "item") if name in value), None
        )
    return tuple(repr(one)[:40] for one in found)


def sort_of(parts: list[Any], place: Place) -> tuple[Any, ...]:
    """Two places of one sort are read by the same code: one of them stands for both."""
    inner = parts[place[0]]
    words = [kinds(inner)]
    for key in place[1:]:
        inner = inner[key]
        if isinstance(inner, dict):
            words.append(kinds(inner)[:1])
    return (*words, *("*" if isinstance(key, int) else key for key in place[1:]))


def one_of_each(parts: list[Any], seen: set[tuple[Any, ...]] | None = None) -> list[Place]:
    """A place of each sort that was not seen yet, and each part as a whole."""
    seen = set() if seen is None else seen
    found = []
    for place in places(parts):
        sort = sort_of(parts, place)
        if sort not in seen:
            seen.add(sort)
            found.append(place)
    return found


def replaced(value: Any, place: Place, new: Any) -> Any:
    changed = copy.deepcopy(value)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = copy.deepcopy(new)
    return changed


def well_formed(name: str, events: list[BuiltEvent]) -> None:
    for one in events:
        prepare(name, one.event, one.payload)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


LOGS: list[tuple[str, LogImporter, list[Any]]] = [
    ("codex, every kind", Codex(), CODEX),
    *(
        (path.name[:20], ClaudeCode(), lines_of(path))
        for path in (*GOLDEN.glob("*.jsonl"), *GOLDEN.glob("*/subagents/*.jsonl"))
    ),
    *(
        (path.name[:20], ClaudeCode(), lines_of(path))
        for path in sorted(DATA.glob("*.jsonl"))
        if not path.name.startswith("rollout")
    ),
    *((path.name[:28], Codex(), lines_of(path)) for path in sorted(DATA.glob("rollout-*.jsonl"))),
]


_SEEN: dict[str, set[tuple[Any, ...]]] = {}
#: What differs in each file from those before it.
PLACES = [one_of_each(c, _SEEN.setdefault(b.name, set())) for _, b, c in LOGS]


def _take_log(importer: LogImporter, lines: list[Any]) -> None:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    importer.sniff(data, data, "session.jsonl")
    importer.stated_id(data, data)
    found = derive(importer, data, "session.jsonl")
    for name, events in found.events.items():
        well_formed(name, events)


@pytest.mark.parametrize(
    ("importer", "lines", "wanted"),
    [(b, c, wanted) for (_, b, c), wanted in zip(LOGS, PLACES, strict=True)],
    ids=[a for a, *_ in LOGS],
)
def test_a_value_of_a_line_may_be_anything(
    importer: LogImporter, lines: list[Any], wanted: list[Place]
) -> None:
    for place in wanted:
        at = place[0]
        before = lines[:1] + lines[max(1, at - 4) : at] if at else []
        context = [*before, lines[at], *lines[at + 1 : at + 3]]
        for new in ANYTHING:
            try:
                _take_log(importer, replaced(context, (len(before), *place[1:]), new))
            except ImportRefused as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(f"{place} = {new!r}") from error


DOCUMENTS: list[tuple[str, Importer, Any]] = [
    (
        path.name[:24],
        SweAgent() if path.suffix == ".traj" else MiniSweAgent(),
        json.loads(path.read_text()),
    )
    for name in (
        "swe-agent-by-hand.traj",
        "format-error.traj.json",
        "interrupted.traj.json",
        "limits-exceeded.traj.json",
        "v1-layout-by-hand.traj.json",
    )
    for path in (DATA / name,)
]


def _take_document(importer: Importer, value: Any) -> None:
    data = json.dumps(value).encode()
    importer.sniff(data, data, "a.json")
    built = importer.parse(Source("a.json", io.BytesIO(data), len(data))).build("a.json", ())
    well_formed(built.trajectory_id, list(built.events))


@pytest.mark.parametrize(
    ("importer", "value"), [(b, c) for _, b, c in DOCUMENTS], ids=[a for a, *_ in DOCUMENTS]
)
def test_a_value_of_a_document_may_be_anything(importer: Importer, value: Any) -> None:
    for number, place in enumerate(one_of_each([value])):
        # A third of the values at each place: a document is read whole for each of them.
        for new in ANYTHING[number % 3 :: 3]:
            try:
                _take_document(importer, replaced([value], place, new)[0])
            except ImportRefused as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(f"{place} = {new!r}") from error
