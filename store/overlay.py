"""The state a group is decided on: what was loaded, changed by each accepted member in turn."""

from __future__ import annotations

from core.errors import (
    Fenced,
    IntegrityConflict,
    InvalidInput,
    MissingBlob,
    NotAllowed,
    StrandlineError,
)
from core.events.envelope import Issuer, Standing
from core.instants import Instant
from store.ports import (
    AppendCommand,
    ClaimCommand,
    CreateCommand,
    Door,
    InstallCommand,
    LedgerRow,
)
from store.state import (
    Command,
    HeadState,
    Known,
    LedgerKind,
    NewRequest,
    Rules,
    StoredRequest,
    Writes,
)

#: Which refusals are facts to keep beside the log (WHO-1, APP-1, CLM-4).
_KEPT: tuple[tuple[type[StrandlineError], LedgerKind], ...] = (
    (IntegrityConflict, "incident"),
    (Fenced, "refused"),
    (NotAllowed, "refused"),
)


class Overlay:
    """Known state, the writes so far, the group's instant and the rules."""

    __slots__ = ("known", "now", "rules", "writes")

    def __init__(self, known: Known, writes: Writes, now: Instant, rules: Rules) -> None:
        self.known = known
        self.writes = writes
        self.now = now
        self.rules = rules

    def check_right(self, standing: Standing, issuer: Issuer, door: Door, type_: str) -> None:
        """NotAllowed unless this issuer may assert this type through this door (WHO-1)."""
        reason = self.rules.refuse(standing, issuer, door, type_)
        if reason is not None:
            raise NotAllowed(reason, type=type_, issuer=issuer, door=door, standing=standing)

    def check_blobs(self, tenant: str, event_id: str, named: tuple[tuple[str, int], ...]) -> None:
        """MissingBlob naming every digest that is not durable for this tenant (APP-3), InvalidInput
        where an event states another length than the blob's."""
        held = self.known.blobs
        missing = [digest for digest, _ in named if (tenant, digest) not in held]
        if missing:
            raise MissingBlob(
                f"event {event_id} names {len(missing)} blob(s) that are not stored yet; put them "
                "first",
                event_id=event_id,
                digests=missing,
            )
        for digest, length in named:
            if held[tenant, digest] != length:
                raise InvalidInput(
                    f"event {event_id} says {length} bytes of blob {digest}, which has "
                    f"{held[tenant, digest]}",
                    field="refs",
                    event_id=event_id,
                )

    def add_head(self, head: HeadState) -> None:
        """A new trajectory."""
        name = (head.tenant, head.trajectory_id)
        head.key = self.known.new_key()
        self.known.heads[name] = head
        self.writes.heads[name] = head
        self.writes.created.add(name)

    def unstage(self, key: int, sequence_number: int) -> None:
        """Take an event out of staging, whether it was stored there or only in this group."""
        if self.writes.staged:
            self.writes.staged = [
                row
                for row in self.writes.staged
                if (row[1], row[2].event.sequence_number) != (key, sequence_number)
            ]
        self.writes.unstaged.append((key, sequence_number))

    def answered(self, tenant: str, request_id: str, kind: str, digest: bytes) -> bytes | None:
        """The stored answer of this very request; IntegrityConflict if another has its id."""
        stored = self.known.requests.get((tenant, request_id))
        if stored is None:
            return None
        if stored.kind != kind or stored.digest != digest:
            raise IntegrityConflict(
                f"request {request_id} was already used for another command",
                request_id=request_id,
            )
        return stored.answer

    def answer(self, request: NewRequest) -> None:
        """Keep the answer with the act."""
        self.writes.requests.append(request)
        self.known.requests[request.tenant, request.request_id] = StoredRequest(
            request.kind, request.digest, request.answer
        )

    def note_refusal(self, command: Command, error: StrandlineError) -> None:
        """The ledger row of a refusal that is kept."""
        for kind, entry in _KEPT:
            if isinstance(error, kind):
                self.note(command, entry, error.code, str(error), error.data)
                return

    def note(
        self, command: Command, kind: LedgerKind, code: str, text: str, data: dict[str, object]
    ) -> None:
        """One ledger row; an incident also counts on the trajectory's head."""
        if not isinstance(command, AppendCommand | CreateCommand | ClaimCommand | InstallCommand):
            return
        name = (command.tenant, command.trajectory_id)
        head = self.known.heads.get(name)
        if head is not None and kind == "incident":
            head.incidents += 1
            self.writes.heads[name] = head
        offered = getattr(command, "owner_epoch", None)
        if isinstance(command, ClaimCommand):
            offered = command.expected_epoch
        self.writes.ledger.append(
            LedgerRow(
                number=0,
                tenant=command.tenant,
                trajectory_id=command.trajectory_id,
                recorded_at=self.now,
                kind=kind,
                code=code,
                issuer=_issuer(command),
                worker=getattr(command, "worker", None),
                offered_epoch=offered,
                held_epoch=head.owner_epoch if head is not None else 0,
                request_id=command.request_id,
                detail={"message": text, **data},
            )
        )


def _issuer(command: Command) -> str:
    if isinstance(command, ClaimCommand):
        return "service"
    if isinstance(command, InstallCommand):
        return "importer"
    return getattr(command, "issuer", "service")
