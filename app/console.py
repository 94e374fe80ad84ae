"""What the command line prints and how it ends: exit codes, tables, progress, no escapes.

INVARIANTS
1. Text from a log or a file reaches the terminal only through `safe`: no escape sequence, no
   bidirectional override, no control character of it takes effect.
2. Colour, tables and progress bars only where the stream is a terminal; elsewhere plain lines.
3. An error is what happened, why, and what to do; never a traceback.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from app.errors import code_of
from app.paths import ERROR_DOCS, program
from app.presenters.terminal import one_line
from core.errors import StrandlineError

_COMMAND = re.compile(r"`strandline ([^`]*)`")

OK = 0
FAILED = 1
USAGE = 2
REFUSED = 3
NOT_FOUND = 4
DAMAGED = 5
UNAVAILABLE = 6
UNKNOWN = 7
POISONED = 70
INTERRUPTED = 130

EXIT_CODES: tuple[tuple[int, str], ...] = (
    (OK, "all of it worked"),
    (FAILED, "a fault of this program"),
    (USAGE, "wrong usage, or a value that is not allowed"),
    (REFUSED, "something was refused; of several files, at least one"),
    (NOT_FOUND, "there is no such trajectory, boundary, file or data"),
    (DAMAGED, "stored data violates an invariant, or cannot be reconstructed"),
    (UNAVAILABLE, "the store or server cannot be used now: in use, stopped, full, unreachable"),
    (UNKNOWN, "it is not known whether something is stored; run the same command again"),
    (POISONED, "serve only: the durable barrier failed; start it again"),
    (INTERRUPTED, "interrupted"),
)
_BY_CODE: dict[str, int] = {
    "invalid": USAGE,
    "bad_request": USAGE,
    "not_found": NOT_FOUND,
    "corrupt": DAMAGED,
    "not_reconstructed": DAMAGED,
    "busy": UNAVAILABLE,
    "rate_limited": UNAVAILABLE,
    "overloaded": UNAVAILABLE,
    "store_full": UNAVAILABLE,
    "store_stopped": UNAVAILABLE,
    "domain_unavailable": UNAVAILABLE,
    "unauthorized": UNAVAILABLE,
    "forbidden": UNAVAILABLE,
    "misdirected_host": UNAVAILABLE,
    "ack_unknown": UNKNOWN,
    "internal": FAILED,
}


def exit_code(error: StrandlineError) -> int:
    """How a command ends that met this error."""
    return _BY_CODE.get(code_of(error), REFUSED)


def epilog() -> str:
    """The exit codes, for --help."""
    return "Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES) + "."


def safe(text: object, limit: int = 200) -> str:
    """Untrusted text on one line, fit for a terminal."""
    return one_line(str(text), limit)


def say(text: str) -> None:
    """One line of our own on standard output; parts from outside went through `safe`."""
    print(text, flush=True)


def note(text: str) -> None:
    """One line of our own on standard error."""
    print(text, file=sys.stderr)


def out_json(value: object) -> None:
    """One JSON line on standard output; controls in texts are escaped by JSON itself."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def explain(error: StrandlineError, arguments: Sequence[str] = ()) -> None:
    """What happened and what to do, on standard error; `arguments` are those of the command."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    store = _store_of(arguments)
    note(f"strandline: {safe(as_run(str(error), store), 600)} [{code_of(error)}]")
    note(f"  {safe(as_run(what_to_do(error, command), store), 400)}")


def as_run(text: str, store: str = "") -> str:
    """The text with our commands as they can be run here, on the store that was named."""

    def whole(found: re.Match[str]) -> str:
        more = "" if found[1].endswith("--help") else store
        return f"`{program()} {found[1]}{more}`"

    return _COMMAND.sub(whole, text)


def _store_of(arguments: Sequence[str]) -> str:
    """` --data DIR` as it was given, to be given again; empty where it was not."""
    for option in ("--data", "--server"):
        for at, word in enumerate(arguments):
            if word == option and at + 1 < len(arguments):
                return f" {option} {shlex.quote(arguments[at + 1])}"
            if word.startswith(f"{option}="):
                return f" {shlex.quote(word)}"
    return ""


#: What to do about a value that is not allowed, by its field.
_FIELD_ADVICE: dict[str, str] = {
    "port": "Choose another port; --port 0 lets the system choose one.",
    "token": "`openssl rand -hex 16` makes a good one.",
    "place": "Write ID, ID@NUMBER or ID@head.",
    "trajectory_id": "`strandline list` shows the ids there are.",
    "server": "Name it as it says itself when it starts: http://127.0.0.1:8000.",
    "data": "Name a folder with --data or STRANDLINE_DATA.",
}


def what_to_do(error: StrandlineError, command: str = "") -> str:
    """The advice that fits this error: its own, by its field, by what it names, by its code."""
    data = error.data
    if data.get("advice"):
        return str(data["advice"])
    code = code_of(error)
    if code == "invalid":
        known = _FIELD_ADVICE.get(str(data.get("field")))
        return known or f"`strandline {command} --help` says what is allowed.".replace("  ", " ")
    if code == "not_found" and data.get("trajectory_id") and isinstance(data.get("head"), int):
        name = safe(data["trajectory_id"], 100)
        return f"Its newest boundary: `strandline show {name}@{data['head']}`."
    if code == "store_stopped" and data.get("owned") and data.get("url"):
        return f"Open {safe(data['url'])}, or stop it first; another --data is another store."
    text = (ERROR_DOCS / f"{code}.md").read_text(encoding="utf-8")
    advice = text.partition("## What to do")[2].strip().splitlines()[0]
    return advice.removeprefix("- ").replace("**", "")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    right: bool = False
    wide: bool = False
    """Left out on a terminal narrower than `WIDE`."""
    stretches: bool = False
    """Cut with an ellipsis where there is no room; the others keep theirs."""


WIDE = 130
#: A column that stretches is cut to no less.
_CUT_TO = 8


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Rows as a table on a terminal, else as tab-separated lines; texts are safe already. Which
    columns are shown."""
    if not sys.stdout.isatty():
        print("\t".join(column.name for column in columns))
        for row in rows:
            print("\t".join(cell.replace("\t", " ") for cell in row))
        return tuple(column.name for column in columns)
    from rich import box  # noqa: PLC0415  # 0.1 s, for terminals only
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    screen = Console(no_color="NO_COLOR" in os.environ, highlight=False)
    shown = [at for at, column in enumerate(columns) if not column.wide or screen.width >= WIDE]
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    widest = {at: max(len(columns[at].name), *(len(row[at]) for row in rows)) for at in shown}
    stretching = [at for at in shown if columns[at].stretches]
    fixed = sum(width for at, width in widest.items() if at not in stretching)
    # Each column takes two blanks and a rule; what is left is for those that may be cut.
    left = (screen.width - fixed - 3 * len(shown)) // max(1, len(stretching))
    for at in shown:
        column = columns[at]
        drawn.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=min(widest[at], max(_CUT_TO, left)) if column.stretches else widest[at],
        )
    for row in rows:
        drawn.add_row(*(Text(row[at]) for at in shown))
    screen.print(drawn)
    return tuple(columns[at].name for at in shown)


class Meter(Protocol):
    """Progress of one file."""

    def __call__(self, bytes_done: int, bytes_total: int, events_done: int) -> None: ...


def meter(label: str) -> AbstractContextManager[Meter]:
    """A progress bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return nullcontext(_silent)
    return _Bar(safe(label, 60))


def _silent(bytes_done: int, bytes_total: int, events_done: int) -> None:
    return None


class _Bar(AbstractContextManager["Meter"]):
    def __init__(self, label: str) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415

        self._progress: Any = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(label, total=None)

    def __enter__(self) -> Meter:
        self._progress.start()
        return self._update

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _update(self, bytes_done: int, bytes_total: int, events_done: int) -> None:
        self._progress.update(self._task, completed=bytes_done, total=bytes_total or None)
