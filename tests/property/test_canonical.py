"""Canonical bytes against RFC 8785's reference, and what is refused (ENV-4)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from core.canonical import canonical, canonical_plain, digest_raw, digest_text, sha256
from core.errors import InvalidInput
from core.events import registry
from core.events.envelope import BlobRef, NewEvent, event_digest, payload_identity
from core.limits import INTEGER_MAX, JSON_DEPTH_MAX
from tests import strategies

numbers = st.integers(-INTEGER_MAX, INTEGER_MAX) | st.floats(
    allow_nan=False, allow_infinity=False
).filter(lambda number: not INTEGER_MAX < abs(number) < 1e21)
texts = st.text(alphabet=st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_canonical_bytes_are_those_of_the_reference(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(values)
def test_canonical_bytes_are_stable(value: Any) -> None:
    import msgspec

    data = canonical(value)
    assert canonical(msgspec.json.decode(data)) == data


@given(
    st.dictionaries(st.text(alphabet="abcxyz_", max_size=5), strategies.texts | st.integers(0, 9))
)
def test_the_quick_encoder_agrees_on_what_it_is_for(value: dict[str, Any]) -> None:
    assert canonical_plain(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        INTEGER_MAX + 1,
        -INTEGER_MAX - 1,
        2.0**53,
        -1e20,
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        {"a": {1}},
        b"bytes",
    ],
    ids=repr,
)
def test_what_json_readers_disagree_on_is_refused(value: Any) -> None:
    for nested in (value, [value], {"key": [value]}):
        with pytest.raises(InvalidInput):
            canonical(nested)


def test_nesting_is_bounded() -> None:
    value: Any = 1
    for _ in range(JSON_DEPTH_MAX):
        value = [value]
    canonical(value)
    with pytest.raises(InvalidInput, match="nested"):
        canonical([value])


@given(st.binary(max_size=50))
def test_a_digest_reads_back(data: bytes) -> None:
    assert digest_raw(digest_text(sha256(data))) == sha256(data)


@pytest.mark.parametrize("text", ["", "sha256:", "sha256:" + "A" * 64, "md5:" + "a" * 67, "x" * 71])
def test_what_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        digest_raw(text)


@pytest.mark.parametrize("family", sorted(registry.FAMILIES))
@given(data=st.data())
def test_every_payload_reads_back_and_its_digest_depends_on_every_field(
    family: str, data: st.DataObject
) -> None:
    payload = data.draw(strategies.PAYLOADS[family])
    encoded = registry.encode(payload)
    assert registry.decode(family, 1, encoded) == payload
    assert registry.encode(registry.decode(family, 1, encoded)) == encoded
    event = NewEvent("e-1", family, 1, payload=encoded)
    moved = NewEvent(
        "e-1",
        family,
        1,
        payload_ref=BlobRef(digest_text(sha256(encoded)), len(encoded), schema="anything"),
    )
    assert payload_identity(event) == payload_identity(moved)
    digest = event_digest("t-1", event)
    assert event_digest("t-1", moved) == digest
    others = [
        ("t-2", event),
        ("t-1", NewEvent("e-2", family, 1, payload=encoded)),
        ("t-1", NewEvent("e-1", family, 2, payload=encoded)),
        ("t-1", NewEvent("e-1", "note.x", 1, payload=encoded)),
        ("t-1", NewEvent("e-1", family, 1, payload=encoded + b" ")),
        *(
            ("t-1", NewEvent("e-1", family, 1, payload=encoded, **more))
            for more in (
                {"occurred_at": 0},
                {"step": 0},
                {"operation_id": "1"},
                {"attempt_id": "1"},
                {"invocation_id": "1"},
                {"refs": (BlobRef(digest_text(sha256(b"")), 0),)},
            )
        ),
    ]
    digests = [event_digest(trajectory_id, other) for trajectory_id, other in others]
    assert len({digest, *digests}) == len(others) + 1
