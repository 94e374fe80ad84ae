"""Tab *State*: the record at this boundary, what changed here, or against another boundary."""

from __future__ import annotations

from dataclasses import dataclass

from app.pages.tabs.reads import Reads
from app.presenters import payloads, state, values
from app.presenters.standing import control_word
from app.presenters.state import Changed, Owed, Section
from core.errors import CorruptAt, NotFound
from core.record.archive import rows_of


@dataclass(frozen=True, slots=True)
class Compared:
    """The difference between this boundary and another."""

    other: int
    groups: tuple[tuple[str, tuple[Changed, ...]], ...]
    """(slice of the record, its changes), in the order of the paths."""
    shown: int
    total: int


@dataclass(frozen=True, slots=True)
class StatePanel:
    """The record, or its difference."""

    sections: tuple[Section, ...] = ()
    owed: tuple[Owed, ...] = ()
    """What is unsettled or undecided here, the newest last."""
    owed_archived: int = 0
    compared: Compared | None = None
    compare_why: str = ""


def load(reads: Reads) -> StatePanel:
    """The panel; a boundary to compare with that is not there is said."""
    record, place = reads.record, reads.place
    changes: tuple[Changed, ...] = ()
    if place.seq:
        changes, _ = changes_between(reads, place.seq - 1, place.seq)
    word = control_word(record.control.state, reads.head.standing, at_end=reads.at_head)
    sections = state.sections(
        record,
        changes,
        reads.grades,
        only_changed=not place.all,
        control=word,
        explained=place.all and place.vs is None,
        covers=_covers(reads),
    )
    if place.vs is not None:
        return _compared(reads, sections, place.vs)
    if not place.all:
        return StatePanel(sections)
    return StatePanel(
        _archived(reads) if place.rest else sections,
        state.owed(record, reads.grades),
        record.approvals.spilled + record.operations.spilled_unsettled,
    )


def _covers(reads: Reads) -> dict[str, str]:
    """What the outcomes of the listed operations hold for, where that is not the whole."""
    operations, boundary = reads.record.operations, reads.record.boundary
    held = sorted(operations.open.values(), key=lambda op: op.last_sequence)[-state.OPEN_MAX :]
    recent = reads.record.archive.recent.operations.values()
    listed = (*held, *(op for op in recent if op.last_sequence == boundary))
    return {op.operation_id: said for op in listed if (said := reads.covers(op))}


def _compared(reads: Reads, sections: tuple[Section, ...], other: int) -> StatePanel:
    low, high = sorted((other, reads.place.seq))
    try:
        differing, total = changes_between(reads, low, high)
    except NotFound as error:
        return StatePanel(sections, compare_why=str(error))
    shown = differing[: state.CHANGES_MAX]
    compared = Compared(other, state.grouped(shown), len(shown), total)
    return StatePanel(sections, compared=compared)


def changes_between(reads: Reads, before: int, after: int) -> tuple[tuple[Changed, ...], int]:
    """What differs between two boundaries, by path, as text; and how many paths in all."""
    old, new = reads.record_at(before), reads.record_at(after)
    found = reads.runtime.time_travel.compare(reads.who.tenant, old, new)
    units = values.units_of({**old.budget.accounts, **new.budget.accounts})
    changes = tuple(
        Changed(
            change.path,
            payloads.compact_json(change.old) if change.old is not None else None,
            payloads.compact_json(change.new) if change.new is not None else None,
            values.readable(change.path, change.old, units),
            values.readable(change.path, change.new, units),
        )
        for change in found.changes
    )
    return changes, found.total


def _archived(reads: Reads) -> tuple[Section, ...]:
    """What is still open and lies in the archive, by segments from the newest on."""
    record, travel = reads.record, reads.runtime.time_travel
    segments = travel.segments(reads.who.tenant)
    try:
        seen: set[tuple[str, str]] = set()
        found: list[object] = []
        for ref in sorted(record.archive.segments, key=lambda ref: -ref.last_sequence):
            if len(found) >= state.ARCHIVED_MAX:
                break
            for kind, key, entity in rows_of(segments.bytes_of(ref.digest)):
                if kind not in state.OWED_KINDS or (kind, key) in seen:
                    continue
                seen.add((kind, key))
                if not state.held_by_value(record, kind, key) and not state.is_done(entity):
                    found.append(entity)
    except (NotFound, CorruptAt) as error:
        return state.archived_unreadable(str(error))
    travel.give_back(reads.who.tenant, segments)
    return state.archived(record, found)
