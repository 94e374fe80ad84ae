"""Bring a database to this program's schema, or refuse one that a newer program wrote.

INVARIANT
1. Alembic's revisions are the only way a schema comes to be; nothing here creates a table.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import Engine

from core.errors import StoreStopped
from store.schema import REVISION
from store.sqlite_driver import Connection

SCRIPTS = Path(__file__).parent / "migrations"
#: Revisions this program can start from, oldest first; the last is REVISION.
KNOWN = ("0001",)


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


def upgrade(engine: Engine) -> None:
    """Run the missing revisions, each in its own transaction."""
    # Alembic takes about a second to import, and a store that is up to date never needs it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
