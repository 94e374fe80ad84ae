"""The recovery store on SQLite: writes through the writer, reads through lent connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from core.acts import ACT_BYTES_MAX, Act
from core.errors import InvalidInput, StoreStopped, StrandlineError, UnknownType
from core.events import registry
from core.events.envelope import Event
from core.events.prepare import (
    Prepared,
    binding_of,
    blobs_of,
    check_envelope,
    check_states,
    classify,
    turn_of,
)
from core.ids import check_id
from core.ids import tenant as parse_tenant
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import INTEGER_MAX
from store import acts, rows, verify
from store.engine import Readers
from store.notices import Hub, Subscription
from store.ports import (
    Ack,
    ActCommand,
    AppendCommand,
    ClaimCommand,
    CreateCommand,
    Grant,
    GroupStats,
    InstallCommand,
    StoreFacts,
)
from store.reads import LogReader
from store.state import BlobsCommand, Done, Member, Piece
from store.writer import Writer, settle_error

_KEYS_CACHED_MAX = 100_000
_COMMAND_BYTES = 300
_PAGE = 1_000
_IDS_PER_QUERY = 500


class SqliteRecoveryStore(LogReader):
    """Implements `store.ports.RecoveryStore`; see there for what each method guarantees."""

    def __init__(
        self,
        readers: Readers,
        writer: Writer | None,
        *,
        refusal: StrandlineError | None,
        hub: Hub,
        facts: Callable[[], StoreFacts],
        payload: Callable[[str, str], bytes | None],
        finish: Callable[[], None],
    ) -> None:
        super().__init__(readers)
        self._writer = writer
        self._refusal = refusal
        """Why there is no writer: read-only, or suspect."""
        self._hub = hub
        self._facts = facts
        self._payload = payload
        """(tenant, digest) -> blob bytes, None where they are not to be had."""
        self._finish = finish
        self.at_rest = True
        """Once closed: nobody is in the database any more."""

    # --- writes ----------------------------------------------------------------------------------

    def create(self, command: CreateCommand) -> Future[Ack]:
        def member() -> Member:
            _check_names(command.tenant, command.trajectory_id, command.request_id)
            first = (command.first,) if command.first is not None else ()
            for event in first:
                _check_place(event, command.trajectory_id)
            return Member(command, tuple(rows.stated(event) for event in first))

        return self._submit(member, _size((command.first,) if command.first else ()))

    def claim(self, command: ClaimCommand) -> Future[Grant]:
        def member() -> Member:
            _check_names(command.tenant, command.trajectory_id, command.request_id)
            check_id(command.worker, "worker")
            return Member(command)

        return self._submit(member, _COMMAND_BYTES)

    def append(self, command: AppendCommand) -> Future[Ack]:
        return self._submit(lambda: _append_member(command), _size(command.events))

    def install(self, command: InstallCommand) -> Future[Ack]:
        def member() -> Member:
            _check_names(command.tenant, command.trajectory_id, command.request_id or "install")
            if not command.events:
                raise InvalidInput("an install has at least one event", field="events")
            pieces = tuple([self._piece(command, event) for event in command.events])
            return Member(command, tuple([rows.stated(piece) for piece in pieces]), pieces)

        size = _COMMAND_BYTES + sum(
            _COMMAND_BYTES + 2 * len(event.payload or b"") for event in command.events
        )
        return self._submit(member, size)

    def act(self, command: ActCommand) -> Future[Act]:
        def member() -> Member:
            parse_tenant(command.tenant)
            check_id(command.request_id, "request_id")
            acts.check(command)
            return Member(command)

        return self._submit(member, _COMMAND_BYTES + ACT_BYTES_MAX)

    def put_blobs(self, tenant: str, blobs: tuple[tuple[str, int], ...]) -> Future[Done]:
        """Record references to blobs whose bytes are durable; used by the blob store."""
        command = BlobsCommand(tenant, blobs)
        return self._submit(lambda: Member(command), _COMMAND_BYTES + 120 * len(blobs))

    def _submit(self, member: Callable[[], Member], size: int) -> Future[Any]:
        """Refuse in the caller's thread what can be refused without the store (APP-12)."""
        try:
            if self._writer is None:
                raise self._refusal or StoreStopped("this store is open for reading only")
            return self._writer.submit(member(), size)
        except StrandlineError as error:
            future: Future[Any] = Future()
            settle_error(future, error)
            return future

    def _piece(self, command: InstallCommand, event: Event) -> Piece:
        """Check an installed event against itself and read what its payload says."""
        if event.trajectory_id != command.trajectory_id:
            raise InvalidInput("an installed event belongs to another trajectory", field="events")
        check_numbers(event)
        if event.payload == b"":
            raise InvalidInput("a payload is JSON and never empty", field="payload")
        payload = event.payload
        if payload is None and event.payload_ref is not None:
            payload = self._payload(command.tenant, event.payload_ref.digest)
        verify.check_event(event)
        check_envelope(event)
        decoded = None
        if payload is not None and registry.is_known(event.type, event.schema_version):
            try:
                decoded = registry.decode(event.type, event.schema_version, payload)
            except (UnknownType, InvalidInput) as error:
                raise InvalidInput(
                    f"event {event.sequence_number}: {error}", field="events"
                ) from error
        mark, guarded, controls = classify(event, decoded)
        binding = binding_of(event, decoded)
        return Piece(event, mark, guarded, controls, blobs_of(event), binding, turn_of(decoded))

    # --- the whole -------------------------------------------------------------------------------

    def subscribe(self, *, desk: bool = False) -> Subscription:
        return self._hub.subscribe(desk=desk)

    def facts(self) -> StoreFacts:
        return self._facts()

    def stats(self) -> GroupStats:
        if self._writer is not None:
            return self._writer.stats()
        return GroupStats(0, 0, 0, 0, 0, (), (), (), {}, "closed")

    def close(self) -> None:
        self.at_rest = self._writer is None or self._writer.close()
        self._hub.close()
        self._readers.close()
        if self.at_rest:
            self._finish()


def _append_member(command: AppendCommand) -> Member:
    _check_names(command.tenant, command.trajectory_id, command.request_id)
    if command.worker is not None:
        check_id(command.worker, "worker")
    if not command.events:
        raise InvalidInput("an append has at least one event", field="events")
    if command.owner_epoch is not None and not 0 <= command.owner_epoch <= INTEGER_MAX:
        raise InvalidInput("owner_epoch is an integer from 0 to 2^53-1", field="owner_epoch")
    for event in command.events:
        _check_place(event, command.trajectory_id)
        if command.door == "append":
            check_states(event.event)
    if command.source is not None and command.door != "import":
        raise InvalidInput("only an import states its source", field="source")
    return Member(command, tuple([rows.stated(event) for event in command.events]))


def _check_names(tenant: str, trajectory_id: str, request_id: str) -> None:
    parse_tenant(tenant)
    parse_trajectory_id(trajectory_id)
    check_id(request_id, "request_id")


def check_numbers(event: Event) -> None:
    """InvalidInput where a store's field of an installed event is out of range."""
    for name in (
        "sequence_number",
        "recorded_at",
        "owner_epoch",
        "control_epoch",
        "record_version",
        "reducer_version",
        "payload_length",
    ):
        if not 0 <= getattr(event, name) <= INTEGER_MAX:
            raise InvalidInput(f"{name} is an integer from 0 to 2^53-1", field=name)
    for name in ("occurred_at", "step"):
        value = getattr(event, name)
        if value is not None and not 0 <= value <= INTEGER_MAX:
            raise InvalidInput(f"{name} is an integer from 0 to 2^53-1", field=name)
    check_id(event.event_id, "event_id")
    for name in ("worker", "operation_id", "attempt_id", "invocation_id"):
        value = getattr(event, name)
        if value is not None:
            check_id(value, name)


def _check_place(event: Prepared, trajectory_id: str) -> None:
    if event.trajectory_id != trajectory_id:
        raise InvalidInput(
            f"event {event.event.event_id} was prepared for trajectory {event.trajectory_id}",
            field="events",
        )


def _size(events: Iterable[Prepared | None]) -> int:
    return _COMMAND_BYTES + sum(event.size for event in events if event is not None)
