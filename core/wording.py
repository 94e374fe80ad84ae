"""A decoder's complaint as a sentence a person can act on: which field, what was expected.

What was given is named by its kind only; the value may be somebody's secret.
"""

from __future__ import annotations

import re

import msgspec

_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "bytes": "base64 text",
}
_WRONG = re.compile(r"Expected `([^`]*)`(.*?)(?:, got `([^`]*)`)?(?: - at `([^`]*)`)?", re.DOTALL)
_FIELD = re.compile(
    r"Object (missing required|contains unknown) field `([^`]*)`(?: - at `([^`]*)`)?", re.DOTALL
)
_CHOICE = re.compile(r"Invalid (?:enum )?value .*?(?: - at `([^`]*)`)?", re.DOTALL)
FIELD_CHARS_MAX = 64


def kind(name: str) -> str:
    """A JSON kind by its decoder's name, as words: `str | null` -> `a text or null`."""
    return " or ".join(_KINDS.get(part.strip(), part.strip()) for part in name.split("|"))


def schema_error(error: msgspec.DecodeError, whole: str) -> str:
    """The complaint as a sentence; `whole` is what the value is: `the payload of TaskStarted`."""
    text = str(error)
    field = _FIELD.fullmatch(text)
    if field is not None:
        name = field[2][:FIELD_CHARS_MAX]
        owner = _place(field[3], whole)
        if field[1].startswith("missing"):
            return f"{owner} lacks the field {name}, which it must have"
        return f"{owner} has a field {name}, which is not known there"
    wrong = _WRONG.fullmatch(text)
    if wrong is not None:
        place = _place(wrong[4], whole)
        expected = kind(wrong[1]) + _bounds(wrong[2])
        if wrong[3] is None:
            return f"{place} is outside its bounds; expected: {expected}"
        return f"{place} is {kind(wrong[3])}; expected: {expected}"
    choice = _CHOICE.fullmatch(text)
    if choice is not None:
        return f"{_place(choice[1], whole)} is not one of the values that are allowed there"
    return f"{whole} cannot be read: {text[:1].lower()}{text[1:]}"


def _place(path: str | None, whole: str) -> str:
    """`$.events[0].type` -> `events[0].type of WHOLE`; the whole where there is no path."""
    inner = (path or "").removeprefix("$").lstrip(".")
    if not inner:
        return whole
    return f"{inner[:FIELD_CHARS_MAX]} of {whole}"


def _bounds(text: str) -> str:
    """What follows the kind of an expected value, as words."""
    found = text.strip()
    for sign, words in (
        (">=", "of at least"),
        ("<=", "of at most"),
        (">", "above"),
        ("<", "below"),
    ):
        found = found.replace(sign, words)
    found = found.replace("of length of at", "of a length of at")
    if found.startswith("matching regex"):
        return " of the documented form"
    return f" {found}" if found else ""
