"""The record at a boundary as lines to read: sections, the values in them, and what changed here.

INVARIANTS
1. Every value shown is in the record; what changed is the difference of two records, by path.
2. An old value is shown only beside the path it belonged to.
3. What the source cannot say is an absence with its reason, never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.presenters.format import amount, count, exact, outcome, plural, short_digest
from app.presenters.payloads import compact_json
from app.presenters.terminal import one_line
from core.record.archive import APPROVAL, CALL, OPERATION, RESERVATION
from core.record.record import (
    Account,
    Approval,
    Call,
    Operation,
    Reservation,
    TrajectoryRecord,
)

#: Open operations, reservations and approvals listed by value; the rest is counted.
OPEN_MAX = 40
CHANGES_MAX = 300
#: Open ones read out of the archive, when asked for.
ARCHIVED_MAX = 200
OWED_KINDS = frozenset({APPROVAL, CALL, OPERATION, RESERVATION})
COUNTS = "events so far"


@dataclass(frozen=True, slots=True)
class Changed:
    """One path whose value differs between two boundaries; None: not there."""

    path: str
    old: str | None
    new: str | None
    was: str = ""
    """The old value as people read it."""
    now: str = ""


@dataclass(frozen=True, slots=True)
class Owed:
    """One operation without an outcome, or one approval without a decision."""

    what: str
    name: str
    tool: str
    word: str
    """The grade of an operation; `undecided` for an approval."""
    reason: str
    generation: int
    worker: str
    since: int


@dataclass(frozen=True, slots=True)
class Value:
    """One key with its value; `old` where it changed here."""

    key: str
    text: str
    old: str | None = None
    absent: str = ""
    seq: int | None = None
    mark: str = ""
    """A grade's word, shown as its mark."""
    title: str = ""
    fresh: bool = False
    """It was not there before this boundary."""


@dataclass(frozen=True, slots=True)
class StateLine:
    """One line of values; `tone` is chg, add or empty; `depth` indents."""

    values: tuple[Value, ...]
    tone: str = ""
    depth: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One slice of the record."""

    name: str
    lines: tuple[StateLine, ...]
    changed: bool
    note: str = ""
    more: bool = False
    """Older ones lie in the archive; the page leads to them."""


@dataclass(frozen=True, slots=True)
class Graded:
    """A grade with its basis and reason, as core.rules.grades gives it."""

    word: str
    basis: str
    reason: str
    unsettled: bool


class _Changes:
    """Old values by path, and which paths were touched."""

    def __init__(self, changes: Sequence[Changed]) -> None:
        self.old = {change.path: change for change in changes}
        self.touched = sorted(self.old)

    def under(self, prefix: str) -> bool:
        return any(path == prefix or path.startswith(prefix + ".") for path in self.touched)

    def tone(self, prefix: str) -> str:
        whole = self.old.get(prefix)
        if whole is not None and whole.old is None:
            return "add"
        return "chg" if self.under(prefix) else ""


def sections(
    record: TrajectoryRecord,
    changes: Sequence[Changed],
    grades: Mapping[str, Graded],
    *,
    only_changed: bool,
    control: str = "",
    explained: bool = False,
    covers: Mapping[str, str] | None = None,
) -> tuple[Section, ...]:
    """The record's slices in reading order; `only_changed` leaves out untouched ones. `control`
    says its control state, where the state's own word would claim too much; `explained`: the
    reasons of what is unsettled stand beside it, and are not said twice. `covers` says by operation
    id what an outcome holds for, where that is not the whole of it."""
    seen = _Changes(changes)
    made = (
        _control(record, seen, control or record.control.state),
        _ownership(record, seen),
        _progress(record, seen),
        _workspace(record, seen),
        _operations(record, seen, grades, covers or {}, explained=explained),
        _calls(record, seen),
        _budget(record, seen),
        _approvals(record, seen),
        _plan(record, seen),
        _context(record, seen),
        _recovery(record, seen),
        _counts(record, seen),
    )
    shown = [section for section in made if section.lines]
    if not only_changed:
        return tuple(shown)
    kept = []
    for section in shown:
        lines = tuple(_touched(section, line) for line in section.lines if line.tone)
        if lines:
            kept.append(Section(section.name, lines, True, section.note, section.more))
    return tuple(kept)


def _touched(section: Section, line: StateLine) -> StateLine:
    """The line; of the event counts only those that changed."""
    if section.name != COUNTS:
        return line
    values = tuple(value for value in line.values if value.old is not None or value.fresh)
    return StateLine(values, line.tone, line.depth, line.why)


def _value(seen: _Changes, path: str, key: str, value: object, **more: object) -> Value:
    change = seen.old.get(path)
    old = change.old if change is not None and change.old is not None else None
    fresh = change is not None and change.old is None
    return Value(key, _text(value), old=_old(old), fresh=fresh, **more)  # type: ignore[arg-type]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return one_line(value, 200) if isinstance(value, str) else one_line(compact_json(value), 200)


def _old(old: str | None) -> str | None:
    if old is None:
        return None
    bare = old[1:-1] if len(old) > 1 and old.startswith('"') and old.endswith('"') else old
    return count(int(bare)) if bare.lstrip("-").isdigit() and len(bare) < 17 else one_line(bare, 80)


def _line(seen: _Changes, values: Sequence[Value], *paths: str, depth: int = 0) -> StateLine:
    tones = [seen.tone(path) for path in paths]
    tone = "chg" if "chg" in tones or "add" in tones else ""
    return StateLine(tuple(values), tone, depth)


def _section(
    name: str, lines: Sequence[StateLine], note: str = "", *, more: bool = False
) -> Section:
    return Section(name, tuple(lines), any(line.tone for line in lines), note, more)


def _listed(held: int, spilled: int, what: str) -> str:
    """How many of the open ones are listed, where not all are."""
    shown, whole = min(held, OPEN_MAX), held + spilled
    if shown == whole:
        return ""
    older = f"; {count(spilled)} older ones are archived" if spilled else ""
    return f"{count(shown)} of {count(whole)} open {what} listed, the newest{older}"


def _control(r: TrajectoryRecord, seen: _Changes, said: str) -> Section:
    c = r.control
    values = [
        _value(seen, "control.state", "state", said),
        _value(seen, "control.control_epoch", "control_epoch", c.control_epoch),
        _value(seen, "control.record_version", "record_version", c.record_version),
    ]
    if c.detail:
        values.append(_value(seen, "control.detail", "detail", c.detail))
    if c.since_sequence:
        values.append(Value("since", count(c.since_sequence), seq=c.since_sequence))
    lines = [_line(seen, values, "control")]
    if c.reason:
        lines.append(
            _line(seen, [_value(seen, "control.reason", "reason", c.reason)], "control.reason")
        )
    if r.blocked is not None:
        lines.append(
            _line(
                seen,
                [
                    Value(
                        "not folded from",
                        f"{count(r.blocked.sequence_number)}: {one_line(r.blocked.type)} version "
                        f"{r.blocked.schema_version} is not known to this version",
                        mark="unknown",
                        seq=r.blocked.sequence_number,
                    )
                ],
                "blocked",
            )
        )
    return _section("control", lines)


def _ownership(r: TrajectoryRecord, seen: _Changes) -> Section:
    o = r.ownership
    if not o.grants and not o.owner_epoch:
        if r.scope.capabilities.ownership == "absent" and r.scope.standing == "imported":
            return _section(
                "ownership",
                [StateLine((Value("", "", absent="no generations and no leases in the source"),))],
            )
        return _section("ownership", [])
    values = [
        _value(seen, "ownership.owner_epoch", "owner_epoch", o.owner_epoch),
        _value(seen, "ownership.worker", "worker", o.worker or "none"),
        _value(seen, "ownership.cause", "cause", o.cause or "none"),
        Value("since", count(o.since_sequence), seq=o.since_sequence or None),
    ]
    return _section("ownership", [_line(seen, values, "ownership")])


def _progress(r: TrajectoryRecord, seen: _Changes) -> Section:
    p = r.progress
    values = [
        _value(seen, "progress.step", "step", p.step),
        _value(seen, "progress.high_water", "high_water", p.high_water),
        _value(seen, "progress.executed", "executed", p.executed),
    ]
    return _section("progress", [_line(seen, values, "progress")])


def _workspace(r: TrajectoryRecord, seen: _Changes) -> Section:
    w = r.workspace
    if w.root is None and not w.changes:
        return _section(
            "workspace",
            [
                StateLine(
                    (Value("", "", absent="not captured: no event names a root or a change"),),
                    seen.tone("workspace"),
                )
            ],
        )
    values = [
        _value(seen, "workspace.root", "root", w.root or "not named"),
        _value(seen, "workspace.captured", "captured", w.captured.replace("_", " ")),
        _value(seen, "workspace.changes", "changes", w.changes),
    ]
    return _section("workspace", [_line(seen, values, "workspace")])


def _operations(
    r: TrajectoryRecord,
    seen: _Changes,
    grades: Mapping[str, Graded],
    covers: Mapping[str, str],
    *,
    explained: bool,
) -> Section:
    o = r.operations
    values = [
        _value(seen, "operations.total", "total", o.total),
        Value("unsettled", count(o.unsettled)),
    ]
    for status, number in sorted(o.by_outcome.items()):
        values.append(_value(seen, f"operations.by_outcome.{status}", status, number))
    if o.unmatched_results:
        values.append(
            _value(
                seen,
                "operations.unmatched_results",
                "results without an intent",
                o.unmatched_results,
            )
        )
    lines = [
        _line(
            seen,
            values,
            "operations.total",
            "operations.by_outcome",
            "operations.unmatched_results",
        )
    ]
    for operation in sorted(o.open.values(), key=lambda op: op.last_sequence)[-OPEN_MAX:]:
        graded = grades.get(operation.operation_id)
        lines += _operation(
            operation,
            seen,
            graded,
            covers.get(operation.operation_id, ""),
            explained=explained and operation.unsettled,
        )
    for operation in r.archive.recent.operations.values():
        if operation.last_sequence == r.boundary:
            lines += _operation(
                operation,
                seen,
                Graded(
                    "established",
                    operation.outcome_basis or "",
                    "adequate evidence is recorded",
                    False,
                ),
                covers.get(operation.operation_id, ""),
            )
    note = _listed(len(o.open), o.spilled, "operations")
    return _section("operations", lines, note, more=bool(o.spilled))


def _operation(
    op: Operation,
    seen: _Changes,
    grade: Graded | None,
    covers: str,
    *,
    explained: bool = False,
) -> list[StateLine]:
    tone = seen.tone(f"operations.open.{op.operation_id}") or seen.tone(
        f"operations.closed.{op.operation_id}"
    )
    word = grade.word if grade is not None else ""
    head = [
        Value(
            op.operation_id, op.tool + (f", version {op.tool_version}" if op.tool_version else "")
        ),
        Value("", op.kind),
    ]
    if op.outcome:
        head.append(Value("outcome", outcome(op.outcome, covers)))
    else:
        head.append(Value("", "no outcome evidence"))
    if word:
        head.append(Value("", word, mark=word, title=grade.reason if grade else ""))
    why = ""
    if grade is not None and not explained:
        why = f"{grade.basis}: {grade.reason}" if grade.basis else grade.reason
    lines = [StateLine(tuple(head), tone, 1, why)]
    for attempt in op.attempts[-4:]:
        said = [
            Value("attempt", attempt.attempt_id),
            Value("intent", count(attempt.intent_sequence), seq=attempt.intent_sequence),
        ]
        if attempt.owner_epoch:
            said.append(Value("generation", count(attempt.owner_epoch)))
        if attempt.deadline_at is not None:
            said.append(Value("deadline", exact(attempt.deadline_at)))
        for evidence in attempt.evidence[-3:]:
            said.append(
                Value(
                    evidence.status if evidence.adequate else f"{evidence.status}, settles nothing",
                    f"by {evidence.basis} at {count(evidence.sequence_number)}",
                    seq=evidence.sequence_number,
                )
            )
        lines.append(StateLine(tuple(said), tone, 2))
    if op.settlement_owner or op.depends_on:
        said = []
        if op.settlement_owner:
            said.append(Value("settlement owner", op.settlement_owner))
        if op.depends_on:
            said.append(Value("depends on", ", ".join(op.depends_on)))
        lines.append(StateLine(tuple(said), tone, 2))
    return lines


def _calls(r: TrajectoryRecord, seen: _Changes) -> Section:
    c = r.calls
    t = c.tokens
    values = [
        _value(seen, "calls.total", "total", c.total),
        _value(seen, "calls.replied", "replied", c.replied),
    ]
    if c.retries:
        values.append(_value(seen, "calls.retries", "retries", c.retries))
    lines = [
        _line(seen, values, "calls.total", "calls.replied", "calls.by_status", "calls.retries")
    ]
    if c.replied and t.unreported >= c.replied:
        lines.append(
            StateLine(
                (Value("tokens", "", absent="no reply reports its tokens"),),
                seen.tone("calls.tokens"),
            )
        )
    elif c.replied:
        said = [
            _value(seen, f"calls.tokens.{name}", label, getattr(t, name))
            for name, label in (
                ("input", "tokens in"),
                ("cache_read", "cache read"),
                ("cache_write", "cache write"),
                ("output", "out"),
            )
        ]
        if t.unreported:
            said.append(
                _value(seen, "calls.tokens.unreported", "replies without usage", t.unreported)
            )
        lines.append(_line(seen, said, "calls.tokens"))
    for call in list(c.open.values())[-OPEN_MAX:]:
        path = f"calls.open.{call.invocation_id}"
        said = [
            Value(call.invocation_id, call.model or "model not named"),
            Value("", call.status or "no reply recorded"),
            Value("charge", call.charge),
        ]
        if call.context_sequence:
            said.append(Value("context", count(call.context_sequence), seq=call.context_sequence))
        lines.append(StateLine(tuple(said), seen.tone(path), 1))
    note = _listed(len(c.open), c.spilled, "calls")
    return _section("model calls", lines, note, more=bool(c.spilled))


def _budget(r: TrajectoryRecord, seen: _Changes) -> Section:
    b = r.budget
    if not b.accounts:
        return _section(
            "budget",
            [StateLine((Value("", "", absent="no ceiling, reservation or charge is recorded"),))],
        )
    lines = []
    for name, account in sorted(b.accounts.items()):
        line = _line(seen, _account(name, account, seen), f"budget.accounts.{name}")
        why = tokens_apart(r, account) if name == "tokens" else ""
        lines.append(StateLine(line.values, line.tone, line.depth, why))
    for reservation in list(b.open.values())[-OPEN_MAX:]:
        tone = seen.tone(f"budget.open.{reservation.event_id}")
        lines.append(StateLine(_reservation(r, reservation), tone, 1))
    note = _listed(len(b.open), b.spilled, "reservations")
    return _section("budget", lines, note, more=bool(b.spilled))


def _reservation(r: TrajectoryRecord, reservation: Reservation) -> tuple[Value, ...]:
    accounts = r.budget.accounts
    bounds = ", ".join(
        amount(bound, accounts[resource].unit if resource in accounts else resource)
        for resource, bound in reservation.bounds.items()
    )
    said = [
        Value("reserved", bounds),
        Value("by", count(reservation.sequence_number), seq=reservation.sequence_number),
    ]
    scope = reservation.operation_id or reservation.invocation_id
    if scope:
        said.append(Value("for", scope))
    return tuple(said)


def tokens_apart(r: TrajectoryRecord, account: Account) -> str:
    """Why the budget counts other tokens than the replies report; empty where it does not."""
    t = r.calls.tokens
    total = t.input + t.output + t.cache_read + t.cache_write
    if not total or total == account.consumed:
        return ""
    apart = total - account.consumed
    cause = " (its cache writes)" if apart == t.cache_write else ""
    said = "fewer" if apart > 0 else "more"
    return (
        f"settled by usage reports: {count(abs(apart))} {said} than the {count(total)} that "
        f"replies report{cause}"
    )


def _account(name: str, account: Account, seen: _Changes) -> list[Value]:
    path = f"budget.accounts.{name}"
    said = [Value("", one_line(name, 40))]
    for part in ("consumed", "outstanding", "finalization_reserve", "ceiling", "overrun"):
        value = getattr(account, part)
        if value is None or (not value and part in ("finalization_reserve", "overrun")):
            continue
        change = seen.old.get(f"{path}.{part}")
        old = change.old if change is not None else None
        label = {"outstanding": "reserved", "finalization_reserve": "finalization"}.get(part, part)
        said.append(
            Value(
                label,
                amount(value, account.unit),
                old=amount(int(old), account.unit) if old and old.lstrip("-").isdigit() else None,
            )
        )
    if account.ceiling is None:
        said.append(Value("ceiling", "", absent="none stated"))
    return said


def _approvals(r: TrajectoryRecord, seen: _Changes) -> Section:
    a = r.approvals
    if not a.total:
        return _section("approvals", [])
    values = [_value(seen, "approvals.total", "total", a.total)]
    for decision, number in sorted(a.by_decision.items()):
        values.append(_value(seen, f"approvals.by_decision.{decision}", decision, number))
    lines = [_line(seen, values, "approvals.total", "approvals.by_decision")]
    for approval in list(a.open.values())[-OPEN_MAX:]:
        said = [
            Value(approval.approval_id, approval.tool),
            Value("asked", count(approval.requested_sequence), seq=approval.requested_sequence),
            Value("", approval.decision or "undecided"),
        ]
        if approval.expires_at is not None:
            said.append(Value("expires", exact(approval.expires_at)))
        lines.append(StateLine(tuple(said), seen.tone(f"approvals.open.{approval.approval_id}"), 1))
    note = _listed(len(a.open), a.spilled, "approvals")
    return _section("approvals", lines, note, more=bool(a.spilled))


def _plan(r: TrajectoryRecord, seen: _Changes) -> Section:
    p = r.plan
    if not p.revision:
        return _section("plan", [])
    done = sum(1 for item in p.items if item.status == "done")
    values = [
        _value(seen, "plan.revision", "revision", p.revision),
        Value("items", f"{len(p.items)}, {done} done"),
    ]
    lines = [_line(seen, values, "plan")]
    for item in p.items[:OPEN_MAX]:
        lines.append(
            StateLine((Value(item.id, item.status), Value("", one_line(item.text, 160))), "", 1)
        )
    return _section("plan", lines)


def _context(r: TrajectoryRecord, seen: _Changes) -> Section:
    c = r.context
    if not c.built:
        return _section("context", [])
    values = [
        _value(seen, "context.messages", "messages", c.messages),
        _value(seen, "context.built", "built", c.built),
    ]
    if c.sequence_number:
        values.append(Value("newest", count(c.sequence_number), seq=c.sequence_number))
    if c.claim:
        values.append(_value(seen, "context.claim", "claim", c.claim))
    if c.manifest_digest:
        values.append(Value("manifest", short_digest(c.manifest_digest), title=c.manifest_digest))
    if c.compactions:
        values.append(_value(seen, "context.compactions", "compactions", c.compactions))
    return _section("context", [_line(seen, values, "context")])


def _recovery(r: TrajectoryRecord, seen: _Changes) -> Section:
    c = r.recovery
    if not c.checkpoints and not c.resumes:
        return _section("recovery", [])
    values = [
        Value("recovery head", f"{c.head_generation}.{c.head_checkpoint_seq}"),
        Value("covers", count(c.head_covers), seq=c.head_covers or None),
        _value(seen, "recovery.checkpoints", "checkpoints", c.checkpoints),
        _value(seen, "recovery.resumes", "resumes", c.resumes),
    ]
    return _section("recovery", [_line(seen, values, "recovery")])


def _counts(r: TrajectoryRecord, seen: _Changes) -> Section:
    values = [
        _value(seen, f"event_counts.{name}", name, number)
        for name, number in sorted(r.event_counts.items(), key=lambda pair: -pair[1])[:24]
    ]
    note = (
        f"of {plural(r.unparsed, 'event')} only the original bytes are kept: the importer does not "
        "know their kind, and nothing was derived from them"
        if r.unparsed
        else ""
    )
    return _section(COUNTS, [_line(seen, values, "event_counts")] if values else [], note)


# ---- what is owed, and what lies in the archive ------------------------------------------


def owed(r: TrajectoryRecord, grades: Mapping[str, Graded]) -> tuple[Owed, ...]:
    """Unsettled operations and undecided approvals held by value, oldest first."""
    found = []
    for operation in r.operations.open.values():
        grade = grades.get(operation.operation_id)
        if not operation.unsettled or grade is None:
            continue
        last = operation.attempts[-1] if operation.attempts else None
        found.append(
            Owed(
                "operation",
                operation.operation_id,
                operation.tool,
                grade.word,
                grade.reason,
                last.owner_epoch if last is not None else 0,
                (last.worker if last is not None else None) or "",
                last.intent_sequence if last is not None else operation.first_sequence,
            )
        )
    found += [
        Owed(
            "approval",
            held.approval_id,
            held.tool,
            "undecided",
            f"Expires {exact(held.expires_at)}." if held.expires_at is not None else "",
            0,
            "",
            held.requested_sequence,
        )
        for held in r.approvals.open.values()
        if held.decision is None
    ]
    return tuple(sorted(found, key=lambda one: one.since)[-OPEN_MAX:])


def grouped(changes: Sequence[Changed]) -> tuple[tuple[str, tuple[Changed, ...]], ...]:
    """Changes by slice and table: `operations.closed`, `budget.accounts`, `progress`."""
    groups: dict[str, list[Changed]] = {}
    for change in changes:
        parts = change.path.split(".")
        groups.setdefault(".".join(parts[:2]) if len(parts) > 2 else parts[0], []).append(change)
    return tuple((name, tuple(held)) for name, held in groups.items())


def held_by_value(r: TrajectoryRecord, kind: str, key: str) -> bool:
    """Whether the record itself holds this entity, so that the archive's row is an old one."""
    tables: dict[str, Mapping[str, object]] = {
        OPERATION: r.operations.open,
        CALL: r.calls.open,
        APPROVAL: r.approvals.open,
        RESERVATION: r.budget.open,
    }
    recent: dict[str, Mapping[str, object]] = {
        OPERATION: r.archive.recent.operations,
        CALL: r.archive.recent.calls,
        APPROVAL: r.archive.recent.approvals,
    }
    return key in tables[kind] or key in recent.get(kind, {})


def is_done(entity: object) -> bool:
    """Whether nothing is owed for an archived entity."""
    if isinstance(entity, Reservation):
        return entity.final
    return not isinstance(entity, Operation | Call | Approval) or entity.closed


def archived(r: TrajectoryRecord, found: Sequence[object]) -> tuple[Section, ...]:
    """Sections of what is open in the archive, the newest first."""
    named: dict[str, list[StateLine]] = {}
    for entity in found[:ARCHIVED_MAX]:
        if isinstance(entity, Reservation):
            named.setdefault("reservations", []).append(StateLine(_reservation(r, entity), "", 1))
        elif isinstance(entity, Operation):
            values = (
                Value(entity.operation_id, entity.tool),
                Value("outcome", entity.outcome or "no outcome evidence"),
                Value("since", count(entity.first_sequence), seq=entity.first_sequence),
            )
            named.setdefault("operations", []).append(StateLine(values, "", 1))
        elif isinstance(entity, Call):
            values = (
                Value(entity.invocation_id, entity.model or "model not named"),
                Value("charge", entity.charge),
                Value("since", count(entity.first_sequence), seq=entity.first_sequence),
            )
            named.setdefault("calls", []).append(StateLine(values, "", 1))
        elif isinstance(entity, Approval):
            values = (
                Value(entity.approval_id, entity.tool),
                Value("", entity.decision or "undecided"),
                Value("asked", count(entity.requested_sequence), seq=entity.requested_sequence),
            )
            named.setdefault("approvals", []).append(StateLine(values, "", 1))
    note = f"the newest {ARCHIVED_MAX}" if len(found) >= ARCHIVED_MAX else ""
    return tuple(
        Section(f"archived {name}, still open", tuple(lines), False, note)
        for name, lines in named.items()
    )


def archived_unreadable(why: str) -> tuple[Section, ...]:
    """The section that says why the archive could not be read."""
    line = StateLine((Value("", "", absent=f"cannot be read: {one_line(why, 160)}"),))
    return (Section("archived, still open", (line,), False),)
