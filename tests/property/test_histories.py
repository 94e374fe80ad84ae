"""Golden histories keep their digests, and fold to the record written beside them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785

from core.canonical import canonical
from core.events import registry
from core.record.archive import Segments
from core.record.reduce import empty, fold, fold_rows
from tests import strategies
from tests.strategies import Log, Said

HISTORIES = sorted((Path(__file__).parent.parent / "golden" / "histories").glob("*.jsonl"))


def read(path: Path) -> Log:
    said = []
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        payload = canonical(fields.pop("payload"))
        said.append(Said(payload=payload, worker=fields.pop("worker", None), **fields))
    return strategies.store(said, trajectory_id="golden-1")


def nothing_archived(digest: str) -> bytes:
    raise AssertionError(f"no segment is needed, {digest} was asked for")


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_history_folds_to_the_record_beside_it(path: Path) -> None:
    log = read(path)
    expected = json.loads(path.with_suffix(".record.json").read_text())
    record = fold(empty(log.trajectory_id), log.pairs(), nothing_archived)
    assert msgspec.json.decode(msgspec.json.encode(record)) == expected["record"]
    lean = fold_rows(empty(log.trajectory_id), log.events, Segments(nothing_archived), log.read)
    assert lean == record
    assert log.events[0].digest.hex() == expected["digest_1"]
    assert log.events[-1].chain.hex() == expected["chain"]


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_digests_and_chain_follow_the_contracts_formulas(path: Path) -> None:
    """ENV-1 and ENV-2 written out a second time, with another encoder."""
    log = read(path)
    chain = hashlib.sha256(b"strandline/chain/1\n" + b"golden-1").digest()
    for event in log.events:
        assert event.payload is not None
        stated: dict[str, Any] = {
            "trajectory_id": "golden-1",
            "event_id": event.event_id,
            "type": event.type,
            "schema_version": event.schema_version,
            "payload": {
                "digest": "sha256:" + hashlib.sha256(event.payload).hexdigest(),
                "length": len(event.payload),
                "media_type": "application/json",
            },
        }
        for name in ("occurred_at", "step", "operation_id", "attempt_id", "invocation_id"):
            if getattr(event, name) is not None:
                stated[name] = getattr(event, name)
        digest = hashlib.sha256(b"strandline/event/1\n" + rfc8785.dumps(stated)).digest()
        assert event.digest == digest
        stamped: dict[str, Any] = {
            name: getattr(event, name)
            for name in (
                "sequence_number",
                "recorded_at",
                "issuer",
                "owner_epoch",
                "control_epoch",
                "record_version",
                "reducer_version",
            )
        }
        if event.worker is not None:
            stamped["worker"] = event.worker
        body = b"strandline/chain/1\n" + chain + digest + rfc8785.dumps(stamped)
        chain = hashlib.sha256(body).digest()
        assert event.chain == chain


def test_a_history_holds_every_family() -> None:
    held = {event.type for event in read(HISTORIES[0]).events}
    assert held >= set(registry.FAMILIES)
