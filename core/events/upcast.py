"""Lifting old payloads: one converter per released step, chained.

A converter takes the decoded JSON object of version n and gives that of version n+1; stored
bytes are never changed (LOG-5). A changed payload comes with its converter here and a golden
history in tests/golden/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Converter = Callable[[dict[str, Any]], dict[str, Any]]

#: (type, from_version) -> converter to from_version + 1. Empty: every family is at version 1.
CONVERTERS: dict[tuple[str, int], Converter] = {}


def reaches(type_: str, version: int, target: int) -> bool:
    """Whether converters lead from `version` up to `target`."""
    return version < target and all((type_, v) in CONVERTERS for v in range(version, target))


def lift(type_: str, version: int, target: int, value: dict[str, Any]) -> dict[str, Any]:
    """The object of `version` as one of `target`; KeyError if a step is missing."""
    for step in range(version, target):
        value = CONVERTERS[type_, step](value)
    return value
