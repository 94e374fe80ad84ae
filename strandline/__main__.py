"""The launcher: put the program's own folders first on the path, then run its command line.

An installed wheel carries them in `_bundle/`, a checkout has them beside this package. No package
named `app` ever lies in a shared site-packages, and one that lies there is not run.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; refuse to run code from anywhere else."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if command in ("serve", "demo"):
        # A server that is told to stop while it starts was not killed; later `app.server` listens.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    here = Path(__file__).resolve().parent
    bundle = here / "_bundle"
    root = bundle if bundle.is_dir() else here.parent
    sys.path.insert(0, str(root))
    import app.cli  # noqa: PLC0415  # the path had to be set first

    found = Path(app.cli.__file__).resolve()
    if not found.is_relative_to(root):
        sys.exit(f"strandline: refusing to start: app.cli was found at {found}, not under {root}")
    app.cli.main()


if __name__ == "__main__":
    main()
