"""What routes answer with: the schema of each wire form (app.wire), and the refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from core.acts import ActKind

JSONL = "application/jsonl"


class Answer(BaseModel):
    """Base of the answers' schemas."""

    model_config = ConfigDict(extra="forbid")


class Source(Answer):
    """What an answer was read from."""

    kind: Literal["authoritative", "imported", "replica", "projection", "ledger", "acts"] = Field(
        description="only an authoritative prefix proves that what is not in it did not happen"
    )
    complete_to: int = Field(
        description="boundary the answer is complete to; of a ledger or acts its row"
    )
    text: str = Field(description="the same as a sentence")


class AckAnswer(Answer):
    """Durable in the failure domain named, with every blob the events name (APP-5)."""

    outcome: Literal["ok"]
    trajectory_id: str
    sequence_numbers: list[int]
    head: int
    chain: str
    failure_domain: Literal["process", "host", "volume"]
    queue_wait_us: int
    storage_time_us: int
    duplicate: bool
    duplicates: list[bool]
    owner_epoch: int
    fenced: bool


class GrantAnswer(Answer):
    """An owner epoch, durable."""

    outcome: Literal["ok"]
    trajectory_id: str
    incarnation: str
    owner_epoch: int
    worker: str
    sequence_number: int
    head: int
    failure_domain: Literal["process", "host", "volume"]


class HeadAnswer(Answer):
    """One trajectory without its events."""

    trajectory_id: str
    tenant: str
    standing: Literal["gated", "reported", "imported", "replica"]
    head: int
    chain: str
    recorded_at: int
    created_at: int
    owner_epoch: int
    worker: str | None
    control_epoch: int
    record_version: int
    staged: int
    staged_to: int
    incidents: int
    summary: dict[str, JsonValue] | None
    sources: list[dict[str, JsonValue]]
    source: Source


class EventsAnswer(Answer):
    """A range of the log."""

    events: list[dict[str, JsonValue]]
    next_after: int | None = Field(description="give it as `after` for the next part; null: none")
    source: Source


class EventAnswer(Answer):
    """One event."""

    event: dict[str, JsonValue]
    known: bool = Field(description="whether this version can decode its type (LOG-6)")
    source: Source


class RecordAnswer(Answer):
    """The record at a boundary."""

    boundary: int
    record: dict[str, JsonValue]
    snapshot_boundary: int
    folded: int
    elapsed_us: int
    source: Source


class DifferenceAnswer(Answer):
    """What differs between two boundaries."""

    a: int
    b: int
    difference: JsonValue
    source: Source


class IndexBehind(Answer):
    """How much of the log the full-text index lacks."""

    trajectories: int
    events: int


class SearchHit(Answer):
    """One event that holds what was looked for."""

    trajectory_id: str
    sequence_number: int
    type: str
    title: str | None


class SearchAnswer(Answer):
    """What a full-text search found."""

    hits: list[SearchHit]
    hidden: int
    """Hits left out because their trajectory is withdrawn or superseded."""
    next_after: int | None
    more: bool
    index_behind: IndexBehind


class Nearest(Answer):
    """A value that no trajectory has."""

    key: str
    given: str
    values: list[str]
    """Values that some have."""
    alike: bool
    """They are like what was given; else some of those there are."""


class ListAnswer(Answer):
    """One page of trajectories."""

    trajectories: list[dict[str, JsonValue]]
    next_after: str | None
    total: int
    total_exact: bool
    """False: there are more than `total`; ask with `count=exact`."""
    index_behind: IndexBehind | None
    """Of a query that asks the full-text index."""
    list_lacks: IndexBehind | None
    """What is missing in the list itself while its cache, which was damaged or removed, is filled
    again from the log."""
    did_you_mean: list[Nearest]
    """Where nothing matches."""
    source: Source


class LedgerAnswer(Answer):
    """Refused writes and incidents (CLM-4)."""

    rows: list[dict[str, JsonValue]]
    next_after: int | None
    source: Source


class Act(Answer):
    """What a person did beside the log; it is never changed, and undone by a further one."""

    number: int = Field(description="order of all acts, from 1")
    kind: ActKind
    trajectory_id: str | None
    boundary: int | None
    body: dict[str, JsonValue]
    actor: str
    reason: str | None
    recorded_at: int
    request_id: str


class ActAnswer(Answer):
    """An act, as durable as an event."""

    outcome: Literal["ok"]
    act: Act


class ActsAnswer(Answer):
    """Acts in their order."""

    acts: list[Act]
    next_after: int | None = Field(description="give it as `after` for the next part; null: none")
    source: Source


class Acted(Answer):
    """What the acts about one trajectory add up to now."""

    notes: list[Act] = Field(description="those not retracted")
    tags: list[str]
    withdrawn: Act | None
    superseded: Act | None
    last_act: int = Field(description="number of the newest act about it, 0: none")


class TrajectoryActsAnswer(ActsAnswer):
    """Acts about one trajectory."""

    now: Acted


class TreeAnswer(Answer):
    """A trajectory with its parent and sub-agents, each node before those below it."""

    here: str
    nodes: list[dict[str, JsonValue]]
    missing_parent: str | None = Field(description="named by the root and not stored")
    left_out: list[str] = Field(description="withdrawn or superseded: no roll-up counts them")
    cut: list[Literal["cycle", "depth", "nodes"]] = Field(description="why it is not whole")
    source: Source


class PricesAnswer(Answer):
    """Prices in nano-USD for a million tokens; those without an act came with the program."""

    prices: list[dict[str, JsonValue]]
    digest: str = Field(description="names this table; summaries say by which they were priced")
    checked: str = Field(description="month in which the shipped prices were looked up")
    last_act: int = Field(description="newest act about prices, 0: none; `expected_last` of one")
    source: Source


class BlobAnswer(Answer):
    """A stored blob."""

    digest: str
    length: int


class Problem(BaseModel):
    """A refusal (RFC 9457); `type` is the page of its code. Further fields depend on the code."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    outcome: Literal["refused", "unknown"]
    request_id: str


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route: the refusals it may give, and those any route may give."""
    always = (400, 401, 403, 408, 413, 421, 422, 429, 431, 500, 503)
    return {
        status: {
            "description": "refused",
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }
        for status in sorted({*always, *statuses})
    }


def json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer of plain values and fragments."""
    return Response(
        orjson.dumps(value), status, media_type="application/json", headers=dict(headers or {})
    )
