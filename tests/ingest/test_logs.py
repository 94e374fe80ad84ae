"""Log formats: segments, growth, conflicts, bad lines, crashes between appends, two readers."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.limits import MIB
from ingest import lines
from ingest.base import Report
from ingest.follow import How
from ingest.logs import Runs
from ingest.pipeline import Following, import_opened, import_path, import_stream
from store.audit import audit
from store.open import Opened
from store.ports import AppendCommand
from tests.ingest.log_format import SayLog
from tests.ingest.support import TENANT, everything, families, log_of, of_type, take, typed

pytestmark = pytest.mark.usefixtures("say")

STORY = [
    {"say": "begin"},
    {"do": "ls", "id": "call-1", "with": {"path": "."}},
    {"do": "grep", "id": "call-a1", "agent": "scout"},
    {"done": "call-1", "out": "a\nb"},
    {"quiet": True},
    {"done": "call-a1", "out": "found", "agent": "scout"},
    {"say": "ünïcode \U0001f600 and </script>"},
    {"do": "rm", "id": "call-2"},
    {"say": "from the other", "agent": "writer"},
]


def encoded(story: list[Any]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in story)


def facts(opened: Opened) -> dict[str, list[Any]]:
    """What the logs say, without the places of the originals, which differ with the cuts."""
    return {
        name: [
            (event.event_id, event.type, msgspec.to_builtins(typed(opened, event)))
            for event in log_of(opened, name)
        ]
        for name, _, _ in everything(opened)
    }


def originals(opened: Opened) -> bytes:
    """The kept originals of the only source, in order."""
    ((source, _),) = opened.store.sources(TENANT)
    return b"".join(opened.blobs.read(TENANT, part.blob) for part in source.segments)


def findings(opened: Opened) -> list[Any]:
    return [found for found in audit(opened) if not isinstance(found, str)]


def grow(
    opened: Opened, path: Path, runs: Runs, *, at_work: bool = False, edges: bool = False
) -> Report:
    """One reading by a follower."""
    from ingest.files import OpenedFile, walk

    (found,) = walk(path)
    assert isinstance(found, OpenedFile)
    with found.file:
        how = Following(at_work=at_work, edges=edges)
        return import_opened(opened.store, opened.blobs, TENANT, found, how, runs=runs)


# --- growth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_log_that_grew_holds_the_facts_of_one_read_at_once(
    opened: Opened, other: Opened, tmp_path: Path, seed: int
) -> None:
    data, path = encoded(STORY), tmp_path / "run.say.jsonl"
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(data)), chance.randint(1, 12)))
    runs = Runs()
    for number, cut in enumerate(cuts):
        path.write_bytes(data[:cut])
        report = grow(opened, path, runs) if number % 2 else take(opened, path)
        assert report.ok or report.refused[0].reason == "no_events", report.refused
        assert report.waiting_bytes == cut - (data.rfind(b"\n", 0, cut) + 1) or (
            report.waiting_bytes == 0  # The line is whole but for its end.
        )
    path.write_bytes(data)
    assert take(opened, path).outcome in ("appended", "unchanged", "imported")
    at_once = take(other, path)
    assert at_once.outcome == "imported"
    assert facts(opened) == facts(other)
    assert originals(opened) == originals(other) == data
    assert take(opened, path).outcome == take(other, path).outcome == "unchanged"
    assert not findings(opened)
    assert len(at_once.trajectories) == 3


def test_a_segment_is_kept_for_what_each_reading_added(opened: Opened, tmp_path: Path) -> None:
    data, path = encoded(STORY), tmp_path / "run.say.jsonl"
    for lines_read in (2, 3, 9):
        path.write_bytes(encoded(STORY[:lines_read]))
        take(opened, path)
    ((source, _),) = opened.store.sources(TENANT)
    assert [part.items for part in source.segments] == [2, 1, 6]
    assert source.reading_length == len(data)


def test_segments_are_cut_at_whole_lines_and_give_the_same(
    opened: Opened, other: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(encoded(STORY * 20))
    take(other, path)
    monkeypatch.setattr(lines, "LOG_SEGMENT_LINES_MAX", 7)
    monkeypatch.setattr(lines, "LOG_SEGMENT_BYTES_MAX", 300)
    take(opened, path)
    ((source, _),) = opened.store.sources(TENANT)
    assert len(source.segments) > 20
    assert all(part.items <= 7 for part in source.segments)
    assert facts(opened) == facts(other)
    assert originals(opened) == path.read_bytes()
    assert take(opened, path).outcome == "unchanged"


def test_a_shorter_file_that_is_equal_so_far_changes_nothing_and_says_so(
    opened: Opened, tmp_path: Path
) -> None:
    data, path = encoded(STORY), tmp_path / "run.say.jsonl"
    path.write_bytes(data)
    take(opened, path)
    before = everything(opened)
    for cut in (len(data) - 3, len(data) // 2, 20):
        path.write_bytes(data[:cut])
        report = take(opened, path)
        assert report.outcome == "unchanged"
        assert any("shorter than what is known" in note for note in report.findings.notes)
    assert everything(opened) == before


def test_a_copy_under_another_name_changes_nothing(opened: Opened, tmp_path: Path) -> None:
    data = encoded(STORY)
    (tmp_path / "a.say.jsonl").write_bytes(data)
    (tmp_path / "b.say.jsonl").write_bytes(data)
    first = take(opened, tmp_path / "a.say.jsonl")
    again = take(opened, tmp_path / "b.say.jsonl")
    assert again.outcome == "unchanged"
    assert again.trajectories[0].id == first.trajectories[0].id


def test_a_file_that_names_its_session_is_known_wherever_it_lies(
    opened: Opened, tmp_path: Path
) -> None:
    data = encoded(STORY)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    path = tmp_path / "one" / "session-7f.say.jsonl"
    path.write_bytes(data[: data.find(b"\n") + 1])
    first = take(opened, path)
    moved = tmp_path / "two" / "session-7f.say.jsonl"
    moved.write_bytes(data)
    second = take(opened, moved)
    assert (first.outcome, second.outcome) == ("imported", "appended")
    assert first.source == second.source == "session:7f"
    sent = import_stream(opened.store, opened.blobs, TENANT, moved.name, io.BytesIO(data))
    assert sent.outcome == "unchanged"
    named = take(opened, moved, as_name="mine")
    assert named.outcome == "unchanged", "the same bytes are known already"
    moved.write_bytes(data + b'{"say": "more"}\n')
    named = take(opened, moved, as_name="mine")
    assert (named.outcome, named.source) == ("imported", "mine")


def test_two_uploads_of_one_name_stay_apart(opened: Opened) -> None:
    reports = [
        import_stream(opened.store, opened.blobs, TENANT, "x.say.jsonl", io.BytesIO(data))
        for data in (b'{"say":"a"}\n', b'{"say":"b"}\n', b'{"say":"a"}\n{"say":"c"}\n')
    ]
    assert [report.outcome for report in reports] == ["imported", "imported", "appended"]
    assert reports[0].trajectories[0].id == reports[2].trajectories[0].id


# --- what a file may hold --------------------------------------------------------------------


def test_a_bad_middle_line_is_kept_named_and_stops_nothing(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    bad = [b"no json", b'{"say": NaN}', b'{"a":1,"a":2}', b"[1]", b"\x00" * 20, b'{"say":"\xff"}']
    path.write_bytes(b'{"say":"1"}\n' + b"\n".join(bad) + b"\n" + b"{" * 400 + b'\n{"say":"2"}\n')
    report = take(opened, path)
    assert report.outcome == "imported"
    assert [item.line for item in report.refused] == [2, 3, 4, 5, 6, 7, 8]
    assert "column 1" in report.refused[0].why
    name = report.trajectories[0].id
    assert families(opened, name)["Unparsed"] == 7
    unparsed = [event for event in log_of(opened, name) if event.type == "Unparsed"]
    (ref,) = unparsed[0].refs
    assert opened.blobs.read_range(TENANT, ref.digest, ref.start or 0, ref.end or 0) == b"no json"


def test_many_bad_lines_are_counted_and_few_named(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(b'{"say":"1"}\n' + b"bad\n" * 500)
    report = take(opened, path)
    assert families(opened, report.trajectories[0].id)["Unparsed"] == 500
    assert len(report.refused) == 51
    assert report.refused[-1].why.startswith("450 more lines")


def test_line_ends_marks_blanks_and_halves(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"say":"one"}\r\n\r\n  \n{"say":"half \\ud83d"}\n'
        b'{"say":"big","n":123456789012345678901}\n{"say":"last"}'
    )
    report = take(opened, path)
    assert not report.refused
    assert report.items == 4
    name = report.trajectories[0].id
    said = [payload.text for payload in of_type(opened, name, "RuntimeInput")]
    assert said == ["one", "half \ufffd", "big", "last"]
    assert any("surrogate" in note for note in report.findings.notes)
    with path.open("ab") as file:
        file.write(b'\n{"say":"next"}\n')
    assert take(opened, path).outcome == "appended"
    assert originals(opened) == path.read_bytes()
    (event,) = [event for event in log_of(opened, name) if typed(opened, event) == _said("last")]
    (ref,) = event.refs
    assert opened.blobs.read_range(TENANT, ref.digest, ref.start or 0, ref.end or 0) == (
        b'{"say":"last"}'
    )


def _said(text: str) -> Any:
    from core.events.context import RuntimeInput

    return RuntimeInput(kind="message", text=text)


def test_an_unfinished_last_line_waits_and_is_reported(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(b'{"say":"one"}\n{"say":"tw')
    report = take(opened, path)
    assert (report.outcome, report.waiting_lines, report.waiting_bytes) == ("imported", 1, 10)
    assert not report.refused
    assert report.bytes_read == len(b'{"say":"one"}\n')
    assert report.line()["waiting"] == {"lines": 1, "bytes": 10}
    again = take(opened, path)
    assert (again.outcome, again.waiting_bytes, again.bytes_read) == ("unchanged", 10, 14)
    path.write_bytes(b'{"say":"one"}\n{"say":"two"}\n')
    report = take(opened, path)
    assert (report.outcome, report.waiting_lines) == ("appended", 0)
    assert report.bytes_read == path.stat().st_size
    assert "waiting" not in report.line()
    assert families(opened, report.trajectories[0].id)["Unparsed"] == 0


def test_a_file_that_says_nothing_yet_leaves_nothing(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(b'{"quiet":true}\n{"say":"tw')
    report = take(opened, path)
    assert (report.outcome, report.refused[0].reason) == ("refused", "no_events")
    assert everything(opened) == []
    assert not findings(opened)
    path.write_bytes(b'{"quiet":true}\n{"say":"two"}\n')
    assert take(opened, path).outcome == "imported"
    assert originals(opened) == path.read_bytes()


def test_a_packed_log_gets_a_hint(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(b"\x1f\x8b\x08\x00" + b"x" * 50)
    report = take(opened, path)
    assert report.outcome == "refused"
    assert "look like gzip" in report.refused[0].why


def test_lines_that_say_nothing_go_in_with_the_next_event(opened: Opened, tmp_path: Path) -> None:
    path, runs = tmp_path / "run.say.jsonl", Runs()
    data = b'{"say":"one"}\n{"quiet":1}\n{"quiet":2}\n'
    for length in (14, 26, 38):
        path.write_bytes(data[:length])
        report = grow(opened, path, runs, edges=True)
        assert (report.ok, report.known_bytes) == (True, length)
    ((source, _),) = opened.store.sources(TENANT)
    assert source.reading_length == 14
    path.write_bytes(data[:25] + b"\n" + b'{"quiet":3}\n{"say":"two"}\n')
    assert grow(opened, path, runs, edges=True).outcome == "appended"
    assert originals(opened) == path.read_bytes(), "what was never recorded is read again"
    assert not findings(opened)


def test_a_reply_in_parts_waits_while_its_writer_is_at_work(opened: Opened, tmp_path: Path) -> None:
    path, runs = tmp_path / "run.say.jsonl", Runs()
    path.write_bytes(b'{"say":"one"}\n{"say":"a","part":"r1"}\n{"say":"b","part":"r1"}\n')
    report = grow(opened, path, runs, at_work=True)
    assert (report.outcome, report.waiting_lines, report.waiting_bytes) == ("imported", 2, 0)
    assert report.trajectories[0].events == 2
    report = grow(opened, path, runs, at_work=True)
    assert report.outcome == "unchanged"
    report = grow(opened, path, runs)
    assert (report.outcome, report.waiting_lines) == ("appended", 0)
    assert originals(opened) == path.read_bytes()


def test_what_lies_beside_a_log_is_taken_as_it_was_at_first(
    opened: Opened, other: Opened, tmp_path: Path
) -> None:
    path, beside = tmp_path / "run.say.jsonl", tmp_path / "run.say.about.txt"
    path.write_bytes(b'{"say":"one"}\n')
    beside.write_text("scout")
    (report,) = import_path(opened.store, opened.blobs, TENANT, path)
    name = report.trajectories[0].id
    assert of_type(opened, name, "TaskStarted")[0].task == "scout"
    beside.write_text("another")
    path.write_bytes(b'{"say":"one"}\n{"say":"two"}\n')
    assert take(opened, path).outcome == "appended"
    # Sent by somebody who sees the file, and without what lies beside it: both continue.
    sent = import_stream(
        other.store,
        other.blobs,
        TENANT,
        "run.say.jsonl",
        io.BytesIO(b'{"say":"one"}\n'),
        path=str(path),
        beside={".about.txt": b"scout"}.get,
    )
    assert sent.trajectories[0].id == name
    assert of_type(other, name, "TaskStarted")[0].task == "scout"
    assert take(other, path).outcome == "appended"
    assert facts(opened) == facts(other)


def test_secrets_are_hidden_before_anything_is_kept(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    path.write_bytes(encoded([{"say": f"token {secret} here"}, {"say": "next"}]))
    report = take(opened, path)
    assert sum(report.redacted.places.values()) == 1
    kept = originals(opened)
    assert secret.encode() not in kept
    assert len(kept) == path.stat().st_size
    assert take(opened, path).outcome == "unchanged"
    with path.open("ab") as file:
        file.write(encoded([{"say": f"again {secret}"}]))
    report = take(opened, path)
    assert report.outcome == "appended"
    assert sum(report.redacted.places.values()) == 2
    assert secret.encode() not in originals(opened)
    path.write_bytes(path.read_bytes().replace(b"next", b"text"))
    assert take(opened, path).outcome == "conflict"


# --- conflicts -------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [2, 40, 200, -6])
def test_a_changed_byte_in_the_known_range_is_a_conflict_and_appends_nothing(
    opened: Opened, tmp_path: Path, at: int
) -> None:
    data, path = encoded(STORY), tmp_path / "run.say.jsonl"
    for count in (3, 6, 9):
        path.write_bytes(encoded(STORY[:count]))
        take(opened, path)
    before = everything(opened)
    ((source, _),) = opened.store.sources(TENANT)
    changed = bytearray(data)
    changed[at] ^= 1
    path.write_bytes(bytes(changed) + b'{"say":"more"}\n')
    report = take(opened, path)
    assert report.outcome == "conflict"
    line = data.count(b"\n", 0, at % len(data)) + 1
    assert report.refused[0].where.startswith(f"line {line} (byte {at % len(data)}")
    assert everything(opened) == before
    assert opened.store.sources(TENANT)[0][0] == source
    incidents = [row for row in opened.store.ledger(TENANT) if row.kind == "incident"]
    assert [row.code for row in incidents] == ["integrity_conflict"]
    path.write_bytes(data + b'{"say":"more"}\n')
    assert take(opened, path).outcome == "appended", "the next reading of the true file goes on"
    assert not findings(opened)


def test_a_follower_finds_a_changed_byte_at_the_ends_at_once_and_elsewhere_when_it_compares_all(
    opened: Opened, tmp_path: Path
) -> None:
    path, runs = tmp_path / "run.say.jsonl", Runs()
    for count in range(1, 10):
        path.write_bytes(encoded(STORY[:count]))
        grow(opened, path, runs)
    data = path.read_bytes()
    middle = data.find(b"scout")
    changed = data.replace(b"scout", b"shout", 1)
    path.write_bytes(changed)
    assert grow(opened, path, runs, edges=True).outcome == "unchanged"
    assert grow(opened, path, runs, edges=False).outcome == "conflict"
    assert middle > 0
    path.write_bytes(data.replace(b"from the other", b"from the 0ther", 1))
    assert grow(opened, path, runs, edges=True).outcome == "conflict"


# --- crashes and races -----------------------------------------------------------------------


class Dying:
    """A store whose process dies before its append number `left`."""

    def __init__(self, store: Any, left: int) -> None:
        self._store = store
        self._left = left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, command: AppendCommand) -> Any:
        if self._left == 0:
            raise SystemExit("killed")
        self._left -= 1
        return self._store.append(command)


@pytest.mark.parametrize("left", range(6))
def test_a_death_between_two_appends_leaves_whole_segments_and_is_made_good(
    opened: Opened, other: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    monkeypatch.setattr(lines, "LOG_SEGMENT_LINES_MAX", 4)
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(encoded(STORY * 2))
    dying: Any = Dying(opened.store, left)
    with pytest.raises(SystemExit):
        list(import_path(dying, opened.blobs, TENANT, path))
    for source, _ in opened.store.sources(TENANT):
        assert sum(part.length for part in source.segments) == source.reading_length
    assert not findings(opened)
    path.write_bytes(encoded(STORY * 3))  # It grew meanwhile: other cuts than before.
    take(opened, path)
    take(other, path)
    assert facts(opened) == facts(other)
    assert opened.store.ledger(TENANT) == []
    assert not findings(opened)


class Gated:
    """A store whose first append waits until it is let through."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.arrived, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, command: AppendCommand) -> Any:
        self.arrived.set()
        assert self.go.wait(20)
        return self._store.append(command)


def _race(
    opened: Opened, held: Callable[[Any], Report], meanwhile: Callable[[], Report]
) -> tuple[Report, Report]:
    """`held` decides, then `meanwhile` does everything, then `held` appends."""
    gated = Gated(opened.store)
    found: list[Report] = []
    thread = threading.Thread(target=lambda: found.append(held(gated)))
    thread.start()
    assert gated.arrived.wait(20)
    second = meanwhile()
    gated.go.set()
    thread.join(20)
    (first,) = found
    return first, second


@pytest.mark.parametrize("known", [0, 4])
@pytest.mark.parametrize("saw", [(6, 9), (9, 6), (9, 9), (6, 4)])
def test_two_readers_of_one_growing_file_give_one_log(
    opened: Opened, other: Opened, tmp_path: Path, known: int, saw: tuple[int, int]
) -> None:
    """R38: the one that decided first appends last, whichever saw more of the file."""
    slow, quick = saw
    path = tmp_path / "session-r38.say.jsonl"
    if known:
        path.write_bytes(encoded(STORY[:known]))
        take(opened, path)
    (tmp_path / "slow").mkdir()
    slow_path = tmp_path / "slow" / path.name
    slow_path.write_bytes(encoded(STORY[:slow]))
    path.write_bytes(encoded(STORY[:quick]))
    first, second = _race(
        opened,
        lambda store: next(import_path(store, opened.blobs, TENANT, slow_path)),
        lambda: take(opened, path),
    )
    assert first.ok, first.refused
    assert second.ok, second.refused
    path.write_bytes(encoded(STORY[: max(known, slow, quick)]))
    take(other, path)
    assert facts(opened) == facts(other)
    assert [row for row in opened.store.ledger(TENANT) if row.kind == "incident"] == []
    assert not findings(opened)


def test_a_run_kept_for_a_follower_is_not_used_after_another_reader_was_there(
    opened: Opened, other: Opened, tmp_path: Path
) -> None:
    """R38: follow + import, in turns."""
    path, runs = tmp_path / "run.say.jsonl", Runs()
    for count in range(1, len(STORY) + 1):
        path.write_bytes(encoded(STORY[:count]))
        report = take(opened, path) if count % 3 == 0 else grow(opened, path, runs, edges=True)
        assert report.ok
    take(other, path)
    assert facts(opened) == facts(other)
    assert not findings(opened)


def test_many_readers_at_once_give_one_log(opened: Opened, other: Opened, tmp_path: Path) -> None:
    path = tmp_path / "run.say.jsonl"
    path.write_bytes(encoded(STORY * 3))
    barrier, reports = threading.Barrier(4), []

    def run() -> None:
        barrier.wait()
        reports.append(take(opened, path))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(report.ok for report in reports), [report.refused for report in reports]
    take(other, path)
    assert facts(opened) == facts(other)
    assert opened.store.ledger(TENANT) == []


# --- pieces ----------------------------------------------------------------------------------


def _piece(opened: Opened, data: bytes, offset: int, source: str | None) -> Report:
    return import_stream(
        opened.store,
        opened.blobs,
        TENANT,
        "run.say.jsonl",
        io.BytesIO(data[offset:]),
        identity=source,
        path="/there/run.say.jsonl",
        following=Following(source=source, at_work=False),
        offset=offset,
    )


def test_a_source_that_comes_in_pieces_is_the_source_sent_whole(
    opened: Opened, other: Opened
) -> None:
    data = encoded(STORY)
    report = _piece(opened, data[:60], 0, None)
    while report.known_bytes is not None and report.known_bytes < len(data):
        end = min(len(data), report.known_bytes + 70)
        report = _piece(opened, data[:end], report.known_bytes, report.source)
        assert report.ok, report.refused
    _piece(other, data, 0, None)
    assert facts(opened) == facts(other)
    again = _piece(opened, data, 10, report.source)
    assert again.outcome == "unchanged"
    assert not findings(opened)


def test_a_piece_after_bytes_that_are_not_known_is_refused(opened: Opened) -> None:
    data = encoded(STORY)
    report = _piece(opened, data, 30, "/there/run.say.jsonl")
    assert (report.outcome, report.refused[0].reason) == ("refused", "offset")
    assert everything(opened) == []
    first = _piece(opened, data[:60], 0, None)
    report = _piece(opened, data, 100, first.source)
    assert (report.outcome, report.refused[0].reason) == ("refused", "offset")


def test_a_piece_that_contradicts_what_is_known_is_a_conflict(opened: Opened) -> None:
    data = encoded(STORY)
    first = _piece(opened, data, 0, None)
    before = everything(opened)
    changed = data.replace(b"call-2", b"call-3")
    report = _piece(opened, changed + b'{"say":"x"}\n', 40, first.source)
    assert report.outcome == "conflict"
    assert everything(opened) == before


def test_how_a_follower_reads_is_what_the_pipeline_takes() -> None:
    assert How(None, True, False).at_work is Following().at_work
    assert SayLog.version == 1


# --- size ------------------------------------------------------------------------------------

_CHILD = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import tests.ingest.say_child
from ingest.pipeline import import_path
from store.open import open_store
opened = open_store(Path(sys.argv[2]), domain="process")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.monotonic()
(report,) = import_path(opened.store, opened.blobs, "local", sys.argv[3])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
opened.close()
events = report.trajectories[0].events if report.trajectories else 0
why = report.refused[0].why if report.refused else ""
print(report.outcome, (after - before) // 1024, events, why)
"""


def _measured(tmp_path: Path, path: Path) -> tuple[str, int, int, str]:
    """(outcome, MiB of memory that the import took, events, refusal) in a process of its own."""
    root = str(Path(__file__).resolve().parents[2])
    arguments = [sys.executable, "-c", _CHILD, root, str(tmp_path / f"d-{path.name}"), str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outcome, mib, events, why = done.stdout.rstrip("\n").split(" ", 3)
    return outcome, int(mib), int(events), why


def test_many_small_lines_take_memory_for_a_segment_not_for_the_file(tmp_path: Path) -> None:
    few, many = tmp_path / "few.say.jsonl", tmp_path / "many.say.jsonl"
    line = b'{"say":"line %07d of a long run of the tool"}\n'
    few.write_bytes(b"".join(line % number for number in range(8_000)))
    many.write_bytes(b"".join(line % number for number in range(60_000)) + b"bad\n")
    small = _measured(tmp_path, few)
    large = _measured(tmp_path, many)
    assert (small[0], small[2]) == ("imported", 8_001)
    assert (large[0], large[2]) == ("imported", 60_002)
    assert large[3].startswith("it is kept as it is")
    assert large[1] < small[1] + 24, (small, large)


def test_a_line_beyond_the_bound_is_left_out_with_number_and_size_in_flat_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "long.say.jsonl"
    with path.open("wb") as file:
        file.write(b'{"say":"one"}\n{"say":"')
        for _ in range(80):
            file.write(b"x" * MIB)
        file.write(b'"}\n{"say":"three"}\n')
    outcome, mib, events, why = _measured(tmp_path, path)
    assert (outcome, events) == ("imported", 4)
    assert why.startswith(f"it is {80 * MIB + 11:,} bytes long, and at most 67,108,864 (64 MiB)")
    assert "its bytes (14 up to 83886105 of the source, sha256:" in why
    assert why.endswith("are not kept")
    assert mib < 40


def test_a_line_of_the_bound_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "wide.say.jsonl"
    with path.open("wb") as file:
        file.write(b'{"say":"one"}\n{"say":"s","rest":"')
        file.write(b"x" * (64 * MIB - 22 - 2))
        file.write(b'"}\n{"say":"three"}\n')
    outcome, mib, events, why = _measured(tmp_path, path)
    assert (outcome, events, why) == ("imported", 4, "")
    assert mib < 8 * 64
