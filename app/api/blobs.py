"""Blobs over HTTP: put with or without a digest, read as a download; a digest grants nothing."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import IO, Annotated, BinaryIO, cast

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from app.api import answers
from app.api.events import BINARY, download_headers
from app.deps import PartsDep, ReaderDep, RuntimeDep, WriterDep
from app.errors import HttpRefused
from core.canonical import DIGEST_PATTERN, DIGEST_PREFIX
from core.errors import InvalidInput
from core.limits import BLOB_BYTES_MAX, MIB

router = APIRouter(prefix="/v1/blobs", tags=["blobs"])

CHUNK_BYTES = 256 * 1024
DigestPath = Annotated[str, Path(pattern=DIGEST_PATTERN, description="sha256: and 64 hex digits")]
_BYTES_BODY = {
    "requestBody": {
        "required": True,
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put(
    "/{digest}",
    operation_id="put_blob",
    status_code=201,
    response_model=answers.BlobAnswer,
    responses=answers.problems(507),
    openapi_extra=_BYTES_BODY,
)
async def put(
    digest: DigestPath, request: Request, who: WriterDep, runtime: RuntimeDep, parts: PartsDep
) -> Response:
    """Store bytes under the digest the caller computed; the whole body is read and hashed."""
    with _spool(parts.uploads) as body:
        found = await receive(request, body)
        if found != digest:
            raise InvalidInput(
                f"the body's digest is {found}, not the one in the address", field="digest"
            )
        ref = await run_in_threadpool(runtime.put_blob, who, body, limit=BLOB_BYTES_MAX)
    return answers.json({"digest": ref.digest, "length": ref.length}, 201)


@router.post(
    "",
    operation_id="post_blob",
    status_code=201,
    response_model=answers.BlobAnswer,
    responses=answers.problems(507),
    openapi_extra=_BYTES_BODY,
)
async def post(request: Request, who: WriterDep, runtime: RuntimeDep, parts: PartsDep) -> Response:
    """Store bytes under the digest the service computes."""
    with _spool(parts.uploads) as body:
        await receive(request, body)
        ref = await run_in_threadpool(runtime.put_blob, who, body, limit=BLOB_BYTES_MAX)
    return answers.json({"digest": ref.digest, "length": ref.length}, 201)


def _spool(folder: FilePath) -> BinaryIO:
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=MIB, dir=str(folder)))


async def receive(request: Request, body: IO[bytes]) -> str:
    """Write the request's body to `body`, rewound; its digest. The guard bounds its size."""
    state = hashlib.sha256()
    async for chunk in request.stream():
        state.update(chunk)
        if len(chunk) > 64 * 1024:
            await run_in_threadpool(body.write, chunk)
        else:
            body.write(chunk)
    body.seek(0)
    return DIGEST_PREFIX + state.hexdigest()


@router.get(
    "/{digest}",
    operation_id="read_blob",
    response_class=Response,
    responses={
        **answers.problems(404, 416),
        200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}},
        206: {"description": "one range of it"},
    },
)
def read(digest: DigestPath, request: Request, who: ReaderDep, runtime: RuntimeDep) -> Response:
    """The bytes, verified, as a download; one byte range is honoured."""
    info = runtime.blob_info(who, digest)
    headers = download_headers(f"{digest[7:]}.bin", digest[7:])
    headers["Accept-Ranges"] = "bytes"
    start, end, status = 0, info.length, 200
    asked = request.headers.get("range")
    if asked is not None:
        part = byte_range(asked, info.length)
        if part is not None:
            (start, end), status = part, 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{info.length}"
    headers["Content-Length"] = str(end - start)
    if request.state.head_only:
        return Response(status_code=status, headers=headers, media_type=BINARY)
    return StreamingResponse(
        _chunks(runtime.open_blob(who, digest), start, end),
        status,
        headers=headers,
        media_type=BINARY,
    )


def byte_range(header: str, length: int) -> tuple[int, int] | None:
    """(start, end) of a single range within `length` bytes; None for a header to ignore.

    Raises `range_not_satisfiable` for a range that lies outside.
    """
    unit, _, spec = header.partition("=")
    first, dash, last = spec.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or not _digits(first) or not _digits(last):
        return None
    if not first and not last:
        return None
    if not first:
        start, end = max(0, length - int(last)), length
    else:
        start, end = int(first), min(length, int(last) + 1) if last else length
    if start >= length or start >= end:
        raise HttpRefused("range_not_satisfiable", f"the blob has {length} bytes", length=length)
    return start, end


def _digits(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and len(text) <= 16)


def _chunks(stream: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    with stream:
        stream.seek(start)
        left = end - start
        while left > 0:
            chunk = stream.read(min(CHUNK_BYTES, left))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk
