r"""Secrets that are known by the words around them: cookies, passwords in commands, parts of keys.

They stand at any depth of JSON inside JSON, so a line's end may be `\n` behind any backslashes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingest.redact_names import is_stand_in
from ingest.redact_tokens import KEY_BODY, NUMBERED

Hit = tuple[str, int, int]

KEY_BYTES_MIN = 24
KEY_BYTES_MAX = 20_000
COMMAND_BYTES_MAX = 500

_QUOTE = rb"\\{0,16}[\"'`]"
#: What keys in the formats of PKCS 1 and SEC 1 begin with; others are runs (redact_tokens).
_KEY_HEADS = (
    (b"IBAAKC", re.compile(rb"MII[A-Za-z0-9+/]{2}[AQgw]\Z")),
    (b"MHcCAQEEI", re.compile(rb"\Z")),
    (b"AgEBB", re.compile(rb"MI[GH][A-Za-z0-9]\Z")),
)
_KEY_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BREAK = re.compile(rb"\\{1,16}n")
#: The last line of a stretch: base64 alone, but for its number; it may begin the text it is in.
_KEY_LINE = re.compile(
    rb"(?:^|[\"'`\n])(?:" + NUMBERED + rb")?(?P<secret>[A-Za-z0-9+/]{1,200}={0,2})(?:\\{1,16}r)?\Z"
)
_KEY_LINE_BYTES_MAX = 300

_COOKIE = re.compile(
    rb"cookie(?:" + _QUOTE + rb")?(?:[ \t]{0,3}[:=,][ \t]{0,3}| {1,3})(?:" + _QUOTE + rb")?"
)
_PAIR = re.compile(rb"(?P<name>[A-Za-z0-9_.%-]{1,80})=(?P<secret>[^\s\"'`\\;,]{0,4096})(?:; ?)?")
_PAIRS_MAX = 50
_SESSION = re.compile(rb"sess|sid|auth|token|jwt|csrf|xsrf|login|remember|credential")
_COOKIE_WORDS = frozenset((b"path", b"domain", b"expires", b"max-age", b"samesite", b"version"))
_LONG_RANDOM = re.compile(
    rb"(?=[^\s]{0,200}?[0-9])(?=[^\s]{0,200}?[A-Za-z])[A-Za-z0-9_./+=~%:|-]{24,4096}\Z"
)
_VALUE = (
    rb"(?:\\{0,16}[\"'`](?P<quoted>[^\"'`\\\n]{3,200})(?=\\{0,16}[\"'`])"
    rb"|(?P<secret>[^\s\"'`\\;|&]{3,200}))"
)
#: A shell's end of a command; a line's end that a backslash takes away is none.
_COMMAND_END = re.compile(rb"[;|][ \t]|&&|\n|(?<!\\)(?:\\{1,2}|\\{4}|\\{8})n")
_CURL = re.compile(rb"curl(?=[ \t])")
_CLIENTS = (
    re.compile(rb"mysql(?:dump|admin|import|check|show)?(?=[ \t])"),
    re.compile(rb"mariadb(?:-[a-z]{1,12})?(?=[ \t])"),
)
_USER = re.compile(
    rb"(?<=[ \t])(?:-[a-zA-Z]{0,5}u[ \t]{0,2}|--(?:proxy-)?user[ =]{1,2})"
    rb"(?:(?P<mark>"
    + _QUOTE
    + rb")[^\"'`\\:$<{]{1,100}:(?P<quoted>[^\"'`\\\n]{3,200})(?=(?P=mark))"
    rb"|[^\s\"'`\\:$<{]{1,100}:(?P<secret>[^\s\"'`\\]{3,200}))"
)
_SSHPASS = re.compile(rb"sshpass[ \t]{1,4}(?:-v[ \t]{1,4})?-p[ \t]{0,4}" + _VALUE)
_ATTACHED = re.compile(rb"(?<=[ \t])-p" + _VALUE)
_BLANK = rb"(?:[ \t]|\\{1,16}[nrt]){1,8}"
_LOGIN = (
    _BLANK + rb"login" + _BLANK + rb"[^\s\"'\\]{1,200}"
    + _BLANK + rb"password" + _BLANK + rb"(?P<secret>[^\s\"'\\]{3,200})"
)  # fmt: skip
_NETRC = re.compile(rb"machine" + _BLANK + rb"[^\s\"'\\]{1,200}" + _LOGIN)
_SIGNATURE = re.compile(rb"sig=(?P<secret>[A-Za-z0-9+/%_-]{40,200}={0,2})")
_AUTH = re.compile(
    rb"auth\\{0,16}\"[ \t]{0,3}:[ \t]{0,3}\\{0,16}\""
    rb"(?P<secret>[A-Za-z0-9+/]{6,4000}={0,2})\\{0,16}\""
)


@dataclass(frozen=True, slots=True)
class AroundRule:
    """A secret that other words announce."""

    number: int
    name: str
    words: tuple[bytes, ...]
    """In lower case; where none of them stands there is nothing to look for."""
    find: Callable[[bytes, bytes], Iterator[tuple[int, int]]]
    """The ranges, from the bytes and the same in lower case."""


def find(data: bytes, low: bytes, newest: int) -> Iterator[Hit]:
    """What the rules up to `newest` find, in no order; `low` is `data` in lower case."""
    for rule in AROUND:
        if rule.number <= newest and any(word in low for word in rule.words):
            for start, end in rule.find(data, low):
                yield rule.name, start, end


def _key_heads(data: bytes, _: bytes) -> Iterator[tuple[int, int]]:
    """From the first line of a private key on, where its BEGIN line was left out."""
    for word, before in _KEY_HEADS:
        at = 0
        while (found := data.find(word, at)) >= 0:
            at = found + len(word)
            head = before.search(data, max(0, found - 6), found)
            if head is None:
                continue
            start = head.start()
            if data[start - 1 : start].isalnum() and not _ends_escape(data, start):
                continue
            body = KEY_BODY.match(data, start)
            if body is not None:
                at = body.end()
                yield start, at


def _ends_escape(data: bytes, end: int) -> bool:
    return data[end - 2 : end] in (rb"\n", rb"\t", rb"\r")


def _key_tails(data: bytes, _: bytes) -> Iterator[tuple[int, int]]:
    """Lines before the END line of a private key, where its BEGIN line was left out."""
    for mark in _KEY_END.finditer(data):
        low = max(0, mark.start() - KEY_BYTES_MAX)
        low = max(low, data.rfind(b"\n", low, mark.start()) + 1)
        other = data.rfind(b"-----", low, mark.start())
        low = max(low, other + 5 if other >= 0 else 0)
        lines = list(_lines_before(data, low, mark.start()))
        if sum(end - start for start, end in lines) >= KEY_BYTES_MIN:
            yield from lines


def _lines_before(data: bytes, low: int, end: int) -> Iterator[tuple[int, int]]:
    breaks = list(_BREAK.finditer(data, low, end))
    # The END line may have a number of its own; what ends before its break is the last line.
    for one in reversed(breaks):
        edge = max(low, one.start() - _KEY_LINE_BYTES_MAX)
        begin = max(edge, _last_break(data, edge, one.start()))
        line = _KEY_LINE.search(data[begin : one.start()])
        if line is None:
            return
        yield begin + line.start("secret"), begin + line.end("secret")


def _last_break(data: bytes, low: int, end: int) -> int:
    """One past the last line's end between two places."""
    at = end
    while (at := data.rfind(b"n", low, at)) > low:
        if data[at - 1] == 0x5C:
            return at + 1
    return low


def _cookies(data: bytes, low: bytes) -> Iterator[tuple[int, int]]:
    """Values of cookies that hold a session, by their name or because they look random."""
    done = 0
    for found in _COOKIE.finditer(low):
        if found.start() < done:
            continue
        at = found.end()
        for _ in range(_PAIRS_MAX):
            pair = _PAIR.match(data, at)
            if pair is None:
                break
            at = done = pair.end()
            name, value = pair["name"].lower(), pair["secret"]
            if name in _COOKIE_WORDS or is_stand_in(value):
                continue
            least = 6 if _SESSION.search(name) else 24
            if len(value) >= least and (least < 24 or _LONG_RANDOM.match(value)):
                yield pair.span("secret")
            if data[at - 1] not in b"; ":
                break


def _commands(data: bytes, low: bytes, program: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Where the arguments of a program begin and end, a few hundred bytes of them."""
    at = 0
    while (found := program.search(low, at)) is not None:
        start = found.end()
        over = _COMMAND_END.search(data, start, start + COMMAND_BYTES_MAX)
        at = over.start() if over is not None else min(len(data), start + COMMAND_BYTES_MAX)
        yield start, at


def _users(data: bytes, low: bytes) -> Iterator[tuple[int, int]]:
    """`curl -u user:password`."""
    for start, end in _commands(data, low, _CURL):
        for found in _USER.finditer(data, start, end):
            yield from _value(found)


def _sshpass(data: bytes, _: bytes) -> Iterator[tuple[int, int]]:
    """`sshpass -p password`."""
    for found in _SSHPASS.finditer(data):
        yield from _value(found)


def _attached(data: bytes, low: bytes) -> Iterator[tuple[int, int]]:
    """`mysql -ppassword`."""
    for program in _CLIENTS:
        for start, end in _commands(data, low, program):
            for found in _ATTACHED.finditer(data, start, end):
                yield from _value(found)


def _value(found: re.Match[bytes]) -> Iterator[tuple[int, int]]:
    group = "secret" if found["secret"] is not None else "quoted"
    if not is_stand_in(found[group]):
        yield found.span(group)


def _netrc(data: bytes, _: bytes) -> Iterator[tuple[int, int]]:
    """`machine host login user password word`."""
    for found in _NETRC.finditer(data):
        if not is_stand_in(found["secret"]):
            yield found.span("secret")


def _signatures(data: bytes, _: bytes) -> Iterator[tuple[int, int]]:
    """The signature of a shared link."""
    for found in _SIGNATURE.finditer(data):
        if data[found.start() - 1 : found.start()] in (b"?", b"&", b";"):
            yield found.span("secret")


def _auths(data: bytes, _: bytes) -> Iterator[tuple[int, int]]:
    """User and password of a registry, in base64."""
    for found in _AUTH.finditer(data):
        try:
            plain = base64.b64decode(found["secret"], validate=True)
        except binascii.Error:
            continue
        user, colon, password = plain.partition(b":")
        if user and colon and password and all(0x20 <= code < 0x7F for code in plain):
            yield found.span("secret")


#: Numbers go on from those of redact_view (62) and of a key that is a run (63, redact_tokens).
AROUND: tuple[AroundRule, ...] = (
    AroundRule(64, "private-key", (b"ibaakc", b"mhccaqeei", b"agebb"), _key_heads),
    AroundRule(65, "private-key", (b"private key",), _key_tails),
    AroundRule(66, "cookie", (b"cookie",), _cookies),
    AroundRule(67, "command-password", (b"curl",), _users),
    AroundRule(68, "command-password", (b"sshpass",), _sshpass),
    AroundRule(69, "command-password", (b"mysql", b"mariadb"), _attached),
    AroundRule(70, "netrc-password", (b"machine",), _netrc),
    AroundRule(71, "link-signature", (b"sig=",), _signatures),
    AroundRule(72, "registry-login", (b"auth",), _auths),
)
NEWEST = AROUND[-1].number
