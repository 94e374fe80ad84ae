"""Data to look at: committed trajectories, a copy, and a generated one of 100,000 events.

The committed files are of every format, among them two parents with their sub-agents; two of them
carry a note and a tag, as a person would leave them. A search worth making is `SEARCH`.

The generated trajectory is `reported`: a runtime of its own, under an owner epoch, says what it
did (`ingest.demo_story`). It is written by the store's ordinary commands (create, claim, append).
Nothing in it is random: the same seed and end give the same events, so that an interrupted seeding
is completed by running it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.acts import ActKind, Body, Note, Tag
from core.canonical import sha256
from core.errors import ImportRefused, NotFound
from core.events import registry
from core.events.envelope import NewEvent
from core.events.prepare import Prepared, prepare
from core.instants import Instant
from ingest import demo_story
from ingest.demo_copy import COPY_ID, install_copy
from ingest.pipeline import import_path
from store.ports import (
    ActCommand,
    AppendCommand,
    BlobStore,
    ClaimCommand,
    CreateCommand,
    RecoveryStore,
)

DATA = Path(__file__).resolve().parent / "demo_data"
#: Endings of the committed trajectories.
_TRAJECTORIES = (".json", ".traj", ".jsonl")
GENERATED_ID = "demo-nightly-build"
GENERATED_EVENTS = 100_000
#: The imagined day ends so long before it is written, the copy's so much earlier.
_ENDED_AGO = 90_000_000
_COPY_AGO = 9 * 86_400_000_000
#: Found in a session, in its sub-agent's, and in a run of another program.
SEARCH = "february"
#: What a person noted: file, family of the event at whose first boundary, note, tag.
_NOTED = (
    (
        "2c1d9f50-7a44-4f0e-9b1b-5d0c7e3a1f10.jsonl",
        "ApprovalResolved",
        "Rightly refused: it wanted to push --force to main before there was a test.",
        "look-again",
    ),
    (
        "rollout-2026-11-20T09-00-00-01a1f82f-1e80-7a1b-82c3-d4e5f6a7b8c9.jsonl",
        "Compacted",
        "What it knew of the tests is gone from here on; compare the context before.",
        "compaction",
    ),
)
_ACTOR = "demo"


class Clock:
    """The clock of an imagined store: the time that the story has reached."""

    def __init__(self) -> None:
        self.now: Instant = now()

    def __call__(self) -> Instant:
        return self.now


def now() -> Instant:
    """Microseconds UTC, of this host."""
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Seeded:
    """What the demo folder holds now."""

    imported: tuple[str, ...]
    """Trajectory ids of the committed files."""
    generated: str
    events: int
    """Events of the generated trajectory."""
    fresh: bool
    """Something was written now."""
    copied: str = COPY_ID

    @property
    def trajectories(self) -> tuple[str, ...]:
        """All trajectory ids of the demo."""
        return (*self.imported, self.copied, self.generated)


def committed() -> tuple[Path, ...]:
    """The trajectories that come with the program, of every format."""
    return tuple(sorted(path for path in DATA.iterdir() if path.suffix in _TRAJECTORIES))


def seed(
    store: RecoveryStore,
    blobs: BlobStore,
    tenant: str = "local",
    *,
    events: int = GENERATED_EVENTS,
    note: Callable[[str], None] = lambda text: None,
) -> Seeded:
    """Import the committed files and generate the long trajectory; what is there is left alone."""
    imported: list[str] = []
    fresh = False
    for path in committed():
        # A log's name states its session, by which logs of one tree find each other.
        name = None if path.suffix == ".jsonl" else f"demo/{path.name}"
        for report in import_path(store, blobs, tenant, path, as_name=name):
            if not report.ok:
                raise ImportRefused(f"{path.name}: {report.refused[0].why}")
            fresh = fresh or report.outcome != "unchanged"
            imported += [one.id for one in report.trajectories]
            _note(store, tenant, path.name, report.trajectories[0].id)
            note(f"{path.name}: {report.trajectories[0].events} events")
    copied = install_copy(store, tenant, began=now() - _COPY_AGO)
    note(f"{COPY_ID}: a copy from another store")
    written = generate(store, tenant, events=events, note=note)
    return Seeded(tuple(imported), GENERATED_ID, events, fresh or copied or written)


def _note(store: RecoveryStore, tenant: str, name: str, trajectory_id: str) -> None:
    """Leave the note and the tag of a file, once."""
    for file, family, text, tag in _NOTED:
        if file != name:
            continue
        events = store.events(tenant, trajectory_id, limit=1_000)
        boundary = next(one.sequence_number for one in events if one.type == family)
        acts: tuple[tuple[ActKind, Body, int | None], ...] = (
            ("note", Note(text), boundary),
            ("tag", Tag(tag), None),
        )
        for kind, body, at in acts:
            request_id = f"demo.{kind}.{name}"
            command = ActCommand(
                tenant=tenant,
                kind=kind,
                body=body,
                actor=_ACTOR,
                request_id=request_id,
                request_digest=sha256(request_id.encode()),
                trajectory_id=trajectory_id,
                boundary=at,
            )
            store.act(command).result()


def generate(
    store: RecoveryStore,
    tenant: str = "local",
    *,
    trajectory_id: str = GENERATED_ID,
    events: int = GENERATED_EVENTS,
    clock: Clock | None = None,
    ends: Instant | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> bool:
    """Write a `reported` trajectory of exactly `events` events; False if it was all there.

    At least 1,000 events. `clock` is the one the store was opened with: it is set to each report's
    time, so that the store receives it when its runtime sent it. The story ends at `ends`, by
    default shortly before now; one that was interrupted keeps its times. Raises what the store
    raises.
    """
    began = None
    try:
        if store.head(tenant, trajectory_id).sequence_number >= events:
            return False
        began = store.events(tenant, trajectory_id, limit=1)[0].occurred_at
    except NotFound:
        pass
    if began is None:
        began = (now() - _ENDED_AGO if ends is None else ends) - demo_story.span(events)
    clock = clock or Clock()
    clock.now = began + 5_000
    store.create(_creation(trajectory_id, tenant, demo_story.first(began))).result()
    epoch, worker, done = 0, "", 1
    for told in demo_story.tell(events, began):
        clock.now = told.at
        if isinstance(told, demo_story.Grant):
            if worker:
                note(f"{worker}, owner epoch {epoch}: up to event {done:,}")
            epoch, worker = _claim(store, tenant, trajectory_id, told), told.worker
            done += 1
            continue
        batch = tuple(_prepared(trajectory_id, draft) for draft in told.events)
        store.append(
            AppendCommand(
                tenant=tenant,
                trajectory_id=trajectory_id,
                issuer="worker",
                door="append",
                request_id=f"demo.{batch[0].event.event_id}",
                events=batch,
                owner_epoch=epoch,
                worker=worker,
            )
        ).result()
        done += len(batch)
    note(f"{worker}, owner epoch {epoch}: up to event {done:,}")
    return True


def _creation(trajectory_id: str, tenant: str, first: demo_story.Draft) -> CreateCommand:
    request_id = f"demo.{trajectory_id}.create"
    return CreateCommand(
        tenant=tenant,
        trajectory_id=trajectory_id,
        standing="reported",
        issuer="service",
        request_id=request_id,
        request_digest=sha256(request_id.encode()),
        first=_prepared(trajectory_id, first),
    )


def _claim(store: RecoveryStore, tenant: str, trajectory_id: str, told: demo_story.Grant) -> int:
    """The owner epoch of a generation, granted now or at an earlier try."""
    command = ClaimCommand(
        tenant=tenant,
        trajectory_id=trajectory_id,
        worker=told.worker,
        cause=told.cause,
        request_id=f"demo.{trajectory_id}.claim.{told.number}",
        request_digest=sha256(f"{trajectory_id} {told.number} {told.worker}".encode()),
    )
    return store.claim(command).result().owner_epoch


def _prepared(trajectory_id: str, draft: demo_story.Draft) -> Prepared:
    family = registry.FAMILIES[type(draft.payload).__name__]
    event = NewEvent(
        event_id=draft.event_id,
        type=family.name,
        schema_version=family.version,
        payload=registry.encode(draft.payload),
        occurred_at=draft.occurred_at,
        step=draft.step,
        operation_id=draft.operation_id,
        attempt_id=draft.attempt_id,
        invocation_id=draft.invocation_id,
    )
    return prepare(trajectory_id, event, draft.payload)
