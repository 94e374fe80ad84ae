"""Secrets that are known by the name they stand under: `"api_key": "..."`, `DB_PASSWORD=...`.

The value is found at whatever depth of quoting the name stands: in JSON, in JSON inside a JSON
string, in a shell line, in source code. What is plainly no secret (a stand-in, a variable, a call)
is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ingest.redact_strings import Strings

Hit = tuple[str, int, int]

_NUMBER, _BEARER = 60, 61
NEWEST = 61
RULE, BEARER_RULE = "named-secret", "authorization"

VALUE_BYTES_MIN = 6
VALUE_BYTES_MAX = 8192
LONG_VALUE_BYTES = 200
_NAME_BYTES_MAX = 48

#: The last word of a name, on lower-cased bytes; each begins with plain bytes, to be quick.
_ANCHORS = tuple(
    re.compile(pattern + rb"(?![a-z0-9_-])")
    for pattern in (
        rb"pass(?:w(?:or)?d|phrase|code)?[0-9]?",
        rb"pwd",
        rb"secret",
        rb"token",
        rb"key",
        rb"authorization",
    )
)
#: Endings that mean a secret wherever they stand, after `_`, `-` and `.` were taken out.
_STRONG = (
    b"password", b"passwd", b"passphrase", b"passcode", b"secret", b"apikey", b"secretkey",
    b"accesskey", b"privatekey", b"signingkey", b"encryptionkey", b"masterkey", b"accountkey",
    b"authkey", b"servicekey", b"webhookkey", b"accesstoken", b"refreshtoken", b"authtoken",
    b"apitoken", b"sessiontoken", b"securitytoken", b"bearertoken", b"bottoken", b"deploytoken",
    b"oauthtoken", b"usertoken", b"privatetoken", b"idtoken", b"authorization",
)  # fmt: skip
#: Names like the ones above that hold nothing secret.
_OPEN = re.compile(rb"public|publishable|^(?:no|has|is|num)[_-]")
_AFTER = re.compile(
    rb"(?P<close>\\{0,16}[\"'`])?\]?[ \t]{0,3}(?P<sep>=>|:=|[=:])[ \t]{0,3}"
    rb"(?P<scheme>(?i:bearer|basic|digest|token|apikey) {1,2})?(?P<open>\\{0,16}[\"'`])?"
)
_SCHEME = re.compile(rb"(?i:bearer|basic|digest|token|apikey) {1,2}")
#: Escapes that are one visible character of a value at some depth of JSON.
_ESCAPED = rb"\\{1,16}(?:u(?!00[0-2])[0-9a-fA-F]{4}|/)"
#: The groups are not possessive: before Python 3.11.5 a possessive group that holds alternatives
#: matches wrongly. Their alternatives begin differently, so a failing match still ends at once.
_BARE = re.compile(rb"(?:[^\s\"'`\\,;&|<>(){}\[\]]{1,1024}+|" + _ESCAPED + rb"){1,64}")
_QUOTED = re.compile(rb"(?:[^'`\"\\\n]{1,1024}+|" + _ESCAPED + rb"){1,64}")
_BEARER_AT = re.compile(rb"bearer {1,2}(?P<secret>[a-z0-9._~+/-]{16,4096}={0,2})")
_RANDOM = re.compile(rb"(?=[^\s]{0,400}?[0-9])(?=[^\s]{0,400}?[A-Za-z])[A-Za-z0-9_./+=~:-]{16,}\Z")
_STAND_IN = re.compile(
    rb"(?i:(?:your|my|test|fake|dummy|example|sample|mock|insert|enter|change|replace)[ _-].{0,100}"
    rb"|none|null|true|false|undefined|optional|string|value|default|required|changeme"
    rb"|password|passwd|secret|token|api[ _-]?key|hidden|masked|redacted|missing"
    rb"|x{3,}.{0,80}|\*+.{0,80}|\.{2,}.{0,20}|.{0,12}\.\.\..{0,12}|.{0,12}\*{3,}.{0,12})\Z"
)
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_][A-Za-z_0-9]*)+\Z")
_WORD = bytes(
    code if 48 <= code < 58 or 65 <= code < 91 or 97 <= code < 123 or code in b"_-" else 32
    for code in range(256)
)


def find(data: bytes, low: bytes, newest: int) -> Iterator[Hit]:
    """What stands under a name of a secret, and behind `Bearer`, in no order; `low` is `data` in
    lower case."""
    if newest < _NUMBER:
        return
    strings = Strings(data)
    for anchor in _ANCHORS:
        skip = 0
        for match in anchor.finditer(low):
            if match.start() < skip:
                continue
            span = _under_name(data, strings, *match.span())
            if span is None:
                # A long value that is none holds no further names, or this could take for ever.
                skip = _long_value_end(data, match.end())
            else:
                skip = span[1]
                yield RULE, *span
    if newest < _BEARER:
        return
    for match in _BEARER_AT.finditer(low):
        start, end = match.span("secret")
        value = data[start:end]
        if _RANDOM.match(value) and not is_stand_in(value):
            yield BEARER_RULE, start, end


def _under_name(data: bytes, strings: Strings, start: int, end: int) -> tuple[int, int] | None:
    after = _AFTER.match(data, end)
    if after is None:
        return None
    name = _name(data, start, end)
    strength = _strength(name)
    if not strength:
        return None
    close, opened = after["close"], after["open"]
    at = after.end()
    if opened is None:
        if close is not None and close.endswith(b'"'):
            return None  # a number, an object, null
        return _bare(data, at, name, after["sep"], strength)
    if opened == b'"' and close != b'"':
        string = strings.around(after.start("open"))
        if string is not None and string[0] != after.start("open"):
            return None  # the end of the string that the name stands in
    return _quoted(data, at, opened, strength)


def _long_value_end(data: bytes, end: int) -> int:
    """Where the value behind a name ends, if it is a long one without spaces; else 0."""
    if data[end : end + 1] not in (b"=", b":"):
        return 0
    value = _BARE.match(data, end + 1)
    return value.end() if value is not None and value.end() - end > LONG_VALUE_BYTES else 0


def _name(data: bytes, start: int, end: int) -> bytes:
    r"""The whole name that ends at `end`; an escape before it (`\n`) is no part of it."""
    left = max(0, start - _NAME_BYTES_MAX)
    begin = left + data[left:start].translate(_WORD).rfind(b" ") + 1
    if begin and data[begin - 1] == 0x5C and data[begin] in b"bfnrt" and begin < start:
        begin += 1
    return data[begin:end]


def _strength(name: bytes) -> int:
    """2: a secret stands there; 1: perhaps, where it looks random; 0: no."""
    low = name.lower()
    if _OPEN.search(low):
        return 0
    plain = low.replace(b"_", b"").replace(b"-", b"").rstrip(b"0123456789")
    if plain.endswith(_STRONG):
        return 2
    upper = name.isupper()
    if plain.endswith(b"token"):
        return 2 if upper and b"_" in name else 1
    if low.endswith((b"_pass", b"_pwd", b"-pass")) or (upper and plain in (b"pgpass",)):
        return 2
    return 0


def _quoted(data: bytes, at: int, opened: bytes, strength: int) -> tuple[int, int] | None:
    if opened.endswith(b'"'):
        end = _string_end(data, at, len(opened) - 1)
    else:
        inside = _QUOTED.match(data, at)
        end = inside.end() if inside is not None and data[inside.end() :][:1] == opened[-1:] else -1
        if len(opened) > 1 and inside is not None:
            end = inside.end() if data.startswith(opened, inside.end()) else -1
    if end < 0:
        return None
    scheme = _SCHEME.match(data, at, end)
    start = scheme.end() if scheme is not None else at
    value = data[start:end]
    if len(value) < VALUE_BYTES_MIN or is_stand_in(value):
        return None
    if strength < 2 and not _RANDOM.match(value):
        return None
    if b" " in value and not re.search(rb"[0-9]", value):
        return None  # a label or a sentence
    return start, end


def _string_end(data: bytes, at: int, depth: int) -> int:
    r"""Where the string ends that was opened by `depth` backslashes and a quote; -1: too far."""
    limit = min(len(data), at + VALUE_BYTES_MAX)
    line = data.find(b"\n", at, limit)
    limit = limit if line < 0 else line
    look = at
    while (quote := data.find(b'"', look, limit)) >= 0:
        first = quote
        while first > at and data[first - 1] == 0x5C:
            first -= 1
        slashes = quote - first
        if slashes < depth:
            return -1  # the outer string ended first
        if slashes % (2 * (depth + 1)) == depth:
            return quote - depth
        look = quote + 1
    return -1


def _bare(
    data: bytes, at: int, name: bytes, separator: bytes, strength: int
) -> tuple[int, int] | None:
    match = _BARE.match(data, at)
    if match is None:
        return None
    start, end = match.span()
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    value = data[start:end]
    if len(value) < VALUE_BYTES_MIN or value[:1] in b"$%=" or is_stand_in(value):
        return None
    if data[end : end + 1] in (b"(", b"[", b"{") or _IDENTIFIER.match(value):
        return None  # a call, a lookup, a type
    if strength < 2:
        return (start, end) if _RANDOM.match(value) else None
    if name.isupper() and separator == b"=":
        return start, end
    if re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value):
        return start, end
    return None


def is_stand_in(value: bytes) -> bool:
    """A word that people write instead, a variable, a template, or what is redacted already."""
    if value.startswith((b"<", b"$", b"{", b"%", b"[redac")):
        return True
    return _STAND_IN.match(value[:128]) is not None
