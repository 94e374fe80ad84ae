"""Forms with files: read whole, or refused with what is missing.

INVARIANT
1. A form that ends before its closing boundary gives no file: neither the one that was cut off nor
   those before it, which the refusal names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from app.errors import HttpRefused

NAME_CHARS_MAX = 200
NAMED_MAX = 5
MULTIPART = "multipart/form-data"


class _Parser(MultiPartParser):
    """Starlette's, which takes a form that was cut off for a shorter one."""

    ended = False

    def on_end(self) -> None:
        self.ended = True

    @property
    def files(self) -> list[UploadFile]:
        """Those that arrived whole."""
        return [part for _, part in self.items if isinstance(part, UploadFile)]

    @property
    def cut(self) -> UploadFile | None:
        """The one that breaks off; None where the cut is elsewhere."""
        file = self._current_part.file
        return None if file is None or any(file is one for one in self.files) else file


def is_multipart(request: Request) -> bool:
    """Whether the body is a form that may carry files."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == MULTIPART


@asynccontextmanager
async def whole_form(
    request: Request, *, max_files: int, max_fields: int
) -> AsyncIterator[FormData]:
    """The form of a request, closed at the end; HttpRefused (400) where it is not whole."""
    if not is_multipart(request):
        async with request.form(max_files=max_files, max_fields=max_fields) as plain:
            yield plain
        return
    try:
        async with aclosing(request.stream()) as stream:
            parser = _Parser(request.headers, stream, max_files=max_files, max_fields=max_fields)
            form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(status_code=400, detail=error.message) from error
    try:
        if not parser.ended:
            raise _refusal(parser)
        yield form
    finally:
        await form.close()
        if not parser.ended and parser.cut is not None:
            await parser.cut.close()


def _refusal(parser: _Parser) -> HttpRefused:
    cut, whole = parser.cut, [_shown(file) for file in parser.files]
    where = (
        f"the file {_shown(cut)} breaks off after {cut.size or 0:,} bytes"
        if cut is not None
        else "its closing boundary is missing"
    )
    named = ", ".join(whole[:NAMED_MAX])
    if len(whole) > NAMED_MAX:
        named += f" and {len(whole) - NAMED_MAX:,} more"
    before = f" Arrived whole, and not imported either: {named}." if whole else ""
    return HttpRefused(
        "bad_request",
        f"the form ends before it is whole: {where}; nothing of it was imported.{before} Send it "
        "again",
        missing=_shown(cut) if cut is not None else None,
        whole=whole,
    )


def _shown(file: UploadFile) -> str:
    name = (file.filename or "(without a name)")[:NAME_CHARS_MAX]
    return "".join(char if char.isprintable() else "\ufffd" for char in name)
