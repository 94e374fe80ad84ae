"""Reading JSON that comes from outside: what one reader would take and another not is refused.

`loads` refuses, with an InvalidInput that says what and where: bytes that are not UTF-8, a byte
order mark, NaN and infinities (also 1e999), integers beyond +-(2^53-1), duplicate keys, lone
surrogates, nesting beyond JSON_DEPTH_MAX, and trailing text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from core.errors import InvalidInput
from core.limits import INTEGER_MAX, JSON_DEPTH_MAX

# Possessive, and content with an unclosed string too: one pass, no backtracking state, whatever
# the input (an alternation per character held 100 bytes of state for each byte of a string).
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class StrictDecoder(json.JSONDecoder):
    """The standard decoder with the refusals above; `raw_decode(text, start)` gives the end too."""

    def __init__(self, *, big_integers_as_text: bool = False) -> None:
        self._as_text = big_integers_as_text
        super().__init__(
            object_pairs_hook=_object,
            parse_int=self._integer,
            parse_float=_finite,
            parse_constant=_constant,
        )

    def _integer(self, text: str) -> int | str:
        if len(text) > 17 or not -INTEGER_MAX <= int(text) <= INTEGER_MAX:
            if self._as_text:
                return text
            raise InvalidInput(
                f"integer {text[:24]} is beyond 2^53-1 and would lose digits; send it as a string",
                reason="integer_range",
            )
        return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidInput(
                    f"the key {key[:60]!r} stands twice in one object, so readers disagree",
                    reason="duplicate_key",
                )
            seen.add(key)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidInput(f"the number {text[:24]} is not finite", reason="not_finite")
    return value


def _constant(text: str) -> None:
    raise InvalidInput(f"{text} is not a JSON number; send a string", reason="not_finite")


_STRICT = StrictDecoder()


def check_depth(data: bytes) -> None:
    """InvalidInput if brackets nest deeper than JSON_DEPTH_MAX, without building anything."""
    if data.count(b"[") + data.count(b"{") <= JSON_DEPTH_MAX:
        return
    depth = 0
    for match in _BRACKETS.finditer(data):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth > JSON_DEPTH_MAX:
                raise InvalidInput(
                    f"JSON nested deeper than {JSON_DEPTH_MAX} at byte {match.start()}",
                    reason="depth",
                    offset=match.start(),
                )
        elif token in (b"]", b"}"):
            depth -= 1


def decode_text(data: bytes) -> str:
    """UTF-8 text of `data`; InvalidInput naming the byte where it is not UTF-8."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise InvalidInput("the text starts with a byte order mark", reason="bom", offset=0)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"byte {error.start} is not UTF-8", reason="not_utf8", offset=error.start
        ) from error


def check_surrogates(text: str, value: Any) -> None:
    r"""InvalidInput if a `\ud800`-style escape in `text` left a lone surrogate in `value`."""
    if "\\u" not in text:
        return
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise InvalidInput("a string holds a lone surrogate", reason="lone_surrogate")
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def loads(data: bytes, *, decoder: StrictDecoder = _STRICT) -> Any:
    """The JSON value of `data`, or InvalidInput with `reason` and, where known, line and column."""
    check_depth(data)
    text = decode_text(data)
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"line {error.lineno}, column {error.colno}: {error.msg}",
            reason="syntax",
            line=error.lineno,
            column=error.colno,
        ) from error
    except RecursionError as error:
        raise InvalidInput(f"JSON nested deeper than {JSON_DEPTH_MAX}", reason="depth") from error
    check_surrogates(text, value)
    return value
