"""What needs a person now, as lines: how long, what, where, why, and where to go.

Order: what ends within the hour, then what has waited longest, then what ends later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app import links
from app.presenters.format import HOUR, ago, count, grouped, plural
from app.presenters.terminal import one_line
from core.record.record import TrajectoryRecord
from core.rules.grades import grade
from store.ports import Head, LedgerRow

#: Lines on the page; the others are counted.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits for a person."""

    age: str
    """How long, in one unit."""
    clock: str
    """What the age counts: waiting, left, open, over."""
    mark: str
    """Class of its mark: approval, in_doubt, bad or unknown."""
    word: str
    name: str
    """Id of the operation, approval or event; empty where it is the trajectory itself."""
    what: str
    where: str
    why: str
    href: str
    action: str
    ends_at: int | None
    since: int


def ordered(found: Iterable[Waiting], now: int) -> list[Waiting]:
    """By urgency."""

    def key(one: Waiting) -> tuple[int, int]:
        if one.ends_at is None:
            return (1, one.since)
        return (0 if one.ends_at < now + HOUR else 2, one.ends_at)

    return sorted(found, key=key)


def of_record(record: TrajectoryRecord, head: Head, title: str, now: int) -> list[Waiting]:
    """Undecided approvals and operations in doubt of one trajectory, by its record at the head.

    `since` of each is the number of its event: the caller puts its time there.
    """
    found = []
    here = head.trajectory_id
    for held in record.approvals.open.values():
        if held.decision is None:
            found.append(
                Waiting(
                    "", "waiting", "approval", "approval", held.approval_id,
                    one_line(held.tool, 40), title,
                    "held at its exact arguments; nothing is sent before somebody decides",
                    links.boundary(here, held.requested_sequence), "Open",
                    held.expires_at, held.requested_sequence,
                )
            )  # fmt: skip
    for operation in record.operations.open.values():
        if not operation.unsettled:
            continue
        told = grade(operation, record, standing=head.standing, at_head=True, now=now)
        if told.word == "in_doubt":
            found.append(
                Waiting(
                    "", "waiting", "in_doubt", "in doubt", operation.operation_id,
                    one_line(operation.tool, 40), title, grouped(told.reason),
                    links.boundary(here, operation.first_sequence), "Open",
                    None, operation.first_sequence,
                )
            )  # fmt: skip
    return found


def at(one: Waiting, since: int, now: int) -> Waiting:
    """The line with the time its event was recorded at."""
    if one.ends_at is not None:
        left = one.ends_at - now
        age, clock = (ago(left), "left") if left > 0 else (ago(-left), "over")
    else:
        age, clock = ago(now - since), one.clock
    return Waiting(
        age, clock, one.mark, one.word, one.name, one.what, one.where, one.why, one.href,
        one.action, one.ends_at, since,
    )  # fmt: skip


def of_incident(row: LedgerRow, title: str, now: int) -> Waiting:
    """Two stories about one id."""
    event = str(row.detail.get("event_id") or "")
    who = f" from {one_line(row.worker, 40)}" if row.worker else ""
    return Waiting(
        ago(now - row.recorded_at), "open", "bad", "integrity", one_line(event, 60),
        row.code.replace("_", " "), title,
        f"came{who} by the {row.issuer}; the first is kept, nothing was overwritten",
        links.trajectory(row.trajectory_id) + "?tab=evidence", "Read it", None, row.recorded_at,
    )  # fmt: skip


def of_blocked(trajectory_id: str, title: str, updated_at: int, now: int) -> Waiting:
    """A log that this version cannot fold to its end."""
    return Waiting(
        ago(now - updated_at), "so far", "unknown", "not folded", "", "event of a newer version",
        title, "nothing was skipped; boundaries from it on are not reconstructed by this version",
        links.trajectory(trajectory_id), "Open", None, updated_at,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Aside:
    """Something to know that waits for nobody."""

    mark: str
    word: str
    what: str
    why: str
    href: str


def in_flight(number: int, href: str) -> Aside:
    """Operations whose sender is still about them."""
    return Aside(
        "in_flight", "unsettled", plural(number, "trajectory", "trajectories"),
        "with operations in flight, in doubt or unknown; open one to see which", href,
    )  # fmt: skip


def failed(number: int, href: str) -> Aside:
    """Runs that ended badly in the last day."""
    return Aside(
        "bad", "failed", plural(number, "trajectory", "trajectories"),
        "ended FAILED and grew in the last 24 hours: a limit, an exception or their own word", href,
    )  # fmt: skip


def unknown(number: int, href: str) -> Aside:
    """Calls of imported files without a result."""
    return Aside(
        "unknown", "unknown", f"{count(number)} imported",
        "have calls whose outcome their file does not establish", href,
    )  # fmt: skip


def lag(what: str, trajectories: int, events: int) -> Aside:
    """A copy and how far it is behind the log."""
    if not trajectories:
        return Aside(
            "established", what, "up with the log", "reads of a boundary never wait for it",
            links.health(),
        )  # fmt: skip
    return Aside(
        "in_flight", what, f"{plural(events, 'event')} behind",
        f"over {plural(trajectories, 'trajectory', 'trajectories')}; reads of a boundary never "
        "wait for it", links.health(),
    )  # fmt: skip
