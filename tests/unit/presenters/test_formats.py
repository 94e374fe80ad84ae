"""The list of formats that pages show is the list of importers."""

from __future__ import annotations

from app.presenters.formats import FORMATS
from ingest.registry import IMPORTERS, LOG_IMPORTERS, NATIVE


def test_every_importer_is_listed_once() -> None:
    known = [one.name for one in (*IMPORTERS, *LOG_IMPORTERS)]
    assert sorted(one.importer for one in FORMATS) == sorted([*known, NATIVE.name])
