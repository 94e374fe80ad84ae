"""The only import of a SQLite driver: pysqlite3, or the standard library without its wheel.

INVARIANT
1. No store is opened with a SQLite that has the WAL-reset bug (3.7.0 to 3.51.2): with two
   connections, a checkpoint that races a commit can corrupt the database. `check_version` refuses
   it by name; there is no mode in which it is used.

The drivers differ in one way that tests must know: pysqlite3 calls `fsync`, the standard
library's SQLite calls `fdatasync`. pysqlite3 gives primary error codes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.errors import DomainUnavailable

if TYPE_CHECKING:
    import sqlite3 as dbapi
else:
    try:
        from pysqlite3 import dbapi2 as dbapi
    except ImportError:
        import sqlite3 as dbapi

Connection = dbapi.Connection
Error = dbapi.Error
IntegrityError = dbapi.IntegrityError
DatabaseError = dbapi.DatabaseError

#: For SQLAlchemy's `module=`.
module: Any = dbapi
NAME: str = dbapi.__name__.split(".", maxsplit=1)[0]
VERSION: tuple[int, ...] = dbapi.sqlite_version_info
VERSION_TEXT: str = dbapi.sqlite_version
#: First release without the WAL-reset bug.
VERSION_MIN = (3, 51, 3)


def check_version(version: tuple[int, ...] = VERSION) -> None:
    """DomainUnavailable if this SQLite has the WAL-reset bug."""
    if version < VERSION_MIN:
        found = ".".join(map(str, version))
        raise DomainUnavailable(
            f"this Python uses SQLite {found}, which has the WAL-reset bug: a WAL checkpoint that "
            "races a commit can corrupt the store (fixed in 3.51.3). Install pysqlite3 0.6.1 or "
            "later, or a Python whose SQLite is 3.51.3 or later.",
            found=found,
            needed=".".join(map(str, VERSION_MIN)),
        )


def error_name(error: BaseException) -> str:
    """`SQLITE_FULL`, `SQLITE_IOERR`, ... without the extended part; "" if it names none."""
    name = str(getattr(error, "sqlite_errorname", "") or "")
    return "_".join(name.split("_")[:2])


def is_damage(error: BaseException) -> bool:
    """Whether the file's bytes are not what SQLite, its text encoding or our schema can read."""
    if error_name(error) in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return True
    text = str(error)
    return isinstance(error, Error) and (
        "Could not decode to UTF-8" in text or text.startswith(("no such column", "no such table"))
    )
