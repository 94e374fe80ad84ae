"""Lines of what sessions say in their own words: turns, and inputs of programs."""

from __future__ import annotations

import pytest

from app.presenters import labels, payloads
from app.presenters.standing import control_word, list_word
from core.events import registry
from core.events.context import RuntimeInput
from core.events.control import ControlChanged
from core.events.envelope import Event
from core.events.fields import Payload


def event(payload: Payload, issuer: str) -> Event:
    return Event(
        trajectory_id="tr-x",
        sequence_number=1,
        recorded_at=0,
        event_id="e",
        type=type(payload).__name__,
        schema_version=1,
        issuer=issuer,  # type: ignore[arg-type]
        owner_epoch=0,
        control_epoch=0,
        record_version=0,
        reducer_version=1,
        digest=b"",
        chain=b"",
        payload_digest=b"",
        payload_length=0,
        payload=registry.encode(payload),
    )


@pytest.mark.parametrize(
    ("detail", "state", "said"),
    [
        ("task_complete", "PAUSED", "turn ended"),
        ("turn.completed", "PAUSED", "turn ended"),
        ("turn_aborted", "PAUSED", "turn broken off · interrupted"),
        ("task_started", "RUNNING", "turn began"),
    ],
)
def test_a_turn_of_a_session_is_no_pause(detail: str, state: str, said: str) -> None:
    reason = "interrupted" if detail == "turn_aborted" else None
    changed = ControlChanged(state, "RUNNING", reason=reason, detail=detail)  # type: ignore[arg-type]
    made = event(changed, "importer")
    assert labels.line(made, changed).text == said
    shown = payloads.blocks(made, changed, lambda ref: payloads.Text(""))
    words = " ".join(str(row.value) for block in shown for row in block.rows)
    assert "nobody paused it" in words
    # One's own runtime pauses when it says so, whatever words it gives.
    assert "PAUSED" in labels.line(event(changed, "worker"), changed).text or state != "PAUSED"


def test_lists_and_headers_call_it_so_for_imports_alone() -> None:
    for at_end in (True, False):
        assert control_word("PAUSED", "imported", at_end=at_end) == "turn ended"
    assert control_word("PAUSED", "reported", at_end=True) == "PAUSED"
    assert list_word("PAUSED", "imported")[0] == "turn ended"
    assert list_word("PAUSED", "gated") == ("PAUSED", "")


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (
            "item_completed",
            {"item": {"id": "i-1", "text": "first look", "type": "Plan"}},
            "item completed · type Plan · text first look",
        ),
        (
            "mcp_tool_call_end",
            {
                "call_id": "call-5",
                "duration": {"nanos": 4, "secs": 0},
                "invocation": {"arguments": {"title": "x"}, "server": "files", "tool": "read"},
            },
            "mcp tool call end · server files · tool read · title x",
        ),
        ("UserMessage", {"images": [1, 2], "note": None}, "user message · images 2 listed"),
        ("système", {"a": {"b": {"c": {"d": 1}}}}, "système"),
        ("world_state", {"full": True, "parts": []}, "world state · full true · parts none"),
    ],
)
def test_an_input_of_a_program_is_told_in_words(
    kind: str, values: dict[str, object], said: str
) -> None:
    given = RuntimeInput(kind, values)
    assert labels.line(event(given, "importer"), given).text == said
