"""Imports over HTTP: upload, then ask for progress and the report."""

from __future__ import annotations

import base64
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, JsonValue, StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from app import errors, forms, links, sources
from app.api import answers
from app.api.blobs import CHUNK_BYTES, receive
from app.api.events import BINARY
from app.deps import ImporterDep, JobsDep, PartsDep, RuntimeDep
from app.errors import HttpRefused
from app.jobs import ImportFile, Job
from core.canonical import DIGEST_PATTERN
from core.errors import ImportRefused, InvalidInput
from core.limits import IMPORT_FILES_MAX, INTEGER_MAX, PAGE_ROWS, PAGE_ROWS_MAX
from ingest.base import Report
from ingest.files import COMPANION_BYTES_MAX

router = APIRouter(prefix="/v1/imports", tags=["imports"])

NAME_CHARS_MAX = 255
SOURCE_CHARS_MAX = 4096
JOBS_LISTED = 50
#: Sources derived again by one request: each may hold 100,000 events.
REDERIVED_MAX = 50
#: Small files beside one log.
BESIDE_MAX = 4
BESIDE_CHARS_MAX = 2 * COMPANION_BYTES_MAX


class ImportFileAnswer(answers.Answer):
    """One uploaded file."""

    name: str
    size: int
    state: str
    read_bytes: int
    events: int
    report: dict[str, JsonValue] | None
    problem: dict[str, JsonValue] | None


class JobAnswer(answers.Answer):
    """One upload."""

    job: str
    url: str
    state: str
    refused: bool
    submitted_at: int
    ended_at: int | None
    files: list[ImportFileAnswer]


class JobsAnswer(BaseModel):
    """Uploads, newest first."""

    imports: list[JobAnswer]


@dataclass(frozen=True, slots=True)
class ImportGrown:
    """What the sender of a growing log says of the bytes it sends."""

    offset: int
    following: bool
    at_work: bool
    beside: dict[str, bytes]


def _grown(
    *,
    offset: Annotated[
        int,
        Query(
            ge=0,
            le=INTEGER_MAX,
            description="bytes of a known log that the body leaves out; needs `source`",
        ),
    ] = 0,
    following: Annotated[
        bool, Query(description="the sender follows a file that may still grow or be begun anew")
    ] = False,
    at_work: Annotated[
        bool, Query(description="with `following`: last lines that may be added to wait")
    ] = True,
    beside: Annotated[
        list[Annotated[str, StringConstraints(max_length=BESIDE_CHARS_MAX)]] | None,
        Query(
            max_length=BESIDE_MAX,
            description="small files beside a log, `<end of the name>:<base64url>`",
        ),
    ] = None,
) -> ImportGrown:
    """The query parameters of a growing log; InvalidInput where they are none."""
    small: dict[str, bytes] = {}
    for text in beside or ():
        suffix, colon, coded = text.partition(":")
        try:
            data = base64.urlsafe_b64decode(coded)
        except ValueError as error:
            raise InvalidInput("`beside` is `<suffix>:<base64url>`", field="beside") from error
        if not colon or not suffix or len(data) > COMPANION_BYTES_MAX:
            raise InvalidInput(
                f"`beside` is `<suffix>:<base64url>` of at most {COMPANION_BYTES_MAX} bytes",
                field="beside",
            )
        small[suffix] = data
    return ImportGrown(offset, following, at_work, small)


@router.post(
    "",
    operation_id="import_files",
    status_code=202,
    response_model=JobAnswer,
    responses=answers.problems(507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                BINARY: {"schema": {"type": "string", "format": "binary"}},
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "files": {
                                "type": "array",
                                "items": {"type": "string", "format": "binary"},
                            }
                        },
                    }
                },
            },
        }
    },
)
async def upload(
    request: Request,
    who: ImporterDep,
    jobs: JobsDep,
    parts: PartsDep,
    *,
    name: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="of a raw body")] = "upload",
    source: Annotated[
        str | None,
        Query(max_length=SOURCE_CHARS_MAX, description="what a raw body is remembered as"),
    ] = None,
    path: Annotated[
        str | None,
        Query(
            max_length=SOURCE_CHARS_MAX,
            description="where a raw body lies with its sender: what it is remembered as, unless "
            "`source` or the format says otherwise",
        ),
    ] = None,
    grown: Annotated[ImportGrown, Depends(_grown)],
    digest: Annotated[
        str | None,
        Query(pattern=DIGEST_PATTERN, description="of a raw body, as its sender read it first"),
    ] = None,
    redact: Annotated[bool, Query(description="hide secrets before anything is kept")] = True,
) -> Response:
    """Queue an import. A raw body is one file; multipart/form-data carries several.

    The same `source` again, grown, appends what is new.
    """
    files = await uploaded(request, parts.uploads, ImportName(name, source, digest, path))
    for one in files:
        one.hide = redact
    if len(files) == 1:
        file = files[0]
        file.offset, file.following, file.at_work = grown.offset, grown.following, grown.at_work
        file.beside = grown.beside
    job = jobs.submit(who, files)
    return answers.json(wire(job, request), 202, {"Location": links.api_import_job(job.job_id)})


@dataclass(frozen=True, slots=True)
class ImportName:
    """What the sender of a raw body says of it."""

    name: str
    source: str | None = None
    digest: str | None = None
    path: str | None = None


async def uploaded(request: Request, folder: FilePath, named: ImportName) -> list[ImportFile]:
    """The files of an upload, on disk; removed again on any error."""
    kept: list[ImportFile] = []
    try:
        if not forms.is_multipart(request):
            kept.append(await _raw(request, folder, named))
            return kept
        async with forms.whole_form(request, max_files=IMPORT_FILES_MAX, max_fields=8) as form:
            for part in form.getlist("files"):
                if isinstance(part, UploadFile) and (part.filename or part.size):
                    kept.append(await run_in_threadpool(_copy, part, folder))
        if not kept:
            raise HttpRefused("bad_request", "the form carries no file in its field `files`")
    except BaseException:
        for file in kept:
            file.path.unlink(missing_ok=True)
        raise
    return kept


async def _raw(request: Request, folder: FilePath, named: ImportName) -> ImportFile:
    handle, path = tempfile.mkstemp(prefix="import-", dir=folder)
    try:
        with os.fdopen(handle, "w+b") as body:
            found = await receive(request, body)
            size = body.seek(0, os.SEEK_END)
        if named.digest is not None and named.digest != found:
            raise ImportRefused(
                "the file changed while it was sent, so nothing of it was imported; import it "
                "again when its writer has finished",
                where="the whole file",
                reason="changed",
            )
    except BaseException:
        FilePath(path).unlink(missing_ok=True)
        raise
    return ImportFile(named.name, FilePath(path), size, source=named.source, path_there=named.path)


def _copy(part: UploadFile, folder: FilePath) -> ImportFile:
    handle, path = tempfile.mkstemp(prefix="import-", dir=folder)
    with os.fdopen(handle, "wb") as body:
        part.file.seek(0)
        while chunk := part.file.read(CHUNK_BYTES):
            body.write(chunk)
        size = body.tell()
    return ImportFile((part.filename or "upload")[:NAME_CHARS_MAX], FilePath(path), size)


@router.get(
    "", operation_id="list_imports", response_model=JobsAnswer, responses=answers.problems()
)
def newest(request: Request, who: ImporterDep, jobs: JobsDep) -> Response:
    """Uploads of this server process, newest first."""
    return answers.json({"imports": [wire(job, request) for job in jobs.newest(who, JOBS_LISTED)]})


class SourcesAnswer(answers.Answer):
    """What was imported, by source id."""

    sources: list[dict[str, JsonValue]]
    next_after: str | None


class RederivedAnswer(answers.Answer):
    """Sources that were derived again."""

    reports: list[dict[str, JsonValue]]
    next_after: str | None


After = Annotated[
    str, Query(max_length=SOURCE_CHARS_MAX, description="`next_after` of the page before")
]


@router.get(
    "/sources",
    operation_id="list_sources",
    response_model=SourcesAnswer,
    responses=answers.problems(),
)
def listed(
    who: ImporterDep,
    runtime: RuntimeDep,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)] = PAGE_ROWS,
) -> Response:
    """What was imported: each source with its trajectories, what was hidden in it, and whether an
    older importer read it."""
    found = sources.page(runtime, who, after=after, limit=limit)
    return answers.json(
        {"sources": [sources.wire(row) for row in found.rows], "next_after": found.after}
    )


@router.post(
    "/rederive",
    operation_id="rederive_sources",
    response_model=RederivedAnswer,
    responses=answers.problems(507),
)
def rederive(
    who: ImporterDep,
    parts: PartsDep,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=REDERIVED_MAX)] = 10,
) -> Response:
    """Derive again, from kept originals, what older importers read; the new revision of each
    stands for the old one. At most `limit` sources; go on with `next_after`."""
    found = list(parts.rederive(who, after=after, limit=limit))
    return answers.json(
        {
            "reports": [_report(report) for _, report in found],
            "next_after": found[-1][0] if len(found) == limit else None,
        }
    )


@router.get(
    "/{job}",
    operation_id="read_import",
    response_model=JobAnswer,
    responses=answers.problems(404),
)
def read(
    job: Annotated[str, Path(pattern="^[0-9a-f]{32}$")],
    request: Request,
    who: ImporterDep,
    jobs: JobsDep,
) -> Response:
    """Progress of an upload; its report once it is done."""
    return answers.json(wire(jobs.get(who, job), request))


def wire(job: Job, request: Request) -> dict[str, Any]:
    """Wire form of a job."""
    return {
        "job": job.job_id,
        "url": links.api_import_job(job.job_id),
        "state": job.state,
        "refused": job.refused,
        "submitted_at": job.submitted_at,
        "ended_at": job.ended_at,
        "files": [_file(file, request) for file in job.files],
    }


def _file(file: ImportFile, request: Request) -> dict[str, Any]:
    failed = None
    if file.error is not None:
        failed = errors.problem(
            errors.code_of(file.error),
            str(file.error),
            errors.request_id_of(request.scope),
            file.error.data,
        )
    return {
        "name": file.name,
        "size": file.size,
        "state": file.state,
        "read_bytes": file.read_bytes,
        "events": file.events,
        "report": _report(file.report) if file.report is not None else None,
        "problem": failed,
    }


def _report(report: Report) -> dict[str, Any]:
    return {**report.document(), "ok": report.ok}
