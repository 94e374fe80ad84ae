"""A newer importer reads the kept originals again; the old revision stays and is stood for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core.acts import Supersede, about
from ingest import mini_swe_agent, pipeline, swe_agent
from ingest.base import Report
from store.open import Opened
from store.ports import ActCommand
from tests.ingest.log_format import SayLog
from tests.ingest.support import TENANT, document, dumped, everything, fixture, log_of, take


def run_of(length: int) -> bytes:
    """A mini-swe-agent run as it stood after so many messages."""
    value = document(FIXTURE)
    value["messages"] = value["messages"][:length]
    value["info"].pop("exit_status", None)
    value["info"].pop("submission", None)
    return dumped(value)


FIXTURE = min(
    path.name.removesuffix(".traj.json") for path in fixture("x").parent.glob("*.traj.json")
)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def says(*texts: str, agent: str | None = None) -> bytes:
    extra = {"agent": agent} if agent else {}
    return b"".join(json.dumps({"say": text} | extra).encode() + b"\n" for text in texts)


def newer(monkeypatch: pytest.MonkeyPatch, say: SayLog | None = None) -> None:
    """The importers as a later version of this program has them."""
    monkeypatch.setattr(mini_swe_agent, "VERSION", 2)
    monkeypatch.setattr(mini_swe_agent.MiniSweAgent, "version", 2)
    monkeypatch.setattr(swe_agent, "VERSION", 2)
    monkeypatch.setattr(swe_agent.SweAgent, "version", 2)
    if say is not None:
        say.version = 2


def again(opened: Opened) -> list[Report]:
    found = pipeline.rederive(opened.store, opened.blobs, TENANT, actor="somebody")
    return [report for _, report in found]


def superseded_by(opened: Opened, trajectory_id: str) -> str | None:
    standing = about(opened.store.acts(TENANT, trajectory_id=trajectory_id))
    if standing.superseded is None:
        return None
    assert standing.superseded.actor in ("somebody", "importer")
    assert isinstance(standing.superseded.body, Supersede)
    return standing.superseded.body.by


def blob_files(opened: Opened) -> int:
    return opened.blobs.totals()[0]


def content(opened: Opened, trajectory_id: str) -> list[tuple[str, bytes | None, tuple[str, ...]]]:
    return [
        (one.type, one.payload_digest, tuple(ref.digest for ref in one.refs))
        for one in log_of(opened, trajectory_id)
    ]


def test_nothing_is_outdated_in_the_version_that_read_it(opened: Opened, tmp_path: Path) -> None:
    take(opened, written(tmp_path / "a.traj.json", run_of(6)))
    assert again(opened) == []


def test_a_document_is_derived_again_from_all_its_segments(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.traj.json", run_of(4))
    old = take(opened, path).trajectories[0].id
    take(opened, written(path, run_of(6)))
    before, blobs = log_of(opened, old), blob_files(opened)
    newer(monkeypatch)
    (report,) = again(opened)
    assert report.outcome == "imported", report.refused
    new = report.trajectories[0].id
    assert new != old
    assert superseded_by(opened, old) == new
    assert log_of(opened, old) == before
    assert content(opened, new) == content(opened, old)
    assert {one.event_id for one in log_of(opened, new)}.isdisjoint(one.event_id for one in before)
    assert blob_files(opened) == blobs
    assert again(opened) == []


def test_a_log_is_derived_again_segment_by_segment(
    opened: Opened, say: SayLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.say.jsonl", says("a", "b") + says("in", agent="x"))
    old = [one.id for one in take(opened, path).trajectories]
    path.write_bytes(path.read_bytes() + says("c"))
    take(opened, path)
    blobs = blob_files(opened)
    newer(monkeypatch, say)
    (report,) = again(opened)
    new = [one.id for one in report.trajectories]
    assert len(old) == len(new) == 2
    for before, after in zip(old, new, strict=True):
        assert superseded_by(opened, before) == after
        told = [one for one in content(opened, after) if one[0] != "TaskStarted"]
        assert told == [one for one in content(opened, before) if one[0] != "TaskStarted"]
    assert blob_files(opened) == blobs
    assert again(opened) == []


class PowerCut(BaseException):
    """Ends everything; no handler of faults may take it for one."""


def test_what_was_cut_off_is_completed(
    opened: Opened, say: SayLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.say.jsonl", says("a"))
    old = take(opened, path).trajectories[0].id
    for text in ("b", "c"):
        path.write_bytes(path.read_bytes() + says(text))
        take(opened, path)
    newer(monkeypatch, say)
    calls = 0
    append = pipeline._Importing.append_when_free

    def fails(self: pipeline._Importing, command: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise PowerCut("the power went")
        return append(self, command)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(pipeline._Importing, "append_when_free", fails)
        with pytest.raises(PowerCut, match="power"):
            again(opened)
    assert superseded_by(opened, old) is None
    (report,) = again(opened)
    new = report.trajectories[0].id
    assert superseded_by(opened, old) == new
    assert len(log_of(opened, new)) == len(log_of(opened, old))


def test_importing_a_grown_file_with_a_newer_importer_begins_with_what_was_known(
    opened: Opened, say: SayLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path / "a.say.jsonl", says("a"))
    run = written(tmp_path / "a.traj.json", run_of(4))
    olds = {path: take(opened, path).trajectories[0].id for path in (log, run)}
    newer(monkeypatch, say)
    log.write_bytes(says("a", "b"))
    run.write_bytes(run_of(6))
    for path, old in olds.items():
        report = take(opened, path)
        assert report.outcome == "appended", report.refused
        new = report.trajectories[0].id
        assert superseded_by(opened, old) == new
        assert take(opened, path).outcome == "unchanged"
    rows = [row for row, _ in opened.store.sources(TENANT)]
    assert sorted((row.version, len(row.segments)) for row in rows) == [
        (1, 1), (1, 1), (2, 2), (2, 2)
    ]  # fmt: skip


def test_what_was_withdrawn_is_left_alone(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.acts import Nothing

    old = take(opened, written(tmp_path / "a.traj.json", run_of(4))).trajectories[0].id
    opened.store.act(
        ActCommand(
            tenant=TENANT,
            kind="withdraw",
            body=Nothing(),
            actor="somebody",
            request_id="w1",
            request_digest=b"x" * 32,
            trajectory_id=old,
            reason="a mistake",
        )
    ).result()
    newer(monkeypatch)
    before = everything(opened)
    assert again(opened) == []
    assert everything(opened) == before


def test_originals_that_cannot_be_read_are_a_refusal(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(opened, written(tmp_path / "a.traj.json", run_of(4)))
    (row,) = [row for row, _ in opened.store.sources(TENANT)]
    name = row.segments[0].blob.removeprefix("sha256:")
    (found,) = [path for path in Path(opened.data).rglob("*") if path.name in (name, name[2:])]
    found.chmod(0o600)
    found.write_bytes(found.read_bytes().replace(b"role", b"ROLE"))
    newer(monkeypatch)
    (report,) = again(opened)
    assert report.outcome == "refused"
    assert report.refused[0].where == "the kept originals"


@pytest.mark.parametrize("kept", [1, 2])
def test_every_importer_of_documents_can_rebuild(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    makers: dict[str, Callable[[int], bytes]] = {"a.traj.json": lambda part: run_of(3 + part)}
    said = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "x"}}
    loglines = [said | {"uuid": f"u{n}"} for n in range(4)]
    step = {"observation": "o", "response": "r", "thought": "t", "state": {}, "execution_time": 1.0}
    steps = [step | {"action": f"ls {n}"} for n in range(4)]
    prompt = [{"role": "system", "content": "s", "agent": "main"}]
    makers["b.traj"] = lambda part: dumped(
        {"environment": "e", "trajectory": steps[: 1 + part], "history": prompt, "info": {}}
    )
    makers["export.json"] = lambda part: json.dumps({"loglines": loglines[: 1 + part]}).encode()
    for name, make in makers.items():
        path = tmp_path / name
        for part in range(1, kept + 1):
            report = take(opened, written(path, make(part)))
            assert report.outcome in ("imported", "appended"), report.refused
        old = report.trajectories[0].id
        (row,) = opened.store.sources_of(TENANT, old)
        assert len(row.segments) == kept
        importer = next(one for one in pipeline.registry.IMPORTERS if one.name == row.importer)
        originals = tuple(
            pipeline.Kept(opened.blobs.read(TENANT, one.blob), one.blob, one.items)
            for one in row.segments
        )
        built = importer.rebuild(row.state["source"], originals)
        assert [one.event.event_id for one in built.events] == [
            one.event_id for one in log_of(opened, old)
        ]
        assert built.known == len(built.events)
        assert built.segment is None
