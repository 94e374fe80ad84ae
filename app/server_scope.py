"""What a route may ask of the connection it answers on, where the server offers it.

An ASGI scope names it as an extension. A client that calls the application without a socket, as
tests do, has none, and nothing that could stall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

EXTENSION = "strandline.connection"


class Connection(Protocol):
    """One connection to a client."""

    def stream(self, last_words: Callable[[], bytes]) -> None:
        """A stream follows: hold little for it, and drop a reader that stalls after these words."""
        ...


def connection_of(scope: Any) -> Connection | None:
    """The connection of a request, or None where there is no socket."""
    found = scope.get("extensions", {}).get(EXTENSION)
    return cast(Connection, found) if found is not None else None
