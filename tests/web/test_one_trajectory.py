"""What a newcomer looks for on the page of one trajectory: totals that agree or say why not, times
that stay, what goes on behind the page, sub-agents at their calls, the log as conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from core.events.context import RuntimeInput
from core.events.task import TaskStarted
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


# ---- times ---------------------------------------------------------------------------------


def rows_of(page: str) -> dict[int, str]:
    """Sequence number -> the time shown, of a page's log list."""
    found = re.findall(r'id="e(\d+)".*?</a>', page, re.S)
    cells = re.findall(
        r'id="e(\d+)"[^\n]*?<time title="[^"]*">(?:<span[^>]*>↶</span>)?([^<]*)<', page
    )
    assert found
    return {int(number): time for number, time in cells}


def test_times_count_from_the_start_on_every_page_of_the_log(full: World) -> None:
    shown: dict[int, str] = {}
    for seq in (0, 1, 30, 55, 60, 700, 1500):
        for number, time in rows_of(full.get(f"{LONG}/@{seq}")).items():
            assert shown.setdefault(number, time) == time, (seq, number)
    assert shown[1] == "+0.0 s" and len(shown) > 100
    page = full.get(f"{LONG}/@700?times=clock")
    of_day = rows_of(page)
    assert all(re.fullmatch(r"(\d\d-\d\d )?\d\d:\d\d:\d\d", time) for time in of_day.values())
    # It goes along to other boundaries and tabs, and back.
    assert f'href="{LONG}/@701?times=clock"' in page and "occurred, UTC" in page
    assert f'href="{LONG}/@700"' in page


def test_a_time_that_steps_back_is_marked_and_said(full: World) -> None:
    told = [TaskStarted(title="back", standing="imported"), *(RuntimeInput("x") for _ in range(99))]
    pages_world.write(full, "back", told, at=lambda n: 10 - 5 * (n == 30) + n)
    page = full.get("/t/back/@30")
    marks = re.findall(r'id="e(\d+)"[^\n]*↶', page)
    assert marks == ["30"]
    assert "4.00 s before the event above: the order is the log&#39;s" in page
    # Also where it is the first row of the list.
    cut = full.get("/t/back/@40")
    assert 'id="e29"' not in cut and re.findall(r'id="e(\d+)"[^\n]*↶', cut) == ["30"]
