"""What a group is decided on, and what the decision writes: plain values, no database in sight.

`Wants` names what must be read for a group, `Known` is what was found and becomes the overlay on
which members are decided in order, `Writes` is what the store must make durable together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from core.acts import Act, ActKind
from core.events.envelope import Event, Issuer, Standing
from core.events.prepare import NO_TURN, Prepared, Turn
from core.instants import Instant
from store.ports import (
    ActCommand,
    AppendCommand,
    ClaimCommand,
    CreateCommand,
    Domain,
    Door,
    Grant,
    ImportSource,
    InstallCommand,
    LedgerRow,
)

#: (tenant, trajectory_id)
Name = tuple[str, str]
#: (tenant, trajectory id or None for the desk, kinds or () for all): what acts may collide about.
ActTopic = tuple[str, str | None, tuple[ActKind, ...]]


class BlobsCommand(msgspec.Struct, frozen=True):
    """Record that a tenant refers to blobs whose bytes are already durable."""

    tenant: str
    blobs: tuple[tuple[str, int], ...]
    """(digest, length)."""


class BarrierCommand(msgspec.Struct, frozen=True):
    """Commit once, so that all that was found in the database at start is durable (APP-2)."""

    starts: int


Command = (
    AppendCommand
    | CreateCommand
    | ClaimCommand
    | InstallCommand
    | ActCommand
    | BlobsCommand
    | BarrierCommand
)


class HeadState(msgspec.Struct):
    """The head of one trajectory, as members of a group move it."""

    tenant: str
    trajectory_id: str
    key: int
    standing: Standing
    created_at: Instant
    sequence_number: int
    chain: bytes
    recorded_at: Instant
    owner_epoch: int = 0
    worker: str | None = None
    control_epoch: int = 0
    record_version: int = 0
    staged: int = 0
    staged_to: int = 0
    incidents: int = 0
    step: int = 0
    """Present step of the record, kept so that an append may be held to it (ORD-4)."""


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """What deduplication and references need of a stored event."""

    sequence_number: int
    digest: bytes
    owner_epoch: int
    type: str


class LastAct(msgspec.Struct, frozen=True):
    """Number and count of the acts about one topic; zero where there is none."""

    number: int = 0
    count: int = 0


class StoredRequest(msgspec.Struct, frozen=True, gc=False):
    """An answered command."""

    kind: str
    digest: bytes
    answer: bytes


class Piece(msgspec.Struct, frozen=True):
    """An installed event with what its payload says, worked out before it joins a group."""

    event: Event
    mark: int
    guarded: bool
    controls: bool
    names_blobs: tuple[tuple[str, int], ...] = ()
    binding: bytes | None = None
    turn: Turn = NO_TURN


class Member(msgspec.Struct, frozen=True, gc=False):
    """One command of a group, with what its caller's thread already prepared."""

    command: Command
    bodies: tuple[object, ...] = ()
    """Per event, the store's encoded row body; opaque to the decision."""
    pieces: tuple[Piece, ...] = ()
    """For an install."""


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """One event to insert."""

    tenant: str
    key: int
    sequence_number: int
    recorded_at: Instant
    issuer: Issuer
    owner_epoch: int
    worker: str | None
    control_epoch: int
    record_version: int
    reducer_version: int
    chain: bytes
    source: Prepared | Piece
    body: object | None


class NewRequest(msgspec.Struct, frozen=True):
    """An answer to keep."""

    tenant: str
    request_id: str
    kind: str
    trajectory_id: str
    digest: bytes
    answer: bytes
    answered_at: Instant


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An acknowledgement that waits for its barrier."""

    trajectory_id: str
    sequence_numbers: tuple[int, ...]
    head: int
    chain: bytes
    owner_epoch: int = 0
    duplicate: bool = False
    duplicates: tuple[bool, ...] = ()
    fenced: bool = False


class Done(msgspec.Struct, frozen=True):
    """The answer of commands that have nothing to say but that they are durable."""


@dataclass(slots=True)
class Wants:
    """What a group must know of the store, named before it is decided."""

    heads: set[Name] = field(default_factory=set)
    fresh: set[tuple[Name, str]] = field(default_factory=set)
    """Event ids that ought to be new."""
    named: set[tuple[Name, str]] = field(default_factory=set)
    """Event ids that ought to be there."""
    bindings: set[tuple[Name, str]] = field(default_factory=set)
    blobs: set[tuple[str, str]] = field(default_factory=set)
    requests: set[tuple[str, str]] = field(default_factory=set)
    positions: set[tuple[Name, int]] = field(default_factory=set)
    staged: set[Name] = field(default_factory=set)
    acts: set[ActTopic] = field(default_factory=set)
    sources: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True)
class Known:
    """What the store holds of what was wanted; the decision updates it member by member."""

    new_key: Callable[[], int]
    heads: dict[Name, HeadState] = field(default_factory=dict)
    events: dict[Name, dict[str, StoredEvent]] = field(default_factory=dict)
    """Stored events by id, of each trajectory that has any which matter."""
    bindings: dict[tuple[Name, str], bytes] = field(default_factory=dict)
    blobs: dict[tuple[str, str], int] = field(default_factory=dict)
    """Length of each blob the tenant holds."""
    requests: dict[tuple[str, str], StoredRequest] = field(default_factory=dict)
    positions: dict[tuple[Name, int], tuple[bytes, bytes]] = field(default_factory=dict)
    """(digest, chain) of stored events by sequence number."""
    staged: dict[Name, dict[int, Piece]] = field(default_factory=dict)
    sources: dict[tuple[str, str], int] = field(default_factory=dict)
    """Length of the newest reading of each import source."""
    last_acts: dict[ActTopic, LastAct] = field(default_factory=dict)
    acts_end: int = 0
    """Number of the newest act of the store."""
    acts_at: Instant = 0
    """When it was recorded."""


@dataclass(slots=True)
class Writes:
    """What a decided group makes durable, all together."""

    events: list[NewRow] = field(default_factory=list)
    heads: dict[Name, HeadState] = field(default_factory=dict)
    created: set[Name] = field(default_factory=set)
    """Names in `heads` that have no row yet."""
    requests: list[NewRequest] = field(default_factory=list)
    blobs: list[tuple[str, str, int]] = field(default_factory=list)
    staged: list[tuple[str, int, Piece]] = field(default_factory=list)
    """(tenant, key, piece)."""
    unstaged: list[tuple[int, int]] = field(default_factory=list)
    """(key, sequence number)."""
    ledger: list[LedgerRow] = field(default_factory=list)
    """`number` is given by the store."""
    sources: list[tuple[str, ImportSource]] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    act_heads: dict[Name, int] = field(default_factory=dict)
    """Heads of the trajectories that the acts are about."""
    starts: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decision needs besides the store's content."""

    refuse: Callable[[Standing, Issuer, Door, str], str | None]
    """Why this issuer may not assert this type through this door; None: it may."""
    reducer_version: int
    incarnation: str
    domain: Domain


Outcome = Draft | Grant | Done | Act | Exception
LedgerKind = Literal["refused", "incident"]
