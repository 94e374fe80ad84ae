"""A server of its own for the browser tests: seeds a data folder, then serves it on a free port.

`python -m tests.e2e.child FOLDER full|empty` prints its URL on the first line and serves until it
is told to stop.
"""

from __future__ import annotations

import sys
from pathlib import Path

from app import server, wiring
from app.settings import Settings
from core.events.fields import Payload, Usage
from core.events.model_call import ModelReplied
from core.events.task import Parent, TaskStarted
from core.events.tool import ToolIntent
from ingest import demo
from tests.web import pages_world
from tests.web.pages_world import WHO


def _write_family(parts: wiring.Parts) -> None:
    """An imported run with two sub-agents."""

    def session(title: str, tokens: int, parent: Parent | None) -> list[Payload]:
        usage = Usage(tokens, 0, 0, 0)
        return [
            TaskStarted(title=title, standing="imported", parent=parent),
            ToolIntent("proposal", "Task", None, {"prompt": "look into it"}),
            ModelReplied("completed", model="m", text="done", usage=usage),
        ]

    pages_world.write_to(parts, "parent-run", session("parent run", 100, None))
    for number, title in ((1, "first helper"), (2, "second helper")):
        parent = Parent("parent-run", "op-1")
        pages_world.write_to(parts, f"helper-{number}", session(title, 25, parent))


def main() -> int:
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    settings = Settings(data=folder, port=0, log_level="error")
    if kind == "full":
        parts = wiring.open_parts(settings, follow=False)
        demo.seed(parts.opened.store, parts.opened.blobs, events=3000)
        pages_world.write_to(parts, "hostile", pages_world.hostile_payloads())
        parts.runtime.create(
            WHO,
            request_id="native",
            standing="reported",
            task=TaskStarted(title="only begun", standing="reported"),
            trajectory_id="only-begun",
        )
        _write_family(parts)
        assert parts.projector is not None
        parts.projector.catch_up()
        parts.close()
    return server.serve(settings, announce=lambda url: print(url, flush=True))


if __name__ == "__main__":
    sys.exit(main())
