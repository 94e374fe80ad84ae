"""What a full-text search found: where, and the words around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.presenters.terminal import one_line
from core.words import Phrase

AROUND_CHARS = 90


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an excerpt; `marked` is what was looked for."""

    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Found:
    """One event that holds what was looked for."""

    href: str
    more_href: str
    """All such events of its trajectory."""
    title: str
    trajectory_id: str
    where: str
    """`event 418, ToolResult`."""
    excerpt: tuple[Piece, ...]


def excerpt(text: str, phrases: Sequence[Phrase], around: int = AROUND_CHARS) -> tuple[Piece, ...]:
    """The words around the first place where one of the phrases stands, on one line."""
    pattern = _pattern(phrases)
    found = pattern.search(text)
    if found is not None:
        # One line of what stands around it, so that no blank runs take the place of words.
        begin = max(0, found.start() - 4 * around)
        text = " ".join(text[begin : found.end() + 4 * around].split())
        found = pattern.search(text)
    if found is None:
        # Accents and letter case are folded otherwise by the index.
        return (Piece(one_line(text, 2 * around), marked=False),)
    start = max(0, found.start() - around)
    end = min(len(text), found.end() + around)
    pieces = [Piece("…", marked=False)] if start else []
    at = start
    for match in pattern.finditer(text, start, end):
        pieces.append(Piece(one_line(text[at : match.start()], 400), marked=False))
        pieces.append(Piece(one_line(match[0], 200), marked=True))
        at = match.end()
    pieces.append(Piece(one_line(text[at:end], 400), marked=False))
    if end < len(text):
        pieces.append(Piece("…", marked=False))
    return tuple(piece for piece in pieces if piece.text)


def _pattern(phrases: Sequence[Phrase]) -> re.Pattern[str]:
    parts = []
    for phrase in phrases:
        words = re.findall(r"[^\W_]+", phrase.text)
        if words:
            body = r"[\W_]+".join(map(re.escape, words))
            parts.append(rf"(?<![^\W_]){body}" + ("" if phrase.prefix else r"(?![^\W_])"))
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)
