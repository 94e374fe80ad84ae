"""Finding the sessions that tools keep in a home folder, without taking any.

Each tool's places are looked at as an import would look at them (no links followed inside); of a
session only its first bytes are read, to make sure of its format and to learn its project.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import ImportRefused
from core.instants import Instant
from ingest import files, registry

#: The project of a session whose first lines name none.
NOT_STATED = "(no project stated)"
_HEAD_BYTES = 32 * 1024
_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.){1,1024}")')


@dataclass(frozen=True, slots=True)
class Tool:
    """Where one tool keeps its sessions."""

    importer: str
    """Name of the importer that reads them."""
    title: str
    variable: str
    """Environment variable that names the tool's folder instead."""
    homes: tuple[str, ...]
    """The tool's folder, below `~`."""
    below: tuple[str, ...]
    """Where in it the sessions lie."""
    wanted: re.Pattern[str]
    """Names of session files."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file that was looked for."""

    tool: Tool
    path: Path
    there: bool


@dataclass(slots=True)
class Project:
    """Sessions of one tool in one project."""

    tool: str
    importer: str
    name: str
    """The project's folder as the sessions state it; else the folder they lie in."""
    paths: list[str] = field(default_factory=list)
    bytes: int = 0
    newest_at: Instant = 0
    """When the newest of them was last written."""


@dataclass(slots=True)
class Found:
    """What discovery met."""

    places: list[Place] = field(default_factory=list)
    projects: list[Project] = field(default_factory=list)
    """By tool, newest first."""
    left: list[files.Skipped] = field(default_factory=list)
    """Session files that would not be taken, and why."""

    @property
    def sessions(self) -> int:
        """Files that would be imported."""
        return sum(len(project.paths) for project in self.projects)

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(project.bytes for project in self.projects)


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TOOLS: tuple[Tool, ...] = (
    Tool(
        "claude-code",
        "Claude Code",
        "CLAUDE_CONFIG_DIR",
        (".claude", ".config/claude"),
        ("projects",),
        re.compile(rf"(?:{_UUID}|agent-[A-Za-z0-9_-]+)\.jsonl"),
    ),
    Tool(
        "codex",
        "Codex",
        "CODEX_HOME",
        (".codex",),
        ("sessions", "archived_sessions"),
        re.compile(r"rollout-.+\.jsonl"),
    ),
    Tool(
        "mini-swe-agent",
        "mini-swe-agent",
        "MSWEA_GLOBAL_CONFIG_DIR",
        (".config/mini-swe-agent", "Library/Application Support/mini-swe-agent"),
        ("",),
        re.compile(r".+\.traj\.json"),
    ),
)


def places(home: Path, environment: Mapping[str, str]) -> Iterator[Place]:
    """The places of every tool, also those that are not there."""
    for tool in TOOLS:
        moved = environment.get(tool.variable, "")
        folders = [Path(moved).expanduser()] if moved else [home / name for name in tool.homes]
        for folder in folders:
            for name in tool.below:
                yield Place(tool, folder / name, (folder / name).exists())


def discover(
    home: Path, environment: Mapping[str, str], watch: Callable[[str], None] = lambda path: None
) -> Found:
    """What an import of this home folder would take. `watch` gets each place as it is looked at."""
    found = Found()
    projects: dict[tuple[str, str], Project] = {}
    for place in places(home, environment):
        found.places.append(place)
        if not place.there:
            continue
        watch(files.show(str(place.path)))
        try:
            _look(place, projects, found.left)
        except ImportRefused as error:
            found.left.append(files.Skipped(files.show(str(place.path)), str(error)))
    order = [tool.importer for tool in TOOLS]
    found.projects = sorted(
        projects.values(), key=lambda one: (order.index(one.importer), -one.newest_at, one.name)
    )
    return found


def _look(
    place: Place, projects: dict[tuple[str, str], Project], left: list[files.Skipped]
) -> None:
    tool = place.tool

    def wanted(path: str, _: os.stat_result) -> bool:
        return tool.wanted.fullmatch(path.rpartition("/")[2]) is not None

    for opened in files.walk(place.path, wanted):
        if isinstance(opened, files.Skipped):
            if tool.wanted.fullmatch(opened.name.rpartition("/")[2]) or "left out" in opened.why:
                left.append(opened)
            continue
        with opened.file as file:
            head = file.read(_HEAD_BYTES)
            tail = b""
            if opened.size > _HEAD_BYTES:
                file.seek(max(0, opened.size - 8 * 1024))
                tail = file.read(8 * 1024)
        why = _not_a_session(tool, head, tail or head, opened)
        if why is not None:
            left.append(files.Skipped(opened.name, why))
            continue
        name = _project_of(head) or _folder_of(opened.name)
        project = projects.setdefault(
            (tool.importer, name), Project(tool.title, tool.importer, name)
        )
        project.paths.append(opened.name)
        project.bytes += opened.size
        project.newest_at = max(project.newest_at, opened.before.st_mtime_ns // 1000)


def _not_a_session(tool: Tool, head: bytes, tail: bytes, opened: files.OpenedFile) -> str | None:
    """Why a file would not be taken; None if it would."""
    if not opened.size:
        return "it is empty"
    known = registry.recognise(head, tail, opened.name)
    if known is None or known[0].name != tool.importer:
        return f"its first bytes are not those of a session of {tool.title}"
    if not os.path.exists(opened.name):
        return "its name cannot be typed; import the folder it lies in"
    return None


def _project_of(head: bytes) -> str | None:
    """The working folder that the first lines state."""
    found = _CWD.search(head)
    if found is None:
        return None
    try:
        return files.show(str(json.loads(found.group(1))))
    except ValueError:
        return None


def _folder_of(name: str) -> str:
    """`.../projects/<slug>/x.jsonl` and its sub-agents -> `<slug>`; else it is not stated."""
    parts = name.split("/")
    if "projects" in parts[:-2]:
        return parts[parts.index("projects") + 1]
    return NOT_STATED
