"""SWE-agent: the samples with their facts, every layout, files that grow."""

from __future__ import annotations

import copy
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ImportRefused
from ingest.base import Source
from ingest.demo import DATA
from ingest.swe_agent import SweAgent
from runtime.time_travel import record_at
from store.open import Opened
from tests.ingest.support import (
    TENANT,
    dumped,
    everything,
    families,
    give,
    log_of,
    of_type,
    take,
    typed,
)
from tests.require import need, samples, samples_generated

FIXTURE = DATA / "swe-agent-by-hand.traj"


def rows() -> list[dict[str, Any]]:
    listed = samples() / "FACTS.jsonl"
    if not listed.is_file():
        return []
    found = [json.loads(line) for line in listed.read_text().splitlines() if line.strip()]
    return [row for row in found if row["format"] == "swe_agent"]


FACTS = rows()


def sample(row: dict[str, Any]) -> Path:
    return samples() / "swe_agent" / str(row["file"])


def document() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(FIXTURE.read_text())
    return value


def test_the_samples_are_there() -> None:
    need("samples")
    assert len(FACTS) == 6


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["file"])
def test_a_sample_imports_with_its_facts(shared: Opened, row: dict[str, Any]) -> None:
    report = take(shared, sample(row))
    assert report.outcome == "imported", report.refused
    identity = report.trajectories[0].id
    count = families(shared, identity)
    steps = row["steps"]
    assert report.items == steps
    assert count["ModelReplied"] == count["ContextBuilt"] == steps
    assert count["ToolIntent"] == count["ToolResult"] == steps
    (ended,) = of_type(shared, identity, "ControlChanged")
    assert (ended.detail, ended.to_state) == (row["exit_status"], "COMPLETED")
    calls = [one.call_id for one in of_type(shared, identity, "ToolIntent") if one.call_id]
    assert len(calls) == row["tool_calls_in_history"]
    took = sum(
        one.values.get("execution_seconds", 0) for one in of_type(shared, identity, "RuntimeInput")
    )
    assert round(took, 3) == row["sum_execution_time"]
    settled = of_type(shared, identity, "BudgetSettled")
    stats = row["model_stats"]
    if stats["tokens_sent"]:
        (actual,) = [one.actual for one in settled]
        assert {one.resource: one.amount for one in actual} == {
            "usd": round(stats["instance_cost"] * 1e9),
            "tokens": stats["tokens_sent"] + stats["tokens_received"],
        }
        assert f"{stats['tokens_sent']:,}" in settled[0].evidence
    else:  # A replay or a demonstration of a person: zeros that nobody measured.
        assert not settled
        assert "what the run cost" in report.findings.gaps
    view = record_at(shared.store, shared.blobs, shared.projections, TENANT, identity, None)
    record = view.require_reconstructed()
    assert (record.operations.total, record.operations.unsettled) == (steps, 0)
    assert record.operations.unmatched_results == 0
    assert record.calls.tokens.unreported == steps


def reading(row: dict[str, Any]) -> dict[str, Any]:
    path = samples_generated() / "atif_by_harbor/ORACLE.json"
    name = f"from_swe_agent_{row['file'].removesuffix('.traj')}.json"
    value: dict[str, Any] = json.loads(path.read_text())[name]
    return value


def short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["file"])
def test_it_agrees_with_the_other_converter(shared: Opened, row: dict[str, Any]) -> None:
    """Same replies, commands and observations. It differs where it makes up or drops something:

    - it drops an observation without text; here the command came back with no output;
    - it names every call `call_<step>_1`; here a call id is the provider's, or absent;
    - it stamps each step with the time of conversion; the format has no times;
    - it reads no totals of the run (`final_metrics` is empty); here they are one BudgetSettled.
    """
    need("samples_generated")
    identity = take(shared, sample(row)).trajectories[0].id
    other = reading(row)
    replies = of_type(shared, identity, "ModelReplied")
    assert [short(one.text) for one in replies] == [one["message_sha"] for one in other["steps"]]
    results = of_type(shared, identity, "ToolResult")
    theirs = [one["results"][0][1] if "results" in one else None for one in other["steps"]]
    assert [short(one.observation) if one.observation else None for one in results] == theirs
    raw = json.loads(sample(row).read_text())["trajectory"]
    commands = [json.dumps({"raw_action": step["action"]}) for step in raw]
    assert [short(one) for one in commands] == [one["tools"][0][2] for one in other["steps"]]
    intents = of_type(shared, identity, "ToolIntent")
    for step, intent in zip(raw, intents, strict=True):
        if intent.call_id is None:
            assert intent.arguments == {"command": step["action"]}
    assert other["final_metrics"] == {}
    assert {one["tools"][0][0] for one in other["steps"]} == {
        f"call_{number}_1" for number in range(1, row["steps"] + 1)
    }


def test_layouts_are_told_apart_and_their_inputs_claimed_as_known(shared: Opened) -> None:
    need("samples")
    found = {}
    for row in FACTS:
        report = take(shared, sample(row))
        built = of_type(shared, report.trajectories[0].id, "ContextBuilt")
        found[row["file"]] = (report.format, {one.claim for one in built})
    assert found["swe-agent__test-repo-i1.traj"] == ("SWE-agent 0.x", {"partial"})
    assert found["marshmallow-1867_fc_replace_from_source.traj"] == ("SWE-agent 1.0", {"rebuilt"})
    assert found["marshmallow-1867_function_calling_install-1.traj"] == (
        "SWE-agent 1.0",
        {"partial"},
    )


def test_messages_written_after_a_step_are_the_input_of_the_next(shared: Opened) -> None:
    need("samples")
    path = samples() / "swe_agent/marshmallow-1867_fc_replace_from_source.traj"
    identity = take(shared, path).trajectories[0].id
    built = of_type(shared, identity, "ContextBuilt")
    assert [one.count for one in built] == list(range(2, 28, 2))
    # From the seventh call on the oldest output still shown whole is left out, one more each time.
    assert [one.kept for one in built] == [0, 2, 4, 6, 8, 10, 3, 5, 7, 9, 11, 13, 15]
    # Linear in the steps, though the file repeats all messages in each of them.
    stated = sum(len(one.messages) for one in built)
    repeated = sum(len(step["messages"]) for step in json.loads(path.read_text())["trajectory"])
    assert (stated, repeated) == (89, 208)


def test_a_message_points_at_its_bytes(shared: Opened) -> None:
    identity = take(shared, FIXTURE).trajectories[0].id
    seen: Counter[str] = Counter()
    for context in of_type(shared, identity, "ContextBuilt"):
        for one in context.messages:
            data = shared.blobs.read(TENANT, one.blob)[one.start : one.end]
            assert json.loads(data)["role"] == one.role
            seen[one.digest] += 1
    assert max(seen.values()) <= 4


def test_states_of_the_first_layout_are_text_and_come_before_the_call(shared: Opened) -> None:
    need("samples")
    identity = take(shared, samples() / "swe_agent/swe-agent__test-repo-i1.traj").trajectories[0].id
    states = of_type(shared, identity, "RuntimeInput")
    assert [one.values["state"]["working_dir"] for one in states] == [
        "/klieret__swe-agent-test-repo"
    ] * 2
    types = [event.type for event in log_of(shared, identity)]
    assert types[:4] == ["TaskStarted", "RuntimeInput", "ContextBuilt", "ModelReplied"]


def test_demonstrations_are_context_and_no_steps(shared: Opened) -> None:
    need("samples")
    report = take(shared, samples() / "swe_agent/swe-agent__test-repo-i1.traj")
    identity = report.trajectories[0].id
    assert [one.count for one in of_type(shared, identity, "ContextBuilt")] == [3, 5, 7, 9, 11]
    assert any("demonstrations: 1 of the messages" in note for note in report.findings.notes)
    (started,) = of_type(shared, identity, "TaskStarted")
    assert "demonstration" not in started.task
    assert started.title == "SyntaxError: invalid syntax"


def test_the_fixture_is_read_as_it_is_written(opened: Opened) -> None:
    report = take(opened, FIXTURE)
    identity = report.trajectories[0].id
    assert report.format == "SWE-agent 1.1"
    replies = of_type(opened, identity, "ModelReplied")
    assert [bool(one.rejected) for one in replies] == [False, False, True, False, False, False]
    intents = of_type(opened, identity, "ToolIntent")
    assert [one.call_id for one in intents] == [
        "call_a1",
        "call_a2",
        "call_a3",
        "call_a1",
        "call_submit",
    ]
    operations = [e.operation_id for e in log_of(opened, identity) if e.type == "ToolIntent"]
    assert operations == ["call_a1", "call_a2", "call_a3", "call_a1~2", "call_submit"]
    assert intents[2].arguments["start_line"] == 2
    results = of_type(opened, identity, "ToolResult")
    assert {one.status for one in results} == {"succeeded"}
    assert all("exit code is not recorded" in one.covers for one in results)
    assert "\r\n" in results[0].observation
    (settled,) = of_type(opened, identity, "BudgetSettled")
    assert [(one.resource, one.amount) for one in settled.actual] == [
        ("usd", 31_270_000),
        ("tokens", 9_700),
    ]
    (started,) = of_type(opened, identity, "TaskStarted")
    assert started.model == "example/scripted-model"
    assert started.limits[0].ceiling == 2_000_000_000
    assert started.title == "calendar-february: days_in_february(1900) returns 29"
    assert {"times", "exit codes", "tokens of 6 replies"} <= set(report.findings.gaps)


def cut(value: dict[str, Any], steps: int) -> dict[str, Any]:
    """The file as it was after so many steps."""
    value = copy.deepcopy(value)
    accepted = sum(1 for step in value["trajectory"][:steps] if step["action"])
    value["trajectory"] = value["trajectory"][:steps]
    value["history"] = value["history"][: 3 + 2 * accepted]
    whole = steps == 6
    info = value["info"]
    info["exit_status"] = "submitted" if whole else None
    info["submission"] = info["submission"] if whole else None
    info["model_stats"] = {
        "instance_cost": round(0.005 * steps, 6),
        "tokens_sent": 1_500 * steps,
        "tokens_received": 40 * steps,
        "api_calls": steps,
    }
    return value


@pytest.mark.parametrize("cuts", [(1, 6), (2, 3, 4, 6), (1, 2, 3, 4, 5, 6)])
def test_a_file_that_grows_appends_what_is_new(
    opened: Opened, other: Opened, tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    path = tmp_path / "grows.traj"
    heads = []
    for steps in cuts:
        path.write_bytes(dumped(cut(document(), steps)))
        report = take(opened, path)
        assert report.ok, report.refused
        heads.append(report.trajectories[0].head)
    assert heads == sorted(set(heads))
    identity = report.trajectories[0].id
    assert take(opened, path).outcome == "unchanged"
    assert take(other, path).trajectories[0].id == identity

    def story(store: Opened) -> list[Any]:
        """The log without the run's totals, which each reading states anew."""
        told = []
        for event in log_of(store, identity):
            if event.type == "BudgetSettled":
                continue
            payload = msgspec.to_builtins(typed(store, event))
            for message in payload.get("messages", ()):
                for name in ("blob", "start", "end"):
                    message.pop(name)
            name = event.event_id if event.type != "ControlChanged" else ""
            told.append((name, event.type, payload, event.step, event.operation_id))
        return told

    assert story(opened) == story(other)
    (source,) = opened.store.sources_of(TENANT, identity)
    assert sum(part.items for part in source.segments) == 6
    records = [
        record_at(store.store, store.blobs, store.projections, TENANT, identity, None)
        for store in (opened, other)
    ]
    consumed = [
        {name: one.consumed for name, one in view.require_reconstructed().budget.accounts.items()}
        for view in records
    ]
    assert consumed[0] == consumed[1] == {"usd": 30_000_000, "tokens": 9_240}


def test_a_changed_step_is_a_conflict_that_names_it(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "changed.traj"
    path.write_bytes(dumped(document()))
    take(opened, path)
    before = everything(opened)
    value = document()
    value["trajectory"][1]["observation"] = "something else"
    path.write_bytes(dumped(value))
    report = take(opened, path)
    assert report.outcome == "conflict"
    assert report.refused[0].where == "step 1"
    assert everything(opened) == before


def test_an_earlier_state_of_a_known_run_changes_nothing(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "older.traj"
    path.write_bytes(dumped(document()))
    take(opened, path)
    value = document()
    path.write_bytes(dumped(value | {"trajectory": value["trajectory"][:3]}))
    assert take(opened, path).outcome == "unchanged"


def test_a_history_without_steps_is_read(opened: Opened) -> None:
    value = {"history": document()["history"], "info": {}}
    report = give(opened, dumped(value), "history.traj")
    assert report.format == "SWE-agent history only"
    identity = report.trajectories[0].id
    count = families(opened, identity)
    assert (count["ModelReplied"], count["ToolIntent"], count["ToolResult"]) == (5, 5, 5)
    assert count["ControlChanged"] == 0
    assert {"steps", "how the run ended"} <= set(report.findings.gaps)
    assert {one.claim for one in of_type(opened, identity, "ContextBuilt")} == {"partial"}
    last = copy.deepcopy(value)
    last["history"].pop()
    report = give(opened, dumped(last), "open-history.traj")
    identity = report.trajectories[0].id
    assert families(opened, identity)["ToolResult"] == 4
    assert "the outcome of 1 proposed command" in report.findings.gaps
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, identity, None)
    assert view.require_reconstructed().operations.unsettled == 1


def test_a_limit_ended_the_run_and_its_note_is_no_step(opened: Opened) -> None:
    value = document()
    note = "Exit due to cost limit"
    value["trajectory"][-1] = {
        "action": "",
        "observation": "Exited (autosubmitted)",
        "response": note,
        "thought": note,
        "execution_time": 0.0,
        "state": {},
        "query": [{}],
        "extra_info": {},
    }
    value["info"]["exit_status"] = "submitted (exit_cost)"
    identity = give(opened, dumped(value), "limit.traj").trajectories[0].id
    count = families(opened, identity)
    assert (count["ModelReplied"], count["ToolIntent"], count["ToolResult"]) == (5, 4, 4)
    (ended,) = of_type(opened, identity, "ControlChanged")
    assert (ended.to_state, ended.detail) == ("FAILED", "submitted (exit_cost)")
    assert ended.output.startswith("diff --git")
    notes = [one for one in of_type(opened, identity, "RuntimeInput") if one.kind == "harness"]
    assert [one.text for one in notes] == [note]


def test_a_command_that_was_refused_or_timed_out_settles_nothing(opened: Opened) -> None:
    value = document()
    value["trajectory"][0] |= {"observation": "", "state": {}, "execution_time": 0.0}
    value["trajectory"][1]["observation"] = (
        "The command 'open calendar_tools.py' was cancelled because it took more than 30 seconds."
    )
    identity = give(opened, dumped(value), "late.traj").trajectories[0].id
    results = of_type(opened, identity, "ToolResult")
    assert [one.status for one in results] == ["unknown", "timeout"] + ["succeeded"] * 3


EDIT = "edit 4:4\nx = (\nend_of_edit"


@pytest.mark.parametrize(
    ("action", "observation", "says"),
    [
        (EDIT, "Your proposed edit has introduced new syntax error(s). Please\n\nERRORS:", True),
        ("edit 'a' 'b'", "Your edit was not applied (file not modified): Text 'a' not", True),
        (
            "str_replace_editor str_replace a.py",
            "ERROR:\nNo replacement was performed, old_str",
            True,
        ),
        ("open", 'Usage: open "<file>" [<line_number>]', True),
        ("open lost.py", "File lost.py not found", True),
        ("goto 900", "Error: <line> must be less than or equal to 20", True),
        ("scroll_down", "No file open. Use the open command first.", True),
        ("vim a.py", "Interactive operation 'vim' is not supported by this environment", True),
        ("ls (", "Your bash command contained syntax errors. Please fix the syntax", True),
        ("opne a.py", "bash: line 1: opne: command not found", True),
        ("opne a.py", "/bin/bash: opne: command not found\r\n", True),
        ("make", "\nCOMMAND FAILED TO EXECUTE. RESTARTING PROCESS.", True),
        ("make", "gcc a.c\n\nEXECUTION TIMED OUT", None),
        (
            "make",
            "EXECUTION TIMED OUT BECAUSE NO OUTPUT WAS PRODUCED FOR MORE THAN 9 SECONDS.",
            None,
        ),
        # What a file or another program says is no word of SWE-agent.
        ("cat log.txt", "Your proposed edit has introduced new syntax error(s).", False),
        ("cat README", "Usage: open <file>", False),
        ("make all", "/bin/sh: line 1: cc: command not found", False),
        ("opne a.py; ls", "bash: line 1: opne: command not found\na.py", False),
        ("python a.py", "Traceback (most recent call last):\nValueError", False),
        ("open a.py", "[File: a.py (2 lines total)]\n1:Usage: open\n2:Error: no", False),
    ],
)
def test_words_of_the_program_say_that_a_command_was_rejected(
    opened: Opened, action: str, observation: str, says: bool | None
) -> None:
    value = document()
    value["trajectory"][1] |= {"action": action, "observation": observation}
    report = give(opened, dumped(value), "said.traj")
    result = of_type(opened, report.trajectories[0].id, "ToolResult")[1]
    assert result.observation == observation
    notes = [note for note in report.findings.notes if "own words" in note]
    if says:
        assert (result.status, result.covers) == ("failed", None)
        quoted = result.proof.removeprefix("the observation says: ")
        assert quoted and quoted in observation
        assert notes == [
            "1 results are `failed` by SWE-agent's own words at the beginning or end of the "
            "observation"
        ]
    else:
        assert result.status == ("timeout" if says is None else "succeeded")
        assert (result.covers is None) == (says is None)
        assert (result.proof, notes) == (None, [])


def test_a_rejected_edit_of_a_sample_is_no_success(shared: Opened) -> None:
    need("samples")
    for name in ("default_cursors", "function_calling_install-1"):
        path = samples() / f"swe_agent/marshmallow-1867_{name}.traj"
        results = of_type(shared, take(shared, path).trajectories[0].id, "ToolResult")
        (failed,) = [one for one in results if one.status == "failed"]
        assert failed.proof.startswith("the observation says: Your proposed edit has introduced")
        assert {one.status for one in results if one is not failed} == {"succeeded"}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"trajectory": [], "history": [], "info": {}}, "no steps and no history"),
        ({"trajectory": [{"action": "ls", "observation": 3}], "history": []}, "no text"),
        ({"trajectory": {"action": "ls"}, "history": [{"role": "user"}]}, "is no list"),
        ({"trajectory": [7], "history": []}, "step 0 is no object"),
        ({"trajectory": [{"action": "ls"}], "history": [], "info": []}, "info is no object"),
    ],
)
def test_a_document_of_another_shape_is_refused_whole(
    opened: Opened, value: dict[str, Any], why: str
) -> None:
    report = give(opened, dumped(value), "wrong.traj")
    assert report.outcome == "refused"
    assert why in report.refused[0].why
    assert not everything(opened)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    found = [here] if here else []
    for key, item in items:
        found += places(item, (*here, key))
    return found


SHORT = cut(document(), 3)
PLACES = places(SHORT)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=8),
    st.sampled_from([[], {}, [{}], [[]], [{"role": "assistant"}], 1.5]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), SCALARS), min_size=1, max_size=3))
def test_values_of_another_kind_are_read_or_refused(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    value = copy.deepcopy(SHORT)
    for place, new in changes:
        at = value
        for key in place[:-1]:
            if not isinstance(at, dict | list) or (isinstance(at, dict) and key not in at):
                break
            if isinstance(at, list) and (not isinstance(key, int) or key >= len(at)):
                break
            at = at[key]
        else:
            last = place[-1]
            if isinstance(at, dict) or (
                isinstance(at, list) and isinstance(last, int) and last < len(at)
            ):
                at[last] = new
    data = dumped(value)
    try:
        built = SweAgent().parse(Source("x", io.BytesIO(data), len(data))).build("x", ())
    except ImportRefused:
        return
    assert built.events[0].event.type == "TaskStarted"
