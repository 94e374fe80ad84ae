"""Imports that were uploaded: waiting, running, done; the page and the API ask here.

INVARIANTS
1. An upload lies in the data folder's `tmp` until its import has ended, and is removed then,
   whatever the outcome.
2. Jobs wait in a bounded queue and run on threads of their own, so that they cannot take those
   that serve reads and appends (APP-7).
3. A job belongs to the tenant that uploaded it; another's looks like one that never was.
4. Finished jobs are kept for their reports, at most `JOBS_KEPT_MAX`, oldest forgotten first.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import structlog
from uuid_utils.compat import uuid7

from core.errors import Busy, NotFound, StoreStopped, StrandlineError
from core.instants import Instant
from core.principal import Principal
from ingest.base import Report
from store.files import refusal_of

JOBS_WAITING_MAX = 64
JOBS_KEPT_MAX = 200
#: Jobs of files that are followed, kept for their senders.
FOLLOWED_KEPT_MAX = 32
THREADS = 2
CLOSE_SECONDS = 3.0

State = Literal["waiting", "running", "done"]
#: (bytes done, bytes in all, events done)
Progress = Callable[[int, int, int], None]
#: (principal, file, progress) -> the importer's report. Raises StrandlineError for a file that
#: cannot be read at all.
Run = Callable[[Principal, "ImportFile", Progress], Report]

_LOG = structlog.get_logger("imports")


@dataclass(slots=True)
class ImportFile:
    """One file of a job."""

    name: str
    """As the uploader named it; shown, never used as a path."""
    path: Path
    size: int
    state: State = "waiting"
    read_bytes: int = 0
    events: int = 0
    source: str | None = None
    """What the file is to be remembered as, where the caller says."""
    path_there: str | None = None
    """Where it lies on its sender's machine."""
    offset: int = 0
    """Bytes that its sender left out, because they are known here."""
    following: bool = False
    """Its sender follows it while it grows."""
    at_work: bool = True
    """Then: what may still be added to waits."""
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Small files beside it, by how their names end."""
    hide: bool = True
    """Its secrets are redacted."""
    report: Report | None = None
    """The importer's report, once done."""
    error: StrandlineError | None = None
    """Why there is no report."""

    @property
    def ended(self) -> bool:
        """Whether its import is over."""
        return self.state == "done"


@dataclass(slots=True)
class Job:
    """One upload of one or more files."""

    job_id: str
    tenant: str
    submitted_at: Instant
    files: tuple[ImportFile, ...]
    ended_at: Instant | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def state(self) -> State:
        """`waiting`, `running` or `done`."""
        if self.done.is_set():
            return "done"
        started = any(file.state != "waiting" for file in self.files)
        return "running" if started else "waiting"

    @property
    def following(self) -> bool:
        """Whether it is what grew of a file that its sender follows."""
        return all(file.following for file in self.files)

    @property
    def refused(self) -> bool:
        """Whether any file was refused or refused in part."""
        return any(file.report is None or not file.report.ok for file in self.files if file.ended)


class ImportJobs:
    """The queue, the threads and the finished jobs."""

    def __init__(self, run: Run, clock: Callable[[], Instant]) -> None:
        self._run = run
        self._clock = clock
        #: Protects `_jobs` and `_waiting`.
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._waiting = 0
        self._closing = threading.Event()
        self._queue: queue.SimpleQueue[tuple[Principal, Job] | None] = queue.SimpleQueue()
        #: Daemons: a parse that is long does not keep a server that was told to stop.
        self._threads = [
            threading.Thread(target=self._loop, name=f"import-{number}", daemon=True)
            for number in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, who: Principal, files: Sequence[ImportFile]) -> Job:
        """Queue an import; the files on disk now belong to the job.

        Raises Busy (and removes the files) when too many jobs wait.
        """
        job = Job(
            job_id=uuid7().hex,
            tenant=who.tenant,
            submitted_at=self._clock(),
            files=tuple(files),
        )
        with self._lock:
            full = self._waiting >= JOBS_WAITING_MAX
            if not full:
                self._waiting += 1
                self._jobs[job.job_id] = job
                self._forget()
        if full:
            _remove(job)
            raise Busy(f"{JOBS_WAITING_MAX} imports are waiting already; send it again later")
        self._queue.put((who, job))
        return job

    def get(self, who: Principal, job_id: str) -> Job:
        """NotFound for a job that is not this tenant's, or was forgotten."""
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None or job.tenant != who.tenant:
            raise NotFound("there is no such import, or its report is no longer kept", job=job_id)
        return job

    def newest(self, who: Principal, limit: int = 50, *, followed: bool = False) -> list[Job]:
        """This tenant's jobs, newest first; what followers send all the time only where asked."""
        with self._lock:
            mine = [
                job
                for job in reversed(self._jobs.values())
                if job.tenant == who.tenant and (followed or not job.following)
            ]
        return mine[:limit]

    def close(self) -> None:
        """Drop what waits, and let what runs stop where it next tells of its progress, within
        `CLOSE_SECONDS`; idempotent.

        An import that was cut off leaves whole segments of a log format, nothing of a document.
        """
        self._closing.set()
        for _ in self._threads:
            self._queue.put(None)
        self.join(CLOSE_SECONDS)
        with self._lock:
            left = [job for job in self._jobs.values() if not job.done.is_set()]
        for job in left:
            _remove(job)

    def join(self, seconds: float) -> bool:
        """Wait for the threads of a closed queue; whether they ended."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _loop(self) -> None:
        while (work := self._queue.get()) is not None:
            if not self._closing.is_set():
                self._work(*work)

    def _forget(self) -> None:
        finished = [key for key, job in self._jobs.items() if job.done.is_set()]
        # A sender that follows a file reads its report at once.
        followed = [key for key in finished if self._jobs[key].following]
        for key in followed[:-FOLLOWED_KEPT_MAX]:
            del self._jobs[key]
        finished = [key for key in finished if key in self._jobs]
        for key in finished[: max(0, len(self._jobs) - JOBS_KEPT_MAX)]:
            del self._jobs[key]

    def _work(self, who: Principal, job: Job) -> None:
        with self._lock:
            self._waiting -= 1
        try:
            for file in job.files:
                self._one(who, file)
        finally:
            _remove(job)
            job.ended_at = self._clock()
            job.done.set()

    def _one(self, who: Principal, file: ImportFile) -> None:
        def progress(read_bytes: int, _: int, events: int) -> None:
            file.read_bytes, file.events = read_bytes, events
            if self._closing.is_set():
                raise StoreStopped("the server was stopped; import the file again once it runs")

        file.state = "running"
        try:
            file.report = self._run(who, file, progress)
        except StrandlineError as error:
            file.error = error
        except Exception as error:
            full = refusal_of(error, file.path.parent) if isinstance(error, OSError) else None
            if full is not None:
                file.error = full
                file.state = "done"
                return
            _LOG.error("import failed", name=file.name[:200], exc_info=error)
            file.error = StrandlineError(
                "the import failed inside the server; its log has the cause"
            )
        file.state = "done"


def _remove(job: Job) -> None:
    for file in job.files:
        file.path.unlink(missing_ok=True)
