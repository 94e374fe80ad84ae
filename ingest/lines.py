"""Cutting a growing file of JSON lines into segments of whole lines, and reading the lines.

INVARIANTS
1. A segment holds whole lines and at least one; memory is bounded by the longest line that is
   read, not by the file. Of a longer one only its length and digest are taken.
2. A last line that has no end and is not a whole JSON object is never part of a segment.
3. A line that cannot be read is given with its number and the reason; it stops nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, BinaryIO

from core.canonical import canonical
from core.errors import InvalidInput
from core.limits import (
    IMPORT_VALUE_BYTES_MAX,
    LOG_OBJECTS_MAX,
    LOG_SEGMENT_BYTES_MAX,
    LOG_SEGMENT_LINES_MAX,
)
from core.strictjson import StrictDecoder, decode_text, loads
from ingest import document
from ingest.base import Line

_BOM = b"\xef\xbb\xbf"
_CHUNK_BYTES = 256 * 1024
#: A line longer than this is measured before it is held.
_LOOK_BYTES = min(LOG_SEGMENT_BYTES_MAX, IMPORT_VALUE_BYTES_MAX)
_DECODER = StrictDecoder(big_integers_as_text=True)
_FIRST, _LAST = "\ud800", "\udfff"


@dataclass(frozen=True, slots=True)
class LongLine:
    """A whole line that is longer than is read."""

    length: int
    """Bytes, with its end."""
    digest: str
    """`sha256:...` of them."""

    def stand_in(self, number: int, start: int) -> bytes:
        """The line that is kept in its place: line `number` of the source, from byte `start`."""
        said = {
            "left_out": "a line of the source that is longer than is read",
            "line": number,
            "first_byte": start,
            "bytes": self.length,
            "digest": self.digest,
        }
        return canonical(said) + b"\n"


def stood_in(data: bytes) -> Line:
    """The line that such a stand-in is, with what it says."""
    said = loads(data)
    first, length = said["first_byte"], said["bytes"]
    why = (
        f"it is {length:,} bytes long, and at most {IMPORT_VALUE_BYTES_MAX:,} (64 MiB) of one line "
        f"are read: its bytes ({first} up to {first + length} of the source, {said['digest']}) are "
        "not kept"
    )
    text = data.removesuffix(b"\n")
    return Line(said["line"], 0, len(text), text, None, why, kept=False)


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines of a source, and what follows them where that is no whole line yet."""

    data: bytes
    """Whole lines with their ends; empty where there is none."""
    more: bool
    """Whether further whole lines follow."""
    unfinished: int
    """Bytes of a last line that is not whole; 0 where `more`."""
    long: LongLine | None = None
    """Instead of `data`: a line that is too long to be read."""


def next_piece(file: BinaryIO, start: int, end: int) -> Piece:
    """The whole lines from byte `start` on, at most one segment of them; the file ends at `end`.

    A line longer than IMPORT_VALUE_BYTES_MAX is a piece of its own.
    """
    file.seek(start)
    held, newlines, looked = bytearray(), 0, False
    while len(held) < end - start:
        enough = len(held) > LOG_SEGMENT_BYTES_MAX or newlines >= LOG_SEGMENT_LINES_MAX
        if newlines and enough:
            break
        if not newlines and not looked and len(held) > _LOOK_BYTES:
            looked = True
            if (long := _long_piece(file, start, end)) is not None:
                return long
            file.seek(start + len(held))
        chunk = file.read(min(_CHUNK_BYTES, end - start - len(held)))
        if not chunk:
            return _last_piece(held)  # It became shorter meanwhile: what is there is read.
        newlines += chunk.count(b"\n")
        held += chunk
    else:
        return _last_piece(held)
    whole = _cut(held)
    return Piece(bytes(held[:whole]), True, 0)


def _long_piece(file: BinaryIO, start: int, end: int) -> Piece | None:
    """The line from byte `start` on, looked at a chunk at a time; None where it is read."""
    file.seek(start)
    length, digest = 0, hashlib.sha256()
    while chunk := file.read(min(_CHUNK_BYTES, end - start - length)):
        newline = chunk.find(b"\n")
        part = chunk if newline < 0 else chunk[: newline + 1]
        digest.update(part)
        length += len(part)
        if newline >= 0:
            if length - 1 <= IMPORT_VALUE_BYTES_MAX:
                return None
            line = LongLine(length, "sha256:" + digest.hexdigest())
            return Piece(b"", start + length < end, 0, line)
    return Piece(b"", False, length) if length > IMPORT_VALUE_BYTES_MAX else None


def _last_piece(held: bytearray) -> Piece:
    """`held` is all that is left of the source."""
    whole = held.rfind(b"\n") + 1
    if whole > LOG_SEGMENT_BYTES_MAX or held.count(b"\n") > LOG_SEGMENT_LINES_MAX:
        cut = _cut(held)
        if cut < whole:
            return Piece(bytes(held[:cut]), True, 0)
    rest = bytes(held[whole:])
    if not rest.strip():
        return Piece(bytes(held[:whole]), False, 0)
    finished = rest.rstrip().endswith(b"}") and decode(rest.removeprefix(_BOM))[0] is not None
    if not finished:
        return Piece(bytes(held[:whole]), False, len(rest))
    full = len(held) > LOG_SEGMENT_BYTES_MAX or held.count(b"\n") >= LOG_SEGMENT_LINES_MAX
    if whole and full:
        return Piece(bytes(held[:whole]), True, 0)
    return Piece(bytes(held), False, 0)


def _cut(held: bytearray) -> int:
    """Where the first segment of `held` ends; it holds at least one line's end."""
    cut = held.rfind(b"\n", 0, LOG_SEGMENT_BYTES_MAX) + 1
    if not cut:
        return held.find(b"\n") + 1
    if held.count(b"\n", 0, cut) > LOG_SEGMENT_LINES_MAX:
        at = -1
        for _ in range(LOG_SEGMENT_LINES_MAX):
            at = held.find(b"\n", at + 1)
        cut = at + 1
    return cut


def read_lines(data: bytes, first: int, *, begins: bool) -> tuple[tuple[Line, ...], int]:
    """(lines of a segment without blank ones, how many were read only after a repair).

    `first` is the number of its first line; `begins`: the segment begins the source, where a byte
    order mark may stand. A lone half of a surrogate pair is read as U+FFFD: a repair.
    """
    found: list[Line] = []
    start, number, repaired = 0, first, 0
    while start < len(data):
        newline = data.find(b"\n", start)
        end = newline if newline >= 0 else len(data)
        after = end + 1
        if data[end - 1 : end] == b"\r" and end > start:
            end -= 1
        if begins and start == 0 and data.startswith(_BOM):
            start = len(_BOM)
        text = data[start:end]
        if text.strip():
            value, why, was_repaired = decode(text)
            repaired += was_repaired
            found.append(Line(number, start, end, text, value, why))
        start, number = after, number + 1
    return tuple(found), repaired


def decode(text: bytes) -> tuple[dict[str, Any] | None, str, bool]:
    """(the object, why it could not be read, whether it needed a repair) of one line."""
    repaired = False
    try:
        document.check_values(text)
        try:
            value = loads(text, decoder=_DECODER)
        except InvalidInput as error:
            if error.data.get("reason") != "lone_surrogate":
                raise
            value, repaired = _without_halves(_DECODER.decode(decode_text(text))), True
    except InvalidInput as error:
        return None, str(error).removeprefix("line 1, "), False
    if not isinstance(value, dict):
        return None, "it is JSON, but no object", False
    if text.count(b"{") > LOG_OBJECTS_MAX and (found := objects(value)) > LOG_OBJECTS_MAX:
        return (
            None,
            f"it holds {found:,} objects in lists; at most {LOG_OBJECTS_MAX:,} are read",
            False,
        )
    return value, "", repaired


def objects(value: Any) -> int:
    """Objects that lie in a list, anywhere in a JSON value of bounded depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    held = sum(isinstance(one, dict) for one in value) if isinstance(value, list) else 0
    return held + sum(objects(one) for one in inner if isinstance(one, dict | list))


def fitting(found: tuple[Line, ...]) -> int:
    """How many of these lines, at least one, hold no more than LOG_OBJECTS_MAX objects in lists."""
    room = LOG_OBJECTS_MAX
    if sum(line.data.count(b"{") for line in found) <= room:
        return len(found)
    for number, line in enumerate(found):
        room -= objects(line.value) if line.value is not None else 0
        if room < 0 and number:
            return number
    return len(found)


def _without_halves(value: Any) -> Any:
    """The value with U+FFFD for each lone half of a surrogate pair; its depth is bounded."""
    if isinstance(value, str):
        return "".join("\ufffd" if _FIRST <= char <= _LAST else char for char in value)
    if isinstance(value, list):
        return [_without_halves(item) for item in value]
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(item) for key, item in value.items()}
    return value


def first_line(file: BinaryIO, end: int) -> bytes | None:
    """The first line that is not blank, without its end; None where none is whole yet."""
    start = 0
    while start < end:
        file.seek(start)
        head = bytearray()
        while b"\n" not in head and len(head) < min(end - start, IMPORT_VALUE_BYTES_MAX):
            chunk = file.read(min(_CHUNK_BYTES, end - start - len(head)))
            if not chunk:
                break
            head += chunk
        newline = head.find(b"\n")
        if newline < 0 and len(head) >= IMPORT_VALUE_BYTES_MAX:
            return None  # Too long to be read: it tells nothing.
        line = bytes(head[: newline if newline >= 0 else len(head)])
        if line.strip():
            whole = newline >= 0 or decode(line.removeprefix(_BOM))[0] is not None
            return line.removesuffix(b"\r").removeprefix(_BOM) if whole else None
        if newline < 0:
            return None
        start += newline + 1
    return None
