"""Acts in the store: their row, their stored answer, and how one is decided.

INVARIANTS
1. Acts are numbered from 1 without a gap, over all tenants, in the order they became durable.
2. An act about a trajectory names one that is there, and a boundary its log has reached.
3. A request that was answered is answered with the same act, before anything else is looked at.
"""

from __future__ import annotations

from typing import Any

import msgspec

from core.acts import (
    ABOUT_TRAJECTORY,
    BODIES,
    WITH_REASON,
    Act,
    ActKind,
    Supersede,
    decode,
    encode,
)
from core.errors import CorruptAt, HeadMoved, InvalidInput, NotFound, StrandlineError, TooLarge
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import ACTS_PER_TRAJECTORY_MAX
from store.overlay import Overlay
from store.ports import ActCommand
from store.rows import check_text
from store.sqlite_driver import Connection
from store.state import ActTopic, LastAct, Name, NewRequest, Wants, Writes

COLUMNS = (
    "number, tenant, kind, trajectory_id, boundary, body, actor, reason, recorded_at, request_id"
)
#: Desk acts about one thing: who changes a price has not missed anything by a saved view.
_TOPICS: tuple[tuple[ActKind, ...], ...] = (("view", "drop_view"), ("price", "retract"))
_TEXT_CHARS_MAX = 1000


def topic(command: ActCommand) -> ActTopic:
    """What the acts that this one may collide with are about."""
    if command.trajectory_id is not None:
        return command.tenant, command.trajectory_id, ()
    kinds = next((kinds for kinds in _TOPICS if command.kind in kinds), (command.kind,))
    return command.tenant, None, kinds


def want(needed: Wants, command: ActCommand) -> None:
    """What must be read before an act is decided."""
    needed.requests.add((command.tenant, command.request_id))
    needed.acts.add(topic(command))
    if command.trajectory_id is not None:
        needed.heads.add((command.tenant, command.trajectory_id))
    if isinstance(command.body, Supersede):
        needed.heads.add((command.tenant, command.body.by))


def check(command: ActCommand) -> None:
    """InvalidInput for an act that would be wrong in every store."""
    kind = command.kind
    if type(command.body) is not BODIES.get(kind):
        raise InvalidInput(f"a {kind} has another body", field="body")
    decode(kind, msgspec.json.decode(encode(command.body)))
    if kind in ABOUT_TRAJECTORY and command.trajectory_id is None:
        raise InvalidInput(f"a {kind} is about a trajectory", field="trajectory_id")
    if command.trajectory_id is not None:
        parse_trajectory_id(command.trajectory_id)
        if kind not in ABOUT_TRAJECTORY and kind != "retract":
            raise InvalidInput(f"a {kind} is not about one trajectory", field="trajectory_id")
    if command.boundary is not None and kind != "note":
        raise InvalidInput("only a note is about a boundary", field="boundary")
    if command.boundary is not None and command.boundary < 0:
        raise InvalidInput("a boundary is 0 or more", field="boundary")
    reason = command.reason
    if kind in WITH_REASON and not (reason or "").strip():
        raise InvalidInput(f"a {kind} takes a reason", field="reason")
    for name, text in (("reason", reason), ("actor", command.actor)):
        if text is not None and len(text) > _TEXT_CHARS_MAX:
            raise InvalidInput(f"{name} is at most {_TEXT_CHARS_MAX} characters", field=name)
    for text in (reason or "", command.actor, encode(command.body).decode()):
        check_text(text)
    if not command.actor:
        raise InvalidInput("an act names who did it", field="actor")


def decide_act(overlay: Overlay, command: ActCommand) -> Act:
    """The act, stored before or now."""
    answered = overlay.answered(command.tenant, command.request_id, "act", command.request_digest)
    if answered is not None:
        return from_answer(answered)
    if command.trajectory_id is not None:
        _check_place(overlay, command, command.trajectory_id)
    known = overlay.known
    about = topic(command)
    last = known.last_acts.get(about, LastAct())
    if command.expected_last is not None and command.expected_last != last.number:
        raise HeadMoved(
            f"act {last.number} has come since; this was decided on act {command.expected_last}"
            if command.expected_last
            else f"act {last.number} has come since; this was decided where there was none",
            last_act=last.number,
            expected_last=command.expected_last,
        )
    if last.count >= ACTS_PER_TRAJECTORY_MAX:
        raise TooLarge(f"there are at most {ACTS_PER_TRAJECTORY_MAX} acts about one thing")
    act = Act(
        number=known.acts_end + 1,
        tenant=command.tenant,
        kind=command.kind,
        trajectory_id=command.trajectory_id,
        boundary=command.boundary,
        body=command.body,
        actor=command.actor,
        reason=command.reason,
        recorded_at=max(overlay.now, known.acts_at),
        request_id=command.request_id,
    )
    known.acts_end, known.acts_at = act.number, act.recorded_at
    known.last_acts[about] = LastAct(act.number, last.count + 1)
    overlay.writes.acts.append(act)
    if command.trajectory_id is not None:
        name = (command.tenant, command.trajectory_id)
        overlay.writes.act_heads[name] = known.heads[name].sequence_number
    overlay.answer(
        NewRequest(
            command.tenant,
            command.request_id,
            "act",
            command.trajectory_id or "",
            command.request_digest,
            to_answer(act),
            overlay.now,
        )
    )
    return act


def _check_place(overlay: Overlay, command: ActCommand, trajectory_id: str) -> None:
    heads = overlay.known.heads
    head = heads.get((command.tenant, trajectory_id))
    if head is None:
        raise NotFound(f"there is no trajectory {trajectory_id}")
    if command.boundary is not None and command.boundary > head.sequence_number:
        raise NotFound(
            f"{trajectory_id} has no boundary {command.boundary}; its log is at "
            f"{head.sequence_number}",
            trajectory_id=trajectory_id,
            boundary=command.boundary,
        )
    body = command.body
    if isinstance(body, Supersede):
        if body.by == trajectory_id:
            raise InvalidInput("a trajectory does not supersede itself", field="by")
        if (command.tenant, body.by) not in heads:
            raise NotFound(f"there is no trajectory {body.by}")


def heard(writes: Writes) -> list[tuple[Name, int]]:
    """What followers are told after a group: trajectories with their head, and the desk, an empty
    id with the number of its newest act."""
    told: dict[Name, int] = {
        (act.tenant, ""): act.number for act in writes.acts if act.trajectory_id is None
    }
    told |= writes.act_heads
    told |= {name: head.sequence_number for name, head in writes.heads.items()}
    return list(told.items())


# --- rows ----------------------------------------------------------------------------------------


class _Answer(msgspec.Struct, frozen=True):
    """An act as the answer of its request."""

    number: int
    tenant: str
    kind: ActKind
    trajectory_id: str | None
    boundary: int | None
    body: msgspec.Raw
    actor: str
    reason: str | None
    recorded_at: int
    request_id: str


def to_answer(act: Act) -> bytes:
    """The stored answer of the request that made the act."""
    values = msgspec.structs.asdict(act)
    return msgspec.json.encode(_Answer(**{**values, "body": msgspec.Raw(encode(act.body))}))


def from_answer(answer: bytes) -> Act:
    """The act of a stored answer; CorruptAt."""
    try:
        found = msgspec.json.decode(answer, type=_Answer)
        values = {name: getattr(found, name) for name in _Answer.__struct_fields__}
        return Act(**{**values, "body": decode(found.kind, msgspec.json.decode(found.body))})
    except (msgspec.DecodeError, StrandlineError) as error:
        raise CorruptAt(f"the answer of an act cannot be read: {error}") from error


def row(act: Act) -> tuple[object, ...]:
    """The values of COLUMNS."""
    return (
        act.number,
        act.tenant,
        act.kind,
        act.trajectory_id,
        act.boundary,
        encode(act.body),
        act.actor,
        act.reason,
        act.recorded_at,
        act.request_id,
    )


def from_row(values: Any) -> Act:
    """An act from the values of COLUMNS; CorruptAt."""
    number, tenant, kind, trajectory_id, boundary, body, actor, reason, at, request_id = values
    try:
        typed = decode(kind, msgspec.json.decode(body))
    except (msgspec.DecodeError, StrandlineError) as error:
        raise CorruptAt(f"act {number} cannot be read: {error}") from error
    return Act(number, tenant, kind, trajectory_id, boundary, typed, actor, reason, at, request_id)


# --- loading -------------------------------------------------------------------------------------


def load_last(connection: Connection, about: ActTopic) -> LastAct:
    """Number and count of the acts about one thing."""
    tenant, trajectory_id, kinds = about
    where = "tenant = ? AND trajectory_id IS ?"
    values: tuple[object, ...] = (tenant, trajectory_id)
    if kinds:
        where += f" AND kind IN ({', '.join('?' * len(kinds))})"
        values += kinds
    found = connection.execute(
        f"SELECT coalesce(max(number), 0), count(*) FROM acts WHERE {where}", values
    ).fetchone()
    return LastAct(int(found[0]), int(found[1]))


def load_end(connection: Connection) -> tuple[int, int]:
    """(number, recorded_at) of the newest act of all; (0, 0) where there is none."""
    found = connection.execute(
        "SELECT number, recorded_at FROM acts ORDER BY number DESC LIMIT 1"
    ).fetchone()
    return (int(found[0]), int(found[1])) if found is not None else (0, 0)


def is_there(connection: Connection) -> bool:
    """Whether this store can hold acts: one that no newer program opened for writing cannot."""
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'acts'"
    ).fetchone()
    return found is not None
