"""Every format this version reads, and which of them a source is."""

from __future__ import annotations

from typing import TypeGuard

from ingest.base import Importer, LogImporter, Sniff
from ingest.claude_code import ClaudeCode, ClaudeExport
from ingest.codex import Codex
from ingest.mini_swe_agent import MiniSweAgent
from ingest.native import NativeBundle
from ingest.swe_agent import SweAgent

#: Foreign formats, in the order they are asked; one line per format.
IMPORTERS: tuple[Importer, ...] = (
    MiniSweAgent(),
    SweAgent(),
    ClaudeExport(),
)
#: Formats that are a growing file of JSON lines; one line per format.
LOG_IMPORTERS: tuple[LogImporter, ...] = (ClaudeCode(), Codex())
#: Our own export comes in by the install door, not as foreign events.
NATIVE = NativeBundle()

#: Below this an importer only guesses by the name.
CONFIDENCE_MIN = 0.2


Known = Importer | LogImporter | NativeBundle


def is_log(importer: Known) -> TypeGuard[LogImporter]:
    """Whether a format is a growing file of JSON lines."""
    return importer in LOG_IMPORTERS


def recognise(head: bytes, tail: bytes, name: str) -> tuple[Known, Sniff] | None:
    """The surest format for a source; None if none knows it."""
    best: tuple[Known, Sniff] | None = None
    asked: tuple[Known, ...] = (NATIVE, *IMPORTERS, *LOG_IMPORTERS)
    for importer in asked:
        sniff = importer.sniff(head, tail, name)
        if sniff is None or sniff.confidence < CONFIDENCE_MIN:
            continue
        if best is None or sniff.confidence > best[1].confidence:
            best = (importer, sniff)
    return best


def titles() -> tuple[str, ...]:
    """What is read, for people."""
    known: tuple[Known, ...] = (*IMPORTERS, *LOG_IMPORTERS, NATIVE)
    return tuple(importer.title for importer in known)
