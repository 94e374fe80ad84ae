"""What a command works on: the server that owns the data folder, or the store itself.

INVARIANTS
1. While a server owns the folder every command goes through its API; with none the command opens
   the store itself. The user chooses neither, except by `--server`.
2. Both ways answer with the same wire forms (app.reads) and the same errors.
3. A command that finds the folder owned by another command waits for it, within `WAIT_SECONDS`,
   and says so once that takes longer than a moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from app import console, following, links, lockfile, reads, wire
from app.following import Memory
from app.remote import Progress, Remote
from app.settings import Settings
from app.wiring import Parts, open_parts, version
from core.errors import ImportRefused, NotFound, StoreStopped
from core.ids import tenant
from core.limits import IMPORT_BYTES_MAX, PAGE_ROWS_MAX
from core.principal import Principal
from ingest.base import Refusal, Report
from ingest.files import OpenedFile, Skipped, show, walk
from ingest.follow import How
from ingest.pipeline import Following

Wire = dict[str, Any]
WAIT_SECONDS = 60.0
#: A wait longer than this is told.
TOLD_SECONDS = 1.0
_POLL_SECONDS = 0.1
COMMAND_ROLES = frozenset({"read", "write", "import", "operate"})


class Backend(Protocol):
    """The reads and the import that commands need."""

    def list_page(
        self, *, sort: str, descending: bool, after: str | None, limit: int, filters: Wire
    ) -> Wire: ...
    def search(self, text: str, *, trajectory_id: str | None, after: int, limit: int) -> Wire: ...
    def record(self, trajectory_id: str, boundary: int | None) -> Wire: ...
    def records(self, trajectory_id: str, first: int, last: int | None) -> Iterator[Wire]: ...
    def trajectory(self, trajectory_id: str) -> Wire: ...
    def event(self, trajectory_id: str, sequence_number: int) -> Wire: ...
    def difference(self, trajectory_id: str, a: int, b: int) -> Wire: ...
    def verify(self, trajectory_id: str | None) -> Iterator[Wire]: ...
    def audit(self) -> Iterator[Wire]: ...
    def export(self, trajectory_id: str, out: BinaryIO) -> None: ...
    def facts(self) -> Wire: ...
    def act(self, trajectory_id: str | None, asked: Wire) -> Wire:
        """Record an act (app.api.bodies.ActBody); its wire form."""
        ...

    def acts_of(self, trajectory_id: str) -> Wire: ...
    def tree(self, trajectory_id: str) -> Wire: ...
    def prices(self) -> Wire: ...
    def import_path(
        self, path: str, progress: Progress, as_name: str | None = None, *, hide: bool = True
    ) -> Iterator[Wire]: ...
    def follow(self, opened: OpenedFile, how: How, memory: Memory) -> Wire: ...
    def rederive(self) -> Iterator[Wire]: ...


class Local:
    """The store, opened by this process."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.runtime = parts.runtime
        self.who = Principal(tenant(parts.settings.tenant), "command-line", COMMAND_ROLES)

    def list_page(
        self, *, sort: str, descending: bool, after: str | None, limit: int, filters: Wire
    ) -> Wire:
        q, count = str(filters.pop("q", "")), str(filters.pop("count", "some"))
        if {term.key for term in self.runtime.query(q).terms} & {"text", "tool"}:
            self._index()
        return reads.list_page(
            self.runtime,
            self.who,
            sort=sort,
            descending=descending,
            after=after,
            limit=limit,
            filters=filters,
            q=q,
            count=count,
        )

    def search(self, text: str, *, trajectory_id: str | None, after: int, limit: int) -> Wire:
        self._index()
        return reads.search(
            self.runtime, self.who, text, trajectory_id=trajectory_id, after=after, limit=limit
        )

    def _index(self) -> None:
        """No thread follows the log for a command: it indexes what is missing itself."""
        if self.parts.indexer is not None:
            self.parts.indexer.catch_up(self.who.tenant)

    def record(self, trajectory_id: str, boundary: int | None) -> Wire:
        found = reads.record(self.runtime, self.who, trajectory_id, boundary)
        return wire.settled(found)  # type: ignore[no-any-return]

    def records(self, trajectory_id: str, first: int, last: int | None) -> Iterator[Wire]:
        for found in reads.records(self.runtime, self.who, trajectory_id, first, last):
            yield wire.settled(found)

    def trajectory(self, trajectory_id: str) -> Wire:
        return reads.trajectory(self.runtime, self.who, trajectory_id)

    def event(self, trajectory_id: str, sequence_number: int) -> Wire:
        found = reads.event(self.runtime, self.who, trajectory_id, sequence_number)
        return wire.settled(found)  # type: ignore[no-any-return]

    def difference(self, trajectory_id: str, a: int, b: int) -> Wire:
        found = reads.difference(self.runtime, self.who, trajectory_id, a, b)
        return wire.settled(found)  # type: ignore[no-any-return]

    def verify(self, trajectory_id: str | None) -> Iterator[Wire]:
        if trajectory_id is None:
            return reads.verified_all(self.runtime, self.who)
        return reads.verified(self.runtime, self.who, trajectory_id)

    def audit(self) -> Iterator[Wire]:
        return reads.audited(self.parts.audit())

    def export(self, trajectory_id: str, out: BinaryIO) -> None:
        for chunk in self.parts.export_chunks(self.who, trajectory_id):
            out.write(chunk)

    def facts(self) -> Wire:
        return reads.facts(self.runtime, self.who, version())

    def act(self, trajectory_id: str | None, asked: Wire) -> Wire:
        made = self.runtime.act(self.who, trajectory_id=trajectory_id, **asked)
        return wire.settled(wire.act(made))  # type: ignore[no-any-return]

    def acts_of(self, trajectory_id: str) -> Wire:
        return wire.settled(  # type: ignore[no-any-return]
            reads.acts_of(self.runtime, self.who, trajectory_id)
        )

    def tree(self, trajectory_id: str) -> Wire:
        return reads.tree(self.runtime, self.who, trajectory_id)

    def prices(self) -> Wire:
        return reads.prices(self.runtime, self.who)

    def import_path(
        self, path: str, progress: Progress, as_name: str | None = None, *, hide: bool = True
    ) -> Iterator[Wire]:
        for report in self.parts.import_path(self.who, path, progress, as_name, hide=hide):
            yield _document(report)

    def rederive(self) -> Iterator[Wire]:
        for _, report in self.parts.rederive(self.who):
            yield _document(report)

    def follow(self, opened: OpenedFile, how: How, memory: Memory) -> Wire:
        self.parts.runs = memory.runs
        this_time = Following(how.source, how.at_work, how.edges)
        return _document(self.parts.import_opened(self.who, opened, this_time))


class Served:
    """The server that owns the store."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote

    def list_page(
        self, *, sort: str, descending: bool, after: str | None, limit: int, filters: Wire
    ) -> Wire:
        return self.remote.get(
            links.api_trajectories(),
            sort=sort,
            direction="desc" if descending else "asc",
            after=after,
            limit=limit,
            **filters,
        )

    def search(self, text: str, *, trajectory_id: str | None, after: int, limit: int) -> Wire:
        return self.remote.get(
            links.api_search(),
            text=text,
            trajectory_id=trajectory_id,
            after=after,
            limit=limit,
        )

    def record(self, trajectory_id: str, boundary: int | None) -> Wire:
        at = "head" if boundary is None else boundary
        return self.remote.get(links.api_record(trajectory_id, at))

    def records(self, trajectory_id: str, first: int, last: int | None) -> Iterator[Wire]:
        return self.remote.lines(links.api_records(trajectory_id, first, last))

    def trajectory(self, trajectory_id: str) -> Wire:
        return self.remote.get(links.api_trajectory(trajectory_id))

    def event(self, trajectory_id: str, sequence_number: int) -> Wire:
        return self.remote.get(links.api_event(trajectory_id, sequence_number))

    def difference(self, trajectory_id: str, a: int, b: int) -> Wire:
        return self.remote.get(links.api_difference(trajectory_id, a, b))

    def verify(self, trajectory_id: str | None) -> Iterator[Wire]:
        if trajectory_id is None:
            return self.remote.lines(links.api_verify_all())
        return self.remote.lines(links.api_verify(trajectory_id))

    def audit(self) -> Iterator[Wire]:
        return self.remote.lines(links.api_audit())

    def export(self, trajectory_id: str, out: BinaryIO) -> None:
        self.remote.save(links.api_export(trajectory_id), out)

    def facts(self) -> Wire:
        return self.remote.get(links.api_facts())

    def act(self, trajectory_id: str | None, asked: Wire) -> Wire:
        made: Wire = self.remote.post(links.api_acts(trajectory_id), asked)["act"]
        return made

    def acts_of(self, trajectory_id: str) -> Wire:
        return self.remote.get(links.api_acts(trajectory_id), limit=PAGE_ROWS_MAX)

    def tree(self, trajectory_id: str) -> Wire:
        return self.remote.get(links.api_tree(trajectory_id))

    def prices(self) -> Wire:
        return self.remote.get(links.api_prices())

    def import_path(
        self, path: str, progress: Progress, as_name: str | None = None, *, hide: bool = True
    ) -> Iterator[Wire]:
        try:
            for found in walk(path):
                if isinstance(found, Skipped):
                    refused = [Refusal(found.name, found.why)]
                    yield _document(Report(found.name, outcome="skipped", refused=refused))
                    continue
                with found.file:
                    given = source_name(found, as_name) if as_name is not None else None
                    yield self._upload(found, progress, given, hide=hide)
        except ImportRefused as error:
            yield _document(Report(show(path), refused=[Refusal.of(error)]))

    def _upload(
        self, opened: OpenedFile, progress: Progress, given: str | None, *, hide: bool = True
    ) -> Wire:
        importer = following.log_format(opened)
        if opened.size > IMPORT_BYTES_MAX and importer is not None and hide:
            sent = following.Sent()
            return following.send(self.remote, opened, None, importer, sent, given=given)
        if opened.size > IMPORT_BYTES_MAX:
            error = ImportRefused(
                f"a server takes files of at most {IMPORT_BYTES_MAX:,} bytes; stop it and import "
                "this one by itself",
                where="the whole file",
            )
            return _document(Report(opened.name, refused=[Refusal.of(error)]))
        try:
            small = following.beside(importer, opened) if importer is not None else []
            report = self.remote.import_file(opened, progress, given, small, hide=hide)
        except ImportRefused as error:
            return _document(Report(opened.name, refused=[Refusal.of(error)]))
        return {**report, "path": opened.name}

    def rederive(self) -> Iterator[Wire]:
        after: str | None = ""
        while after is not None:
            found = self.remote.post(links.api_import_rederive(after=after), {})
            yield from found["reports"]
            after = found["next_after"]

    def follow(self, opened: OpenedFile, how: How, memory: Memory) -> Wire:
        importer = following.log_format(opened)
        if importer is None:
            return self._upload(opened, lambda *_: None, how.source)
        sent = memory.sent((self.remote.url, opened.identity))
        return following.send(self.remote, opened, how, importer, sent)


def source_name(opened: OpenedFile, as_name: str) -> str:
    """What a file is remembered as that was given a name; in a folder, with its own."""
    return f"{as_name}/{opened.name}" if opened.in_folder else as_name


def _document(report: Report) -> Wire:
    return {**report.document(), "ok": report.ok}


@contextmanager
def connect(
    settings: Settings, server: str | None, *, write: bool, create: bool = True
) -> Iterator[Backend]:
    """The backend a command shall use; `write` for one that appends or keeps projections, `create`
    for one that may make the store it writes to.

    Raises StoreStopped where the folder stays owned by a process that serves nothing, and
    NotFound where there is no data folder to read.
    """
    token = settings.token.get_secret_value() if settings.token else None
    if server is not None:
        with _served(server, token) as backend:
            yield backend
        return
    waiting = _Waiting(settings.data_folder)
    while True:
        owner = lockfile.owner(settings.data_folder) if settings.data_folder.exists() else None
        if owner is not None and owner.url is not None:
            with _served(owner.url, owner.token) as backend:
                yield backend
            return
        if owner is not None and write:
            waiting.turn(owner.pid, owner.host)
            continue
        break
    if not (write and create) and not any(settings.data_folder.glob("store-*.db")):
        raise NotFound(
            f"there is no data in {settings.data_folder}",
            advice="Name the right folder with --data, or import something: "
            "`strandline import PATH`.",
        )
    parts = _open(settings, waiting, write=write)
    try:
        yield Local(parts)
    finally:
        parts.close()


def _open(settings: Settings, waiting: _Waiting, *, write: bool) -> Parts:
    while True:
        try:
            return open_parts(settings, read_only=not write, follow=False)
        except StoreStopped as error:
            # Another command was quicker, or only looked whether anybody owns the folder.
            if not write or not error.data.get("owned"):
                raise
            waiting.turn(error.data.get("pid"), error.data.get("host"))


class _Waiting:
    """A wait for the command that owns the folder: bounded, and told once it takes a while."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = time.monotonic()
        self._told = False

    def turn(self, pid: object, host: object) -> None:
        """Wait a moment; StoreStopped after WAIT_SECONDS."""
        waited = time.monotonic() - self._began
        if waited > WAIT_SECONDS:
            raise StoreStopped(
                f"{self._folder} is in use by another command (process {pid or '?'} on "
                f"{host or '?'}) for more than {WAIT_SECONDS:.0f} s; wait for it or stop it",
                pid=pid,
            )
        if waited > TOLD_SECONDS and not self._told:
            self._told = True
            console.note(
                f"waiting for another command (process {pid or '?'}) that holds the data in "
                f"{console.safe(self._folder)}; at most {WAIT_SECONDS:.0f} s"
            )
        time.sleep(_POLL_SECONDS)


@contextmanager
def _served(url: str, token: str | None) -> Iterator[Served]:
    remote = Remote(url, token)
    try:
        yield Served(remote)
    finally:
        remote.close()
