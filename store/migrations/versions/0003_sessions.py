"""Sources by the session they state, so that one session under two names is one source."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("import_sources", sa.Column("session", sa.Text, nullable=True))
    op.create_index("sources_by_session", "import_sources", ["tenant", "importer", "session"])


def downgrade() -> None:
    op.drop_index("sources_by_session", "import_sources")
    op.drop_column("import_sources", "session")
