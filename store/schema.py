"""The tables of the log's database, tenant first; `migrations/` alone makes and changes them.

Imported by the migrations only: a store that is up to date opens without SQLModel.

Rows never leave `store/`: the ports speak msgspec structs. Events lie in order of arrival: a
group of many trajectories fills a few new pages instead of changing one old page of each, which
is half the work of a commit. Their order within a trajectory is an index, their lanes and steps
are kept by block (`store.blocks`), so that an event costs no index entry for either.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Text
from sqlmodel import Field, SQLModel


def _big(**more: Any) -> Any:
    number = Integer().with_variant(BigInteger(), "postgresql")
    more.setdefault("nullable", False)
    return Field(sa_column=Column(number, **more))


def _text(**more: Any) -> Any:
    more.setdefault("nullable", False)
    return Field(sa_column=Column(Text, **more))


def _bytes(**more: Any) -> Any:
    more.setdefault("nullable", False)
    return Field(sa_column=Column(LargeBinary, **more))


STRICT = {"sqlite_strict": True}


class StoreMeta(SQLModel, table=True):
    """Facts of the store itself: its incarnation, when it was made, how often it started."""

    __tablename__ = "store_meta"
    __table_args__ = STRICT
    name: str = _text(primary_key=True)
    value: str = _text()


class Trajectory(SQLModel, table=True):
    """One trajectory and its head."""

    __tablename__ = "trajectories"
    __table_args__ = (Index("trajectories_by_key", "trajectory_key", unique=True), STRICT)
    tenant: str = _text(primary_key=True)
    trajectory_id: str = _text(primary_key=True)
    trajectory_key: int = _big()
    standing: str = _text()
    created_at: int = _big()
    sequence_number: int = _big()
    chain: bytes = _bytes()
    recorded_at: int = _big()
    owner_epoch: int = _big()
    worker: str | None = _text(nullable=True)
    control_epoch: int = _big()
    record_version: int = _big()
    staged: int = _big()
    staged_to: int = _big()
    incidents: int = _big()
    step: int = _big()


class EventRow(SQLModel, table=True):
    """One event; append-only, guarded by triggers."""

    __tablename__ = "events"
    number: int | None = Field(
        default=None,
        sa_column=Column(
            Integer().with_variant(BigInteger(), "postgresql"), primary_key=True, nullable=False
        ),
    )
    """Order of arrival in this store."""
    tenant: str = _text()
    trajectory_key: int = _big()
    sequence_number: int = _big()
    recorded_at: int = _big()
    issuer: str = _text()
    owner_epoch: int = _big()
    worker: str | None = _text(nullable=True)
    control_epoch: int = _big()
    record_version: int = _big()
    reducer_version: int = _big()
    chain: bytes = _bytes()
    event_id: str = _text()
    type: str = _text()
    schema_version: int = _big()
    digest: bytes = _bytes()
    payload_digest: bytes = _bytes()
    payload_length: int = _big()
    payload: bytes | None = _bytes(nullable=True)
    payload_ref: bytes | None = _bytes(nullable=True)
    occurred_at: int | None = _big(nullable=True)
    step: int | None = _big(nullable=True)
    operation_id: str | None = _text(nullable=True)
    attempt_id: str | None = _text(nullable=True)
    invocation_id: str | None = _text(nullable=True)
    refs: bytes | None = _bytes(nullable=True)
    mark: int = _big()
    binding: bytes | None = _bytes(nullable=True)
    """Of an intent: what its operation id is bound to (EFF-6)."""
    __table_args__ = (
        Index("events_by_sequence", "trajectory_key", "sequence_number", unique=True),
        Index("events_by_id", "trajectory_key", "event_id", unique=True),
        Index(
            "events_by_operation",
            "trajectory_key",
            "operation_id",
            sqlite_where=Column("operation_id", Text).is_not(None),
            postgresql_where=Column("operation_id", Text).is_not(None),
        ),
        Index(
            "events_by_invocation",
            "trajectory_key",
            "invocation_id",
            sqlite_where=Column("invocation_id", Text).is_not(None),
            postgresql_where=Column("invocation_id", Text).is_not(None),
        ),
        STRICT,
    )


class Block(SQLModel, table=True):
    """Lanes and steps of one full block of events (`store.blocks`)."""

    __tablename__ = "blocks"
    __table_args__ = (
        Index("blocks_by_content", "trajectory_key", "block", "mark_set", "step_min", "step_max"),
        STRICT,
    )
    trajectory_key: int = _big(primary_key=True, autoincrement=False)
    block: int = _big(primary_key=True, autoincrement=False)
    tenant: str = _text()
    mark_set: int = _big()
    """One bit for each mark that occurs."""
    step_min: int | None = _big(nullable=True)
    step_max: int | None = _big(nullable=True)
    marks: bytes = _bytes()
    """One byte for each event."""
    steps: bytes = _bytes()
    """JSON array with the step of each event, or null."""


class Request(SQLModel, table=True):
    """An answered command, by request id (APP-9)."""

    __tablename__ = "requests"
    __table_args__ = STRICT
    tenant: str = _text(primary_key=True)
    request_id: str = _text(primary_key=True)
    kind: str = _text()
    trajectory_id: str = _text()
    digest: bytes = _bytes()
    answer: bytes = _bytes()
    answered_at: int = _big()


class Blob(SQLModel, table=True):
    """A tenant's reference to content-addressed bytes (BLB-2)."""

    __tablename__ = "blobs"
    __table_args__ = STRICT
    tenant: str = _text(primary_key=True)
    digest: str = _text(primary_key=True)
    length: int = _big()
    put_at: int = _big()


class Staged(SQLModel, table=True):
    """An installed event beyond a gap (INS-2)."""

    __tablename__ = "staged"
    __table_args__ = STRICT
    trajectory_key: int = _big(primary_key=True, autoincrement=False)
    sequence_number: int = _big(primary_key=True, autoincrement=False)
    tenant: str = _text()
    event_id: str = _text()
    digest: bytes = _bytes()
    chain: bytes = _bytes()
    body: bytes = _bytes()
    """msgpack of the event with its classification (`store.state.Piece`)."""


class Ledger(SQLModel, table=True):
    """Refused writes and incidents (CLM-4); append-only, guarded by triggers."""

    __tablename__ = "ledger"
    __table_args__ = (
        Index("ledger_by_trajectory", "tenant", "trajectory_id", "number"),
        STRICT,
    )
    number: int | None = Field(
        default=None,
        sa_column=Column(
            Integer().with_variant(BigInteger(), "postgresql"), primary_key=True, nullable=False
        ),
    )
    tenant: str = _text()
    trajectory_id: str = _text()
    recorded_at: int = _big()
    kind: str = _text()
    code: str = _text()
    issuer: str = _text()
    worker: str | None = _text(nullable=True)
    offered_epoch: int | None = _big(nullable=True)
    held_epoch: int = _big()
    request_id: str = _text()
    detail: bytes = _bytes()


class Source(SQLModel, table=True):
    """What was imported from one source so far."""

    __tablename__ = "import_sources"
    __table_args__ = (
        Index("sources_by_reading", "tenant", "importer", "reading_digest"),
        Index("sources_by_trajectory", "tenant", "trajectory_id"),
        Index("sources_by_session", "tenant", "importer", "session"),
        STRICT,
    )
    tenant: str = _text(primary_key=True)
    source_id: str = _text(primary_key=True)
    importer: str = _text()
    version: int = _big()
    trajectory_id: str = _text()
    name: str = _text()
    reading_digest: str = _text()
    reading_length: int = _big()
    segments: bytes = _bytes()
    state: bytes = _bytes()
    updated_at: int = _big()
    session: str | None = _text(nullable=True)
    """The session its bytes or its name state; as `state` holds it, to be found by."""


class ActRow(SQLModel, table=True):
    """What a person did beside the logs (`core.acts`); append-only, guarded by triggers."""

    __tablename__ = "acts"
    __table_args__ = (
        Index("acts_by_trajectory", "tenant", "trajectory_id", "number"),
        Index("acts_by_kind", "tenant", "kind", "number"),
        STRICT,
    )
    number: int = _big(primary_key=True, autoincrement=False)
    tenant: str = _text()
    kind: str = _text()
    trajectory_id: str | None = _text(nullable=True)
    boundary: int | None = _big(nullable=True)
    body: bytes = _bytes()
    actor: str = _text()
    reason: str | None = _text(nullable=True)
    recorded_at: int = _big()
    request_id: str = _text()
