"""Words of a text, for the full-text index and for what is looked for in it.

Both sides go through `spaced`, so that a text and a search for a part of it are cut alike.

INVARIANTS
1. What a person typed is only ever words and phrases; no sign in it has a meaning beyond quotes
   around a phrase and one `*` at the end of a word.
2. `phrases` never answers with nothing: a text without a word is refused by name.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from core.errors import InvalidInput
from core.limits import SEARCH_PHRASES_MAX

#: An unbroken run longer than this is data (base64, a digest of digests), not words.
RUN_CHARS_MAX = 200
_RUN = re.compile(rf"[A-Za-z0-9+/_=-]{{{RUN_CHARS_MAX},}}")
#: Whether there is such a run at all, found ten times as fast: each of its signs becomes an `a`.
_SIGNS = bytes(0x61 if re.match(r"[A-Za-z0-9+/_=-]", chr(n)) else 0x20 for n in range(256))
_LONG = b"a" * RUN_CHARS_MAX
#: Scripts that are written without spaces: each sign is a word of its own.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff])"
)
_PART = re.compile(r'"([^"]*)("|$)|([^\s"]+)')


class Phrase(NamedTuple):
    """Words that stand side by side; with `prefix` the last is the beginning of a word."""

    text: str
    prefix: bool


def spaced(text: str) -> str:
    """The text with what is no word taken out and unspaced scripts cut into signs."""
    if len(text) >= RUN_CHARS_MAX and _LONG in text.encode(errors="replace").translate(_SIGNS):
        text = _RUN.sub(" ", text)
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def unspaced(word: str) -> bool:
    """Whether a word is one sign of a script that is written without spaces."""
    return _UNSPACED.fullmatch(word) is not None


def phrases(text: str) -> tuple[Phrase, ...]:
    """What is looked for: words and quoted phrases; InvalidInput where there is no word."""
    found: list[Phrase] = []
    for match in _PART.finditer(text):
        quoted = match.group(3) is None
        part = match.group(1) if quoted else match.group(3)
        prefix = not quoted and part.endswith("*")
        part = spaced(part.rstrip("*") if prefix else part)
        if any(_in_word(sign) for sign in part):
            found.append(Phrase(part, prefix))
    if not found:
        raise InvalidInput(
            "a search looks for words: letters and digits, e.g. timeout, pars* or "
            '"connection refused"',
            field="text",
        )
    if len(found) > SEARCH_PHRASES_MAX:
        raise InvalidInput(
            f"a search holds at most {SEARCH_PHRASES_MAX} words and phrases; put words that stand "
            "side by side into double quotes",
            field="text",
        )
    return tuple(found)


def _in_word(sign: str) -> bool:
    category = unicodedata.category(sign)
    return category[0] in "LN" or category == "Co"
