"""What the watched folders are doing, for the Import page and Health."""

from __future__ import annotations

from dataclasses import dataclass

from app import links
from app.presenters.format import plural
from app.presenters.terminal import one_line
from ingest.follow import Status


@dataclass(frozen=True, slots=True)
class WatchedLine:
    """One file that grew last."""

    name: str
    outcome: str
    ago: str
    href: str | None
    """Its trajectory; None where it has none or several."""


@dataclass(frozen=True, slots=True)
class WatchBlock:
    """The whole block; every figure says what it counts."""

    folders: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    problems: tuple[tuple[str, str], ...]
    newest: tuple[WatchedLine, ...]
    failure: str | None


def block(status: Status | None) -> WatchBlock | None:
    """None where nothing is watched."""
    if status is None:
        return None
    looked = "not yet"
    if status.looked_at is not None:
        looked = f"{_seconds(status.looked_at)} ago, next every {_seconds(status.every_seconds)}"
    waiting = "none"
    if status.waiting:
        waiting = f"{plural(status.waiting, 'file')} with an unfinished last line or reply"
    return WatchBlock(
        folders=tuple(one_line(path) for path in status.paths),
        facts=(
            ("Looked at", looked),
            ("Files there", plural(status.files, "file")),
            ("Changed in the last minute", plural(status.growing, "file")),
            ("Waiting", waiting),
        ),
        problems=tuple((one_line(name), one_line(why, 400)) for name, why in status.problems),
        newest=tuple(
            WatchedLine(
                one_line(name),
                outcome,
                f"{_seconds(ago)} ago",
                links.trajectory(trajectories[0]) if len(trajectories) == 1 else None,
            )
            for name, outcome, ago, trajectories in status.newest
        ),
        failure=status.failure,
    )


def _seconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:,.0f} s" if value < 600 else f"{value / 60:,.0f} min"
