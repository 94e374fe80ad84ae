"""How the parts of a mini-swe-agent run are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.events.envelope import ORIGINAL_SCHEMA
from store.open import Opened
from tests.ingest.support import (
    TENANT,
    cost_nano,
    document,
    dumped,
    families,
    fixture,
    give,
    log_of,
    of_type,
    take,
    typed,
)

ALL = (
    "command-timeout",
    "format-error",
    "interrupted",
    "limits-exceeded",
    "parallel-survey",
    "repair-slugify",
    "v1-layout-by-hand",
)


def imported(opened: Opened, name: str) -> str:
    report = take(opened, fixture(name))
    assert report.ok, report.refused
    return report.trajectories[0].id


def edited(opened: Opened, name: str, change: Any) -> str:
    value = document(name)
    change(value)
    report = give(opened, dumped(value), f"{name}.traj.json")
    assert report.ok, report.refused
    return report.trajectories[0].id


@pytest.mark.parametrize("name", ALL)
def test_calls_cost_and_exit_are_those_of_the_file(shared: Opened, name: str) -> None:
    identity = imported(shared, name)
    info = document(name)["info"]
    assert families(shared, identity)["ModelReplied"] == info["model_stats"]["api_calls"]
    assert cost_nano(shared, identity) == round(info["model_stats"]["instance_cost"] * 1e9)
    ended = of_type(shared, identity, "ControlChanged")
    assert [one.detail for one in ended] == ([info["exit_status"]] if info["exit_status"] else [])


@pytest.mark.parametrize("name", ALL)
def test_every_event_points_at_its_original_bytes(shared: Opened, name: str) -> None:
    identity = imported(shared, name)
    whole = fixture(name).read_bytes()
    for event in log_of(shared, identity):
        originals = [ref for ref in event.refs if ref.schema == ORIGINAL_SCHEMA]
        assert originals, event.type
        for ref in originals:
            assert ref.start is not None
            assert ref.end is not None
            part = shared.blobs.read_range(TENANT, ref.digest, ref.start, ref.end)
            assert part == whole[ref.start : ref.end]
            if event.type != "ContextBuilt":
                json.loads(part)


@pytest.mark.parametrize("name", ALL)
def test_contexts_are_the_messages_before_each_reply(shared: Opened, name: str) -> None:
    identity = imported(shared, name)
    manifests: dict[str | None, list[str]] = {None: []}
    for event in log_of(shared, identity):
        if event.type != "ContextBuilt":
            continue
        context = typed(shared, event)
        base = manifests[context.base_invocation_id]
        whole = base[: context.kept] + [one.digest for one in context.messages]
        assert context.count == len(whole)
        manifests[event.invocation_id] = whole
        assert context.claim != "exact"
        for message in context.messages:
            raw = shared.blobs.read_range(TENANT, message.blob, message.start, message.end)
            assert json.loads(raw).get("role", message.role) == message.role


def test_the_first_context_holds_system_and_task(shared: Opened) -> None:
    identity = imported(shared, "repair-slugify")
    first = of_type(shared, identity, "ContextBuilt")[0]
    assert [one.role for one in first.messages] == ["system", "user"]


def test_the_task_is_found_inside_its_template(shared: Opened) -> None:
    (task,) = of_type(shared, imported(shared, "repair-slugify"), "TaskStarted")
    assert task.task.startswith("slugify('Hello,  World!')")
    assert task.task.endswith("Do not change them.")
    assert task.capabilities.intents == "proposals"
    assert task.capabilities.reservations == "absent"


def test_parallel_calls_pair_by_call_id(shared: Opened) -> None:
    report = take(shared, fixture("parallel-survey"))
    assert report.findings.pairings == {"call id, within the reply": 11, "exit message": 1}
    identity = report.trajectories[0].id
    for intent, result in zip(
        [event for event in log_of(shared, identity) if event.type == "ToolIntent"],
        [event for event in log_of(shared, identity) if event.type == "ToolResult"],
        strict=True,
    ):
        assert intent.operation_id == result.operation_id
        assert intent.attempt_id == result.attempt_id


def test_rejected_replies_have_no_intent_and_say_why(shared: Opened) -> None:
    identity = imported(shared, "format-error")
    rejected = [one for one in of_type(shared, identity, "ModelReplied") if one.rejected]
    assert [one.rejected.partition(":")[0] for one in rejected] == ["FormatError"] * 2
    assert "No tool calls found" in rejected[0].rejected
    assert families(shared, identity)["ToolIntent"] == 4
    assert families(shared, identity)["RuntimeInput"] == 2


def test_the_submitting_command_is_answered_by_the_exit_message(shared: Opened) -> None:
    identity = imported(shared, "repair-slugify")
    last = of_type(shared, identity, "ToolResult")[-1]
    assert last.pairing == "exit message"
    assert last.status == "succeeded"
    (ended,) = of_type(shared, identity, "ControlChanged")
    assert ended.to_state == "COMPLETED"
    assert ended.output.startswith("diff --git")


def test_a_limit_is_a_failure_with_the_word_of_the_source(shared: Opened) -> None:
    (ended,) = of_type(shared, imported(shared, "limits-exceeded"), "ControlChanged")
    assert (ended.to_state, ended.detail) == ("FAILED", "LimitsExceeded")


def test_an_interrupted_command_stays_unanswered(shared: Opened) -> None:
    report = take(shared, fixture("interrupted"))
    identity = report.trajectories[0].id
    assert families(shared, identity)["ToolIntent"] == 2
    assert families(shared, identity)["ToolResult"] == 1
    assert families(shared, identity)["ControlChanged"] == 0
    assert "the outcome of 1 proposed command" in report.findings.gaps
    assert "how the run ended" in report.findings.gaps


def test_the_1x_layout_pairs_by_order_and_has_no_times(shared: Opened) -> None:
    report = take(shared, fixture("v1-layout-by-hand"))
    assert report.format == "mini-swe-agent 1.x"
    assert report.findings.pairings == {"order": 5}
    identity = report.trajectories[0].id
    assert all(event.occurred_at is None for event in log_of(shared, identity))
    statuses = [one.status for one in of_type(shared, identity, "ToolResult")]
    assert statuses == ["succeeded", "succeeded", "timeout", "failed", "succeeded"]
    assert [bool(one.rejected) for one in of_type(shared, identity, "ModelReplied")] == [
        False,
        True,
        *[False] * 4,
    ]
    (task,) = of_type(shared, identity, "TaskStarted")
    assert task.labels == {"instance_id": "by-hand__total-1"}
    assert task.title.startswith("by-hand__total-1: total.py prints 41")


def test_a_secret_in_the_settings_stays_in_the_original_only(opened: Opened) -> None:
    def change(value: dict[str, Any]) -> None:
        value["info"]["config"]["model"]["model_kwargs"]["api_key"] = "sk-very-secret"

    value = document("interrupted")
    change(value)
    report = give(opened, dumped(value))
    assert any("api_key" in note for note in report.findings.notes)
    for event in log_of(opened, report.trajectories[0].id):
        assert b"very-secret" not in (event.payload or b"")


def test_only_a_total_cost_is_one_settlement_of_the_run(opened: Opened) -> None:
    def change(value: dict[str, Any]) -> None:
        for message in value["messages"]:
            if message["role"] == "assistant":
                message["extra"]["response"]["usage"].pop("cost")

    identity = edited(opened, "v1-layout-by-hand", change)
    (settled,) = of_type(opened, identity, "BudgetSettled")
    assert (settled.scope, settled.reporting) == ("trajectory", "cumulative")
    total = document("v1-layout-by-hand")["info"]["model_stats"]["instance_cost"]
    assert cost_nano(opened, identity) == round(total * 1e9)


def test_a_cost_of_zero_that_may_stand_for_unknown_is_said(opened: Opened) -> None:
    value = document("interrupted")
    value["info"]["config"]["model"]["cost_tracking"] = "ignore_errors"
    value["messages"][2]["extra"]["cost"] = 0.0
    report = give(opened, dumped(value))
    assert "whether a cost of 0 is a price" in report.findings.gaps


def test_a_call_without_a_reply_is_a_context_without_a_reply(opened: Opened) -> None:
    def change(value: dict[str, Any]) -> None:
        value["info"]["model_stats"]["api_calls"] += 1
        value["info"]["exit_status"] = "AuthenticationError"
        value["messages"] = value["messages"][:-1]
        value["messages"].append(
            {
                "role": "exit",
                "content": "no key",
                "extra": {
                    "exit_status": "AuthenticationError",
                    "submission": "",
                    "exception_str": "no key",
                },
            }
        )

    identity = edited(opened, "limits-exceeded", change)
    count = families(opened, identity)
    assert (count["ContextBuilt"], count["ModelReplied"]) == (5, 4)
    (ended,) = of_type(opened, identity, "ControlChanged")
    assert (ended.to_state, ended.reason) == ("FAILED", "no key")
    assert [event.type for event in log_of(opened, identity)[-2:]] == [
        "ContextBuilt",
        "ControlChanged",
    ]


def test_two_words_about_the_end_are_one_end_and_a_gap(opened: Opened) -> None:
    value = document("limits-exceeded")
    value["info"]["exit_status"] = "SomethingElse"
    report = give(opened, dumped(value))
    assert "which exit status holds" in report.findings.gaps
    (ended,) = of_type(opened, report.trajectories[0].id, "ControlChanged")
    assert ended.detail == "LimitsExceeded"


def test_an_exception_in_the_harness_is_unknown_not_failed(opened: Opened) -> None:
    def change(value: dict[str, Any]) -> None:
        result = value["messages"][3]
        result["extra"].update(
            returncode=-1, exception_info="action was not executed", exception_type=None
        )

    identity = edited(opened, "repair-slugify", change)
    assert of_type(opened, identity, "ToolResult")[0].status == "unknown"


def test_a_persons_interruption_is_an_input(opened: Opened) -> None:
    def change(value: dict[str, Any]) -> None:
        value["messages"].insert(
            4,
            {
                "role": "user",
                "content": "Interrupted by user: use the other file",
                "extra": {"interrupt_type": "UserInterruption"},
            },
        )

    identity = edited(opened, "repair-slugify", change)
    (given,) = of_type(opened, identity, "RuntimeInput")
    assert given.values["interrupt_type"] == "UserInterruption"
    assert given.text.endswith("use the other file")


def test_call_ids_that_repeat_stay_apart(opened: Opened) -> None:
    def change(value: dict[str, Any]) -> None:
        text = json.dumps(value["messages"])
        first = value["messages"][2]["tool_calls"][0]["id"]
        second = value["messages"][4]["tool_calls"][0]["id"]
        value["messages"] = json.loads(text.replace(second, first))

    identity = edited(opened, "repair-slugify", change)
    intents = [event for event in log_of(opened, identity) if event.type == "ToolIntent"]
    assert len({event.operation_id for event in intents}) == len(intents)
    results = [event for event in log_of(opened, identity) if event.type == "ToolResult"]
    assert [event.operation_id for event in results] == [event.operation_id for event in intents]


def test_the_responses_layout_is_read(opened: Opened) -> None:
    value = document("interrupted")
    value["messages"][2:4] = [
        {
            "id": "resp_1",
            "object": "response",
            "model": "m-1",
            "status": "completed",
            "output": [
                {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
                {
                    "type": "function_call",
                    "call_id": "fc_1",
                    "name": "bash",
                    "arguments": '{"command": "ls"}',
                },
            ],
            "usage": {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_tokens_details": {"cached_tokens": 40},
            },
            "extra": {
                "actions": [{"command": "ls", "tool_call_id": "fc_1"}],
                "cost": 0.001,
                "timestamp": 1795976801.5,
            },
        },
        {
            "type": "function_call_output",
            "call_id": "fc_1",
            "output": "a.txt",
            "extra": {"raw_output": "a.txt", "returncode": 0, "timestamp": 1795976802.5},
        },
    ]
    report = give(opened, dumped(value))
    assert report.outcome == "imported", report.refused
    identity = report.trajectories[0].id
    reply = of_type(opened, identity, "ModelReplied")[0]
    assert (reply.text, reply.model, reply.usage.input, reply.usage.cache_read) == (
        "I look.",
        "m-1",
        60,
        40,
    )
    assert of_type(opened, identity, "ToolResult")[0].observation == "a.txt"


def test_a_large_observation_lies_in_a_blob(opened: Opened) -> None:
    identity = edited(
        opened,
        "interrupted",
        lambda value: value["messages"][3].update(content="x" * 40_000),
    )
    (event,) = [event for event in log_of(opened, identity) if event.type == "ToolResult"]
    assert event.payload is None
    assert len(typed(opened, event).observation) == 40_000


def test_a_padded_result_of_the_submitting_command_is_kept_beside_the_exit(
    opened: Opened,
) -> None:
    """The interactive agent writes `action was not executed` for the command that submitted."""

    def change(value: dict[str, Any]) -> None:
        call_id = value["messages"][-2]["tool_calls"][0]["id"]
        padded = {
            "content": "{}",
            "extra": {
                "raw_output": "",
                "returncode": -1,
                "exception_info": "action was not executed",
            },
            "tool_call_id": call_id,
            "role": "tool",
        }
        value["messages"].insert(-1, padded)

    identity = edited(opened, "repair-slugify", change)
    last = [event for event in log_of(opened, identity) if event.type == "ToolResult"][-2:]
    assert last[0].operation_id == last[1].operation_id
    assert [typed(opened, event).status for event in last] == ["unknown", "succeeded"]


def test_a_result_of_an_earlier_reply_is_paired_and_says_so(opened: Opened) -> None:
    value = document("repair-slugify")
    late = value["messages"].pop(3)
    value["messages"].insert(5, late)
    report = give(opened, dumped(value))
    assert report.findings.pairings["call id, earlier reply"] == 1
    identity = report.trajectories[0].id
    events = log_of(opened, identity)
    asked = {event.operation_id for event in events if event.type == "ToolIntent"}
    answered = {event.operation_id for event in events if event.type == "ToolResult"}
    assert asked == answered


def test_a_result_without_a_call_is_kept_unpaired(opened: Opened) -> None:
    value = document("repair-slugify")
    value["messages"][3]["tool_call_id"] = "call_nobody_made"
    report = give(opened, dumped(value))
    assert report.findings.pairings["unpaired"] == 1
    assert "the outcome of 1 proposed command" in report.findings.gaps


def test_a_command_a_person_gave_is_theirs(opened: Opened) -> None:
    value = document("interrupted")
    value["messages"] += [
        {
            "role": "user",
            "content": "User command: \n```bash\nls\n```",
            "extra": {"actions": [{"command": "ls"}]},
        },
        {
            "role": "user",
            "content": "a.txt",
            "extra": {"raw_output": "a.txt", "returncode": 0, "timestamp": 1795976900.0},
        },
    ]
    report = give(opened, dumped(value))
    identity = report.trajectories[0].id
    intent = of_type(opened, identity, "ToolIntent")[-1]
    assert (intent.requester, intent.arguments) == ("person", {"command": "ls"})
    assert report.findings.pairings["order"] == 1
    assert of_type(opened, identity, "ToolResult")[-1].status == "succeeded"


@pytest.mark.parametrize(
    ("pattern", "content"),
    [
        (None, "x\n\n```bash\nls\n```"),
        (None, "x\n\n```mswea_bash_command\nls\n```"),
        (
            "```mswea_bash_command\\s*\\n(.*?)\\n```",
            "```bash\nrm\n```\n```mswea_bash_command\nls\n```",
        ),
        (
            "<mswea_bash_command>(.*?)</mswea_bash_command>",
            "<mswea_bash_command>ls</mswea_bash_command>",
        ),
    ],
)
def test_commands_are_found_in_the_text_of_a_reply(
    opened: Opened, pattern: str | None, content: str
) -> None:
    value = document("v1-layout-by-hand")
    if pattern is not None:
        value["info"]["config"]["agent"]["action_regex"] = pattern
    value["messages"] = [*value["messages"][:2], {"role": "assistant", "content": content}]
    value["info"]["model_stats"]["api_calls"] = 1
    identity = give(opened, dumped(value)).trajectories[0].id
    (intent,) = of_type(opened, identity, "ToolIntent")
    assert intent.arguments == {"command": "ls"}


def test_a_pattern_of_its_own_is_not_run(opened: Opened) -> None:
    value = document("v1-layout-by-hand")
    value["info"]["config"]["agent"]["action_regex"] = "(a+)+$"
    report = give(opened, dumped(value))
    assert "the commands of the replies" in report.findings.gaps
    assert families(opened, report.trajectories[0].id)["ToolIntent"] == 0
