"""What must hold of a store after its process died while it told the story of `child`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from core.canonical import digest_text, sha256
from store.audit import audit
from store.open import Opened, open_store
from store.ports import Finding
from tests.contract.worlds import template
from tests.crash.child import ROUNDS, TENANT
from tests.require import ROOT

Said = list[dict[str, Any]]
EVENTS = 2 + 5 * ROUNDS


class Child:
    """Runs cases, each in a process of its own, from one that has the modules loaded."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def run(self, folder: Path, failpoint: str | None = None, at: int = 1) -> tuple[int, Said]:
        """(exit code, what it said); a negative code is the signal that ended it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        case = {"folder": str(folder), "failpoint": failpoint, "at": at}
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["said"]

    def close(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


def fresh(folder: Path) -> Path:
    """A new store in `folder`."""
    shutil.copytree(template(), folder)
    return folder


def acked(said: Said) -> dict[str, int]:
    """Event name -> sequence number, of all that was acknowledged."""
    return {line["acked"]: line["number"] for line in said if "acked" in line}


def check(opened: Opened, said: Said, *, in_doubt: int) -> None:
    """Acknowledged events and blobs are there, in place and once; at most `in_doubt` others are.

    No gap, and nothing that audit finds.
    """
    promised = acked(said)
    if opened.store.heads(TENANT):
        events = opened.store.events(TENANT, "t")
        head = opened.store.head(TENANT, "t").sequence_number
    else:
        events, head = [], 0
    names = {
        "granted" if e.type == "OwnershipGranted" else e.event_id: e.sequence_number for e in events
    }
    assert [e.sequence_number for e in events] == list(range(1, head + 1)), "a gap"
    assert max(Counter(e.event_id for e in events).values(), default=1) == 1, "an event twice"
    lost = {name: number for name, number in promised.items() if names.get(name) != number}
    assert not lost, f"acknowledged and lost: {lost}"
    extra = set(names) - set(promised)
    assert len(extra) <= in_doubt, f"never acknowledged and there: {extra}"
    acts = {one.request_id: one.number for one in opened.store.acts(TENANT)}
    assert sorted(acts.values()) == list(range(1, len(acts) + 1)), "a gap among acts"
    kept = {line["acted"]: line["number"] for line in said if "acted" in line}
    lost = {name: number for name, number in kept.items() if acts.get(name) != number}
    assert not lost, f"acknowledged and lost: {lost}"
    assert len(acts) <= len(kept) + 1, "acts that nobody was told of"
    for line in said:
        if "blob" in line:
            assert digest_text(sha256(opened.blobs.read(TENANT, line["blob"]))) == line["blob"]
    findings = [one for one in audit(opened) if isinstance(one, Finding)]
    assert findings == []


def check_folder(folder: Path, said: Said, *, in_doubt: int = 3) -> None:
    """`check` of a folder that nobody owns now."""
    with open_store(folder / "data", allow_unsafe_filesystem=True) as opened:
        check(opened, said, in_doubt=in_doubt)
        assert list((folder / "data" / "tmp").iterdir()) == []


def check_retold(folder: Path, before: Said, code: int, said: Said) -> None:
    """The story told again to the end: the same numbers, and every event once."""
    assert code == 0, said
    promised = acked(said)
    assert len(promised) == EVENTS
    assert {name: promised[name] for name in acked(before)} == acked(before)
    check_folder(folder, said, in_doubt=0)
