"""Watched folders: what appears and grows in them is taken in while the server runs.

INVARIANTS
1. One thread of its own; a folder that is slow, gone or full of other things delays no request.
2. What it waits for and what it could not take is shown (Import page, Health, `GET /v1/watch`).
3. The data folder itself is never watched.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from app.wiring import Parts
from core.errors import InvalidInput, StoreStopped, StrandlineError
from core.ids import tenant
from core.principal import Principal
from ingest.files import OpenedFile
from ingest.follow import Follower, How, Status
from ingest.pipeline import Following

CLOSE_SECONDS = 3.0
#: After a fault of this program it looks again.
AGAIN_SECONDS = 30.0
_LOG = structlog.get_logger("watch")


class _Store:
    """The sink: the store this process owns."""

    opening_seconds = 0.0

    def __init__(self, parts: Parts, who: Principal, stop: threading.Event) -> None:
        self._parts = parts
        self._who = who
        self._stop = stop

    def take(self, opened: OpenedFile, how: How) -> dict[str, Any]:
        following = Following(how.source, how.at_work, how.edges)
        report = self._parts.import_opened(self._who, opened, following, self._progress)
        return {**report.document(), "ok": report.ok}

    def rest(self) -> None:
        return

    def _progress(self, *_: int) -> None:
        if self._stop.is_set():
            raise StoreStopped("the server was stopped")


class Watch:
    """Follows the folders of the settings on a thread; `status` is safe from any thread."""

    def __init__(self, parts: Parts, folders: Sequence[Path]) -> None:
        checked(folders, parts.folder)
        who = Principal(tenant(parts.settings.tenant), "watched-folder", frozenset({"import"}))
        self._stop = threading.Event()
        self._follower = Follower(
            [os.fspath(path) for path in folders], _Store(parts, who, self._stop)
        )
        self._fault: str | None = None
        self._thread: threading.Thread | None = None
        if folders:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

    def status(self) -> Status | None:
        """What it is doing; None where nothing is watched."""
        if self._thread is None:
            return None
        status = self._follower.status()
        return status if self._fault is None else status.stopped(self._fault)

    def following(self) -> frozenset[str]:
        """Trajectories of the files it looks at, as far as it has read them since the start."""
        return self._follower.trajectories() if self._thread is not None else frozenset()

    def close(self) -> None:
        """Stop after the segment that is being read, within CLOSE_SECONDS; idempotent.

        A reading that is cut off leaves whole segments.
        """
        self._stop.set()
        self.join(CLOSE_SECONDS)

    def join(self, seconds: float) -> bool:
        """Wait for the thread of a closed watch; whether it ended."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follower.run(self._stop, self._tell, self._trouble)
            except Exception as error:
                name = type(error).__name__
                self._fault = f"a fault of this program ended the last round: {name}"
                _LOG.error("watching failed", exc_info=error)
                self._stop.wait(AGAIN_SECONDS)
                self._fault = None

    @staticmethod
    def _tell(document: dict[str, Any]) -> None:
        level = _LOG.info if document["ok"] else _LOG.warning
        why = [str(item["why"])[:200] for item in document["refused"][:1]]
        level("watched file", name=document["path"][-200:], outcome=document["outcome"], why=why)

    def _trouble(self, error: StrandlineError) -> None:
        if self._stop.is_set():
            return  # It was told to stop, and did.
        _LOG.warning("watching waits for the store", why=str(error))


def checked(folders: Sequence[Path], data: Path) -> None:
    """InvalidInput where a watched folder holds the data folder or lies in it."""
    inside = Path(os.path.realpath(data))
    for folder in folders:
        real = Path(os.path.realpath(folder))
        if real == inside or real in inside.parents or inside in real.parents:
            raise InvalidInput(
                f"STRANDLINE_WATCH names {folder}, which holds the data folder or lies in it; "
                "watch the folders the sessions lie in",
                field="watch",
            )
