"""One store under test, whatever keeps it: what a suite needs beside the ports.

`WORLDS` names the implementations; the suites are parametrised over it, so a second database
joins by adding its class.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, cast

from core.canonical import canonical, sha256
from core.errors import StrandlineError
from core.events import registry
from core.events.envelope import BlobRef, NewEvent, Standing
from core.events.fields import Payload
from core.events.prepare import Prepared, prepare
from core.events.task import TaskStarted
from core.events.tool import ToolIntent
from store import failpoints
from store.audit import audit
from store.open import Opened, open_store
from store.ports import (
    Ack,
    AppendCommand,
    ClaimCommand,
    CreateCommand,
    Finding,
    Grant,
    ImportSource,
)

TENANT = "local"
SECONDS = 20.0


class Clock:
    """A clock that a test sets; it may go back."""

    def __init__(self, now: int = 1_790_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class SqliteWorld:
    """The SQLite store in a folder of its own."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        if not folder.exists() or not any(folder.iterdir()):
            shutil.copytree(template(), folder, dirs_exist_ok=True)
        self.opened = self._open()
        self._requests = count(1)

    def _open(self) -> Opened:
        return open_store(self.folder / "data", clock=self.clock)

    @property
    def store(self) -> Any:
        return self.opened.store

    @property
    def blobs(self) -> Any:
        return self.opened.blobs

    @property
    def projections(self) -> Any:
        return self.opened.projections

    def reopen(self) -> None:
        """Close in order and open again."""
        self.opened.close()
        self.opened = self._open()

    def close(self) -> None:
        self.opened.close()

    @contextmanager
    def one_group(self) -> Iterator[None]:
        """What is submitted inside is decided as one group, in that order."""
        entered, go = threading.Event(), threading.Event()

        def hold() -> None:
            entered.set()
            go.wait(SECONDS)

        failpoints.arm("append.queued", hold)
        first = self.store.put_blobs(TENANT, ())
        assert entered.wait(SECONDS)
        try:
            yield
        finally:
            failpoints.disarm("append.queued")
            go.set()
        first.result(SECONDS)

    def findings(self) -> list[Finding]:
        """What audit finds."""
        return [one for one in audit(self.opened) if isinstance(one, Finding)]

    # --- words of a story ------------------------------------------------------------------------

    def request(self) -> str:
        return f"request-{next(self._requests)}"

    def create(
        self,
        trajectory_id: str = "t",
        *,
        standing: Standing = "reported",
        tenant: str = TENANT,
        request_id: str | None = None,
    ) -> Ack:
        request_id = request_id or self.request()
        imported = standing == "imported"
        first = (
            None
            if imported
            else event(
                trajectory_id, "started", "TaskStarted", TaskStarted(title="T", standing=standing)
            )
        )
        command = CreateCommand(
            tenant=tenant,
            trajectory_id=trajectory_id,
            standing=standing,
            issuer="importer" if imported else "service",
            request_id=request_id,
            request_digest=sha256(f"{trajectory_id} {standing}".encode()),
            first=first,
        )
        return cast(Ack, self.store.create(command).result(SECONDS))

    def claim_later(
        self,
        trajectory_id: str = "t",
        *,
        worker: str = "w1",
        tenant: str = TENANT,
        expected_epoch: int | None = None,
        request_id: str | None = None,
    ) -> Future[Grant]:
        command = ClaimCommand(
            tenant=tenant,
            trajectory_id=trajectory_id,
            worker=worker,
            cause="start",
            request_id=request_id or self.request(),
            request_digest=sha256(f"{worker} {expected_epoch}".encode()),
            expected_epoch=expected_epoch,
        )
        return cast(Future[Grant], self.store.claim(command))

    def claim(self, trajectory_id: str = "t", **more: Any) -> Grant:
        return self.claim_later(trajectory_id, **more).result(SECONDS)

    def append_later(
        self,
        events: Sequence[Prepared],
        *,
        trajectory_id: str = "t",
        epoch: int | None = 1,
        worker: str | None = "w1",
        tenant: str = TENANT,
        expected_head: int | None = None,
        incarnation: str | None = None,
    ) -> Future[Ack]:
        command = AppendCommand(
            tenant=tenant,
            trajectory_id=trajectory_id,
            issuer="worker",
            door="append",
            request_id=self.request(),
            events=tuple(events),
            owner_epoch=epoch,
            worker=worker,
            expected_head=expected_head,
            incarnation=incarnation,
        )
        return cast(Future[Ack], self.store.append(command))

    def append(self, *events: Prepared, **more: Any) -> Ack:
        # Without a limit of its own the caller may flush the group itself.
        return self.append_later(events, **more).result()

    def refused(self, future: Future[Any]) -> StrandlineError:
        """The error of a command that must fail."""
        error = future.exception(SECONDS)
        assert isinstance(error, StrandlineError), error
        return error

    def imports(
        self,
        *events: Prepared,
        trajectory_id: str = "t",
        expected_head: int | None = None,
        source: ImportSource | None = None,
        source_length: int | None = None,
        creates: Standing | None = None,
    ) -> Future[Ack]:
        command = AppendCommand(
            tenant=TENANT,
            trajectory_id=trajectory_id,
            issuer="importer",
            door="import",
            request_id=self.request(),
            events=events,
            expected_head=expected_head,
            source=source,
            source_length=source_length,
            creates=creates,
        )
        return cast(Future[Ack], self.store.append(command))

    def owned(self, trajectory_id: str = "t", **more: Any) -> int:
        """A reported trajectory with one grant for w1; its head."""
        self.create(trajectory_id, **more)
        return self.claim(trajectory_id).head


@cache
def template() -> Path:
    """An empty store, made once by the migrations; a copy of it is a new store."""
    folder = Path(tempfile.mkdtemp(prefix="strandline-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    open_store(folder / "data").close()
    return folder


WORLDS = {"sqlite": SqliteWorld}


def event(trajectory_id: str, event_id: str, type_: str, payload: Payload, **more: Any) -> Prepared:
    """A typed event."""
    stated = NewEvent(
        event_id=event_id,
        type=type_,
        schema_version=registry.FAMILIES[type_].version,
        payload=registry.encode(payload),
        **more,
    )
    return prepare(trajectory_id, stated, payload)


def note(
    event_id: str, text: str = "", *, trajectory_id: str = "t", kind: str = "note.test", **more: Any
) -> Prepared:
    """A note with this text; two of one id and different texts conflict."""
    stated = NewEvent(
        event_id=event_id,
        type=kind,
        schema_version=1,
        payload=canonical({"text": text or event_id}),
        **more,
    )
    return prepare(trajectory_id, stated)


def intent(
    event_id: str, operation_id: str, command: str, *, trajectory_id: str = "t", **more: Any
) -> Prepared:
    """A proposal to run a command."""
    payload = ToolIntent(kind="proposal", tool="shell", arguments={"command": command}, **more)
    return event(
        trajectory_id,
        event_id,
        "ToolIntent",
        payload,
        operation_id=operation_id,
        attempt_id=f"{event_id}-1",
    )


def with_ref(event_id: str, ref: BlobRef, *, trajectory_id: str = "t") -> Prepared:
    """A note that names a blob."""
    return note(event_id, trajectory_id=trajectory_id, refs=(ref,))


def together(work: Sequence[Any]) -> list[Any]:
    """Run callables in threads that start at one moment; results or errors, in order."""
    barrier = threading.Barrier(len(work))
    results: list[Any] = [None] * len(work)

    def run(at: int) -> None:
        barrier.wait(SECONDS)
        try:
            results[at] = work[at]()
        except BaseException as error:
            results[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return results
