"""A log importer's run outside a store: cut a source, derive it, seal and fold what it gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from core.canonical import digest_text, sha256
from core.events.envelope import Event
from core.events.prepare import prepare
from core.record import reduce
from core.record.archive import Segments
from core.record.record import TrajectoryRecord
from core.rules.grades import grade
from ingest.base import BuiltEvent, LogImporter, LogRun, LogSegment
from ingest.lines import read_lines

AT = 1_700_000_000_000_000


@dataclass
class Derived:
    """What a source gave, trajectory by trajectory."""

    run: LogRun
    events: dict[str, list[BuiltEvent]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    after: list[dict[str, int]] = field(default_factory=list)
    """Events of each trajectory after each segment."""

    def all(self) -> list[BuiltEvent]:
        """Every event, the source's own trajectory first."""
        return [one for events in self.events.values() for one in events]

    def payloads(self, type_: str, sub: int | None = None) -> list[Any]:
        """Payloads of one family: of all trajectories, or of the one at that place."""
        chosen = list(self.events.values()) if sub is None else [list(self.events.values())[sub]]
        return [one.payload for events in chosen for one in events if one.event.type == type_]

    def families(self) -> Counter[str]:
        """How many events of each family."""
        return Counter(one.event.type for one in self.all())

    def records(self) -> list[TrajectoryRecord]:
        """The record of each trajectory."""
        return [record_of(name, events) for name, events in self.events.items()]

    def tokens(self) -> dict[str, int]:
        """Tokens of all trajectories by kind, as the records add them up."""
        found: Counter[str] = Counter()
        for record in self.records():
            for kind in ("input", "output", "cache_read", "cache_write"):
                found[kind] += getattr(record.calls.tokens, kind)
        return dict(found)

    def unknown(self) -> int:
        """Operations of grade `unknown`, by the words that pages use."""
        return sum(
            grade(operation, record, standing="imported", at_head=True).word == "unknown"
            for record in self.records()
            for operation in record.operations.open.values()
        ) + sum(record.operations.spilled_unsettled for record in self.records())


def cut_after(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut after the lines whose numbers (from 1) are given."""
    lines = data.splitlines(keepends=True)
    edges = sorted({cut for cut in cuts if 0 < cut < len(lines)})
    parts = zip([0, *edges], [*edges, len(lines)], strict=True)
    return [b"".join(lines[start:end]) for start, end in parts]


def derive(
    importer: LogImporter,
    data: bytes,
    name: str,
    *,
    cuts: list[int] | None = None,
    beside: dict[str, bytes] | None = None,
    source_id: str | None = None,
) -> Derived:
    """Feed a source to a run, in the segments that `cuts` make."""
    source = source_id or importer.native_id(data[:65536], name) or name
    run = importer.start(source, name, (beside or {}).get)
    found = Derived(run)
    offset, first = 0, 1
    for index, part in enumerate(cut_after(data, cuts or [])):
        if not part:
            continue
        lines, _ = read_lines(part, first, begins=offset == 0)
        segment = LogSegment(index, digest_text(sha256(part)), len(part), offset, lines)
        for grown in run.feed(segment):
            assert grown.events
            held = found.events.setdefault(grown.trajectory_id, [])
            held += grown.events
            found.titles[grown.trajectory_id] = grown.title
        found.after.append({name: len(events) for name, events in found.events.items()})
        offset, first = offset + len(part), first + part.count(b"\n")
    return found


def sealed(trajectory_id: str, built: list[BuiltEvent]) -> list[tuple[Event, Any]]:
    """The events as a store would hold them."""
    found = []
    for number, one in enumerate(built, 1):
        event = one.event
        prepared = prepare(trajectory_id, event, one.payload)
        found.append(
            (
                Event(
                    trajectory_id=trajectory_id,
                    sequence_number=number,
                    recorded_at=AT + number,
                    event_id=event.event_id,
                    type=event.type,
                    schema_version=event.schema_version,
                    issuer="importer",
                    owner_epoch=0,
                    control_epoch=0,
                    record_version=0,
                    reducer_version=reduce.REDUCER_VERSION,
                    digest=prepared.digest,
                    chain=prepared.digest,
                    payload_digest=prepared.payload_digest,
                    payload_length=prepared.payload_length,
                    payload=event.payload,
                    payload_ref=event.payload_ref,
                    occurred_at=event.occurred_at,
                    step=event.step,
                    operation_id=event.operation_id,
                    attempt_id=event.attempt_id,
                    invocation_id=event.invocation_id,
                    refs=event.refs,
                ),
                one.payload,
            )
        )
    return found


def record_of(trajectory_id: str, built: list[BuiltEvent]) -> TrajectoryRecord:
    """The record after all events."""
    segments = Segments(lambda digest: segments.made[digest])
    return reduce.fold(reduce.empty(trajectory_id), sealed(trajectory_id, built), segments)
