"""Alembic's entry: runs the revisions on the connection the caller gives."""

from __future__ import annotations

from alembic import context
from sqlmodel import SQLModel

import store.schema  # noqa: F401  (registers the tables)

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
