"""Leave a suspect log file: copy it out, verify the copy, make it durable, then point to it.

After a failed flush the old file may hold pages that are readable and not on the disk; reading
them again proves nothing and flushing them again may do nothing. A new file is written from what
is readable and flushed anew. What was acknowledged before the failure is in it; of the group whose
barrier failed it holds all or nothing, and either is an answer.

INVARIANTS
1. Data first, pointer last: CURRENT names the copy only after it was verified, flushed, and its
   folder flushed; the marker goes after that.
2. The old file stays as it is, and nothing here writes to it.
3. Whatever fails leaves the store suspect, with the reason.
"""

from __future__ import annotations

from pathlib import Path

from core.errors import StrandlineError
from core.instants import Instant
from store import engine, suspect, verify
from store.engine import Readers
from store.files import refusal_of, sync_file, sync_folder, write_whole
from store.ports import Domain
from store.reads import LogReader, head_from
from store.sqlite_driver import Error
from store.transact import HEAD_COLUMNS


class NotRecovered(Exception):
    """The copy could not be made or is not whole; the store stays suspect."""


def copy_out(data: Path, current: str, domain: Domain, now: Instant) -> str:
    """The name of the new live log file; NotRecovered with the reason."""
    number = int(current.removeprefix("store-").removesuffix(".db"))
    name = f"store-{number + 1:06}.db"
    target = data / name
    try:
        for suffix in ("", "-wal", "-shm"):
            (data / (name + suffix)).unlink(missing_ok=True)
        _copy(data / current, target, domain)
        _check(target, domain)
        _note(target, domain, current, now)
        sync_file(target)
        sync_folder(data)
        write_whole(data / "CURRENT", (name + "\n").encode())
        (data / suspect.NAME).unlink()
        sync_folder(data)
    except (Error, StrandlineError) as error:
        raise NotRecovered(str(error)) from error
    except OSError as error:
        raise NotRecovered(str(refusal_of(error, data) or error)) from error
    return name


def _copy(source: Path, target: Path, domain: Domain) -> None:
    connection = engine.connect(source, domain, read_only=True)
    try:
        connection.execute("PRAGMA query_only=0")
        connection.execute("VACUUM INTO ?", (str(target),))
    finally:
        connection.close()


def _check(target: Path, domain: Domain) -> None:
    """Every page, every digest and every chain value of the copy."""
    engine.create(target)
    readers = Readers(lambda: engine.connect(target, domain))
    try:
        with readers.use() as connection:
            for (line,) in connection.execute("PRAGMA integrity_check").fetchall():
                if line != "ok":
                    raise NotRecovered(f"the copy is damaged: {line}")
            heads = connection.execute(f"SELECT {HEAD_COLUMNS} FROM trajectories").fetchall()
        reader = LogReader(readers)
        for row in heads:
            for _, finding in verify.walk(reader, head_from(row), None):
                if finding is not None:
                    raise NotRecovered(
                        f"{finding.trajectory_id}, event {finding.sequence_number}: "
                        f"{finding.detail} ({finding.invariant})"
                    )
    finally:
        readers.close()


def _note(target: Path, domain: Domain, source: str, now: Instant) -> None:
    """Keep where the copy came from, in the copy; closing it leaves no WAL behind."""
    connection = engine.connect(target, domain, writer=True)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT OR REPLACE INTO store_meta (name, value) VALUES (?, ?)",
            (f"copied_from {source}", str(now)),
        )
        connection.execute("COMMIT")
    finally:
        connection.close()
