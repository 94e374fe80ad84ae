"""Stories in Chromium: find and filter inside a log, zoom by brush, a page that is sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

LONG = "/t/demo-nightly-build/@1000"


def test_find_inside_a_log_by_keys_alone(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + LONG)
    page.keyboard.press("f")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("timeout")
    page.keyboard.press("Enter")
    status = page.locator(".find [role=status]")
    expect(status).to_contain_text("up to here")
    page.locator("body").press("h")
    expect(status).to_contain_text(re.compile(r"hit [\d,]+"))
    here = page.locator("#view").get_attribute("data-seq")
    assert "find=timeout" in page.url
    assert page.locator(".ev .hit").count() > 0
    page.locator("body").press("h")
    expect(page.locator("#view")).not_to_have_attribute("data-seq", str(here))
    page.locator("body").press("H")
    expect(page.locator("#view")).to_have_attribute("data-seq", str(here))


def test_lanes_are_chosen_by_a_click(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + LONG)
    page.get_by_role("link", name="filter by lane").click()
    page.get_by_role("link", name=re.compile("^errors")).click()
    expect(page.locator(".lanepick [aria-current]")).to_contain_text("errors")
    expect(page.locator(".ev:not(.f-bad)")).to_have_count(0)
    page.go_back()
    expect(page.locator(".lanepick [aria-current]")).to_have_count(0)


def test_a_brush_draws_what_was_dragged_over(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + LONG + "?zoom=1-2000")
    box = page.locator("#lanes > svg").bounding_box()
    assert box is not None
    y = box["y"] + 40
    page.mouse.move(box["x"] + box["width"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=6)
    expect(page.locator(".brush")).to_be_visible()
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"zoom=\d+-\d+"))
    expect(page.locator("#lanes")).not_to_have_attribute("data-first", "1")
    first = int(page.locator("#lanes").get_attribute("data-first") or 0)
    last = int(page.locator("#lanes").get_attribute("data-last") or 0)
    assert 450 < first < 550 and 950 < last < 1050
    expect(page.locator("#view")).to_have_attribute("data-seq", "1000")
    assert page.locator(".brush").count() == 0
    page.get_by_role("link", name="around here").click()
    expect(page).not_to_have_url(re.compile("zoom="))


def test_tabs_follow_the_keys_and_a_message_opens(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + LONG)
    for name in ("Conversation", "State", "Context", "Operations", "Budget", "Evidence"):
        page.keyboard.press("]")
        expect(page.locator(".tabs [aria-current]")).to_have_text(name)
    page.goto(full + LONG + "?tab=context")
    row = page.locator("details.msgrow").first
    expect(row.locator("pre")).to_be_hidden()
    row.locator("summary").click()
    expect(row.locator("pre").first).to_be_visible()


def test_a_saved_page_opens_without_a_server(
    full: str, tab: Callable[..., Page], browser: Browser, tmp_path: Path
) -> None:
    page = tab(full + LONG)
    with page.expect_download() as started:
        page.get_by_role("link", name="Save page").click()
    path = tmp_path / started.value.suggested_filename
    started.value.save_as(path)
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 800})
    sent = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    sent.on("request", lambda request: asked.append(request.url))
    sent.on("console", lambda message: said.append(message.text))
    sent.goto(path.as_uri())
    expect(sent.get_by_text("A copy of boundary 1,000")).to_be_visible()
    assert asked == [path.as_uri()] and not said
    assert sent.evaluate("document.documentElement.scrollWidth") <= 390
    assert sent.locator("h1").evaluate("node => getComputedStyle(node).fontWeight") == "600"
    context.close()


def _trajectories(page: Page, url: str) -> list[str]:
    listed = page.request.get(f"{url}/v1/trajectories?limit=50").json()["trajectories"]
    return [f"/t/{one['trajectory_id']}" for one in listed]


def _boxes(page: Page) -> list[float]:
    """Where the ribbon begins, and where the scrubber begins and ends."""
    box = page.locator(".ribbon").bounding_box()
    scrub = page.locator(".scrub").bounding_box()
    assert box is not None and scrub is not None
    return [box["y"], scrub["y"], scrub["y"] + scrub["height"]]


def test_ribbon_and_scrubber_stay_where_they_are_while_one_scrubs(
    full: str, tab: Callable[..., Page]
) -> None:
    page = tab(full + "/keys")
    links = _trajectories(page, full)
    assert len(links) > 6
    for width, some in ((1440, links[::3]), (1200, links[-1:])):
        page.set_viewport_size({"width": width, "height": 900})
        for path in some:
            page.goto(full + path)
            head = int(page.locator("#view").get_attribute("data-head") or 0)
            found = []
            for seq in sorted({0, 1, head // 3, max(head - 1, 0), head}):
                answer = page.goto(f"{full}{path}/@{seq}")
                assert answer is not None and answer.ok, answer
                found.append(_boxes(page))
            assert all(boxes == found[0] for boxes in found), (width, path, found)
            lines = page.locator(".head > .facts, .head > .beside")
            assert lines.count() == 2
            assert sum(box["height"] for box in map(_box, lines.all())) <= 50, path


def _box(one: Locator) -> dict[str, float]:
    found = one.bounding_box()
    assert found is not None
    return {"height": found["height"]}


def test_a_typed_jump_keeps_the_tab_that_is_open(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + "/t/demo-nightly-build/@100?tab=state")
    page.locator("body").press("]")
    expect(page.locator("[data-tab=context]")).to_have_attribute("aria-current", "page")
    page.locator("#search").fill("250")
    page.locator("#search").press("Enter")
    expect(page.locator("#view")).to_have_attribute("data-seq", "250")
    expect(page.locator("[data-tab=context]")).to_have_attribute("aria-current", "page")
    assert page.url.count("tab=") == 1 and "tab=context" in page.url
    page.locator("body").press("[")
    expect(page.locator("[data-tab=state]")).to_have_attribute("aria-current", "page")
    page.locator("body").press("[")
    expect(page.locator("[data-tab=conversation]")).to_have_attribute("aria-current", "page")
    page.locator("body").press("[")
    expect(page.locator("[data-tab=event]")).to_have_attribute("aria-current", "page")
    page.locator("#search").fill("240")
    page.locator("#search").press("Enter")
    expect(page.locator("#view")).to_have_attribute("data-seq", "240")
    assert "tab=" not in page.url


def test_the_evidence_of_an_imported_file_fits_a_phone(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + "/keys", width=390, height=844)
    links = _trajectories(page, full)
    for path in links[::2]:
        page.goto(f"{full}{path}/@1?tab=evidence")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
