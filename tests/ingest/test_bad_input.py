"""What is no trajectory is refused with its place and reason; nothing of it is stored."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.limits import IMPORT_VALUE_BYTES_MAX, INTEGER_MAX
from ingest import files
from ingest.base import Report
from ingest.pipeline import import_path
from store.open import Opened
from tests.ingest.support import (
    TENANT,
    document,
    dumped,
    everything,
    fixture,
    give,
    log_of,
    of_type,
    take,
)
from tests.require import ROOT

WHOLE = fixture("repair-slugify").read_bytes()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("run.traj.json", WHOLE)
    return out.getvalue()


def with_text(find: bytes, replace: bytes) -> bytes:
    assert find in WHOLE
    return WHOLE.replace(find, replace, 1)


#: name -> (bytes, what the reason must say, whether line and column are known)
CASES: dict[str, tuple[bytes, str, bool]] = {
    "empty": (b"", "empty", False),
    "white space": (b" \n\t\n", "empty", False),
    "gzip": (gzip.compress(WHOLE), "gzip", False),
    "zip": (zipped(), "zip", False),
    "zstandard": (b"\x28\xb5\x2f\xfd" + b"x" * 90, "zstandard", False),
    "UTF-16": (WHOLE.decode().encode("utf-16"), "UTF-16", False),
    "UTF-16 without a mark": (WHOLE.decode().encode("utf-16-le"), "UTF-16", False),
    "UTF-32": (WHOLE.decode().encode("utf-32"), "UTF-32", False),
    "a database": (b"SQLite format 3\x00" + b"\x00" * 100, "SQLite", False),
    "binary": (b"{\x01\x02\x00\x03" * 40, "NUL", False),
    "raw NUL late": (with_text(b"mini_version", b"mini\x00version"), "NUL", False),
    "text": (b"once upon a time\n" * 20, "not known", False),
    "another JSON": (b'{"hello": [1, 2, 3]}', "no mini-swe-agent trajectory", False),
    "a number": (b"42", "not known", False),
    "torn in the middle": (WHOLE[: len(WHOLE) // 2], "cut off", True),
    "torn at the end": (WHOLE[:-3], "cut off", True),
    "torn in a string": (WHOLE[: WHOLE.index(b"I will look") + 8], "cut off", True),
    "trailing text": (WHOLE + b"\n{}", "after the end", True),
    "missing comma": (with_text(b'"info": {', b'"info" {'), "colon", True),
    "NaN": (with_text(b'"cost_limit": 1.0', b'"cost_limit": NaN'), "NaN", True),
    "infinity": (with_text(b'"cost_limit": 1.0', b'"cost_limit": -Infinity'), "Infinity", True),
    "1e999": (with_text(b'"cost_limit": 1.0', b'"cost_limit": 1e999'), "not finite", True),
    "duplicate key inside": (
        with_text(b'"role": "system"', b'"role": "user", "role": "system"'),
        "twice",
        True,
    ),
    "duplicate key outside": (
        with_text(b'"trajectory_format"', b'"messages": [], "trajectory_format"'),
        "twice",
        True,
    ),
    "lone surrogate": (with_text(b"I will look", b"I \\ud83d look"), "surrogate", True),
    "not UTF-8": (with_text(b"I will look", b"I \xff\xfe look"), "not UTF-8", True),
    "deep": (
        with_text(b'"cost_limit": 1.0', b'"cost_limit": ' + b"[" * 200 + b"]" * 200),
        "nested deeper",
        True,
    ),
    "very deep": (b'{"info": ' + b"[" * 1_000_000, "nested deeper", True),
    "no messages": (
        with_text(b'"messages": [', b'"massages": ['),
        "no list of messages",
        False,
    ),
    "messages no list": (b'{"info": {"mini_version": "2"}, "messages": {}}', "no list", False),
    "messages empty": (b'{"info": {"mini_version": "2"}, "messages": []}', "no messages", False),
    "message no object": (
        b'{"info": {"mini_version": "2"},\n "messages": [7]}',
        "message 0 is no object",
        True,
    ),
    "message without role": (
        b'{"info": {"mini_version": "2"},\n "messages": [{"content": "x"}]}',
        "no role",
        True,
    ),
    "role no text": (
        b'{"info": {"mini_version": "2"},\n "messages": [{"role": 7}]}',
        "role that is no text",
        True,
    ),
    "info no object": (
        b'{"info": [], "mini_version": 1, "messages": [{"role": "user"}]}',
        "info is no object",
        False,
    ),
    "another format": (
        with_text(b'"mini-swe-agent-1.1"', b'"some-agent-9"'),
        "trajectory_format",
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_bytes_are_refused_with_place_and_reason(shared: Opened, name: str) -> None:
    data, reason, placed = CASES[name]
    before = everything(shared)
    report = give(shared, data, "bad.traj.json")
    assert report.outcome == "refused"
    (refusal,) = report.refused
    assert reason in refusal.why
    assert refusal.where
    if placed:
        assert refusal.line is not None
        assert refusal.column is not None
        assert refusal.offset is not None
        assert refusal.around is not None
        assert f"line {refusal.line}" in refusal.where
    assert report.trajectories == []
    assert everything(shared) == before
    assert json.loads(json.dumps(report.document()))["refused"]


def test_the_place_of_a_refusal_is_where_the_fault_is(shared: Opened) -> None:
    report = give(shared, CASES["NaN"][0])
    refusal = report.refused[0]
    lines = CASES["NaN"][0].decode().splitlines()
    assert refusal.line is not None
    inside = "\n".join(lines[refusal.line - 1 :])
    assert "NaN" in inside
    torn = give(shared, CASES["torn in the middle"][0]).refused[0]
    assert torn.offset == len(WHOLE) // 2
    assert re.search(r"inside messages \d+", torn.why)


def test_a_byte_order_mark_is_skipped_and_the_pointers_still_fit(opened: Opened) -> None:
    data = b"\xef\xbb\xbf" + WHOLE
    report = give(opened, data)
    assert report.outcome == "imported"
    event = log_of(opened, report.trajectories[0].id)[2]
    ref = event.refs[0]
    assert json.loads(opened.blobs.read_range(TENANT, ref.digest, ref.start or 0, ref.end or 0))


def test_text_outside_ascii_keeps_its_byte_offsets(opened: Opened) -> None:
    value = document("repair-slugify")
    data = json.dumps(value, indent=2, ensure_ascii=False).encode()
    assert not data.isascii()
    report = give(opened, data)
    assert report.outcome == "imported"
    for event in log_of(opened, report.trajectories[0].id):
        if event.type in ("ModelReplied", "ToolResult"):
            ref = event.refs[0]
            part = opened.blobs.read_range(TENANT, ref.digest, ref.start or 0, ref.end or 0)
            assert json.loads(part)["role"]


def test_crlf_counts_the_same_lines(shared: Opened) -> None:
    data = CASES["NaN"][0]
    plain = give(shared, data).refused[0]
    windows = give(shared, data.replace(b"\n", b"\r\n")).refused[0]
    assert plain.line == windows.line


def test_a_huge_integer_is_carried_as_text(opened: Opened) -> None:
    value = document("interrupted")
    value["messages"][2]["tool_calls"][0]["function"]["arguments"] = "{}"
    value["messages"][2]["extra"]["actions"][0]["command_id"] = INTEGER_MAX + 2
    value["messages"][2]["extra"]["actions"][0]["other"] = 10**30
    report = give(opened, dumped(value))
    assert report.outcome == "imported", report.refused
    intent = of_type(opened, report.trajectories[0].id, "ToolIntent")[0]
    assert intent.arguments["command_id"] == str(INTEGER_MAX + 2)
    assert intent.arguments["other"] == str(10**30)


def test_an_escaped_nul_is_kept(opened: Opened) -> None:
    value = document("interrupted")
    value["messages"][3]["content"] = "a\u0000b"
    report = give(opened, dumped(value))
    assert report.outcome == "imported"
    assert of_type(opened, report.trajectories[0].id, "ToolResult")[0].observation == "a\0b"


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["info"].update(model_stats="many"),
        lambda value: value["info"].update(model_stats={"api_calls": "two", "instance_cost": []}),
        lambda value: value["info"].update(exit_status=["x"], submission=7, config="none"),
        lambda value: value["messages"][2].update(extra="none"),
        lambda value: value["messages"][2].update(content=[1, {"type": "image_url"}, None]),
        lambda value: value["messages"][2].update(tool_calls="none"),
        lambda value: value["messages"][2]["extra"].update(
            response=7, cost="free", timestamp="now"
        ),
        lambda value: value["messages"][2]["extra"].update(cost=-1, timestamp=-5),
        lambda value: value["messages"][2]["extra"].update(cost=1e300, timestamp=1e300),
        lambda value: value["messages"][2]["extra"]["response"].update(usage=[1], choices=[[]]),
        lambda value: value["messages"][2]["extra"]["response"]["usage"].update(
            prompt_tokens=-3, completion_tokens=2.5, prompt_tokens_details=[]
        ),
        lambda value: value["messages"][2]["extra"].update(actions=[7, {}, {"command": 3}]),
        lambda value: value["messages"][3].update(tool_call_id=7, extra={"returncode": "0"}),
        lambda value: value["messages"][3]["extra"].update(returncode=10**40, exception_info=9),
        lambda value: value.update(instance_id=["x"], trajectory_format=3),
        lambda value: value["messages"][2]["tool_calls"][0].update(id="with space\n" * 90),
    ],
)
def test_an_odd_value_below_the_messages_is_read_as_absent(
    opened: Opened, change: Callable[[dict[str, Any]], object]
) -> None:
    value = document("interrupted")
    change(value)
    report = give(opened, dumped(value))
    assert report.outcome == "imported", report.refused


def test_a_document_above_the_bound_is_refused_by_size(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "large.traj.json"
    with path.open("wb") as out:
        out.write(b'{"info": {"mini_version": "2"}, "messages": [\n')
        line = b'{"role": "user", "content": "' + b"x" * 1_000_000 + b'"},\n'
        while out.tell() <= IMPORT_VALUE_BYTES_MAX:
            out.write(line)
    report = take(opened, path)
    assert report.outcome == "refused"
    assert f"{path.stat().st_size:,} bytes" in report.refused[0].why
    assert everything(opened) == []


SCRIPT = """
import json, re, sys
from pathlib import Path
from ingest.pipeline import import_path
from store.open import open_store
with open_store(Path(sys.argv[1]), domain="process") as opened:
    (report,) = import_path(opened.store, opened.blobs, "local", sys.argv[2])
    held = [head.trajectory_id for head in opened.store.heads("local")]
# Not ru_maxrss, which a child begins with that of the process it was forked from.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({"report": report.document(), "peak_kib": peak, "held": held}))
"""


@pytest.mark.parametrize(
    "beginning", [b'{"info": {"mini_version": "', b"", b'{"strandline":"bundle/']
)
def test_a_line_of_500_mb_is_refused_by_line_and_size_in_little_memory(
    tmp_path: Path, beginning: bytes
) -> None:
    # The whole length once; what recognises the others sees no more than their beginning.
    mib = 500 if beginning.startswith(b'{"info"') else 80
    path = tmp_path / "line.traj.json"
    chunk = b"a" * (1 << 20)
    with path.open("wb") as out:
        out.write(b"\n\n" if beginning else b"")
        out.write(beginning)
        for _ in range(mib):
            out.write(chunk)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data"), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    path.unlink()
    said = json.loads(done.stdout)
    (refused,) = said["report"]["refused"]
    line = 3 if beginning else 1
    assert refused["line"] == line
    assert f"line {line} is {mib * (1 << 20) + len(beginning):,} bytes long" in refused["why"]
    assert said["held"] == []
    assert said["peak_kib"] < 300 * 1024


def test_a_document_of_more_than_is_held_is_refused_before_it_is_built(opened: Opened) -> None:
    first = b'{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u","x":['
    end = b'}],"trajectory_format":"mini-swe-agent-1.1"}'
    values = first + b"{}," * 4_000_000 + b"{}]" + end
    messages = first + b"]}" + b',{"role":"user"}' * 50_000 + end[1:]
    replies = document("repair-slugify")
    reply = next(one for one in replies["messages"] if one["role"] == "assistant")
    actions = [{"command": "ls", "tool_call_id": f"c{n}"} for n in range(50_000)]
    replies["messages"] = [*replies["messages"][:2], reply | {"extra": {"actions": actions}}]
    for data, why in (
        (values, "more than 4,000,000 values"),
        (messages, "a list of more than 50,000"),
        (dumped(replies), "more than 50,000 events"),
    ):
        (refused,) = give(opened, data).refused
        assert why in refused.why
    assert everything(opened) == []


def test_commas_in_text_are_no_values(opened: Opened) -> None:
    value = document("repair-slugify")
    value["messages"][1]["content"] += '\\"[{,' * 1_400_000
    assert give(opened, dumped(value)).outcome == "imported"


# --- folders and files -----------------------------------------------------------------------


def reports(opened: Opened, path: Path) -> dict[str, Report]:
    found = import_path(opened.store, opened.blobs, TENANT, path)
    return {report.path.removeprefix(f"{path}/"): report for report in found}


def test_a_folder_of_everything_bad_imports_what_is_good(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    deep = folder / "deep" / "er"
    deep.mkdir(parents=True)
    (deep / "good.traj.json").write_bytes(WHOLE)
    for number, (data, _, _) in enumerate(CASES.values()):
        (folder / f"bad-{number:02d}.traj.json").write_bytes(data)
    outside = tmp_path / "outside.traj.json"
    outside.write_bytes(fixture("format-error").read_bytes())
    (folder / "link.traj.json").symlink_to(outside)
    (folder / "link-folder").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe.traj.json")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "sock"))
    (folder / "notes.txt").write_text("not a trajectory\n")
    odd = os.fsencode(folder) + b"/name \xff\n\x1b[31m.traj.json"
    with open(odd, "wb") as out:
        out.write(fixture("limits-exceeded").read_bytes())
    found = reports(opened, folder)
    outcomes = {name: report.outcome for name, report in found.items()}
    assert outcomes["deep/er/good.traj.json"] == "imported"
    assert outcomes["name \\xff\\n\\x1b[31m.traj.json"] == "imported"
    assert outcomes["notes.txt"] == "skipped"
    for name, word in (
        ("link.traj.json", "symbolic link"),
        ("link-folder", "symbolic link"),
        ("loop", "symbolic link"),
        ("pipe.traj.json", "named pipe"),
        ("sock", "socket"),
    ):
        assert outcomes[name] == "skipped"
        assert word in found[name].refused[0].why
    bad = [name for name in outcomes if name.startswith("bad-")]
    assert len(bad) == len(CASES)
    assert {outcomes[name] for name in bad} == {"refused"}
    assert len(everything(opened)) == 2


def test_a_path_that_is_no_file_is_refused(opened: Opened, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for name, word in (
        ("pipe", "named pipe"),
        ("dangling", "cannot be opened"),
        ("loop", "symbolic link"),
        ("absent", "no such file"),
        ("nul\0name", "NUL"),
    ):
        report = take(opened, f"{tmp_path}/{name}")
        assert report.outcome == "refused"
        assert word in report.refused[0].why


def test_a_path_that_is_a_link_to_a_file_is_read(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(fixture("interrupted"))
    assert take(opened, tmp_path / "link").outcome == "imported"
    assert take(opened, fixture("interrupted")).outcome == "unchanged"


def test_a_folder_is_read_up_to_a_number_of_entries(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "IMPORT_FILES_MAX", 3)
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text("x")
    found = list(import_path(opened.store, opened.blobs, TENANT, tmp_path))
    assert len(found) == 4
    assert "was left out" in found[-1].refused[0].why


@pytest.mark.parametrize("how", ["grown", "rewritten with equal size and time"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    opened: Opened, tmp_path: Path, how: str
) -> None:
    path = tmp_path / "live.traj.json"
    path.write_bytes(WHOLE)
    before = path.stat()
    changed = []

    def meddle(done: int, total: int, events: int) -> None:
        if done and not changed:
            changed.append(True)
            if how == "grown":
                with path.open("ab") as out:
                    out.write(b"\n")
            else:
                with path.open("r+b") as out:
                    out.seek(WHOLE.index(b"I will look"))
                    out.write(b"I WILL LOOK")
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    (report,) = import_path(opened.store, opened.blobs, TENANT, path, progress=meddle)
    assert report.outcome == "refused"
    assert "changed while it was read" in report.refused[0].why
    assert everything(opened) == []


def test_progress_tells_bytes_and_events(opened: Opened) -> None:
    seen: list[tuple[int, int, int]] = []
    (report,) = import_path(
        opened.store,
        opened.blobs,
        TENANT,
        fixture("repair-slugify"),
        progress=lambda *row: seen.append(row),
    )
    size = fixture("repair-slugify").stat().st_size
    assert seen[-1] == (size, size, report.trajectories[0].events)


def test_the_line_for_programs_has_exactly_the_documented_fields(opened: Opened) -> None:
    line = take(opened, fixture("repair-slugify")).line()
    assert list(line) == ["path", "format", "trajectories", "refused", "tokens"]
    assert list(line["trajectories"][0]) == ["id", "events", "head", "chain"]
    assert list(line["tokens"]) == ["input", "output", "cache_read", "cache_write"]
    refused = give(opened, b"").line()
    assert list(refused["refused"][0]) == ["where", "why"]
