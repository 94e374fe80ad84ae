"""Cutting what a record takes over from events to a bound; the events have the whole."""

from __future__ import annotations

from typing import TypeVar

from core.canonical import digest_text, sha256
from core.limits import (
    INTEGER_MAX,
    RECORD_LIST_MAX,
    RECORD_NAME_CHARS_MAX,
    RECORD_TEXT_CHARS_MAX,
)

Item = TypeVar("Item")
ELLIPSIS = "…"


def text(value: str | None) -> str | None:
    """The text, its end replaced by an ellipsis where it is long."""
    if value is None or len(value) <= RECORD_TEXT_CHARS_MAX:
        return value
    return value[: RECORD_TEXT_CHARS_MAX - 1] + ELLIPSIS


def total(value: int) -> int:
    """A sum of amounts, held at the largest integer that every reader takes (ENV-4)."""
    return (
        value
        if -INTEGER_MAX <= value <= INTEGER_MAX
        else max(-INTEGER_MAX, min(value, INTEGER_MAX))
    )


def name(value: str) -> str:
    """A name that serves as a key; a long one is replaced by its digest, so that keys differ."""
    if len(value) <= RECORD_NAME_CHARS_MAX:
        return value
    return digest_text(sha256(value.encode()))


def items(values: tuple[Item, ...]) -> tuple[Item, ...]:
    """The first RECORD_LIST_MAX items."""
    return values if len(values) <= RECORD_LIST_MAX else values[:RECORD_LIST_MAX]
