"""Importing again: the same bytes, a grown file, a changed one, two at once."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.base import Report
from ingest.mini_swe_agent import MiniSweAgent
from store.open import Opened
from tests.ingest.support import (
    TENANT,
    document,
    dumped,
    everything,
    families,
    fixture,
    give,
    log_of,
    of_type,
    take,
    typed,
)


def shorter(value: dict[str, Any], messages: int) -> dict[str, Any]:
    """The file as it was when it held that many messages, before the run ended."""
    replies = [
        message for message in value["messages"][:messages] if message["role"] == "assistant"
    ]
    info = value["info"] | {
        "exit_status": "",
        "submission": "",
        "model_stats": {
            "api_calls": len(replies),
            "instance_cost": sum(message["extra"]["cost"] for message in replies),
        },
    }
    return value | {"info": info, "messages": value["messages"][:messages]}


def test_the_same_file_changes_nothing(opened: Opened) -> None:
    first = take(opened, fixture("repair-slugify"))
    before = everything(opened)
    again = take(opened, fixture("repair-slugify"))
    assert (first.outcome, again.outcome) == ("imported", "unchanged")
    assert everything(opened) == before
    assert again.line()["trajectories"] == first.line()["trajectories"]
    assert again.findings.tokens == first.findings.tokens


def test_the_same_bytes_under_another_name_change_nothing(opened: Opened, tmp_path: Path) -> None:
    first = take(opened, fixture("repair-slugify"))
    copy = tmp_path / "copy.json"
    shutil.copy(fixture("repair-slugify"), copy)
    assert take(opened, copy).outcome == "unchanged"
    assert give(opened, copy.read_bytes(), "third.json").outcome == "unchanged"
    assert [row[0] for row in everything(opened)] == [first.trajectories[0].id]


@pytest.mark.parametrize("cuts", [(4,), (3, 5, 6, 11), tuple(range(2, 22))])
def test_a_file_that_grew_gives_the_log_of_a_file_read_at_once(
    opened: Opened, other: Opened, tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    heads = []
    for messages in cuts:
        path.write_bytes(dumped(shorter(value, messages)))
        report = take(opened, path)
        assert report.ok, report.refused
        heads.append(report.trajectories[0].head)
    path.write_bytes(dumped(value))
    report = take(opened, path)
    assert report.outcome == "appended"
    assert heads == sorted(heads)
    identity = report.trajectories[0].id
    at_once = take(other, path).trajectories[0].id
    assert identity == at_once

    def story(store: Opened) -> list[tuple[Any, ...]]:
        """The log without the places of the originals, which differ with the readings."""
        told = []
        for event in log_of(store, identity):
            payload = msgspec.to_builtins(typed(store, event))
            for message in payload.get("messages", ()):
                for name in ("blob", "start", "end"):
                    message.pop(name)
            told.append((event.event_id, event.type, payload, event.step, event.operation_id))
        return told

    assert story(opened) == story(other)
    assert take(opened, path).outcome == "unchanged"
    (source,) = opened.store.sources_of(TENANT, identity)
    assert sum(part.items for part in source.segments) == len(value["messages"])


def test_segments_keep_what_each_reading_added_and_no_more(opened: Opened, tmp_path: Path) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    for messages in (4, 12, 22):
        path.write_bytes(dumped(shorter(value, messages) if messages < 22 else value))
        identity = take(opened, path).trajectories[0].id
    (source,) = opened.store.sources_of(TENANT, identity)
    assert [part.items for part in source.segments] == [4, 8, 10]
    kept = [json.loads(opened.blobs.read(TENANT, part.blob)) for part in source.segments]
    assert [message for part in kept for message in part["messages"]] == value["messages"]


def test_a_changed_message_is_a_conflict_that_names_it(opened: Opened, tmp_path: Path) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    path.write_bytes(dumped(value))
    identity = take(opened, path).trajectories[0].id
    before = everything(opened)
    value["messages"][5]["content"] = "something else"
    path.write_bytes(dumped(value))
    report = take(opened, path)
    assert report.outcome == "conflict"
    assert report.refused[0].where == "message 5"
    assert "name of its own" in report.refused[0].why
    assert everything(opened) == before
    assert opened.store.head(TENANT, identity).incidents == 1
    (row,) = opened.store.ledger(TENANT, trajectory_id=identity)
    assert (row.kind, row.code) == ("incident", "integrity_conflict")


def test_a_changed_layout_is_a_conflict_that_says_so(opened: Opened, tmp_path: Path) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    path.write_bytes(dumped(value))
    take(opened, path)
    path.write_text(json.dumps(value))
    report = take(opened, path)
    assert report.outcome == "conflict"
    assert "layout only" in report.refused[0].why


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda info: info.update(exit_status="LimitsExceeded"), "info.exit_status"),
        (lambda info: info["model_stats"].update(api_calls=3), "info.model_stats.api_calls"),
        (
            lambda info: info["config"]["model"].update(model_name="another"),
            "info.config.model.model_name",
        ),
        (lambda info: info.update(mini_version="9"), "info.mini_version"),
    ],
)
def test_what_a_run_says_of_itself_does_not_change_afterwards(
    opened: Opened, tmp_path: Path, change: Any, where: str
) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    path.write_bytes(dumped(value))
    take(opened, path)
    before = everything(opened)
    change(value["info"])
    path.write_bytes(dumped(value))
    report = take(opened, path)
    assert (report.outcome, report.refused[0].where) == ("conflict", where)
    assert everything(opened) == before


def test_a_setting_a_person_changed_while_it_ran_is_an_input(
    opened: Opened, tmp_path: Path
) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    path.write_bytes(dumped(shorter(value, 6)))
    take(opened, path)
    value["info"]["config"]["agent"]["cost_limit"] = 2.5
    path.write_bytes(dumped(value))
    report = take(opened, path)
    assert report.outcome == "appended"
    (given,) = of_type(opened, report.trajectories[0].id, "RuntimeInput")
    assert given.values == {"config.agent.cost_limit": {"from": 1.0, "to": 2.5}}
    assert take(opened, path).outcome == "unchanged"


def test_an_end_that_came_later_is_appended(opened: Opened, tmp_path: Path) -> None:
    value, path = document("v1-layout-by-hand"), tmp_path / "run.traj.json"
    ended = value["info"]
    value["info"] = ended | {"exit_status": None, "submission": None}
    path.write_bytes(dumped(value))
    identity = take(opened, path).trajectories[0].id
    assert families(opened, identity)["ControlChanged"] == 0
    value["info"] = ended
    path.write_bytes(dumped(value))
    assert take(opened, path).outcome == "appended"
    assert families(opened, identity)["ControlChanged"] == 1


def test_an_earlier_state_of_a_known_run_changes_nothing(opened: Opened, tmp_path: Path) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    path.write_bytes(dumped(value))
    take(opened, path)
    before = everything(opened)
    path.write_bytes(dumped(shorter(value, 8)))
    assert take(opened, path).outcome == "unchanged"
    assert everything(opened) == before


def test_another_name_is_another_trajectory(opened: Opened, tmp_path: Path) -> None:
    value, path = document("repair-slugify"), tmp_path / "last.traj.json"
    path.write_bytes(dumped(value))
    first = take(opened, path)
    value["messages"][1]["content"] = "another task"
    path.write_bytes(dumped(value))
    assert take(opened, path).outcome == "conflict"
    second = take(opened, path, as_name="second run")
    assert second.outcome == "imported"
    assert first.trajectories[0].id != second.trajectories[0].id


def test_two_uploads_of_one_name_with_different_tasks_stay_apart(opened: Opened) -> None:
    first = give(opened, fixture("repair-slugify").read_bytes(), "traj.json")
    second = give(opened, fixture("format-error").read_bytes(), "traj.json")
    assert {first.outcome, second.outcome} == {"imported"}
    assert first.trajectories[0].id != second.trajectories[0].id
    grown = document("repair-slugify")
    grown["messages"].append({"role": "user", "content": "more"})
    third = give(opened, dumped(grown), "traj.json")
    assert third.outcome == "appended"
    assert third.trajectories[0].id == first.trajectories[0].id


def test_two_imports_at_once_give_one_log(opened: Opened, tmp_path: Path) -> None:
    value, path = document("repair-slugify"), tmp_path / "run.traj.json"
    for messages in (8, 22):
        path.write_bytes(dumped(shorter(value, messages) if messages < 22 else value))
        barrier, reports = threading.Barrier(4), []

        def run(barrier: threading.Barrier = barrier, reports: list[Report] = reports) -> None:
            barrier.wait()
            reports.append(take(opened, path))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outcomes = sorted(report.outcome for report in reports)
        assert set(outcomes) <= {"imported", "appended", "unchanged"}
        assert sum(report.trajectories[0].appended for report in reports) > 0
        assert len({report.trajectories[0].head for report in reports}) == 1
    ((identity, head, _),) = everything(opened)
    assert head == 52
    assert not [
        finding for _, finding in opened.store.verify(TENANT, identity) if finding is not None
    ]


def test_what_is_kept_still_gives_the_stored_events() -> None:
    """The mapping is versioned: these ids change only with the importer's version."""
    assert (MiniSweAgent.name, MiniSweAgent.version) == ("mini-swe-agent", 1)
