"""Texts of the messages that a model was given, as far as an event only points at them.

INVARIANTS
1. What an event of its own states is left out: replies, calls, their results.
2. A message is read within its bytes and never beyond MESSAGE_BYTES_MAX; one that cannot be read is
   counted, and stops nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from core.errors import CorruptAt, InvalidInput, NotFound
from core.limits import INDEX_EVENT_CHARS_MAX

#: read(blob, first byte, one past the last byte); None: to its end.
Read = Callable[[str, int | None, int | None], bytes]

MESSAGE_BYTES_MAX = INDEX_EVENT_CHARS_MAX
#: Lists of a ContextBuilt that point at messages.
LISTS = ("messages", "tools")
#: Words of the roles whose messages are events of their own.
_ELSEWHERE = frozenset("ai assistant call function model output reasoning thinking tool".split())
#: Where the text of a message lies, in the order looked for.
_CONTENT = ("content", "message", "payload", "base_instructions", "instructions", "text")
_DEPTH_MAX = 4


class Unreadable(Exception):
    """The bytes of a message are missing, damaged, or too many."""


def messages(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of a ContextBuilt payload whose texts no other event states."""
    for name in LISTS:
        listed = value.get(name)
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and (name == "tools" or _is_said(one.get("role"))):
                yield one


def text_of_message(message: dict[str, Any], read: Read) -> str:
    """The texts of one message, a line each; empty where nothing holds them. Unreadable."""
    stated = message.get("text")
    if isinstance(stated, str):
        return stated
    blob, start, end = message.get("blob"), message.get("start"), message.get("end")
    if not isinstance(blob, str):
        return ""
    length = (end - start) if start is not None and end is not None else message.get("length", 0)
    if length > MESSAGE_BYTES_MAX:
        raise Unreadable
    try:
        data = read(blob, start, end)
    except (NotFound, CorruptAt, InvalidInput) as error:
        raise Unreadable from error
    return _text(data)


def all_texts(value: dict[str, Any], read: Read) -> str:
    """The texts of all messages that a ContextBuilt payload adds, whether or not an earlier event
    delivered them before; those that cannot be read are left out."""
    found: list[str] = []
    room = INDEX_EVENT_CHARS_MAX
    for message in messages(value):
        try:
            text = text_of_message(message, read)
        except Unreadable:
            continue
        if text and room > 0:
            found.append(text[:room])
            room -= len(text)
    return "\n".join(found)


def mark_of_text(text: str) -> int:
    """A number for a text, for knowing it again."""
    data = text.strip().encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), signed=True)


def mark_of_digest(digest: str) -> int:
    """The same for a message's digest (`sha256:` and 64 digits)."""
    return int.from_bytes(bytes.fromhex(digest[7:23]), signed=True)


def _is_said(role: object) -> bool:
    return isinstance(role, str) and _ELSEWHERE.isdisjoint(role.lower().split())


def _text(data: bytes) -> str:
    try:
        value = orjson.loads(data)
    except ValueError:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return ""
    found: list[str] = []
    _collect(value, found, _DEPTH_MAX)
    return "\n".join(found)


def _collect(value: Any, found: list[str], depth: int) -> None:
    """Texts of a message: of its content where it has one, else all of them (a description)."""
    if isinstance(value, str):
        if value:
            found.append(value)
    elif isinstance(value, list):
        for part in value:
            if not (isinstance(part, dict) and _is_elsewhere(part)):
                _collect(part, found, depth)
    elif isinstance(value, dict) and depth:
        named = next((name for name in _CONTENT if value.get(name)), None)
        if named is not None:
            _collect(value[named], found, depth - 1)
        elif "type" not in value or "name" in value:
            for part in value.values():
                _collect(part, found, depth - 1)


def _is_elsewhere(part: dict[str, Any]) -> bool:
    """Whether a part of a message is a call or a result: these are events."""
    type_ = part.get("type")
    return isinstance(type_, str) and not _ELSEWHERE.isdisjoint(type_.lower().split("_"))
