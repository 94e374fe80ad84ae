"""The list of formats that pages show is the list of importers."""

from __future__ import annotations

from app.presenters.formats import FORMATS
from ingest.registry import IMPORTERS, LOG_IMPORTERS, NATIVE


def test_every_importer_is_listed_once() -> None:
    known = [one.name for one in (*IMPORTERS, *LOG_IMPORTERS)]
    assert sorted(one.importer for one in FORMATS) == sorted([*known, NATIVE.name])


def test_every_layout_an_importer_names_is_said() -> None:
    said = {one.importer: f"{one.title} {one.looks} {' '.join(one.where)}" for one in FORMATS}
    for importer, words in (
        ("mini-swe-agent", ("1.x", "2.x", "bare list")),
        ("swe-agent", ("0.x", "1.x")),
        ("claude-code", ("subagents/agent-",)),
        ("claude-code-export", ("loglines",)),
        ("codex", ("session_meta", "codex exec --json")),
        ("strandline", ("bundle/1",)),
    ):
        assert all(word in said[importer] for word in words), importer
