"""Open a data folder: own it, check it, migrate it, and give the three ports.

    DATA/CURRENT             name of the live log file; a copy-out swaps it
    DATA/store-000001.db     the log, SQLite in WAL mode
    DATA/projections.db      cache, may be deleted at any time
    DATA/blobs/sha256/ab/..  content-addressed bytes
    DATA/tmp/                half-written files, swept at start
    DATA/ballast             reserved space
    DATA/strandline.lock     held by the process that owns the store
    DATA/SUSPECT             there after a failed barrier (store.suspect, store.recover)

INVARIANTS
1. At most one process writes a folder: the lock is taken before anything is looked at (DOM-4).
2. Nothing is answered before one barrier of this process succeeded: what an earlier process left
   in the WAL is durable before it is called a duplicate (APP-2).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.canonical import digest_raw
from core.errors import CorruptAt, NotFound, StoreFull, StoreStopped, StrandlineError
from core.instants import Instant
from core.limits import BALLAST_BYTES
from core.record.reduce import REDUCER_VERSION
from core.rules.authority import refuse
from store import contract, engine, lock, migrate, recover, sqlite_driver, suspect
from store.ballast import Ballast, free_bytes
from store.blobs import LocalBlobStore, ReadOnlyReferences, sweep_scratch
from store.engine import Readers
from store.files import Names, make_folder, refusal_of, sync_folder, write_whole
from store.lock import StoreLock
from store.log import SqliteRecoveryStore
from store.notices import Hub
from store.ports import Check, Domain, StoreFacts
from store.projections import SqliteProjections
from store.sqlite_driver import Connection
from store.state import BarrierCommand, Member, Rules
from store.transact import Transactor
from store.writer import Writer

Result = TypeVar("Result")
FIRST_LOG = "store-000001.db"
#: What `engine.create` leaves: one page. Everything else is written once CURRENT names the file.
_UNUSED_BYTES = 4096
#: A start waits this long for its first barrier; a disk slower than that serves nobody.
_BARRIER_SECONDS = 60


def system_clock() -> Instant:
    """Microseconds since 1970, of this host."""
    return time.time_ns() // 1_000


@dataclass(slots=True)
class Opened:
    """An open data folder."""

    data: Path
    store: SqliteRecoveryStore
    blobs: LocalBlobStore
    projections: SqliteProjections
    lock: StoreLock | None
    incarnation: str
    readers: Readers

    def connection(self) -> AbstractContextManager[Connection]:
        """A connection for reading, for the checks of this package."""
        return self.readers.use()

    def close(self) -> None:
        """Finish what is queued and let go of the folder; idempotent.

        A folder whose disk does not answer is kept until the process ends.
        """
        self.store.close()
        self.projections.close()
        if self.lock is not None and self.store.at_rest:
            self.lock.release()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(
    data: Path,
    *,
    domain: Domain = "host",
    read_only: bool = False,
    allow_unsafe_filesystem: bool = False,
    clock: Callable[[], Instant] = system_clock,
    on_poison: Callable[[str], None] | None = None,
    reserve_bytes: int = BALLAST_BYTES,
) -> Opened:
    """Open the store of a folder, making it if it is not there.

    `read_only` reads beside a server that owns the store, and makes nothing. `on_poison` is
    called once, from the thread that flushed, when a barrier failed: a server then ends with exit
    code 70; it must not wait for the store. Raises StoreStopped (owned by another process, newer
    schema, no permission, nothing there to read), StoreFull, CorruptAt, DomainUnavailable.
    """
    contract.check_declared(domain)
    sqlite_driver.check_version()
    data = data.absolute()
    if read_only:
        return _open_reader(data, domain)
    try:
        make_folder(data)
        held = lock.acquire(data, started_at=clock())
    except OSError as error:
        raise refusal_of(error, data) or error from error
    try:
        return _open_owner(
            data,
            held,
            domain=domain,
            allow_unsafe=allow_unsafe_filesystem,
            clock=clock,
            on_poison=on_poison,
            reserve_bytes=reserve_bytes,
        )
    except OSError as error:
        held.release()
        raise refusal_of(error, data) or error from error
    except sqlite_driver.Error as error:
        held.release()
        raise _unreadable(data, error) from error
    except BaseException:
        held.release()
        raise


def _open_owner(
    data: Path,
    held: StoreLock,
    *,
    domain: Domain,
    allow_unsafe: bool,
    clock: Callable[[], Instant],
    on_poison: Callable[[str], None] | None,
    reserve_bytes: int,
) -> Opened:
    kind = contract.filesystem(data)
    checks = [
        contract.sqlite_check(),
        contract.check_filesystem(data, domain, allow_unsafe=allow_unsafe, kind=kind),
    ]
    scratch, blob_root = data / "tmp", data / "blobs"
    make_folder(scratch)
    make_folder(blob_root)
    sweep_scratch(scratch)
    ballast = Ballast(data / "ballast")
    if domain == "host":
        probe = _with_ballast(ballast, lambda: contract.probe_flush(scratch))
        checks.append(contract.flush_check(probe))
    path = _log_path(data)
    marker, failure = suspect.read(data), ""
    if marker is not None:
        try:
            path = data / recover.copy_out(data, path.name, domain, clock())
            marker = None
        except recover.NotRecovered as error:
            failure = str(error)
    # A suspect log is only read: closing a writing connection would copy its WAL into the file.
    connection = engine.connect(path, domain, writer=marker is None, read_only=marker is not None)
    writer: Writer | None = None
    try:
        if marker is None:
            _migrate(connection, path, domain)
        else:
            migrate.check_revision(migrate.found_revision(connection))
        checks.extend(engine.read_back(connection, domain))
        meta = _meta(connection, clock)
        readers = Readers(lambda: engine.connect(path, domain, read_only=marker is not None))
        hub = Hub()

        def poisoned(reason: str) -> None:
            _mark_suspect(data, reason, clock())
            if on_poison is not None:
                on_poison(reason)

        refusal: StrandlineError | None = None
        if marker is not None:
            refusal = suspect.refusal(data, marker, failure)
            connection.close()
        else:
            ballast.keep()
            rules = Rules(refuse, REDUCER_VERSION, meta["incarnation"], domain)
            writer = Writer(
                Transactor(connection, rules),
                domain=domain,
                clock=clock,
                ballast=ballast,
                announce=hub.announce,
                on_poison=poisoned,
                reserve_bytes=reserve_bytes,
                gone=Names((path, path.with_name(path.name + "-wal"))).gone,
            )
            _begin(writer, ballast, int(meta.get("starts", "0")) + 1)
    except BaseException:
        if writer is None or writer.close():
            connection.close()
        raise
    return _assemble(
        data,
        path,
        readers,
        writer,
        refusal=refusal,
        hub=hub,
        domain=domain,
        checks=tuple(checks),
        incarnation=meta["incarnation"],
        held=held,
        connection=connection,
    )


def _open_reader(data: Path, domain: Domain) -> Opened:
    current = _current(data)
    if current is None:
        raise StoreStopped(f"there is no store in {data}")
    path = data / current
    try:
        readers = Readers(lambda: engine.connect(path, domain, read_only=True))
        with readers.use() as connection:
            migrate.check_revision(migrate.found_revision(connection))
            checks = tuple(engine.read_back(connection, domain))
            meta = dict(connection.execute("SELECT name, value FROM store_meta").fetchall())
    except sqlite_driver.Error as error:
        raise _unreadable(data, error) from error
    return _assemble(
        data,
        path,
        readers,
        None,
        refusal=StoreStopped("this store is open for reading only"),
        hub=Hub(),
        domain=domain,
        checks=checks,
        incarnation=meta["incarnation"],
        held=None,
        connection=None,
    )


def _assemble(
    data: Path,
    path: Path,
    readers: Readers,
    writer: Writer | None,
    *,
    refusal: StrandlineError | None,
    hub: Hub,
    domain: Domain,
    checks: tuple[Check, ...],
    incarnation: str,
    held: StoreLock | None,
    connection: Connection | None,
) -> Opened:
    def facts() -> StoreFacts:
        sizes = [path, path.with_name(path.name + "-wal")]
        return StoreFacts(
            declared_domain=domain,
            verified=all(check.ok for check in checks),
            checks=checks,
            incarnation=incarnation,
            schema_revision=migrate.REVISION,
            engine=f"SQLite {sqlite_driver.VERSION_TEXT} ({sqlite_driver.NAME})",
            path=str(data),
            size_bytes=sum(one.stat().st_size for one in sizes if one.exists()),
            free_bytes=free_bytes(data),
        )

    def payload(tenant: str, digest: str) -> bytes | None:
        try:
            digest_raw(digest)
            return blobs.read(tenant, digest)
        except (NotFound, CorruptAt):
            return None

    def finish() -> None:
        if connection is not None:
            connection.close()

    store = SqliteRecoveryStore(
        readers, writer, refusal=refusal, hub=hub, facts=facts, payload=payload, finish=finish
    )
    blobs = LocalBlobStore(
        data / "blobs",
        data / "tmp",
        readers,
        store if held is not None else ReadOnlyReferences(),
        durable=domain != "process",
    )
    projections = SqliteProjections(
        data / "projections.db", incarnation, log=store.totals, read_only=held is None
    )
    return Opened(data, store, blobs, projections, held, incarnation, readers)


def _current(data: Path) -> str | None:
    """Name of the live log file; None where there is none yet.

    CorruptAt if CURRENT names anything but a file beside it, or is gone and a log is there.
    """
    try:
        name = (data / "CURRENT").read_text().strip()
    except FileNotFoundError:
        used = sorted({path.name.removesuffix("-wal") for path in _used_logs(data)})
        if used:
            raise CorruptAt(
                f"{data / 'CURRENT'} is gone, and {' and '.join(used)} beside it was in use; "
                "nothing was changed. Write the name of the newest into CURRENT, or restore the "
                "folder from a backup"
            ) from None
        return None
    except OSError as error:
        raise refusal_of(error, data) or error from error
    if not name.startswith("store-") or "/" in name or not (data / name).is_file():
        raise CorruptAt(
            f"{data / 'CURRENT'} names {name!r}, which is no log file here; restore that file, or "
            "the folder from a backup"
        )
    return name


def _used_logs(data: Path) -> Iterator[Path]:
    """Log files, and what is not yet in them, that hold more than an unfinished first start."""
    for path in data.glob("store-*.db"):
        if path.stat().st_size > _UNUSED_BYTES:
            yield path
    for path in data.glob("store-*.db-wal"):
        if path.stat().st_size > 0:
            yield path


def _log_path(data: Path) -> Path:
    """The live log file, made empty and named durably on a first start."""
    name = _current(data)
    if name is None:
        path = data / FIRST_LOG
        # Without CURRENT this file was never in use: an earlier first start did not finish.
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        engine.create(path)
        sync_folder(data)
        write_whole(data / "CURRENT", (FIRST_LOG + "\n").encode())
        return path
    return data / name


def _migrate(connection: Connection, path: Path, domain: Domain) -> None:
    found = migrate.found_revision(connection)
    migrate.check_revision(found)
    if found != migrate.REVISION:
        migrate.upgrade(lambda: engine.connect(path, domain, writer=True))


def _meta(connection: Connection, clock: Callable[[], Instant]) -> dict[str, str]:
    found = dict(connection.execute("SELECT name, value FROM store_meta").fetchall())
    if "incarnation" not in found:
        found |= {"incarnation": secrets.token_hex(8), "created_at": str(clock())}
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO store_meta (name, value) VALUES (?, ?)", list(found.items())
        )
        connection.execute("COMMIT")
    return found


def _begin(writer: Writer, ballast: Ballast, starts: int) -> None:
    """The first barrier; without it this process answers nothing."""
    member = Member(BarrierCommand(starts))
    _with_ballast(ballast, lambda: writer.submit(member, 100).result(_BARRIER_SECONDS))


def _with_ballast(ballast: Ballast, action: Callable[[], Result]) -> Result:
    """What a start must write fits into the reserve, where the disk is full."""
    try:
        return action()
    except (StoreFull, OSError) as error:
        if isinstance(error, OSError) and not isinstance(
            refusal_of(error, ballast.path), StoreFull
        ):
            raise
        ballast.release()
        return action()


def _mark_suspect(data: Path, reason: str, at: Instant) -> None:
    """Best effort: a disk that fails may take no marker either, and the caller ends regardless."""
    try:
        suspect.mark(data, reason, at)
    except OSError:
        return


def _unreadable(data: Path, error: sqlite_driver.Error) -> StrandlineError:
    name = sqlite_driver.error_name(error)
    if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return CorruptAt(f"the log file in {data} is damaged ({error}); nothing was changed")
    return StoreStopped(f"the log file in {data} cannot be used: {error} ({name})")
