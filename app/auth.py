"""Who is asking, and whether they may: credentials at the door, a marker on every route.

INVARIANTS
1. A credential that is present and wrong is refused; it is never read as an absent one.
2. Without a configured token only callers on this machine can reach the server
   (Settings.checked_to_serve), and they are `local` with every role.
3. The door refuses an unknown caller everywhere but on `PUBLIC` addresses; behind it every route
   names the role it needs, or says that it is public. A test walks the routes.
4. Tokens are compared in constant time, and never logged, stored or put in a URL.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from fastapi import Depends, Request

from app.errors import HttpRefused
from core.ids import Tenant
from core.principal import Principal

Role = Literal["read", "write", "import", "operate"]
ROLES: frozenset[Role] = frozenset({"read", "write", "import", "operate"})

#: Addresses that answer to anybody: whether the server lives, the meaning of an error code, and
#: the style sheet of the page that asks for a password.
PUBLIC_PATHS = frozenset({"/livez", "/readyz"})
PUBLIC_PREFIXES = ("/static/", "/docs/errors", "/docs/glossary")
#: Mounts, which carry no dependencies; each must be public.
PUBLIC_MOUNTS = frozenset({"/static"})

MARKER = "__strandline_authorization__"
TOKEN_PREFIX = "stl_"


def is_public(path: str) -> bool:
    """Whether the address needs no credential."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)


def mint() -> str:
    """A new token: 256 random bits behind a prefix that scanners can look for."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


class Credentials:
    """The tokens this process accepts, and who is behind each."""

    def __init__(self, tenant: Tenant, configured: str | None, local: str | None) -> None:
        """`configured` is STRANDLINE_TOKEN; `local` is the one in the lock file."""
        self._tokens: list[tuple[bytes, Principal]] = []
        if configured is not None:
            self._tokens.append((configured.encode(), Principal(tenant, "token", ROLES)))
        if local is not None:
            self._tokens.append((local.encode(), Principal(tenant, "command-line", ROLES)))
        self._open = None if configured is not None else Principal(tenant, "local", ROLES)

    def check(self, authorization: bytes | None) -> Principal | None:
        """The caller by its Authorization header; None if it gave none and one is needed.

        Raises `unauthorized` for a credential that is not one of ours.
        """
        if authorization is None:
            return self._open
        token = _token_in(authorization)
        found: Principal | None = None
        for known, principal in self._tokens:
            if hmac.compare_digest(known, token):
                found = principal
        if found is None:
            raise HttpRefused("unauthorized", "the credential is not one this server knows")
        return found


def _token_in(header: bytes) -> bytes:
    """The token of an Authorization header: Bearer, or the password of Basic."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            plain = base64.b64decode(value.strip(), validate=True)
        except (binascii.Error, ValueError):
            return b""
        return plain.partition(b":")[2]
    return b""


def authorized(role: Role) -> Any:
    """The marker of a route: its caller must be known and hold `role`. Gives the Principal."""

    async def check(request: Request) -> Principal:
        return permitted(request.state.principal, role)

    return Depends(_marked(check, role))


def permitted(principal: Principal | None, role: Role) -> Principal:
    """The caller, if it is known and holds the role; `unauthorized` or `forbidden` otherwise."""
    if principal is None:
        raise HttpRefused("unauthorized", "this address needs a token")
    if role not in principal.roles:
        raise HttpRefused("forbidden", f"this address needs the role {role}")
    return principal


def public() -> Any:
    """The marker of a route that answers to anybody."""

    async def check() -> None:
        return None

    return Depends(_marked(check, "public"))


def _marked(
    check: Callable[..., Coroutine[Any, Any, Any]], marker: str
) -> Callable[..., Coroutine[Any, Any, Any]]:
    setattr(check, MARKER, marker)
    return check
