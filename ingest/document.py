"""A whole JSON document with the byte span of each part, read in bounded memory.

The decoder is the strict one (`core.strictjson`): duplicate keys, NaN, lone surrogates and deep
nesting are refused. Integers beyond 2^53-1 are kept as text, since an original may hold them.
A byte order mark is skipped.

Every refusal names line, column and byte, and shows the bytes around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from core.errors import ImportRefused, InvalidInput
from core.limits import (
    IMPORT_DOCUMENT_EVENTS_MAX,
    IMPORT_DOCUMENT_VALUES_MAX,
    IMPORT_VALUE_BYTES_MAX,
    MIB,
)
from core.strictjson import StrictDecoder, check_depth, check_surrogates, decode_text

_BOM = b"\xef\xbb\xbf"
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = StrictDecoder(big_integers_as_text=True)
_CHUNK_BYTES = MIB
_AROUND_BYTES = 40

#: First bytes that say what a file is instead of JSON text: (offset, bytes, what, what to do).
MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x1f\x8b", "gzip", "unpack it first (gunzip)"),
    (0, b"PK\x03\x04", "a zip archive", "unpack it first (unzip)"),
    (0, b"PK\x05\x06", "an empty zip archive", "unpack it first (unzip)"),
    (0, b"\x28\xb5\x2f\xfd", "zstandard", "unpack it first (zstd -d)"),
    (0, b"BZh", "bzip2", "unpack it first (bunzip2)"),
    (0, b"\xfd7zXZ\x00", "xz", "unpack it first (unxz)"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-zip", "unpack it first"),
    (0, b"\xff\xfe\x00\x00", "UTF-32 text", "save it as UTF-8"),
    (0, b"\x00\x00\xfe\xff", "UTF-32 text", "save it as UTF-8"),
    (0, b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (0, b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
    (0, b"{\x00", "UTF-16 text without a mark", "save it as UTF-8"),
    (0, b"[\x00", "UTF-16 text without a mark", "save it as UTF-8"),
    (0, b"\x00{", "UTF-16 text without a mark", "save it as UTF-8"),
    (0, b"\x00[", "UTF-16 text without a mark", "save it as UTF-8"),
    (0, b"SQLite format 3\x00", "a SQLite database", "this version reads no databases"),
    (0, b"\x7fELF", "a program", "name the trajectory file"),
    (0, b"%PDF", "a PDF document", "name the trajectory file"),
    (0, b"\x89PNG", "an image", "name the trajectory file"),
    (0, b"\xff\xd8\xff", "an image", "name the trajectory file"),
    (257, b"ustar", "a tar archive", "unpack it first (tar -x)"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One value of the document and its bytes there."""

    value: Any
    start: int
    """First byte in the document."""
    end: int
    """One past the last byte."""


@dataclass(frozen=True, slots=True)
class Document:
    """A top-level object or list, with spans."""

    data: bytes
    is_list: bool
    fields: dict[str, Part]
    """Top-level fields, without the list that was asked for; empty for a list."""
    items: tuple[Part, ...]
    """Elements of that list, or of the document where it is a list."""
    has_items: bool
    lines: int

    def raw(self, part: Part) -> bytes:
        """The bytes of a part."""
        return self.data[part.start : part.end]


def recognise_foreign_bytes(head: bytes, *, first_line_only: bool = False) -> None:
    """ImportRefused with a hint if the first bytes say that this is no JSON text.

    `first_line_only`: a NUL further on is a bad line of a log, not a sign of another format.
    """
    for offset, magic, what, advice in MAGIC:
        if head[offset : offset + len(magic)] == magic:
            raise ImportRefused(
                f"the first bytes look like {what}: {advice}, then import the result",
                where="byte 0",
                offset=0,
                around=printable(head[: _AROUND_BYTES * 2]),
                reason="container",
            )
    at = (head.partition(b"\n")[0] if first_line_only else head).find(b"\x00")
    if at >= 0:
        raise ImportRefused(
            f"byte {at} is NUL, so this is binary data and no JSON text",
            where=f"byte {at}",
            offset=at,
            around=around(head, at),
            reason="binary",
        )


def refuse_long_lines(file: BinaryIO, size: int, progress: Callable[[int], None]) -> None:
    """ImportRefused if one line is longer than IMPORT_VALUE_BYTES_MAX; holds one chunk at a time.

    `progress` gets the bytes read so far. The file is left at its start.
    """
    file.seek(0)
    length, done, line = 0, 0, 1
    long_line = 0
    while done < size and (chunk := file.read(min(_CHUNK_BYTES, size - done))):
        done += len(chunk)
        progress(min(done, size))
        pieces = chunk.split(b"\n")
        for index, piece in enumerate(pieces):
            if index:
                if long_line:
                    raise _too_long(long_line, length)
                line, length = line + 1, 0
            length += len(piece)
            if length > IMPORT_VALUE_BYTES_MAX:
                long_line = line
    if long_line:
        raise _too_long(long_line, length)
    file.seek(0)


def _too_long(line: int, length: int) -> ImportRefused:
    return ImportRefused(
        f"line {line} is {length:,} bytes long; a value of at most {IMPORT_VALUE_BYTES_MAX:,} "
        "bytes (64 MiB) is read",
        where=f"line {line}",
        line=line,
        size=length,
        reason="too_large",
    )


def read_whole(file: BinaryIO, size: int, what: str) -> bytes:
    """The bytes of a whole-document format; ImportRefused above IMPORT_VALUE_BYTES_MAX."""
    if size > IMPORT_VALUE_BYTES_MAX:
        raise ImportRefused(
            f"{what} is one JSON document of {size:,} bytes; a value of at most "
            f"{IMPORT_VALUE_BYTES_MAX:,} bytes (64 MiB) is read",
            where="the whole file",
            size=size,
            reason="too_large",
        )
    file.seek(0)
    data = file.read(IMPORT_VALUE_BYTES_MAX + 1)
    if len(data) > IMPORT_VALUE_BYTES_MAX:
        raise ImportRefused("the file grew while it was read", reason="changed")
    return data


def parse(data: bytes, list_key: str) -> Document:
    """The document with its top-level fields and the elements of the list `list_key`.

    Raises ImportRefused with place and reason.
    """
    scanner = _Scanner(data)
    return scanner.document(list_key)


class _Scanner:
    """Walks the top two levels by hand; the decoder reads everything below."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._skip = len(_BOM) if data.startswith(_BOM) else 0
        body = data[self._skip :] if self._skip else data
        try:
            check_values(body)
            check_depth(body)
            self._text = decode_text(body)
        except InvalidInput as error:
            offset = error.data.get("offset")
            at = (offset if isinstance(offset, int) else 0) + self._skip
            raise self._refused_at_byte(str(error), at, error.data.get("reason")) from error
        self._ascii = self._text.isascii()
        self._last_char = 0
        self._last_byte = self._skip
        self._at = 0
        self._inside = "the document"

    def document(self, list_key: str) -> Document:
        """Parse everything."""
        self._space()
        lines = self._data.count(b"\n") + (0 if self._data.endswith(b"\n") else 1)
        if self._peek() == "[":
            items = self._list("")
            result = Document(self._data, True, {}, items, True, lines)
        elif self._peek() == "{":
            fields, found = self._object(list_key)
            result = Document(self._data, False, fields, found or (), found is not None, lines)
        elif self._at >= len(self._text):
            raise self._refused("the file is empty: it holds only white space", reason="empty")
        else:
            raise self._refused(
                "this is no JSON object or list: it begins with "
                f"{printable(self._text[self._at : self._at + 12].encode())}",
                reason="syntax",
            )
        self._inside = "the document"
        self._space()
        if self._at < len(self._text):
            raise self._refused(
                "there is text after the end of the JSON document", reason="trailing"
            )
        return result

    def _object(self, list_key: str) -> tuple[dict[str, Part], tuple[Part, ...] | None]:
        fields: dict[str, Part] = {}
        items: tuple[Part, ...] | None = None
        self._at += 1
        self._space()
        if self._peek() == "}":
            self._at += 1
            return fields, items
        while True:
            self._inside = "the document"
            key = self._key()
            if key in fields or (key == list_key and items is not None):
                raise self._refused(
                    f"the key {key[:60]!r} stands twice in the document, so readers disagree",
                    reason="duplicate_key",
                )
            self._inside = key[:60]
            if key == list_key and self._peek() == "[":
                items = self._list(list_key)
            else:
                fields[key] = self._value()
            self._inside = "the document"
            if self._more("}"):
                return fields, items

    def _key(self) -> str:
        if self._peek() != '"':
            raise self._refused("a key in double quotes is expected here", reason="syntax")
        key = self._value().value
        self._space()
        if self._peek() != ":":
            raise self._refused("a colon is expected here", reason="syntax")
        self._at += 1
        self._space()
        return str(key)

    def _list(self, name: str) -> tuple[Part, ...]:
        items: list[Part] = []
        self._at += 1
        self._space()
        if self._peek() == "]":
            self._at += 1
            return ()
        while True:
            self._inside = f"{name or 'element'} {len(items)}"
            if len(items) >= IMPORT_DOCUMENT_EVENTS_MAX:
                raise self._refused(
                    f"a list of more than {IMPORT_DOCUMENT_EVENTS_MAX:,} is more than is taken in "
                    "at once",
                    reason="too_large",
                )
            items.append(self._value())
            if self._more("]"):
                return tuple(items)

    def _more(self, close: str) -> bool:
        """Step over a comma (False) or the closing bracket (True)."""
        self._space()
        here = self._peek()
        if here == close:
            self._at += 1
            return True
        if here != ",":
            raise self._refused(f"a comma or {close} is expected here", reason="syntax")
        self._at += 1
        self._space()
        return False

    def _value(self) -> Part:
        start = self._at
        try:
            value, end = _DECODER.raw_decode(self._text, start)
            check_surrogates(self._text[start:end], value)
        except json.JSONDecodeError as error:
            self._at = error.pos
            torn = error.msg.startswith("Unterminated string")
            raise self._refused(error.msg, reason="syntax", torn=torn) from error
        except InvalidInput as error:
            raise self._refused(str(error), reason=error.data.get("reason")) from error
        except RecursionError as error:
            raise self._refused("the JSON is nested too deeply", reason="depth") from error
        byte_start = self._byte(start)
        self._at = end
        return Part(value, byte_start, self._byte(end))

    def _space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _byte(self, char: int) -> int:
        """Byte offset of a character; asked for in rising order, so it costs one pass."""
        if self._ascii:
            return char + self._skip
        if char < self._last_char:
            self._last_char, self._last_byte = 0, self._skip
        self._last_byte += len(self._text[self._last_char : char].encode())
        self._last_char = char
        return self._last_byte

    def _refused(self, why: str, *, reason: object, torn: bool = False) -> ImportRefused:
        if torn or (reason == "syntax" and self._at >= len(self._text.rstrip())):
            return self._refused_at_byte(
                f"the file ends inside {self._inside}: it is cut off "
                f"(after {len(self._data):,} bytes)",
                len(self._data),
                "truncated",
            )
        what = why if self._inside == "the document" else f"in {self._inside}: {why}"
        return self._refused_at_byte(what, self._byte(min(self._at, len(self._text))), reason)

    def _refused_at_byte(self, why: str, offset: int, reason: object) -> ImportRefused:
        line, column = line_and_column(self._data, offset)
        return ImportRefused(
            why,
            where=f"line {line}, column {column} (byte {offset})",
            line=line,
            column=column,
            offset=offset,
            around=around(self._data, offset),
            reason=reason,
        )


def check_values(body: bytes) -> None:
    """InvalidInput if there are more values than are held; builds none of them."""
    most, marks = IMPORT_DOCUMENT_VALUES_MAX, (b",", b"[", b"{")
    if sum(body.count(mark) for mark in marks) <= most:
        return  # Even if none of these marks stood inside a string.
    outside = _STRINGS.sub(b"", body)
    if sum(outside.count(mark) for mark in marks) > most:
        raise InvalidInput(
            f"the document holds more than {most:,} values, which is more than is taken in at once",
            reason="too_large",
        )


def line_and_column(data: bytes, offset: int) -> tuple[int, int]:
    """1-based line and column (in characters) of a byte."""
    begin = data.rfind(b"\n", 0, offset) + 1
    column = len(data[begin:offset].decode("utf-8", "replace")) + 1
    return data.count(b"\n", 0, offset) + 1, column


def around(data: bytes, offset: int) -> str:
    """The bytes around `offset`, printable, with a mark where it is."""
    before = printable(data[max(0, offset - _AROUND_BYTES) : offset])
    after = printable(data[offset : offset + _AROUND_BYTES])
    return f"{before}⟨here⟩{after}"


def printable(data: bytes) -> str:
    """Bytes as one line of text: what is not printable is escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
