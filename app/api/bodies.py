"""Bodies that routes read: JSON that every reader reads alike, then the schema.

INVARIANTS
1. Duplicate keys, NaN, lone surrogates, integers beyond 2^53-1, deep nesting, byte order marks
   and trailing text are refused with a typed error, whatever the schema says (ENV-4).
2. A refusal names the field, the kind given and what is expected; it never repeats the input
   (app.complaints, core.wording).
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar

import msgspec
import orjson
from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from app import complaints
from app.errors import HttpRefused
from core import strictjson
from core.canonical import DIGEST_PATTERN, canonical_of
from core.errors import InvalidInput
from core.events import registry
from core.events.envelope import BlobRef, NewEvent
from core.events.fields import Payload
from core.events.task import TaskStarted
from core.ids import ID_PATTERN, TRAJECTORY_PATTERN
from core.limits import EVENTS_PER_APPEND_MAX, INTEGER_MAX, REFS_MAX
from core.wording import schema_error

TYPE_CHARS_MAX = 128

Body = TypeVar("Body", bound=BaseModel)


class Strict(BaseModel):
    """Base of every body: no coercion, no unknown field."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class CreateBody(Strict):
    """Create a trajectory."""

    request_id: str = Field(pattern=ID_PATTERN, description="the same one repeats this request")
    standing: Literal["gated", "reported"] = Field(description="how its events will come (STD-1)")
    trajectory_id: str | None = Field(
        default=None, pattern=TRAJECTORY_PATTERN, description="left out: made from the request"
    )
    task: dict[str, JsonValue] = Field(
        description="the payload of TaskStarted; `standing` may be left out of it"
    )


class ClaimBody(Strict):
    """Ask for the next owner epoch."""

    request_id: str = Field(pattern=ID_PATTERN, description="the same one repeats this request")
    worker: str = Field(pattern=ID_PATTERN, description="who will hold the epoch")
    expected_epoch: int | None = Field(
        default=None, ge=0, le=INTEGER_MAX, description="refused as fenced if no longer newest"
    )


class _AnyAct(Strict):
    """What every act has."""

    request_id: str = Field(pattern=ID_PATTERN, description="the same one repeats this request")
    body: dict[str, JsonValue] = Field(
        default_factory=dict, description="what it says; its fields depend on the kind"
    )
    reason: str | None = Field(
        default=None, max_length=1000, description="why; withdraw and reinstate need one"
    )
    expected_last: int | None = Field(
        default=None,
        ge=0,
        le=INTEGER_MAX,
        description="number of the newest act about the same that the caller saw (0: none); "
        "refused as head_moved if another has come since",
    )


class ActBody(_AnyAct):
    """An act about a trajectory."""

    kind: Literal["note", "tag", "untag", "withdraw", "reinstate", "supersede", "retract"]
    boundary: int | None = Field(
        default=None, ge=0, le=INTEGER_MAX, description="of a note: the boundary it is about"
    )


class DeskActBody(_AnyAct):
    """An act about no trajectory."""

    kind: Literal["view", "drop_view", "price", "retract"]


class Incoming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event of an append body."""

    event_id: str
    type: str
    schema_version: int
    payload: dict[str, Any] | None = None
    payload_ref: BlobRef | None = None
    occurred_at: int | None = None
    step: int | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None
    refs: tuple[BlobRef, ...] = ()


class AppendBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An append as it comes over HTTP."""

    owner_epoch: int
    worker: str
    request_id: str
    events: tuple[Incoming, ...]
    expected_head: int | None = None
    incarnation: str | None = None


def append_body(
    data: bytes,
) -> tuple[AppendBody, tuple[NewEvent, ...], tuple[Payload | dict[str, Any] | None, ...]]:
    """Decode an append: the body, its events, and the payloads as far as they are decoded already.

    InvalidInput for anything two readers might read differently.
    """
    value = _value(data)
    try:
        body = msgspec.convert(value, AppendBody, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(schema_error(error, "the body"), field="body") from error
    _check_natural(body.owner_epoch, "owner_epoch")
    _check_natural(body.expected_head, "expected_head")
    if not 1 <= len(body.events) <= EVENTS_PER_APPEND_MAX:
        raise InvalidInput(f"an append holds 1 to {EVENTS_PER_APPEND_MAX} events", field="events")
    made = [_event(number, event) for number, event in enumerate(body.events)]
    return body, tuple([event for event, _ in made]), tuple([typed for _, typed in made])


def _value(data: bytes) -> Any:
    """The JSON value, read by the quick reader where that proves the same as the strict one.

    Bytes that a plain writer makes again from what was read (compact, or with Python's spaces)
    hold no duplicate key, no NaN and no surrogate escape; integers are checked where they are
    used and in `canonical`.
    """
    try:
        value = orjson.loads(data)
        if orjson.dumps(value) == data or json.dumps(value).encode() == data:
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        pass
    return strictjson.loads(data)


def _check_natural(value: int | None, field: str) -> None:
    if value is not None and not 0 <= value <= INTEGER_MAX:
        raise InvalidInput(f"{field} is an integer from 0 to 2^53-1", field=field)


def _event(number: int, event: Incoming) -> tuple[NewEvent, Payload | dict[str, Any] | None]:
    if not 1 <= event.schema_version <= INTEGER_MAX:
        raise InvalidInput(
            f"event {number}: schema_version is an integer from 1",
            field=f"events.{number}.schema_version",
        )
    if not 1 <= len(event.type) <= TYPE_CHARS_MAX:
        raise InvalidInput(
            f"event {number}: a type has 1 to {TYPE_CHARS_MAX} characters",
            field=f"events.{number}.type",
        )
    for ref in event.refs if event.payload_ref is None else (event.payload_ref, *event.refs):
        _check_natural(ref.start, f"events.{number}.refs.start")
        _check_natural(ref.end, f"events.{number}.refs.end")
    payload, exact = None, False
    if event.payload is not None:
        try:
            payload, exact = canonical_of(event.payload)
        except InvalidInput as error:
            raise InvalidInput(
                f"event {number}: {error}", field=f"events.{number}.payload"
            ) from error
    made = NewEvent(
        event_id=event.event_id,
        type=event.type,
        schema_version=event.schema_version,
        payload=payload,
        payload_ref=event.payload_ref,
        occurred_at=event.occurred_at,
        step=event.step,
        operation_id=event.operation_id,
        attempt_id=event.attempt_id,
        invocation_id=event.invocation_id,
        refs=event.refs,
    )
    if exact and event.payload is not None and event.payload_ref is None:
        return made, registry.convert(event.type, event.schema_version, event.payload)
    return made, None


async def read_json(request: Request) -> bytes:
    """The body of a JSON route; `unsupported_media_type` where it says it is something else."""
    check_json(request.headers.get("content-type", ""))
    return await request.body()


def check_json(content_type: str) -> None:
    """`unsupported_media_type` for anything but JSON: a form of another site cannot name it."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HttpRefused("unsupported_media_type", "send the body as application/json")


async def read_model(request: Request, model: type[Body]) -> Body:
    """The body as a checked model."""
    value = strictjson.loads(await read_json(request))
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise complaints.invalid(error.errors(include_url=False)) from error


def task_of(body: CreateBody) -> TaskStarted:
    """The typed TaskStarted of a create."""
    stated = {"standing": body.standing, **body.task}
    try:
        return msgspec.convert(stated, TaskStarted, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(schema_error(error, "task"), field="task") from error


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a route that reads its body itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def model_body(model: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` for a pydantic body; a `task` is described by its event family."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    if "task" in schema["properties"]:
        described = schema["properties"]["task"]["description"]
        schema["properties"]["task"] = {"$ref": TASK_REF, "description": described}
    return json_body(schema)


#: TaskStarted as a create states it: `standing` is the request's own.
TASK_REF = "#/components/schemas/Task"


_NATURAL = {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX}
_ID = {"type": "string", "pattern": ID_PATTERN}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


BLOB_REF_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["digest", "length"],
    "properties": {
        "digest": {"type": "string", "pattern": DIGEST_PATTERN},
        "length": _NATURAL,
        "role": {"enum": ["required", "diagnostic"], "default": "required"},
        "media_type": _nullable({"type": "string"}),
        "schema": _nullable({"type": "string"}),
        "start": _nullable(_NATURAL),
        "end": _nullable(_NATURAL),
    },
}
NEW_EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["event_id", "type", "schema_version"],
    "description": "one event: either `payload` or `payload_ref`; schemas in docs/events.md",
    "properties": {
        "event_id": _ID,
        "type": {
            "description": "a family of docs/events.md, or a note",
            "anyOf": [
                {"enum": sorted(registry.FAMILIES)},
                {"type": "string", "pattern": r"^note\.[!-~]{1,122}$"},
            ],
        },
        "schema_version": {"type": "integer", "minimum": 1, "maximum": INTEGER_MAX},
        "payload": _nullable({"type": "object"}),
        "payload_ref": _nullable(BLOB_REF_SCHEMA),
        "occurred_at": _nullable(_NATURAL),
        "step": _nullable(_NATURAL),
        "operation_id": _nullable(_ID),
        "attempt_id": _nullable(_ID),
        "invocation_id": _nullable(_ID),
        "refs": {"type": "array", "maxItems": REFS_MAX, "items": BLOB_REF_SCHEMA},
    },
}
APPEND_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["owner_epoch", "worker", "request_id", "events"],
    "properties": {
        "owner_epoch": _NATURAL,
        "worker": _ID,
        "request_id": _ID,
        "expected_head": _nullable(_NATURAL),
        "incarnation": _nullable(_ID),
        "events": {
            "type": "array",
            "minItems": 1,
            "maxItems": EVENTS_PER_APPEND_MAX,
            "items": NEW_EVENT_SCHEMA,
        },
    },
}


def payload_json(value: Payload | dict[str, Any]) -> bytes:
    """JSON of a typed payload for an answer."""
    return msgspec.json.encode(value)
