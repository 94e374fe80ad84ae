"""What an importer is, and the report every import ends with.

An importer reads one format. It is given a source (seekable bytes with a name), says how sure it
is that the source is its format, validates all of it, and builds well-formed events; it writes
nothing. The pipeline appends what it built, or nothing.

INVARIANTS
1. Everything a source can be refused for is found before anything is stored.
2. What the format cannot say is a `Gap` in the report, never a zero or an empty value.
3. Every figure of the report names the rule it was counted by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, Protocol

from core.errors import ImportRefused
from core.events.envelope import NewEvent
from core.events.fields import Payload, Usage
from ingest.redact import Tally

Outcome = Literal["imported", "appended", "unchanged", "conflict", "refused", "skipped"]

#: progress(bytes_done, bytes_total, events_done); called at least at the end of each stage.
Progress = Callable[[int, int, int], None]


def no_progress(bytes_done: int, bytes_total: int, events_done: int) -> None:
    """The progress callback of a caller who does not watch."""


@dataclass(frozen=True, slots=True)
class Sniff:
    """How sure an importer is that a source is its format, and why."""

    confidence: float
    """0 (not this format) to 1 (the source names the format itself)."""
    reason: str
    """One clause for a person: what in the bytes speaks for it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Something the source cannot say, so that no event says it either."""

    what: str
    why: str

    def plain(self) -> dict[str, object]:
        """As JSON."""
        return {"what": self.what, "why": self.why}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that was not imported: where it is and why."""

    where: str
    """A place in words: `line 3, column 7 (byte 120)`, `message 5`, a file name."""
    why: str
    line: int | None = None
    """1-based."""
    column: int | None = None
    """1-based, in characters."""
    offset: int | None = None
    """0-based byte."""
    around: str | None = None
    """The bytes around it, printable; what is not printable is escaped."""
    reason: str | None = None
    """A word for programs, where there is one."""

    @classmethod
    def of(cls, error: ImportRefused) -> Refusal:
        """The refusal that an importer raised."""
        data = error.data
        return cls(
            where=str(data.get("where") or "the whole file"),
            why=str(error),
            line=_whole(data.get("line")),
            column=_whole(data.get("column")),
            offset=_whole(data.get("offset")),
            around=str(data["around"]) if data.get("around") is not None else None,
            reason=str(data["reason"]) if data.get("reason") is not None else None,
        )

    def plain(self) -> dict[str, object]:
        """As JSON; absent parts are left out."""
        rest = {
            "line": self.line,
            "column": self.column,
            "offset": self.offset,
            "around": self.around,
            "reason": self.reason,
        }
        return {"where": self.where, "why": self.why} | {
            key: value for key, value in rest.items() if value is not None
        }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


@dataclass(slots=True)
class Tokens:
    """Tokens of all replies in four disjoint buckets; None: no reply states that kind."""

    input: int | None = None
    """Uncached input."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    unreported: int = 0
    """Replies whose tokens the source does not record; they are not zero, they are unknown."""

    def count(self, usage: Usage | None) -> None:
        """Add the tokens of one reply; None: the source does not record them."""
        if usage is None:
            self.unreported += 1
            return
        self.input = _sum(self.input, usage.input)
        self.output = _sum(self.output, usage.output)
        self.cache_read = _sum(self.cache_read, usage.cache_read)
        self.cache_write = _sum(self.cache_write, usage.cache_write)

    def plain(self) -> dict[str, int | None]:
        """The four buckets, as the JSON line states them."""
        return {
            "input": self.input,
            "output": self.output,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
        }


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else (so_far or 0) + more


@dataclass(slots=True)
class Findings:
    """What an importer noticed while it built events; becomes part of the report."""

    became: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(what it was in the source, event family) -> how many."""
    pairings: Counter[str] = field(default_factory=Counter)
    """Rule that paired a result with its call -> how many."""
    token_rules: Counter[str] = field(default_factory=Counter)
    """Rule a reply's tokens were counted by -> how many replies."""
    tokens: Tokens = field(default_factory=Tokens)
    gaps: dict[str, Gap] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Redactions and other things worth saying that are no gap."""

    def gap(self, what: str, why: str) -> None:
        """Note once that the source cannot say `what`."""
        self.gaps.setdefault(what, Gap(what, why))


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to import: seekable bytes that nobody else writes, with a name."""

    name: str
    """As shown to people; never opened again."""
    file: BinaryIO
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class BuiltEvent:
    """One event with its typed payload, and the bytes of that payload if it is a blob."""

    event: NewEvent
    payload: Payload
    blob: bytes | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept original of an earlier reading."""

    data: bytes
    digest: str
    """`sha256:...`"""
    items: int


@dataclass(frozen=True, slots=True)
class Built:
    """What a source holds of one trajectory, as events."""

    importer: str
    version: int
    trajectory_id: str
    title: str
    events: tuple[BuiltEvent, ...]
    """All of them, from the first; those of earlier readings are derived again, equal."""
    known: int
    """How many of the events the kept originals stand for."""
    segment: bytes | None
    """The original bytes this reading adds; None: it adds nothing."""
    segment_items: int
    findings: Findings
    state: Mapping[str, str] = field(default_factory=dict)
    """What the importer wants remembered for the next reading; small."""


class Parsed(Protocol):
    """A source read and validated, not yet built into events."""

    @property
    def layout(self) -> str:
        """The variant of the format that was found."""
        ...

    @property
    def items(self) -> int:
        """Native items (messages, lines)."""
        ...

    @property
    def lines(self) -> int:
        """Lines of the source."""
        ...

    @property
    def discriminator(self) -> str:
        """Tells apart two runs given under one name (digest of the task)."""
        ...

    def build(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of the whole source. `kept` are the originals of earlier readings, in order.

        Raises IntegrityConflict (data: `where`, `changed`: the events that contradict the kept
        ones) where the source no longer begins with what was kept; ImportRefused.
        """
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log format."""

    number: int
    """1-based, in the whole source."""
    start: int
    """First byte within its segment."""
    end: int
    """One past its last byte, without the line's end."""
    data: bytes
    """Without the line's end and without a byte order mark."""
    value: dict[str, Any] | None
    """The decoded object; None where the line could not be read."""
    why: str = ""
    """Why it could not be read."""
    kept: bool = True
    """False: it is too long; `data` says so in its place, and its bytes are not kept."""


@dataclass(frozen=True, slots=True)
class LogSegment:
    """Whole lines that follow those of the segment before it."""

    index: int
    """0-based."""
    blob: str
    """`sha256:...` of the segment's bytes, which are kept as one original."""
    length: int
    """Bytes."""
    offset: int
    """First byte within the whole source."""
    lines: tuple[Line, ...]
    """Without blank ones."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What one segment adds to one trajectory."""

    trajectory_id: str
    sub: str | None
    """None: the trajectory of the source itself; else the name of a sub-agent within it."""
    title: str
    events: tuple[BuiltEvent, ...]


class LogRun(Protocol):
    """One source of a log format while it is derived, segment after segment.

    The events of a segment follow from it and the segments before it, never from what comes
    after: a source read in one segment and one read in many hold the same facts, and a later
    segment only appends.
    """

    layout: str
    """The variant of the format, as the report names it; may become clear with the first lines."""
    findings: Findings

    def feed(self, segment: LogSegment) -> tuple[Grown, ...]:
        """What this segment adds, the source's own trajectory first; sub-agents only where they
        grew. An unreadable line becomes an `Unparsed` event."""
        ...


class LogImporter(Protocol):
    """One foreign format that is a growing file of JSON lines."""

    name: str
    version: int
    title: str

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """As `Importer.sniff`."""
        ...

    def native_id(self, head: bytes, name: str) -> str | None:
        """The source's own identity (a session id that its file name states), which is then its
        source id wherever it lies; None: its path is. `head` are the first bytes."""
        ...

    def stated_id(self, head: bytes, tail: bytes) -> str | None:
        """The identity that the source's first and last bytes state, in the form of `native_id`;
        None where they state none, or two. It is no source id: it tells that a file under another
        name may hold the same session."""
        ...

    def waiting(self, lines: tuple[Line, ...]) -> int:
        """How many of the last lines may still be added to (a reply written in parts) and are
        better read later while their writer is at work."""
        ...

    def start(self, source_id: str, name: str, companion: Callable[[str], bytes | None]) -> LogRun:
        """A run that has read nothing. `companion(suffix)` gives the bytes of a small file beside
        the source whose name is the source's without `.jsonl` and with `suffix`, or None."""
        ...


class Importer(Protocol):
    """One foreign format."""

    name: str
    """Part of every event id; never changes."""
    version: int
    """Major version of the mapping: another version makes another revision of a trajectory."""
    title: str
    """For people."""

    def sniff(self, head: bytes, tail: bytes, name: str) -> Sniff | None:
        """From the first and last bytes and the name; None: certainly not this format."""
        ...

    def parse(self, source: Source) -> Parsed:
        """Read and validate everything; ImportRefused says where and why."""
        ...

    def rebuild(self, source_id: str, kept: tuple[Kept, ...]) -> Built:
        """Events of the kept originals alone, all of them known."""
        ...


@dataclass(slots=True)
class TrajectoryReport:
    """What became of one trajectory."""

    id: str
    title: str
    outcome: Outcome
    events: int
    """Events of this source that the store now holds."""
    appended: int
    head: int
    chain: str
    """`sha256:...` of the chain value at the head."""

    def plain(self) -> dict[str, object]:
        """The four fields of the JSON line."""
        return {"id": self.id, "events": self.events, "head": self.head, "chain": self.chain}


@dataclass(slots=True)
class Report:
    """What one file became, for the page, the API and the command."""

    path: str
    format: str | None = None
    """`mini-swe-agent 2.x`, ...; None if no importer knows it."""
    format_why: str = ""
    outcome: Outcome = "refused"
    bytes_read: int = 0
    """Without what waits."""
    lines_read: int = 0
    items: int = 0
    trajectories: list[TrajectoryReport] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    source: str | None = None
    """What the file is remembered as; None where the format alone decides."""
    waiting_lines: int = 0
    """Last lines of a log format that are not taken yet: one unfinished, or a reply in parts."""
    waiting_bytes: int = 0
    """Bytes of the unfinished one."""
    known_bytes: int | None = None
    """Bytes of a log format that are taken in by now; None: another format, read whole."""
    segments: int = 0
    """Kept originals of a log format."""
    redacted: Tally = field(default_factory=Tally)
    """What was hidden in the source so far, by rule."""
    rules: str = ""
    """The rules this reading hid secrets by (redact.Rules.mark); `0`: none, as was asked."""
    elapsed_us: int = 0

    @property
    def ok(self) -> bool:
        """Nothing of the file was refused."""
        return self.outcome in ("imported", "appended", "unchanged", "skipped")

    def line(self) -> dict[str, Any]:
        """The documented JSON line of `strandline import --json`."""
        waiting = {"lines": self.waiting_lines, "bytes": self.waiting_bytes}
        waits = {"waiting": waiting} if self.waiting_lines else {}
        return {
            "path": self.path,
            "format": self.format,
            "trajectories": [trajectory.plain() for trajectory in self.trajectories],
            "refused": [{"where": item.where, "why": item.why} for item in self.refused],
            "tokens": self.findings.tokens.plain(),
        } | waits

    def document(self) -> dict[str, Any]:
        """Everything the report knows, as JSON: the page and the API show this."""
        found = self.findings
        return {
            "path": self.path,
            "format": self.format,
            "format_why": self.format_why,
            "outcome": self.outcome,
            "bytes_read": self.bytes_read,
            "lines_read": self.lines_read,
            "items": self.items,
            "trajectories": [
                trajectory.plain()
                | {
                    "title": trajectory.title,
                    "outcome": trajectory.outcome,
                    "appended": trajectory.appended,
                }
                for trajectory in self.trajectories
            ],
            "refused": [refusal.plain() for refusal in self.refused],
            "tokens": found.tokens.plain() | {"unreported_replies": found.tokens.unreported},
            "token_rules": dict(found.token_rules),
            "pairings": dict(found.pairings),
            "became": [
                {"source": source, "family": family, "count": count}
                for (source, family), count in found.became.items()
            ],
            "gaps": [gap.plain() for gap in found.gaps.values()],
            "notes": list(found.notes),
            "source": self.source,
            "redacted": {
                "rules": self.rules,
                "places": dict(self.redacted.places),
                "bytes": self.redacted.bytes,
            },
            "waiting": {"lines": self.waiting_lines, "bytes": self.waiting_bytes},
            "known_bytes": self.known_bytes,
            "segments": self.segments,
            "elapsed_us": self.elapsed_us,
        }
