"""What people said of a trajectory beside its log: notes, tags, and the tree it is part of.

An act is a fact of its own (core.acts): nothing here enters the log or a record, so a page shows
it apart, with who said it and when, whatever the boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app import links, render
from app.deps import ReaderDep, RuntimeDep, TrajectoryPath, WriterDep
from app.presenters import trees
from app.presenters.acted import Banner, banners
from app.presenters.notes import Note, note
from app.presenters.terminal import one_line
from app.presenters.trees import TreeView
from app.render import Page
from core import acts
from core.acts import ActKind
from core.canonical import sha256
from core.errors import InvalidInput
from core.limits import INTEGER_MAX, PAGE_ROWS_MAX
from core.principal import Principal
from core.record.record import TrajectoryRecord
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

#: Notes of one boundary that stand on its page; the others are a link away.
NOTES_SHOWN = 3
NOTES_LISTED = 200
TEXT_CHARS_MAX = 4000


@dataclass(frozen=True, slots=True)
class SendForm:
    """What a form of the desk needs: who may send it, and what was said when it was shown."""

    allowed: bool
    why: str
    last: int
    """Number of the newest act about the trajectory."""


def form_of(who: Principal, last: int) -> SendForm:
    """A form after act `last`: sent twice, it is one act."""
    allowed = "write" in who.roles
    return SendForm(allowed, "" if allowed else "this credential may read and not write", last)


@dataclass(frozen=True, slots=True)
class Relative:
    """A line to a trajectory that this one began from, or that began from it."""

    word: str
    name: str
    href: str
    note: str = ""
    """What else is to be said of it, after its name."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Beside one boundary."""

    here: tuple[Note, ...]
    """Notes of this very boundary."""
    here_more: int
    notes: int
    """All notes of the trajectory that hold."""
    noted: frozenset[int]
    """Boundaries that have one."""
    tags: tuple[str, ...]
    parent: Relative | None
    children: int
    withdrawn: int
    """Sub-agents that were withdrawn, and are not among these."""
    more_children: bool
    form: SendForm


def load(
    runtime: Runtime, who: Principal, trajectory_id: str, seq: int, record: TrajectoryRecord
) -> Desk:
    """The desk beside a boundary. The parent is what the log says up to it; sub-agents, notes and
    tags are as of now."""
    said = runtime.standing_of(who, trajectory_id)
    here = [note(act) for act in said.notes if act.boundary == seq]
    parent_id = record.scope.parent_trajectory_id
    parent = None
    if parent_id is not None:
        known = runtime.summary(who, parent_id)
        parent = Relative(
            "sub-agent of",
            _title(known, parent_id),
            links.jump(parent_id, q=record.scope.parent_operation_id or "head") if known else "",
            "which is not stored here"
            if known is None
            else "which was withdrawn"
            if known["withdrawn"]
            else "",
        )
    children = runtime.children(who, trajectory_id, limit=PAGE_ROWS_MAX)
    return Desk(
        here=tuple(here[-NOTES_SHOWN:]),
        here_more=max(0, len(here) - NOTES_SHOWN),
        notes=len(said.notes),
        noted=frozenset(act.boundary for act in said.notes if act.boundary is not None),
        tags=said.tags,
        parent=parent,
        children=sum(1 for child in children if not child["hidden"]),
        withdrawn=sum(1 for child in children if child["withdrawn"]),
        more_children=len(children) == PAGE_ROWS_MAX,
        form=form_of(who, said.last),
    )


def _title(summary: Mapping[str, object] | None, trajectory_id: str) -> str:
    title = summary.get("title") if summary else None
    return one_line(str(title or trajectory_id), 80)


# ---- notes and tags ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotesPage(Page):
    """Every note and tag of one trajectory."""

    template: ClassVar[str] = "pages/notes.html"
    section: ClassVar[str] = "Trajectories"

    now: int
    trajectory_id: str
    name: str
    head: int
    notes: tuple[Note, ...]
    retracted: tuple[Note, ...]
    left_out: int
    tags: tuple[str, ...]
    known_tags: tuple[str, ...]
    """Tags of other trajectories, to choose from."""
    banners: tuple[Banner, ...]
    form: SendForm
    text_max: int = TEXT_CHARS_MAX


@router.get("/t/{trajectory_id}/notes", response_class=HTMLResponse)
def notes(
    request: Request, who: ReaderDep, runtime: RuntimeDep, trajectory_id: TrajectoryPath
) -> Response:
    """What people said of it."""
    said = runtime.standing_of(who, trajectory_id)
    summary = runtime.summary(who, trajectory_id)
    name = _title(summary, trajectory_id)
    page = NotesPage(
        title=f"Notes on {name}",
        now=runtime.clock(),
        trajectory_id=trajectory_id,
        name=name,
        head=runtime.head(who, trajectory_id).sequence_number,
        notes=tuple(note(act) for act in reversed(said.notes[-NOTES_LISTED:])),
        retracted=tuple(note(act) for act in reversed(said.retracted[-NOTES_LISTED:])),
        left_out=max(0, len(said.notes) - NOTES_LISTED),
        tags=said.tags,
        known_tags=tuple(tag for tag, _ in runtime.tags(who, limit=40) if tag not in said.tags),
        banners=banners(said),
        form=form_of(who, said.last),
    )
    return render.respond(request, page)


What = Literal["note", "tag", "untag", "retract"]


@router.post("/t/{trajectory_id}/notes")
def say(
    who: WriterDep,
    runtime: RuntimeDep,
    trajectory_id: TrajectoryPath,
    *,
    what: Annotated[What, Form()],
    last: Annotated[int, Form(ge=0, le=INTEGER_MAX)] = 0,
    text: Annotated[str, Form(max_length=4 * TEXT_CHARS_MAX)] = "",
    boundary: Annotated[str, Form(pattern=r"^[0-9]{0,16}$")] = "",
    number: Annotated[int, Form(ge=0, le=INTEGER_MAX)] = 0,
    back: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Record one act, and go back to where it was said."""
    kind: ActKind = what
    body: Mapping[str, object]
    said = text.replace("\r\n", "\n").strip()
    if what == "note":
        if len(said) > TEXT_CHARS_MAX:
            raise InvalidInput(
                f"a note is at most {TEXT_CHARS_MAX} characters; this one has {len(said)}",
                field="text",
            )
        body = {"text": said}
    elif what == "retract":
        body = {"number": number}
    else:
        body = {"tag": said.lower()}
    act = runtime.act(
        who,
        kind,
        acts.decode(kind, dict(body)),
        request_id=_request_id(who, trajectory_id, (what, last, boundary, number, said)),
        trajectory_id=trajectory_id,
        boundary=int(boundary) if boundary and what == "note" else None,
    )
    prefix = f"{links.trajectory(trajectory_id)}/"
    there = back if back.startswith(prefix) and "\\" not in back else links.notes(trajectory_id)
    return RedirectResponse(f"{there}#act-{act.number}", 303)


def _request_id(who: Principal, trajectory_id: str, sent: tuple[object, ...]) -> str:
    """The same form sent again is the same request; after another act, it is another."""
    parts = (who.tenant, who.name, trajectory_id, *map(str, sent))
    return f"page.{sha256(chr(0).join(parts).encode()).hex()[:40]}"


# ---- the tree ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreePage(Page):
    """A trajectory with its parent and sub-agents."""

    template: ClassVar[str] = "pages/tree.html"
    section: ClassVar[str] = "Trajectories"

    now: int
    trajectory_id: str
    name: str
    view: TreeView


@router.get("/t/{trajectory_id}/tree", response_class=HTMLResponse)
def tree(
    request: Request, who: ReaderDep, runtime: RuntimeDep, trajectory_id: TrajectoryPath
) -> Response:
    """Who began whom, and what they add up to."""
    found = runtime.tree(who, trajectory_id)
    name = _title(runtime.summary(who, trajectory_id), trajectory_id)
    page = TreePage(
        title=f"Sub-agents of {name}",
        now=runtime.clock(),
        trajectory_id=trajectory_id,
        name=name,
        view=trees.build(found),
    )
    return render.respond(request, page)
