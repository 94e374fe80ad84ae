"""Bring a database to this program's schema, or refuse one that a newer program wrote.

INVARIANT
1. Alembic's revisions are the only way a schema comes to be; nothing here creates a table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import StoreStopped
from store import sqlite_driver
from store.sqlite_driver import Connection

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

SCRIPTS = Path(__file__).parent / "migrations"
#: Revisions this program can start from, oldest first; a test holds the last to `migrations/`.
KNOWN = ("0001", "0002", "0003")
REVISION = KNOWN[-1]


def found_revision(connection: Connection) -> str | None:
    """The revision the database is at; None if it is empty."""
    table = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type='table' AND name='alembic_version'"
    ).fetchone()
    if table is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row is not None else None


def check_revision(found: str | None) -> None:
    """StoreStopped naming both revisions if a newer program wrote this database."""
    if found is not None and found not in KNOWN:
        raise StoreStopped(
            f"this store has schema revision {found}, this program knows up to {REVISION}. A newer "
            "Strandline wrote it; start that version again, or install from an export. Nothing "
            "was changed.",
            found=found,
            known=REVISION,
        )


def sqlalchemy_engine(opener: Callable[[], Connection]) -> Engine:
    """An engine whose connections come from `opener`; `begin` takes the write lock at once."""
    # A store that is up to date opens without SQLAlchemy, which takes half of its start.
    from sqlalchemy import create_engine, event  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    engine = create_engine(
        "sqlite://", module=sqlite_driver.module, creator=opener, poolclass=NullPool
    )

    @event.listens_for(engine, "begin")
    def begin(connection: object) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # type: ignore[attr-defined]

    return engine


def upgrade(opener: Callable[[], Connection]) -> None:
    """Run the missing revisions, each in its own transaction, on connections from `opener`."""
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    with sqlalchemy_engine(opener).connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
