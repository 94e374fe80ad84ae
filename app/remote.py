"""A running server, as the command line uses it: the API with the local token or STRANDLINE_TOKEN.

INVARIANTS
1. A problem the server answers becomes the error of core.errors with that code, so that a
   command ends the same way with and without a server.
2. Nothing is asked of a proxy, and no redirect is followed: the token goes to this server only.
3. A write that was sent and not answered is AckUnknown; a server that cannot be reached at all is
   `unreachable`, and nothing was sent.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import httpx2
import orjson

from app import links
from app.errors import HttpRefused
from core import errors as core_errors
from core.canonical import digest_text, sha256
from core.errors import AckUnknown, InvalidInput, StoreStopped, StrandlineError
from ingest.files import OpenedFile, digest_of

Wire = dict[str, Any]
#: progress(bytes done, bytes in all, events done)
Progress = Callable[[int, int, int], None]

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
NAME_CHARS_MAX = 255
SOURCE_CHARS_MAX = 4096
_POLL_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.5)
_CHUNK_BYTES = 256 * 1024


def _leaves(base: type[StrandlineError]) -> Iterator[type[StrandlineError]]:
    for child in base.__subclasses__():
        yield child
        yield from _leaves(child)


_KINDS: dict[str, type[StrandlineError]] = {
    kind.code: kind
    for kind in _leaves(StrandlineError)
    if kind.__module__ == core_errors.__name__ and kind.code != StrandlineError.code
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a file that are sent a chunk at a time."""

    file: BinaryIO
    start: int
    length: int

    def __len__(self) -> int:
        return self.length

    def chunks(self) -> Iterator[bytes]:
        """They, in order."""
        self.file.seek(self.start)
        left = self.length
        while left > 0 and (chunk := self.file.read(min(_CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk

    def digest(self) -> str:
        """`sha256:...`"""
        state = hashlib.sha256()
        for chunk in self.chunks():
            state.update(chunk)
        return digest_text(state.digest())


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a growing file on their way to a server."""

    data: bytes | Stretch
    offset: int
    source: str | None
    """Source id, where it is known or given."""
    following: bool
    at_work: bool
    beside: tuple[str, ...]


class Remote:
    """One server, by URL and token."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput("a server is named by its URL, http://host:port", field="server")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._http = httpx2.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
        )

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def get(self, path: str, **query: object) -> Wire:
        """One JSON answer; the error of its problem otherwise."""
        return self._get(path, query)

    def _get(self, path: str, query: Wire, *, sent: bool = False) -> Wire:
        given = {key: str(value) for key, value in query.items() if value is not None}
        with _reached(self.url, sent=sent):
            answer = self._http.get(path, params=given or None)
        return _answer(answer)

    def post(self, path: str, body: Wire) -> Wire:
        """Send one JSON body; the answer, or the error of its problem."""
        with _reached(self.url, writing=True):
            answer = self._http.post(
                path, content=orjson.dumps(body), headers={"Content-Type": "application/json"}
            )
        return _answer(answer)

    def lines(self, path: str, **query: object) -> Iterator[Wire]:
        """A streamed answer, line by line."""
        given = {key: str(value) for key, value in query.items() if value is not None}
        with _reached(self.url), self._http.stream("GET", path, params=given or None) as answer:
            if answer.status_code >= 400:
                answer.read()
            _raise_for(answer)
            for line in answer.iter_lines():
                if line:
                    yield orjson.loads(line)

    def save(self, path: str, out: BinaryIO) -> int:
        """Write a streamed answer to `out`; bytes written."""
        written = 0
        with _reached(self.url), self._http.stream("GET", path) as answer:
            if answer.status_code >= 400:
                answer.read()
            _raise_for(answer)
            for chunk in answer.iter_bytes():
                out.write(chunk)
                written += len(chunk)
        return written

    def import_file(
        self,
        opened: OpenedFile,
        progress: Progress,
        source: str | None = None,
        beside: list[str] | None = None,
        *,
        hide: bool = True,
    ) -> Wire:
        """Upload one file and wait for its report (Report.document as JSON).

        `source` is what it is to be remembered as, `beside` what lies beside it. The server
        remembers it under the same identity as if it had read the path itself. A file that changes
        while it is sent is refused, whatever the server made of it.
        """
        size = opened.size
        digest = digest_of(opened.file)
        beside = beside or []

        def chunks() -> Iterator[bytes]:
            left = size
            while left > 0 and (chunk := opened.file.read(min(_CHUNK_BYTES, left))):
                left -= len(chunk)
                progress(size - left, 2 * size, 0)
                yield chunk

        with _reached(self.url, writing=True):
            answer = self._http.post(
                links.api_imports(),
                params={
                    "name": opened.name[-NAME_CHARS_MAX:],
                    "path": opened.identity[-SOURCE_CHARS_MAX:],
                    "digest": digest,
                    "beside": beside,
                    "redact": str(hide).lower(),
                }
                | ({"source": source} if source is not None else {}),
                content=chunks(),
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(size),
                },
            )
        return self._report(_answer(answer), size, progress)

    def import_piece(self, name: str, path: str, piece: Piece) -> Wire:
        """Upload some bytes of a growing file and wait for the report."""
        query: dict[str, Any] = {
            "name": name[-NAME_CHARS_MAX:],
            "path": path[-SOURCE_CHARS_MAX:],
            "digest": piece.data.digest()
            if isinstance(piece.data, Stretch)
            else digest_text(sha256(piece.data)),
            "offset": str(piece.offset),
            "following": str(piece.following).lower(),
            "at_work": str(piece.at_work).lower(),
            "beside": list(piece.beside),
        }
        if piece.source is not None:
            query["source"] = piece.source
        with _reached(self.url, writing=True):
            answer = self._http.post(
                links.api_imports(),
                params=query,
                content=piece.data.chunks() if isinstance(piece.data, Stretch) else piece.data,
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(len(piece.data)),
                },
            )
        report = self._report(_answer(answer), len(piece.data), lambda *_: None)
        return {**report, "path": name}

    def _report(self, job: Wire, size: int, progress: Progress) -> Wire:
        tries = 0
        while job["state"] != "done":
            time.sleep(_POLL_SECONDS[min(tries, len(_POLL_SECONDS) - 1)])
            tries += 1
            job = self._get(str(job["url"]), {}, sent=True)
            progress(size + job["files"][0]["read_bytes"], 2 * size, job["files"][0]["events"])
        file = job["files"][0]
        if file["problem"] is not None:
            raise error_of(file["problem"])
        report: Wire = file["report"]
        return report


class _reached:
    """What the transport's failures mean, around one exchange."""

    def __init__(self, url: str, *, writing: bool = False, sent: bool = False) -> None:
        self.url = url
        self.writing = writing or sent
        self.sent = sent

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout) and not self.sent:
            raise StoreStopped(
                f"no server answers at {self.url}; start it with `strandline serve`", url=self.url
            ) from error
        if isinstance(error, httpx2.TransportError) and not self.writing:
            raise StoreStopped(
                f"{self.url} stopped answering in the middle; nothing was to be stored. Look at "
                "its log, then run the same command again",
                url=self.url,
            ) from error
        if isinstance(error, httpx2.TransportError):
            raise AckUnknown(
                f"{self.url} stopped answering in the middle; it is not known whether what was "
                "sent is stored. Run the same command again: what is stored is recognised"
            ) from error


def _answer(answer: httpx2.Response) -> Wire:
    _raise_for(answer)
    value: Wire = orjson.loads(answer.content)
    return value


def _raise_for(answer: httpx2.Response) -> None:
    if answer.status_code < 300:
        return
    try:
        problem = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict) or "code" not in problem:
        raise StoreStopped(
            f"{answer.url.host} answered {answer.status_code} and not like a Strandline server"
        )
    raise error_of(problem)


def error_of(problem: Wire) -> StrandlineError:
    """The error that a problem answer stands for."""
    code = str(problem["code"])
    data = {
        key: value
        for key, value in problem.items()
        if key.isidentifier() and key not in ("type", "title", "status", "detail", "code")
    }
    kind = _KINDS.get(code)
    if kind is None:
        return HttpRefused(code, str(problem["detail"]), **data)
    return kind(str(problem["detail"]), **data)
