"""Differences as runs of lines: unified diffs that a source gives, and changed values by path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from app.presenters.terminal import visible

#: Runs of one class in one diff; beyond them the rest is one uncoloured run.
RUNS_MAX = 400

Class = Literal["", "ins", "del", "hunk"]
_HEADER = re.compile(r"^(diff --git |--- \S|\*\*\* Begin Patch)", re.MULTILINE)
_HUNK = re.compile(r"^@@", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive lines of one class."""

    css: Class
    text: str


def looks_like_diff(text: str) -> bool:
    """Whether a text is a unified diff or a patch: a file header and a hunk near its start."""
    head = text[:4000]
    return bool(_HEADER.search(head) and _HUNK.search(head))


def runs(text: str) -> tuple[Run, ...]:
    """A unified diff as runs of added, removed, header and kept lines."""
    found: list[tuple[Class, list[str]]] = []
    lines = text.split("\n")
    for index, line in enumerate(lines):
        css = _class(line)
        if found and (found[-1][0] == css or len(found) >= RUNS_MAX):
            if len(found) >= RUNS_MAX:
                found[-1][1].extend(lines[index:])
                break
            found[-1][1].append(line)
        else:
            found.append((css, [line]))
    return tuple(Run(css, visible("\n".join(part))) for css, part in found)


def _class(line: str) -> Class:
    if line.startswith(("+++", "---", "@@", "diff ", "index ")):
        return "hunk"
    if line.startswith("+"):
        return "ins"
    return "del" if line.startswith("-") else ""
