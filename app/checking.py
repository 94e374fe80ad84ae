"""verify, audit, doctor and where on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app import backend, console, lockfile, paths
from app.presenters import format as fmt
from app.settings import Settings
from app.wiring import version
from core.errors import StrandlineError
from ingest import redact, redact_own
from store import contract, suspect

Wire = dict[str, Any]
Mark = Literal["ok", "warning", "bad"]


def verify(steps: Iterable[Wire], *, json: bool) -> int:
    """Print what each trajectory's verification found; how many findings."""
    findings = 0
    for step in steps:
        if json:
            if "progress" not in step:
                console.out_json(step)
        elif "finding" in step:
            _finding(step["finding"])
        elif step.get("done"):
            good = "verified" if not step["findings"] else "DAMAGED"
            console.say(
                f"{step['trajectory_id']}: {good}, {fmt.plural(step['verified_to'], 'event')}, "
                f"chain {step['chain'] or 'empty'}"
            )
        elif step.get("all_done"):
            console.note(
                f"{fmt.plural(step['trajectories'], 'trajectory', 'trajectories')}, "
                f"{fmt.plural(step['findings'], 'finding')}"
            )
        if step.get("done"):
            findings += int(step["findings"])
    return findings


def audit(steps: Iterable[Wire], *, json: bool) -> int:
    """Print every violation; how many."""
    findings = 0
    for step in steps:
        if json and "progress" not in step:
            console.out_json(step)
        elif "finding" in step:
            _finding(step["finding"])
        elif step.get("done") and not json:
            console.say(f"audit: {fmt.plural(step['findings'], 'finding')}")
        if step.get("done"):
            findings = int(step["findings"])
    return findings


def _finding(found: Wire) -> None:
    number = found["sequence_number"]
    at = f"@{number}" if number is not None else ""
    console.say(
        f"  {console.safe(found['invariant'])}: {console.safe(found['trajectory_id'])}{at}: "
        f"{console.safe(found['detail'], 400)}"
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One check of the doctor."""

    name: str
    mark: Mark
    found: str


def doctor(settings: Settings, *, json: bool) -> int:
    """Print every check; how many are bad."""
    bad = 0
    for line in _checks(settings):
        bad += line.mark == "bad"
        if json:
            console.out_json({"check": line.name, "result": line.mark, "found": line.found})
        else:
            console.say(f"{line.mark:8} {line.name}: {line.found}")
    return bad


def _checks(settings: Settings) -> Iterator[Line]:

    yield Line("program", "ok", f"strandline {version()}, Python {sys.version.split()[0]}")
    sqlite = contract.sqlite_check()
    yield Line("sqlite", "ok" if sqlite.ok else "bad", f"{sqlite.found}; needs {sqlite.expected}")
    yield _setting("bind and token", settings.checked_to_serve)
    folder = settings.data_folder
    existing = _existing(folder)
    yield Line("data folder", "ok", f"{folder}" + ("" if folder.exists() else ", not made yet"))
    writable = os.access(existing, os.W_OK | os.X_OK)
    yield Line(
        "permission",
        "ok" if writable else "bad",
        f"{existing} can be written" if writable else f"{existing} cannot be written by this user",
    )
    yield _filesystem(settings, existing)
    free = os.statvfs(existing)
    space = free.f_bavail * free.f_frsize
    yield Line("free space", "ok" if space > 64 << 20 else "warning", fmt.size(space))
    marker = suspect.read(folder)
    if marker is not None:
        yield Line(
            "failed barrier",
            "warning",
            f"{marker[0]}; the next server or import copies the log out and verifies it",
        )
    yield _redaction(folder)
    if (folder / "CURRENT").exists():
        yield from _store(settings)


def _setting(name: str, check: Any) -> Line:
    try:
        check()
    except StrandlineError as error:
        return Line(name, "bad", str(error))
    return Line(name, "ok", "as they must be")


def _redaction(folder: Path) -> Line:
    try:
        own = redact_own.load(folder)
    except StrandlineError as error:
        return Line("redaction", "bad", str(error))
    more = fmt.plural(len(own), "rule") + f" of {redact_own.FILE}" if own else "no own rules"
    return Line("redaction", "ok", f"built-in rules to number {redact.NEWEST}, {more}")


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _filesystem(settings: Settings, folder: Path) -> Line:

    try:
        found = contract.check_filesystem(
            folder,
            settings.domain,
            allow_unsafe=settings.allow_unsafe_filesystem,
            kind=contract.filesystem(folder),
        )
    except StrandlineError as error:
        return Line("file system", "bad", str(error))
    return Line("file system", "warning" if found.warning else "ok", found.found)


def _store(settings: Settings) -> Iterator[Line]:
    try:
        owner = lockfile.owner(settings.data_folder)
        with backend.connect(settings, None, write=False) as opened:
            facts = opened.facts()
    except StrandlineError as error:
        yield Line("store", "bad", str(error))
        return
    serves = f"process {owner.pid}" + (f" serves {owner.url}" if owner.url else "") if owner else ""
    yield Line("owner", "ok", serves or "nobody; commands open the store themselves")
    yield Line(
        "store",
        "ok" if facts["state"] in ("open", "closed") or owner is None else "bad",
        f"{facts['engine']}, revision {facts['schema_revision']}, {facts['state']}, "
        f"{fmt.size(facts['size_bytes'])}",
    )
    for check in facts["checks"]:
        mark: Mark = "ok" if check["ok"] else "warning" if check["warning"] else "bad"
        yield Line(
            f"domain {facts['declared_domain']}: {check['name']}",
            mark,
            f"{check['found']}" + ("" if check["ok"] else f"; needs {check['expected']}"),
        )


def where(settings: Settings, *, json: bool) -> None:
    """Print which files are in use."""

    folder = settings.data_folder
    owner = lockfile.owner(folder) if folder.exists() else None
    current = folder / "CURRENT"
    found: dict[str, str | None] = {
        "version": version(),
        "python": sys.executable,
        "program": str(paths.ROOT),
        "templates": str(paths.TEMPLATES),
        "static": str(paths.STATIC),
        "data": str(folder),
        "log": str(folder / current.read_text().strip()) if current.exists() else None,
        "server": owner.url if owner else None,
        "owner": f"process {owner.pid} on {owner.host}" if owner else None,
    }
    if json:
        console.out_json(found)
        return
    for name, value in found.items():
        console.say(f"{name:10} {value or '-'}")
