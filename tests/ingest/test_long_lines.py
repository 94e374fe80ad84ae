"""A line over a limit costs that line: its place says so, and the log goes on before and after."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from core.limits import LOG_OBJECTS_MAX
from ingest import lines
from ingest.claude_code import ClaudeCode
from ingest.logs import Runs, left_out_of
from ingest.pipeline import rederive
from store.audit import audit
from store.open import Opened
from tests.ingest.log_format import SayLog
from tests.ingest.support import TENANT, everything, log_of, of_type, take
from tests.ingest.test_logs import grow

pytestmark = pytest.mark.usefixtures("say")
BOUND = 400
LONG = b'{"say":"' + b"x" * 1000 + b'"}\n'


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that a test reaches."""
    monkeypatch.setattr(lines, "IMPORT_VALUE_BYTES_MAX", BOUND)
    monkeypatch.setattr(lines, "LOG_SEGMENT_BYTES_MAX", 100)
    monkeypatch.setattr(lines, "_LOOK_BYTES", 100)
    monkeypatch.setattr(lines, "_CHUNK_BYTES", 64)


def said(*words: str) -> bytes:
    return b"".join(json.dumps({"say": word}).encode() + b"\n" for word in words)


def findings(opened: Opened) -> list[Any]:
    return [found for found in audit(opened) if not isinstance(found, str)]


STORIES = {
    "in the middle": (said("1", "2") + LONG + said("4"), 3, 1),
    "first": (LONG + said("2", "3"), 1, 1),
    "last": (said("1") + LONG, 2, 1),
    "two in a row": (said("1") + LONG + LONG.replace(b"x", b"y") + said("4"), 2, 2),
    "after a blank": (said("1") + b"\n\n" + LONG + said("5"), 4, 1),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_log_goes_on_after_a_line_that_is_too_long(
    opened: Opened, other: Opened, tmp_path: Path, story: str
) -> None:
    data, line, number = STORIES[story]
    path = tmp_path / "a.say.jsonl"
    path.write_bytes(data)
    report = take(opened, path)
    assert report.outcome == "imported"
    assert [row.line for row in report.refused] == [line + n for n in range(number)]
    first = report.refused[0]
    start = sum(len(one) + 1 for one in data.split(b"\n")[: line - 1])
    digest = "sha256:" + hashlib.sha256(LONG).hexdigest()
    assert first.why == (
        f"it is {len(LONG):,} bytes long, and at most {BOUND} (64 MiB) of one line are read: its "
        f"bytes ({start} up to {start + len(LONG)} of the source, {digest}) are not kept"
    )
    (made,) = report.trajectories
    (unparsed, *more) = of_type(opened, made.id, "Unparsed")
    assert (unparsed.where, unparsed.why, len(more)) == (f"line {line}", first.why, number - 1)
    assert findings(opened) == []
    # Nothing of the line is kept.
    ((source, _),) = opened.store.sources(TENANT)
    kept = b"".join(opened.blobs.read(TENANT, part.blob) for part in source.segments)
    assert b"xxxxxxxx" not in kept and digest.encode() in kept
    assert sum(part.length for part in source.segments) == len(data)
    # Known again: by its path, by another name, and derived anew.
    assert take(opened, path).outcome == "unchanged"
    copy = tmp_path / "copy.say.jsonl"
    copy.write_bytes(data)
    before = everything(opened)
    assert take(opened, copy).outcome == "unchanged"
    assert everything(opened) == before
    # Cut anywhere, it becomes the same.
    grown = tmp_path / "grown.say.jsonl"
    runs = Runs()
    for cut in (*range(7, len(data), 97), len(data)):
        grown.write_bytes(data[:cut])
        report = grow(other, grown, runs if cut % 2 else Runs())
        assert report.ok or report.refused[0].reason == "no_events", report.refused
    assert len(log_of(other, report.trajectories[0].id)) == len(log_of(opened, made.id))
    assert [one.why for one in of_type(other, report.trajectories[0].id, "Unparsed")] == [
        one.why for one in of_type(opened, made.id, "Unparsed")
    ]
    assert findings(other) == []


def test_it_grows_on_and_a_changed_byte_in_the_line_is_a_conflict(
    opened: Opened, tmp_path: Path
) -> None:
    path = tmp_path / "a.say.jsonl"
    data = said("1") + LONG + said("3")
    path.write_bytes(data)
    runs = Runs()
    assert grow(opened, path, runs).outcome == "imported"
    path.write_bytes(data + said("4"))
    assert grow(opened, path, runs).outcome == "appended"
    path.write_bytes(data + said("4", "5"))
    assert take(opened, path).outcome == "appended"
    for at in (30, 900):
        changed = bytearray(data + said("4", "5"))
        changed[at] = ord("z")
        path.write_bytes(changed)
        before = everything(opened)
        report = take(opened, path)
        assert report.outcome == "conflict"
        assert report.refused[0].where.startswith("line 2 (byte ")
        assert everything(opened) == before
    path.write_bytes((data + said("4", "5"))[:500])
    short = take(opened, path)
    assert short.outcome == "unchanged"
    assert any("shorter than what is known" in note for note in short.findings.notes)


def test_a_last_line_that_is_too_long_and_has_no_end_waits(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "a.say.jsonl"
    path.write_bytes(said("1") + LONG[:-1])
    report = take(opened, path)
    assert (report.outcome, report.waiting_lines) == ("imported", 1)
    assert report.waiting_bytes == len(LONG) - 1
    path.write_bytes(said("1") + LONG + said("3"))
    assert take(opened, path).refused[0].line == 2


def test_a_newer_importer_derives_it_again(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.say.jsonl"
    path.write_bytes(said("1") + LONG + said("3"))
    take(opened, path)
    monkeypatch.setattr(SayLog, "version", 2)
    ((_, report),) = rederive(opened.store, opened.blobs, TENANT, actor="test")
    assert report.outcome == "imported", report.refused
    (made,) = report.trajectories
    assert [one.where for one in of_type(opened, made.id, "Unparsed")] == ["line 2"]
    rows = [row for row, _ in opened.store.sources(TENANT)]
    assert [list(left_out_of(row)) for row in rows] == [[1], [1]]
    assert take(opened, path).outcome == "unchanged"
    assert findings(opened) == []


def _blocks(number: int, start: int = 0) -> list[dict[str, str]]:
    return [{"type": "text", "text": f"t{start + n}"} for n in range(number)]


def _claude(uuid: str, parent: str | None, content: object) -> bytes:
    line = {
        "type": "user",
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "isSidechain": False,
        "timestamp": "2025-11-19T10:00:00.000Z",
        "cwd": "/x",
        "version": "2.0.46",
        "message": {"role": "user", "content": content},
    }
    return json.dumps(line).encode() + b"\n"


def test_a_line_of_too_many_objects_is_kept_and_no_other_lost(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        _claude("1", None, "before")
        + _claude("2", "1", _blocks(LOG_OBJECTS_MAX + 1))
        + _claude("3", "2", "after")
    )
    report = take(opened, path)
    assert report.outcome == "imported", report.refused
    (row,) = report.refused
    assert (row.line, f"holds {LOG_OBJECTS_MAX + 1:,} objects in lists" in row.why) == (2, True)
    (made,) = report.trajectories
    (unparsed,) = of_type(opened, made.id, "Unparsed")
    assert unparsed.where == "line 2"
    texts = [one.text for one in of_type(opened, made.id, "RuntimeInput")]
    assert "before" in texts and "after" in texts
    ((source, _),) = opened.store.sources(TENANT)
    assert sum(part.length for part in source.segments) == path.stat().st_size
    assert take(opened, path).outcome == "unchanged"


def test_lines_that_hold_many_objects_together_are_cut_into_segments(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(lines, "LOG_OBJECTS_MAX", 50)
    path = tmp_path / "a.jsonl"
    content = [_claude(f"{n}", f"{n - 1}" if n else None, _blocks(20)) for n in range(9)]
    path.write_bytes(b"".join(content))
    report = take(opened, path)
    assert (report.outcome, report.refused) == ("imported", [])
    ((source, _),) = opened.store.sources(TENANT)
    assert [part.items for part in source.segments] == [2, 2, 2, 2, 1]
    assert take(opened, path).outcome == "unchanged"
    assert ClaudeCode.name == source.importer
