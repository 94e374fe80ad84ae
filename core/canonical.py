"""Canonical bytes (RFC 8785, JCS) and SHA-256 digests.

INVARIANTS
1. `canonical(v)` equals the RFC 8785 serialisation of `v`, or raises InvalidInput; it never
   rounds, drops or reorders (attacked by tests/property/test_canonical.py against rfc8785).
2. A digest in JSON is written `sha256:<64 lower-case hex digits>`; inside a hash it enters as
   its 32 raw bytes (ENV-1).

orjson with sorted keys gives the same bytes as RFC 8785 where there are no floats and every key
is ASCII, and is 20 times faster; everything else goes to rfc8785.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import orjson
import rfc8785

from core.errors import InvalidInput
from core.limits import INTEGER_MAX, JSON_DEPTH_MAX

DIGEST_PREFIX = "sha256:"
#: From here on RFC 8785 writes a float with an exponent, so that it reads back as a float.
_EXPONENT_FROM = 1e21
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value.

    Raises InvalidInput for NaN, infinities, integers beyond +-(2^53-1), lone surrogates,
    non-string keys and nesting beyond JSON_DEPTH_MAX.
    """
    return canonical_of(value)[0]


def canonical_of(value: Any) -> tuple[bytes, bool]:
    """As `canonical`, and whether the bytes read back as the same value: False where it may hold
    a float (RFC 8785 writes 1.0 as 1)."""
    plain = _check(value, 0)
    try:
        if plain:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS), True
        return rfc8785.dumps(value), False
    except (orjson.JSONEncodeError, rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"not canonical JSON: {error}") from error


def canonical_plain(value: Any) -> bytes:
    """Canonical bytes of a value known to hold no floats, ASCII keys and small integers only.

    The hot path for envelopes, whose shape this code makes itself.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _check(value: Any, depth: int) -> bool:
    """Whether orjson's bytes are RFC 8785's for `value`; InvalidInput where neither is allowed."""
    if depth > JSON_DEPTH_MAX:
        raise InvalidInput(f"JSON nested deeper than {JSON_DEPTH_MAX}")
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:
            raise InvalidInput("an integer beyond 2^53-1 loses digits; send it as a string")
        return True
    if kind is float:
        if not math.isfinite(value):
            raise InvalidInput("NaN and infinity are not JSON numbers; send a string")
        if INTEGER_MAX < abs(value) < _EXPONENT_FROM:
            # RFC 8785 writes such a float as an integer, which no reader of ours would take back.
            raise InvalidInput("a number beyond 2^53-1 loses digits; send it as a string")
        return False
    if kind is list or kind is tuple:
        plain = True
        for item in value:
            # A string at a depth that may be there needs no look: most values are strings.
            if type(item) is not str or depth == JSON_DEPTH_MAX:
                plain = _check(item, depth + 1) and plain
        return plain
    if kind is dict:
        plain = True
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidInput("JSON object keys are strings")
            if not key.isascii():
                plain = False
            if type(item) is not str or depth == JSON_DEPTH_MAX:
                plain = _check(item, depth + 1) and plain
        return plain
    raise InvalidInput(f"{kind.__name__} is not a JSON value")


def sha256(*parts: bytes) -> bytes:
    """SHA-256 over the parts joined, as 32 raw bytes."""
    return hashlib.sha256(parts[0] if len(parts) == 1 else b"".join(parts)).digest()


def digest_text(raw: bytes) -> str:
    """`sha256:<hex>` of 32 raw bytes."""
    return DIGEST_PREFIX + raw.hex()


def digest_raw(text: str) -> bytes:
    """32 raw bytes of `sha256:<hex>`; InvalidInput otherwise."""
    if len(text) != 71 or not text.startswith(DIGEST_PREFIX):
        raise InvalidInput("a digest is written sha256: and 64 lower-case hex digits")
    hexadecimal = text[7:]
    if hexadecimal.lower() != hexadecimal:
        raise InvalidInput("a digest is written in lower-case hex")
    try:
        return bytes.fromhex(hexadecimal)
    except ValueError as error:
        raise InvalidInput("a digest is written sha256: and 64 lower-case hex digits") from error
