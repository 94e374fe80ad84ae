"""What a newcomer looks for on the page of one trajectory: totals that agree or say why not, times
that stay, what goes on behind the page, sub-agents at their calls, the log as conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from ingest import demo
from tests.web import pages_world
from tests.web.pages_world import World, hostile_payloads

LONG = "/t/demo-nightly-build"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pages_world.world(tmp_path_factory.mktemp("one")) as world:
        demo.seed(world.parts.opened.store, world.parts.opened.blobs, events=1500)
        pages_world.write(world, "hostile", hostile_payloads())
        assert world.parts.projector is not None
        world.parts.projector.catch_up()
        yield world


def text_of(page: str) -> str:
    """The words of a page, tags left out."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


# ---- totals --------------------------------------------------------------------------------


def test_the_budget_says_why_its_tokens_are_not_those_of_the_replies(full: World) -> None:
    budget = text_of(full.get(f"{LONG}/@1191?tab=budget"))
    state = text_of(full.get(f"{LONG}/@1191?tab=state&all=1"))
    said = re.search(r"settled by usage reports: [\d,]+ fewer than the ([\d,]+) that", budget)
    assert said and said.group() in state
    facts = re.search(r"tokens ([\d,]+)", budget)
    assert facts and facts.group(1) == said.group(1)
    assert budget.count("settled by usage reports") == 1


def test_compared_groups_share_one_header_and_its_columns(full: World) -> None:
    page = full.get(f"{LONG}/@1200?tab=state&vs=400")
    groups = page.count('<details class="group"')
    assert groups > 3
    assert page.count('<th scope="col">at 1,200</th>') == groups
    assert 'class="vh"><tr>' not in page
