"""Every sample imports, with the counts that were taken of it independently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store.open import Opened
from tests.ingest.support import cost_nano, families, of_type, take
from tests.require import need, samples, samples_generated

FOLDERS = {
    "mini_swe_agent": samples,
    "mini_swe_agent_v2": samples_generated,
}


def facts() -> list[dict[str, Any]]:
    rows = []
    for format_, root in FOLDERS.items():
        listed = root() / "FACTS.jsonl"
        if listed.is_file():
            found = [json.loads(line) for line in listed.read_text().splitlines() if line.strip()]
            rows += [row for row in found if row["format"] == format_]
    return rows


FACTS = facts()


def path_of(row: dict[str, Any]) -> Path:
    return FOLDERS[row["format"]]() / row["format"] / row["file"]


def oracle() -> dict[str, Any]:
    path = samples_generated() / "atif_by_harbor/ORACLE.json"
    value: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return value


def test_the_samples_are_there() -> None:
    need("samples")
    need("samples_generated")
    assert len(FACTS) == 10


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["file"])
def test_a_sample_imports_with_its_facts(shared: Opened, row: dict[str, Any]) -> None:
    report = take(shared, path_of(row))
    assert report.outcome == "imported", report.refused
    identity = report.trajectories[0].id
    count = families(shared, identity)
    assert report.items == row["messages"]
    calls = row["api_calls"]
    if row["file"] == "mini-e.traj.json":
        calls = 1  # The second call was refused by the provider and has no reply.
        assert count["ContextBuilt"] == 2
    assert count["ModelReplied"] == (calls if calls is not None else 10)
    ended = of_type(shared, identity, "ControlChanged")
    assert [one.detail for one in ended] == ([row["exit_status"]] if row["exit_status"] else [])
    cost = cost_nano(shared, identity)
    assert cost == (None if row["cost"] is None else round(row["cost"] * 1e9))
    if row["format"] == "mini_swe_agent_v2":
        assert count["ToolIntent"] == row["tool_calls"]
        assert count["ToolResult"] == row["tool_calls"]


def reading_of(row: dict[str, Any]) -> Any:
    """What the other converter read in the same file; None where it has no reading."""
    prefix = "from_mini_swe_agent_" if row["format"] == "mini_swe_agent" else "from_"
    return oracle().get(f"{prefix}{row['file'].removesuffix('.traj.json')}.json")


@pytest.mark.parametrize(
    "row", [row for row in FACTS if reading_of(row)], ids=lambda row: row["file"]
)
def test_tokens_agree_with_the_other_converter(shared: Opened, row: dict[str, Any]) -> None:
    totals = reading_of(row)["final_metrics"]
    tokens = take(shared, path_of(row)).findings.tokens
    prompt = [tokens.input, tokens.cache_read, tokens.cache_write]
    assert sum(one or 0 for one in prompt) == totals["total_prompt_tokens"]
    assert (tokens.cache_read or 0) == totals["total_cached_tokens"]
    assert tokens.output == totals["total_completion_tokens"]


def test_the_bare_list_says_what_it_cannot_say(shared: Opened) -> None:
    need("samples")
    report = take(shared, samples() / "mini_swe_agent/github_issue.traj.json")
    assert report.findings.tokens.unreported == 10
    assert {"times", "how the run ended", "tokens of 10 replies"} <= set(report.findings.gaps)
    identity = report.trajectories[0].id
    results = of_type(shared, identity, "ToolResult")
    assert [one.status for one in results].count("unknown") == 1


def test_replies_the_other_converter_drops_are_lifted(shared: Opened) -> None:
    need("samples_generated")
    path = samples_generated() / "mini_swe_agent_v2/mini-c.traj.json"
    identity = take(shared, path).trajectories[0].id
    replies = of_type(shared, identity, "ModelReplied")
    assert [bool(one.rejected) for one in replies] == [False, True, True, True]
    assert sum(one.usage.output for one in replies) == 160
    read = oracle()["from_mini-c.json"]
    agents = [step for step in read["steps"] if step["source"] == "agent"]
    assert len(agents) == 1
    assert len(agents[0]["results"]) == 4


def test_time_outs_of_both_layouts_settle_nothing(shared: Opened) -> None:
    need("samples")
    need("samples_generated")
    old = take(shared, samples() / "mini_swe_agent/sympy__sympy-19040.traj.json")
    new = take(shared, samples_generated() / "mini_swe_agent_v2/mini-d.traj.json")
    for report, expected in ((old, 4), (new, 1)):
        results = of_type(shared, report.trajectories[0].id, "ToolResult")
        assert [one.status for one in results].count("timeout") == expected


def test_an_output_that_was_cut_says_where_the_rest_is(shared: Opened) -> None:
    need("samples_generated")
    report = take(shared, samples_generated() / "mini_swe_agent_v2/mini-a.traj.json")
    cut = [
        one
        for one in of_type(shared, report.trajectories[0].id, "ToolResult")
        if not one.observation_complete
    ]
    assert len(cut) == 1
    assert "raw_output" in cut[0].observation_rest
