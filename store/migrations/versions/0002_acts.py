"""What people do beside the logs: acts, append-only like the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "acts",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("trajectory_id", sa.Text, nullable=True),
        sa.Column("boundary", NUMBER, nullable=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=True),
        sa.Column("recorded_at", NUMBER, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("acts_by_trajectory", "acts", ["tenant", "trajectory_id", "number"])
    op.create_index("acts_by_kind", "acts", ["tenant", "kind", "number"])
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER acts_no_{verb.lower()} BEFORE {verb} ON acts "
                "BEGIN SELECT RAISE(ABORT, 'acts is append-only'); END"
            )
        return
    op.execute(
        "CREATE TRIGGER acts_append_only BEFORE UPDATE OR DELETE ON acts "
        "FOR EACH ROW EXECUTE FUNCTION append_only()"
    )


def downgrade() -> None:
    op.drop_table("acts")
