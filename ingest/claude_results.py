"""What a tool's answer in a Claude Code session says of the call: outcome, changes, plan.

Deliberate choices, with their reasons:
- A call that a person or a rule refused is `no_effect`: the program says that it did not run it.
- So is one that the program left out because the turn was stopped before it ("doesn't want to
  take this action right now"); that is no decision on this call, so no approval is stated.
- A call that was stopped while it ran is `unknown`: what it had done by then is not recorded.
- A call that starts something in the background succeeded in starting it; `covers` says so, and
  what comes of the job is in later messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from core.events.control import PlanItem
from core.events.fields import Change, WorkspaceChange
from core.events.tool import ResultStatus, ToolResult
from core.limits import PLAN_ITEMS_MAX
from ingest import claude_lines
from ingest.claude_lines import an_object, text

_REJECTED = "The user doesn't want to proceed with this tool use"
_STOPPED = "The user doesn't want to take this action right now"
_ASKED_ONLY = re.compile(
    r"Claude requested permissions to .{1,200}, but you haven't granted it yet"
)
_DENIED = re.compile(r"Permission to use .{1,2000} has been denied")
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d{1,9})\b")
_TIMED_OUT = re.compile(r"(?:Error: )?Command timed out after")
_REASON = "The user provided the following reason for the rejection:"
_CUT = re.compile(r"\[\s*[\d,.]+\s+(?:characters|lines) truncated\s*\]|<persisted-output>")
_PATCH_CHARS_MAX = 200_000
_HEAD_CHARS = 4000
#: Tools that hand in a plan or a list of things to do.
PLAN_TOOLS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "ExitPlanMode"})
#: Tools that start a sub-agent.
AGENT_TOOLS = frozenset({"Task", "Agent"})
_STATUS = {
    "pending": "open",
    "in_progress": "doing",
    "completed": "done",
    "deleted": "dropped",
    "cancelled": "dropped",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on a call that the source states."""

    granted: bool
    reviewer: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a result says."""

    result: ToolResult
    decision: Decision | None


def read(
    tool: str | None, block: dict[str, Any], line: dict[str, Any], pairing: str, arguments: object
) -> Answer:
    """The result of a `tool_result` block and of what its line adds."""
    beside = line.get("toolUseResult")
    extra = an_object(beside)
    content = block.get("content")
    said = content if isinstance(content, str) else claude_lines.text_of(content)
    head = (said or "")[:_HEAD_CHARS]
    status, proof = _status(head, block, extra)
    decision = _decision(tool, head, line.get("toolDenialKind"))
    if decision is not None and not decision.granted:
        status, proof = "no_effect", "the program says that the call was refused, so it did not run"
    images = claude_lines.images_of(block.get("content"))
    complete, rest = _complete(head, said, images)
    code = _EXIT_CODE.match(head)
    job, covers = _job(extra)
    return Answer(
        ToolResult(
            status=status,
            basis="sender",
            proof=proof,
            covers=covers if status == "succeeded" else None,
            job_handle=job,
            observation=said,
            observation_complete=complete,
            observation_rest=rest,
            exit_code=int(code.group(1)) if code else None,
            pairing=pairing,
            workspace=_change(extra) if status == "succeeded" else None,
        ),
        decision,
    )


def _status(
    head: str, block: dict[str, Any], extra: dict[str, Any]
) -> tuple[ResultStatus, str | None]:
    if head.startswith(_STOPPED):
        return "no_effect", "the program says that it did not take this action"
    if _ASKED_ONLY.match(head):
        return "no_effect", "the program says that permission had not been granted"
    if head.startswith(claude_lines.INTERRUPTED) or extra.get("interrupted") is True:
        return "unknown", "the call was stopped while it ran"
    if _TIMED_OUT.match(head):
        return "timeout", None
    if block.get("is_error") is True:
        return "failed", None
    read_as = text(extra.get("returnCodeInterpretation"))
    return "succeeded", None if read_as is None else f"its return code was read as: {read_as[:200]}"


def _decision(tool: str | None, head: str, kind: object) -> Decision | None:
    """A refusal or, for a plan, a grant; None where the source states no decision."""
    named = text(kind)
    reason = head.partition(_REASON)[2].strip()
    if named is not None:
        reviewer = "user" if named.startswith("user") else named[:100]
        evidence = f"toolDenialKind {named[:100]}"
        return Decision(False, reviewer, f"{evidence}: {reason}" if reason else evidence)
    if head.startswith(_REJECTED):
        evidence = "the tool's answer says that the user rejected it"
        return Decision(False, "user", f"{evidence}: {reason}" if reason else evidence)
    if _DENIED.match(head):
        return Decision(False, "permission rules", "the tool's answer says that it was denied")
    if tool == "ExitPlanMode" and head.startswith("User has approved your plan"):
        return Decision(True, "user", "the tool's answer says that the user approved the plan")
    return None


def _complete(
    head: str, said: str | None, images: list[claude_lines.Image]
) -> tuple[bool, str | None]:
    if images:
        what = "1 image" if len(images) == 1 else f"{len(images)} images"
        return False, f"{what}, in the original line"
    if said is None:
        return True, None
    if head.lstrip().startswith("<persisted-output>"):
        return False, "in a file that the text names; the session holds its beginning only"
    if _CUT.search(head) or _CUT.search(said[-_HEAD_CHARS:]):
        return False, "not recorded: the program cut it before it was written"
    return True, None


def _job(extra: dict[str, Any]) -> tuple[str | None, str | None]:
    """(handle, what the result holds for) of a call that started a job or a sub-agent."""
    background = text(extra.get("backgroundTaskId"))
    if background is not None:
        return background[:128], "starting the command; it goes on in the background"
    agent = text(extra.get("agentId"))
    if agent is None:
        return None, None
    if extra.get("isAsync") is True or extra.get("status") == "async_launched":
        return f"agent:{agent}"[:128], "starting the sub-agent; it goes on in the background"
    return f"agent:{agent}"[:128], None


# --- the workspace ---------------------------------------------------------------------------


def _change(extra: dict[str, Any]) -> WorkspaceChange | None:
    """The file an edit changed, with its patch; None for other tools."""
    path, patch = text(extra.get("filePath")), extra.get("structuredPatch")
    if path is None or not isinstance(patch, list):
        return None
    created = extra.get("type") == "create"
    return WorkspaceChange(
        changes=(
            Change(
                path=path,
                kind="written" if created or extra.get("type") == "update" else "edited",
                diff=_unified(path, patch),
            ),
        )
    )


def _unified(path: str, patch: list[Any]) -> str | None:
    """A unified diff; None where there is none or it is too long to repeat."""
    lines = [f"--- {path}", f"+++ {path}"]
    size = 0
    for hunk in patch:
        part = an_object(hunk)
        body = part.get("lines")
        numbers = [part.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        if not isinstance(body, list) or not all(isinstance(one, int) for one in numbers):
            return None
        lines.append("@@ -{},{} +{},{} @@".format(*numbers))
        for one in body:
            if not isinstance(one, str):
                return None
            size += len(one)
            lines.append(one)
        if size > _PATCH_CHARS_MAX:
            return None
    return "\n".join(lines) + "\n" if len(lines) > 2 else None


# --- the plan --------------------------------------------------------------------------------


class PlanBook:
    """The plan as the session's tools have written it so far."""

    def __init__(self) -> None:
        self.revision = 0
        self._plan: PlanItem | None = None
        self._todos: tuple[PlanItem, ...] = ()
        self._tasks: dict[str, PlanItem] = {}

    def after(
        self, tool: str, arguments: object, said: str | None, beside: object
    ) -> tuple[PlanItem, ...] | None:
        """All items after a plan tool succeeded; None if it changed nothing."""
        given = an_object(arguments)
        changed = False
        if tool == "TodoWrite":
            changed = self._write(given.get("todos"))
        elif tool == "ExitPlanMode":
            plan = text(given.get("plan"))
            changed = plan is not None
            if plan is not None:
                self._plan = PlanItem(id="plan", text=plan)
        elif tool == "TaskCreate":
            changed = self._create(given, said, beside)
        elif tool == "TaskUpdate":
            changed = self._update(given)
        if not changed:
            return None
        self.revision += 1
        head = (self._plan,) if self._plan is not None else ()
        return (*head, *self._todos, *self._tasks.values())

    def _write(self, todos: object) -> bool:
        if not isinstance(todos, list):
            return False
        self._todos = tuple(
            PlanItem(
                id=text(an_object(todo).get("id")) or str(number),
                text=text(an_object(todo).get("content")) or "",
                status=_status_word(an_object(todo).get("status")),
            )
            for number, todo in enumerate(todos, 1)
        )
        return True

    def _create(self, given: dict[str, Any], said: str | None, beside: object) -> bool:
        stated = text(an_object(an_object(beside).get("task")).get("id"))
        found = re.match(r"Task #(\w{1,40})", said or "")
        identity = stated or (found.group(1) if found else None)
        if identity is None:
            return False
        self._tasks[identity] = PlanItem(id=identity, text=text(given.get("subject")) or "")
        if len(self._tasks) > PLAN_ITEMS_MAX:
            del self._tasks[next(iter(self._tasks))]  # A record holds no more than these.
        return True

    def _update(self, given: dict[str, Any]) -> bool:
        identity = text(given.get("taskId"))
        known = self._tasks.get(identity) if identity is not None else None
        if identity is None or known is None:
            return False
        blocked = given.get("addBlockedBy")
        more = tuple(one for one in blocked if text(one)) if isinstance(blocked, list) else ()
        self._tasks[identity] = PlanItem(
            id=identity,
            text=text(given.get("subject")) or known.text,
            status=_status_word(given["status"]) if "status" in given else known.status,
            depends_on=(*known.depends_on, *(one for one in more if one not in known.depends_on)),
            owner=text(given.get("owner")) or known.owner,
        )
        return True


def _status_word(value: object) -> str:
    found = text(value)
    return "open" if found is None else _STATUS.get(found, found)
