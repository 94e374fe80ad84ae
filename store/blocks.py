"""Lanes and steps by block of 128 events: found fast in any log, without an index entry each.

A full block is one row, written in the transaction that fills it and never changed: a bit set of
the marks that occur, the range of steps, and both again event by event. A search looks into the
block it starts in, asks for the next block whose set has the mark, and looks into that one. The
last, unfilled block has no row yet and is read from its events.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from store.sqlite_driver import Connection

BLOCK_EVENTS = 128

_STEPS = msgspec.json.Decoder(list[int | None])
_PAIRS = msgspec.json.Decoder(list[tuple[int, int | None]])


def of(sequence_number: int) -> int:
    """The block that holds an event; block 0 holds 1 to 128."""
    return (sequence_number - 1) // BLOCK_EVENTS


def first_of(block: int) -> int:
    """The first sequence number of a block."""
    return block * BLOCK_EVENTS + 1


@dataclass(frozen=True, slots=True)
class Content:
    """Marks and steps of the events of one block, in order; the last block may hold fewer."""

    marks: bytes
    steps: list[int | None]

    def row(self) -> tuple[int, int | None, int | None, bytes, bytes]:
        """(mark_set, step_min, step_max, marks, steps) as stored."""
        mark_set = 0
        for mark in set(self.marks):
            mark_set |= 1 << mark
        stated = [step for step in self.steps if step is not None]
        return (
            mark_set,
            min(stated, default=None),
            max(stated, default=None),
            self.marks,
            msgspec.json.encode(self.steps),
        )


def read(connection: Connection, key: int, block: int) -> Content:
    """From the events themselves; one row, so that the writer yields the interpreter once."""
    text = connection.execute(
        "SELECT json_group_array(json_array(mark, step) ORDER BY sequence_number) FROM events "
        "WHERE trajectory_key = ? AND sequence_number BETWEEN ? AND ?",
        (key, first_of(block), first_of(block) + BLOCK_EVENTS - 1),
    ).fetchone()[0]
    pairs = _PAIRS.decode(text)
    return Content(bytes([mark for mark, _ in pairs]), [step for _, step in pairs])


def load(connection: Connection, key: int, block: int) -> Content:
    """The stored block, or what its events say where it is not full."""
    row = connection.execute(
        "SELECT marks, steps FROM blocks WHERE trajectory_key = ? AND block = ?", (key, block)
    ).fetchone()
    if row is None:
        return read(connection, key, block)
    return Content(row[0], _STEPS.decode(row[1]))


def between(connection: Connection, key: int, first: int, last: int) -> bytes:
    """The marks of the events first..last, one byte each; shorter where the log ends before."""
    if last < first:
        return b""
    found = bytearray()
    for block, marks in connection.execute(
        "SELECT block, marks FROM blocks WHERE trajectory_key = ? AND block BETWEEN ? AND ? "
        "ORDER BY block",
        (key, of(first), of(last)),
    ):
        if len(found) != first_of(block) - first_of(of(first)):
            break
        found += marks
    at = first_of(of(first)) + len(found)
    if at <= last:
        for (mark,) in connection.execute(
            "SELECT mark FROM events WHERE trajectory_key = ? AND sequence_number BETWEEN ? AND ? "
            "ORDER BY sequence_number",
            (key, at, last),
        ):
            found.append(mark)
    start = first - first_of(of(first))
    return bytes(found[start : start + last - first + 1])


def neighbour(
    connection: Connection, key: int, marks: tuple[int, ...], at: int, *, forward: bool
) -> int | None:
    """Nearest sequence number after (or before) `at` whose mark is one of `marks`."""
    wanted = bytes(int(mark) for mark in marks if 0 <= int(mark) < 63)
    mark_set = sum(1 << mark for mark in set(wanted))
    if not mark_set:
        return None
    last = connection.execute(
        "SELECT sequence_number FROM trajectories WHERE trajectory_key = ?", (key,)
    ).fetchone()[0]
    if forward:
        return _after(connection, key, (wanted, mark_set), at, last)
    return _before(connection, key, (wanted, mark_set), min(at, last + 1))


def _after(
    connection: Connection, key: int, sought: tuple[bytes, int], at: int, last: int
) -> int | None:
    wanted, mark_set = sought
    if at >= last:
        return None
    block = of(at + 1)
    found = _first(load(connection, key, block).marks, wanted, at + 1 - first_of(block))
    if found is None:
        row = connection.execute(
            "SELECT block FROM blocks WHERE trajectory_key = ? AND block > ? "
            "AND mark_set & ? != 0 ORDER BY block LIMIT 1",
            (key, block, mark_set),
        ).fetchone()
        here, block = block, row[0] if row is not None else of(last)
        if block == here:
            return None
        found = _first(load(connection, key, block).marks, wanted, 0)
    return first_of(block) + found if found is not None else None


def _before(connection: Connection, key: int, sought: tuple[bytes, int], at: int) -> int | None:
    wanted, mark_set = sought
    if at <= 1:
        return None
    block = of(at - 1)
    found = _last(load(connection, key, block).marks, wanted, at - first_of(block))
    if found is None:
        row = connection.execute(
            "SELECT block FROM blocks WHERE trajectory_key = ? AND block < ? "
            "AND mark_set & ? != 0 ORDER BY block DESC LIMIT 1",
            (key, block, mark_set),
        ).fetchone()
        if row is None:
            return None
        block = row[0]
        found = _last(load(connection, key, block).marks, wanted, BLOCK_EVENTS)
    return first_of(block) + found if found is not None else None


def _first(marks: bytes, wanted: bytes, start: int) -> int | None:
    return min((at for mark in wanted if (at := marks.find(mark, start)) >= 0), default=None)


def _last(marks: bytes, wanted: bytes, end: int) -> int | None:
    return max((at for mark in wanted if (at := marks.rfind(mark, 0, end)) >= 0), default=None)


def at_step(connection: Connection, key: int, step: int) -> int | None:
    """First sequence number that states this step."""
    for (block,) in connection.execute(
        "SELECT block FROM blocks WHERE trajectory_key = ? AND step_min <= ? AND step_max >= ? "
        "ORDER BY block",
        (key, step, step),
    ).fetchall():
        found = _step_in(load(connection, key, block), step)
        if found is not None:
            return first_of(block) + found
    last = connection.execute(
        "SELECT sequence_number FROM trajectories WHERE trajectory_key = ?", (key,)
    ).fetchone()[0]
    if last % BLOCK_EVENTS == 0:
        return None
    found = _step_in(read(connection, key, of(last)), step)
    return first_of(of(last)) + found if found is not None else None


def _step_in(content: Content, step: int) -> int | None:
    try:
        return content.steps.index(step)
    except ValueError:
        return None
