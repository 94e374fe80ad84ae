"""Where the words of a search stand in a text that is shown; a mark for the eye, not the search."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from app.presenters.payloads import Block
from app.presenters.terminal import Segment, Shown, one_line
from core.errors import InvalidInput
from core.words import phrases, unspaced

#: Marked places in one text; beyond them the rest is shown without marks (3,000 nodes a page).
MARKS_MAX = 60
CLASS = "hit"

#: A pattern that matches what was looked for in a folded text, or None where nothing can be.
Words = re.Pattern[str] | None
_SIGNS = re.compile(r"[^\W_]+")


class _Folded(dict[int, int]):
    """Signs without their accents, one for one, so that places stay the same."""

    def __missing__(self, code: int) -> int:
        plain = unicodedata.normalize("NFD", chr(code))[:1]
        found = self[code] = ord(plain) if plain else code
        return found


_FOLDED = _Folded()


def fold(text: str) -> str:
    """A text as the index compares it, sign for sign: without accents. Letter case is left to the
    pattern."""
    return text if text.isascii() else text.translate(_FOLDED)


@lru_cache(maxsize=64)
def words(text: str) -> Words:
    """The pattern of a search text, as core.words cuts it."""
    try:
        found = phrases(text)
    except InvalidInput:
        return None
    parts = []
    for phrase in found:
        signs = _SIGNS.findall(fold(phrase.text))
        if signs:
            parts.append(_pattern(signs, prefix=phrase.prefix))
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def _pattern(signs: Sequence[str], *, prefix: bool) -> str:
    """Words side by side. A sign of a script without spaces is a word wherever it stands."""
    body = re.escape(signs[0])
    for before, sign in pairwise(signs):
        least = 0 if unspaced(before) or unspaced(sign) else 1
        body += rf"[\W_]{{{least},4}}{re.escape(sign)}"
    start = "" if unspaced(signs[0]) else r"(?<![^\W_])"
    end = "" if unspaced(signs[-1]) else r"[^\W_]*" if prefix else r"(?![^\W_])"
    return start + body + end


def pieces(text: str, pattern: Words, limit: int = MARKS_MAX) -> tuple[tuple[str, bool], ...]:
    """The text as (piece, is it marked)."""
    if pattern is None:
        return ((text, False),)
    found: list[tuple[str, bool]] = []
    at = 0
    for number, match in enumerate(pattern.finditer(fold(text))):
        if number >= limit:
            break
        if match.start() > at:
            found.append((text[at : match.start()], False))
        found.append((text[match.start() : match.end()], True))
        at = match.end()
    if at < len(text) or not found:
        found.append((text[at:], False))
    return tuple(found)


#: Characters before and after the first hit of an excerpt.
_BEFORE, _AFTER = 24, 96


def excerpt(text: str, pattern: Words) -> str:
    """The words around the first hit in a text, on one line; empty: none is found."""
    match = pattern.search(fold(text)) if pattern is not None else None
    if match is None:
        return ""
    start = max(0, match.start() - _BEFORE)
    around = " ".join(text[start : match.end() + _AFTER].split())
    return ("…" if start else "") + one_line(around, 200)


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
