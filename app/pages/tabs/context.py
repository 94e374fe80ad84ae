"""Tab *Context*: exactly what a model call was given, how sure that is, and what differs from the
call before. The call is that of the event at the boundary, else the newest one up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.pages import manifests
from app.pages.manifests import Built, Manifest
from app.pages.tabs.reads import Reads
from app.presenters import context, messages, payloads
from app.presenters.context import Compared, Entry, Line, Share, Step
from app.presenters.diffs import Run
from app.presenters.format import count, plural, short_digest, size
from app.presenters.payloads import Absent, Row, Text
from app.presenters.terminal import Shown, one_line, terminal
from core.errors import StrandlineError
from core.events.envelope import Event
from core.events.fields import MessageRef, Usage
from core.events.marks import Mark
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.tool import ToolIntent

#: Messages listed at once; each is read, cut at MESSAGE_CHARS, and about 12 nodes.
WINDOW = 60
#: In a page that leaves this place, which has no second window.
SEALED_WINDOW = 400
MESSAGE_CHARS = 3_000
#: Messages whose texts are searched for words of the reply, the newest first.
SEARCHED_MAX = 200
#: Manifests up to this long are checked against their digest for the page.
CHECKED_MAX = 2_000
TOOLS_SHOWN = 60
PARAMETERS_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Exactness:
    """The claim of EVT-2 with what it rests on."""

    word: str
    """exact, rebuilt or partial, with its redactions."""
    grade: str
    reason: str
    checked: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, as far as it is known at the boundary."""

    sequence_number: int | None = None
    later: int | None = None
    status: str = ""
    rows: tuple[Row, ...] = ()
    asks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool description that was delivered."""

    name: str
    size: str
    shown: Shown | None
    why: str


@dataclass(frozen=True, slots=True)
class ContextPanel:
    """What one model call was given."""

    built: int = 0
    """Sequence number of its ContextBuilt; 0: none up to here."""
    why: str = ""
    """Why there is nothing to show."""
    kind: str = "never"
    invocation: str = ""
    own: bool = True
    """The event at the boundary belongs to this call."""
    total: int = 0
    tokens: int | None = None
    exact: Exactness | None = None
    shares: tuple[Share, ...] = ()
    shared: int = 0
    """Messages that `shares` covers."""
    lines: tuple[Line, ...] = ()
    first: int = 0
    last: int = 0
    """Messages of the window that lists all; 0: another view."""
    previous: int | None = None
    previous_call: str = ""
    compared: Compared | None = None
    previous_tokens: int | None = None
    dropped: int = 0
    """Messages that the sender says it left out."""
    compacted: tuple[int, ...] = ()
    """Summaries made since the call before."""
    parameters: tuple[Row, ...] = ()
    tools: tuple[Tool, ...] = ()
    tools_total: int = 0
    reply: Reply = field(default_factory=Reply)
    searched: int = 0
    """Messages in which words of the reply were looked for."""
    words: int = 0
    unreached: int = 0
    """Messages at the beginning that this page did not read."""
    unreached_why: str = ""
    unreached_at: int | None = None


def load(reads: Reads) -> ContextPanel:
    """The panel; an input that is not recorded or cannot be read is said to be."""
    if reads.place.seq == 0:
        return ContextPanel(why="Nothing was delivered yet: it is the base record.", kind="empty")
    try:
        built, own = _call(reads)
    except StrandlineError as error:
        return ContextPanel(why=f"cannot be read: {error}", kind="unknown")
    if built is None:
        held = reads.record.scope.capabilities.exact_inputs
        if held == "absent":
            return ContextPanel(why="never recorded: the source keeps no delivered inputs")
        return ContextPanel(why="No model call has been given anything up to here.", kind="empty")
    return _panel(reads, built, own=own)


def _call(reads: Reads) -> tuple[Built | None, bool]:
    """The call to show, and whether the event at the boundary is part of it."""
    runtime, who, place = reads.runtime, reads.who, reads.place
    known = manifests.calls(runtime)
    event = reads.event()
    if event.invocation_id is not None:
        of_event = known.of(
            runtime, who, place.trajectory_id, event.invocation_id, upto=event.sequence_number
        )
        if of_event is not None:
            return of_event, True
    newest = reads.record.context.sequence_number
    if not newest:
        return manifests.newest(runtime, who, place.trajectory_id, place.seq + 1), False
    return known.at(runtime, who, place.trajectory_id, newest), False


def _panel(reads: Reads, built: Built, *, own: bool) -> ContextPanel:
    runtime, who, place = reads.runtime, reads.who, reads.place
    payload = built.payload
    manifest = Manifest(runtime, who, built)
    invocation = built.event.invocation_id or built.event.event_id
    related = _related(reads, invocation, built.sequence_number)
    reply, reply_text = _reply(reads, related)
    previous = manifests.newest(runtime, who, place.trajectory_id, built.sequence_number)
    compared = _compare(reads, manifest, previous) if previous is not None else None
    words = context.telling_words(reply_text) if place.ctx == "repeated" else ()
    lines, window = _lines(reads, manifest, compared, words)
    manifest.reach(1)
    found = [manifest.found[number] for number in sorted(manifest.found)]
    found = [entry for entry in found if entry.number <= payload.count]
    tools = _tools(reads, payload)
    return ContextPanel(
        built=built.sequence_number,
        invocation=invocation,
        own=own,
        total=payload.count,
        tokens=payload.input_tokens,
        exact=_exactness(reads, manifest),
        shares=context.shares(found),
        shared=len(found),
        lines=lines,
        first=window[0],
        last=window[1],
        previous=previous.sequence_number if previous is not None else None,
        previous_call=(previous.event.invocation_id or "") if previous is not None else "",
        compared=compared,
        previous_tokens=previous.payload.input_tokens if previous is not None else None,
        dropped=payload.dropped,
        compacted=_compactions(reads, previous, built),
        parameters=_parameters(payload),
        tools=tools,
        tools_total=len(payload.tools),
        reply=reply,
        searched=min(len(found), SEARCHED_MAX) if words else 0,
        words=len(words),
        unreached=max(0, payload.count - len(found)),
        unreached_why="" if manifest.further_at else one_line(manifest.ended, 200),
        unreached_at=manifest.further_at,
    )


# ---- comparison --------------------------------------------------------------------------


def _compare(reads: Reads, manifest: Manifest, previous: Built) -> Compared:
    """This call's messages against those of the call before it in the log."""
    payload = manifest.built.payload
    before = Manifest(reads.runtime, reads.who, previous)
    base = manifests.calls(reads.runtime).base(reads.runtime, reads.who, manifest.built)
    if base is not None and base.sequence_number == previous.sequence_number:
        kept = min(payload.kept, before.total)
        old = before.entries(kept + 1, before.total)
        if len(old) < before.total - kept:
            return Compared(kept, (), f"what it dropped cannot be read: {_ended(before)}")
        return context.compare(kept, old, manifest.entries(kept + 1, payload.count))
    # Neither extends the other: both are read whole, as far as the page may.
    new, old = manifest.entries(1, payload.count), before.entries(1, before.total)
    if len(new) < payload.count:
        return Compared(0, (), f"this call cannot be read whole: {_ended(manifest)}")
    if len(old) < before.total:
        return Compared(0, (), f"the call before cannot be read whole: {_ended(before)}")
    kept = 0
    for one, other in zip(old, new, strict=False):
        if one.ref.digest != other.ref.digest:
            break
        kept += 1
    return context.compare(kept, old[kept:], new[kept:])


def _ended(manifest: Manifest) -> str:
    if manifest.ended == "further":
        return f"its messages lie more than {manifests.HOPS_MAX} calls back"
    return manifest.ended or "its event names fewer messages than it counts"


# ---- rows --------------------------------------------------------------------------------


def _lines(
    reads: Reads, manifest: Manifest, compared: Compared | None, words: Sequence[str]
) -> tuple[tuple[Line, ...], tuple[int, int]]:
    """The rows of the chosen view, and the window of messages where it lists all."""
    place, total = reads.place, manifest.total
    comparable = compared is not None and not compared.why
    if place.ctx == "repeated":
        return _repeated(reads, manifest, words), (0, 0)
    if place.ctx == "all" or place.m is not None or not comparable:
        window = SEALED_WINDOW if reads.sealed else WINDOW
        first = place.m if place.m is not None else max(1, total - window + 1)
        first = max(1, min(first, max(1, total)))
        last = min(total, first + window - 1)
        fresh = _changes(compared)
        rows = [
            _message(reads, Step(fresh.get(entry.number, "same"), entry))
            for entry in manifest.entries(first, last)
        ]
        return tuple(rows), (first, last) if total else (0, 0)
    assert compared is not None
    return _differing(reads, manifest, compared, only=place.ctx == "only"), (0, 0)


def _changes(compared: Compared | None) -> dict[int, context.Change]:
    if compared is None:
        return {}
    return {step.entry.number: step.change for step in compared.steps if step.change != "dropped"}


def _differing(
    reads: Reads, manifest: Manifest, compared: Compared, *, only: bool
) -> tuple[Line, ...]:
    """What differs, with the first messages before it and the long rest folded."""
    steps = list(compared.steps)
    rows: list[Line] = []
    if compared.kept:
        opening = [] if only else manifest.entries(1, min(2, compared.kept))
        rows += [_message(reads, Step("same", entry)) for entry in opening]
        from_ = len(opening) + 1
        closing: list[Entry] = []
        if not only and compared.kept - from_ >= 1:
            closing = manifest.entries(compared.kept, compared.kept)
        to = compared.kept - len(closing)
        if to >= from_:
            rows.append(_gap(from_, to))
        rows += [_message(reads, Step("same", entry)) for entry in closing]
    listed = context.folded(steps, only_changes=only)
    for item in listed[:WINDOW]:
        rows.append(_message(reads, item) if isinstance(item, Step) else _gap(*item))
    if len(listed) > WINDOW:
        rest = next((i.entry.number for i in listed[WINDOW:] if isinstance(i, Step)), 1)
        rows.append(
            Line(
                "gap",
                number=rest,
                last=manifest.total,
                text=plural(len(listed) - WINDOW, "more row"),
            )
        )
    return tuple(rows)


def _gap(first: int, last: int) -> Line:
    return Line("gap", number=first, last=last, text="the same as in the call before")


def _repeated(reads: Reads, manifest: Manifest, words: Sequence[str]) -> tuple[Line, ...]:
    """The messages that hold words of the reply, the newest first."""
    if not words:
        return ()
    total = manifest.total
    rows: list[Line] = []
    read = reads.read
    for entry in reversed(manifest.entries(max(1, total - SEARCHED_MAX + 1), total)):
        text = _text(entry.ref, read)
        hits = context.repeated(words, text.value) if text.value is not None else ()
        if hits:
            rows.append(_message(reads, Step("same", entry), words=hits))
            if len(rows) >= WINDOW:
                break
    return tuple(rows)


def _text(ref: MessageRef, read: payloads.Reader) -> Text:
    return Text(ref.text) if ref.text is not None else read(ref)


def _message(reads: Reads, step: Step, *, words: tuple[str, ...] = ()) -> Line:
    entry, ref, read = step.entry, step.entry.ref, reads.read
    text = _text(ref, read)
    role = one_line(ref.role, 20)
    runs: tuple[Run, ...] = ()
    if step.old is not None and text.value is not None:
        was = _text(step.old.ref, read)
        if was.value is not None:
            runs = context.line_diff(*_both(was.value, text.value, reads.tool_of))
    absent: Absent | None = None
    shown: Shown | None = None
    raw: Shown | None = None
    first = ""
    if text.value is None:
        kind = text.absent or "unknown"
        absent = Absent(kind, text.reason)  # type: ignore[arg-type]
    else:
        shown = context.colourless(terminal(text.value, MESSAGE_CHARS))
        first = messages.first_line(text.value, role)
        said = messages.said(text.value, reads.tool_of)
        if said is not None:
            shown, raw = context.colourless(terminal(said.text, MESSAGE_CHARS)), shown
            first = said.line
    return Line(
        "message",
        step.change,
        entry.number,
        entry.number,
        role,
        context.ROLE_FAMILY.get(role, "input"),
        first or ("empty" if text.value == "" else ""),
        shown,
        raw,
        runs,
        absent,
        size(ref.length),
        ref.digest,
        entry.sequence_number,
        ref.blob or "",
        ref.start is not None and not reads.at_head,
        words,
    )


def _both(was: str, now: str, tool_of: messages.ToolOf) -> tuple[str, str]:
    """Two states of a message to be set against each other: in words where both have a shape."""
    old, new = messages.said(was, tool_of), messages.said(now, tool_of)
    return (old.text, new.text) if old is not None and new is not None else (was, now)


# ---- what else was sent, and what came back -----------------------------------------------


def _exactness(reads: Reads, manifest: Manifest) -> Exactness:
    """How exact the claim is (EVT-2), why, and whether its digest was derived again here."""
    payload = manifest.built.payload
    word: str = payload.claim
    if payload.redactions:
        word += f" but for {plural(payload.redactions, 'redaction')}"
    if payload.claim == "exact":
        grade, reason = "established", "its manifest rebuilds the request body as it was sent"
        if payload.wire_digest is None:
            reason += "; the digest of the body on the wire was not recorded"
        else:
            reason += f"; the body on the wire had {short_digest(payload.wire_digest)}"
    elif payload.claim == "rebuilt":
        grade, reason = "unknown", "the parts are known, the bytes as they were sent are not"
        if reads.record.scope.capabilities.exact_inputs == "derived":
            reason += ": they are the messages the source holds before the reply"
    else:
        grade, reason = "unknown", "some of what was sent is not known"
        bare = sum(1 for e in manifest.found.values() if e.ref.text is None and e.ref.blob is None)
        if bare:
            reason += f": of {plural(bare, 'message')} only the digest is kept"
    return Exactness(word, grade, reason, _checked(manifest))


def _checked(manifest: Manifest) -> str:
    if manifest.total > CHECKED_MAX:
        return f"its manifest digest was not derived again: over {count(CHECKED_MAX)} messages"
    agrees = manifest.checks()
    if agrees is None:
        return "its manifest digest was not derived again: not all messages are within reach"
    if agrees:
        return "its manifest digest is that of these messages, derived again here"
    return "its manifest digest is NOT that of these messages"


def _related(reads: Reads, invocation: str, built: int) -> list[Event]:
    """What follows the input under its call, up to where the call is given another one."""
    upto = reads.place.seq if reads.sealed else None
    found = reads.runtime.invocation_events(
        reads.who, reads.place.trajectory_id, invocation, upto=upto
    )
    after = [event for event in found if event.sequence_number > built]
    until = next((at for at, event in enumerate(after) if event.type == "ContextBuilt"), len(after))
    return after[:until]


def _reply(reads: Reads, events: Sequence[Event]) -> tuple[Reply, str]:
    """The reply up to the boundary, and the text it says and asks with; a later one is a link."""
    here = reads.place.seq
    replies = [event for event in events if event.type == "ModelReplied"]
    known = [event for event in replies if event.sequence_number <= here]
    if not known:
        return Reply(later=replies[0].sequence_number if replies else None), ""
    said: list[str] = []
    asks: list[str] = []
    rows = payloads.Rows()
    status, usage = "", Usage()
    reported = False
    for event in known:
        try:
            payload = reads.runtime.typed(reads.who, event)
        except StrandlineError as error:
            rows.absent("Reply", "unknown", f"cannot be read: {one_line(str(error), 160)}")
            continue
        if not isinstance(payload, ModelReplied):
            continue
        status = payload.status
        said.append(payload.text or "")
        asks += [call.tool for call in payload.tool_calls]
        if payload.usage is not None:
            reported, usage = True, _added(usage, payload.usage)
    payloads.usage_rows(rows, usage if reported else None)
    if reported:
        _cache_row(rows, usage)
    for event in events:
        if event.type == "ToolIntent" and event.sequence_number <= here:
            said.append(_arguments(reads, event))
    return (
        Reply(
            known[0].sequence_number,
            None,
            status,
            tuple(rows.rows),
            tuple(one_line(tool, 40) for tool in asks[:12]),
        ),
        "\n".join(said),
    )


def _added(a: Usage, b: Usage) -> Usage:
    def plus(x: int | None, y: int | None) -> int | None:
        return None if x is None and y is None else (x or 0) + (y or 0)

    return Usage(
        plus(a.input, b.input),
        plus(a.output, b.output),
        plus(a.cache_read, b.cache_read),
        plus(a.cache_write, b.cache_write),
    )


def _cache_row(rows: payloads.Rows, usage: Usage) -> None:
    """How much of the prompt came from a cache, where both are stated."""
    if usage.cache_read is None or usage.input is None:
        return
    prompt = usage.input + usage.cache_read + (usage.cache_write or 0)
    if prompt:
        rows.add(
            "Of the prompt",
            f"{count(prompt)} tokens, {100 * usage.cache_read // prompt} % read from a cache",
        )


def _arguments(reads: Reads, event: Event) -> str:
    try:
        payload = reads.runtime.typed(reads.who, event)
    except StrandlineError:
        return ""
    return payloads.compact_json(payload.arguments) if isinstance(payload, ToolIntent) else ""


def _compactions(reads: Reads, previous: Built | None, built: Built) -> tuple[int, ...]:
    """Summaries made between the two calls, the newest few."""
    found: list[int] = []
    at, floor = built.sequence_number, previous.sequence_number if previous is not None else 0
    while len(found) < 4:
        at_ = reads.runtime.neighbour(
            reads.who,
            reads.place.trajectory_id,
            marks=(int(Mark.COMPACTED),),
            sequence_number=at,
            forward=False,
        )
        if at_ is None or at_ <= floor:
            break
        found.append(at_)
        at = at_
    return tuple(found)


def _parameters(payload: ContextBuilt) -> tuple[Row, ...]:
    rows = payloads.Rows()
    if payload.model is None:
        rows.absent("model", "never", "not named in the request")
    rows.add("model", payload.model, code=True)
    for key, value in list((payload.request or {}).items())[:PARAMETERS_SHOWN]:
        name = one_line(str(key), 40)
        if value is None or value in ("", [], {}):
            rows.absent(name, "empty", "null" if value is None else "empty")
        else:
            rows.add(name, value, code=True)
    if payload.request is None:
        rows.absent("parameters", "never", "not captured: the source states none")
    return tuple(rows.rows)


def _tools(reads: Reads, payload: ContextBuilt) -> tuple[Tool, ...]:
    read = reads.read
    found = []
    for ref in payload.tools[:TOOLS_SHOWN]:
        text = _text(ref, read)
        name = one_line(text.value or ref.role, 80)
        shown = context.colourless(terminal(text.value, 1_000)) if text.value else None
        found.append(Tool(name, size(ref.length), shown, text.reason))
    return tuple(found)
