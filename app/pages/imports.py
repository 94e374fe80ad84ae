"""Import by page: an upload of files, its progress, and the report of each; a plain form works."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from app import forms, links, render, sources
from app.deps import ImporterDep, JobsDep, PartsDep, RuntimeDep, WatchDep
from app.jobs import JOBS_KEPT_MAX, ImportFile, ImportJobs, Job
from app.presenters import reports, watching
from app.presenters import sources as shown
from app.presenters.formats import FORMATS, Format
from app.presenters.reports import FileReport, RefusedLine
from app.presenters.sources import SourceLine
from app.presenters.watching import WatchBlock
from app.render import Page
from app.watch import Watch
from core.errors import InvalidInput
from core.limits import IMPORT_BYTES_MAX, IMPORT_PAGE_FILES_MAX, INTEGER_MAX, MIB
from core.principal import Principal
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

NAME_CHARS_MAX = 255
CHUNK_BYTES = MIB
BATCHES_LISTED = 20
#: Reports shown in full on one page; the rest is in the table, each a link away.
REPORTS_SHOWN = 6
SOURCES_SHOWN = 20
REFUSED_SHOWN = 20
SOURCE_CHARS_MAX = 4300


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One earlier upload."""

    href: str
    headline: str
    submitted_at: int


@dataclass(frozen=True, slots=True)
class ImportPage(Page):
    """The drop box, and one batch with its reports."""

    template: ClassVar[str] = "pages/import.html"
    parts: ClassVar[Mapping[str, str]] = {"batch": "partials/_batch.html"}
    section: ClassVar[str] = "Import"

    now: int
    formats: tuple[Format, ...]
    bytes_max: int
    files_max: int
    batches: tuple[BatchLine, ...]
    refused: tuple[RefusedLine, ...]
    """Files refused since this server started, newest first."""
    refused_more: int
    watch: WatchBlock | None
    sources: tuple[SourceLine, ...]
    sources_next: str
    sources_from_start: bool
    outdated: bool
    """Some source shown was read by an older importer."""
    rederived: str = ""
    """What pressing the button for those did."""
    files: tuple[FileReport, ...] = ()
    headline: str = ""
    running: bool = False
    here: str = ""
    shown: tuple[FileReport, ...] = ()


def refused_since(jobs: ImportJobs, who: Principal) -> tuple[RefusedLine, ...]:
    """Files refused, whole or in part, in the imports whose reports are kept, newest first."""
    kept = jobs.newest(who, JOBS_KEPT_MAX, followed=True)
    return tuple(line for job in kept for line in reports.refused(job))


def _files(job: Job) -> tuple[FileReport, ...]:
    found = []
    for index, file in enumerate(job.files):
        if file.error is not None:
            found.append(reports.failed(index, file.name, file.size, str(file.error)))
        elif file.report is not None:
            found.append(reports.done(index, file.name, file.size, file.report.document()))
        else:
            found.append(
                reports.waiting(
                    index,
                    file.name,
                    file.size,
                    state=file.state,
                    read=file.read_bytes,
                    events=file.events,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Around:
    """What the page reads from."""

    who: Principal
    jobs: ImportJobs
    runtime: Runtime
    watch: Watch


async def _around(who: ImporterDep, jobs: JobsDep, runtime: RuntimeDep, watch: WatchDep) -> _Around:
    return _Around(who, jobs, runtime, watch)


AroundDep = Annotated[_Around, Depends(_around)]


def _page(around: _Around, job: Job | None, *, after: str = "", rederived: str = "") -> ImportPage:
    who, jobs = around.who, around.jobs
    listed = sources.page(around.runtime, who, after=after, limit=SOURCES_SHOWN)
    earlier = [other for other in jobs.newest(who, BATCHES_LISTED) if other is not job]
    files = _files(job) if job is not None else ()
    refused = refused_since(jobs, who)
    # What was refused comes first, then what was imported, in the order it was sent.
    ranked = sorted(
        (file for file in files if file.state == "done" and file.word != "skipped"),
        key=lambda file: (not file.bad, file.word == "unchanged", file.index),
    )
    return ImportPage(
        title="Import",
        now=around.runtime.clock(),
        formats=FORMATS,
        bytes_max=IMPORT_BYTES_MAX,
        files_max=IMPORT_PAGE_FILES_MAX,
        batches=tuple(
            BatchLine(
                links.import_job_page(other.job_id),
                reports.headline(_files(other)),
                other.submitted_at,
            )
            for other in earlier
        ),
        refused=refused[:REFUSED_SHOWN],
        refused_more=max(0, len(refused) - REFUSED_SHOWN),
        watch=watching.block(around.watch.status()),
        sources=tuple(shown.line(row) for row in listed.rows),
        sources_next=links.imports_after(listed.after) if listed.after is not None else "",
        sources_from_start=not after,
        outdated=any(row.outdated for row in listed.rows),
        rederived=rederived,
        files=files,
        headline=reports.headline(files) if files else "",
        running=job is not None and job.state != "done",
        here=links.import_job_page(job.job_id) if job is not None else "",
        shown=tuple(ranked[:REPORTS_SHOWN]),
    )


@router.get("/import", response_class=HTMLResponse)
def form(
    request: Request,
    around: AroundDep,
    after: Annotated[str, Query(max_length=SOURCE_CHARS_MAX)] = "",
    derived: Annotated[int | None, Query(ge=0, le=INTEGER_MAX)] = None,
    refused: Annotated[int, Query(ge=0, le=INTEGER_MAX)] = 0,
) -> Response:
    """The drop box, and what was imported beyond the source `after`."""
    rederived = shown.rederived(derived, refused) if derived is not None else ""
    return render.respond(request, _page(around, None, after=after, rederived=rederived))


@router.post("/import")
async def upload(request: Request, who: ImporterDep, jobs: JobsDep, parts: PartsDep) -> Response:
    """Take the files and answer with the page of their import."""
    files = await _receive(request, parts.uploads)
    job = jobs.submit(who, files)
    return RedirectResponse(links.import_job_page(job.job_id), 303)


@router.get("/import/{job_id}", response_class=HTMLResponse)
def batch(
    request: Request,
    around: AroundDep,
    job_id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")],
) -> Response:
    """One upload: progress, then reports."""
    return render.respond(request, _page(around, around.jobs.get(around.who, job_id)))


async def _receive(request: Request, folder: FilePath) -> list[ImportFile]:
    kept: list[ImportFile] = []
    try:
        async with forms.whole_form(request, max_files=IMPORT_PAGE_FILES_MAX, max_fields=8) as sent:
            for part in sent.getlist("files"):
                if isinstance(part, UploadFile) and part.filename:
                    kept.append(await run_in_threadpool(_keep, part, folder))
            known_as = sent.get("as")
        if not kept:
            raise InvalidInput(
                "no file was chosen; choose one or more and send the form again", field="files"
            )
        _name(kept, known_as.strip() if isinstance(known_as, str) else "")
    except BaseException:
        for file in kept:
            file.path.unlink(missing_ok=True)
        raise
    return kept


def _name(files: list[ImportFile], known_as: str) -> None:
    """What a single file is to be remembered as; InvalidInput where that cannot be."""
    if not known_as:
        return
    if len(files) > 1:
        raise InvalidInput(
            "a name is for one file, and several were chosen; leave it empty, or send them one by "
            "one",
            field="as",
        )
    if len(known_as) > NAME_CHARS_MAX or not known_as.isprintable():
        raise InvalidInput(f"a name is 1 to {NAME_CHARS_MAX} printable characters long", field="as")
    files[0].source = known_as


def _keep(part: UploadFile, folder: FilePath) -> ImportFile:
    handle, path = tempfile.mkstemp(prefix="import-", dir=folder)
    with os.fdopen(handle, "wb") as body:
        part.file.seek(0)
        while chunk := part.file.read(CHUNK_BYTES):
            body.write(chunk)
        size = body.tell()
    return ImportFile((part.filename or "upload")[:NAME_CHARS_MAX], FilePath(path), size)
