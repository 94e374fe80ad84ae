"""Decide an install: events that carry their store's fields, in pieces and in any order.

INVARIANTS
1. The prefix up to the first gap is all that counts; its chain was checked event by event (INS-1).
2. A piece that disagrees with the prefix, or with a staged neighbour, is refused whole. Where the
   prefix reaches a staged event that does not continue it, the staged run goes and an incident
   says what it was: two histories are shown, never merged (INS-2).
"""

from __future__ import annotations

from collections.abc import Mapping

from core.errors import IntegrityConflict, InvalidInput, NotAllowed, TooLarge
from core.events.envelope import Event, chain_start
from core.instants import Instant
from core.limits import EVENTS_PER_TRAJECTORY_MAX, STAGED_EVENTS_MAX
from store.overlay import Overlay
from store.ports import InstallCommand
from store.state import Draft, HeadState, Member, Name, NewRow, Piece, StoredEvent, Wants
from store.verify import chain_after


def want(needed: Wants, name: Name, member: Member) -> None:
    """What an install must know."""
    needed.staged.add(name)
    for piece in member.pieces:
        needed.named.add((name, piece.event.event_id))
        needed.positions.add((name, piece.event.sequence_number))
        for digest, _ in piece.names_blobs:
            needed.blobs.add((name[0], digest))
        if piece.binding is not None and piece.event.operation_id is not None:
            needed.bindings.add((name, piece.event.operation_id))


def install(overlay: Overlay, command: InstallCommand, member: Member) -> Draft:
    """Extend the prefix, stage what lies beyond a gap."""
    name = (command.tenant, command.trajectory_id)
    head = overlay.known.heads.get(name)
    if head is not None and head.standing != "replica":
        raise NotAllowed(
            f"{command.trajectory_id} is {head.standing}; events are installed only into a replica",
            standing=head.standing,
        )
    sequence_number = head.sequence_number if head is not None else 0
    chain = head.chain if head is not None else chain_start(command.trajectory_id)
    staged = overlay.known.staged.get(name, {})
    for piece in member.pieces:
        overlay.check_right("replica", piece.event.issuer, "install", piece.event.type)
        overlay.check_blobs(command.tenant, piece.event.event_id, piece.names_blobs)
    fresh = _fresh(overlay, name, sequence_number, staged, member.pieces)
    at = (sequence_number, chain, head.recorded_at if head is not None and sequence_number else 0)
    run, broken = _run(overlay, name, at, staged, fresh)
    waiting = {number: piece for number, piece in fresh.items() if number > sequence_number}
    for piece in run:
        waiting.pop(piece.event.sequence_number, None)
    _check_neighbours(staged, waiting)
    if len(staged) + len(waiting) > STAGED_EVENTS_MAX:
        raise TooLarge(
            f"more than {STAGED_EVENTS_MAX} events would wait beyond a gap; install the missing "
            "pieces first"
        )
    if head is None:
        first = (run or list(waiting.values()))[0].event
        head = HeadState(
            tenant=command.tenant,
            trajectory_id=command.trajectory_id,
            key=0,
            standing="replica",
            created_at=overlay.now,
            sequence_number=0,
            chain=chain,
            recorded_at=min(first.recorded_at, overlay.now),
        )
        overlay.add_head(head)
    known_before = len(member.pieces) - len(fresh)
    bodies = {
        piece.event.sequence_number: body
        for piece, body in zip(member.pieces, member.bodies, strict=True)
        if fresh.get(piece.event.sequence_number) is piece
    }
    _extend(overlay, head, run, staged, bodies)
    _stage(overlay, head, waiting, staged)
    if broken:
        _drop(overlay, command, head, broken, staged)
    head.staged = len(staged)
    head.staged_to = max(staged, default=0)
    overlay.known.staged[name] = staged
    overlay.writes.heads[name] = head
    return Draft(
        trajectory_id=command.trajectory_id,
        sequence_numbers=tuple(piece.event.sequence_number for piece in member.pieces),
        head=head.sequence_number,
        chain=head.chain,
        owner_epoch=member.pieces[0].event.owner_epoch,
        duplicate=known_before == len(member.pieces),
        duplicates=tuple(piece.event.sequence_number not in fresh for piece in member.pieces),
    )


def _fresh(
    overlay: Overlay,
    name: Name,
    sequence_number: int,
    staged: Mapping[int, Piece],
    pieces: tuple[Piece, ...],
) -> dict[int, Piece]:
    """Pieces that are neither in the log nor staged; IntegrityConflict where they disagree."""
    fresh: dict[int, Piece] = {}
    for piece in pieces:
        event = piece.event
        number = event.sequence_number
        if not 1 <= number <= EVENTS_PER_TRAJECTORY_MAX or number in fresh:
            raise InvalidInput(
                "sequence numbers start at 1 and stand once in a piece", field="sequence_number"
            )
        if number <= sequence_number:
            held = overlay.known.positions.get((name, number))
        else:
            other = staged.get(number)
            held = (other.event.digest, other.event.chain) if other is not None else None
            if held is None:
                fresh[number] = piece
                continue
        if held != (event.digest, event.chain):
            raise _two_histories(number)
    return fresh


def _run(
    overlay: Overlay,
    name: Name,
    at: tuple[int, bytes, Instant],
    staged: Mapping[int, Piece],
    fresh: Mapping[int, Piece],
) -> tuple[list[Piece], list[Piece]]:
    """(what continues the prefix, what is staged there but does not)."""
    run: list[Piece] = []
    ids: set[str] = set()
    number, chain, recorded_at = at[0] + 1, at[1], at[2]
    while (piece := fresh.get(number) or staged.get(number)) is not None:
        event = piece.event
        stored = overlay.known.events.get(name, {}).get(event.event_id)
        good = (
            _continues(chain, event)
            and event.recorded_at >= recorded_at
            and event.event_id not in ids
            and stored is None
        )
        if not good:
            if number in fresh:
                raise _two_histories(number)
            broken = []
            while number in staged and number not in fresh:
                broken.append(staged[number])
                number += 1
            return run, broken
        run.append(piece)
        ids.add(event.event_id)
        chain, recorded_at, number = event.chain, event.recorded_at, number + 1
    return run, []


def _continues(before: bytes, event: Event) -> bool:
    return event.chain == chain_after(before, event)


def _check_neighbours(staged: Mapping[int, Piece], waiting: Mapping[int, Piece]) -> None:
    """Beyond a gap, what touches must chain."""
    for number, piece in waiting.items():
        before = waiting.get(number - 1) or staged.get(number - 1)
        if before is not None and not _continues(before.event.chain, piece.event):
            raise _two_histories(number)
        after = staged.get(number + 1)
        if after is not None and not _continues(piece.event.chain, after.event):
            raise _two_histories(number + 1)


def _extend(
    overlay: Overlay,
    head: HeadState,
    run: list[Piece],
    staged: dict[int, Piece],
    bodies: Mapping[int, object],
) -> None:
    name = (head.tenant, head.trajectory_id)
    for piece in run:
        event = piece.event
        overlay.writes.events.append(
            NewRow(
                head.tenant,
                head.key,
                event.sequence_number,
                event.recorded_at,
                event.issuer,
                event.owner_epoch,
                event.worker,
                event.control_epoch,
                event.record_version,
                event.reducer_version,
                event.chain,
                piece,
                bodies.get(event.sequence_number),
            )
        )
        overlay.known.events.setdefault(name, {})[event.event_id] = StoredEvent(
            event.sequence_number, event.digest, event.owner_epoch, event.type
        )
        overlay.known.positions[name, event.sequence_number] = (event.digest, event.chain)
        if piece.binding is not None and event.operation_id is not None:
            overlay.known.bindings[name, event.operation_id] = piece.binding
        if staged.pop(event.sequence_number, None) is not None:
            overlay.unstage(head.key, event.sequence_number)
        head.sequence_number, head.chain = event.sequence_number, event.chain
        head.recorded_at = event.recorded_at
        if event.owner_epoch >= head.owner_epoch:
            head.owner_epoch, head.worker = event.owner_epoch, event.worker or head.worker
        head.control_epoch = event.control_epoch + piece.controls
        head.record_version = event.record_version + piece.guarded
        head.step = piece.turn.after(head.step, event.step)


def _stage(
    overlay: Overlay, head: HeadState, waiting: Mapping[int, Piece], staged: dict[int, Piece]
) -> None:
    for number, piece in sorted(waiting.items()):
        staged[number] = piece
        overlay.writes.staged.append((head.tenant, head.key, piece))


def _drop(
    overlay: Overlay,
    command: InstallCommand,
    head: HeadState,
    broken: list[Piece],
    staged: dict[int, Piece],
) -> None:
    """A staged run that does not continue the prefix: gone, and said so."""
    for piece in broken:
        staged.pop(piece.event.sequence_number, None)
        overlay.unstage(head.key, piece.event.sequence_number)
    first, last = broken[0].event, broken[-1].event
    overlay.note(
        command,
        "incident",
        "integrity_conflict",
        f"events {first.sequence_number} to {last.sequence_number} waited beyond a gap and do not "
        "continue this log: they belong to another history and were put aside",
        {
            "first": first.sequence_number,
            "last": last.sequence_number,
            "offered_digest": first.digest.hex(),
            "offered_chain": first.chain.hex(),
            "prefix_chain": head.chain.hex(),
        },
    )


def _two_histories(number: int) -> IntegrityConflict:
    return IntegrityConflict(
        f"event {number} disagrees with the log held here: these are two histories, and they are "
        "never merged",
        sequence_number=number,
    )
