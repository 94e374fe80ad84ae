"""Tab *Evidence*: digests, chain, the bytes an event names, its original, refused writes."""

from __future__ import annotations

from dataclasses import dataclass

from app.pages import reading
from app.pages.tabs.reads import Reads
from app.presenters.sources import Hidden, hidden
from app.presenters.standing import CannotSay, cannot_say
from app.presenters.terminal import Shown, plain
from core.canonical import digest_text
from core.events.envelope import BlobRef, Event
from ingest.logs import marks_of, tally_of
from ingest.redact import marks
from store.ports import ImportSource, LedgerRow

LEDGER_ROWS = 20
REFS_SHOWN = 40
HIDDEN_SHOWN = 20
_EXCERPT_CHARS = 4000

#: What a verification that was just made says: a sentence, and what does not verify.
Verified = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BlobLine:
    """One blob an event names, and whether its bytes are here."""

    ref: BlobRef
    role: str
    state: str


@dataclass(frozen=True, slots=True)
class EvidencePanel:
    """What proves this boundary, and what was refused beside it."""

    digest: str
    chain: str
    payload_digest: str
    payload_length: int
    blobs: tuple[BlobLine, ...]
    blobs_left_out: int
    ledger: tuple[LedgerRow, ...]
    sources: tuple[ImportSource, ...]
    original: BlobRef | None
    excerpt: Shown | None
    excerpt_why: str
    cannot: tuple[CannotSay, ...]
    hidden: tuple[Hidden, ...] = ()
    """Of each source: whether secrets were looked for, and how often one was hidden."""
    hidden_here: tuple[tuple[str, int], ...] = ()
    """Redacted places of this event's original that is shown: (rule, byte of the original)."""
    verified: str = ""
    findings: tuple[str, ...] = ()
    beside: bool = True
    """What is kept beside the log, as of now, is shown: sources and refused writes."""
    whole_later: bool = False
    """The whole original holds bytes of later events, too."""


def load(reads: Reads, verified: Verified | None = None) -> EvidencePanel | None:
    """The panel; None at boundary 0, which no event stands behind."""
    runtime, who, place = reads.runtime, reads.who, reads.place
    if place.seq == 0:
        return None
    event = runtime.event(who, place.trajectory_id, place.seq)
    refs = (*((event.payload_ref,) if event.payload_ref is not None else ()), *event.refs)
    blobs = tuple(
        BlobLine(ref, ref.role, runtime.blob_state(who, ref.digest)) for ref in refs[:REFS_SHOWN]
    )
    original, excerpt, why = _original(reads, event)
    sources = tuple(runtime.sources(who, place.trajectory_id))
    ledger = runtime.ledger(who, trajectory_id=place.trajectory_id, limit=LEDGER_ROWS, newest=True)
    foreign = reads.head.standing in ("imported", "replica")
    return EvidencePanel(
        digest=digest_text(event.digest),
        chain=digest_text(event.chain),
        payload_digest=digest_text(event.payload_digest),
        payload_length=event.payload_length,
        blobs=blobs,
        blobs_left_out=max(0, len(refs) - REFS_SHOWN),
        ledger=tuple(ledger),
        sources=sources,
        hidden=hidden_in(sources),
        hidden_here=_hidden_here(reads, original) if excerpt is not None else (),
        original=original,
        excerpt=excerpt,
        excerpt_why=why,
        cannot=cannot_say(reads.record.scope.capabilities) if foreign else (),
        verified=verified[0] if verified else "",
        findings=verified[1] if verified else (),
        beside=not reads.sealed,
        whole_later=original is not None
        and original.end is not None
        and original.end < original.length
        and not reads.at_head,
    )


def hidden_in(sources: tuple[ImportSource, ...]) -> tuple[Hidden, ...]:
    """What redaction did to each source."""
    return tuple(
        hidden(
            dict(tally_of(source).places),
            sum(mark == "0" for mark in marks_of(source)),
            len(source.segments),
        )
        for source in sources
    )


def _hidden_here(reads: Reads, original: BlobRef | None) -> tuple[tuple[str, int], ...]:
    if original is None:
        return ()
    start = original.start or 0
    end = original.end if original.end is not None else original.length
    data = reads.runtime.blob_range(
        reads.who, original.digest, start, min(end, start + reading.READ_BYTES)
    )
    return tuple((one.rule or "a rule", start + one.start) for one in marks(data)[:HIDDEN_SHOWN])


def _original(reads: Reads, event: Event) -> tuple[BlobRef | None, Shown | None, str]:
    """The event's original bytes: where they are, their beginning, or why it is not shown."""
    original = reading.original_of(event)
    if original is None:
        return None, None, ""
    start = original.start or 0
    end = original.end if original.end is not None else original.length
    text = reading.excerpt(reads.runtime, reads.who, original.digest, start, end)
    if text.value is None:
        return original, None, text.reason
    shown = plain(text.value, _EXCERPT_CHARS)
    return original, Shown(shown.segments, max(end - start, shown.shown), shown.shown), ""
