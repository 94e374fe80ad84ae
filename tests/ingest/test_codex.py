"""Codex rollouts: the samples with their facts, every layout, cuts into segments, growing files."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.canonical import digest_text, sha256
from core.events.context import RuntimeInput
from core.events.control import ControlChanged, PlanChanged
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.source import Unparsed
from core.events.task import TaskStarted
from core.events.tool import ToolIntent, ToolResult
from ingest.base import BuiltEvent, LogSegment
from ingest.build import SourceKey
from ingest.codex import Codex
from ingest.codex_run import CodexRun
from ingest.demo import DATA
from ingest.lines import read_lines
from runtime.time_travel import record_at
from store.open import Opened
from tests.ingest.loglines import record_of
from tests.ingest.support import TENANT, everything, families, give, log_of, of_type, take
from tests.require import need, samples, samples_generated

PARENT, CHILD = sorted(DATA.glob("rollout-*.jsonl"))
PARENT_ID, CHILD_ID = (path.stem[-36:] for path in (PARENT, CHILD))


def rows() -> list[dict[str, Any]]:
    listed = samples() / "FACTS.jsonl"
    if not listed.is_file():
        return []
    found = [json.loads(line) for line in listed.read_text().splitlines() if line.strip()]
    return [row for row in found if row["format"] == "codex_rollout"]


FACTS = rows()
#: Tokens of all replies by the rule; None: no line says them in a way that can be added up.
TOKENS = {
    "agent-sessions_small.jsonl": 16_422,
    "codex_050_legacy.jsonl": None,
    "codex_051_usage.jsonl": None,
    "codex_052_raw.jsonl": None,
    "iansherr_sample-session.jsonl": None,
}


def sample(row: dict[str, Any]) -> Path:
    return samples() / "codex_rollout" / str(row["file"])


# --- a run outside the pipeline --------------------------------------------------------------


def lines_of(values: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def derive(data: bytes, cuts: Sequence[int] = ()) -> tuple[CodexRun, list[list[BuiltEvent]]]:
    """The events of each segment, where the lines are cut at the given numbers."""
    pieces = data.splitlines(keepends=True)
    bounds = [0, *sorted(set(cuts)), len(pieces)]
    run = CodexRun("somewhere")
    found: list[list[BuiltEvent]] = []
    offset = 0
    for begin, end in itertools.pairwise(bounds):
        part = b"".join(pieces[begin:end])
        lines, _ = read_lines(part, begin + 1, begins=begin == 0)
        blob = digest_text(sha256(part))
        grown = run.feed(LogSegment(len(found), blob, len(part), offset, lines))
        found.append([built for one in grown for built in one.events])
        offset += len(part)
    return run, found


def whole(data: bytes) -> tuple[CodexRun, list[BuiltEvent]]:
    run, (events,) = derive(data)
    return run, events


def payloads(events: Iterable[BuiltEvent], kind: type[Any]) -> list[Any]:
    return [one.payload for one in events if isinstance(one.payload, kind)]


def facts(events: Sequence[BuiltEvent]) -> dict[str, Any]:
    """What a log says, however its replies were cut into parts."""
    replies: dict[str, dict[str, Any]] = {}
    rest: list[Any] = []
    for one in events:
        payload = one.payload
        if isinstance(payload, TaskStarted):
            continue  # Where the start was cut off, it says less of the title and the task.
        if isinstance(payload, RuntimeInput) and payload.kind == "title":
            continue
        if isinstance(payload, ModelReplied):
            assert one.event.invocation_id is not None
            told = replies.setdefault(
                one.event.invocation_id,
                {"texts": [], "calls": [], "tokens": Counter(), "reported": False, "parts": 0},
            )
            assert payload.continues == (told["parts"] > 0)
            told["parts"] += 1
            told["texts"] += [payload.text] if payload.text else []
            told["calls"] += [(call.tool, call.operation_id) for call in payload.tool_calls]
            if payload.usage is not None:
                told["reported"] = True
                told["tokens"].update(msgspec.to_builtins(payload.usage))
            continue
        plain = msgspec.to_builtins(payload)
        for message in plain.get("messages", ()):
            for name in ("blob", "start", "end"):
                message.pop(name)
        event = one.event
        rest.append((event.event_id, event.type, event.step, event.operation_id, plain))
    for told in replies.values():
        told["texts"] = "\n\n".join(told["texts"])
        del told["parts"]
    return {"title": record_of("a", list(events)).scope.title, "replies": replies, "rest": rest}


# --- samples ---------------------------------------------------------------------------------


def test_the_samples_are_there() -> None:
    need("samples")
    assert {row["file"] for row in FACTS} == set(TOKENS)


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["file"])
def test_a_sample_imports_with_its_facts(shared: Opened, row: dict[str, Any]) -> None:
    report = take(shared, sample(row))
    assert report.outcome == "imported", report.refused
    identity = report.trajectories[0].id
    count = families(shared, identity)
    assert report.lines_read == row["lines"]
    assert count["Unparsed"] == row["bad_lines"] == 0
    assert count["ToolIntent"] == row["calls"]
    view = record_at(shared.store, shared.blobs, shared.projections, TENANT, identity, None)
    record = view.require_reconstructed()
    assert (record.operations.total, record.operations.unsettled) == (
        row["calls"],
        row["unanswered_calls"],
    )
    tokens = report.findings.tokens
    kinds = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write]
    expected = TOKENS[row["file"]]
    assert (None if kinds == [None] * 4 else sum(one or 0 for one in kinds)) == expected
    accounts = record.budget.accounts
    assert (accounts["tokens"].consumed if "tokens" in accounts else None) == expected
    assert record.calls.tokens.unreported == tokens.unreported
    types = row["types"]
    assert count["Compacted"] == types.get("compacted", 0)
    results = types.get("response_item/function_call_output", 0) + types.get(
        "response_item/custom_tool_call_output", 0
    )
    assert count["ToolResult"] == results
    assert "approvals" in report.findings.gaps
    (started,) = of_type(shared, identity, "TaskStarted")
    assert started.capabilities.approvals == "absent"
    assert take(shared, sample(row)).outcome == "unchanged"


def test_a_total_that_falls_starts_a_new_counter(shared: Opened) -> None:
    """`last_total` of the facts is the 0 after the fall; the tokens are those before it."""
    need("samples")
    row = next(row for row in FACTS if row["file"].startswith("agent-sessions"))
    assert row["last_total"]["total_tokens"] == 0
    tokens = take(shared, sample(row)).findings.tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output) == (
        12_757,
        3_584,
        0,
        81,
    )


def test_usage_that_says_not_of_what_is_kept_and_unknown(shared: Opened) -> None:
    need("samples")
    for name, unknown in (("codex_051_usage", 2), ("codex_052_raw", 2), ("codex_050_legacy", 2)):
        report = take(shared, samples() / f"codex_rollout/{name}.jsonl")
        replies = of_type(shared, report.trajectories[0].id, "ModelReplied")
        assert [one.usage for one in replies] == [None] * unknown
        assert report.findings.tokens.unreported == unknown
        if name != "codex_050_legacy":
            assert all(one.usage_raw["input_tokens"] for one in replies)


def test_the_other_converter_has_no_reading_of_these_files() -> None:
    """Its four readings are of sessions that are no samples; of files with line types it does not
    know it returns nothing. So no figure here can be compared with it."""
    need("samples_generated")
    oracle = json.loads((samples_generated() / "atif_by_harbor/ORACLE.json").read_text())
    theirs = [name for name in oracle if name.startswith("from_codex_")]
    assert len(theirs) == 4
    stems = [Path(row["file"]).stem for row in FACTS]
    assert not [name for name in theirs if any(stem in name for stem in stems)]


# --- the fixtures ----------------------------------------------------------------------------


def test_the_fixture_is_read_as_it_is_written(opened: Opened) -> None:
    report = take(opened, PARENT)
    identity = report.trajectories[0].id
    assert report.format == "Codex rollout, numbered lines"
    assert report.source == f"session:{PARENT_ID}"
    count = families(opened, identity)
    assert (count["ModelReplied"], count["ToolIntent"], count["ToolResult"]) == (8, 7, 6)
    (started,) = of_type(opened, identity, "TaskStarted")
    assert started.title.startswith("parse_date accepts 30 February.")
    assert (started.agent, started.model, started.parent) == (
        "Codex 0.171.0",
        "example-codex-1",
        None,
    )
    tokens = report.findings.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write) == (
        64_140 - 50_250 - 12_410,
        1_135,
        50_250,
        12_410,
    )
    assert tokens.unreported == 0
    last = json.loads(PARENT.read_text().splitlines()[-4])["payload"]["thread_token_usage"]
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, identity, None)
    record = view.require_reconstructed()
    assert record.budget.accounts["tokens"].consumed == last["total_tokens"] == 65_275
    assert record.operations.unsettled == 1
    assert record.control.state == "PAUSED"
    assert [item.status for item in record.plan.items] == ["doing", "open", "open"]
    results = of_type(opened, identity, "ToolResult")
    assert [(one.status, one.exit_code) for one in results] == [
        ("succeeded", None),
        ("succeeded", 0),
        ("succeeded", None),
        ("succeeded", 0),
        ("failed", 1),
        ("succeeded", 0),
    ]
    assert results[0].covers is not None
    assert results[3].observation.startswith("Success.")
    unseen = [one for one in of_type(opened, identity, "ModelReplied") if not one.text]
    assert any("no item of the reply is in the file" in one.gaps for one in unseen)


def test_after_a_compaction_the_context_is_the_stated_list(opened: Opened) -> None:
    identity = take(opened, PARENT).trajectories[0].id
    (compacted,) = of_type(opened, identity, "Compacted")
    built = of_type(opened, identity, "ContextBuilt")
    listed = next(
        value["payload"]["replacement_history"]
        for value in map(json.loads, PARENT.read_text().splitlines())
        if value["type"] == "compacted"
    )
    assert compacted.dropped == built[4].count + 2  # A reply, and the next turn's message.
    after = built[5]
    assert (after.kept, after.base_invocation_id, after.count) == (0, None, len(listed))
    for ref, item in zip(after.messages, listed, strict=True):
        data = opened.blobs.read(TENANT, ref.blob)[ref.start : ref.end]
        assert json.loads(data) == item


def test_a_sub_agent_names_its_parent_whichever_comes_first(
    opened: Opened, other: Opened, tmp_path: Path
) -> None:
    for store, paths in ((opened, (PARENT, CHILD)), (other, (CHILD, PARENT))):
        found = {path: take(store, path).trajectories[0].id for path in paths}
        (started,) = of_type(store, found[CHILD], "TaskStarted")
        assert started.parent.trajectory_id == found[PARENT]
        assert started.parent.operation_id is None
        assert started.model == "example-codex-mini"
    moved = tmp_path / CHILD.name
    shutil.copy(CHILD, moved)
    assert take(opened, moved).outcome == "unchanged"


def test_events_that_repeat_an_item_make_no_event(opened: Opened) -> None:
    report = take(opened, PARENT)
    kinds = {one.kind for one in of_type(opened, report.trajectories[0].id, "RuntimeInput")}
    assert not kinds & {"user_message", "agent_message", "agent_reasoning"}
    assert report.findings.became["agent_message (its item says it)", "(no event)"] == 2


# --- cuts ------------------------------------------------------------------------------------

META = {
    "id": "01a1f82f-1e80-7a1b-82c3-d4e5f6a7b8c9",
    "timestamp": "2026-11-20T09:00:00.000Z",
    "cwd": "/home/ana/x",
    "cli_version": "0.80.0",
}


def stamp(values: Sequence[tuple[str, dict[str, Any]]]) -> bytes:
    return lines_of(
        {"timestamp": f"2026-11-20T09:{n // 60:02}:{n % 60:02}.000Z", "type": type_, "payload": p}
        for n, (type_, p) in enumerate(values)
    )


def said(role: str, text: str) -> tuple[str, dict[str, Any]]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return "response_item", {"type": "message", "role": role, "content": content}


def called(name: str, call_id: str) -> tuple[str, dict[str, Any]]:
    return "response_item", {
        "type": "function_call",
        "name": name,
        "arguments": '{"command":["ls"]}',
        "call_id": call_id,
    }


def answered(call_id: str, output: object = "ok") -> tuple[str, dict[str, Any]]:
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    return "response_item", item


def total(given: int, cached: int, output: int) -> tuple[str, dict[str, Any]]:
    usage = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": output}
    return "event_msg", {"type": "token_count", "info": {"total_token_usage": usage}}


def event(type_: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "event_msg", {"type": type_, **more}


#: A session in the layout before records, with what makes cuts hard.
TOTALS = stamp(
    [
        ("session_meta", META),
        ("turn_context", {"model": "m-1", "cwd": "/home/ana/x"}),
        said("user", "Look."),
        event("user_message", message="Look."),
        event("agent_reasoning", text="Hm."),
        (
            "response_item",
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        ),
        event("agent_message", message="I look."),
        said("assistant", "I look."),
        called("shell", "c1"),
        called("shell", "c2"),
        answered("c2", '{"output":"b","metadata":{"exit_code":2}}'),
        total(100, 20, 10),
        total(100, 20, 10),
        answered("c1"),
        said("assistant", "One more."),
        called("shell", "c1"),
        total(230, 120, 25),
        answered("c1", "again"),
        event("agent_message", message="Nobody says this."),
        event("turn_aborted", reason="interrupted"),
        total(30, 0, 5),
        ("compacted", {"message": "Short.", "replacement_history": [said("user", "Short.")[1]]}),
        said("assistant", "Done."),
        total(90, 30, 9),
    ]
)
LOGS = {
    "totals": TOTALS,
    "records": PARENT.read_bytes(),
    "sub-agent": CHILD.read_bytes(),
    "torn": TOTALS.replace(b'"call_id": "c2"', b'"call_id": c2', 1),
}
WHOLE = {name: whole(data) for name, data in LOGS.items()}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(LOGS)), st.data())
def test_cuts_change_no_fact_and_a_prefix_of_segments_is_a_prefix_of_the_log(
    name: str, data: st.DataObject
) -> None:
    log = LOGS[name]
    count = len(log.splitlines())
    cuts = data.draw(st.lists(st.integers(1, count - 1), max_size=8, unique=True))
    run, segments = derive(log, cuts)
    at_once, expected = WHOLE[name]
    events = [one for part in segments for one in part]
    assert facts(events) == facts(expected)
    ids = [one.event.event_id for one in events]
    assert len(set(ids)) == len(ids)
    assert run.findings.tokens == at_once.findings.tokens
    assert run.findings.token_rules == at_once.findings.token_rules
    assert run.findings.pairings == at_once.findings.pairings
    keep = data.draw(st.integers(0, len(segments)))
    bounds = [*sorted(set(cuts)), count][: keep or None]
    shorter = b"".join(log.splitlines(keepends=True)[: bounds[-1]])
    _, again = derive(shorter, bounds[:-1])
    assert [one for part in again for one in part] == events[: sum(len(part) for part in again)]


def test_a_reply_cut_in_two_is_continued_and_counted_once(opened: Opened) -> None:
    """Tokens that come with a later segment take the reply out of the unreported ones."""
    _, segments = derive(TOTALS, (8, 11))
    parts = payloads([one for part in segments for one in part], ModelReplied)[:3]
    assert [one.continues for one in parts] == [False, True, True]
    assert [one.usage is not None for one in parts] == [False, False, True]


def test_each_token_is_counted_once(opened: Opened) -> None:
    run, events = WHOLE["totals"]
    tokens = run.findings.tokens
    # 110, then 145 more, then a new counter at 35, then 64 more.
    assert (tokens.input, tokens.cache_read, tokens.output) == (
        80 + 30 + 30 + 30,
        150,
        10 + 15 + 5 + 4,
    )
    assert tokens.unreported == 0
    assert sum((170, 150, 34)) == 110 + 145 + 35 + 64
    assert len(payloads(events, ModelReplied)) == 4  # One of them left no item.


def test_records_outrank_totals_and_never_add_to_them() -> None:
    usage = {"input_tokens": 50, "cached_input_tokens": 10, "output_tokens": 5}
    record = ("token_usage_record", {"response_id": "r1", "usage": usage})
    body = [("session_meta", META), said("user", "Hi."), said("assistant", "Hello.")]
    for tail in (
        [total(50, 10, 5), record],
        [record, total(50, 10, 5)],
        [record, total(50, 10, 5), record],
        [total(30, 10, 5), record, total(50, 10, 5)],
    ):
        for cuts in ((), (3,), (4,), (3, 4)):
            run, _ = derive(stamp([*body, *tail]), cuts)
            tokens = run.findings.tokens
            assert (tokens.input, tokens.cache_read, tokens.output) == (40, 10, 5), (tail, cuts)
            assert run.findings.tokens.unreported == 0


# --- identity and pairing --------------------------------------------------------------------


def test_a_call_id_names_one_call_and_every_result_is_kept() -> None:
    run, events = WHOLE["totals"]
    intents = [one.event.operation_id for one in events if isinstance(one.payload, ToolIntent)]
    assert intents == ["c1", "c2"]
    results = [
        (one.event.operation_id, one.payload.status, one.payload.pairing)
        for one in events
        if isinstance(one.payload, ToolResult)
    ]
    assert results == [
        ("c2", "failed", "call id, within the reply"),
        ("c1", "succeeded", "call id, within the reply"),
        ("c1", "succeeded", "call id, a further result"),
    ]
    assert any("repeats a call id" in note for note in run.findings.notes)


def test_a_result_before_its_call_is_matched_to_nothing(opened: Opened) -> None:
    data = stamp(
        [("session_meta", META), answered("c9"), said("user", "Hi."), called("shell", "c9")]
    )
    report = give(opened, data, "early.jsonl")
    identity = report.trajectories[0].id
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, identity, None)
    operations = view.require_reconstructed().operations
    assert (operations.total, operations.unsettled, operations.unmatched_results) == (1, 1, 1)
    assert report.findings.gaps["unanswered"].what == "the outcome of 1 proposed calls"


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("Exit code: 0\nWall time: 1 seconds\nOutput:\nx", "succeeded"),
        ("Exit code: 127\nOutput:\nx", "failed"),
        ("Wall time: 1 seconds\nProcess exited with code 3\nOutput:\n", "failed"),
        ("Wall time: 10 seconds\nProcess running with session ID 7\nOutput:\n", "partial"),
        ("aborted by user after 2.0s", "unknown"),
        ("exec command rejected by user", "no_effect"),
        ("command timed out after 10000 milliseconds", "timeout"),
        ('{"output":"x","metadata":{"exit_code":1}}', "failed"),
        ({"content": "no such file", "success": False}, "failed"),
        ({"content": [{"type": "input_text", "text": "x"}], "success": True}, "succeeded"),
        (
            [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "d"}],
            "succeeded",
        ),
        ("apply_patch verification failed: Failed to find expected lines in a.py", "failed"),
        ("failed to parse function arguments: EOF while parsing", "failed"),
        ("unsupported call: shel", "failed"),
        ("Exit code: 0\nOutput:\nunsupported call: x", "succeeded"),
        ("a.txt: unsupported call", "succeeded"),
        (None, "succeeded"),
    ],
)
def test_what_an_output_says_of_its_call(output: object, status: str) -> None:
    data = stamp([("session_meta", META), called("shell", "c1"), answered("c1", output)])
    run, events = whole(data)
    (result,) = payloads(events, ToolResult)
    assert result.status == status
    by_words = result.status == "failed" and result.proof is not None
    assert by_words == any("own words" in note for note in run.findings.notes)
    if by_words:
        assert str(output).startswith(result.proof.removeprefix("the output says: "))
        assert result.covers is None


# --- forks, rollbacks, older layouts ---------------------------------------------------------


def forked() -> bytes:
    """A session that copies two turns of another and then does one of its own."""
    mine, theirs = "01a1f82f-1e80-7a1b-82c3-d4e5f6a7b8c9", "01a1f000-0000-7a1b-82c3-d4e5f6a7b8c9"
    old, new = "01a1f000-1000-7a1b-82c3-d4e5f6a7b8c9", "01a1f82f-2000-7a1b-82c3-d4e5f6a7b8c9"
    return stamp(
        [
            ("session_meta", META | {"id": mine, "forked_from_id": theirs}),
            ("session_meta", META | {"id": theirs}),
            event("task_started", turn_id=old),
            ("turn_context", {"turn_id": old, "model": "m-1"}),
            said("user", "The first task."),
            called("shell", "old"),
            total(1000, 0, 50),
            answered("old"),
            said("assistant", "Done with the first."),
            event("task_started", turn_id=new),
            ("turn_context", {"turn_id": new, "model": "m-2"}),
            said("user", "Now another."),
            called("shell", "new"),
            total(2100, 1000, 80),
            answered("new"),
        ]
    )


def test_a_forked_session_counts_only_what_it_did_itself() -> None:
    for cuts in ((), (1,), (3, 6), (9,), (12,)):
        run, segments = derive(forked(), cuts)
        events = [one for part in segments for one in part]
        (started,) = payloads(events, TaskStarted)
        parent = SourceKey("codex", 1, "session:01a1f000-0000-7a1b-82c3-d4e5f6a7b8c9")
        assert started.restart.trajectory_id == parent.trajectory_id
        assert [one.call_id for one in payloads(events, ToolIntent)] == ["new"]
        assert len(payloads(events, ToolResult)) == 1
        tokens = run.findings.tokens
        assert (tokens.input, tokens.cache_read, tokens.output) == (100, 1000, 30)
        (context,) = payloads(events, ContextBuilt)
        assert (context.count, context.model) == (5, "m-2")
        assert run.findings.gaps["copied"].what == "what 8 copied lines did"


@pytest.mark.parametrize("how", ["a pause", "no times", "its own record", "a slow copy"])
def test_a_fork_without_a_mark_after_the_copy_loses_no_call_and_no_token(how: str) -> None:
    lines = [json.loads(line) for line in forked().splitlines()]
    copied, own = lines[:9], lines[11:]
    for number, line in enumerate(copied):
        line["timestamp"] = f"2026-11-20T09:00:00.{number:03}Z"
    if how == "no times":
        del copied[2:4]
        for line in (*copied, *own):
            del line["timestamp"]
    elif how == "its own record":
        for line in own:
            line["timestamp"] = copied[0]["timestamp"]
        usage = {"input_tokens": 7, "cached_input_tokens": 2, "output_tokens": 3}
        record = {"thread_id": copied[0]["payload"]["id"], "response_id": "r9", "usage": usage}
        own.append(own[0] | {"type": "token_usage_record", "payload": record})
    elif how == "a slow copy":
        for line in copied[2:]:
            line["timestamp"] = "2026-11-20T09:00:05.000Z"
        copied.insert(2, copied[1] | {"type": "world_state", "payload": {"late": True}})
        copied[2]["timestamp"] = "2026-11-20T09:00:04.000Z"
    data = lines_of([*copied, *own])
    count = len(data.splitlines())
    for cuts in ((), (1,), (2, 5), tuple(range(1, count))):
        run, segments = derive(data, cuts)
        events = [one for part in segments for one in part]
        tokens = run.findings.tokens
        asked = [one.call_id for one in payloads(events, ToolIntent)]
        if how == "no times":
            # Nothing tells the copy from what follows it: all of it counts here.
            assert (asked, tokens.output) == (["old", "new"], 80)
        elif how == "its own record":
            assert (asked, tokens.input, tokens.cache_read, tokens.output) == ([], 5, 2, 3)
        else:
            assert asked == ["new"]
            assert (tokens.input, tokens.cache_read, tokens.output) == (100, 1000, 30)
        assert len(payloads(events, ToolResult)) == len(asked)


def test_a_session_is_called_by_its_first_words_and_then_by_the_name_given() -> None:
    mine = META | {"id": "t-1", "cwd": "/srv/plums"}
    lines = [
        ("session_meta", mine),
        said("user", "<environment_context>x</environment_context>"),
        said("user", "Mend the gate."),
        event("thread_name_updated", thread_id="t-1", thread_name="The gate"),
        said("user", "And the fence."),
        event("thread_name_updated", thread_id="t-1"),
    ]
    expected = {1: "Codex session in plums", 3: "Mend the gate.", 4: "The gate", 6: "The gate"}
    for upto, title in expected.items():
        _, events = whole(stamp(lines[:upto]))
        assert record_of("a", events).scope.title == title
    run, events = whole(stamp(lines))
    (started,) = payloads(events, TaskStarted)
    assert (started.title, started.task) == ("Mend the gate.", "Mend the gate.")
    for cut in range(1, len(lines)):
        run, segments = derive(stamp(lines), (cut,))
        assert run.feed(LogSegment(2, "", 0, 0, ())) == ()
        assert record_of("a", [one for part in segments for one in part]).scope.title == "The gate"


def test_a_rollback_takes_turns_out_of_the_context() -> None:
    data = stamp(
        [
            ("session_meta", META),
            said("user", "One."),
            said("assistant", "First."),
            said("user", "Two."),
            said("assistant", "Second."),
            event("thread_rolled_back", num_turns=1),
            said("user", "Three."),
            said("assistant", "Third."),
        ]
    )
    _, events = whole(data)
    built = payloads(events, ContextBuilt)
    assert [(one.count, one.kept) for one in built] == [(1, 0), (3, 1), (3, 2)]
    assert [one.text for one in built[2].messages] == ["Three."]
    changed = payloads(events, ControlChanged)
    assert [one.detail for one in changed] == ["thread_rolled_back"]


def test_items_without_an_envelope_are_read(opened: Opened) -> None:
    """The layout until mid 2025: a session line, bare items, and notes of state."""
    data = lines_of(
        [
            {
                "id": "5973b6c0",
                "timestamp": "2025-06-01T10:00:00.000Z",
                "instructions": "Be brief.",
            },
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            {
                "type": "local_shell_call",
                "call_id": "c2",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"]},
            },
        ]
    )
    report = give(opened, data, "old.jsonl")
    assert report.format == "Codex rollout, bare items"
    identity = report.trajectories[0].id
    tools = [one.tool for one in of_type(opened, identity, "ToolIntent")]
    assert tools == ["shell", "local_shell"]
    (first, _) = of_type(opened, identity, "ContextBuilt")
    assert [one.role for one in first.messages] == ["system", "user"]


def test_the_words_of_codex_exec_are_read() -> None:
    command = {"id": "i1", "type": "command_execution", "command": "ls", "status": "in_progress"}
    done = command | {"status": "failed", "exit_code": 2, "aggregated_output": "no"}
    todo = {"id": "i2", "type": "todo_list", "items": [{"text": "Look", "completed": True}]}
    values: list[dict[str, Any]] = [
        {"type": "thread.started", "thread_id": "01a1f82f-1e80-7a1b-82c3-d4e5f6a7b8c9"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "Look."}},
        {"type": "item.started", "item": command},
        {"type": "item.completed", "item": done},
        {"type": "item.completed", "item": todo},
        {"type": "item.completed", "item": {"id": "i3", "type": "agent_message", "text": "No."}},
        {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 2}},
    ]
    bare = lines_of(values)
    inner = [("event_msg", value) for value in values[1:]]
    wrapped = stamp([("session_meta", META), *inner])
    for data in (bare, wrapped):
        run, events = whole(data)
        (result,) = payloads(events, ToolResult)
        assert (result.status, result.exit_code, result.observation) == ("failed", 2, "no")
        assert [one.text for one in payloads(events, ModelReplied)] == [None, "No."]
        assert [one.status for one in payloads(events, PlanChanged)[0].items] == ["done"]
        assert [one.to_state for one in payloads(events, ControlChanged)] == ["RUNNING", "PAUSED"]
        assert run.findings.tokens.input is None
        assert run.findings.tokens.unreported == 2
        assert run.findings.gaps["unknown usage"].what == "the meaning of 1 statements of usage"


def test_an_unknown_line_is_an_input_and_a_bad_one_is_kept(opened: Opened) -> None:
    data = stamp(
        [
            ("session_meta", META),
            ("holographic", {"depth": 3}),
            said("user", "Hi."),
            event("new_word"),
        ]
    )
    lines = data.splitlines(keepends=True)
    report = give(opened, b"".join([*lines[:2], b'{"timestamp": "2026\n', *lines[2:]]), "odd.jsonl")
    assert report.outcome == "imported"
    assert [one.line for one in report.refused] == [3]
    identity = report.trajectories[0].id
    kinds = [one.kind for one in of_type(opened, identity, "RuntimeInput")]
    assert kinds == ["holographic", "message", "new_word"]
    (bad,) = of_type(opened, identity, "Unparsed")
    assert bad.where == "line 3"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(max_size=8)
    | st.sampled_from(["message", "reasoning", "function_call", "token_count", "c1", "assistant"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "role",
                    "content",
                    "text",
                    "call_id",
                    "output",
                    "info",
                    "usage",
                    "summary",
                    "item",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
TYPES = st.sampled_from(
    [
        "session_meta",
        "response_item",
        "event_msg",
        "turn_context",
        "compacted",
        "token_usage_record",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TYPES, VALUES), min_size=1, max_size=12))
def test_no_shape_of_a_line_stops_the_session(values: list[tuple[str, Any]]) -> None:
    data = lines_of({"type": type_, "payload": payload} for type_, payload in values)
    _, segments = derive(data)
    events = [one for part in segments for one in part]
    assert isinstance(events[0].payload, TaskStarted)
    steps = [one.event.step for one in events if one.event.step is not None]
    assert steps == sorted(steps)
    assert not [one for one in payloads(events, Unparsed) if "Traceback" in one.why]


# --- growing ---------------------------------------------------------------------------------


def test_a_growing_file_appends_and_stays_one_trajectory(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / PARENT.name
    lines = PARENT.read_bytes().splitlines(keepends=True)
    heads = []
    for upto in (12, 13, 30, len(lines)):
        path.write_bytes(b"".join(lines[:upto]))
        report = take(opened, path)
        assert report.ok, report.refused
        heads.append(report.trajectories[0].head)
    assert heads == sorted(set(heads))
    identity = report.trajectories[0].id
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, identity, None)
    record = view.require_reconstructed()
    assert record.budget.accounts["tokens"].consumed == 65_275
    assert (record.calls.replied, record.calls.tokens.unreported) == (8, 0)
    assert record.operations.total == 7
    assert len(everything(opened)) == 1
    assert len({one.event_id for one in log_of(opened, identity)}) == heads[-1]


def test_a_reply_waits_for_its_tokens_while_the_writer_is_at_work() -> None:
    importer = Codex()
    lines, _ = read_lines(TOTALS, 1, begins=True)
    assert importer.waiting(lines[:2]) == 2  # Nothing was said yet.
    assert importer.waiting(lines[:3]) == 0
    assert importer.waiting(lines[:8]) == 4  # Reasoning and a message, with what repeats them.
    assert importer.waiting(lines[:12]) == 0
    assert importer.native_id(b"", str(PARENT)) == f"session:{PARENT_ID}"
    assert importer.native_id(b"", "session.jsonl") is None
