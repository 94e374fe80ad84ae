"""What a prefix may claim (EFF-3, CLM-3): whether absence in it proves anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.events.envelope import Standing

Kind = Literal["authoritative", "imported", "replica"]


@dataclass(frozen=True, slots=True)
class Completeness:
    """What was read from, how far it reaches, and whether it proves absence."""

    kind: Kind
    complete_to: int
    proves_absence: bool
    text: str
    """For a page: `authoritative, complete to 418`."""


def completeness(
    standing: Standing, head: int, staged: Sequence[tuple[int, int]] = ()
) -> Completeness:
    """The claim of a prefix that ends at `head`; `staged` are installed ranges beyond a gap."""
    if standing == "imported":
        return Completeness(
            "imported",
            head,
            False,
            f"imported file, {_events(head)}, completeness not provable",
        )
    if standing == "replica":
        text = f"installed copy, complete to {head:,}"
        if staged:
            first = min(start for start, _ in staged)
            last = max(end for _, end in staged)
            text += f" of at least {last:,}: a gap from {head + 1:,} to {first - 1:,}"
        return Completeness("replica", head, False, text)
    return Completeness("authoritative", head, True, f"authoritative, complete to {head:,}")


def _events(count: int) -> str:
    return f"{count:,} event" if count == 1 else f"{count:,} events"
