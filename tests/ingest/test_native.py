"""Our own export: it installs to the same chain, and says what is wrong with one that does not."""

from __future__ import annotations

import base64
import io
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from core.canonical import canonical, digest_text, sha256
from core.errors import InvalidInput, NotFound
from core.events.envelope import NewEvent, chain_start, chain_value, event_digest
from ingest import native
from ingest.base import Report
from ingest.demo import generate
from ingest.pipeline import import_path, import_stream
from runtime.time_travel import record_at
from store.open import Opened
from tests.ingest.support import TENANT, everything, fixture, give, log_of, take

GENERATED = "generated"


@pytest.fixture(scope="module")
def bundle(shared: Opened) -> bytes:
    """A run with blobs of payloads and originals, exported."""
    identity = take(shared, fixture("parallel-survey")).trajectories[0].id
    return exported(shared, identity)


def exported(opened: Opened, identity: str, after: int = 0, upto: int | None = None) -> bytes:
    out = io.BytesIO()
    native.export(opened.store, opened.blobs, TENANT, identity, out, after=after, upto=upto)
    return out.getvalue()


def identity_of(bundle: bytes) -> str:
    return str(json.loads(bundle.split(b"\n", 1)[0])["trajectory_id"])


def install(opened: Opened, data: bytes) -> Report:
    return give(opened, data, "log.jsonl")


def test_a_bundle_installs_to_the_same_log(opened: Opened, shared: Opened, bundle: bytes) -> None:
    identity = identity_of(bundle)
    report = install(opened, bundle)
    assert (report.outcome, report.refused) == ("imported", [])
    assert log_of(opened, identity) == log_of(shared, identity)
    head = opened.store.head(TENANT, identity)
    assert head.standing == "replica"
    assert head.chain == shared.store.head(TENANT, identity).chain
    assert report.trajectories[0].chain == digest_text(head.chain)
    assert not [one for _, one in opened.store.verify(TENANT, identity) if one is not None]
    for event in log_of(opened, identity):
        for ref in event.refs:
            assert opened.blobs.read(TENANT, ref.digest)


def test_an_installed_log_exports_again_to_the_same_lines(opened: Opened, bundle: bytes) -> None:
    install(opened, bundle)
    again = exported(opened, identity_of(bundle))
    assert again.split(b"\n")[1:] == bundle.split(b"\n")[1:]


def test_the_record_of_a_replica_is_that_of_its_origin(
    opened: Opened, shared: Opened, bundle: bytes
) -> None:
    identity = identity_of(bundle)
    install(opened, bundle)
    for boundary in (1, 17, 44):
        ours, theirs = (
            record_at(one.store, one.blobs, one.projections, TENANT, identity, boundary).record
            for one in (opened, shared)
        )
        assert ours == theirs


def test_the_same_bundle_changes_nothing(opened: Opened, shared: Opened, bundle: bytes) -> None:
    install(opened, bundle)
    before = everything(opened)
    assert install(opened, bundle).outcome == "unchanged"
    assert everything(opened) == before
    origin = install(shared, bundle)
    assert origin.outcome == "unchanged"
    assert any("original" in note for note in origin.findings.notes)


def test_tokens_are_counted_as_at_the_import(opened: Opened, shared: Opened, bundle: bytes) -> None:
    first = take(shared, fixture("parallel-survey")).findings.tokens
    assert install(opened, bundle).findings.tokens.plain() == first.plain()


def test_a_bundle_by_its_path_is_copied_before_it_is_read(
    opened: Opened, bundle: bytes, tmp_path: Any
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(bundle)
    (report,) = import_path(opened.store, opened.blobs, TENANT, path)
    assert report.outcome == "imported"


# --- damage ------------------------------------------------------------------------------------


def lines_of(bundle: bytes) -> list[bytes]:
    return bundle.rstrip(b"\n").split(b"\n")


def joined(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


def event_line(lines: list[bytes], number: int) -> int:
    """Index of the line with event `number`."""
    return next(
        index
        for index, line in enumerate(lines)
        if line.startswith(b'{"event"') and json.loads(line)["event"]["sequence_number"] == number
    )


def with_event(bundle: bytes, number: int, change: Callable[[dict[str, Any]], object]) -> bytes:
    lines = lines_of(bundle)
    at = event_line(lines, number)
    value = json.loads(lines[at])
    change(value["event"])
    lines[at] = json.dumps(value, separators=(",", ":")).encode()
    return joined(lines)


def without_event(bundle: bytes, number: int) -> bytes:
    lines = lines_of(bundle)
    del lines[event_line(lines, number)]
    return joined(lines)


def with_header(bundle: bytes, **fields: object) -> bytes:
    lines = lines_of(bundle)
    lines[0] = json.dumps(json.loads(lines[0]) | fields, separators=(",", ":")).encode()
    return joined(lines)


def with_blob(bundle: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    lines = lines_of(bundle)
    at = next(index for index, line in enumerate(lines) if line.startswith(b'{"blob"'))
    value = json.loads(lines[at])
    change(value)
    lines[at] = json.dumps(value, separators=(",", ":")).encode()
    return joined(lines)


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no end line": (lambda b: joined(lines_of(b)[:-1]), "without its end line"),
    "cut in a line": (lambda b: b[: len(b) - 30], "cut off here"),
    "header only": (lambda b: joined(lines_of(b)[:1]), "without its end line"),
    "after the end": (lambda b: b + b"\n", "after the end line"),
    "a line left out": (lambda b: without_event(b, 9), "event 9 is expected here"),
    "lines swapped": (
        lambda b: joined([*lines_of(b)[:-3], lines_of(b)[-2], lines_of(b)[-3], lines_of(b)[-1]]),
        "is expected here",
    ),
    "payload changed": (
        lambda b: with_event(b, 5, lambda e: e["payload"].update(tool="zsh")),
        "another digest than it says",
    ),
    "field changed": (lambda b: with_event(b, 5, lambda e: e.update(step=9)), "field was changed"),
    "store's field changed": (
        lambda b: with_event(b, 5, lambda e: e.update(recorded_at=e["recorded_at"] + 1)),
        "the chain breaks at event 5",
    ),
    "chain changed": (
        lambda b: with_event(b, 5, lambda e: e.update(chain="sha256:" + "0" * 64)),
        "the chain breaks at event 5",
    ),
    "digest malformed": (
        lambda b: with_event(b, 5, lambda e: e.update(digest="sha256:xyz")),
        "64 lower-case hex",
    ),
    "unknown field": (lambda b: with_event(b, 5, lambda e: e.update(colour="red")), "colour"),
    "no payload": (lambda b: with_event(b, 5, lambda e: e.pop("payload")), "either a payload"),
    "another trajectory": (
        lambda b: with_event(b, 5, lambda e: e.update(trajectory_id="tr_other")),
        "belongs to tr_other",
    ),
    "blob changed": (
        lambda b: with_blob(b, lambda v: v.update(data=base64.b64encode(b"x").decode())),
        "another digest",
    ),
    "blob not base64": (lambda b: with_blob(b, lambda v: v.update(data="%%%")), "base64"),
    "blob too long": (lambda b: with_blob(b, lambda v: v.update(length=1)), "longer than it says"),
    "blob missing": (
        lambda b: joined([line for line in lines_of(b) if not line.startswith(b'{"blob"')]),
        "does not stand before it",
    ),
    "blob part missing": (lambda b: with_blob(b, lambda v: v.update(parts=2)), "lacks parts"),
    "header's head": (lambda b: with_header(b, last=99, head=99), "damaged"),
    "header's chain": (lambda b: with_header(b, chain="sha256:" + "0" * 64), "chain at the end"),
    "header's order": (lambda b: with_header(b, first=50), "do not fit together"),
    "header's id": (lambda b: with_header(b, trajectory_id="../x"), "trajectory id"),
    "newer bundle": (lambda b: with_header(b, strandline="bundle/2"), "this version reads"),
    "duplicate key": (
        lambda b: b.replace(b'"payload":{', b'"payload":{"title":"x","title":"x",', 1),
        "twice",
    ),
    "no JSON": (lambda b: b.replace(b'{"event":{', b"{event:{", 1), "line"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_bundle_installs_nothing(opened: Opened, bundle: bytes, name: str) -> None:
    damage, reason = DAMAGE[name]
    data = damage(bundle)
    assert data != bundle
    report = install(opened, data)
    assert report.outcome == "refused"
    assert reason in report.refused[0].why
    assert report.refused[0].where
    assert everything(opened) == []


def test_a_payload_laid_out_anew_is_the_same_payload(opened: Opened, bundle: bytes) -> None:
    lines = [
        line if line.startswith(b'{"blob"') else json.dumps(json.loads(line)).encode()
        for line in lines_of(bundle)
    ]
    lines[0] = lines_of(bundle)[0]
    lines[-1] = lines_of(bundle)[-1]
    data = joined([line.replace(b'{"event": {', b'{"event":{', 1) for line in lines])
    assert install(opened, data).outcome == "imported"


# --- pieces, gaps and other histories ------------------------------------------------------------


@pytest.fixture(scope="module")
def long_log(shared: Opened) -> str:
    """A reported log of 3,000 events."""
    generate(shared.store, TENANT, trajectory_id=GENERATED, events=3_000)
    return GENERATED


def test_pieces_install_in_any_order(opened: Opened, shared: Opened, long_log: str) -> None:
    cuts = [0, 700, 701, 1_500, 3_000]
    pieces = [exported(shared, long_log, after, upto) for after, upto in itertools.pairwise(cuts)]
    heads = []
    for number in (2, 0, 3, 1):
        report = install(opened, pieces[number])
        assert report.ok, report.refused
        heads.append(report.trajectories[0].head)
    assert heads == [0, 700, 700, 3_000]
    assert opened.store.head(TENANT, long_log).chain == shared.store.head(TENANT, long_log).chain
    assert opened.store.staged(TENANT, long_log) == []
    assert not [one for _, one in opened.store.verify(TENANT, long_log) if one is not None]


def test_a_planted_gap_is_staged_and_shown(opened: Opened, shared: Opened, long_log: str) -> None:
    install(opened, exported(shared, long_log, 0, 1_000))
    report = install(opened, exported(shared, long_log, 1_001, 3_000))
    head = opened.store.head(TENANT, long_log)
    assert (head.sequence_number, head.staged, head.staged_to) == (1_000, 1_999, 3_000)
    assert any("begins at event 1001" in note for note in report.findings.notes)
    assert opened.store.staged(TENANT, long_log) == [(1_002, 3_000)]
    assert len(opened.store.events(TENANT, long_log, after=1_000)) == 0
    with pytest.raises(NotFound):
        record_at(opened.store, opened.blobs, opened.projections, TENANT, long_log, 1_002)
    install(opened, exported(shared, long_log, 1_000, 1_001))
    assert opened.store.head(TENANT, long_log).sequence_number == 3_000


def restamped(bundle: bytes, number: int, reason: str) -> bytes:
    """The same log with another payload at `number`, digests and chain made to fit."""
    lines = lines_of(bundle)
    identity = identity_of(bundle)
    chain = chain_start(identity)
    for index, line in enumerate(lines):
        if not line.startswith(b'{"event"'):
            continue
        value = json.loads(line)["event"]
        if value["sequence_number"] == number:
            value["payload"]["claim"] = reason
            raw = canonical(value["payload"])
            value["payload_digest"] = digest_text(sha256(raw))
            value["payload_length"] = len(raw)
        raw = canonical(value["payload"]) if "payload" in value else None
        stated = NewEvent(
            event_id=value["event_id"],
            type=value["type"],
            schema_version=value["schema_version"],
            payload=raw,
            payload_ref=native.BlobRef(**value["payload_ref"]) if raw is None else None,
            occurred_at=value.get("occurred_at"),
            step=value.get("step"),
            operation_id=value.get("operation_id"),
            attempt_id=value.get("attempt_id"),
            invocation_id=value.get("invocation_id"),
            refs=tuple(native.BlobRef(**ref) for ref in value.get("refs", ())),
        )
        digest = event_digest(identity, stated)
        chain = chain_value(
            chain,
            digest,
            sequence_number=value["sequence_number"],
            recorded_at=value["recorded_at"],
            issuer=value["issuer"],
            owner_epoch=value["owner_epoch"],
            worker=value.get("worker"),
            control_epoch=value["control_epoch"],
            record_version=value["record_version"],
            reducer_version=value["reducer_version"],
        )
        value["digest"], value["chain"] = digest_text(digest), digest_text(chain)
        lines[index] = json.dumps({"event": value}, separators=(",", ":")).encode()
    for at in (0, -1):
        value = json.loads(lines[at]) | {"chain": digest_text(chain)}
        lines[at] = json.dumps(value, separators=(",", ":")).encode()
    return joined(lines)


def test_another_history_is_a_conflict_and_an_incident(opened: Opened, bundle: bytes) -> None:
    identity = identity_of(bundle)
    other = restamped(bundle, 5, "another story")
    assert install(opened, bundle).outcome == "imported"
    before = everything(opened)
    report = install(opened, other)
    assert report.outcome == "conflict"
    assert report.refused[0].where == "event 5"
    assert "two histories" in report.refused[0].why
    assert everything(opened) == before
    assert opened.store.head(TENANT, identity).incidents == 1


def test_a_longer_copy_of_another_history_is_a_conflict(opened: Opened, bundle: bytes) -> None:
    other = restamped(bundle, 5, "another story")
    piece = piece_of(other, 20)
    assert install(opened, piece).outcome == "imported"
    before = everything(opened)
    assert install(opened, bundle).outcome == "conflict"
    assert everything(opened) == before


def piece_of(bundle: bytes, upto: int) -> bytes:
    """The first `upto` events of a bundle as a bundle."""
    lines = lines_of(bundle)
    end = event_line(lines, upto)
    chain = json.loads(lines[end])["event"]["chain"]
    header = json.loads(lines[0]) | {"last": upto, "chain": chain}
    last = {"end": True, "events": upto, "head": upto, "chain": chain}
    return joined(
        [
            json.dumps(header, separators=(",", ":")).encode(),
            *lines[1 : end + 1],
            json.dumps(last, separators=(",", ":")).encode(),
        ]
    )


def test_a_newer_event_type_is_kept_and_holds_what_lies_after_it(opened: Opened) -> None:
    identity = "tr_newer"
    events = [
        ("TaskStarted", 1, {"title": "A newer program's run", "standing": "gated"}),
        ("QuantumLeapt", 1, {"from": "here", "to": "there"}),
        ("note.remark", 1, {"text": "noted"}),
        ("RuntimeInput", 9, {"kind": "clock", "era": "new"}),
    ]
    lines, chain = [], chain_start(identity)
    for number, (type_, version, payload) in enumerate(events, 1):
        raw = canonical(payload)
        stated = NewEvent(f"e{number}", type_, version, payload=raw)
        digest = event_digest(identity, stated)
        fields: dict[str, Any] = {
            "sequence_number": number,
            "recorded_at": 1_000 + number,
            "issuer": "worker" if number > 1 else "service",
            "owner_epoch": 0,
            "control_epoch": 0,
            "record_version": 1 if number > 1 else 0,
            "reducer_version": 7,
        }
        chain = chain_value(chain, digest, worker=None, **fields)
        body = fields | {
            "trajectory_id": identity,
            "event_id": f"e{number}",
            "type": type_,
            "schema_version": version,
            "payload": payload,
            "payload_digest": digest_text(sha256(raw)),
            "payload_length": len(raw),
            "digest": digest_text(digest),
            "chain": digest_text(chain),
        }
        lines.append(json.dumps({"event": body}, separators=(",", ":")).encode())
    header = {
        "strandline": "bundle/1",
        "trajectory_id": identity,
        "standing": "gated",
        "first": 1,
        "last": 4,
        "head": 4,
        "chain": digest_text(chain),
        "incarnation": "elsewhere",
        "reducer_version": 7,
    }
    end = {"end": True, "events": 4, "head": 4, "chain": digest_text(chain)}
    ends = [json.dumps(one, separators=(",", ":")).encode() for one in (header, end)]
    data = joined([ends[0], *lines, ends[1]])
    report = install(opened, data)
    assert report.outcome == "imported", report.refused
    assert {"QuantumLeapt version 1", "RuntimeInput version 9"} <= set(report.findings.gaps)
    stored = log_of(opened, identity)
    assert [event.type for event in stored] == [type_ for type_, _, _ in events]
    assert json.loads(stored[1].payload or b"") == {"from": "here", "to": "there"}
    view = record_at(opened.store, opened.blobs, opened.projections, TENANT, identity, 4)
    assert view.record.blocked is not None
    assert view.record.blocked.sequence_number == 2
    again = exported(opened, identity)
    assert [json.loads(line) for line in lines_of(again)[1:]] == [
        json.loads(line) for line in lines_of(data)[1:]
    ]


def test_a_long_log_streams_both_ways(opened: Opened, shared: Opened, long_log: str) -> None:
    seen: list[tuple[int, int, int]] = []
    data = exported(shared, long_log)
    report = import_stream(
        opened.store,
        opened.blobs,
        TENANT,
        "long.jsonl",
        io.BytesIO(data),
        progress=lambda *row: seen.append(row),
    )
    assert report.trajectories[0].head == 3_000
    assert seen[-1][2] == 3_000
    assert [row[2] for row in seen] == sorted(row[2] for row in seen)


def test_an_export_of_nothing_is_refused(shared: Opened, long_log: str) -> None:
    with pytest.raises(InvalidInput):
        exported(shared, long_log, 3_000)
    with pytest.raises(NotFound):
        exported(shared, "tr_absent")


def test_an_export_stops_where_a_blob_is_gone(opened: Opened) -> None:
    identity = take(opened, fixture("interrupted")).trajectories[0].id
    (gone,) = opened.data.glob("blobs/sha256/*/*")
    gone.unlink()
    with pytest.raises(NotFound):
        exported(opened, identity)
