"""A server of its own for the browser tests: seeds a data folder, then serves it on a free port.

`python -m tests.e2e.child FOLDER full|empty` prints its URL on the first line and serves until it
is told to stop.
"""

from __future__ import annotations

import sys
from pathlib import Path

from app import server, wiring
from app.settings import Settings
from core.events.task import TaskStarted
from ingest import demo
from tests.web import pages_world
from tests.web.pages_world import WHO


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
        assert parts.projector is not None
        parts.projector.catch_up()
        parts.close()
    return server.serve(settings, announce=lambda url: print(url, flush=True))


if __name__ == "__main__":
    sys.exit(main())
