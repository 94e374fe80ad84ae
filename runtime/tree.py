"""A trajectory with its parent and sub-agents: who began whom, and what they add up to.

From summaries, so as far behind the logs as they are.

INVARIANTS
1. Each trajectory is in the tree once: a source that names itself as its ancestor is cut there.
2. The tree holds at most TREE_NODES_MAX trajectories, TREE_DEPTH_MAX deep; what is beyond is said
   (`cut`), and the totals are then those of what is shown.
3. A total counts what was recorded and says of how many trajectories nothing was; none is zero.
4. What was withdrawn is in the tree, marked, for what stands below it still holds; no total counts
   it, not its own, and each says how many it leaves out. One that was superseded is in it only if
   it is the one asked for, and counted as little: its newer revision stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from core.limits import TREE_DEPTH_MAX, TREE_NODES_MAX
from core.rules.prices import KINDS
from store.ports import Projections

Summary = Mapping[str, object]
Cut = Literal["nodes", "depth", "cycle"]
_IDS_PER_QUERY = 100


@dataclass(frozen=True, slots=True)
class Figures:
    """What some trajectories add up to; None: none of them records it."""

    trajectories: int
    events: int
    operations: int
    unsettled: int
    tokens: Mapping[str, int | None]
    """By kind: input, output, cache_read, cache_write."""
    without_tokens: int
    """Trajectories that record no tokens."""
    unreported: int
    """Replies of the others that state none."""
    cost_nano_usd: int | None
    """Stated by sources."""
    derived_nano_usd: int | None
    """Of trajectories whose source states no cost, by the price table."""
    without_cost: int
    """Trajectories with neither."""
    left_out: int
    """Trajectories that were withdrawn or superseded: none of the figures counts them."""


@dataclass(frozen=True, slots=True)
class Node:
    """One trajectory of a tree."""

    trajectory_id: str
    depth: int
    """0: the root."""
    summary: Summary
    children: int
    """Of those shown."""
    rolled: Figures
    """It and all below it."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree from its root, in the order it is read: each node before those below it."""

    here: str
    nodes: tuple[Node, ...]
    """Empty where no summary has been made yet."""
    missing_parent: str | None
    """A parent that the root names and that is not stored."""
    cut: frozenset[Cut]
    """Why it is not whole; empty: it is."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The trajectories of it that no total counts."""
        return tuple(one.trajectory_id for one in self.nodes if one.summary["hidden"])

    def node(self, trajectory_id: str) -> Node | None:
        """The node of a trajectory."""
        return next((one for one in self.nodes if one.trajectory_id == trajectory_id), None)


@dataclass(slots=True)
class _Growing:
    summaries: dict[str, Summary] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    cut: set[Cut] = field(default_factory=set)


def tree_of(projections: Projections, tenant: str, trajectory_id: str) -> Tree:
    """The tree that a trajectory is in, from the topmost parent that is stored."""
    first = projections.summary(tenant, trajectory_id)
    if first is None:
        return Tree(trajectory_id, (), None, frozenset())
    growing = _Growing()
    path, missing = _climb(projections, tenant, first, growing.cut)
    _grow(projections, tenant, path, growing)
    return Tree(trajectory_id, tuple(_nodes(growing, path[0])), missing, frozenset(growing.cut))


def _id(summary: Summary) -> str:
    return str(summary["trajectory_id"])


def _climb(
    projections: Projections, tenant: str, first: Summary, cut: set[Cut]
) -> tuple[list[Summary], str | None]:
    """From the root down to `first`, and the parent that is not stored."""
    path, seen = [first], {_id(first)}
    while (named := path[0]["parent_id"]) is not None:
        parent = _standing(projections, tenant, str(named))
        if parent is None:
            return path, str(named)
        if _id(parent) in seen:
            cut.add("cycle")
            break
        if len(path) > TREE_DEPTH_MAX:
            cut.add("depth")
            break
        path.insert(0, parent)
        seen.add(_id(parent))
    return path, None


def _standing(projections: Projections, tenant: str, trajectory_id: str) -> Summary | None:
    """The summary of what stands for a trajectory: its newest revision that is stored."""
    found = projections.summary(tenant, trajectory_id)
    seen = {trajectory_id}
    while found is not None and (by := found["superseded_by"]) is not None and by not in seen:
        seen.add(str(by))
        newer = projections.summary(tenant, str(by))
        if newer is None:
            break
        found = newer
    return found


def _grow(projections: Projections, tenant: str, path: list[Summary], growing: _Growing) -> None:
    """Everything below the root, level by level; the path down to the one asked for comes first,
    so that no bound leaves it out."""
    for above, beneath in pairwise(path):
        growing.children.setdefault(_id(above), []).append(_id(beneath))
    for one in path:
        growing.summaries[_id(one)] = one
    on_path = [_id(one) for one in path]
    level = [on_path[0]]
    for depth in range(TREE_DEPTH_MAX + 1):
        below = _below(projections, tenant, level, growing)
        for parent, child in below:
            growing.summaries[_id(child)] = child
            growing.children.setdefault(parent, []).append(_id(child))
        level = [_id(child) for _, child in below]
        level += on_path[depth + 1 : depth + 2]
        if not level:
            return
    growing.cut.add("depth")


def _below(
    projections: Projections, tenant: str, level: list[str], growing: _Growing
) -> list[tuple[str, Summary]]:
    """(parent in the tree, child) of one level, without what is in the tree already."""
    found: list[tuple[str, Summary]] = []
    fresh: set[str] = set()
    for start in range(0, len(level), _IDS_PER_QUERY):
        names = _with_earlier(projections, tenant, level[start : start + _IDS_PER_QUERY])
        wanted = list(names)
        for at in range(0, len(wanted), _IDS_PER_QUERY):
            some = wanted[at : at + _IDS_PER_QUERY]
            # What is known already may be among them, and one more says that there is more.
            limit = TREE_NODES_MAX + len(growing.summaries) + 1
            children = projections.children(tenant, some, limit=limit)
            if len(children) == limit:
                growing.cut.add("nodes")
            for child in children:
                name, parent = _id(child), names[str(child["parent_id"])]
                if name in growing.summaries:
                    if name not in growing.children.get(parent, ()):
                        growing.cut.add("cycle")
                    continue
                if child["superseded_by"] is not None or name in fresh:
                    continue
                if len(growing.summaries) + len(found) >= TREE_NODES_MAX:
                    growing.cut.add("nodes")
                    return found
                fresh.add(name)
                found.append((parent, child))
    return found


def _with_earlier(projections: Projections, tenant: str, level: list[str]) -> dict[str, str]:
    """Names a child may call its parent by -> node: each node's own, and earlier revisions'."""
    names = {one: one for one in level}
    asked = level
    while asked:
        earlier = projections.superseded_by(tenant, asked[:_IDS_PER_QUERY], limit=_IDS_PER_QUERY)
        asked = []
        for one in earlier:
            name = _id(one)
            if name not in names and len(names) < TREE_NODES_MAX:
                names[name] = names[str(one["superseded_by"])]
                asked.append(name)
    return names


def _nodes(growing: _Growing, root: Summary) -> list[Node]:
    """Nodes in reading order, each with what it and all below it add up to."""
    order: list[tuple[str, int]] = []
    waiting = [(_id(root), 0)]
    while waiting:
        name, depth = waiting.pop()
        order.append((name, depth))
        below = sorted(growing.children.get(name, ()), key=lambda one: _when(growing, one))
        waiting.extend((one, depth + 1) for one in reversed(below))
    rolled: dict[str, Figures] = {}
    for name, _ in reversed(order):
        parts = [_own(growing.summaries[name])]
        parts += [rolled[one] for one in growing.children.get(name, ())]
        rolled[name] = _sum(parts)
    return [
        Node(
            name,
            depth,
            growing.summaries[name],
            len(growing.children.get(name, ())),
            rolled[name],
        )
        for name, depth in order
    ]


def _when(growing: _Growing, name: str) -> tuple[int, str]:
    started = growing.summaries[name]["started_at"]
    return (started if isinstance(started, int) else 2**63, name)


_NONE = Figures(0, 0, 0, 0, dict.fromkeys(KINDS), 0, 0, None, None, 0, 1)


def _own(summary: Summary) -> Figures:
    if summary["hidden"]:
        return _NONE
    tokens = {kind: _whole(summary, f"{kind}_tokens") for kind in KINDS}
    stated = _whole(summary, "cost_nano_usd")
    derived = _whole(summary, "cost_derived_nano_usd") if stated is None else None
    return Figures(
        trajectories=1,
        events=_whole(summary, "events") or 0,
        operations=_whole(summary, "operations") or 0,
        unsettled=_whole(summary, "unsettled") or 0,
        tokens=tokens,
        without_tokens=int(all(value is None for value in tokens.values())),
        unreported=0
        if all(value is None for value in tokens.values())
        else _whole(summary, "unreported") or 0,
        cost_nano_usd=stated,
        derived_nano_usd=derived,
        without_cost=int(stated is None and derived is None),
        left_out=0,
    )


def _whole(summary: Summary, name: str) -> int | None:
    value = summary[name]
    return value if isinstance(value, int) else None


def _sum(parts: list[Figures]) -> Figures:
    return Figures(
        trajectories=sum(one.trajectories for one in parts),
        events=sum(one.events for one in parts),
        operations=sum(one.operations for one in parts),
        unsettled=sum(one.unsettled for one in parts),
        tokens={kind: _stated(one.tokens[kind] for one in parts) for kind in KINDS},
        without_tokens=sum(one.without_tokens for one in parts),
        unreported=sum(one.unreported for one in parts),
        cost_nano_usd=_stated(one.cost_nano_usd for one in parts),
        derived_nano_usd=_stated(one.derived_nano_usd for one in parts),
        without_cost=sum(one.without_cost for one in parts),
        left_out=sum(one.left_out for one in parts),
    )


def _stated(values: Iterable[int | None]) -> int | None:
    stated = [value for value in values if value is not None]
    return sum(stated) if stated else None
