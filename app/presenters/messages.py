"""A delivered message in words: what it says, thinks, asks for, or brings back, and how much.

One presenter for the shapes that programs deliver: Anthropic messages (also as a line of a Claude
Code session), OpenAI chat and responses, Codex items, mini-swe-agent and SWE-agent. Its raw bytes
are shown beside it: what is said here is a reading of them.

INVARIANTS
1. Any text gives an answer: what has no known shape is left to be shown as it is (None).
2. Bounded: PARTS_MAX parts, and a line of LINE_CHARS characters.
3. What is not understood within a known shape is named with its size, never left out.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.presenters.format import plural, size
from app.presenters.labels import gist, telling
from app.presenters.terminal import one_line

PARTS_MAX = 40
LINE_CHARS = 200
#: Characters of an image that are decoded to find its width and height.
_IMAGE_CHARS = 64_000

ToolOf = Callable[[str], str]
"""The tool that a call id names; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: what it is, and its text."""

    what: str
    """Empty: plain words, which say themselves."""
    text: str = ""
    head: str = ""
    """What stands above the whole text; empty: what it is."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message in words."""

    line: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All of it, part by part."""
        return "\n\n".join(
            "\n".join(filter(None, ((p.head if p.text else "") or p.what, p.text)))
            for p in self.parts
        )


def said(text: str, tool_of: ToolOf) -> Said | None:
    """A message in words; None: it has no known shape, and says itself."""
    value = _loaded(text)
    if isinstance(value, dict) and isinstance(value.get("message"), dict):
        value = value["message"]  # A line of a session: the message lies within it.
    if not isinstance(value, dict):
        result = _command_result(text)
        return _of([result]) if result is not None else None
    parts = list(_parts(value, tool_of))
    return _of(parts) if parts else None


def first_line(text: str, role: str) -> str:
    """What stands for a message without a shape: its first line; of a tool, also how much it is."""
    if role in ("tool", "function") and text.strip():
        return one_line(f"result, {_lines(text)}: {gist(text, 120)}", LINE_CHARS)
    return one_line(text, LINE_CHARS)


def _loaded(text: str) -> object:
    if not text.lstrip()[:1] == "{":
        return None
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None


def _of(parts: Sequence[Part]) -> Said:
    if len(parts) > PARTS_MAX:
        left = len(parts) - PARTS_MAX
        parts = [*parts[:PARTS_MAX], Part(f"{plural(left, 'more part')}, not shown here")]
    words = [p.what or one_line(p.text, LINE_CHARS) for p in parts]
    return Said(one_line(" · ".join(filter(None, words)), LINE_CHARS), tuple(parts))


# ---- shapes ------------------------------------------------------------------------------


def _parts(value: Mapping[str, Any], tool_of: ToolOf) -> Iterator[Part]:
    """The parts of one message, item or call."""
    kind = value.get("type")
    if isinstance(kind, str) and kind not in ("message", "user", "assistant", "system"):
        yield from _item(kind, value, tool_of)
        return
    told = value.get("role")
    if not isinstance(told, str) or "content" not in value:
        return
    for key in ("reasoning_content", "reasoning"):
        if isinstance(value.get(key), str) and value[key].strip():
            yield _thinking(value[key])
    for block in _list(value.get("thinking_blocks")):
        yield from _block(block, tool_of)
    calls = _list(value.get("tool_calls"))
    content = value.get("content")
    ids = [one for one in (value.get("tool_call_id"), *_list(value.get("tool_call_ids"))) if one]
    if told in ("tool", "function") or ids:
        named = value.get("name") or next(filter(None, (tool_of(str(one)) for one in ids)), "")
        yield _result(str(named), content, tool_of)
    elif isinstance(content, str):
        result = _command_result(content)
        if result is not None:
            yield result
        elif content.strip() or not calls:
            yield _text(content)
    else:
        for block in _list(content):
            yield from _block(block, tool_of)
    if isinstance(value.get("refusal"), str) and value["refusal"]:
        yield Part(f"refuses: {one_line(value['refusal'], 120)}", value["refusal"])
    for call in calls:
        yield from _chat_call(call)
    action = value.get("action")
    if isinstance(action, str) and action.strip() and not calls:
        yield Part(f"asks for: {one_line(action, 120)}", action, "asks for")


def _item(kind: str, value: Mapping[str, Any], tool_of: ToolOf) -> Iterator[Part]:
    """One item of the responses shape, as Codex keeps them, or one block on its own."""
    if kind.endswith("_output"):
        named = tool_of(str(value.get("call_id"))) if value.get("call_id") else ""
        named = named or kind.removesuffix("_output").removesuffix("_call").replace("_", " ")
        held = value.get("output", value.get("tools"))
        yield _result(named if named not in ("function", "custom tool") else "", held, tool_of)
    elif kind.endswith("_call"):
        name = value.get("name") or kind.removesuffix("_call").replace("_", " ")
        given = next((value[k] for k in ("arguments", "input", "action") if value.get(k)), None)
        yield _call(str(name), given)
    elif kind == "reasoning":
        texts = [*_texts(value.get("summary")), *_texts(value.get("content"))]
        if texts:
            yield _thinking("\n\n".join(texts))
        if isinstance(value.get("encrypted_content"), str):
            yield Part(f"thinking, encrypted, {size(len(value['encrypted_content']))}")
        if not texts and not value.get("encrypted_content"):
            yield Part("thinking, of which nothing was kept")
    elif kind == "compaction" or "compaction" in kind:
        held = value.get("encrypted_content")
        kept = f", encrypted, {size(len(held))}" if isinstance(held, str) else ""
        yield Part(f"summary of what came before{kept}", *_texts(value.get("content"))[:1])
    else:
        yield from _block(value, tool_of)


def _block(block: object, tool_of: ToolOf) -> Iterator[Part]:
    """One block of a message's content."""
    if isinstance(block, str):
        yield _text(block)
        return
    if not isinstance(block, dict):
        return
    kind = str(block.get("type") or "")
    text = block.get("text")
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        yield _thinking(block["thinking"])
    elif kind == "redacted_thinking":
        yield Part(f"thinking, encrypted, {size(len(str(block.get('data') or '')))}")
    elif kind.endswith("tool_use"):
        yield _call(str(block.get("name") or "a tool it does not name"), block.get("input"))
    elif kind.endswith("tool_result"):
        named = tool_of(str(block.get("tool_use_id") or ""))
        yield _result(named, block.get("content"), tool_of, failed=block.get("is_error") is True)
    elif kind in ("image", "input_image", "image_url"):
        yield _image(block)
    elif kind in ("document", "file", "input_file", "input_audio", "audio"):
        yield _attached(kind, block)
    elif isinstance(text, str):
        yield _text(text)
    else:
        length = len(_json(block))
        yield Part(f"{one_line(kind or 'a part', 40)}, {size(length)}, shown raw only")


# ---- parts -------------------------------------------------------------------------------


def _text(text: str) -> Part:
    return Part("", text) if text.strip() else Part("empty text")


def _thinking(text: str) -> Part:
    if not text.strip():
        return Part("thinking, of which nothing was kept")
    head = f"thinking, {_lines(text)}"
    return Part(f"{head}: {one_line(text, 120)}", text, head)


def _chat_call(call: object) -> Iterator[Part]:
    if isinstance(call, dict):
        function = call.get("function")
        inner = function if isinstance(function, dict) else call
        yield _call(str(inner.get("name") or "a tool it does not name"), inner.get("arguments"))


def _call(tool: str, given: object) -> Part:
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            pass
    about = telling(given)
    head = f"asks for {one_line(tool, 60)}"
    return Part(head + (f": {about}" if about else ""), given_as(given), head)


def given_as(given: object) -> str:
    """Arguments as they read: long texts as they are, the rest as `name: value`."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return _json(given) if given is not None else ""
    lines = []
    for key, value in given.items():
        if isinstance(value, str):
            lines.append(f"{key}:\n{value}" if "\n" in value else f"{key}: {value}")
        else:
            lines.append(f"{key}: {_json(value)}")
    return "\n".join(lines)


def _result(tool: str, content: object, tool_of: ToolOf, *, failed: bool = False) -> Part:
    """What a tool brought back: from which, how much, and its first line that says something."""
    texts: list[str] = []
    others: list[str] = []
    for one in content if isinstance(content, list) else [content]:
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict):
            for part in _block(one, tool_of):
                (others if part.what else texts).append(part.what or part.text)
    text = "\n".join(texts)
    word = "error" if failed else "result"
    what = f"{word} of {one_line(tool, 60)}" if tool else word
    within, first = _command_result(text), ""
    if within is not None:
        head = what + within.head.removeprefix("result")
        what += within.what.removeprefix("result")
        text = within.text
    else:
        if text.strip():
            what += f", {_lines(text)}"
            first = gist(text, 120)
        head, what = what, what + (f": {first}" if first else "")
    beside = ""
    if others:
        beside = f", with {', '.join(others[:3])}" + (
            f" and {len(others) - 3} more" if others[3:] else ""
        )
    elif not text.strip() and within is None:
        beside = ", empty"
    return Part(what + beside, text, head + beside)


_COMMAND = re.compile(
    r"\s*<returncode>(-?\d{1,9})</returncode>\s*(?:<output(?:_head)?>\n?(.*?)(?:</output>\s*)?)?\Z",
    re.DOTALL,
)


def _command_result(text: str) -> Part | None:
    """The result of a command in the words of mini-swe-agent; None: it is none."""
    if not text.lstrip().startswith("<returncode>"):
        return None
    match = _COMMAND.match(text)
    if match is None:
        return None
    output = match.group(2) or ""
    what = f"result, exit {match.group(1)}"
    first = gist(output, 120) if output.strip() else ""
    what += f", {_lines(output)}" if output.strip() else ", no output"
    return Part(what + (f": {first}" if first else ""), output, what)


def _image(block: Mapping[str, Any]) -> Part:
    source = block.get("source")
    data: object = None
    kind = ""
    if isinstance(source, dict):
        data, kind = source.get("data") or source.get("url"), str(source.get("media_type") or "")
    else:
        data = block.get("image_url")
        if isinstance(data, dict):
            data = data.get("url")
    if not isinstance(data, str):
        return Part("image, which is not in the message")
    if data.startswith("data:"):
        kind, _, data = data.removeprefix("data:").partition(",")
        kind = kind.partition(";")[0]
    elif data.startswith(("http:", "https:")):
        return Part(f"image at {one_line(data, 100)}, not fetched")
    drawn = dimensions(data)
    about = (
        f" {drawn[0]}x{drawn[1]}" if drawn is not None else f" ({one_line(kind, 30)})" * bool(kind)
    )
    return Part(f"image{about}, {size(_decoded(data))}")


def _attached(kind: str, block: Mapping[str, Any]) -> Part:
    inner = next(
        (block[k] for k in ("source", "file", kind) if isinstance(block.get(k), dict)), block
    )
    data = next((inner[k] for k in ("data", "file_data") if isinstance(inner.get(k), str)), "")
    name = next(
        (inner[k] for k in ("filename", "title", "media_type", "format") if inner.get(k)), ""
    )
    word = kind.removeprefix("input_")
    return Part(
        f"{word} {one_line(str(name), 60)}".strip() + f", {size(_decoded(data))}" * bool(data)
    )


def _decoded(data: str) -> int:
    """Bytes of a base64 text."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def dimensions(data: str) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP in base64; None: not one, or not stated."""
    try:
        head = base64.b64decode(data[: _IMAGE_CHARS // 4 * 4] + "==", validate=False)
        if head[:8] == b"\x89PNG\r\n\x1a\n":
            width, height = struct.unpack_from(">II", head, 16)
        elif head[:4] == b"GIF8":
            width, height = struct.unpack_from("<HH", head, 6)
        elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp(head)
        elif head[:2] == b"\xff\xd8":
            return _jpeg(head)
        else:
            return None
    except (binascii.Error, ValueError, struct.error):
        return None
    return (width, height) if width and height else None


def _webp(head: bytes) -> tuple[int, int] | None:
    if head[12:16] == b"VP8X":
        return (
            int.from_bytes(head[24:27], "little") + 1,
            int.from_bytes(head[27:30], "little") + 1,
        )
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if head[12:16] == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", head, at + 2)[0]
    return None


# ---- small things ------------------------------------------------------------------------


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [
        one["text"]
        for one in _list(value)
        if isinstance(one, dict) and isinstance(one.get("text"), str) and one["text"].strip()
    ]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _lines(text: str) -> str:
    number = text.rstrip("\n").count("\n") + 1
    return plural(number, "line")


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
