"""Content-addressed blobs in `blobs/sha256/ab/<62 hex>`, and each tenant's references to them.

INVARIANTS
1. A file under `blobs/` is whole: it was written and flushed under another name first, then
   renamed, and its folder flushed before anyone is told (BLB-1). Names are digests, so a second
   writer of the same bytes changes nothing.
2. A tenant reads only what it holds a reference to; a foreign and an unknown digest look the same
   (BLB-2). The reference row commits after the bytes are durable.
3. Bytes that do not have their digest are never given out.
"""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from core.canonical import DIGEST_PREFIX, digest_raw
from core.errors import (
    AckUnknown,
    CorruptAt,
    InvalidInput,
    NotFound,
    StoreStopped,
    TooLarge,
)
from core.events.envelope import BlobRef
from core.limits import ACK_SECONDS_MAX, BLOB_BYTES_MAX, MIB
from store.engine import Readers
from store.failpoints import reach
from store.files import make_folder, refusal_of, sync_file, sync_folder
from store.state import Done

_CHUNK = MIB
#: Files flushed at a time by `put_many`: the journal groups them, more gains nothing.
_FLUSHES_AT_ONCE = 8
_VERIFIED_MAX = 50_000


class References(Protocol):
    """Where references become durable: the log's own writer."""

    def put_blobs(self, tenant: str, blobs: tuple[tuple[str, int], ...]) -> Future[Done]: ...


class LocalBlobStore:
    """Implements `store.ports.BlobStore` on a local folder."""

    def __init__(
        self, root: Path, scratch: Path, readers: Readers, references: References, *, durable: bool
    ) -> None:
        self._root = root / "sha256"
        self._scratch = scratch
        self._readers = readers
        self._references = references
        self._durable = durable
        """False for domain `process`, whose promise ends with the host."""
        self._names = itertools.count()
        self._verified: dict[str, tuple[int, int, int]] = {}
        """digest -> (inode, size, mtime) when the whole file was last verified."""

    # --- writes ----------------------------------------------------------------------------------

    def put(self, tenant: str, data: bytes | BinaryIO, *, limit: int | None = None) -> BlobRef:
        """Store one blob; TooLarge beyond `limit` (BLOB_BYTES_MAX if not given)."""
        stream = io.BytesIO(data) if isinstance(data, bytes) else data
        bound = BLOB_BYTES_MAX if limit is None else limit
        with _refused_where_full(self._root):
            digest, length = self._store(stream, bound)
            if self._durable:
                sync_folder(self._path(digest).parent)
            reach("blob.listed")
        self._refer(tenant, [(digest, length)])
        return BlobRef(digest=digest, length=length)

    def put_many(self, tenant: str, items: Iterable[bytes]) -> list[BlobRef]:
        """Store many: one flush per folder, one reference transaction."""
        data = list(items)
        if not data:
            return []
        with _refused_where_full(self._root):
            if len(data) < 4 or not self._durable:
                stored = [self._store(io.BytesIO(item), BLOB_BYTES_MAX) for item in data]
            else:
                with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as pool:
                    stored = list(
                        pool.map(lambda item: self._store(io.BytesIO(item), BLOB_BYTES_MAX), data)
                    )
            if self._durable:
                for folder in {self._path(digest).parent for digest, _ in stored}:
                    sync_folder(folder)
            reach("blob.listed")
        self._refer(tenant, list(dict.fromkeys(stored)))
        return [BlobRef(digest=digest, length=length) for digest, length in stored]

    def _store(self, stream: BinaryIO, limit: int) -> tuple[str, int]:
        """Bytes whole and flushed under their digest; the folder's flush is the caller's."""
        temporary = self._scratch / f"blob-{os.getpid()}-{next(self._names)}"
        try:
            digest, length = self._write(temporary, stream, limit)
            path = self._path(digest)
            make_folder(path.parent)
            if self._holds(path, digest, length):
                if self._durable:
                    sync_file(path)
                return digest, length
            temporary.rename(path)
            reach("blob.renamed")
            return digest, length
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _write(self, path: Path, stream: BinaryIO, limit: int) -> tuple[str, int]:
        state, length = hashlib.sha256(), 0
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        reach("blob.created")
        try:
            while chunk := stream.read(_CHUNK):
                length += len(chunk)
                if length > limit:
                    raise TooLarge(f"a blob here is at most {limit} bytes", limit=limit)
                state.update(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[os.write(descriptor, view) :]
            reach("blob.written")
            if self._durable:
                os.fsync(descriptor)
            reach("blob.synced")
        finally:
            os.close(descriptor)
        return DIGEST_PREFIX + state.hexdigest(), length

    def _holds(self, path: Path, digest: str, length: int) -> bool:
        """Whether the very bytes are there already; damaged ones are replaced."""
        try:
            if path.stat().st_size != length:
                return False
            with path.open("rb") as file:
                return _digest_of(file) == digest
        except FileNotFoundError:
            return False

    def _refer(self, tenant: str, blobs: list[tuple[str, int]]) -> None:
        """Reference rows durable, unless they are already."""
        fresh = tuple(blob for blob in blobs if self.info(tenant, blob[0]) is None)
        if not fresh:
            return
        try:
            self._references.put_blobs(tenant, fresh).result(ACK_SECONDS_MAX + 5)
        except WaitTimeout as error:
            raise AckUnknown("the blob's reference was not acknowledged in time") from error
        reach("blob.referenced")

    # --- reads -----------------------------------------------------------------------------------

    def read(self, tenant: str, digest: str) -> bytes:
        """All bytes, verified."""
        path = self._referred(tenant, digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise _missing(digest) from error
        if DIGEST_PREFIX + hashlib.sha256(data).hexdigest() != digest:
            raise _damaged(digest)
        return data

    def open(self, tenant: str, digest: str) -> BinaryIO:
        """A stream whose bytes were verified just now, through the same descriptor."""
        file = self._open(tenant, digest)
        try:
            self._verify(file, digest, always=True)
        except BaseException:
            file.close()
            raise
        return file

    def read_range(self, tenant: str, digest: str, start: int, end: int) -> bytes:
        """Bytes start to end (exclusive); InvalidInput if they lie outside the blob."""
        with self._open(tenant, digest) as file:
            size = self._verify(file, digest, always=False)
            if not 0 <= start <= end <= size:
                raise InvalidInput(
                    f"bytes {start} to {end} are not within the {size} bytes of this blob"
                )
            file.seek(start)
            return file.read(end - start)

    def info(self, tenant: str, digest: str) -> BlobRef | None:
        """The reference this tenant holds, whether or not the file is there."""
        with self._readers.use() as connection:
            row = connection.execute(
                "SELECT length FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
            ).fetchone()
        return BlobRef(digest=digest, length=row[0]) if row is not None else None

    def state(self, tenant: str, digest: str) -> Literal["present", "missing", "unknown"]:
        """present; missing: the reference is there and the file is not; unknown: no reference."""
        ref = self.info(tenant, digest)
        if ref is None:
            return "unknown"
        try:
            size = self._path(digest).stat().st_size
        except FileNotFoundError:
            return "missing"
        return "present" if size == ref.length else "missing"

    def totals(self) -> tuple[int, int]:
        """(count, bytes) of what references name; shared bytes count once."""
        with self._readers.use() as connection:
            row = connection.execute(
                "SELECT count(*), coalesce(sum(length), 0) FROM "
                "(SELECT digest, max(length) AS length FROM blobs GROUP BY digest)"
            ).fetchone()
        return int(row[0]), int(row[1])

    def check(self, digest: str) -> str | None:
        """For audit: what is wrong with the file of this digest; None if it is whole."""
        try:
            with self._path(digest).open("rb") as file:
                return None if _digest_of(file) == digest else "its bytes have another digest"
        except FileNotFoundError:
            return "its file is missing"

    def _path(self, digest: str) -> Path:
        name = digest_raw(digest).hex()
        return self._root / name[:2] / name[2:]

    def _referred(self, tenant: str, digest: str) -> Path:
        path = self._path(digest)
        if self.info(tenant, digest) is None:
            raise NotFound(f"there is no blob {digest}")
        return path

    def _open(self, tenant: str, digest: str) -> BinaryIO:
        try:
            return self._referred(tenant, digest).open("rb")
        except FileNotFoundError as error:
            raise _missing(digest) from error

    def _verify(self, file: BinaryIO, digest: str, *, always: bool) -> int:
        """The file's size, once its bytes are known to have this digest."""
        stat = os.fstat(file.fileno())
        identity = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if always or self._verified.get(digest) != identity:
            if _digest_of(file) != digest:
                self._verified.pop(digest, None)
                raise _damaged(digest)
            if len(self._verified) >= _VERIFIED_MAX:
                self._verified.clear()
            self._verified[digest] = identity
        file.seek(0)
        return stat.st_size


class ReadOnlyReferences:
    """Stands for the writer where there is none."""

    def put_blobs(self, tenant: str, blobs: tuple[tuple[str, int], ...]) -> Future[Done]:
        raise StoreStopped("this store is open for reading only")


def sweep_scratch(scratch: Path) -> int:
    """Remove what a crash left half-written; nothing there was ever referred to."""
    removed = 0
    for path in _files(scratch):
        with suppress(OSError):
            path.unlink()
            removed += 1
    return removed


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.is_file())


def _digest_of(file: BinaryIO) -> str:
    return DIGEST_PREFIX + hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _missing(digest: str) -> NotFound:
    return NotFound(
        f"the bytes of blob {digest} are missing on disk; its digest and reference remain",
        missing=True,
        digest=digest,
    )


def _damaged(digest: str) -> CorruptAt:
    return CorruptAt(
        f"the stored bytes of blob {digest} have another digest; they are not given out",
        digest=digest,
    )


@contextmanager
def _refused_where_full(folder: Path) -> Iterator[None]:
    """Turn a full disk into StoreFull, a lost permission into StoreStopped, and a failed flush
    into AckUnknown: nothing refers to the bytes yet, and putting them again writes them anew."""
    try:
        yield
    except OSError as error:
        refusal = refusal_of(error, folder)
        if refusal is None and error.errno == errno.EIO:
            raise AckUnknown(
                f"{folder} cannot be flushed ({error.strerror}); it is not known whether the "
                "bytes are durable. Put them again once the disk is sound."
            ) from error
        if refusal is None:
            raise
        raise refusal from error
