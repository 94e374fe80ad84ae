"""What a trajectory's standing lets a page claim: completeness, and what its source cannot say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.presenters.format import plural
from core.events.task import Capabilities
from core.query import OPEN
from core.rules import completeness as claims
from store.ports import Head


@dataclass(frozen=True, slots=True)
class Completeness:
    """How complete the prefix is known to be, as a grade's word and a sentence."""

    grade: str
    text: str


def completeness(
    head: Head, staged: Sequence[tuple[int, int]], *, part: bool = False
) -> Completeness:
    """What this store can say of the prefix it holds (EFF-3). `part`: of what is shown of it, up
    to `head`, whether or not more is stored."""
    claim = claims.completeness(head.standing, head.sequence_number, staged)
    text = claim.text
    if part and head.standing == "imported":
        text = (
            f"of an imported file the first {plural(head.sequence_number, 'event')}, "
            "completeness not provable"
        )
    return Completeness("established" if claim.proves_absence else "unknown", text)


#: What a session's file says between two turns.
TURN_ENDED = "turn ended"


def control_word(state: str, standing: str, *, at_end: bool) -> str:
    """A control state in words. RUNNING is what a log says that has recorded no end; of a file or
    copy it would claim that something runs. PAUSED is in a session's file what stands between two
    turns; nobody paused it."""
    if standing == "imported" and state == "PAUSED":
        return TURN_ENDED
    if state != "RUNNING" or standing in ("gated", "reported"):
        return state
    if not at_end:
        return "no end so far"
    return "no end recorded" if standing == "imported" else "no end in this copy"


def list_word(state: str, standing: str) -> tuple[str, str]:
    """(the status as lists show it and `status:` matches it, what it means where that is not
    plain)."""
    if state == "RUNNING" and standing not in ("gated", "reported"):
        return OPEN, control_word(state, standing, at_end=True)
    if standing == "imported" and state == "PAUSED":
        return TURN_ENDED, "the session may go on; status:paused finds it"
    return state, ""


def cost_doubt(nano_usd: int, standing: str) -> str:
    """Why a cost may be none, or empty. Programs write 0 for a model they know no price of."""
    if nano_usd or standing in ("gated", "reported"):
        return ""
    return "the source states 0, which programs also write for a model they know no price of"


#: (capability, what it is called, what each word short of `recorded` means for a reader)
_SAYS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "intents",
        "intents",
        {
            "proposals": "a call the model asked for; it is not proof that it was sent",
            "absent": "no intent is recorded before its effect",
        },
    ),
    (
        "exact_inputs",
        "delivered inputs",
        {"derived": "rebuilt from the messages before each reply", "absent": "not recorded"},
    ),
    (
        "workspace",
        "workspace",
        {
            "derived": "from what the tools report",
            "absent": "no snapshot is in the source; nothing was lost in the import",
        },
    ),
    ("ownership", "ownership", {"absent": "no generations and no leases: no fencing to check"}),
    (
        "reservations",
        "reservations",
        {"absent": "the budget shows what was used, not that zero was reserved"},
    ),
    ("approvals", "approvals", {"absent": "whether any was asked for is not in the source"}),
    (
        "times",
        "times",
        {"derived": "from the order of the source", "absent": "order is all there is"},
    ),
    (
        "replay_boundary",
        "replay boundary",
        {"absent": "clocks, ids and environment were not captured"},
    ),
)


@dataclass(frozen=True, slots=True)
class CannotSay:
    """One thing a source does not record, or only in part."""

    what: str
    kind: str
    """unknown or never, as a mark."""
    word: str
    why: str


def cannot_say(capabilities: Capabilities) -> tuple[CannotSay, ...]:
    """What the source of a trajectory cannot say, from its own TaskStarted."""
    found = []
    for name, what, reasons in _SAYS:
        held = getattr(capabilities, name)
        if held in reasons:
            word = {"absent": "never recorded", "proposals": "unknown"}.get(held, held)
            kind = "unknown" if held == "proposals" else "never"
            found.append(CannotSay(what, kind, word, reasons[held]))
    return tuple(found)


def absent_lanes(standing: str, capabilities: Capabilities) -> frozenset[str]:
    """Lanes of the ribbon that a source can never fill."""
    if standing in ("gated", "reported"):
        return frozenset()
    lanes = set()
    if capabilities.ownership == "absent":
        lanes.add("ownership")
    if capabilities.approvals == "absent":
        lanes.add("approvals")
    return frozenset(lanes)
