"""Following files from the command line: through the server that owns the data, or into the store.

INVARIANTS
1. The store is opened for one round and let go of after it, so that other commands and a server
   find their turn between two rounds.
2. A server is sent what grew and no more, after the bytes it has of this file were compared with
   what was sent of them.
"""

from __future__ import annotations

import base64
import hashlib
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from app import console
from app.remote import Piece, Remote, Stretch
from core.errors import ImportRefused, StrandlineError
from core.limits import IMPORT_BYTES_MAX, IMPORT_VALUE_BYTES_MAX, MIB
from ingest import registry
from ingest.base import LogImporter
from ingest.files import OpenedFile
from ingest.follow import Follower, How
from ingest.logs import Runs

if TYPE_CHECKING:
    from app.backend import Backend

Wire = dict[str, Any]

#: A growing file goes to a server in pieces of at most this many bytes, more only for longer lines.
PIECE_BYTES = 32 * MIB
_PIECE_BYTES_MAX = IMPORT_VALUE_BYTES_MAX + 2 * MIB
_BLOCK_BYTES = MIB
#: Files whose sent bytes are remembered; another is sent whole again.
_SENT_MAX = 256


@dataclass(slots=True)
class Sent:
    """What a server has of one file, as this process sent it."""

    length: int = 0
    """Bytes."""
    blocks: list[bytes] = field(default_factory=list)
    """SHA-256 of each block of these bytes."""

    def still(self, file: BinaryIO, *, edges: bool) -> bool:
        """Whether the file begins with these bytes; `edges`: first and last block only."""
        last = len(self.blocks) - 1
        return all(
            self._block(file, index) == digest
            for index, digest in enumerate(self.blocks)
            if not edges or index in (0, last - 1, last)
        )

    def grew(self, file: BinaryIO, length: int) -> None:
        """The server has `length` bytes now."""
        first = self.length // _BLOCK_BYTES
        del self.blocks[first:]
        self.length = length
        for index in range(first, -(-length // _BLOCK_BYTES)):
            self.blocks.append(self._block(file, index))

    def _block(self, file: BinaryIO, index: int) -> bytes:
        start = index * _BLOCK_BYTES
        file.seek(start)
        return hashlib.sha256(file.read(min(_BLOCK_BYTES, self.length - start))).digest()


class BackendSink:
    """Takes what grew to whoever owns the data folder now."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Backend]]) -> None:
        self._connect = connect
        self._stack = ExitStack()
        self._backend: Backend | None = None
        self.memory = Memory()
        self.opening_seconds = 0.0

    def take(self, opened: OpenedFile, how: How) -> Wire:
        """One file."""
        if self._backend is None:
            began = time.monotonic()
            self._backend = self._stack.enter_context(self._connect())
            self.opening_seconds += time.monotonic() - began
        return self._backend.follow(opened, how, self.memory)

    def rest(self) -> None:
        """Let go of the store."""
        self._backend = None
        self._stack.close()


class Memory:
    """What a following command remembers between two rounds, whoever owns the store."""

    def __init__(self) -> None:
        self.runs = Runs()
        self._sent: dict[tuple[str, str], Sent] = {}

    def sent(self, key: tuple[str, str]) -> Sent:
        """What the server at this URL has of this file."""
        found = self._sent.pop(key, None) or Sent()
        self._sent[key] = found
        while len(self._sent) > _SENT_MAX:
            del self._sent[next(iter(self._sent))]
        return found

    def forget(self, key: tuple[str, str]) -> None:
        """The server has nothing of it."""
        self._sent.pop(key, None)


def log_format(opened: OpenedFile) -> LogImporter | None:
    """The importer of a file that is a growing log; None for any other."""
    opened.file.seek(0)
    head = opened.file.read(64 * 1024)
    opened.file.seek(max(0, opened.size - 8 * 1024))
    found = registry.recognise(head, opened.file.read(8 * 1024), opened.name)
    opened.file.seek(0)
    return found[0] if found is not None and registry.is_log(found[0]) else None


def beside(importer: LogImporter, opened: OpenedFile) -> list[str]:
    """The small files the importer asks for, as they travel in a query: `<suffix>:<base64>`."""
    found: dict[str, bytes] = {}

    def companion(suffix: str) -> bytes | None:
        data = opened.beside(suffix)
        if data is not None:
            found[suffix] = data
        return data

    importer.start("", opened.identity, companion)
    return [f"{suffix}:{base64.urlsafe_b64encode(data).decode()}" for suffix, data in found.items()]


def send(
    remote: Remote,
    opened: OpenedFile,
    how: How | None,
    importer: LogImporter,
    sent: Sent,
    *,
    given: str | None = None,
) -> Wire:
    """Send what the server does not have of a log, in pieces; the report of all of them.

    `how` is None for a file that is not followed.
    """
    source = how.source if how is not None else given
    begin = sent.length if how is not None and how.source is not None else 0
    if begin > opened.size or not sent.still(opened.file, edges=how is not None and how.edges):
        begin = 0
    try:
        return _pieces(remote, opened, (how, source, tuple(beside(importer, opened))), sent, begin)
    except _Unknown:
        return _pieces(remote, opened, (how, source, tuple(beside(importer, opened))), sent, 0)


class _Unknown(Exception):
    """The server does not have what was left out."""


def _pieces(
    remote: Remote,
    opened: OpenedFile,
    said: tuple[How | None, str | None, tuple[str, ...]],
    sent: Sent,
    begin: int,
) -> Wire:
    how, source, companions = said
    whole: Wire | None = None
    room = PIECE_BYTES
    while True:
        length = min(room, opened.size - begin)
        data: bytes | Stretch = Stretch(opened.file, begin, length)
        if length <= _PIECE_BYTES_MAX:
            opened.file.seek(begin)
            data = opened.file.read(length)
        last = begin + len(data) >= opened.size
        at_work = not last or (how is not None and how.at_work)
        document = remote.import_piece(
            opened.name,
            opened.identity,
            Piece(data, begin, source, how is not None, at_work, companions),
        )
        if any(item.get("reason") == "offset" for item in document["refused"]):
            if not begin:
                raise ImportRefused("the server keeps nothing of this source; import it again")
            sent.length, sent.blocks = 0, []
            raise _Unknown
        whole = document if whole is None else _joined(whole, document)
        known = int(document.get("known_bytes") or 0)
        if document["ok"]:
            source = document["source"]
            sent.grew(opened.file, min(known, opened.size))
        more = known > begin
        if not document["ok"] and not _only_begun(document):
            return whole
        if last:
            return whole
        if more:
            begin, room = known, PIECE_BYTES
        elif room >= IMPORT_BYTES_MAX:
            return whole
        else:
            # A line longer than the piece: the server needs its end, to read it or to leave it out.
            room = min(2 * room, IMPORT_BYTES_MAX)


def _only_begun(document: Wire) -> bool:
    return any(item.get("reason") == "no_events" for item in document["refused"])


def _joined(first: Wire, then: Wire) -> Wire:
    """One report of two pieces read one after the other."""
    before = {item["id"]: item for item in first["trajectories"]}
    trajectories = []
    for item in then["trajectories"]:
        old = before.get(item["id"])
        appended = item["appended"] + (old["appended"] if old else 0)
        outcome = old["outcome"] if old and old["outcome"] != "unchanged" else item["outcome"]
        trajectories.append({**item, "appended": appended, "outcome": outcome})
    outcome = then["outcome"]
    if then["ok"] and first["outcome"] in ("imported", "appended"):
        outcome = first["outcome"]
    return {
        **then,
        "outcome": outcome,
        "trajectories": trajectories,
        "bytes_read": first["bytes_read"] + then["bytes_read"],
        "elapsed_us": first["elapsed_us"] + then["elapsed_us"],
    }


def follow(
    connect: Callable[[], AbstractContextManager[Backend]],
    paths: list[str],
    as_name: str | None,
    tell: Callable[[Wire], None],
) -> None:
    """Follow until interrupted; SIGTERM ends it like Ctrl-C, after the reading that is going on."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }

    def trouble(error: StrandlineError) -> None:
        console.note(f"strandline: {console.safe(str(error), 400)}; trying again")

    try:
        Follower(paths, BackendSink(connect), as_name=as_name).run(stop, tell, trouble)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
