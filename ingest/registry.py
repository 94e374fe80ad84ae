"""Every format this version reads, and which of them a source is."""

from __future__ import annotations

from ingest.base import Importer, Sniff
from ingest.mini_swe_agent import MiniSweAgent
from ingest.native import NativeBundle

#: Foreign formats, in the order they are asked; one line per format.
IMPORTERS: tuple[Importer, ...] = (MiniSweAgent(),)
#: Our own export comes in by the install door, not as foreign events.
NATIVE = NativeBundle()

#: Below this an importer only guesses by the name.
CONFIDENCE_MIN = 0.2


def recognise(head: bytes, tail: bytes, name: str) -> tuple[Importer | NativeBundle, Sniff] | None:
    """The surest format for a source; None if none knows it."""
    best: tuple[Importer | NativeBundle, Sniff] | None = None
    asked: tuple[Importer | NativeBundle, ...] = (NATIVE, *IMPORTERS)
    for importer in asked:
        sniff = importer.sniff(head, tail, name)
        if sniff is None or sniff.confidence < CONFIDENCE_MIN:
            continue
        if best is None or sniff.confidence > best[1].confidence:
            best = (importer, sniff)
    return best


def titles() -> tuple[str, ...]:
    """What is read, for people."""
    return (*(importer.title for importer in IMPORTERS), NATIVE.title)
