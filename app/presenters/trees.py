"""A tree of trajectories as indented rows: what each is, and what it and all below it add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app import links
from app.presenters.format import count, money, plural
from app.presenters.summaries import TrajectoryRow, row
from core.limits import TREE_DEPTH_MAX, TREE_NODES_MAX
from runtime.tree import Figures, Node, Tree

#: Indents that the style sheet knows; what lies deeper stands at the last one, with its depth said.
INDENTS = 8


@dataclass(frozen=True, slots=True)
class Total:
    """What some trajectories add up to, each with its doubt in words; None: none records it."""

    trajectories: int
    events: str
    operations: str
    unsettled: int
    tokens: str | None
    tokens_doubt: str
    tokens_title: str
    cost: str | None
    cost_doubt: str
    cost_title: str
    cost_said: str
    """Where it comes from, in words."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One trajectory."""

    row: TrajectoryRow
    depth: int
    indent: int
    children: int
    here: bool
    began: str
    """Address of the parent's operation that it is; empty where none is named."""
    began_by: str
    total: Total


@dataclass(frozen=True, slots=True)
class TreeView:
    """The tree, and what it leaves out."""

    rows: tuple[TreeRow, ...]
    total: Total | None
    missing_parent: str
    cut: tuple[str, ...]
    left_out: str
    """How many no total counts, in words; empty: it counts all."""
    first_left_out: str
    """Which of them stands first."""


_CUT = {
    "nodes": f"more than {TREE_NODES_MAX:,} trajectories are in it; the totals are of those shown",
    "depth": f"it goes deeper than {TREE_DEPTH_MAX} levels; the totals are of those shown",
    "cycle": "a trajectory names one below it as its parent; it is shown once",
}


def build(tree: Tree) -> TreeView:
    """Rows in reading order: each trajectory before those it began."""
    rows = tuple(_row(tree, node) for node in tree.nodes)
    return TreeView(
        rows,
        rows[0].total if rows else None,
        tree.missing_parent or "",
        tuple(_CUT[why] for why in sorted(tree.cut)),
        _left_out(tree.left_out),
        tree.left_out[0] if tree.left_out else "",
    )


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"{len(names):,} withdrawn or superseded, in no total"


def _row(tree: Tree, node: Node) -> TreeRow:
    parent, operation = node.summary["parent_id"], node.summary["parent_operation"]
    named = node.depth > 0 and parent is not None and operation is not None
    return TreeRow(
        row(node.summary),
        node.depth,
        min(node.depth, INDENTS),
        node.children,
        node.trajectory_id == tree.here,
        links.jump(str(parent), q=str(operation)) if named else "",
        str(operation) if named else "",
        total(node.rolled),
    )


def total(figures: Figures) -> Total:
    """Figures in words."""
    stated = [value for value in figures.tokens.values() if value is not None]
    cost = _cost(figures)
    return Total(
        figures.trajectories,
        count(figures.events),
        count(figures.operations),
        figures.unsettled,
        _tokens(figures, stated),
        _tokens_doubt(figures) if stated else "",
        _kinds(figures.tokens),
        cost,
        _without(figures.without_cost, "record none") if cost is not None else "",
        _parts(figures),
        _said(figures),
    )


def _tokens(figures: Figures, stated: list[int]) -> str | None:
    if not stated:
        return None
    least = "≥ " if figures.without_tokens or figures.unreported else ""
    return f"{least}{count(sum(stated))}"


def _tokens_doubt(figures: Figures) -> str:
    """Why there may be more: trajectories that report none, and single replies of the others."""
    parts = []
    if figures.without_tokens:
        parts.append(f"{figures.without_tokens:,} of them report none")
    if figures.unreported:
        parts.append(f"{plural(figures.unreported, 'reply states', 'replies state')} none")
    return f"at least; {', '.join(parts)}" if parts else ""


def _without(number: int, what: str) -> str:
    return f"at least; {number:,} of them {what}" if number else ""


def _kinds(tokens: Mapping[str, int | None]) -> str:
    return ", ".join(
        f"{count(value)} {kind.replace('_', ' ')}"
        for kind, value in tokens.items()
        if value is not None
    )


def _cost(figures: Figures) -> str | None:
    stated, derived = figures.cost_nano_usd, figures.derived_nano_usd
    if stated is None and derived is None:
        return None
    return money((stated or 0) + (derived or 0))


def _said(figures: Figures) -> str:
    if figures.cost_nano_usd is None:
        return "derived from tokens by the price table"
    if figures.derived_nano_usd is None:
        return "stated by sources"
    return _parts(figures)


def _parts(figures: Figures) -> str:
    parts = []
    if figures.cost_nano_usd is not None:
        parts.append(f"{money(figures.cost_nano_usd)} stated by sources")
    if figures.derived_nano_usd is not None:
        parts.append(f"{money(figures.derived_nano_usd)} derived from tokens by the price table")
    return ", ".join(parts)
