"""Every event has a line, blocks and an envelope, whatever its payload holds."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.presenters import labels, payloads, timeline
from app.presenters.payloads import Text
from core.events import registry
from core.events.envelope import Event
from core.events.fields import MessageRef, Usage
from core.events.model_call import ModelReplied
from core.events.tool import ToolIntent, ToolResult
from tests.strategies import Log, Said, any_log, store


def _read(ref: MessageRef) -> Text:
    return Text("read from its blob") if ref.length % 2 else Text(None, "never", "not kept")


def _texts(value: Any) -> list[str]:
    """Every text a template could show of a presenter's answer."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [
            text
            for field in dataclasses.fields(value)
            for text in _texts(getattr(value, field.name))
        ]
    return []


def test_every_family_of_the_registry_has_a_line_and_blocks() -> None:
    known = {family.payload for family in registry.FAMILIES.values()}
    assert labels.describes() == known
    assert set(payloads.SHOW) == known
    assert set(labels.FAMILY) == set(registry.FAMILIES)


@given(any_log(max_size=12, unknown=True))
def test_no_payload_breaks_its_line_or_its_blocks(log: Log) -> None:
    for event, payload in log.pairs():
        line = labels.line(event, payload)
        assert "\n" not in line.text and len(line.text) < 700
        assert _texts(payloads.envelope(event))
        blocks = payloads.blocks(event, payload, _read)
        assert blocks, event.type
        for text in _texts(blocks):
            assert "\x1b" not in text and "\u202e" not in text


@given(any_log(max_size=30), st.integers(0, 30), st.sampled_from(["event", "time"]))
def test_any_log_can_be_drawn_at_any_boundary(log: Log, at: int, by: str) -> None:
    if not log.events:
        return
    boundary = min(at, len(log.events))
    items = [
        timeline.Item(event, payload, labels.line(event, payload)) for event, payload in log.pairs()
    ]
    ribbon = timeline.build(
        items,
        boundary=boundary,
        head=len(log.events),
        by=by,
        open_operations=[timeline.OpenOperation("op-1", 1, "in_doubt")] if boundary else [],
        control_before="RUNNING",
        owner_before=(0, None),
    )
    assert ribbon is not None
    for lane in ribbon.lanes:
        for bar in lane.bars:
            left, width = float(bar.x[:-1]), float(bar.width[:-1])
            assert 0 <= left <= 100 and 0 <= width <= 100 and left + width <= 101
            assert bar.later == (bar.sequence_number > boundary) or lane.name in (
                "ownership",
                "control",
                "unsettled",
            )
    assert len({tick.x for tick in ribbon.ticks}) == len(ribbon.ticks)


def _one(type_: str, payload: Any, **more: Any) -> tuple[Event, Any]:
    log = store([Said(type_, payload, **more)])
    return log.events[0], log.payloads[0]


def test_a_tool_call_shows_its_most_telling_argument() -> None:
    event, payload = _one(
        "ToolIntent",
        ToolIntent("proposal", "bash", arguments={"timeout": 5, "command": "ls -la\nrm x"}),
        operation_id="op-1",
    )
    assert labels.line(event, payload).text == "bash ls -la … · proposal"


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        ('{"returncode": 0, "output": "Ran 4 tests\\nOK"}', "Ran 4 tests …"),
        ("<returncode>0</returncode>\n<output>\nhello\n</output>", "hello"),
        ("plain words", "plain words"),
        ("", ""),
        ("{ broken", "{ broken"),
    ],
)
def test_a_result_is_named_by_the_first_line_that_says_something(
    observation: str, said: str
) -> None:
    assert labels.gist(observation) == said


def test_what_settles_nothing_says_so() -> None:
    event, payload = _one("ToolResult", ToolResult("timeout", "sender"), operation_id="op-1")
    line = labels.line(event, payload)
    assert "settles nothing" in line.text and not line.error
    event, payload = _one("ToolResult", ToolResult("failed", "sender"), operation_id="op-1")
    assert labels.line(event, payload).error


def test_tokens_that_were_not_reported_are_an_absence_and_not_a_zero() -> None:
    event, payload = _one("ModelReplied", ModelReplied("completed", text="hi"), invocation_id="i")
    rows = [row for block in payloads.blocks(event, payload, _read) for row in block.rows]
    tokens = next(row for row in rows if row.name == "Tokens")
    assert tokens.value == payloads.Absent("never", "not reported with this reply")
    event, payload = _one(
        "ModelReplied", ModelReplied("completed", usage=Usage(output=0)), invocation_id="i"
    )
    rows = [row for block in payloads.blocks(event, payload, _read) for row in block.rows]
    assert [(row.name, row.value) for row in rows if "Output" in row.name] == [
        ("Output tokens", "0")
    ]


def test_a_diff_in_an_output_is_shown_as_one() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new"
    event, payload = _one(
        "ToolResult", ToolResult("succeeded", "sender", observation=text), operation_id="op-1"
    )
    block = next(b for b in payloads.blocks(event, payload, _read) if b.kind == "diff")
    assert [(run.css, run.text) for run in block.runs][-2:] == [("del", "-old"), ("ins", "+new")]


def test_an_unknown_type_is_kept_and_shown() -> None:
    event = msgspec.structs.replace(
        _one("note.remark", {"a": 1})[0], type="FromTheFuture", schema_version=7
    )
    assert labels.line(event, None).family == "bad"
    assert "not reconstructed" in payloads.blocks(event, None, _read)[0].note


def test_the_window_holds_still_while_one_scrubs() -> None:
    head = 100_000
    spans = [timeline.window(at, head) for at in range(40_000, 40_060)]
    assert len(set(spans)) <= 2
    for at in (0, 1, 500, 99_999, 100_000):
        first, last = timeline.window(at, head)
        assert last - first + 1 == timeline.WINDOW and first <= max(at, 1) <= last
    assert timeline.window(3, 7) == (1, 7)
