"""The closed registry: every event type, its present schema version and its payload class.

INVARIANTS
1. A (type, schema_version) is known here or not at all; nothing is decoded by guessing.
2. Types under `note.` are known by their prefix, hold any JSON object and fold to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from core.canonical import canonical
from core.errors import InvalidInput, UnknownType
from core.events import upcast
from core.events.admission import Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.branch import Forked
from core.events.checkpoint import Checkpoint
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, PlanChanged
from core.events.fields import Payload
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import OwnershipGranted, Resumed
from core.events.source import Unparsed
from core.events.task import TaskStarted
from core.events.tool import ToolIntent, ToolResult
from core.wording import schema_error

NOTE_PREFIX = "note."


@dataclass(frozen=True, slots=True)
class Family:
    """One event family: its name, present version and payload class."""

    name: str
    version: int
    payload: type[Payload]
    rebuilds: str
    """What it lets the fold rebuild."""


_ALL: tuple[Family, ...] = (
    Family("TaskStarted", 1, TaskStarted, "scope, accounting"),
    Family("ContextBuilt", 1, ContextBuilt, "what the model was supplied"),
    Family("ModelReplied", 1, ModelReplied, "what was observed of a model call"),
    Family("Authorized", 1, Authorized, "admission"),
    Family("BudgetReserved", 1, BudgetReserved, "outstanding liability"),
    Family("BudgetSettled", 1, BudgetSettled, "consumption and what is unresolved"),
    Family("ToolIntent", 1, ToolIntent, "possible dispatch"),
    Family("ToolResult", 1, ToolResult, "evidence"),
    Family("ControlChanged", 1, ControlChanged, "the continuation"),
    Family("PlanChanged", 1, PlanChanged, "the plan"),
    Family("ApprovalRequested", 1, ApprovalRequested, "what is held"),
    Family("ApprovalResolved", 1, ApprovalResolved, "what was decided"),
    Family("Compacted", 1, Compacted, "inputs of assembly"),
    Family("RuntimeInput", 1, RuntimeInput, "inputs of supervision"),
    Family("OwnershipGranted", 1, OwnershipGranted, "who was responsible when"),
    Family("Checkpoint", 1, Checkpoint, "a base for reconstruction"),
    Family("Resumed", 1, Resumed, "where a generation's continuation starts"),
    Family("Forked", 1, Forked, "a branch's origin"),
    Family("Unparsed", 1, Unparsed, "nothing; kept, counted and shown"),
)
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    family.name: msgspec.json.Decoder(family.payload) for family in _ALL
}


def is_note(type_: str) -> bool:
    """Whether the type folds to nothing by its name alone."""
    return type_.startswith(NOTE_PREFIX) and len(type_) > len(NOTE_PREFIX)


def is_known(type_: str, schema_version: int) -> bool:
    """Whether this version can decode events of that type and schema version."""
    family = FAMILIES.get(type_)
    if family is None:
        return is_note(type_)
    return schema_version == family.version or upcast.reaches(type_, schema_version, family.version)


def decode(type_: str, schema_version: int, payload: bytes) -> Payload | dict[str, Any]:
    """The typed payload of an event; a plain dict for notes.

    Raises UnknownType for a type or version this program does not know, InvalidInput naming the
    field for a payload that does not fit its schema.
    """
    family = FAMILIES.get(type_)
    try:
        if family is not None and schema_version == family.version:
            return _DECODERS[type_].decode(payload)  # type: ignore[no-any-return]
        if family is not None and is_known(type_, schema_version):
            value = upcast.lift(type_, schema_version, family.version, msgspec.json.decode(payload))
            return msgspec.convert(value, family.payload)
        if family is None and is_note(type_):
            return msgspec.json.decode(payload, type=dict)
    except msgspec.DecodeError as error:
        why = schema_error(error, f"the payload of {type_}")
        raise InvalidInput(why, field="payload") from error
    known = f"version {family.version}" if family else "no such type"
    raise UnknownType(
        f"{type_} version {schema_version} is not known to this program ({known})",
        type=type_,
        schema_version=schema_version,
    )


def convert(
    type_: str, schema_version: int, value: dict[str, Any]
) -> Payload | dict[str, Any] | None:
    """As `decode` of the canonical bytes of `value`, without reading them; None where only
    `decode` can tell. `value` holds no floats: their canonical bytes may read as integers."""
    family = FAMILIES.get(type_)
    if family is None:
        return value if is_note(type_) else None
    if schema_version != family.version:
        return None
    try:
        return msgspec.convert(value, family.payload)
    except msgspec.ValidationError as error:
        why = schema_error(error, f"the payload of {type_}")
        raise InvalidInput(why, field="payload") from error


def encode(payload: Payload) -> bytes:
    """Canonical bytes of a typed payload."""
    return canonical(msgspec.to_builtins(payload))
