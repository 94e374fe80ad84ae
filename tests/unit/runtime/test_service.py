"""The facade over a real store: what it refuses by itself reaches no group of the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.canonical import digest_text, sha256
from core.errors import InvalidInput, MissingBlob, StrandlineError, TooLarge, UnknownType
from core.events.envelope import JSON_MEDIA_TYPE, BlobRef, NewEvent
from core.events.task import TaskStarted
from core.ids import tenant
from core.limits import EVENTS_PER_APPEND_MAX, PAYLOAD_INLINE_BYTES_MAX
from core.principal import Principal
from runtime.service import Runtime
from store.open import open_store

WHO = Principal(tenant("local"), "test", frozenset({"read", "write"}))


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with open_store(tmp_path / "data", allow_unsafe_filesystem=True) as opened:
        made = Runtime(opened.store, opened.blobs, opened.projections, lambda: 0)
        task = TaskStarted(title="a task", standing="reported")
        made.create(WHO, request_id="r1", standing="reported", task=task, trajectory_id="t1")
        made.claim(WHO, "t1", request_id="r2", worker="w1")
        yield made


def event(payload: bytes | None = b"{}", type_: str = "note.test", **more: object) -> NewEvent:
    return NewEvent(event_id="e1", type=type_, schema_version=1, payload=payload, **more)  # type: ignore[arg-type]


def absent() -> BlobRef:
    data = b'{"text":"never stored"}'
    return BlobRef(
        digest=digest_text(sha256(data)),
        length=len(data),
        role="required",
        media_type=JSON_MEDIA_TYPE,
        schema="note.test/1",
    )


REFUSED: dict[str, tuple[Callable[[], list[NewEvent]], type[StrandlineError]]] = {
    "none": (list, InvalidInput),
    "too many": (lambda: [event()] * (EVENTS_PER_APPEND_MAX + 1), InvalidInput),
    "unknown type": (lambda: [event(type_="Unheard")], UnknownType),
    "no schema": (lambda: [event(type_="PlanChanged")], InvalidInput),
    "no JSON": (lambda: [event(b"{")], InvalidInput),
    "too large inline": (
        lambda: [event(b'{"x":"%s"}' % (b"x" * PAYLOAD_INLINE_BYTES_MAX))],
        TooLarge,
    ),
    "no payload": (lambda: [event(None)], InvalidInput),
    "a payload never stored": (lambda: [event(None, payload_ref=absent())], MissingBlob),
    "a good one and a bad one": (lambda: [event(), event(type_="Unheard")], UnknownType),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_be_refused_without_the_log_costs_no_group(runtime: Runtime, case: str) -> None:
    make, kind = REFUSED[case]
    before = runtime.stats()
    with pytest.raises(kind):
        runtime.append(WHO, "t1", owner_epoch=1, worker="w1", request_id="r3", events=make())
    after = runtime.stats()
    assert (after.groups, after.members) == (before.groups, before.members)
    ack = runtime.append(
        WHO, "t1", owner_epoch=1, worker="w1", request_id="r3", events=[event()]
    ).result(30)
    assert ack.duplicate is False
    assert runtime.stats().groups == before.groups + 1
