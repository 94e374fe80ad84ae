"""Claude Code sessions: facts of every sample, cuts, parts, sub-agents, and what a line can be."""

from __future__ import annotations

import base64
import copy
import io
import itertools
import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ImportRefused, IntegrityConflict
from core.events import registry as events
from core.events.envelope import ORIGINAL_SCHEMA
from ingest import claude_context
from ingest.base import Built, Kept, Line, Source
from ingest.build import SourceKey
from ingest.claude_code import ClaudeCode, ClaudeExport
from ingest.demo import DATA
from ingest.lines import read_lines
from ingest.pipeline import import_path
from runtime.time_travel import record_at
from store.open import Opened
from tests.ingest.loglines import Derived, derive, record_of, sealed
from tests.ingest.support import TENANT, everything, families, take
from tests.ingest.test_golden import plain
from tests.require import need, samples, samples_generated

IMPORTER = ClaudeCode()
GOLDEN = Path(__file__).resolve().parent.parent / "golden/imports/claude_code"
SESSION_ID = "7b0c54d1-9a0f-4a52-8d34-0f6f4f7c2b01"
SESSION = GOLDEN / f"{SESSION_ID}.jsonl"
AGENT = GOLDEN / SESSION_ID / "subagents/agent-a7f3c21.jsonl"
DEMO = DATA / "2c1d9f50-7a44-4f0e-9b1b-5d0c7e3a1f10.jsonl"
PLACES = (SESSION, AGENT, DEMO)
NUMBERS = itertools.count(1)


def of(path: Path, **more: Any) -> Derived:
    return derive(IMPORTER, path.read_bytes(), str(path), **more)


def text_of(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def session(*lines: dict[str, Any], name: str = f"{SESSION_ID}.jsonl", **more: Any) -> Derived:
    return derive(IMPORTER, text_of(list(lines)), name, **more)


def user(content: object, uuid: str = "", parent: object = ..., **more: Any) -> dict[str, Any]:
    line = {"type": "user", "isSidechain": False, "sessionId": SESSION_ID}
    line |= {"timestamp": "2026-01-12T09:00:00.000Z", "uuid": uuid or f"u{next(NUMBERS)}"}
    if parent is not ...:
        line["parentUuid"] = parent
    return line | {"message": {"role": "user", "content": content}} | more


def reply(
    message_id: str | None, *blocks: dict[str, Any], usage: object = ..., **more: Any
) -> dict[str, Any]:
    given = {"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 1}
    message: dict[str, Any] = {"role": "assistant", "model": "m-1", "content": list(blocks)}
    if message_id is not None:
        message["id"] = message_id
    message["usage"] = given if usage is ... else usage
    line = {"type": "assistant", "isSidechain": False, "sessionId": SESSION_ID}
    line |= {"timestamp": "2026-01-12T09:00:01.000Z", "uuid": more.pop("uuid", f"a{next(NUMBERS)}")}
    return line | {"message": message} | more


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(call: str | None, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "name": tool, "input": arguments}
    return block if call is None else block | {"id": call}


def answer(call: str | None, content: object = "ok", **more: Any) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "content": content}
    if call is not None:
        block["tool_use_id"] = call
    if "is_error" in more:
        block["is_error"] = more.pop("is_error")
    return user([block], uuid=more.pop("uuid", f"r{call}"), **more)


# --- the samples -----------------------------------------------------------------------------

FACTS = (
    [
        row
        for line in (samples() / "FACTS.jsonl").read_text().splitlines()
        if (row := json.loads(line))["format"] == "claude_code" and "lines" in row
    ]
    if (samples() / "FACTS.jsonl").is_file()
    else []
)
#: FACTS counts message ids on lines that state usage; these files have replies that state none.
#: They are replies all the same: their calls were made, and their tokens are unknown, not zero.
WITHOUT_USAGE = {
    "fixture_monitor_tool.jsonl": 1,
    "fixture_task_id_linking.jsonl": 8,
    "simonw_sample_session.jsonl": 3,
    "agent-sessions_small.jsonl": 3,
}
KINDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


def path_of(row: dict[str, Any]) -> Path:
    return samples() / "claude_code" / row["file"]


def test_the_samples_are_there() -> None:
    need("samples")
    assert len(FACTS) == 31


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["file"])
def test_a_sample_derives_to_its_facts(row: dict[str, Any]) -> None:
    found = of(path_of(row))
    replies = [one for one in found.payloads("ModelReplied") if not one.continues]
    silent = [one for one in replies if one.usage is None]
    assert len(replies) - len(silent) == row["distinct_message_ids"]
    assert len(silent) == WITHOUT_USAGE.get(row["file"], 0)
    records = found.records()
    assert sum(record.calls.replied for record in records) == len(replies)
    assert sum(record.calls.tokens.unreported for record in records) == len(silent)
    assert len(found.payloads("ToolIntent")) == row["distinct_tool_use"]
    assert sum(record.operations.total for record in records) == row["distinct_tool_use"]
    assert found.unknown() == row["unanswered_tool_use"]
    assert found.families()["Unparsed"] == row["bad_lines"]
    said = found.run.findings.tokens
    for kind, field in KINDS.items():
        expected = row["tokens_deduped"].get(field, 0)
        assert found.tokens().get(kind, 0) == expected
        assert (getattr(said, kind) or 0) == expected
    spent = sum(
        record.budget.accounts["tokens"].consumed
        for record in records
        if "tokens" in record.budget.accounts
    )
    assert spent == sum(row["tokens_deduped"].values())


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["file"])
def test_a_sample_has_a_title_that_says_something(row: dict[str, Any]) -> None:
    for title in of(path_of(row)).titles.values():
        assert title not in ("", "Claude Code session")
        assert "<" not in title and "Caveat" not in title


def test_every_sample_is_stored_or_refused_with_its_reason(shared: Opened) -> None:
    need("samples")
    outcomes = {}
    for row in FACTS:
        report = take(shared, path_of(row))
        outcomes[row["file"]] = report.outcome
        if row["lines"]:
            assert report.lines_read == row["lines"]
            assert report.format in ("Claude Code session", "Claude Code sub-agent")
            count: Counter[str] = Counter()
            for one in report.trajectories:
                count += families(shared, one.id)
            assert count["ToolIntent"] == row["distinct_tool_use"]
    (empty,) = [name for name, outcome in outcomes.items() if outcome != "imported"]
    assert empty == "4fe49c7c-ff82-4ac7-b3f2-79c22036bd58.jsonl"
    report = take(shared, samples() / "claude_code" / empty)
    assert report.outcome == "refused" and "empty (0 bytes)" in report.refused[0].why
    export = take(shared, samples() / "claude_code/simonw_sample_session.json")
    assert export.outcome == "imported", export.refused
    assert (export.format, export.items) == ("Claude Code web export", 33)


def test_sessions_and_their_sub_agents_find_each_other(shared: Opened) -> None:
    need("samples")
    folder = samples() / "claude_code/claude_p"
    sid = "29ccd257-68b1-427f-ae5f-6524b7cb6f20"
    agent = take(shared, folder / sid / "subagents/agent-a2271d1.jsonl").trajectories[0].id
    main = take(shared, folder / f"{sid}.jsonl").trajectories[0].id
    view = record_at(shared.store, shared.blobs, shared.projections, TENANT, agent, 3)
    assert view.record.scope.parent_trajectory_id == main
    assert main == SourceKey("claude-code", 1, f"session:{sid}").trajectory_id
    assert agent == SourceKey("claude-code", 1, f"session:{sid}#agent:a2271d1").trajectory_id


# --- the other converter ---------------------------------------------------------------------


def oracle(name: str) -> dict[str, Any]:
    need("samples_generated")
    path = samples_generated() / "atif_by_harbor/ORACLE.json"
    found: dict[str, Any] = json.loads(path.read_text())[f"from_claude_{name}.json"]
    return found


def compare(found: list[Derived], read: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """What differs: (ours, theirs) by what was counted."""
    ours: Counter[str] = Counter()
    for one in found:
        tokens = one.run.findings.tokens
        ours["output"] += tokens.output or 0
        ours["cached"] += tokens.cache_read or 0
        ours["written"] += tokens.cache_write or 0
        ours["prompt"] += sum(
            kind or 0 for kind in (tokens.input, tokens.cache_read, tokens.cache_write)
        )
        ours["replies"] += sum(not part.continues for part in one.payloads("ModelReplied"))
        ours["calls"] += len(one.payloads("ToolIntent"))
        ours["results"] += len(one.payloads("ToolResult"))
    totals = read["final_metrics"]
    agents = [step for step in read["steps"] if step["source"] == "agent"]
    theirs = {
        "output": totals["total_completion_tokens"],
        "cached": totals["total_cached_tokens"],
        "written": totals["extra"]["total_cache_creation_input_tokens"],
        "prompt": totals["total_prompt_tokens"],
        "replies": len(agents),
        "calls": sum(len(step.get("tools", ())) for step in agents),
        "results": sum(len(step.get("results", ())) for step in agents),
    }
    return {key: (ours[key], theirs[key]) for key in theirs if ours[key] != theirs[key]}


def test_a_long_session_reads_as_the_other_converter_reads_it() -> None:
    need("samples")
    path = samples() / "claude_code/37f83ec9-f2ea-42a9-925e-0d5c105cb6e8.jsonl"
    found = of(path)
    # Two answers of 101 are an empty text. The other converter leaves out the one whose line adds
    # nothing to it (no reading of its return code); here both settle their calls. The ids of all
    # calls agree, in order.
    read = oracle("37f83ec9")
    assert compare([found], read) == {"results": (101, 100)}
    silent = {one.event.operation_id for one in found.all() if _says_nothing(one.payload)}
    answered = {result[0] for step in read["steps"] for result in step.get("results", ())}
    asked = [tool[0] for step in read["steps"] for tool in step.get("tools", ())]
    intents = [one.event.operation_id for one in found.all() if one.event.type == "ToolIntent"]
    assert intents == asked
    assert len(silent) == 2
    assert set(asked) - answered < silent


def _says_nothing(payload: object) -> bool:
    return type(payload).__name__ == "ToolResult" and not getattr(payload, "observation", None)


def test_a_session_with_a_sub_agent_reads_as_the_other_converter_reads_it() -> None:
    need("samples")
    folder = samples() / "claude_code/claude_p"
    sid = "29ccd257-68b1-427f-ae5f-6524b7cb6f20"
    parts = [of(folder / f"{sid}.jsonl"), of(folder / sid / "subagents/agent-a2271d1.jsonl")]
    # It puts both files into one list of steps; the sums are the same. Its cost is an estimate of
    # its own: the files state none, and so no event does.
    assert compare(parts, oracle("29ccd257")) == {}
    assert all(
        actual.resource == "tokens"
        for part in parts
        for settled in part.payloads("BudgetSettled")
        for actual in settled.actual
    )


def test_a_file_of_fixtures_differs_from_the_other_converter_where_it_leaves_lines_out() -> None:
    need("samples")
    found = of(samples() / "claude_code/agent-sessions_small.jsonl")
    # It leaves out: the replies of the line whose id and texts were trimmed (one reply in several
    # lines, with one call), and calls and results without an id (one call, two results).
    assert compare([found], oracle("agent-sessions_small")) == {
        "replies": (5, 4),
        "calls": (3, 1),
        "results": (3, 1),
    }


# --- cuts ------------------------------------------------------------------------------------


def facts_of(found: Derived) -> dict[str, Any]:
    """What must not depend on where a source was cut."""
    texts: dict[str, list[str]] = defaultdict(list)
    calls: dict[str, list[str]] = defaultdict(list)
    rest: dict[str, list[Any]] = {}
    for name, log in found.events.items():
        rest[name] = []
        for one in log:
            event, payload = one.event, one.payload
            type_ = event.type
            if type_ == "ModelReplied":
                assert event.invocation_id is not None
                texts[event.invocation_id] += [payload.text] if payload.text else []
                calls[event.invocation_id] += [call.operation_id for call in payload.tool_calls]
            elif type_ == "ContextBuilt":
                rest[name].append(
                    (type_, event.invocation_id, payload.manifest_digest, payload.count)
                )
            elif type_ == "Compacted":
                rest[name].append((type_, payload.summary, payload.dropped))
            elif type_ == "RuntimeInput" and payload.kind in ("title", "another title"):
                continue  # Where the start was cut off, what it says of the title is said later.
            elif type_ not in ("TaskStarted", "BudgetSettled"):
                stated = (event.event_id, event.operation_id, event.occurred_at, event.step)
                rest[name].append((type_, msgspec.json.encode(payload), *stated))
    return {
        "texts": {key: "\n".join(parts) for key, parts in texts.items()},
        "calls": dict(calls),
        "rest": rest,
        "records": [
            {
                "title": record.scope.title,
                "operations": msgspec.to_builtins(record.operations.by_outcome),
                "total": record.operations.total,
                "calls": (record.calls.total, record.calls.replied, record.calls.by_status),
                "tokens": msgspec.to_builtins(record.calls.tokens),
                "by_model": msgspec.to_builtins(record.calls.tokens_by_model),
                "spent": {key: one.consumed for key, one in record.budget.accounts.items()},
                "plan": msgspec.to_builtins(record.plan.items),
                "state": record.control.state,
                "step": record.progress.step,
                "context": (record.context.messages, record.context.built),
                "approvals": record.approvals.by_decision,
            }
            for record in found.records()
        ],
    }


WHOLE = {path: facts_of(of(path)) for path in PLACES}


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(PLACES), st.lists(st.integers(1, 50), max_size=12))
def test_the_facts_are_the_same_however_the_file_is_cut(path: Path, cuts: list[int]) -> None:
    found = of(path, cuts=cuts)
    assert facts_of(found) == WHOLE[path]
    assert [one.scope.title for one in found.records()] == list(found.titles.values())
    # Each prefix of segments is a prefix of the log: ids, payloads and pointers.
    lines = path.read_bytes().splitlines(keepends=True)
    edges = sorted({cut for cut in cuts if 0 < cut < len(lines)})
    for number, edge in enumerate(edges):
        part = derive(IMPORTER, b"".join(lines[:edge]), str(path), cuts=edges[:number])
        for name, log in part.events.items():
            assert log == found.events[name][: len(log)]
            assert len(log) == found.after[number][name]


@settings(deadline=None, max_examples=12)
@given(st.data())
def test_samples_can_be_cut_anywhere(data: st.DataObject) -> None:
    need("samples")
    row = data.draw(st.sampled_from([row for row in FACTS if 1 < row["lines"] < 100]))
    cuts = data.draw(st.lists(st.integers(1, row["lines"]), max_size=8))
    assert facts_of(of(path_of(row), cuts=cuts)) == facts_of(of(path_of(row)))


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.name)
def test_the_events_are_well_formed(path: Path) -> None:
    found = of(path)
    size = len(path.read_bytes())
    for name, log in found.events.items():
        assert log[0].event.type == "TaskStarted"
        ids = [one.event.event_id for one in log]
        assert len(set(ids)) == len(ids)
        steps = [one.event.step or 0 for one in log]
        assert steps == sorted(steps)
        sealed(name, log)
        for one in log:
            originals = [ref for ref in one.event.refs if ref.schema == ORIGINAL_SCHEMA]
            assert originals
            for ref in originals:
                assert 0 <= (ref.start or 0) < (ref.end or 0) <= ref.length == size
            raw = one.event.payload if one.event.payload is not None else one.blob
            assert raw is not None
            assert events.decode(one.event.type, 1, raw) == one.payload
    became = found.run.findings.became
    assert sum(found.run.findings.token_rules.values()) == found.families()["ModelReplied"]
    assert sum(found.run.findings.pairings.values()) == found.families()["ToolResult"]
    assert sum(count for (_, family), count in became.items() if family != "(nothing)") == len(
        found.all()
    )
    assert of(path).events == found.events


# --- by hand ---------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", [11, 22, 32])
def test_a_boundary_folds_to_the_record_written_by_hand(opened: Opened, boundary: int) -> None:
    expected = json.loads((GOLDEN / f"at-{boundary}.record.json").read_text())
    closed = expected.pop("closed")
    report = take(opened, SESSION)
    view = record_at(
        opened.store,
        opened.blobs,
        opened.projections,
        TENANT,
        report.trajectories[0].id,
        boundary,
    )
    found = msgspec.to_builtins(view.record)
    recent = found["archive"]["recent"]
    assert {
        "operations": {key: row["outcome"] for key, row in recent.get("operations", {}).items()},
        "calls": {key: row["charge"] for key, row in recent.get("calls", {}).items()},
    } == closed
    assert plain(found) == plain(expected)


def test_importing_a_folder_in_any_order_ties_the_sub_agent_to_its_call(opened: Opened) -> None:
    agent = take(opened, AGENT).trajectories[0]
    main = take(opened, SESSION).trajectories[0]
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, agent.id, 1)
    assert view.record.scope.parent_trajectory_id == main.id
    assert view.record.scope.parent_operation_id == "toolu_gold_01"
    assert agent.title == "Explore: Explain the frost table"
    before = everything(opened)
    assert take(opened, SESSION).outcome == take(opened, AGENT).outcome == "unchanged"
    assert everything(opened) == before


def test_a_folder_of_sessions_is_taken_whole(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(GOLDEN / SESSION_ID, folder / SESSION_ID)
    shutil.copy(SESSION, folder)
    reports = {Path(one.path).name: one for one in import_path(*_into(opened), folder)}
    assert {name: one.outcome for name, one in reports.items()} == {
        SESSION.name: "imported",
        AGENT.name: "imported",
        "agent-a7f3c21.meta.json": "skipped",
    }
    assert reports[AGENT.name].trajectories[0].title == "Explore: Explain the frost table"


def _into(opened: Opened) -> tuple[Any, Any, str]:
    return opened.store, opened.blobs, TENANT


def test_a_side_chain_between_the_lines_is_a_trajectory_of_its_own() -> None:
    found = of(DEMO)
    main, side = found.events
    started = found.events[side][0].payload
    assert started.parent.trajectory_id == main
    assert started.parent.operation_id == "toolu_demo_04"
    assert started.title == "general-purpose: Check callers of days_between"
    assert (
        side
        == SourceKey("claude-code", 1, f"session:{DEMO.stem}#agent:{_root_of_demo()}").trajectory_id
    )
    ours, theirs = (record_of(name, log) for name, log in found.events.items())
    assert (ours.operations.total, theirs.operations.total) == (12, 2)


def _root_of_demo() -> str:
    for line in DEMO.read_text().splitlines():
        value = json.loads(line)
        if value.get("isSidechain") is True:
            return str(value["uuid"])
    raise AssertionError


# --- replies in parts ------------------------------------------------------------------------


def test_lines_of_one_reply_are_one_reply_with_its_largest_usage() -> None:
    found = session(
        user("do it"),
        reply("m1", say("I will."), usage={"input_tokens": 4, "output_tokens": 1}),
        reply("m1", use("t1"), usage={"input_tokens": 4, "output_tokens": 9}),
        reply("m1", use("t2"), usage={"input_tokens": 4, "output_tokens": 9}),
    )
    (one,) = found.payloads("ModelReplied")
    assert (one.text, one.usage.input, one.usage.output) == ("I will.", 4, 9)
    assert [call.operation_id for call in one.tool_calls] == ["t1", "t2"]
    assert one.usage.cache_read is None
    assert found.unknown() == 2


def test_a_reply_that_goes_on_after_an_answer_states_what_its_usage_rose_by() -> None:
    found = session(
        user("do it"),
        reply("m1", use("t1"), usage={"input_tokens": 4, "output_tokens": 2}),
        answer("t1"),
        reply("m1", use("t2"), usage={"input_tokens": 4, "output_tokens": 9}),
        answer("t2"),
        reply("m1", say("and"), usage={"input_tokens": 4, "output_tokens": 9}),
    )
    parts = found.payloads("ModelReplied")
    assert [(one.continues, one.usage.output) for one in parts] == [
        (False, 2),
        (True, 7),
        (True, 0),
    ]
    assert len(found.payloads("ContextBuilt")) == 1
    assert [one.actual[0].amount for one in found.payloads("BudgetSettled")] == [6, 13]
    (record,) = found.records()
    assert (record.calls.replied, record.calls.tokens.output) == (1, 9)
    assert record.budget.accounts["tokens"].consumed == 13


def test_a_reply_without_usage_is_unknown_and_one_with_a_stated_cost_has_it() -> None:
    found = session(
        user("do it"),
        reply("m1", say("a"), usage=None),
        reply("m2", say("b"), costUSD=0.0125),
    )
    first, second = found.payloads("ModelReplied")
    assert first.usage is None and "usage is not recorded" in first.gaps
    assert found.run.findings.tokens.unreported == 1
    (settled,) = found.payloads("BudgetSettled")
    assert [(one.resource, one.amount) for one in settled.actual] == [
        ("tokens", 9),
        ("usd", 12_500_000),
    ]
    assert second.gaps == ("transport attempts are not recorded",)


def test_what_the_program_wrote_in_the_models_place_is_no_reply() -> None:
    local = reply("s1", say("No response requested."))
    local["message"]["model"] = "<synthetic>"
    failed = reply("s2", say("API Error: 500"), isApiErrorMessage=True)
    failed["message"]["model"] = "<synthetic>"
    found = session(user("do it"), local, failed)
    (one,) = found.payloads("ModelReplied")
    assert (one.status, one.error, one.usage, one.model) == ("error", "API Error: 500", None, None)
    (message,) = [one for one in found.payloads("RuntimeInput") if one.values != {"role": "user"}]
    assert message.values == {"role": "assistant", "written_by": "the program"}


def test_a_repeated_line_is_said_and_counted_once() -> None:
    line = reply("m1", use("t1"), uuid="same")
    found = session(user("do it"), line, answer("t1"), line, reply("m2", say("x")))
    assert found.families()["ModelReplied"] == 2
    assert found.families()["ToolIntent"] == 1
    assert found.run.findings.tokens.output == 2
    (again,) = [one for one in found.payloads("RuntimeInput") if one.kind == "repeated line"]
    assert again.values == {"uuid": "same"}


def test_a_call_id_that_comes_back_with_other_arguments_is_another_call() -> None:
    found = session(
        user("do it"),
        reply("m1", use("t1", command="ls")),
        answer("t1"),
        reply("m2", use("t1", command="rm")),
        reply("m3", use("t1", command="rm")),
    )
    ids = [one.event.operation_id for one in found.all() if one.event.type == "ToolIntent"]
    assert ids == ["t1", "t1~2"]
    assert found.unknown() == 1


# --- answers ---------------------------------------------------------------------------------

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


@pytest.mark.parametrize(
    ("content", "more", "status", "decided"),
    [
        ("fine", {}, "succeeded", None),
        ("", {"is_error": False}, "succeeded", None),
        ("Exit code 2\nno", {"is_error": True}, "failed", None),
        (REJECTED, {"is_error": True}, "no_effect", ("refused", "user")),
        ("x", {"toolDenialKind": "user-rejected"}, "no_effect", ("refused", "user")),
        ("x", {"toolDenialKind": "hook"}, "no_effect", ("refused", "hook")),
        (
            "Permission to use Bash with command rm has been denied.",
            {"is_error": True},
            "no_effect",
            ("refused", "permission rules"),
        ),
        (
            "The user doesn't want to take this action right now. STOP",
            {"is_error": True},
            "no_effect",
            None,
        ),
        (
            "Claude requested permissions to use Write, but you haven't granted it yet.",
            {"is_error": True},
            "no_effect",
            None,
        ),
        ("[Request interrupted by user for tool use]", {"is_error": True}, "unknown", None),
        ("half", {"toolUseResult": {"interrupted": True}}, "unknown", None),
        ("Command timed out after 2m 0.0s", {"is_error": True}, "timeout", None),
    ],
)
def test_what_an_answer_settles(
    content: str, more: dict[str, Any], status: str, decided: tuple[str, str] | None
) -> None:
    found = session(user("do it"), reply("m1", use("t1")), answer("t1", content, **more))
    (result,) = found.payloads("ToolResult")
    assert (result.status, result.basis, result.pairing) == (status, "sender", "call id")
    assert result.exit_code == (2 if status == "failed" else None)
    resolved = [(one.decision, one.reviewer) for one in found.payloads("ApprovalResolved")]
    assert resolved == ([decided] if decided else [])
    (record,) = found.records()
    assert record.approvals.unmatched == 0
    assert found.unknown() == (1 if status in ("unknown", "timeout") else 0)


def test_results_without_ids_are_paired_by_the_line_that_asked_and_by_order() -> None:
    found = session(
        user("do it"),
        reply("m1", use(None, command="a"), use(None, command="b"), uuid="asked"),
        answer(None, "one", sourceToolAssistantUUID="asked", uuid="r1"),
        answer(None, "two", uuid="r2"),
        answer(None, "three", uuid="r3"),
        answer("nowhere", "four"),
    )
    assert [one.pairing for one in found.payloads("ToolResult")] == [
        "the line that asked, in order",
        "order",
        "unpaired",
        "unpaired",
    ]
    (record,) = found.records()
    assert record.operations.by_outcome == {"succeeded": 2}
    assert record.operations.unmatched_results == 2


def test_two_answers_to_one_call_are_both_kept() -> None:
    found = session(
        user("do it"), reply("m1", use("t1")), answer("t1"), answer("t1", "no", uuid="r2")
    )
    assert [one.pairing for one in found.payloads("ToolResult")] == [
        "call id",
        "call id, a further result",
    ]


def test_an_edit_states_its_patch_and_a_job_its_handle() -> None:
    patch = [
        {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]},
    ]
    found = session(
        user("do it"),
        reply("m1", use("t1", "Edit"), use("t2", "Bash")),
        answer("t1", toolUseResult={"filePath": "x.py", "structuredPatch": patch}),
        answer("t2", "started", toolUseResult={"backgroundTaskId": "b1"}),
    )
    edit, job = found.payloads("ToolResult")
    assert edit.workspace.changes[0].diff == "--- x.py\n+++ x.py\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    assert (job.job_handle, job.status) == ("b1", "succeeded")
    assert "background" in job.covers


def test_plans_follow_the_tools_that_write_them_once_they_succeeded() -> None:
    todos = [{"content": "one", "status": "in_progress"}, {"content": "two", "status": "pending"}]
    found = session(
        user("do it"),
        reply("m1", use("t1", "TodoWrite", todos=todos)),
        answer("t1", REJECTED, is_error=True),
        reply("m2", use("t2", "TodoWrite", todos=todos)),
        answer("t2"),
        reply("m3", use("t3", "TaskCreate", subject="three")),
        answer("t3", "Task #7 created successfully: three"),
        reply("m4", use("t4", "TaskUpdate", taskId="7", status="completed", addBlockedBy=["1"])),
        answer("t4", "Updated task #7"),
        reply("m5", use("t5", "ExitPlanMode", plan="# First this")),
        answer("t5", "User has approved your plan. You can now start coding."),
    )
    plans = found.payloads("PlanChanged")
    assert [one.revision for one in plans] == [1, 2, 3, 4]
    assert [(item.id, item.text, item.status) for item in plans[-1].items] == [
        ("plan", "# First this", "open"),
        ("1", "one", "doing"),
        ("2", "two", "open"),
        ("7", "three", "done"),
    ]
    assert plans[-1].items[-1].depends_on == ("1",)
    assert [one.decision for one in found.payloads("ApprovalResolved")] == ["refused", "granted"]


# --- steering --------------------------------------------------------------------------------


def test_an_interruption_pauses_until_somebody_speaks() -> None:
    found = session(
        user("do it"),
        reply("m1", say("working")),
        user([say("[Request interrupted by user]")], uuid="stop"),
        {"type": "queue-operation", "operation": "enqueue", "content": "hurry"},
        user("go on", uuid="go"),
    )
    states = [(one.from_state, one.to_state) for one in found.payloads("ControlChanged")]
    assert states == [("RUNNING", "PAUSED"), ("PAUSED", "PAUSED"), ("PAUSED", "RUNNING")]
    assert found.payloads("ControlChanged")[1].reason == "hurry"


def test_an_api_error_says_which_attempt_failed_and_why() -> None:
    deep = {"status": 401, "error": {"error": {"message": "bad key"}}}
    found = session(
        user("do it"),
        {"type": "system", "subtype": "api_error", "error": deep, "retryAttempt": 2}
        | {"maxRetries": 10, "uuid": "e", "sessionId": SESSION_ID},
    )
    (one,) = found.payloads("ControlChanged")
    assert (one.detail, one.reason) == ("api_error 401, attempt 2 of 10", "bad key")
    assert one.to_state == "RUNNING"


def test_a_compaction_says_what_it_stands_for_and_begins_the_context_anew() -> None:
    found = session(
        user("do it"),
        reply("m1", say("a")),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b"}
        | {"compactMetadata": {"trigger": "auto", "preTokens": 9}},
        user("What was done.", isCompactSummary=True, uuid="s"),
        user("go on", uuid="g"),
        reply("m2", say("b")),
    )
    (one,) = found.payloads("Compacted")
    log = found.all()
    assert (one.summary, one.dropped) == ("What was done.", 2)
    stood_for = [event.event.type for event in log[one.first_sequence - 1 : one.last_sequence]]
    assert stood_for[0] == "TaskStarted" and stood_for[-1] == "BudgetSettled"
    contexts = found.payloads("ContextBuilt")
    assert [(one.count, one.kept, one.base_invocation_id) for one in contexts] == [
        (1, 0, None),
        (2, 0, None),
    ]


def test_contexts_are_deltas_and_go_back_where_a_person_did() -> None:
    found = session(
        user("start", "a", None),
        reply("m1", say("one"), uuid="b", parentUuid="a"),
        user("then", "c", "b"),
        reply("m2", say("two"), uuid="d", parentUuid="c"),
        user("rather", "e", "b"),
        reply("m3", say("three"), uuid="f", parentUuid="e"),
        user("elsewhere", "g", "not in this file"),
        reply("m4", say("four"), uuid="h", parentUuid="g"),
        user("new root", "i", None),
        reply("m5", say("five"), uuid="j", parentUuid="i"),
    )
    contexts = found.payloads("ContextBuilt")
    assert [(one.base_invocation_id, one.kept, one.count) for one in contexts] == [
        (None, 0, 1),
        ("m1", 1, 3),
        ("m2", 2, 3),
        ("m3", 3, 5),
        (None, 0, 1),
    ]
    assert all(one.claim == "partial" for one in contexts)
    _check_manifests(found)
    kinds = [one.kind for one in found.payloads("RuntimeInput")]
    assert kinds.count("rewind") == kinds.count("new root") == 1


def _check_manifests(found: Derived) -> None:
    """Each manifest digest is that of the messages its deltas add up to."""
    import hashlib

    for log in found.events.values():
        held: dict[str | None, list[str]] = {None: []}
        for one in log:
            if one.event.type != "ContextBuilt":
                continue
            built = one.payload
            whole = held[built.base_invocation_id][: built.kept] + [
                message.digest for message in built.messages
            ]
            assert len(whole) == built.count
            raw = b"".join(bytes.fromhex(digest[7:]) for digest in whole)
            assert built.manifest_digest == f"sha256:{hashlib.sha256(raw).hexdigest()}"
            held[one.event.invocation_id] = whole


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.name)
def test_manifests_add_up(path: Path) -> None:
    _check_manifests(of(path, cuts=[7, 9, 20]))


def test_going_back_again_and_again_adds_up() -> None:
    lines = [user("start", "p0", None)]
    for number in range(1, 60):
        lines.append(reply(f"m{number}", say("x"), uuid=f"a{number}", parentUuid=f"p{number - 1}"))
        parent = f"a{max(1, number - number % 7)}"
        lines.append(user(f"prompt {number}", f"p{number}", parent))
    _check_manifests(session(*lines))


def test_going_back_is_bounded_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_context, "REHASH_BYTES_MAX", 100)
    lines = [user("start", "p0", None)]
    for number in range(1, 6):
        lines.append(reply(f"m{number}", say("x"), uuid=f"a{number}", parentUuid=f"p{number - 1}"))
        lines.append(user(f"prompt {number}", f"p{number}", "p0"))
    found = session(*lines)
    _check_manifests(found)
    assert "some returns to an earlier message" in found.run.findings.gaps
    assert [one.count for one in found.payloads("ContextBuilt")] == [1, 2, 2, 2, 4]


def test_lines_no_call_was_given_yet_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_context, "ADDED_MAX", 10)
    lines = [user(f"prompt {number}") for number in range(25)]
    found = session(*lines, reply("m1", say("x")), user("more"), reply("m2", say("y")))
    first, second = found.payloads("ContextBuilt")
    assert first.count + first.dropped == 25
    assert first.dropped and first.count <= 10
    assert (second.kept, second.count, second.dropped) == (first.count, first.count + 2, 0)
    _check_manifests(found)


def test_a_manifest_points_at_the_message_where_the_program_wrote_the_line() -> None:
    line = user("caf\u00e9 \u2028 <b>", "one")
    other = line | {"uuid": "two"}
    compact = json.dumps(other, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    data = text_of([line]) + compact + text_of([reply("m1", say("x"))])
    (built,) = derive(IMPORTER, data, f"{SESSION_ID}.jsonl").payloads("ContextBuilt")
    spaced, tight = (data[one.start : one.end] for one in built.messages)
    assert json.loads(spaced)["message"] == json.loads(tight) == line["message"]


def test_history_copied_from_another_session_is_said() -> None:
    other = "0f0e0d0c-0b0a-4908-8706-050403020100"
    found = session(
        user("start", sessionId=other),
        reply("m1", say("a"), sessionId=other),
        user("more", uuid="m"),
        reply("m2", say("b")),
    )
    (started,) = found.payloads("TaskStarted")
    known = SourceKey("claude-code", 1, f"session:{other}").trajectory_id
    assert started.restart.trajectory_id == known
    assert any("2 lines state session 0f0e" in note for note in found.run.findings.notes)
    (moved,) = [one for one in found.payloads("RuntimeInput") if one.kind == "environment"]
    assert moved.values["sessionId"] == {"from": other, "to": SESSION_ID}
    assert found.run.findings.tokens.output == 2


def test_a_fork_that_names_its_origin_is_said() -> None:
    origin = "0f0e0d0c-0b0a-4908-8706-050403020100"
    mark = {"forkedFrom": {"sessionId": origin, "messageUuid": "far"}}
    lines = [user("start", **mark), reply("m1", say("a"), **mark), user("more"), reply("m2")]
    for cuts in ([], [1], [3]):
        found = session(*lines, cuts=cuts)
        (started,) = found.payloads("TaskStarted")
        known = SourceKey("claude-code", 1, f"session:{origin}").trajectory_id
        assert started.restart.trajectory_id == known
        assert started.restart.description.startswith("forked: ")
        (note,) = found.run.findings.notes
        assert note.startswith(f"2 lines state that they were copied from session {origin}")
    assert not session(*(line | {"forkedFrom": 3} for line in lines)).run.findings.notes


def test_parallel_side_chains_stay_apart_and_orphans_are_said() -> None:
    side = {"isSidechain": True}
    found = session(
        user("do it", "m0", None),
        reply("m1", use("t1", "Task", prompt="look left"), use("t2", "Task", prompt="look right")),
        user("look left", "l0", None, **side),
        user("look right", "r0", None, **side),
        reply("s1", use("x1"), uuid="l1", parentUuid="l0", **side),
        reply("s2", use("x2"), uuid="r1", parentUuid="r0", **side),
        answer("x2", "right", uuid="r2", parentUuid="r1", **side),
        answer("x1", "left", uuid="l2", parentUuid="l1", **side),
        answer("t1", "left"),
        reply("s3", say("lost"), uuid="z", parentUuid="gone", **side),
    )
    assert len(found.events) == 4
    starts = found.payloads("TaskStarted")
    assert [one.parent.operation_id if one.parent else None for one in starts] == [
        None,
        "t1",
        "t2",
        None,
    ]
    said = [one.observation for one in found.payloads("ToolResult")]
    assert said == ["left", "left", "right"]
    assert [record.operations.total for record in found.records()] == [2, 1, 1, 0]


# --- titles ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (
            [user("<system-reminder>\nx\n</system-reminder>\n  Fix the parser\nnow")],
            "Fix the parser",
        ),
        ([user("[Image #1] look here")], "look here"),
        (
            [
                user(
                    "Caveat: The messages below were generated by the user "
                    "while running local commands"
                )
            ],
            "",
        ),
        (
            [
                user("<command-name>/review</command-name><command-args>12</command-args>"),
                user("and quickly"),
            ],
            "/review 12: and quickly",
        ),
        ([user("<command-name>/clear</command-name>"), user("Fix it")], "Fix it"),
        ([user("Fix it"), {"type": "ai-title", "aiTitle": "Parser fix"}], "Parser fix"),
        (
            [
                {"type": "custom-title", "customTitle": "Mine"},
                user("Fix it"),
                {"type": "ai-title", "aiTitle": "Parser fix"},
            ],
            "Mine",
        ),
        (
            [{"type": "summary", "summary": "Another", "leafUuid": "far"}, user("Fix it")],
            "Fix it",
        ),
        (
            [user("Fix it", "leaf"), {"type": "summary", "summary": "Own", "leafUuid": "leaf"}],
            "Own",
        ),
        ([user("x" * 500)], "x" * 109 + "…"),
    ],
)
def test_a_title_is_what_a_person_calls_it(lines: list[dict[str, Any]], title: str) -> None:
    found = session(*lines)
    (given,) = found.titles.values()
    assert given == (title or f"Claude Code session {SESSION_ID[:8]}")
    for cut in range(len(lines)):
        again = session(*lines, cuts=[cut])
        (record,) = again.records()
        assert record.scope.title == given == next(iter(again.titles.values()))


def test_the_start_says_what_was_known_then_and_a_better_title_comes_at_its_place() -> None:
    opening = {"type": "summary", "summary": "Of another session", "leafUuid": "far"}
    later = {"type": "ai-title", "aiTitle": "Parser fix", "sessionId": SESSION_ID}
    own = {"type": "summary", "summary": "Own", "leafUuid": "first"}
    named = {"type": "custom-title", "customTitle": "Mine", "sessionId": SESSION_ID}
    lines = [opening, user("Fix it", "first"), reply("m1", say("ok")), own, later, named, later]
    found = session(*lines, user("and the rest"))
    (started,) = found.payloads("TaskStarted")
    assert (started.title, started.task) == ("Fix it", "Fix it")
    inputs = [(one.kind, one.text) for one in found.payloads("RuntimeInput")]
    assert [one for one in inputs if one[0].endswith("title")] == [
        ("another title", "Of another session"),
        ("title", "Own"),
        ("title", "Parser fix"),
        ("title", "Mine"),
        ("another title", "Parser fix"),
    ]
    # A reading that ended before the first prompt learns the title from it.
    first = session(*lines, cuts=[1])
    (started,) = first.payloads("TaskStarted")
    assert (started.title, started.task) == (f"Claude Code session {SESSION_ID[:8]}", None)
    titles = [one.text for one in first.payloads("RuntimeInput") if one.kind == "title"]
    assert titles == ["Of another session", "Fix it", "Own", "Parser fix", "Mine"]


def test_a_summary_names_the_session_once_its_line_comes() -> None:
    opening = {"type": "summary", "summary": "Own", "leafUuid": "last"}
    found = session(opening, user("Fix it"), user("done", "last"))
    (started,) = found.payloads("TaskStarted")
    assert started.title == "Fix it"
    assert [record.scope.title for record in found.records()] == ["Own"]


def test_a_sub_agent_is_called_by_its_kind_once_a_line_states_it() -> None:
    side = {"isSidechain": True, "agentId": "a1"}
    said = reply("m1", say("looking"), attributionAgent="Explore", **side)
    found = session(user("Look", **side), said, name="agent-a1.jsonl")
    (started,) = found.payloads("TaskStarted")
    assert started.title == "Sub-agent a1: Look"
    assert [record.scope.title for record in found.records()] == ["Explore: Look"]


@pytest.mark.parametrize(
    ("name", "size"),
    [("4379d1bf-ccb1-414e-a856-9791b73f3af2", 20_000), ("agent-sessions_small", 3_000)],
)
def test_a_sample_that_is_read_in_two_parts_has_the_title_of_the_whole(
    opened: Opened, other: Opened, tmp_path: Path, name: str, size: int
) -> None:
    need("samples")
    whole = (samples() / f"claude_code/{name}.jsonl").read_bytes()
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(whole[:size])
    assert take(opened, path).outcome == "imported"
    path.write_bytes(whole)
    titles = []
    for store in (opened, other):
        report = take(store, path)
        for one in report.trajectories:
            record = record_at(
                store.store, store.blobs, store.projections, TENANT, one.id, one.head
            ).record
            assert record.scope.title == one.title
        titles.append({one.id: one.title for one in report.trajectories})
    assert titles[0] == titles[1]
    assert not any(title.startswith("Claude Code session") for title in titles[0].values())


# --- lines of every kind ---------------------------------------------------------------------


def test_a_bad_line_is_kept_and_stops_nothing() -> None:
    whole = (
        text_of([user("do it")]) + b'{"type": "user", \xff}\n' + text_of([reply("m1", say("a"))])
    )
    found = derive(IMPORTER, whole + b"[1]\n" + b'{"no": "type"}\n', f"{SESSION_ID}.jsonl")
    assert [one.where for one in found.payloads("Unparsed")] == ["line 2", "line 4", "line 5"]
    assert found.families()["ModelReplied"] == 1
    (first, *_) = [one for one in found.all() if one.event.type == "Unparsed"]
    (ref,) = first.event.refs
    assert whole[ref.start : ref.end] == b'{"type": "user", \xff}'


def test_an_image_is_pointed_at_and_never_repeated() -> None:
    data = base64.b64encode(bytes(range(256)) * 40).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    lines = [
        user([image, say("look")]),
        reply("m1", use("t1", "Read")),
        answer("t1", [image]),
        {"type": "attachment", "uuid": "q", "attachment": {"type": "queued_command"}}
        | {"sessionId": SESSION_ID},
    ]
    lines[-1]["attachment"]["prompt"] = [image, say("and this")]
    raw = text_of(lines)
    found = session(*lines)
    pointed = [ref for one in found.all() for ref in one.event.refs if ref.schema == "base64"]
    assert len(pointed) == 3
    assert all(raw[ref.start : ref.end].decode() == data for ref in pointed)
    assert all(data.encode() not in (one.event.payload or one.blob or b"") for one in found.all())
    (result,) = found.payloads("ToolResult")
    assert (result.observation_complete, result.observation_rest) == (
        False,
        "1 image, in the original line",
    )
    texts = [one.text for one in found.payloads("RuntimeInput")]
    assert texts == ["look", "and this"]


def test_lines_without_a_message_say_what_they_hold() -> None:
    found = session(
        {"type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION_ID},
        user("do it", permissionMode="acceptEdits", cwd="/a", gitBranch="main"),
        user("more", uuid="b", permissionMode="acceptEdits", cwd="/b", gitBranch="main"),
        {"type": "file-history-snapshot", "messageId": "a", "isSnapshotUpdate": True}
        | {"snapshot": {"trackedFileBackups": {"x.py": {"backupFileName": "f@v1", "version": 1}}}},
        {"type": "progress", "toolUseID": "t", "data": {"type": "agent_progress", "message": {}}},
        {"type": "system", "subtype": "turn_duration", "durationMs": 5, "uuid": "s"},
        {"type": "brand-new", "sessionId": SESSION_ID, "thing": {"deep": [1, 2.5, None]}},
    )
    inputs = [(one.kind, one.values) for one in found.payloads("RuntimeInput")]
    assert inputs == [
        ("policy", {"permission_mode": "plan"}),
        ("policy", {"permission_mode": "acceptEdits", "before": "plan"}),
        ("message", {"role": "user"}),
        ("environment", {"cwd": {"from": "/a", "to": "/b"}}),
        ("message", {"role": "user"}),
        (
            "file history",
            {
                "message": "a",
                "update": True,
                "files": [{"path": "x.py", "backupFileName": "f@v1", "version": 1}],
            },
        ),
        ("progress", {"type": "agent_progress", "toolUseID": "t"}),
        ("system turn_duration", {"durationMs": 5}),
        ("brand-new", {"thing": {"deep": [1, 2.5, None]}}),
    ]


def test_numbers_no_other_reader_keeps_become_text() -> None:
    raw = text_of([user("do it"), reply("m1", use("t1"))]).replace(
        b'"input": {}', b'"input": {"a": 1e17, "b": 12345678901234567890, "c": 1e400000}'
    )
    found = derive(IMPORTER, raw, f"{SESSION_ID}.jsonl")
    assert found.families()["Unparsed"] == 1  # 1e400000 is no number at all.
    raw = raw.replace(b"1e400000", b"-3e18")
    (intent,) = derive(IMPORTER, raw, f"{SESSION_ID}.jsonl").payloads("ToolIntent")
    assert intent.arguments == {"a": "1e+17", "b": "12345678901234567890", "c": "-3e+18"}


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["user", "assistant", "tool_use", "tool_result", "base64", "<synthetic>"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
GOLD_LINES = [json.loads(line) for path in PLACES for line in path.read_text().splitlines()]


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += _paths(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _paths(item, (*at, index))
    return found


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_shape_of_a_line_breaks_the_run(data: st.DataObject) -> None:
    lines = []
    for original in data.draw(st.lists(st.sampled_from(GOLD_LINES), min_size=1, max_size=12)):
        line = copy.deepcopy(original)
        for path in data.draw(st.lists(st.sampled_from(_paths(line)), max_size=3)):
            holder = line
            for step in path[:-1]:
                if not isinstance(holder, dict | list):
                    break
                try:
                    holder = holder[step]
                except (KeyError, IndexError, TypeError):
                    break
            else:
                if isinstance(holder, dict) or (
                    isinstance(holder, list)
                    and isinstance(path[-1], int)
                    and path[-1] < len(holder)
                ):
                    holder[path[-1]] = data.draw(JUNK)
        lines.append(line)
    cuts = data.draw(st.lists(st.integers(1, 12), max_size=3))
    found = session(*lines, cuts=cuts)
    assert len(found.all()) >= len(lines)
    found.records()
    _check_manifests(found)
    assert facts_of(found)["texts"] == facts_of(session(*lines))["texts"]


# --- recognition -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.name)
def test_it_recognises_its_files(path: Path) -> None:
    data = path.read_bytes()
    found = IMPORTER.sniff(data[:65536], data[-8192:], path.name)
    assert found is not None and found.confidence >= 0.9 and found.reason


def test_it_leaves_the_files_of_others_alone() -> None:
    need("samples")
    for folder in ("other_agents", "pi_session", "codex_rollout", "gemini_cli"):
        for path in sorted((samples() / folder).glob("*.json*")):
            data = path.read_bytes()
            assert IMPORTER.sniff(data[:65536], data[-8192:], path.name) is None, path.name
    line = b'{"parentUuid":null,"isSidechain":false,"type":"user","message":{"content":"'
    cut = IMPORTER.sniff(line + b"x" * 65536, b"", "a.jsonl")
    assert cut is not None and 0.5 < cut.confidence < 0.9


def test_names_state_identities_wherever_the_files_lie() -> None:
    head = AGENT.read_bytes()
    assert IMPORTER.native_id(b"", f"/x/{SESSION_ID.upper()}.jsonl") == f"session:{SESSION_ID}"
    own = f"session:{SESSION_ID}#agent:a7f3c21"
    assert IMPORTER.native_id(b"", f"/x/{SESSION_ID}/subagents/agent-a7f3c21.jsonl") == own
    assert IMPORTER.native_id(head, "agent-a7f3c21.jsonl") == own
    assert IMPORTER.native_id(head, "agent-other.jsonl") is None
    assert IMPORTER.native_id(head, "notes.jsonl") is None


def test_a_sub_agents_file_is_read_with_what_lies_beside_it() -> None:
    meta = {"agentType": "Explore", "description": "Look", "toolUseId": "t9", "spawnDepth": 1}
    beside = {".meta.json": json.dumps(meta).encode()}
    (started,) = of(AGENT, beside=beside).payloads("TaskStarted")
    assert started.title == "Explore: Look"
    assert started.parent.operation_id == "t9"
    deeper = {".meta.json": json.dumps(meta | {"spawnDepth": 2}).encode()}
    (started,) = of(AGENT, beside=deeper).payloads("TaskStarted")
    assert started.parent.operation_id is None
    (started,) = of(AGENT, beside={".meta.json": b"{no"}).payloads("TaskStarted")
    assert started.title == "Sub-agent a7f3c21: Explain how orchard/frost.py finds frost nights."


def lines_of(*values: dict[str, Any], first: int = 1) -> tuple[Line, ...]:
    return read_lines(text_of(list(values)), first, begins=first == 1)[0]


def test_lines_that_may_still_be_added_to_wait() -> None:
    opening = {"type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION_ID}
    assert IMPORTER.waiting(()) == 0
    assert IMPORTER.waiting(lines_of(opening)) == 1
    assert IMPORTER.waiting(lines_of(opening, first=9)) == 0
    assert IMPORTER.waiting(lines_of(opening, user("do it"))) == 0
    parts = (user("do it"), reply("m1", say("a")), reply("m1", use("t1")))
    assert IMPORTER.waiting(lines_of(*parts)) == 2
    assert IMPORTER.waiting(lines_of(*parts, answer("t1"))) == 0
    ended = reply("m1", use("t2"))
    ended["message"]["stop_reason"] = "tool_use"
    assert IMPORTER.waiting(lines_of(*parts, ended)) == 0


# --- the web export --------------------------------------------------------------------------


def exported(data: bytes, kept: tuple[Kept, ...] = ()) -> Built:
    return ClaudeExport().parse(Source("x.json", io.BytesIO(data), len(data))).build("x", kept)


def export_of(lines: list[Any]) -> bytes:
    return json.dumps({"loglines": lines}, indent=2).encode()


def test_an_export_that_grew_appends_and_one_that_changed_is_a_conflict() -> None:
    lines = json.loads((GOLDEN / "web-export.json").read_text())["loglines"]
    first = exported(export_of(lines[:6]))
    assert first.segment is not None
    digest = next(ref.digest for ref in first.events[0].event.refs)
    kept = (Kept(first.segment, digest, first.segment_items),)
    grown = exported(export_of(lines), kept)
    assert grown.known == len(first.events)
    assert grown.events[: grown.known] == first.events
    assert grown.segment is not None and grown.segment_items == len(lines) - 6
    whole = exported(export_of(lines))
    assert [one.event.type for one in whole.events] == [one.event.type for one in grown.events]
    changed = copy.deepcopy(lines)
    changed[2]["message"]["content"] = "something else"
    with pytest.raises(IntegrityConflict, match="logline 3 differs"):
        exported(export_of(changed), kept)


@pytest.mark.parametrize("lines", [[], [1], [{"message": {}}], {"a": 1}])
def test_an_export_of_another_shape_is_refused_with_the_place(lines: Any) -> None:
    with pytest.raises(ImportRefused):
        exported(json.dumps({"loglines": lines}).encode())


# --- a file that grows -----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.33, 0.5, 0.8, 0.97])
def test_a_session_that_grows_between_two_readings_ends_as_the_whole(
    opened: Opened, other: Opened, tmp_path: Path, share: float
) -> None:
    whole = DEMO.read_bytes()
    path = tmp_path / DEMO.name
    path.write_bytes(whole[: int(len(whole) * share)])
    first = take(opened, path)
    assert first.outcome == "imported"
    path.write_bytes(whole)
    second = take(opened, path)
    assert second.outcome == "appended"
    at_once = take(other, path)
    assert [one.id for one in second.trajectories] == [one.id for one in at_once.trajectories]
    for one in at_once.trajectories:
        records = [
            record_at(
                store.store,
                store.blobs,
                store.projections,
                TENANT,
                one.id,
                store.store.head(TENANT, one.id).sequence_number,
            ).record
            for store in (opened, other)
        ]
        assert records[0].calls.tokens == records[1].calls.tokens
        assert records[0].calls.by_status == records[1].calls.by_status
        assert records[0].operations.by_outcome == records[1].operations.by_outcome
        assert records[0].plan.items == records[1].plan.items
        consumed = [record.budget.accounts["tokens"].consumed for record in records]
        assert consumed[0] == consumed[1]
    assert take(opened, path).outcome == "unchanged"
