"""The demonstration: made-up trajectories in a data folder of their own, served in the foreground.

Removing the folder removes the demonstration; it never touches the user's own data.
"""

from __future__ import annotations

import os
from pathlib import Path

from app import console, paths, server, settings, wiring
from app.settings import Settings
from ingest import demo as seeds


def run(data: Path | None, host: str | None, port: int | None) -> int:
    """Seed what is not there yet, then serve; the server's exit code."""
    # A person reads this: lines for machines only where something is wrong, or where asked for.
    level = None if "STRANDLINE_LOG_LEVEL" in os.environ else "warning"
    chosen = settings.load(data=data or folder(), host=host, port=port, log_level=level)
    chosen.checked_to_serve()
    # A port that is taken is said before a minute of seeding, not after it.
    server.listener(chosen).close()
    _seed(chosen)

    def announce(url: str) -> None:
        console.say(f"Strandline demo: {url}")
        console.say(f"  demo data lies in {chosen.data_folder}; remove that folder to remove it")
        console.say(f"  a search worth making: {url}/find?text={seeds.SEARCH}")
        console.say("  your own sessions, into a data folder of your own:")
        console.say(f"    {paths.program()} import PATH...   then   {paths.program()} serve")
        console.say(f"  or into this one: drop files on {url}/import")
        console.say("  stop with Ctrl-C")

    return server.serve(chosen, announce=announce)


def folder() -> Path:
    """`.demo` in a checkout; beside the user's data where the program is installed."""
    if (paths.ROOT / "pyproject.toml").exists():
        return paths.ROOT / ".demo"
    own = settings.default_data_folder()
    return own.with_name(own.name + "-demo")


def _seed(chosen: Settings) -> None:
    """The made-up day first, under its own clock; what is imported now, under the real one."""
    clock = seeds.Clock()
    with wiring.open_simulated(chosen, clock) as opened:
        seeds.generate(opened.store, chosen.tenant, clock=clock, note=console.note)
    parts = wiring.open_parts(chosen, follow=False)
    try:
        seeds.seed(parts.opened.store, parts.opened.blobs, chosen.tenant, note=console.note)
        if parts.projector is not None:
            parts.projector.catch_up()
    finally:
        parts.close()
