"""An import's files and reports as the page shows them: what was refused first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app import links
from app.jobs import Job
from app.presenters.format import count, duration, plural, size
from app.presenters.terminal import one_line, visible

#: Outcome of a file -> (mark class, word shown).
OUTCOMES: dict[str, tuple[str, str]] = {
    "imported": ("established", "imported"),
    "appended": ("established", "appended"),
    "unchanged": ("same", "unchanged"),
    "conflict": ("bad", "conflict"),
    "refused": ("bad", "refused"),
    "skipped": ("unknown", "skipped"),
}
#: What to do about a refusal, by a word its reason holds; the first that fits.
ADVICE: tuple[tuple[str, str], ...] = (
    ("empty", "The copy is empty: export or copy the file again."),
    ("ends", "This looks like a copy that was cut off: send another copy of the whole file."),
    ("truncated", "This looks like a copy that was cut off: send another copy of the whole file."),
    ("gzip", "Unpack it first, then send the file inside."),
    ("changed while", "It was being written: send it again when the run has ended, or once more."),
    ("large", "One value is larger than this version reads; nothing smaller is wrong with it."),
    ("contradicts", "The file was edited or is another run under an old name; the first is kept."),
    ("no importer", "No importer knows it. The formats that are read are listed beside this."),
    ("not known", "No importer knows it. The formats that are read are listed beside this."),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that was refused: where, why, and the bytes around."""

    where: str
    why: str
    around: str
    advice: str


@dataclass(frozen=True, slots=True)
class Imported:
    """One trajectory a file became."""

    trajectory_id: str
    title: str
    href: str
    events: str
    appended: str
    head: str
    chain: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file of a batch."""

    index: int
    name: str
    size: str
    format: str
    format_why: str
    state: str
    """waiting, reading or done."""
    mark: str
    word: str
    result: str
    read: int
    total: int
    events: str
    refusals: tuple[Refusal, ...]
    trajectories: tuple[Imported, ...]
    became: tuple[tuple[str, str, str], ...]
    gaps: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    rules: tuple[tuple[str, str], ...]
    tokens: tuple[tuple[str, str], ...]
    hidden: str
    """Secrets that were hidden, by rule; or that nobody looked for them."""
    unreported: int
    took: str
    items: str
    bad: bool


def waiting(
    index: int, name: str, length: int, *, state: str, read: int, events: int
) -> FileReport:
    """A file whose import has not ended."""
    words = {"waiting": "waiting", "running": "reading"}
    return _file(
        index,
        name,
        length,
        state=words.get(state, state),
        word=words.get(state, state),
        result=f"{size(read)} of {size(length)} · {plural(events, 'event')}"
        if state == "running"
        else "its turn comes",
        read=read,
        events=count(events),
    )


def failed(index: int, name: str, length: int, why: str) -> FileReport:
    """A file whose import ended without a report."""
    refusal = Refusal("the whole file", one_line(why, 300), "", "")
    return _file(
        index,
        name,
        length,
        state="done",
        mark="bad",
        word="refused",
        result="nothing imported",
        refusals=(refusal,),
        bad=True,
    )


def done(index: int, name: str, length: int, document: dict[str, Any]) -> FileReport:
    """A file with its report."""
    mark, word = OUTCOMES.get(document["outcome"], ("unknown", document["outcome"]))
    bad = document["outcome"] in ("refused", "conflict")
    trajectories = tuple(_imported(item) for item in document["trajectories"])
    tokens = document["tokens"]
    return _file(
        index,
        name,
        length,
        format=one_line(document["format"] or "", 60),
        format_why=one_line(document["format_why"], 200),
        state="done",
        mark=mark,
        word=word,
        result=_result(document, bad),
        refusals=tuple(_refusal(item) for item in document["refused"]),
        trajectories=() if bad else trajectories,
        became=tuple(
            (one_line(item["source"], 60), one_line(item["family"], 40), count(item["count"]))
            for item in document["became"]
        ),
        gaps=tuple((one_line(g["what"], 60), one_line(g["why"], 300)) for g in document["gaps"]),
        notes=tuple(one_line(note, 300) for note in (*_waits(document), *document["notes"])),
        rules=tuple(
            (one_line(rule, 120), count(number))
            for rules in (document["pairings"], document["token_rules"])
            for rule, number in rules.items()
        ),
        tokens=tuple(
            (label, count(tokens[key]))
            for key, label in (
                ("input", "input, uncached"),
                ("cache_read", "read from cache"),
                ("cache_write", "written to cache"),
                ("output", "output"),
            )
            if tokens[key]
        ),
        hidden=_hidden(document["redacted"]),
        unreported=tokens["unreported_replies"],
        took=duration(document["elapsed_us"]),
        items=f"{count(document['items'])} items, {count(document['lines_read'])} lines, "
        f"{size(document['bytes_read'])}",
        bad=bad,
    )


def _file(index: int, name: str, length: int, **known: Any) -> FileReport:
    empty: dict[str, Any] = {
        "format": "",
        "format_why": "",
        "mark": "",
        "read": 0,
        "events": "0",
        "refusals": (),
        "trajectories": (),
        "became": (),
        "gaps": (),
        "notes": (),
        "rules": (),
        "tokens": (),
        "hidden": "",
        "unreported": 0,
        "took": "",
        "items": "",
        "bad": False,
    }
    return FileReport(
        index=index,
        name=one_line(name, 120),
        size=size(length),
        total=max(length, 1),
        **{**empty, **known},
    )


def _hidden(redacted: dict[str, Any]) -> str:
    if redacted["rules"] == "0":
        return "not looked for, as was asked"
    if not redacted["places"]:
        return "none found" if redacted["rules"] else ""
    by_rule = ", ".join(
        f"{one_line(name, 60)} {count(places)}" for name, places in redacted["places"].items()
    )
    return f"{plural(sum(redacted['places'].values()), 'place')} hidden: {by_rule}"


def _waits(document: dict[str, Any]) -> tuple[str, ...]:
    text = left_waiting(document)
    return (text,) if text else ()


def left_waiting(document: dict[str, Any]) -> str:
    """What of a file's end was not read yet, and what it waits for; empty where all was read."""
    waits = document["waiting"]
    unfinished = 1 if waits["bytes"] else 0
    held = waits["lines"] - unfinished
    said = []
    if unfinished:
        said.append(
            f"its last line is not finished: {plural(waits['bytes'], 'byte')} wait for its end and "
            "are read when the file is imported again"
        )
    if held > 0:
        said.append(f"{plural(held, 'line')} of a reply in parts wait for its end")
    return "; ".join(said)


def _result(document: dict[str, Any], bad: bool) -> str:
    if bad:
        return "nothing of it was imported, see below"
    if document["outcome"] == "skipped":
        return "not a trajectory file"
    if document["outcome"] == "unchanged":
        return "the same bytes are here already"
    new = sum(item["appended"] for item in document["trajectories"])
    return plural(new, "new event") if document["outcome"] == "appended" else plural(new, "event")


def _imported(item: dict[str, Any]) -> Imported:
    return Imported(
        trajectory_id=str(item["id"]),
        title=one_line(str(item["title"] or item["id"]), 100),
        href=links.trajectory(str(item["id"])),
        events=count(item["events"]),
        appended=count(item["appended"]),
        head=count(item["head"]),
        chain=str(item["chain"]),
    )


def _refusal(item: dict[str, Any]) -> Refusal:
    why = str(item["why"])
    advice = next((text for word, text in ADVICE if word in why.lower()), "")
    return Refusal(
        one_line(str(item["where"]), 200),
        visible(why)[:600],
        visible(str(item.get("around", "")))[:600],
        advice,
    )


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """One file that was refused, whole or in part, since the server started."""

    name: str
    why: str
    more: int
    """Further reasons."""
    href: str
    """Its batch; empty: it was followed."""
    at: int | None


def refused(job: Job) -> tuple[RefusedLine, ...]:
    """The files of an ended or running job that were refused."""
    found = []
    for file in job.files:
        whys = [str(file.error)] if file.error is not None else []
        if file.report is not None and file.report.outcome != "skipped":
            whys = [str(item["why"]) for item in file.report.document()["refused"]]
        if whys:
            found.append(
                RefusedLine(
                    one_line(file.name, 120),
                    one_line(whys[0], 200),
                    len(whys) - 1,
                    "" if job.following else links.import_job_page(job.job_id),
                    job.ended_at or job.submitted_at,
                )
            )
    return tuple(found)


def headline(files: Sequence[FileReport]) -> str:
    """What a batch came to, refused first."""
    words: dict[str, int] = {}
    for file in files:
        words[file.word] = words.get(file.word, 0) + 1
    order = (
        "refused",
        "conflict",
        "imported",
        "appended",
        "unchanged",
        "skipped",
        "reading",
        "waiting",
    )
    said = [f"{words[word]} {word}" for word in order if word in words]
    return f"{plural(len(files), 'file')} · {', '.join(said)}"
