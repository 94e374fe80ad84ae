"""A process to kill: it tells one story to a store and says what was acknowledged.

    python -m tests.crash.child serve          one JSON case a line on stdin, one answer each
    python -m tests.crash.child run FOLDER     one case in this very process (for strace)

Every case runs in a process of its own. The story is the same each time it is told, ids and bytes
included, so that telling it again after a crash is what a client does that retries. A line of the
answer is written before the next command, straight to the descriptor: what a dead process said
counts.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from core.acts import Note
from core.canonical import canonical, sha256
from core.errors import StrandlineError
from core.events import registry
from core.events.envelope import BlobRef, NewEvent
from core.events.prepare import Prepared, prepare
from core.events.task import TaskStarted
from store import failpoints, writer
from store.open import open_store
from store.ports import ActCommand, AppendCommand, ClaimCommand, CreateCommand

TENANT = "local"
ROUNDS = 3
SECONDS = 30.0
EXIT_POISONED = 70


def note(event_id: str, *refs: BlobRef) -> Prepared:
    payload = canonical({"text": event_id * 20})
    stated = NewEvent(
        event_id=event_id, type="note.crash", schema_version=1, payload=payload, refs=refs
    )
    return prepare("t", stated)


class Teller:
    """Tells the story to the store of a folder."""

    def __init__(self, folder: Path, out: int, *, rounds: int, checkpoint_pages: int) -> None:
        writer.CHECKPOINT_PAGES = checkpoint_pages
        self._out = out
        self._rounds = rounds
        self.poisoned: list[str] = []
        self._opened = open_store(
            folder / "data", on_poison=self.poisoned.append, allow_unsafe_filesystem=True
        )
        self._store = self._opened.store

    def say(self, **said: Any) -> None:
        os.write(self._out, (json.dumps(said) + "\n").encode())

    def tell(self) -> None:
        started = TaskStarted(title="T", standing="reported")
        first = NewEvent(
            event_id="started",
            type="TaskStarted",
            schema_version=1,
            payload=registry.encode(started),
        )
        self.heard(
            "started",
            self._store.create(
                CreateCommand(
                    tenant=TENANT,
                    trajectory_id="t",
                    standing="reported",
                    issuer="service",
                    request_id="create",
                    request_digest=sha256(b"create"),
                    first=prepare("t", first, started),
                )
            ),
        )
        self.heard(
            "granted",
            self._store.claim(
                ClaimCommand(
                    tenant=TENANT,
                    trajectory_id="t",
                    worker="w",
                    cause="start",
                    request_id="claim",
                    request_digest=sha256(b"claim"),
                )
            ),
        )
        for number in range(self._rounds):
            self._round(number)
        stats = self._store.stats()
        self._opened.close()
        self.say(done=True, groups=stats.groups)

    def _round(self, number: int) -> None:
        """One event alone, one with a blob, three requests and an act at once."""
        self.heard(f"a{number}", self._append(note(f"a{number}")))
        data = f"blob {number} ".encode() * 3_000
        try:
            ref = self._opened.blobs.put(TENANT, data)
        except StrandlineError as error:
            self.say(blob_refused=error.code)
        else:
            self.say(blob=ref.digest)
            self.heard(f"b{number}", self._append(note(f"b{number}", ref)))
        names = [f"{letter}{number}" for letter in "cde"]
        told = [(name, self._append(note(name))) for name in names]
        acted = self._act(f"f{number}")
        for name, future in told:
            self.heard(name, future)
        self.heard(f"f{number}", acted, word="acted")

    def _act(self, name: str) -> Future[Any]:
        return self._store.act(
            ActCommand(
                tenant=TENANT,
                kind="note",
                body=Note(name * 20),
                actor="somebody",
                request_id=name,
                request_digest=sha256(name.encode()),
                trajectory_id="t",
            )
        )

    def _append(self, *events: Prepared) -> Future[Any]:
        return self._store.append(
            AppendCommand(
                tenant=TENANT,
                trajectory_id="t",
                issuer="worker",
                door="append",
                request_id=events[0].event.event_id,
                events=events,
                owner_epoch=1,
                worker="w",
            )
        )

    def heard(self, name: str, future: Future[Any], *, word: str = "acked") -> None:
        """Say what came of one command."""
        try:
            answer = future.result(SECONDS)
        except StrandlineError as error:
            self.say(refused=name, code=error.code, outcome=error.outcome)
            return
        number = (
            getattr(answer, "number", None)
            or getattr(answer, "sequence_number", None)
            or answer.sequence_numbers[0]
        )
        self.say(**{word: name}, number=number, duplicate=getattr(answer, "duplicate", False))


def run(folder: Path, out: int, *, rounds: int = ROUNDS, checkpoint_pages: int = 40) -> int:
    """Tell it; 70 where the writer was poisoned, as a server ends."""
    try:
        teller = Teller(folder, out, rounds=rounds, checkpoint_pages=checkpoint_pages)
    except StrandlineError as error:
        os.write(out, (json.dumps({"not_opened": error.code}) + "\n").encode())
        return EXIT_POISONED
    teller.tell()
    return EXIT_POISONED if teller.poisoned else 0


def _case(case: dict[str, Any]) -> dict[str, Any]:
    """Run one case in a fork; nothing is open and no thread runs in the process that forks."""
    reader, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            if case.get("failpoint"):
                failpoints.arm(case["failpoint"], failpoints.kill, at=case["at"])
            code = run(Path(case["folder"]), out)
        finally:
            os._exit(code)
    os.close(out)
    with os.fdopen(reader) as said:
        lines = [json.loads(line) for line in said]
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "said": lines}


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(_case(json.loads(line))), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        pages = int(os.environ.get("CRASH_CHECKPOINT_PAGES", "40"))
        rounds = int(os.environ.get("CRASH_ROUNDS", str(ROUNDS)))
        sys.exit(run(Path(sys.argv[2]), 1, rounds=rounds, checkpoint_pages=pages))
