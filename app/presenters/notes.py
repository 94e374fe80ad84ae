"""Acts as a page shows them: who said what, when, and about which boundary."""

from __future__ import annotations

from dataclasses import dataclass

from app.presenters.terminal import one_line
from core.acts import Act
from core.acts import Note as NoteBody


@dataclass(frozen=True, slots=True)
class Note:
    """One note."""

    number: int
    text: str
    actor: str
    recorded_at: int
    boundary: int | None


def note(act: Act) -> Note:
    """A note of its act."""
    assert isinstance(act.body, NoteBody), "only notes are shown so"
    return Note(act.number, act.body.text, one_line(act.actor, 60), act.recorded_at, act.boundary)
