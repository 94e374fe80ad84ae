"""A delivered input as rows: what is the same as in the previous call, new, changed or dropped.

INVARIANTS
1. Messages are compared by digest and place; two of one digest are the same bytes.
2. Nothing is called the same that was not compared: what lies out of reach is said to.
3. Bounded: at most DIFFERING_MAX messages are set against each other, and LINES_MAX lines of a
   changed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Literal

from app.presenters.diffs import Run
from app.presenters.format import count, plural
from app.presenters.payloads import Absent
from app.presenters.terminal import Segment, Shown, one_line, visible
from core.events.fields import MessageRef

#: Messages beyond the common beginning that are compared one by one.
DIFFERING_MAX = 1_000
#: Lines of a changed message that are set against each other.
LINES_MAX = 400
#: A run of unchanged messages longer than this is folded into one row.
SAME_RUN = 4
#: Words of the reply that are looked for in messages; the longest first.
WORDS_MAX = 200
WORDS_SHOWN = 6

Change = Literal["same", "new", "changed", "dropped"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a manifest, where it stands in it, and the event that delivered it first."""

    number: int
    """From 1."""
    ref: MessageRef
    sequence_number: int


@dataclass(frozen=True, slots=True)
class Step:
    """One message of the comparison; `old` is what a changed one was."""

    change: Change
    entry: Entry
    old: Entry | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """What the call was given, against the call before."""

    kept: int
    """Leading messages that are the same."""
    steps: tuple[Step, ...]
    """What follows them, in order."""
    why: str = ""
    """Why it could not be compared, or empty."""

    def number(self, change: Change) -> int:
        """How many messages there are of one kind."""
        found = sum(1 for step in self.steps if step.change == change)
        return found + (self.kept if change == "same" else 0)


def compare(kept: int, old: Sequence[Entry], new: Sequence[Entry]) -> Compared:
    """Compare what follows the first `kept` messages, which are known to be the same."""
    if max(len(old), len(new)) > DIFFERING_MAX:
        why = f"more than {count(DIFFERING_MAX)} messages differ in their order"
        return Compared(kept, tuple(Step("new", entry) for entry in new), why)
    matcher = SequenceMatcher(
        None, [e.ref.digest for e in old], [e.ref.digest for e in new], autojunk=False
    )
    steps: list[Step] = []
    for verb, a, b, c, d in matcher.get_opcodes():
        if verb == "equal":
            steps += [Step("same", entry) for entry in new[c:d]]
        elif verb == "replace":
            steps += _replaced(old[a:b], new[c:d])
        else:
            steps += [Step("dropped", entry) for entry in old[a:b]]
            steps += [Step("new", entry) for entry in new[c:d]]
    return Compared(kept, tuple(steps))


def _replaced(old: Sequence[Entry], new: Sequence[Entry]) -> list[Step]:
    """Messages of one role that follow each other in both are one message that changed."""
    steps: list[Step] = []
    waiting = list(old)
    for entry in new:
        at = next((i for i, one in enumerate(waiting) if one.ref.role == entry.ref.role), None)
        if at is None:
            steps.append(Step("new", entry))
            continue
        steps += [Step("dropped", one) for one in waiting[:at]]
        steps.append(Step("changed", entry, waiting[at]))
        waiting = waiting[at + 1 :]
    return steps + [Step("dropped", one) for one in waiting]


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the list: a message, or a stretch of messages that is left out (`gap`)."""

    kind: Literal["message", "gap"]
    change: Change = "same"
    number: int = 0
    """From 1; of a gap: its first message."""
    last: int = 0
    role: str = ""
    family: str = ""
    text: str = ""
    """The first line of the message, or what a gap says."""
    shown: Shown | None = None
    raw: Shown | None = None
    """Its bytes, where `shown` says in words what they hold."""
    runs: tuple[Run, ...] = ()
    """A changed message, against what it was."""
    absent: Absent | None = None
    size: str = ""
    title: str = ""
    seq: int | None = None
    """The boundary at which it was delivered first, where that is another."""
    blob: str = ""
    blob_later: bool = False
    """The blob holds more than the message, of later events too."""
    words: tuple[str, ...] = ()
    """Words of the reply that stand in it."""

    @property
    def sign(self) -> str:
        """How it differs, as one character."""
        return {"same": "=", "new": "+", "changed": "~", "dropped": "-"}[self.change]


ROLE_FAMILY = {"assistant": "model", "tool": "tool", "system": "control", "developer": "control"}


def folded(steps: Sequence[Step], *, only_changes: bool) -> list[Step | tuple[int, int]]:
    """The steps with long unchanged stretches as (first, last) numbers."""
    found: list[Step | tuple[int, int]] = []
    run: list[Step] = []

    def flush() -> None:
        if len(run) <= (0 if only_changes else SAME_RUN):
            found.extend(run)
        elif only_changes:
            found.append((run[0].entry.number, run[-1].entry.number))
        else:
            found.append(run[0])
            found.append((run[1].entry.number, run[-2].entry.number))
            found.append(run[-1])
        run.clear()

    for step in steps:
        if step.change == "same":
            run.append(step)
        else:
            flush()
            found.append(step)
    flush()
    return found


def line_diff(old: str, new: str) -> tuple[Run, ...]:
    """The lines that differ between two texts, each side bounded."""
    a, b = old.split("\n")[:LINES_MAX], new.split("\n")[:LINES_MAX]
    runs: list[Run] = []
    for verb, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if verb == "equal":
            kept = b[k:n]
            if len(kept) > 2:
                kept = [kept[0], f"… {plural(len(kept) - 2, 'line')} the same …", kept[-1]]
            runs.append(Run("", visible("\n".join(kept))))
            continue
        if j > i:
            runs.append(Run("del", visible("\n".join(f"- {line}" for line in a[i:j]))))
        if n > k:
            runs.append(Run("ins", visible("\n".join(f"+ {line}" for line in b[k:n]))))
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class Share:
    """The bytes of one role's messages, as a stretch of a bar in percent."""

    role: str
    family: str
    messages: int
    length: int
    x: str
    width: str


def shares(entries: Iterable[Entry]) -> tuple[Share, ...]:
    """Messages and bytes by role, in the order in which roles first appear."""
    sums: dict[str, tuple[int, int]] = {}
    for entry in entries:
        role = one_line(entry.ref.role, 20)
        number, length = sums.get(role, (0, 0))
        sums[role] = (number + 1, length + entry.ref.length)
    total = max(1, sum(length for _, length in sums.values()))
    found, at = [], 0.0
    for role, (number, length) in sums.items():
        width = 100 * length / total
        family = ROLE_FAMILY.get(role, "input")
        found.append(Share(role, family, number, length, f"{at:.2f}%", f"{width:.2f}%"))
        at += width
    return tuple(found)


#: Names, paths and numbers: what is repeated because it was read, rather than by chance.
_WORD = re.compile(r"[\w./:@-]*[\w/]", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z]+")


def telling_words(text: str) -> tuple[str, ...]:
    """Words of a reply that are worth looking for: of at least six characters, and not plain
    lower-case words, the longest first."""
    found = {
        word.strip("./:-")
        for word in _WORD.findall(text)
        if len(word) >= 6 and not (_PLAIN.fullmatch(word) and word[1:].islower())
    }
    longest = sorted((w for w in found if len(w) >= 6), key=lambda word: (-len(word), word))
    return tuple(longest[:WORDS_MAX])


def repeated(words: Sequence[str], text: str) -> tuple[str, ...]:
    """Those of the words that stand in a text, but none that is part of one already found."""
    found: list[str] = []
    for word in words:
        if word in text and not any(word in longer for longer in found):
            found.append(word)
            if len(found) >= WORDS_SHOWN:
                break
    return tuple(one_line(word, 60) for word in found)


def colourless(shown: Shown) -> Shown:
    """The same text in one piece: a list of many messages has no room for a node per colour."""
    if len(shown.segments) <= 1:
        return shown
    return replace(shown, segments=(Segment("".join(part.text for part in shown.segments)),))
