"""Mutated files: refused or a conflict, never another error, and the store stays as it was."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import ImportRefused
from ingest import native
from ingest.base import Report, Source
from ingest.mini_swe_agent import MiniSweAgent
from ingest.pipeline import import_stream
from store.open import Opened
from tests.ingest.support import TENANT, document, dumped, everything, fixture, give

BYTES = fixture("interrupted").read_bytes()
OLD = fixture("v1-layout-by-hand").read_bytes()
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=12),
    st.just([]),
    st.just({}),
    st.just([{"role": "user"}]),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A fixture with a few of its bytes replaced, removed or doubled."""
    data = bytearray(draw(st.sampled_from([BYTES, OLD])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["replace", "cut", "double", "insert", "end"]))
        span = draw(st.integers(1, 40))
        if kind == "replace":
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[at : at + span]
        elif kind == "double":
            data[at:at] = data[at : at + span]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=6))
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    found = [here] if here else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        found += paths(item, (*here, key))
    return found


DOCUMENTS = {name: document(name) for name in ("interrupted", "format-error", "v1-layout-by-hand")}
PLACES = {name: paths(value) for name, value in DOCUMENTS.items()}


@st.composite
def replaced(draw: st.DrawFn) -> bytes:
    """A fixture whose values at a few places are something else."""
    name = draw(st.sampled_from(sorted(DOCUMENTS)))
    value = json.loads(json.dumps(DOCUMENTS[name]))
    for place in draw(st.lists(st.sampled_from(PLACES[name]), min_size=1, max_size=3)):
        inner = value
        try:
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = copy.deepcopy(draw(SCALARS))
        except (TypeError, KeyError, IndexError):
            continue
    return dumped(value)


def read(data: bytes) -> None:
    """Parse and build; only a refusal may come out."""
    try:
        parsed = MiniSweAgent().parse(Source("fuzz", io.BytesIO(data), len(data)))
        run = parsed.build("fuzz", ())
    except ImportRefused as error:
        assert str(error)
        return
    assert run.events


@given(data=mutated())
def test_mutated_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


@given(data=replaced())
def test_values_of_other_types_are_read_or_refused(data: bytes) -> None:
    read(data)


@given(data=st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_leave_the_store_as_it_was_unless_they_are_a_run(
    shared: Opened, data: bytes
) -> None:
    before = everything(shared)
    report = give(shared, data)
    assert report.outcome == "refused"
    assert report.refused
    assert everything(shared) == before


@given(data=st.one_of(mutated(), replaced()))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_upload_is_stored_whole_or_not_at_all(shared: Opened, data: bytes) -> None:
    before = everything(shared)
    report = import_stream(shared.store, shared.blobs, TENANT, "fuzz.json", io.BytesIO(data))
    after = everything(shared)
    assert report.outcome in ("imported", "appended", "unchanged", "conflict", "refused")
    if report.outcome in ("unchanged", "conflict", "refused"):
        assert after == before
    else:
        (trajectory,) = report.trajectories
        heads = {identity: head for identity, head, _ in after}
        assert heads[trajectory.id] == trajectory.head == trajectory.events


@given(
    data=st.one_of(mutated(), replaced()),
    first=st.sampled_from(["interrupted", "format-error", "v1-layout-by-hand"]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_second_reading_appends_whole_or_not_at_all(
    shared: Opened, data: bytes, first: str
) -> None:
    def reading(content: bytes) -> Report:
        return import_stream(
            shared.store,
            shared.blobs,
            TENANT,
            "again.json",
            io.BytesIO(content),
            identity=f"again/{first}",
        )

    assert reading(fixture(first).read_bytes()).ok
    before = everything(shared)
    report = reading(data)
    if report.outcome in ("unchanged", "conflict", "refused"):
        assert everything(shared) == before
    else:
        assert report.outcome in ("imported", "appended")


@given(data=st.data())
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_bundle_installs_nothing(shared: Opened, data: st.DataObject) -> None:
    origin = give(shared, BYTES, "origin.json")
    out = io.BytesIO()
    native.export(shared.store, shared.blobs, TENANT, origin.trajectories[0].id, out)
    whole = bytearray(out.getvalue())
    at = data.draw(st.integers(0, len(whole) - 1))
    span = data.draw(st.integers(0, 30))
    whole[at : at + span] = data.draw(st.binary(max_size=8))
    before = everything(shared)
    report = give(shared, bytes(whole), "log.jsonl")
    if bytes(whole) != out.getvalue() and report.outcome == "unchanged":
        assert json.loads(bytes(whole).split(b"\n", 1)[0])["trajectory_id"]
    else:
        assert report.outcome in ("refused", "unchanged", "conflict")
    assert everything(shared) == before
