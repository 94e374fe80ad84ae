"""Untrusted text made fit to be looked at: controls visible, colours as classes, size bounded.

INVARIANTS
1. What comes out is plain text in segments; nothing here makes markup, templates escape it.
2. Every control, bidirectional and invisible character that could change what a reader sees is
   replaced by a visible name; newline and tab stay.
3. Only the colour and style codes of SGR are honoured; every other escape sequence (titles,
   links, cursor movement, clipboard) is dropped whole and counted.
4. At most SEGMENTS_MAX segments and the given number of characters, whatever the input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.limits import DISPLAY_CHARS_MAX

#: Coloured pieces of one text; beyond them the rest is shown without colour (3,000 nodes a page).
SEGMENTS_MAX = 300

#: Bidirectional overrides and isolates, marks, zero-width and other invisible characters, line
#: separators that editors break on, tag characters, and lone surrogates.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff"
)
_HIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_INVISIBLE}]")
_HIDDEN_LINE = re.compile(f"[\x00-\x1f\x7f-\x9f{_INVISIBLE}]")
#: Any escape sequence: CSI, OSC and other strings up to their end, two-character escapes.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_SGR = re.compile(r"(?:\x1b\[|\x9b)([0-9;:]*)m")

_NAMES = {
    0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO",
    0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0x200E: "LRM",
    0x200F: "RLM", 0x061C: "ALM", 0x200B: "ZWSP", 0x200C: "ZWNJ", 0x200D: "ZWJ",
    0xFEFF: "BOM", 0x00AD: "SHY", 0x2028: "LSEP", 0x2029: "PSEP", 0x2060: "WJ",
}  # fmt: skip


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xFE00 <= code <= 0xFE0F:
        # Variation selectors choose a drawing of the character before them; no meaning is lost.
        return ""
    return f"\u2039{_NAMES.get(code, f'U+{code:04X}')}\u203a"


def visible(text: str) -> str:
    """`text` with every hidden character named; newline and tab stay."""
    if text.isascii() and text.isprintable():
        return text  # Most of what a page shows, and each text of it passes here.
    return _HIDDEN.sub(_visible, text) if _HIDDEN.search(text) else text


def one_line(text: str, limit: int = 160) -> str:
    """The first line of a text: visible, escapes dropped, spaces joined, cut with an ellipsis."""
    head = text[: limit * 4].strip()
    if "\x1b" in head or "\x9b" in head:
        head = _ESCAPE.sub("", head)
    line, newline, _ = head.partition("\n")
    line = " ".join(line.split())
    line = _HIDDEN_LINE.sub(_visible, line) if _HIDDEN_LINE.search(line) else line
    if len(line) > limit:
        return line[: limit - 1] + "…"
    return line + " …" if newline or len(text) > limit * 4 else line


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of text in one style; `classes` is empty for plain text."""

    text: str
    classes: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text prepared for a page, and what was done to it."""

    segments: tuple[Segment, ...]
    chars: int
    """Characters of the whole text."""
    shown: int
    """Characters of it that are shown."""
    dropped_escapes: int = 0
    redrawn: int = 0
    """Lines whose earlier drawings (before a carriage return) are left out."""

    @property
    def cut(self) -> bool:
        """Whether less than the whole is shown."""
        return self.shown < self.chars


def plain(text: str, limit: int = DISPLAY_CHARS_MAX) -> Shown:
    """A text without colours: cut and made visible."""
    part = text[:limit]
    # A line's end is a line's end, however it is written; a lone carriage return stays visible.
    return Shown((Segment(visible(part.replace("\r\n", "\n"))),), len(text), len(part))


def terminal(text: str, limit: int = DISPLAY_CHARS_MAX) -> Shown:
    """Terminal output: colours as classes, other escapes dropped, redrawn progress folded."""
    part = text[:limit]
    body, redrawn = _last_drawn(part.replace("\r\n", "\n"))
    if "\x1b" not in body and "\x9b" not in body:
        return Shown((Segment(visible(body)),), len(text), len(part), 0, redrawn)
    segments: list[Segment] = []
    style: dict[str, str] = {}
    dropped = 0
    at = 0
    for match in _ESCAPE.finditer(body):
        if len(segments) >= SEGMENTS_MAX:
            break
        _add(segments, body[at : match.start()], style)
        at = match.end()
        sgr = _SGR.fullmatch(match.group())
        if sgr:
            _style(style, sgr.group(1))
        else:
            dropped += 1
    rest, stripped = _ESCAPE.subn("", body[at:])
    _add(segments, rest, style if len(segments) < SEGMENTS_MAX else {})
    return Shown(tuple(segments), len(text), len(part), dropped + stripped, redrawn)


def _last_drawn(text: str) -> tuple[str, int]:
    """The text with redrawn lines as they stood last, and how many there were."""
    if "\r" not in text:
        return text, 0
    lines = text.split("\n")
    redrawn = 0
    for index, line in enumerate(lines):
        kept = line.rstrip("\r")
        if "\r" in kept:
            redrawn += 1
            kept = kept[kept.rindex("\r") + 1 :]
        lines[index] = kept
    return "\n".join(lines), redrawn


def _add(segments: list[Segment], text: str, style: dict[str, str]) -> None:
    if not text:
        return
    classes = " ".join(style.values())
    shown = visible(text)
    if segments and segments[-1].classes == classes:
        segments[-1] = Segment(segments[-1].text + shown, classes)
    else:
        segments.append(Segment(shown, classes))


_ATTRIBUTES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_ENDS = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}


def _style(style: dict[str, str], codes: str) -> None:
    """Apply one SGR sequence; 256-colour and true-colour codes are skipped, not misread."""
    numbers = [
        int(code) if code.isdigit() and len(code) < 4 else 0 for code in re.split("[;:]", codes)
    ]
    index = 0
    while index < len(numbers):
        number = numbers[index]
        index += 1
        if number == 0:
            style.clear()
        elif number in _ATTRIBUTES:
            style[_ATTRIBUTES[number]] = f"a-{_ATTRIBUTES[number]}"
        elif number in _ENDS:
            for name in _ENDS[number]:
                style.pop(name, None)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            style["colour"] = f"a-{number}"
        elif number == 39:
            style.pop("colour", None)
        elif number in (38, 48, 58):
            index += 2 if index < len(numbers) and numbers[index] == 5 else 4
