"""The log with its heads, grants, requests, ledger, blobs, staging and import sources."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def _number(name: str, *, key: bool = False, null: bool = False) -> sa.Column[int]:
    if key:
        return sa.Column(name, NUMBER, primary_key=True, autoincrement=False, nullable=False)
    return sa.Column(name, NUMBER, nullable=null)


def _text(name: str, *, key: bool = False, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=key, nullable=null)


def _bytes(name: str, *, null: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=null)


def upgrade() -> None:
    op.create_table("store_meta", _text("name", key=True), _text("value"), sqlite_strict=True)
    op.create_table(
        "trajectories",
        _text("tenant", key=True),
        _text("trajectory_id", key=True),
        _number("trajectory_key"),
        _text("standing"),
        _number("created_at"),
        _number("sequence_number"),
        _bytes("chain"),
        _number("recorded_at"),
        _number("owner_epoch"),
        _text("worker", null=True),
        _number("control_epoch"),
        _number("record_version"),
        _number("staged"),
        _number("staged_to"),
        _number("incidents"),
        _number("step"),
        sqlite_strict=True,
    )
    op.create_index("trajectories_by_key", "trajectories", ["trajectory_key"], unique=True)
    op.create_table(
        "events",
        sa.Column("number", NUMBER, primary_key=True, nullable=False),
        _text("tenant"),
        _number("trajectory_key"),
        _number("sequence_number"),
        _number("recorded_at"),
        _text("issuer"),
        _number("owner_epoch"),
        _text("worker", null=True),
        _number("control_epoch"),
        _number("record_version"),
        _number("reducer_version"),
        _bytes("chain"),
        _text("event_id"),
        _text("type"),
        _number("schema_version"),
        _bytes("digest"),
        _bytes("payload_digest"),
        _number("payload_length"),
        _bytes("payload", null=True),
        _bytes("payload_ref", null=True),
        _number("occurred_at", null=True),
        _number("step", null=True),
        _text("operation_id", null=True),
        _text("attempt_id", null=True),
        _text("invocation_id", null=True),
        _bytes("refs", null=True),
        _number("mark"),
        _bytes("binding", null=True),
        sqlite_strict=True,
    )
    for name, column in (("events_by_sequence", "sequence_number"), ("events_by_id", "event_id")):
        op.create_index(name, "events", ["trajectory_key", column], unique=True)
    for name, column in (
        ("events_by_operation", "operation_id"),
        ("events_by_invocation", "invocation_id"),
    ):
        present = sa.text(f"{column} IS NOT NULL")
        op.create_index(
            name,
            "events",
            ["trajectory_key", column],
            sqlite_where=present,
            postgresql_where=present,
        )
    op.create_table(
        "blocks",
        _number("trajectory_key", key=True),
        _number("block", key=True),
        _text("tenant"),
        _number("mark_set"),
        _number("step_min", null=True),
        _number("step_max", null=True),
        _bytes("marks"),
        _bytes("steps"),
        sqlite_strict=True,
    )
    op.create_index(
        "blocks_by_content",
        "blocks",
        ["trajectory_key", "block", "mark_set", "step_min", "step_max"],
    )
    op.create_table(
        "requests",
        _text("tenant", key=True),
        _text("request_id", key=True),
        _text("kind"),
        _text("trajectory_id"),
        _bytes("digest"),
        _bytes("answer"),
        _number("answered_at"),
        sqlite_strict=True,
    )
    op.create_table(
        "blobs",
        _text("tenant", key=True),
        _text("digest", key=True),
        _number("length"),
        _number("put_at"),
        sqlite_strict=True,
    )
    op.create_table(
        "staged",
        _number("trajectory_key", key=True),
        _number("sequence_number", key=True),
        _text("tenant"),
        _text("event_id"),
        _bytes("digest"),
        _bytes("chain"),
        _bytes("body"),
        sqlite_strict=True,
    )
    op.create_table(
        "ledger",
        sa.Column("number", NUMBER, primary_key=True, nullable=False),
        _text("tenant"),
        _text("trajectory_id"),
        _number("recorded_at"),
        _text("kind"),
        _text("code"),
        _text("issuer"),
        _text("worker", null=True),
        _number("offered_epoch", null=True),
        _number("held_epoch"),
        _text("request_id"),
        _bytes("detail"),
        sqlite_strict=True,
    )
    op.create_index("ledger_by_trajectory", "ledger", ["tenant", "trajectory_id", "number"])
    op.create_table(
        "import_sources",
        _text("tenant", key=True),
        _text("source_id", key=True),
        _text("importer"),
        _number("version"),
        _text("trajectory_id"),
        _text("name"),
        _text("reading_digest"),
        _number("reading_length"),
        _bytes("segments"),
        _bytes("state"),
        _number("updated_at"),
        sqlite_strict=True,
    )
    op.create_index(
        "sources_by_reading", "import_sources", ["tenant", "importer", "reading_digest"]
    )
    op.create_index("sources_by_trajectory", "import_sources", ["tenant", "trajectory_id"])
    _guard()


def _guard() -> None:
    """What is in the log and in the ledger is never changed (LOG-2), whoever asks."""
    if op.get_bind().dialect.name == "sqlite":
        for table in ("events", "ledger"):
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
        return
    op.execute(
        "CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END$$"
    )
    for table in ("events", "ledger"):
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION append_only()"
        )


def downgrade() -> None:
    for table in (
        "import_sources",
        "ledger",
        "staged",
        "blobs",
        "requests",
        "blocks",
        "events",
        "trajectories",
        "store_meta",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION append_only()")
