"""One Claude Code session while it is derived: which line belongs to which agent.

A session file holds the lines of its own agent and, in older layouts, those of its sub-agents
between them (`isSidechain`); newer ones keep each sub-agent in a file of its own. Every agent is
a trajectory. A side line belongs to the agent it names (`agentId`), else to the chain of parents
it hangs on; one whose parent is not in the file belongs to the only side chain there is, else it
begins one.

INVARIANTS
1. Where a line belongs follows from it and the lines before it.
2. TaskStarted states what the lines up to the first prompt say; a better title that comes later
   stands where it was learned, and the last is the same however the file was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.errors import InvalidInput
from core.events.fields import Json
from core.events.task import Capabilities, Parent, Restart, TaskStarted
from core.strictjson import loads
from ingest import claude_lines, claude_titles
from ingest.base import Findings, Grown, Line, LogSegment
from ingest.build import SourceKey
from ingest.claude_chain import Chain, Spawn
from ingest.claude_lines import an_object, text
from ingest.claude_titles import Titles

NAME = "claude-code"
VERSION = 1
SESSION = "Claude Code session"
AGENT = "Claude Code sub-agent"
EXPORT = "Claude Code web export"
_FACTS = ("cwd", "gitBranch", "version", "sessionId", "entrypoint", "agentId")
#: Calls that start a sub-agent, remembered until the side chain of each begins.
_SPAWNS_MAX = 1000
#: Other sessions that the report names, of each kind.
_SESSIONS_NAMED = 20
_COPIED = (
    "history copied when it was resumed; what they say is counted here and, if it is imported, in "
    "that session too"
)
#: Side chains of one file that name no agent; what hangs on nothing beyond that is one chain more.
_SIDE_CHAINS_MAX = 1000


def session_source(session: str) -> str:
    """Source id of a session whose id is known."""
    return f"session:{session}"


def agent_source(source_id: str, agent: str) -> str:
    """Source id of a sub-agent within a source, or beside it."""
    return f"{source_id}#agent:{agent}"


class Run:
    """A LogRun (see the port)."""

    def __init__(
        self,
        source_id: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        meta: dict[str, Any] | None = None,
        layout: str = SESSION,
        importer: str = NAME,
    ) -> None:
        """`session` and `agent` are those the file's name states; `meta` is what lies beside a
        sub-agent's file."""
        self.layout = layout if agent is None else AGENT
        self.findings = Findings()
        self._importer = importer
        self._source_id = source_id
        self._session = session
        self._agent = agent
        self._meta = meta or {}
        self._flat = layout == EXPORT
        self._unit = "logline" if self._flat else "line"
        self._settled = self._flat or agent is not None
        """Whether it is known if the file is a sub-agent's."""
        self._own = self._chain(None)
        self._subs: dict[str, Chain] = {}
        self._roots: dict[str, str] = {}
        """uuid of a side line without agentId -> name of its chain."""
        self._root_names: set[str] = set()
        self._spawns: list[Spawn] = []
        self._copied: dict[str, int] = {}
        """Lines of another session, by its id."""
        self._forked: dict[str, int] = {}
        """Lines that state which session they were copied from, by its id."""
        self._said: list[str] = []

    # --- segments ----------------------------------------------------------------------------

    def feed(self, segment: LogSegment) -> tuple[Grown, ...]:
        """See the port."""
        self._recognise(segment)
        routed = [(line, self._route(line)) for line in segment.lines]
        ahead: dict[int, list[Line]] = {}
        for line, chain in routed:
            ahead.setdefault(id(chain), []).append(line)
        begun: dict[int, Chain] = {}
        if routed and not self._own.started:
            begun[id(self._own)] = self._own
            self._own.begin(segment)
            self._start(self._own, ahead.get(id(self._own), []), segment.lines)
        for line, chain in routed:
            if id(chain) not in begun:
                begun[id(chain)] = chain
                chain.begin(segment)
            if not chain.started:
                for other in begun.values():
                    other.flush()
                self._collect(begun.values())
                self._start(chain, ahead[id(chain)], segment.lines)
            chain.take(line)
        grown = [(chain, chain.end()) for chain in begun.values()]
        self._collect(begun.values())
        self._tell()
        return tuple(
            Grown(chain.key.trajectory_id, chain.sub, chain.title, events)
            for chain, events in sorted(grown, key=lambda one: one[0].sub is not None)
            if events
        )

    def _collect(self, chains: Iterable[Chain]) -> None:
        for chain in chains:
            self._spawns += chain.spawns
            chain.spawns = []
        del self._spawns[:-_SPAWNS_MAX]

    def _recognise(self, segment: LogSegment) -> None:
        """Whether the whole file is a sub-agent's, by its first side line."""
        if self._settled:
            return
        for line in segment.lines:
            value = line.value or {}
            if "isSidechain" not in value:
                continue
            self._settled = True
            agent = text(value.get("agentId"))
            if value["isSidechain"] is True and agent is not None:
                self._agent, self.layout = agent, AGENT
            return

    # --- which agent -------------------------------------------------------------------------

    def _route(self, line: Line) -> Chain:
        value = line.value
        if value is None or self._flat:
            return self._own
        forked = _forked_from(value)
        if forked is not None:
            self._forked[forked] = self._forked.get(forked, 0) + 1
        session = text(value.get("sessionId"))
        if session is not None and self._session not in (None, session):
            self._copied[session] = self._copied.get(session, 0) + 1
        if value.get("isSidechain") is not True:
            return self._own
        agent = text(value.get("agentId"))
        if self._agent is not None and agent in (None, self._agent):
            return self._own
        return self._sub(agent if agent is not None else self._root_of(value))

    def _root_of(self, value: dict[str, Any]) -> str:
        """Name of the side chain of a line that names no agent."""
        uuid, parent = text(value.get("uuid")), text(value.get("parentUuid"))
        root = self._roots.get(parent) if parent is not None else None
        if root is None:
            if parent is not None and len(self._root_names) == 1:
                (root,) = self._root_names
                self.findings.gap(
                    "which sub-agent some side lines belong to",
                    "their parents are not in the file: they were put to the only side chain "
                    "before them",
                )
            elif len(self._root_names) >= _SIDE_CHAINS_MAX:
                root = "others"
            else:
                root = uuid or f"chain-{len(self._root_names) + 1}"
        self._root_names.add(root)
        if uuid is not None:
            self._roots[uuid] = root
        return root

    def _sub(self, name: str) -> Chain:
        chain = self._subs.get(name)
        if chain is None:
            chain = self._subs[name] = self._chain(name)
        return chain

    def _chain(self, name: str | None) -> Chain:
        source = self._source_id if name is None else agent_source(self._source_id, name)
        return Chain(SourceKey(self._importer, VERSION, source), name, self.findings, self._unit)

    # --- the start of a trajectory -----------------------------------------------------------

    def _start(self, chain: Chain, lines: list[Line], whole: tuple[Line, ...]) -> None:
        """TaskStarted, from what the lines up to the first that says what it is about state."""
        lines = _beginning(lines)
        values = [line.value for line in lines if line.value is not None]
        first = lines[0] if lines else whole[0]
        asked = next((line for line in lines if _asked(line) is not None), None)
        task = _asked(asked) if asked is not None else None
        is_agent = chain.sub is not None or self._agent is not None
        spawn = self._spawned_by(task) if chain.sub is not None else None
        facts = {name: _first(values, name) for name in _FACTS}
        kind = self._kind(chain, spawn, values)
        version = facts["version"]
        titles = self._titles(chain, spawn, kind)
        for value in values:
            if claude_lines.title_line(value) is None:
                titles.take(value)
        payload = TaskStarted(
            title=titles.now,
            standing="imported",
            capabilities=Capabilities(
                intents="proposals",
                exact_inputs="derived",
                workspace="derived",
                approvals="derived",
                times="recorded",
            ),
            task=task,
            requester="the agent above" if is_agent else None,
            agent=" ".join(
                part
                for part in ("Claude Code", version, f"({kind})" if kind else None)
                if part is not None
            ),
            source=AGENT if is_agent else self.layout,
            parent=self._parent(chain, spawn, facts["sessionId"]),
            restart=self._restart(facts["sessionId"], values) if not is_agent else None,
            configuration=_configuration(facts, values) or None,
            labels=_labels(facts, chain.sub or self._agent) or None,
        )
        held = [first] if asked is None or asked is first else [first, asked]
        chain.start(payload, held, titles)
        self._gaps()

    def _titles(self, chain: Chain, spawn: Spawn | None, kind: str | None) -> Titles:
        if chain.sub is None and self._agent is None:
            return Titles(f"Claude Code session {(self._session or '')[:8]}".strip())
        given = spawn.title if spawn is not None else None
        if chain.sub is None:
            given = text(self._meta.get("description"))
        name = f"Sub-agent {(chain.sub or self._agent or '')[:12]}"
        return Titles(name, given=given, kind=kind, is_agent=True)

    def _kind(self, chain: Chain, spawn: Spawn | None, values: list[dict[str, Any]]) -> str | None:
        """What kind of sub-agent it is, where that is stated."""
        if spawn is not None and spawn.kind is not None:
            return spawn.kind
        if chain.sub is None and self._agent is not None:
            stated = text(self._meta.get("agentType")) or _first(values, "attributionAgent")
            return stated[:60] if stated is not None else None
        return None

    def _spawned_by(self, task: str | None) -> Spawn | None:
        """The call whose prompt this side chain begins with, each call once."""
        for index, spawn in enumerate(self._spawns):
            if task is not None and spawn.prompt == task:
                return self._spawns.pop(index)
        return None

    def _parent(self, chain: Chain, spawn: Spawn | None, session: str | None) -> Parent | None:
        if spawn is not None:
            return Parent(trajectory_id=spawn.trajectory_id, operation_id=spawn.operation_id)
        if chain.sub is not None:
            return Parent(trajectory_id=self._own.key.trajectory_id)
        session = self._session or session
        if self._agent is None or session is None:
            return None
        depth = self._meta.get("spawnDepth")
        deep = isinstance(depth, int) and depth > 1
        call = text(self._meta.get("toolUseId"))
        return Parent(
            trajectory_id=SourceKey(NAME, VERSION, session_source(session)).trajectory_id,
            operation_id=None if deep or call is None or len(call) > 96 else call,
        )

    def _restart(self, session: str | None, values: list[dict[str, Any]]) -> Restart | None:
        """A file that begins with lines of another session was resumed or forked from it."""
        forked = next((found for found in map(_forked_from, values) if found is not None), None)
        if forked is not None and forked != self._session:
            what, origin = "forked", forked
        elif self._session is not None and session not in (None, self._session):
            assert session is not None
            what, origin = "resumed", session
        else:
            return None
        return Restart(
            description=f"{what}: the file begins with history copied from session {origin}",
            trajectory_id=SourceKey(NAME, VERSION, session_source(origin)).trajectory_id,
        )

    # --- what the report says ----------------------------------------------------------------

    def _gaps(self) -> None:
        gap = self.findings.gap
        gap("intents before their effect", "tool calls are what the model asked for")
        gap(
            "the request as it was sent",
            "the system prompt, the tool descriptions and how attachments were put into it are "
            "not in the file, so contexts are partial",
        )
        gap("owners, leases, reservations and checkpoints", "the program records none")
        gap("granted permissions", "a grant leaves no line; only refusals and approved plans do")
        gap("attempts of a model call", "only those that failed leave a line (api_error)")
        gap("changes of the workspace", "edits are recorded with their patch, commands are not")
        gap("how the session ended", "the file has no end: it may still go on, or be resumed")

    def _tell(self) -> None:
        """What holds for all lines so far; it replaces what was said before."""
        found = self.findings
        for what in self._said:
            found.gaps.pop(what, None)
            if what in found.notes:
                found.notes.remove(what)
        self._said = []
        waiting = self._own.open_calls + sum(chain.open_calls for chain in self._subs.values())
        if waiting:
            self._say_gap(
                f"the outcome of {waiting} proposed call" + ("s" if waiting > 1 else ""),
                "the file holds no result for it, so whether it was sent is unknown",
            )
        unreported = found.tokens.unreported
        if unreported:
            self._say_gap(
                f"tokens of {unreported} " + ("reply" if unreported == 1 else "replies"),
                "the file holds no usage for that; it is not counted as zero",
            )
        for session, lines in sorted(self._copied.items())[:_SESSIONS_NAMED]:
            self._say_note(f"{lines} lines state session {session[:60]}: {_COPIED}")
        for session, lines in sorted(self._forked.items())[:_SESSIONS_NAMED]:
            self._say_note(
                f"{lines} lines state that they were copied from session {session[:60]} "
                f"(forkedFrom): {_COPIED}"
            )

    def _say_note(self, note: str) -> None:
        self._said.append(note)
        self.findings.notes.append(note)

    def _say_gap(self, what: str, why: str) -> None:
        self._said.append(what)
        self.findings.gap(what, why)


def _forked_from(value: dict[str, Any]) -> str | None:
    """The session that a line says it was copied from."""
    found = text(an_object(value.get("forkedFrom")).get("sessionId"))
    return found if found is not None and len(found) <= 100 else None


def _beginning(lines: list[Line]) -> list[Line]:
    """The lines up to the first that says what the agent is about; all where none does."""
    for number, line in enumerate(lines, 1):
        if line.value is not None and claude_titles.begins(line.value):
            return lines[:number]
    return lines


def _asked(line: Line) -> str | None:
    """What a line asks for: a prompt, or a command with its arguments."""
    value = line.value or {}
    return claude_lines.prompt_of(value) or claude_lines.command_of(value)


def _first(values: list[dict[str, Any]], name: str) -> str | None:
    return next((found for value in values if (found := text(value.get(name))) is not None), None)


def _configuration(facts: dict[str, str | None], values: list[dict[str, Any]]) -> dict[str, Json]:
    mode = _first(values, "permissionMode")
    found: dict[str, Json] = {key: item for key, item in facts.items() if item is not None}
    if mode is not None:
        found["permissionMode"] = mode
    return found


def _labels(facts: dict[str, str | None], agent: str | None) -> dict[str, str]:
    """What a person filters by."""
    named = {
        "project": claude_lines.project_of(facts["cwd"]),
        "folder": facts["cwd"],
        "branch": facts["gitBranch"],
        "session": facts["sessionId"],
        "sub_agent": agent,
    }
    return {key: item for key, item in named.items() if item}


def meta_of(data: bytes | None) -> dict[str, Any]:
    """The object beside a sub-agent's file; empty where there is none that can be read."""
    if data is None:
        return {}
    try:
        return an_object(loads(data))
    except InvalidInput:
        return {}
