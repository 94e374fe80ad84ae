"""Acts in summaries, prices and trees, over a real store with its projector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from core.errors import HeadMoved, InvalidInput, NotFound
from core.events import registry
from core.events.envelope import NewEvent
from core.events.fields import Payload, Usage
from core.events.model_call import ModelReplied
from core.events.task import Parent, TaskStarted
from core.events.tool import ToolIntent
from core.ids import tenant
from core.principal import Principal
from core.rules.prices import shipped
from runtime import projector as following
from runtime import tree as trees
from runtime.projector import Projector
from runtime.service import Runtime
from store.open import Opened, open_store

ANN = Principal(tenant("local"), "ann", frozenset({"read", "write"}))
BEN = replace(ANN, name="ben")
MODEL = "claude-sonnet-4-5"
PRICE = {"model": "m", "since": "2020-01-01", "input": 10**9, "output": 0}
PRICE |= {"cache_read": 0, "cache_write": 0}


class World:
    """A runtime, a projector that is asked, and stories."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.runtime = Runtime(opened.store, opened.blobs, opened.projections, lambda: 0)
        self.projector = Projector(opened.store, opened.blobs, opened.projections)
        self._numbers = count(1)

    def request(self) -> str:
        return f"r{next(self._numbers)}"

    def begin(
        self, name: str, *events: Payload, parent: str | None = None, at: int | None = None
    ) -> str:
        task = TaskStarted(
            title=f"task {name}",
            standing="reported",
            parent=Parent(parent, "op-1") if parent is not None else None,
        )
        self.runtime.create(
            ANN, request_id=self.request(), standing="reported", task=task, trajectory_id=name
        )
        self.runtime.claim(ANN, name, request_id=self.request(), worker="w")
        self.say(name, *events, at=at)
        return name

    def say(self, name: str, *events: Payload, at: int | None = None) -> None:
        for payload in events:
            number = next(self._numbers)
            type_ = type(payload).__name__
            event = NewEvent(
                event_id=f"e{number}",
                type=type_,
                schema_version=registry.FAMILIES[type_].version,
                payload=registry.encode(payload),
                occurred_at=at,
                operation_id=f"op-{number}" if type_ == "ToolIntent" else None,
                attempt_id=f"at-{number}" if type_ == "ToolIntent" else None,
                invocation_id=f"call-{number}" if type_ == "ModelReplied" else None,
            )
            self.runtime.append(
                ANN, name, owner_epoch=1, worker="w", request_id=self.request(), events=[event]
            ).result(20)

    def act(self, kind: Any, body: dict[str, Any], about: str | None = None, **more: Any) -> int:
        made = self.runtime.act(
            ANN, kind, body, request_id=self.request(), trajectory_id=about, **more
        )
        return made.number

    def caught_up(self) -> None:
        self.projector.catch_up()

    def summary(self, name: str) -> dict[str, Any]:
        self.caught_up()
        found = self.runtime.summary(ANN, name)
        assert found is not None
        return dict(found)

    def listed(self, **filters: object) -> list[str]:
        self.caught_up()
        page = self.runtime.list(ANN, sort="title", descending=False, filters=filters)
        assert page.total == len(page.rows)
        return [str(row["trajectory_id"]) for row in page.rows]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_store(tmp_path / "data", allow_unsafe_filesystem=True) as opened:
        yield World(opened)


def reply(model: str | None = "m", tokens: int = 1_000_000, **more: Any) -> ModelReplied:
    return ModelReplied("completed", model=model, usage=Usage(tokens, 0, 0, 0), **more)


# --- the facade ----------------------------------------------------------------------------------


def test_an_act_carries_the_name_of_its_caller(world: World) -> None:
    world.begin("t")
    made = world.runtime.act(BEN, "note", {"text": "x"}, request_id="a", trajectory_id="t")
    assert (made.actor, made.tenant) == ("ben", "local")
    # Another person's request of the same id is another request.
    with pytest.raises(Exception, match="already used"):
        world.runtime.act(ANN, "note", {"text": "x"}, request_id="a", trajectory_id="t")


def test_a_retraction_names_a_note_of_its_trajectory_or_a_price(world: World) -> None:
    world.begin("t")
    world.begin("u")
    note = world.act("note", {"text": "x"}, "t")
    tag = world.act("tag", {"tag": "x"}, "t")
    price = world.act("price", PRICE)
    for number, about in ((note, "u"), (note, None), (tag, "t"), (price, "t")):
        with pytest.raises(InvalidInput, match="a retraction names"):
            world.act("retract", {"number": number}, about)
    with pytest.raises(NotFound, match="no act 99"):
        world.act("retract", {"number": 99}, "t")
    world.act("retract", {"number": note}, "t")
    world.act("retract", {"number": price})
    now = world.runtime.standing_of(ANN, "t")
    assert (now.notes, [one.number for one in now.retracted]) == ((), [note])
    assert world.runtime.prices(ANN) == ()


def test_no_trajectory_stands_for_itself_by_way_of_others(world: World) -> None:
    for name in "abc":
        world.begin(name)
    world.act("supersede", {"by": "b"}, "a")
    world.act("supersede", {"by": "c"}, "b")
    assert world.runtime.newest_revision(ANN, "a") == "c"
    for name in "ab":
        with pytest.raises(InvalidInput, match="already supersedes"):
            world.act("supersede", {"by": name}, "c")
    assert world.listed() == ["c"]
    # What was superseded in error is brought back by a further act.
    world.act("retract", {"number": 1}, "a")
    assert world.runtime.newest_revision(ANN, "a") == "a"
    assert world.listed() == ["a", "c"]
    world.act("supersede", {"by": "a"}, "c")
    assert world.listed() == ["a"]


def test_views_are_read_back_by_name(world: World) -> None:
    world.act("view", {"name": "mine", "query": "status:failed"})
    world.act("view", {"name": "mine", "query": "status:completed"})
    world.act("view", {"name": "gone", "query": ""})
    world.act("drop_view", {"name": "gone"})
    (view,) = world.runtime.views(ANN).values()
    assert view.body.query == "status:completed"  # type: ignore[attr-defined]


def test_what_is_not_there_has_no_standing(world: World) -> None:
    with pytest.raises(NotFound):
        world.runtime.standing_of(ANN, "none")
    with pytest.raises(NotFound):
        world.runtime.tree(ANN, "none")


# --- summaries -----------------------------------------------------------------------------------


def test_a_summary_says_what_acts_add_up_to_and_up_to_which(world: World) -> None:
    world.begin("t")
    assert world.summary("t")["as_of_act"] == 0
    world.act("note", {"text": "x"}, "t")
    world.act("tag", {"tag": "b"}, "t")
    last = world.act("tag", {"tag": "a"}, "t")
    found = world.summary("t")
    assert (found["notes"], found["tags"], found["as_of_act"]) == (1, "a b", last)
    assert (found["withdrawn"], found["hidden"], found["superseded_by"]) == (0, 0, None)


def test_withdrawn_and_superseded_trajectories_leave_lists_unless_asked_for(world: World) -> None:
    for name in "abc":
        world.begin(name)
    world.act("withdraw", {}, "a", reason="by mistake")
    world.act("supersede", {"by": "c"}, "b")
    assert world.listed() == ["c"]
    assert world.listed(withdrawn=True) == ["a"]
    assert world.listed(hidden=True) == ["a", "b"]
    assert world.listed(superseded_by="c") == ["b"]
    assert world.listed(hidden=(0, 1)) == ["a", "b", "c"]
    assert world.opened.projections.count_summaries("local", {}) == 1
    world.act("reinstate", {}, "a", reason="it was right")
    assert world.listed() == ["a", "c"]


def test_tags_find_trajectories_and_are_counted(world: World) -> None:
    for name in "abc":
        world.begin(name)
        world.act("tag", {"tag": "all"}, name)
    world.act("tag", {"tag": "some"}, "a")
    world.act("tag", {"tag": "other"}, "b")
    assert world.listed(tag="all") == ["a", "b", "c"]
    assert world.listed(tag=["some", "other"]) == ["a", "b"]
    assert world.listed(tag="none") == []
    assert world.runtime.tags(ANN) == [("all", 3), ("other", 1), ("some", 1)]
    world.act("untag", {"tag": "all"}, "a")
    world.act("withdraw", {}, "b", reason="gone")
    assert world.listed(tag="all") == ["c"]
    assert world.runtime.tags(ANN) == [("all", 1), ("some", 1)]


def test_acts_made_while_nobody_followed_are_caught_up_with(world: World) -> None:
    world.begin("t")
    world.begin("u")
    world.caught_up()
    world.act("withdraw", {}, "t", reason="while it slept")
    assert world.projector.catch_up() == 1
    assert world.projector.catch_up() == 0
    assert world.runtime.summary(ANN, "t")["hidden"] == 1  # type: ignore[index]


def test_a_follower_hears_of_acts_and_prices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "GATHER_SECONDS", 0.01)
    world.begin("t", reply())
    world.projector.start()
    try:
        world.act("withdraw", {}, "t", reason="x")
        world.act("price", PRICE)
        end = monotonic() + 10
        while monotonic() < end:
            found = world.runtime.summary(ANN, "t")
            if found and found["hidden"] and found["cost_derived_nano_usd"] == 10**9:
                return
            sleep(0.01)
        raise AssertionError(found)
    finally:
        world.projector.close()


def test_what_cannot_be_projected_can_be_withdrawn_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin("t")
    world.caught_up()

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(following, "summary_of", broken)
    world.say("t", reply())
    world.act("tag", {"tag": "kept"}, "t")
    world.act("withdraw", {}, "t", reason="it cannot be read")
    world.caught_up()
    assert world.projector.failed
    found = world.runtime.summary(ANN, "t")
    assert found is not None
    assert (found["hidden"], found["tags"], found["as_of_sequence"]) == (1, "kept", 2)
    assert world.listed() == []
    world.act("reinstate", {}, "t", reason="it can be told from its title")
    assert world.listed(tag="kept") == ["t"]


# --- prices --------------------------------------------------------------------------------------


def test_a_cost_is_derived_where_every_token_has_a_price(world: World) -> None:
    world.begin("t", reply(), reply(tokens=500_000), at=1_760_000_000_000_000)
    world.begin("u", reply(), reply("other"))
    world.begin("v", reply(), reply(None))
    world.begin("shipped", reply(MODEL), at=1_790_000_000_000_000)
    assert world.summary("t")["cost_derived_nano_usd"] is None
    row = next(one for one in shipped() if one.model == MODEL)
    assert world.summary("shipped")["cost_derived_nano_usd"] == row.input
    world.act("price", PRICE)
    assert world.summary("t")["cost_derived_nano_usd"] == 1_500_000_000
    assert world.summary("t")["cost_nano_usd"] is None
    for name in "uv":
        assert world.summary(name)["cost_derived_nano_usd"] is None
        found = world.runtime.derived_cost(ANN, name)
        assert found is not None
        assert found.priced_nano_usd == 10**9
    world.act("price", {**PRICE, "model": "other", "input": 2 * 10**9})
    assert world.summary("u")["cost_derived_nano_usd"] == 3 * 10**9


def test_a_price_that_changes_changes_what_was_derived_without_a_fold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [world.begin(f"t{number}", reply()) for number in range(7)]
    number = world.act("price", PRICE)
    world.caught_up()

    def folded(*_: object, **__: object) -> bool:
        raise AssertionError("priced again by a fold")

    monkeypatch.setattr(following, "_PRICED_PAGE", 3)
    monkeypatch.setattr(Projector, "_project", folded)
    world.act("price", {**PRICE, "input": 4 * 10**9})
    assert {world.summary(name)["cost_derived_nano_usd"] for name in names} == {4 * 10**9}
    world.act("price", {**PRICE, "since": "2019-01-01", "input": 10**9})
    world.act("retract", {"number": number + 1})
    assert {world.summary(name)["cost_derived_nano_usd"] for name in names} == {10**9}
    assert {world.summary(name)["priced_by"] for name in names} == {
        world.runtime.price_table(ANN).digest
    }


def test_a_trajectory_is_priced_by_the_day_it_began(world: World) -> None:
    world.act("price", {**PRICE, "since": "2026-06-01", "input": 2 * 10**9})
    world.act("price", {**PRICE, "since": "2026-01-01", "input": 10**9})
    world.begin("early", reply(), at=1_775_000_000_000_000)
    world.begin("late", reply(), at=1_785_000_000_000_000)
    world.begin("before", reply(), at=1_700_000_000_000_000)
    assert world.summary("early")["cost_derived_nano_usd"] == 10**9
    assert world.summary("late")["cost_derived_nano_usd"] == 2 * 10**9
    assert world.summary("before")["cost_derived_nano_usd"] is None


def test_two_people_do_not_price_over_each_other(world: World) -> None:
    seen = [act.number for act in world.runtime.price_acts(ANN)]
    assert seen == []
    world.act("price", PRICE, expected_last=0)
    with pytest.raises(HeadMoved):
        world.act("price", {**PRICE, "input": 5}, expected_last=0)
    world.begin("t")
    note = world.act("note", {"text": "x"}, "t")
    world.act("retract", {"number": note}, "t")
    # The retraction of a note is no act about prices.
    assert [act.kind for act in world.runtime.price_acts(ANN)] == ["price"]


# --- trees ---------------------------------------------------------------------------------------


def shape(world: World, name: str) -> list[tuple[int, str]]:
    world.caught_up()
    return [(one.depth, one.trajectory_id) for one in world.runtime.tree(ANN, name).nodes]


INTENT = ToolIntent(kind="proposal", tool="shell", arguments={"command": "ls"})


def test_a_tree_is_the_same_from_each_of_its_trajectories_and_adds_up(world: World) -> None:
    world.act("price", PRICE)
    world.begin("root", reply(tokens=1_000_000), at=1_780_000_000_000_000)
    world.begin("b", reply(tokens=10), INTENT, parent="root", at=1_780_000_000_000_002)
    world.begin("a", parent="root", at=None)
    world.begin("b1", reply("unheard", tokens=5), INTENT, parent="b", at=1_780_000_000_000_003)
    expected = [(0, "root"), (1, "b"), (2, "b1"), (1, "a")]
    for name in ("root", "a", "b", "b1"):
        assert shape(world, name) == expected
        assert world.runtime.tree(ANN, name).cut == frozenset()
    tree = world.runtime.tree(ANN, "b1")
    root, b = tree.node("root"), tree.node("b")
    assert root is not None
    assert b is not None
    assert (root.children, b.children) == (2, 1)
    assert root.rolled.trajectories == 4
    assert root.rolled.tokens["input"] == 1_000_015
    assert root.rolled.without_tokens == 1
    assert root.rolled.derived_nano_usd == 10**9 + 10_000
    assert root.rolled.cost_nano_usd is None
    assert root.rolled.without_cost == 2
    assert (root.rolled.unsettled, b.rolled.unsettled) == (2, 2)
    assert b.rolled.tokens["input"] == 15
    assert b.summary["parent_operation"] == "op-1"
    assert [row["trajectory_id"] for row in world.runtime.children(ANN, "root")] == ["a", "b"]
    assert tree.node("none") is None


def test_a_parent_that_is_not_stored_is_named(world: World) -> None:
    world.begin("child", parent="elsewhere")
    world.caught_up()
    tree = world.runtime.tree(ANN, "child")
    assert (tree.missing_parent, [one.trajectory_id for one in tree.nodes]) == (
        "elsewhere",
        ["child"],
    )


def test_a_child_that_came_first_finds_its_parent_later(world: World) -> None:
    world.begin("child", parent="parent")
    assert shape(world, "child") == [(0, "child")]
    world.begin("parent")
    assert shape(world, "child") == [(0, "parent"), (1, "child")]


def test_trajectories_that_name_each_other_are_each_shown_once(world: World) -> None:
    world.begin("a", parent="b")
    world.begin("b", parent="a")
    world.begin("self", parent="self")
    for name in ("a", "b"):
        world.caught_up()
        tree = world.runtime.tree(ANN, name)
        assert sorted(one.trajectory_id for one in tree.nodes) == ["a", "b"]
        assert "cycle" in tree.cut
    tree = world.runtime.tree(ANN, "self")
    assert [one.trajectory_id for one in tree.nodes] == ["self"]
    assert tree.cut == {"cycle"}


def test_a_tree_is_bounded_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "TREE_NODES_MAX", 5)
    monkeypatch.setattr(trees, "TREE_DEPTH_MAX", 3)
    world.begin("root")
    for number in range(8):
        world.begin(f"child{number}", parent="root")
    # The one asked for is in it, whatever the bound leaves out.
    world.caught_up()
    tree = world.runtime.tree(ANN, "child7")
    assert len(tree.nodes) == 5
    assert tree.node("child7") is not None
    assert tree.cut == {"nodes"}
    above = "deep0"
    world.begin(above)
    for number in range(1, 9):
        above = world.begin(f"deep{number}", parent=above)
    monkeypatch.setattr(trees, "TREE_NODES_MAX", 50)
    world.caught_up()
    for name in ("deep0", "deep8"):
        tree = world.runtime.tree(ANN, name)
        assert "depth" in tree.cut
        assert tree.node(name) is not None
        assert len(tree.nodes) <= 6


def test_what_was_withdrawn_counts_for_nobody_else(world: World) -> None:
    world.begin("root", reply(tokens=1))
    world.begin("good", reply(tokens=10), parent="root")
    world.begin("bad", reply(tokens=100), parent="root")
    world.begin("below", reply(tokens=1000), parent="bad")
    world.act("withdraw", {}, "bad", reason="never ran")
    for name in ("root", "good", "bad", "below"):
        assert sorted(shape(world, name)) == [(0, "root"), (1, "bad"), (1, "good"), (2, "below")]
        tree = world.runtime.tree(ANN, name)
        root, bad = tree.node("root"), tree.node("bad")
        assert root is not None
        assert bad is not None
        assert (root.rolled.tokens["input"], root.rolled.trajectories) == (1011, 3)
        # What it began still holds; it counts for nobody, itself included.
        assert (bad.rolled.tokens["input"], bad.rolled.trajectories) == (1000, 1)
        assert (root.rolled.left_out, bad.rolled.left_out, tree.left_out) == (1, 1, ("bad",))
    world.act("withdraw", {}, "root", reason="nor did this")
    assert len(shape(world, "below")) == 4
    root = world.runtime.tree(ANN, "below").node("root")
    assert root is not None
    assert (root.rolled.tokens["input"], root.rolled.left_out) == (1010, 2)


def test_children_follow_their_parent_to_its_newer_revision(world: World) -> None:
    world.begin("old")
    world.begin("older")
    world.begin("new")
    world.begin("child", reply(tokens=7), parent="old")
    world.begin("eldest", reply(tokens=3), parent="older")
    world.act("supersede", {"by": "old"}, "older")
    world.act("supersede", {"by": "new"}, "old")
    for name in ("new", "child", "eldest"):
        assert shape(world, name) == [(0, "new"), (1, "child"), (1, "eldest")]
    root = world.runtime.tree(ANN, "new").node("new")
    assert root is not None
    assert root.rolled.tokens["input"] == 10


def test_a_tree_without_a_summary_is_empty_and_not_wrong(world: World) -> None:
    world.begin("t")
    tree = world.runtime.tree(ANN, "t")
    assert (tree.nodes, tree.missing_parent, tree.cut) == ((), None, frozenset())
