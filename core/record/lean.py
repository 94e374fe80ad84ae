"""Lean views of payloads: only what the fold reads, so that a long prefix is decoded quickly.

INVARIANTS
1. A lean view has the names and meanings of its full payload: folding one or the other gives
   the same record (attacked by tests/property/test_fold.py).
2. What a lean view leaves out, the fold does not read. Unknown fields are skipped, not refused:
   refusing is the business of the door an event comes in by.

The families that are small or rare are decoded in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from core.canonical import canonical, digest_text, sha256
from core.errors import InvalidInput
from core.events import registry
from core.events.tool import Basis, ResultStatus


class Lean(msgspec.Struct, frozen=True, gc=False):
    """Base of the lean views: no field is refused for being unknown."""


class Change(Lean, frozen=True):
    """One change of a workspace file."""

    kind: str
    digest: str | None = None
    diff: str | None = None


class WorkspaceChange(Lean, frozen=True):
    """How an event changed the workspace."""

    base: str | None = None
    after: str | None = None
    changes: tuple[Change, ...] = ()


class Usage(Lean, frozen=True):
    """Tokens of one model call."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


class ContextBuilt(Lean, frozen=True):
    """A delivered input, without its messages."""

    manifest_digest: str
    count: int
    model: str | None = None
    claim: str = "partial"
    retry_of: str | None = None


class ModelReplied(Lean, frozen=True):
    """A reply, without its text."""

    status: str
    model: str | None = None
    usage: Usage | None = None
    continues: bool = False


class ToolIntent(Lean, frozen=True):
    """An intent, its arguments as the bytes they lie in."""

    kind: str
    tool: str
    tool_version: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()
    """Empty where the intent has none."""
    input_revision: str | None = None
    deadline_at: int | None = None
    reservation_event: str | None = None
    depends_on: tuple[str, ...] = ()
    compensates: str | None = None


class ToolResult(Lean, frozen=True):
    """Evidence, without what was observed."""

    status: ResultStatus
    basis: Basis
    input_revision: str | None = None
    workspace: WorkspaceChange | None = None
    holds: str | None = None


class RuntimeInput(Lean, frozen=True):
    """A supervision input, as far as it changed the workspace or gave a title."""

    kind: str
    text: str | None = None
    workspace: WorkspaceChange | None = None


class Nothing(Lean, frozen=True):
    """Stands for the payload of a family whose payload the fold does not read."""


NOTHING = Nothing()
_VIEWS: dict[str, type[Lean]] = {
    "ContextBuilt": ContextBuilt,
    "ModelReplied": ModelReplied,
    "ToolIntent": ToolIntent,
    "ToolResult": ToolResult,
    "RuntimeInput": RuntimeInput,
}
#: The families of which the fold reads the envelope only.
UNREAD: frozenset[str] = frozenset({"Compacted", "Unparsed"})
DECODERS: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    family.name: (
        family.version,
        msgspec.json.Decoder(_VIEWS.get(family.name, family.payload)).decode,
    )
    for family in registry.FAMILIES.values()
    if family.name not in UNREAD
}
"""type -> (present version, decoder of what the fold reads of it)."""


def decode(type_: str, schema_version: int, payload: bytes | None) -> Any | None:
    """What the fold reads of a payload; None where this version cannot read it (LOG-6).

    A payload that does not fit its schema counts as unreadable: nothing is guessed.
    """
    present = DECODERS.get(type_)
    try:
        if present is not None and present[0] == schema_version and payload is not None:
            return present[1](payload)
        if not registry.is_known(type_, schema_version):
            return None
        if present is None or payload is None:
            return NOTHING
        return registry.decode(type_, schema_version, payload)
    except (msgspec.DecodeError, InvalidInput):
        return None


def arguments_digest(arguments: object) -> str | None:
    """`sha256:...` of canonical arguments; None where the intent has none."""
    if arguments is None:
        return None
    if isinstance(arguments, msgspec.Raw):
        data = bytes(arguments)
        return None if data in (b"", b"null") else digest_text(sha256(data))
    return digest_text(sha256(canonical(arguments)))
