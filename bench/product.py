"""The product in this process: a store in a folder, its runtime, and trajectories to write to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench import workload
from core.events.envelope import NewEvent
from core.events.task import TaskStarted
from core.ids import Tenant
from core.principal import Principal
from runtime.projector import Projector
from runtime.service import Runtime
from runtime.time_travel import RecordView
from store.open import open_store
from store.ports import Ack

WORKER = "bench-worker"
WHO = Principal(Tenant("local"), "bench", frozenset({"read", "write"}))
BATCH = 500
#: Batches in flight while a trajectory is filled: the writer always has the next group.
_AHEAD = 4


@dataclass(frozen=True)
class Owned:
    """One reported trajectory under an epoch of ours."""

    runtime: Runtime
    trajectory_id: str
    owner_epoch: int

    def append(self, events: Sequence[NewEvent]) -> Future[Ack]:
        """One append request; the future resolves after the barrier."""
        return self.runtime.append(
            WHO,
            self.trajectory_id,
            owner_epoch=self.owner_epoch,
            worker=WORKER,
            request_id=events[0].event_id,
            events=events,
        )


@dataclass(frozen=True)
class Product:
    """An open store and its runtime."""

    runtime: Runtime
    projector: Projector

    def reported(self, trajectory_id: str) -> Owned:
        """A new reported trajectory, claimed."""
        self.runtime.create(
            WHO,
            request_id=f"make-{trajectory_id}",
            standing="reported",
            task=TaskStarted(title=f"Benchmark {trajectory_id}", standing="reported"),
            trajectory_id=trajectory_id,
        )
        grant = self.runtime.claim(
            WHO, trajectory_id, request_id=f"claim-{trajectory_id}", worker=WORKER
        )
        return Owned(self.runtime, trajectory_id, grant.owner_epoch)

    def filled(self, events: int) -> str:
        """A trajectory whose log has `events` events, with its snapshots; its id."""
        owned = self.reported(f"bench-{events}")
        head = self.runtime.head(WHO, owned.trajectory_id).sequence_number
        source = workload.history(events - head)
        pending: list[Future[Ack]] = []
        while batch := list(islice(source, BATCH)):
            pending.append(owned.append(batch))
            if len(pending) > _AHEAD:
                pending.pop(0).result()
        for future in pending:
            future.result()
        assert self.runtime.head(WHO, owned.trajectory_id).sequence_number == events
        self.projector.catch_up(WHO.tenant, owned.trajectory_id)
        return owned.trajectory_id

    def record_at(self, trajectory_id: str, boundary: int) -> RecordView:
        """The record at a boundary, as the API and the pages ask for it."""
        return self.runtime.record_at(WHO, trajectory_id, boundary)


@contextmanager
def product(folder: Path) -> Iterator[Product]:
    """A store in domain `host`, as a server opens it."""
    with open_store(folder) as opened:
        runtime = Runtime(
            opened.store, opened.blobs, opened.projections, lambda: time.time_ns() // 1_000
        )
        yield Product(runtime, Projector(opened.store, opened.blobs, opened.projections))
