"""What acts say of a trajectory, as its page says it before anything else."""

from __future__ import annotations

from dataclasses import dataclass

from app import links
from app.presenters.format import exact
from app.presenters.terminal import one_line
from core.acts import Act, Standing, Supersede


@dataclass(frozen=True, slots=True)
class Banner:
    """One sentence over a page, with where it leads."""

    word: str
    text: str
    href: str = ""
    link: str = ""


def banners(now: Standing) -> tuple[Banner, ...]:
    """Why a trajectory is in no list: it was withdrawn, or a newer revision stands for it."""
    found: list[Banner] = []
    if now.withdrawn is not None:
        why = f": {one_line(now.withdrawn.reason, 400)}" if now.withdrawn.reason else ""
        found.append(
            Banner(
                "withdrawn",
                f"{_by(now.withdrawn)}{why}. It is in no list and no search unless asked for; what "
                "was recorded is unchanged.",
                links.withdraw(now.withdrawn.trajectory_id or ""),
                "Bring it back",
            )
        )
    if now.superseded is not None and isinstance(now.superseded.body, Supersede):
        found.append(
            Banner(
                "superseded",
                f"{_by(now.superseded)}. A newer revision made from the same original stands for "
                "it; this one stays as it was.",
                links.trajectory(now.superseded.body.by),
                "Open the newer one",
            )
        )
    return tuple(found)


def _by(act: Act) -> str:
    second = act.recorded_at // 1_000_000 * 1_000_000
    return f"by {one_line(act.actor, 60)}, {exact(second)}"
