"""The only place that constructs the store, the runtime, ingest and the projector."""

from __future__ import annotations

import io
import itertools
import queue
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, cast

from app.followed import Readings
from app.jobs import ImportFile, Progress
from app.settings import Settings
from core.errors import StrandlineError
from core.instants import Instant
from core.principal import Principal
from ingest import native, pipeline
from ingest.base import Report, no_progress
from ingest.files import OpenedFile
from ingest.logs import Runs
from runtime.indexer import Indexer
from runtime.projector import Projector
from runtime.service import Runtime
from store.audit import audit
from store.open import Opened, open_store, system_clock
from store.ports import Finding
from store.search import SqliteTextIndex

_EXPORT_CHUNKS = 16


def version() -> str:
    """The installed version of this program."""
    return metadata.version("strandline")


@dataclass(slots=True)
class Parts:
    """An open store with everything that works on it."""

    settings: Settings
    opened: Opened
    runtime: Runtime
    projector: Projector | None
    """None where the store is open for reading only: it writes the projections."""
    index: SqliteTextIndex
    indexer: Indexer | None
    """None where the store is open for reading only: it writes the index."""
    version: str
    runs: Runs = field(default_factory=Runs)
    """What was derived of growing sources, for their next reading."""
    readings: Readings = field(default_factory=Readings)
    """When followers last sent something."""

    @property
    def folder(self) -> Path:
        """The data folder."""
        return self.opened.data

    @property
    def uploads(self) -> Path:
        """Where bodies wait that are too large to hold: on the data folder's own disk."""
        return self.opened.data / "tmp"

    def clock(self) -> Instant:
        """Microseconds UTC."""
        return self.runtime.clock()

    def publish(self, url: str, token: str) -> None:
        """Say in the lock file where this process serves."""
        assert self.opened.lock is not None, "a server owns its store"
        self.opened.lock.describe(url=url, token=token)

    def import_upload(self, who: Principal, file: ImportFile, progress: Progress) -> Report:
        """Import one uploaded file."""
        with file.path.open("rb") as stream:
            report = pipeline.import_stream(
                self.opened.store,
                self.opened.blobs,
                who.tenant,
                file.name,
                stream,
                identity=file.source,
                path=file.path_there,
                following=pipeline.Following(file.source, file.at_work, hide=file.hide)
                if file.following
                else None,
                offset=file.offset,
                beside=file.beside.get,
                hide=file.hide,
                progress=progress,
                spool=self.uploads,
                runs=self.runs,
            )
        if file.following:
            self.readings.saw(who.tenant, (one.id for one in report.trajectories))
        self._project(who, report)
        return report

    def _project(self, who: Principal, report: Report) -> None:
        """Let lists show what was imported as soon as its report is there."""
        if self.projector is None:
            return
        for trajectory in report.trajectories:
            # A trajectory that cannot be projected was imported all the same; the projector's
            # own thread meets it too, and keeps the reason.
            with suppress(StrandlineError):
                self.projector.catch_up(who.tenant, trajectory.id)

    def import_path(
        self,
        who: Principal,
        path: str,
        progress: Progress,
        as_name: str | None = None,
        *,
        hide: bool = True,
    ) -> Iterator[Report]:
        """Import a file or a folder by its path; one report per file. `as_name` is the source's
        identity instead of the path. `hide`: secrets are redacted."""
        for report in pipeline.import_path(
            self.opened.store,
            self.opened.blobs,
            who.tenant,
            path,
            as_name=as_name,
            hide=hide,
            progress=progress,
            spool=self.uploads,
            runs=self.runs,
        ):
            self._project(who, report)
            yield report

    def import_opened(
        self,
        who: Principal,
        opened: OpenedFile,
        how: pipeline.Following,
        progress: Progress = no_progress,
    ) -> Report:
        """Take in what is new of a file that is followed."""
        report = pipeline.import_opened(
            self.opened.store,
            self.opened.blobs,
            who.tenant,
            opened,
            how,
            progress=progress,
            runs=self.runs,
            spool=self.uploads,
        )
        self._project(who, report)
        return report

    def rederive(
        self, who: Principal, *, after: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, Report]]:
        """Derive again what older versions of importers read: at most `limit` sources beyond the
        source id `after`; the id and the report of each."""
        work = pipeline.rederive(
            self.opened.store, self.opened.blobs, who.tenant, actor=who.name, after=after
        )
        for source_id, report in itertools.islice(work, limit):
            self._project(who, report)
            yield source_id, report

    def export_chunks(self, who: Principal, trajectory_id: str) -> Iterator[bytes]:
        """The native export as it is made; raises what ends it early."""
        pipe = _Pipe()
        out = cast(BinaryIO, pipe)

        def work() -> None:
            try:
                native.export(self.opened.store, self.opened.blobs, who.tenant, trajectory_id, out)
                pipe.finish(None)
            except BaseException as error:
                pipe.finish(error)

        threading.Thread(target=work, name="export", daemon=True).start()
        return pipe.chunks()

    def archive_chunks(self, who: Principal, trajectory_ids: Iterable[str]) -> Iterator[bytes]:
        """A ZIP of native exports as it is made. What cannot be exported is named with its reason
        in `left-out.txt`, its last member."""
        pipe = _Pipe()
        out = cast(BinaryIO, pipe)

        def work() -> None:
            try:
                self._archive(who, trajectory_ids, out)
                pipe.finish(None)
            except BaseException as error:
                pipe.finish(error)

        threading.Thread(target=work, name="archive", daemon=True).start()
        return pipe.chunks()

    def _archive(self, who: Principal, trajectory_ids: Iterable[str], out: BinaryIO) -> None:
        store, blobs = self.opened.store, self.opened.blobs
        left_out: list[str] = []
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name in trajectory_ids:
                # Whole before its member begins: a log that cannot be read leaves none behind.
                with tempfile.TemporaryFile(dir=self.uploads) as kept:
                    try:
                        native.export(store, blobs, who.tenant, name, cast(BinaryIO, kept))
                    except StrandlineError as error:
                        left_out.append(f"{name}: {error}")
                        continue
                    kept.seek(0)
                    member = zipfile.ZipInfo(f"{name}.strandline.jsonl")
                    member.compress_type = zipfile.ZIP_DEFLATED
                    with archive.open(member, "w", force_zip64=True) as into:
                        shutil.copyfileobj(kept, into, 1 << 20)
            if left_out:
                archive.writestr("left-out.txt", "\n".join(left_out) + "\n")

    def audit(self, who: Principal | None = None) -> Iterator[Finding | str]:
        """Check every stored invariant, of all or of one caller's tenant; texts are progress."""
        return audit(self.opened, who.tenant if who is not None else None)

    def close(self) -> None:
        """Stop following the log, finish what is queued, let go of the folder; idempotent."""
        if self.projector is not None:
            self.projector.close()
        if self.indexer is not None:
            self.indexer.close()
        self.index.close()
        self.opened.close()


def open_parts(settings: Settings, *, read_only: bool = False, follow: bool = True) -> Parts:
    """Open the data folder of these settings.

    `follow` starts the threads of projector and indexer; a command catches up by itself instead,
    with the index only where it searches. Raises StoreStopped where another process owns the
    folder, DomainUnavailable.
    """
    opened = open_store(
        settings.data_folder,
        domain=settings.domain,
        read_only=read_only,
        allow_unsafe_filesystem=settings.allow_unsafe_filesystem,
    )
    try:
        index = SqliteTextIndex(
            opened.data / "search.db",
            opened.incarnation,
            heads=lambda tenant, after: opened.store.heads(tenant, after=after, limit=500),
            log=opened.store.totals,
            read_only=read_only,
        )
        runtime = Runtime(
            opened.store, opened.blobs, opened.projections, system_clock, text_index=index
        )
        projector, indexer = None, None
        if not read_only:
            tenants = (settings.tenant,)
            projector = Projector(opened.store, opened.blobs, opened.projections, tenants=tenants)
            indexer = Indexer(opened.store, opened.blobs, index, tenants=tenants)
            if follow:
                projector.start()
                indexer.start()
            else:
                projector.catch_up()
        return Parts(settings, opened, runtime, projector, index, indexer, version())
    except BaseException:
        opened.close()
        raise


def open_simulated(settings: Settings, clock: Callable[[], Instant]) -> Opened:
    """The store alone, telling the time of `clock`: for what the demonstration makes up.

    Its appends are made durable when it is closed, not one by one. Raises as open_parts does.
    """
    return open_store(
        settings.data_folder,
        domain="process",
        allow_unsafe_filesystem=settings.allow_unsafe_filesystem,
        clock=clock,
    )


class _Pipe(io.RawIOBase):
    """What one thread writes and another yields; bounded, and broken when nobody reads on."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: queue.Queue[bytes | None] = queue.Queue(_EXPORT_CHUNKS)
        self._gone = threading.Event()
        self._error: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        chunk = bytes(data)  # type: ignore[call-overload]
        self._put(chunk)
        return len(chunk)

    def finish(self, error: BaseException | None) -> None:
        """The writer is done, or failed."""
        self._error = error
        try:
            self._put(None)
        except BrokenPipeError:
            return

    def chunks(self) -> Iterator[bytes]:
        """What was written, in order; then the writer's error, if it failed."""
        try:
            while (chunk := self._queue.get()) is not None:
                yield chunk
            if self._error is not None:
                raise self._error
        finally:
            self._gone.set()

    def _put(self, chunk: bytes | None) -> None:
        while not self._gone.is_set():
            try:
                self._queue.put(chunk, timeout=0.2)
                return
            except queue.Full:
                continue
        raise BrokenPipeError("nobody reads this export any more")
