"""Between a source and the store: what is durable first, and whose fault a fault is."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import StoreStopped
from core.events.envelope import ORIGINAL_SCHEMA
from ingest.pipeline import import_path
from store.open import Opened
from tests.ingest.support import TENANT, fixture, log_of, take


class Watched:
    """The real store; before each append it looks whether the bytes it points at are there."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.named = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened.store, name)

    def append(self, command: Any, *more: Any) -> Any:
        for one in command.events:
            refs = [ref for ref in one.event.refs if ref.schema == ORIGINAL_SCHEMA]
            assert refs
            if one.event.payload_ref is not None:
                refs.append(one.event.payload_ref)
            for ref in refs:
                assert self._opened.blobs.state(TENANT, ref.digest) == "present"
                self.named += 1
        return self._opened.store.append(command, *more)


def test_originals_are_durable_before_the_append_that_points_at_them(opened: Opened) -> None:
    store = Watched(opened)
    path = fixture("repair-slugify")
    (report,) = import_path(store, opened.blobs, TENANT, path)  # type: ignore[arg-type]
    assert report.outcome == "imported"
    assert store.named >= len(log_of(opened, report.trajectories[0].id)) > 0


def test_a_fault_of_the_store_is_raised_and_is_in_no_report(opened: Opened) -> None:
    opened.store.close()
    with pytest.raises(StoreStopped):
        take(opened, fixture("format-error"))
