"""The formats this version reads, as a person looks for their own files: where, and what like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """One tool's sessions."""

    importer: str
    """Name of the importer; a test compares them with the registry."""
    title: str
    where: tuple[str, ...]
    """Paths and globs, as one would type them."""
    looks: str
    cannot: str


FORMATS: tuple[Format, ...] = (
    Format(
        "mini-swe-agent",
        "mini-swe-agent 1.x and 2.x",
        (
            "~/.config/mini-swe-agent/last_mini_run.traj.json",
            "OUTPUT/<instance>/<instance>.traj.json",
        ),
        "one JSON document with info, messages and trajectory_format, rewritten after every step; "
        "the file you gave to --output (-o) is one",
        "whether a call without a result was sent; 1.x also has no times",
    ),
    Format(
        "strandline-bundle",
        "Strandline log export",
        ("<trajectory>.jsonl",),
        'lines of JSON, the first begins with {"strandline":"bundle/1"; it installs with the same '
        "chain, read-only",
        "what its own source could not say",
    ),
)
