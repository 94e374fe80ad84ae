"""The command line in a process that knows the test format."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ingest import registry
from tests.ingest.log_format import SayLog

registry.LOG_IMPORTERS = (*registry.LOG_IMPORTERS, SayLog())

if __name__ == "__main__":
    from app.cli import main

    main()
