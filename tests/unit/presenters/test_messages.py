"""Delivered messages in words, for every shape that a supported program delivers."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.presenters.messages import PARTS_MAX, dimensions, first_line, said


def tool_of(call_id: str) -> str:
    return {"c1": "Bash", "c2": "Read"}.get(call_id, "")


def line(value: object) -> str:
    told = said(json.dumps(value), tool_of)
    assert told is not None
    return told.line


def png(width: int, height: int) -> str:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk).decode()


PNG = png(640, 480)
IMAGE = {"type": "base64", "media_type": "image/png", "data": PNG}


def of(*blocks: object, role: str = "user") -> dict[str, object]:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        # Anthropic
        ({"role": "user", "content": "repair it"}, "repair it"),
        (of({"type": "text", "text": "first\nsecond"}), "first …"),
        (
            of({"type": "tool_result", "tool_use_id": "c1", "content": "total 8\nx\n"}),
            "result of Bash, 2 lines: total 8",
        ),
        (
            of({"type": "tool_result", "tool_use_id": "c9", "content": "no", "is_error": True}),
            "error, 1 line: no",
        ),
        (
            of(
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [
                        {"type": "text", "text": "seen"},
                        {"type": "image", "source": IMAGE},
                    ],
                }
            ),
            "result of Read, 1 line: seen, with image 640x480, 33 bytes",
        ),
        (of({"type": "tool_result", "tool_use_id": "c1", "content": ""}), "result of Bash, empty"),
        (
            of({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls -la"}}),
            "asks for Bash: ls -la",
        ),
        (of({"type": "thinking", "thinking": "I see\nmore"}), "thinking, 2 lines: I see …"),
        (
            of({"type": "thinking", "thinking": "", "signature": "x"}),
            "thinking, of which nothing was kept",
        ),
        (of({"type": "redacted_thinking", "data": "x" * 40}), "thinking, encrypted, 40 bytes"),
        (of({"type": "image", "source": IMAGE}), "image 640x480, 33 bytes"),
        (
            of({"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}),
            "image at https://x.example/a.png, not fetched",
        ),
        (
            of({"type": "document", "source": {"media_type": "application/pdf", "data": "AAAA"}}),
            "document application/pdf, 3 bytes",
        ),
        (of({"type": "novel", "x": 1}), "novel, 22 bytes, shown raw only"),
        (
            {"type": "user", "uuid": "u", "message": of({"type": "text", "text": "within"})},
            "within",
        ),
        # OpenAI chat
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "function": {"name": "sh", "arguments": '{"cmd": "make"}'}}
                ],
            },
            "asks for sh: make",
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            "result of Bash, 1 line: done",
        ),
        (
            of({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}),
            "image 640x480, 33 bytes",
        ),
        (
            {"role": "assistant", "content": "", "refusal": "I cannot"},
            "empty text · refuses: I cannot",
        ),
        # OpenAI responses, Codex
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            "go",
        ),
        (
            {
                "type": "function_call",
                "name": "exec",
                "arguments": '{"command":"ls"}',
                "call_id": "1",
            },
            "asks for exec: ls",
        ),
        (
            {"type": "custom_tool_call", "name": "shell", "input": '{"command":["ls","-l"]}'},
            "asks for shell: ls -l",
        ),
        (
            {"type": "local_shell_call", "action": {"command": ["ls"]}},
            "asks for local shell: ls",
        ),
        (
            {"type": "web_search_call", "action": {"type": "search", "query": "sky"}},
            "asks for web search: sky",
        ),
        (
            {"type": "function_call_output", "call_id": "c1", "output": "total 3\na\nb"},
            "result of Bash, 3 lines: total 3",
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                ],
            },
            "result of Bash, 1 line: a, with image 640x480, 33 bytes",
        ),
        (
            {"type": "reasoning", "summary": [{"text": "plan"}], "encrypted_content": "abcd"},
            "thinking, 1 line: plan · thinking, encrypted, 4 bytes",
        ),
        ({"type": "reasoning", "summary": []}, "thinking, of which nothing was kept"),
        (
            {"type": "compaction", "encrypted_content": "abcde"},
            "summary of what came before, encrypted, 5 bytes",
        ),
        # mini-swe-agent
        (
            {"role": "user", "content": "<returncode>0</returncode>\n<output>\nok\nso\n</output>"},
            "result, exit 0, 2 lines: ok",
        ),
        (
            {"role": "user", "content": "<returncode>1</returncode>\n<output>\n</output>"},
            "result, exit 1, no output",
        ),
        # SWE-agent
        (
            {
                "role": "assistant",
                "content": "Look.\n```\nls\n```",
                "thought": "Look.",
                "action": "ls",
            },
            "Look. … · asks for: ls",
        ),
        (
            {"role": "tool", "content": [{"type": "text", "text": "344"}], "tool_call_ids": ["c2"]},
            "result of Read, 1 line: 344",
        ),
        (
            {
                "role": "assistant",
                "content": "Open it.",
                "action": "open x",
                "tool_calls": [{"function": {"name": "open", "arguments": '{"path":"x"}'}}],
            },
            "Open it. · asks for open: x",
        ),
    ],
)
def test_each_shape_is_said_in_words(message: dict[str, object], words: str) -> None:
    assert line(message) == words


def test_what_has_no_shape_says_itself() -> None:
    for text in (
        "plain words",
        '{"a": 1}',
        "[1]",
        '{"role":',
        "",
        "\ud800",
        '{"role": 5, "content": ""}',
    ):
        assert said(text, tool_of) is None


def test_a_text_of_a_tool_says_how_much_it_is() -> None:
    assert first_line("344\n(Open file: x)\n", "tool") == "result, 2 lines: 344"
    assert first_line("do it\nnow", "user") == "do it …" and first_line("", "tool") == ""


def test_the_whole_is_there_part_by_part() -> None:
    told = said(
        json.dumps(
            of(
                {"type": "text", "text": "so:"},
                {"type": "tool_use", "name": "Write", "input": {"path": "a", "content": "x\ny"}},
            )
        ),
        tool_of,
    )
    assert told is not None
    assert told.text == "so:\n\nasks for Write\npath: a\ncontent:\nx\ny"


def test_parts_are_bounded_and_what_is_left_out_is_counted() -> None:
    told = said(json.dumps(of(*({"type": "text", "text": "x"} for _ in range(100)))), tool_of)
    assert told is not None and len(told.parts) == PARTS_MAX + 1
    assert told.parts[-1].what == "60 more parts, not shown here" and len(told.line) <= 200


def test_pictures_say_their_size() -> None:
    jpeg = (
        b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + b"\0" * 9
    )
    webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (99).to_bytes(3, "little") * 2
    for data, wanted in (
        (b"GIF89a" + struct.pack("<HH", 7, 9), (7, 9)),
        (jpeg, (40, 30)),
        (webp, (100, 100)),
        (b"\xff\xd8\xff", None),
        (b"nothing", None),
    ):
        assert dimensions(base64.b64encode(data).decode()) == wanted
    assert dimensions("not base64 é") is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "type", "text", "tool_calls", "function", "arguments", "source",
             "data", "output", "message", "image_url", "action", "input", "name", "thinking_blocks"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=25,
)  # fmt: skip
_kinds = st.sampled_from(
    ["message", "tool_use", "tool_result", "image", "thinking", "reasoning", "function_call_output",
     "custom_tool_call", "input_image", "document", "compaction", "x"]
)  # fmt: skip


@given(_json, _kinds, st.sampled_from(["user", "assistant", "tool"]))
def test_any_json_is_answered(content: object, kind: str, role: str) -> None:
    for value in (
        {"role": role, "content": content},
        {"role": role, "content": [{"type": kind, "content": content, "input": content,
                                    "source": content, "image_url": content, "name": content}]},
        {"type": kind, "output": content, "summary": content, "arguments": content,
         "name": content},
        {"role": role, "content": None, "tool_calls": content, "thinking_blocks": content},
    ):  # fmt: skip
        text = json.dumps(value)
        told = said(text, tool_of)
        assert told is None or (told.line and len(told.line) <= 200)
