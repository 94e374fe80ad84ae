"""An import's report on the command line: the documented JSON line, or a paragraph for a person."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from app import console
from app.presenters import format as fmt
from app.presenters.reports import left_waiting
from core.errors import InvalidInput

Wire = dict[str, Any]
_BUCKETS = ("input", "output", "cache_read", "cache_write")
NAME_CHARS_MAX = 255


def check_name(name: str, paths: Sequence[str]) -> None:
    """InvalidInput for a name a source cannot have, and for one name of several paths."""
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidInput(
            f"--as takes a name of 1 to {NAME_CHARS_MAX} printable characters", field="as"
        )
    if len(paths) > 1:
        raise InvalidInput(
            "--as names one source, and several paths were given",
            field="as",
            advice="Import each path by a command of its own.",
        )


def line(document: Wire) -> Wire:
    """`path, format, trajectories, refused, tokens`, exactly as documented; and `waiting`, where
    the end of the file waits."""
    waits = {"waiting": document["waiting"]} if any(document["waiting"].values()) else {}
    return {
        "path": document["path"],
        "format": document["format"],
        "trajectories": [
            {key: item[key] for key in ("id", "events", "head", "chain")}
            for item in document["trajectories"]
        ],
        "refused": [{"where": item["where"], "why": item["why"]} for item in document["refused"]],
        "tokens": _figures(document),
    } | waits


def _figures(document: Wire) -> dict[str, int | None]:
    """The four buckets; null where the file states none, which is not the same as 0."""
    return {name: document["tokens"][name] for name in _BUCKETS}


class Printer:
    """Prints each report as it comes, and at the end what the formats do not record."""

    def __init__(self, *, json: bool, verbose: bool) -> None:
        self._json = json
        self._verbose = verbose
        self._gaps: dict[str, dict[tuple[str, str], int]] = {}
        """Format -> (what its files do not record, why) -> in how many, in the order met."""
        self._refused = self._missing = self._said = False
        self._counted: dict[str, int] = {}
        """Outcome -> files."""

    @property
    def exit_code(self) -> int:
        """How the command ends."""
        if self._refused:
            return console.REFUSED
        return console.NOT_FOUND if self._missing else console.OK

    def missing(self, path: str) -> bool:
        """Whether the path leads nowhere; it is said then."""
        try:
            os.stat(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                return False
        except ValueError:
            return False
        else:
            return False
        self._missing = True
        self._counted["not there"] = self._counted.get("not there", 0) + 1
        why = "there is no such file or folder"
        if self._json:
            empty = dict.fromkeys(_BUCKETS)
            refused = [{"where": "the path", "why": why}]
            console.out_json(
                {"path": console.safe(path, 4096), "format": None, "trajectories": [],
                 "refused": refused, "tokens": empty}
            )  # fmt: skip
        else:
            console.note(f"strandline: {console.safe(path, 400)}: {why}")
        return True

    def document(self, document: Wire) -> None:
        """What became of one file."""
        self._refused = self._refused or not document["ok"]
        self._said = True
        outcome = str(document["outcome"])
        self._counted[outcome] = self._counted.get(outcome, 0) + 1
        if self._json:
            console.out_json(line(document))
            return
        _show(document, verbose=self._verbose)
        if not self._verbose and document["outcome"] != "unchanged":
            known = self._gaps.setdefault(str(document["format"]), {})
            for gap in document["gaps"]:
                key = (str(gap["what"]), str(gap["why"]))
                known[key] = known.get(key, 0) + 1

    def followed(self, document: Wire) -> None:
        """What became of a file that is followed, at once also for a program that reads it."""
        if self._json:
            console.out_json(line(document))
        else:
            _show(document, verbose=self._verbose)
        sys.stdout.flush()

    def rederived(self) -> None:
        """Once, after what was derived again."""
        if not self._json and not self._said:
            console.say("Nothing is outdated: every source was read by the importers of now.")

    def end(self) -> None:
        """Once per format, what its files do not record; then what became of all files."""
        for name, gaps in self._gaps.items():
            if not gaps:
                continue
            console.say(f"{console.safe(name)} does not record")
            for what, why in merged(gaps):
                console.say(f"  {console.safe(what)}: {console.safe(why, 300)}")
        if self._counted and not self._json:
            console.say(summary(self._counted))


#: Outcomes in the order they are summed up, with what they mean where the word does not say it.
_SUMMED = {
    "imported": "imported",
    "appended": "appended",
    "unchanged": "unchanged",
    "conflict": "in conflict with what is kept",
    "refused": "refused",
    "skipped": "skipped: not a trajectory",
    "not there": "not there",
}


def summary(counted: Mapping[str, int]) -> str:
    """`48 imported, 1 refused, 4 skipped: not a trajectory`."""
    order = (*_SUMMED, *(name for name in counted if name not in _SUMMED))
    return ", ".join(
        f"{fmt.count(counted[name])} {_SUMMED.get(name, name)}" for name in order if name in counted
    )


_NUMBERED = re.compile(r"\b(\d[\d,]*) ([a-z]+)")


def merged(gaps: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Gaps (what, why) of several files, each with how many have it, those of one kind once: their
    numbers are added up."""
    totals: dict[tuple[str, str], int | None] = {}
    for (what, why), files in gaps.items():
        found = _NUMBERED.findall(what)
        if len(found) != 1:
            totals.setdefault((what, why), None)
            continue
        number, noun = found[0]
        key = (_NUMBERED.sub(f"{{}} {_one(noun)}", what, count=1), why)
        totals[key] = (totals.get(key) or 0) + files * int(number.replace(",", ""))
    return [
        (what if total is None else _counted(what, total), why)
        for (what, why), total in totals.items()
    ]


def _one(noun: str) -> str:
    """A noun of our gaps, of one thing: `replies` is of one `reply`."""
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    return noun[:-1] if noun.endswith("s") and not noun.endswith("ss") else noun


def _counted(what: str, total: int) -> str:
    """`{} reply` with its number."""
    before, _, rest = what.partition("{} ")
    noun, blank, after = rest.partition(" ")
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{before}{fmt.plural(total, noun, many)}{blank}{after}"


def _show(document: Wire, *, verbose: bool) -> None:
    path = console.safe(document["path"], 400)
    if document["outcome"] == "skipped":
        why = "; ".join(console.safe(item["why"], 400) for item in document["refused"])
        console.say(f"{path}: skipped: {why or 'it is no trajectory'}")
        return
    known = f" ({console.safe(document['format'])})" if document["format"] else ""
    console.say(f"{path}: {document['outcome']}{known}")
    for item in document["trajectories"]:
        console.say(
            f"  {item['id']}  {fmt.plural(item['events'], 'event')}, "
            f"{fmt.count(item['appended'])} new, head {item['head']}  "
            f"{console.safe(item['title'], 80)}"
        )
    if document["trajectories"] and document["outcome"] != "unchanged":
        console.say(f"  tokens: {_tokens(document)}")
    hidden = redaction(document)
    if hidden:
        console.say(f"  {hidden}")
    for gap in document["gaps"] if verbose else ():
        console.say(f"  not recorded: {console.safe(gap['what'])}: {console.safe(gap['why'], 300)}")
    waits = left_waiting(document)
    if waits:
        console.say(f"  waiting: {waits}")
    for text in document["notes"]:
        console.say(f"  note: {console.safe(text, 300)}")
    for item in document["refused"]:
        console.say(f"  refused: {console.safe(item['where'])}: {console.safe(item['why'], 400)}")


def redaction(document: Wire) -> str:
    """What was hidden, or that nothing was looked for; empty where there is nothing to say."""
    found = document["redacted"]
    if found["rules"] == "0":
        return "redacted: nothing was looked for, as you asked"
    if not found["places"]:
        return ""
    places = sum(found["places"].values())
    by_rule = ", ".join(
        f"{console.safe(name)} {fmt.count(number)}" for name, number in found["places"].items()
    )
    return f"redacted: {fmt.plural(places, 'secret')} ({by_rule})"


def _tokens(document: Wire) -> str:
    figures = _figures(document)
    unknown = document["tokens"].get("unreported_replies", 0)
    without = f"{fmt.plural(unknown, 'reply', 'replies')} without figures" if unknown else ""
    if all(value is None for value in figures.values()):
        return without or "none"
    text = ", ".join(
        f"{fmt.count(value)} {name.replace('_', ' ')}"
        for name, value in figures.items()
        if value is not None
    )
    return f"at least {text}; {without}" if without else text
