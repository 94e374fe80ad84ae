"""The store against a model of it: a few lists and two numbers, under any order of commands."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.errors import Fenced, HeadMoved, IntegrityConflict, StrandlineError
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, note

NAMES = ("t", "u")
IDS = tuple(f"e{n}" for n in range(6))


class Model:
    """What one trajectory must be."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, int]] = []
        """(event id, text, epoch)."""
        self.epoch = 0
        self.worker: str | None = None
        self.refused = 0
        self.incidents = 0

    def text(self, event_id: str) -> str | None:
        return next((text for found, text, _ in self.log if found == event_id), None)


class Store(RuleBasedStateMachine):
    """Appends, claims, groups and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="strandline-machine-"))
        self.world = SqliteWorld(self.folder)
        self.models = {name: Model() for name in NAMES}

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.world.create(name)
            self.models[name].log.append(("started", "", 0))

    @rule(name=st.sampled_from(NAMES), worker=st.sampled_from(["w1", "w2"]))
    def claim(self, name: str, worker: str) -> None:
        model = self.models[name]
        grant = self.world.claim(name, worker=worker)
        model.epoch += 1
        model.worker = worker
        assert grant.owner_epoch == model.epoch
        model.log.append(("grant", "", model.epoch))

    @rule(
        requests=st.lists(
            st.tuples(
                st.sampled_from(NAMES),
                st.lists(
                    st.tuples(st.sampled_from(IDS), st.sampled_from(["x", "y"])),
                    min_size=1,
                    max_size=3,
                    unique_by=lambda pair: pair[0],
                ),
                st.integers(-1, 1),
                st.sampled_from(["w1", "w2"]),
                st.none() | st.integers(0, 3),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def append(self, requests: list[tuple[str, list[tuple[str, str]], int, str, Any]]) -> None:
        """Several requests as one group; each decided on what the earlier ones left."""
        futures, wanted = [], []
        with self.world.one_group():
            for name, events, offset, worker, behind in requests:
                model = self.models[name]
                epoch = max(0, model.epoch + offset)
                head = None if behind is None else max(0, len(model.log) - behind)
                wanted.append(self._expect(model, events, epoch, worker, head))
                futures.append(
                    self.world.append_later(
                        [note(event_id, text, trajectory_id=name) for event_id, text in events],
                        trajectory_id=name,
                        epoch=epoch,
                        worker=worker,
                        expected_head=head,
                    )
                )
        for future, want in zip(futures, wanted, strict=True):
            error = future.exception(SECONDS)
            if isinstance(want, type):
                assert type(error) is want, (error, want)
            else:
                ack = future.result(SECONDS)
                assert (ack.sequence_numbers, ack.duplicates) == want

    @staticmethod
    def _expect(
        model: Model, events: list[tuple[str, str]], epoch: int, worker: str, head: int | None
    ) -> type[StrandlineError] | tuple[tuple[int, ...], tuple[bool, ...]]:
        known = [model.text(event_id) for event_id, _ in events]
        for (_, text), stored in zip(events, known, strict=True):
            if stored is not None and stored != text:
                model.incidents += 1
                return IntegrityConflict
        if None in known:
            if epoch != model.epoch or epoch == 0 or worker != model.worker:
                model.refused += 1
                return Fenced
            if head is not None and head != len(model.log):
                return HeadMoved
            for (event_id, text), stored in zip(events, known, strict=True):
                if stored is None:
                    model.log.append((event_id, text, epoch))
        ids = [event_id for event_id, _, _ in model.log]
        return (
            tuple(ids.index(event_id) + 1 for event_id, _ in events),
            tuple(stored is not None for stored in known),
        )

    @rule()
    def restart(self) -> None:
        self.world.reopen()

    @invariant()
    def the_log_is_the_models(self) -> None:
        refused = incidents = 0
        for name, model in self.models.items():
            if not model.log:
                continue
            found = [
                ("grant" if e.type == "OwnershipGranted" else e.event_id, e.owner_epoch)
                for e in self.world.store.events(TENANT, name)
            ]
            assert found == [(event_id, epoch) for event_id, _, epoch in model.log]
            head = self.world.store.head(TENANT, name)
            assert (head.sequence_number, head.owner_epoch, head.worker, head.incidents) == (
                len(model.log),
                model.epoch,
                model.worker,
                model.incidents,
            )
            refused += model.refused
            incidents += model.incidents
        kinds = [row.kind for row in self.world.store.ledger(TENANT, limit=10_000)]
        assert (kinds.count("refused"), kinds.count("incident")) == (refused, incidents)

    def teardown(self) -> None:
        assert self.world.findings() == []
        self.world.close()
        shutil.rmtree(self.folder)


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
