"""Import by page: an upload of files, its progress, and the report of each; a plain form works."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, ClassVar

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from app import links, render
from app.deps import ImporterDep, JobsDep, PartsDep, WatchDep
from app.jobs import ImportFile, ImportJobs, Job
from app.presenters import reports, watching
from app.presenters.formats import FORMATS, Format
from app.presenters.reports import FileReport
from app.presenters.watching import WatchBlock
from app.render import Page
from app.watch import Watch
from core.errors import InvalidInput
from core.limits import IMPORT_BYTES_MAX, IMPORT_PAGE_FILES_MAX, MIB
from core.principal import Principal

router = APIRouter(include_in_schema=False)

NAME_CHARS_MAX = 255
CHUNK_BYTES = MIB
BATCHES_LISTED = 20
#: Reports shown in full on one page; the rest is in the table, each a link away.
REPORTS_SHOWN = 6


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
    watch: WatchBlock | None
    files: tuple[FileReport, ...] = ()
    headline: str = ""
    running: bool = False
    here: str = ""
    shown: tuple[FileReport, ...] = ()


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


def _page(now: int, jobs: ImportJobs, who: Principal, job: Job | None, watch: Watch) -> ImportPage:
    earlier = [other for other in jobs.newest(who, BATCHES_LISTED) if other is not job]
    files = _files(job) if job is not None else ()
    # What was refused comes first, then what was imported, in the order it was sent.
    ranked = sorted(
        (file for file in files if file.state == "done" and file.word != "skipped"),
        key=lambda file: (not file.bad, file.word == "unchanged", file.index),
    )
    return ImportPage(
        title="Import",
        now=now,
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
        watch=watching.block(watch.status()),
        files=files,
        headline=reports.headline(files) if files else "",
        running=job is not None and job.state != "done",
        here=links.import_job_page(job.job_id) if job is not None else "",
        shown=tuple(ranked[:REPORTS_SHOWN]),
    )


@router.get("/import", response_class=HTMLResponse)
def form(
    request: Request, who: ImporterDep, jobs: JobsDep, parts: PartsDep, watch: WatchDep
) -> Response:
    """The drop box."""
    return render.respond(request, _page(parts.clock(), jobs, who, None, watch))


@router.post("/import")
async def upload(request: Request, who: ImporterDep, jobs: JobsDep, parts: PartsDep) -> Response:
    """Take the files and answer with the page of their import."""
    files = await _receive(request, parts.uploads)
    job = jobs.submit(who, files)
    return RedirectResponse(links.import_job_page(job.job_id), 303)


@router.get("/import/{job_id}", response_class=HTMLResponse)
def batch(
    request: Request,
    who: ImporterDep,
    jobs: JobsDep,
    parts: PartsDep,
    watch: WatchDep,
    *,
    job_id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")],
) -> Response:
    """One upload: progress, then reports."""
    return render.respond(request, _page(parts.clock(), jobs, who, jobs.get(who, job_id), watch))


async def _receive(request: Request, folder: FilePath) -> list[ImportFile]:
    kept: list[ImportFile] = []
    try:
        async with request.form(max_files=IMPORT_PAGE_FILES_MAX, max_fields=8) as sent:
            for part in sent.getlist("files"):
                if isinstance(part, UploadFile) and part.filename:
                    kept.append(await run_in_threadpool(_keep, part, folder))
        if not kept:
            raise InvalidInput(
                "no file was chosen; choose one or more and send the form again", field="files"
            )
    except BaseException:
        for file in kept:
            file.path.unlink(missing_ok=True)
        raise
    return kept


def _keep(part: UploadFile, folder: FilePath) -> ImportFile:
    handle, path = tempfile.mkstemp(prefix="import-", dir=folder)
    with os.fdopen(handle, "wb") as body:
        part.file.seek(0)
        while chunk := part.file.read(CHUNK_BYTES):
            body.write(chunk)
        size = body.tell()
    return ImportFile((part.filename or "upload")[:NAME_CHARS_MAX], FilePath(path), size)
