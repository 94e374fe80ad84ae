"""Where the words of a search stand in a text that is shown; a mark for the eye, not the search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from app.presenters.payloads import Block
from app.presenters.terminal import Segment, Shown, one_line
from core.errors import InvalidInput
from core.words import phrases

#: Marked places in one text; beyond them the rest is shown without marks (3,000 nodes a page).
MARKS_MAX = 60
CLASS = "hit"

#: A pattern that matches what was looked for, or None where nothing can be.
Words = re.Pattern[str] | None
_SIGNS = re.compile(r"\w+")


@lru_cache(maxsize=64)
def words(text: str) -> Words:
    """The pattern of a search text, as core.words cuts it."""
    try:
        found = phrases(text)
    except InvalidInput:
        return None
    parts = []
    for phrase in found:
        pieces = [re.escape(piece) for piece in _SIGNS.findall(phrase.text)]
        if pieces:
            end = r"\w*" if phrase.prefix else r"(?!\w)"
            parts.append(r"(?<!\w)" + r"\W{1,4}".join(pieces) + end)
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def pieces(text: str, pattern: Words, limit: int = MARKS_MAX) -> tuple[tuple[str, bool], ...]:
    """The text as (piece, is it marked)."""
    if pattern is None:
        return ((text, False),)
    found: list[tuple[str, bool]] = []
    at = 0
    for number, match in enumerate(pattern.finditer(text)):
        if number >= limit:
            break
        if match.start() > at:
            found.append((text[at : match.start()], False))
        found.append((match.group(), True))
        at = match.end()
    if at < len(text) or not found:
        found.append((text[at:], False))
    return tuple(found)


#: Characters of a payload that are searched for the place of a hit, and shown around it.
EXCERPT_CHARS = 16_384
_BEFORE, _AFTER = 24, 72
_ESCAPES = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


def excerpt(payload: bytes, pattern: Words) -> str:
    """The words around the first hit in a payload's JSON, on one line; empty: none is found."""
    if pattern is None:
        return ""
    text = _ESCAPES.sub(" ", payload[:EXCERPT_CHARS].decode("utf-8", "replace"))
    match = pattern.search(text)
    if match is None:
        return ""
    start = max(0, match.start() - _BEFORE)
    cut = one_line(text[start : match.end() + _AFTER].replace("\n", " "), 160)
    return ("…" if start else "") + cut


def shown(text: Shown, pattern: Words) -> Shown:
    """A shown text with its hits as pieces of their own; as it is where it has none."""
    if pattern is None:
        return text
    left = MARKS_MAX
    segments: list[Segment] = []
    for segment in text.segments:
        for piece, marked in pieces(segment.text, pattern, left):
            left -= marked
            css = f"{segment.classes} {CLASS}".strip() if marked else segment.classes
            segments.append(Segment(piece, css))
    return text if left == MARKS_MAX else replace(text, segments=tuple(segments))


def blocks(found: Sequence[Block], pattern: Words) -> tuple[Block, ...]:
    """Blocks of a payload with the hits in their texts marked."""
    if pattern is None:
        return tuple(found)
    marked = []
    for block in found:
        if block.shown is not None and block.shown.segments:
            block = replace(block, shown=shown(block.shown, pattern))  # noqa: PLW2901
        if block.messages:
            block = replace(  # noqa: PLW2901
                block,
                messages=tuple(
                    replace(message, shown=shown(message.shown, pattern))
                    if message.shown is not None
                    else message
                    for message in block.messages
                ),
            )
        marked.append(block)
    return tuple(marked)
