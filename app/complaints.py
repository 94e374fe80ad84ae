"""The schema's complaints about a request as one sentence: what, what was given, what is expected.

INVARIANTS
1. Of an address (path, query, header) what was given is shown, cut at `GIVEN_CHARS_MAX`; of a
   body only its kind is named, because a body may hold what nobody else shall read.
2. No pattern, type name or repr of the program stands in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.presenters.terminal import one_line
from core.canonical import DIGEST_PATTERN
from core.errors import InvalidInput
from core.ids import ID_PATTERN, TRAJECTORY_PATTERN

GIVEN_CHARS_MAX = 60
NAME_CHARS_MAX = 64
ERRORS_SHOWN_MAX = 20

_WHERE = {
    "path": "in the address",
    "query": "in the query",
    "header": "in the headers",
    "cookie": "in the cookies",
}
#: Parameters whose name in the code says less than a word does.
_NAMES = {
    "seq": "the boundary",
    "boundary": "the boundary",
    "job": "the import's id",
    "job_id": "the import's id",
    "trajectory_id": "the trajectory id",
    "sequence_number": "the sequence number",
    "digest": "the digest",
    "code": "the error code",
}
#: What a pattern asks for, as words. A test holds every route's patterns to this table.
EXPECTED: Mapping[str, str] = {
    TRAJECTORY_PATTERN: "1 to 96 letters, digits, dots, underscores or dashes, the first a letter "
    "or digit",
    ID_PATTERN: "1 to 128 printable ASCII characters without spaces",
    DIGEST_PATTERN: "sha256: and 64 hex digits",
    r"^[0-9a-f]{32}$": "32 hex digits",
    r"^(head|[0-9]{1,15})$": "a whole number from 0, or head",
    r"^(|[0-9]{1,4})$": "a whole number of up to 4 digits",
    r"^[0-9 ,]{0,24}$": "a whole number",
}
_ALTERNATIVES = re.compile(r"\^\(([a-z_|]+)\)\$")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)
_WANTED = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "model": "an object",
}


def invalid(found: Iterable[Any]) -> InvalidInput:
    """InvalidInput for what a schema (pydantic's) found; `errors` lists each parameter once."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for item in found:
        groups.setdefault(_key(item), []).append(item)
    complaints = [
        {"loc": ".".join(key), "rule": str(items[0]["type"])[:64], "why": _sentence(key, items)}
        for key, items in list(groups.items())[:ERRORS_SHOWN_MAX]
    ]
    if not complaints:
        return InvalidInput("the request is not what its schema says", field="body")
    first = complaints[0]
    return InvalidInput(first["why"], field=first["loc"], errors=complaints)


def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Where: (`query`, name) for a parameter; the path of keys within a body."""
    path = tuple(str(part)[:NAME_CHARS_MAX] for part in item["loc"])
    return path[:2] if path and path[0] in _WHERE else path


def _sentence(key: tuple[str, ...], items: Sequence[Mapping[str, Any]]) -> str:
    item = items[0]
    rule = str(item["type"])
    in_address = bool(key) and key[0] in _WHERE
    if in_address:
        name = one_line(key[-1], NAME_CHARS_MAX)
        what = f"{_NAMES.get(name, name)} {_WHERE[key[0]]}"
    else:
        what = one_line(".".join(key), 2 * NAME_CHARS_MAX) or "the body"
    if rule == "missing":
        return f"{what} is missing; it must be given"
    if rule == "extra_forbidden":
        return f"{what} is not a known field"
    given = _given(item.get("input"), shown=in_address)
    expected = _expected(items)
    return f"{what} is {given}; expected: {expected}"


def _given(value: object, *, shown: bool) -> str:
    if isinstance(value, str):
        if not value:
            return "empty"
        return f"“{one_line(value, GIVEN_CHARS_MAX)}”" if shown else "a text of another form"
    if value is None:
        return "null"
    if shown and isinstance(value, int | float):
        return one_line(str(value), GIVEN_CHARS_MAX)
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "something else")


def _expected(items: Sequence[Mapping[str, Any]]) -> str:
    choices = [
        choice
        for item in items
        if item["type"] == "literal_error"
        for choice in _QUOTED.findall(str(item["ctx"]["expected"]))
        if choice
    ]
    if choices:
        return "one of " + ", ".join(dict.fromkeys(choices)) if len(choices) > 1 else choices[0]
    item = items[0]
    rule, context = str(item["type"]), item.get("ctx", {})
    if rule == "string_pattern_mismatch":
        return _of_pattern(str(context["pattern"]))
    if rule in ("greater_than_equal", "less_than_equal"):
        bound, word = (
            (context.get("ge"), "at least") if "ge" in context else (context["le"], "at most")
        )
        return f"a whole number of {word} {bound:,}"
    if rule == "string_too_long":
        return f"a text of at most {context['max_length']:,} characters"
    if rule == "string_too_short":
        return f"a text of at least {context['min_length']:,} characters"
    return _WANTED.get(rule.partition("_")[0], "another value")


def _of_pattern(pattern: str) -> str:
    words = EXPECTED.get(pattern)
    if words is not None:
        return words
    listed = _ALTERNATIVES.fullmatch(pattern)
    if listed is None:
        return "a text of another form"
    return "one of " + ", ".join(choice for choice in listed[1].split("|") if choice)
