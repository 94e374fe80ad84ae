"""Keys of keyset-paged lists as opaque texts that stand in a URL."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson

from core.errors import InvalidInput
from core.limits import INTEGER_MAX


def cursor(key: tuple[object, str] | None) -> str | None:
    """A list key as an opaque text for a URL."""
    if key is None:
        return None
    return base64.urlsafe_b64encode(orjson.dumps(list(key))).decode().rstrip("=")


def key_of(text: str | None) -> tuple[object, str] | None:
    """The key of a cursor; InvalidInput for one we did not make."""
    if not text:
        return None
    try:
        padded = text + "=" * (-len(text) % 4)
        value: Any = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("the cursor is not one of this service's", field="after") from error
    plain = isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)
    known = plain and isinstance(value[0], str | int | None)
    if not known or (isinstance(value[0], int) and abs(value[0]) > INTEGER_MAX):
        raise InvalidInput("the cursor is not one of this service's", field="after")
    return value[0], value[1]
