"""The builder every importer uses: what it makes, the fold can read; what is large is a blob."""

from __future__ import annotations

import pytest

from core.canonical import digest_text, sha256
from core.errors import ImportRefused
from core.events import registry
from core.events.control import PlanChanged
from core.events.prepare import prepare
from core.events.tool import ToolResult
from core.limits import INTEGER_MAX, PAYLOAD_INLINE_BYTES_MAX
from ingest.build import Builder, SourceKey

KEY = SourceKey("example", 1, "somewhere")


@pytest.mark.parametrize("revision", [0, -1, INTEGER_MAX + 1])
def test_a_payload_that_the_fold_could_not_read_is_refused_where_it_is_made(revision: int) -> None:
    builder = Builder(KEY)
    with pytest.raises(ImportRefused, match="message 7 makes no PlanChanged") as caught:
        builder.add(PlanChanged(revision=revision, items=()), key="7", where="message 7", refs=())
    assert caught.value.data["where"] == "message 7"
    assert builder.events == []


def test_a_payload_above_the_bound_is_a_blob_under_the_same_digest() -> None:
    builder = Builder(KEY)
    for size in (10, PAYLOAD_INLINE_BYTES_MAX):
        payload = ToolResult(status="succeeded", basis="sender", observation="x" * size)
        event = builder.add(payload, key=str(size), where="message 1", refs=())
        data = registry.encode(payload)
        blob = builder.events[-1].blob
        assert (event.payload, blob) == ((data, None) if size == 10 else (None, data))
        prepared = prepare("t", event, payload)
        assert prepared.payload_digest == sha256(data)
        if event.payload_ref is not None:
            assert event.payload_ref.digest == digest_text(sha256(data))
            assert event.payload_ref.length == len(data)
