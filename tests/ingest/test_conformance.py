"""What every registered importer must do, on its own example files."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from core.canonical import canonical
from core.events import registry as events
from core.events.envelope import ORIGINAL_SCHEMA
from core.events.prepare import prepare
from ingest import registry
from ingest.base import Built, Importer, Kept, Source
from ingest.demo import DATA

IMPORTS = Path(__file__).resolve().parent.parent / "golden/imports"
#: Example files of each importer; a new importer adds its row.
EXAMPLES: dict[str, tuple[Path, ...]] = {
    "mini-swe-agent": tuple(sorted(DATA.glob("*.traj.json"))),
    "swe-agent": tuple(sorted(DATA.glob("*.traj"))),
    "claude-code-export": (IMPORTS / "claude_code/web-export.json",),
}
CASES = [
    pytest.param(importer, path, id=f"{importer.name}-{path.name}")
    for importer in registry.IMPORTERS
    for path in EXAMPLES.get(importer.name, ())
]


def built(importer: Importer, data: bytes, kept: tuple[Kept, ...] = ()) -> Built:
    source = Source("example", io.BytesIO(data), len(data))
    return importer.parse(source).build("somewhere", kept)


def test_every_importer_has_examples_and_a_name_of_its_own() -> None:
    names = [importer.name for importer in registry.IMPORTERS]
    assert len(set(names)) == len(names)
    assert set(names) == set(EXAMPLES)
    for importer in (*registry.IMPORTERS, registry.NATIVE):
        assert re.fullmatch(r"[a-z0-9-]+", importer.name)
        assert importer.version >= 1
        assert importer.title
    assert all(EXAMPLES.values())


@pytest.mark.parametrize(("importer", "path"), CASES)
def test_it_recognises_its_files_and_says_why(importer: Importer, path: Path) -> None:
    data = path.read_bytes()
    found = registry.recognise(data[:65536], data[-8192:], path.name)
    assert found is not None
    assert found[0] is importer
    assert 0.2 <= found[1].confidence <= 1
    assert found[1].reason
    bundle = b'{"strandline":"bundle/1","trajectory_id":"x"}\n'
    other = registry.recognise(bundle, bundle, path.name)
    assert other is not None
    assert other[0] is registry.NATIVE


@pytest.mark.parametrize(("importer", "path"), CASES)
def test_its_events_are_well_formed(importer: Importer, path: Path) -> None:
    data = path.read_bytes()
    run = built(importer, data)
    assert run.events
    assert run.known == 0
    assert run.segment is not None
    ids = [one.event.event_id for one in run.events]
    assert len(set(ids)) == len(ids)
    assert run.events[0].event.type == "TaskStarted"
    steps = [one.event.step for one in run.events if one.event.step is not None]
    assert steps == sorted(steps)
    for one in run.events:
        event = one.event
        raw = event.payload if event.payload is not None else one.blob
        assert raw is not None
        assert events.decode(event.type, event.schema_version, raw) == one.payload
        assert canonical(json.loads(raw)) == raw
        assert prepare(run.trajectory_id, event, one.payload)
        originals = [ref for ref in event.refs if ref.schema == ORIGINAL_SCHEMA]
        assert originals
        for ref in originals:
            assert 0 <= (ref.start or 0) < (ref.end or 0) <= ref.length == len(run.segment)
        if event.type == "ToolIntent":
            assert one.payload.kind == "proposal"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("importer", "path"), CASES)
def test_it_derives_the_same_events_again(importer: Importer, path: Path) -> None:
    data = path.read_bytes()
    assert built(importer, data) == built(importer, data)
    first = built(importer, data)
    assert first.segment is not None
    digest = next(ref.digest for ref in first.events[0].event.refs if ref.schema == ORIGINAL_SCHEMA)
    again = built(importer, data, (Kept(first.segment, digest, first.segment_items),))
    assert again.events == first.events
    assert again.known == len(first.events)
    assert again.segment is None


@pytest.mark.parametrize(("importer", "path"), CASES)
def test_it_says_what_the_format_cannot_say(importer: Importer, path: Path) -> None:
    findings = built(importer, path.read_bytes()).findings
    assert findings.gaps
    assert all(gap.what and gap.why for gap in findings.gaps.values())
    assert sum(findings.token_rules.values()) == sum(
        count for (_, family), count in findings.became.items() if family == "ModelReplied"
    )
    assert sum(findings.pairings.values()) == sum(
        count for (_, family), count in findings.became.items() if family == "ToolResult"
    )
