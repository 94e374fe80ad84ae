"""The list in a browser: find by text, narrow by clicks, select and compare, on a phone too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

Tab = Callable[..., Page]


def test_a_text_is_found_from_any_page_and_opened_where_it_stands(full: str, tab: Tab) -> None:
    page = tab(full + "/")
    page.keyboard.press("/")
    page.keyboard.type('"second line"')
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/find\?text="))
    hit = page.locator(".hits li").first
    expect(hit.locator("mark").first).to_contain_text("second line")
    hit.get_by_role("link").click()
    page.wait_for_url(re.compile(r"/t/hostile/@\d+\?tab=event&find="))
    page.goto(full + "/find?text=demo-nightly-build%401000")
    expect(page).to_have_url(full + "/t/demo-nightly-build/@1000")


def test_the_list_is_narrowed_by_clicks_and_widened_by_taking_chips_off(
    full: str, tab: Tab
) -> None:
    page = tab(full + "/trajectories")
    page.locator(".picks summary", has_text="status").click()
    page.get_by_role("link", name="COMPLETED", exact=True).click()
    expect(page.locator(".qterm")).to_have_text(re.compile(r"status is COMPLETED"))
    page.locator(".picks summary", has_text="text").click()
    page.get_by_label("events that hold all its words").fill("error")
    page.get_by_role("button", name="Add").click()
    page.wait_for_url(re.compile("text"))
    expect(page.locator("#search")).to_have_value('status:COMPLETED text:"error"')
    expect(page.locator(".qterm")).to_have_count(2)
    page.get_by_role("link", name="Without: status is COMPLETED").click()
    expect(page.locator("#search")).to_have_value('text:"error"')
    page.locator("#search").fill("cost:cheap")
    page.locator("#search").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Column 6")
    expect(page.locator("table.runs tbody tr").first).to_be_visible()


def test_two_are_selected_compared_and_exported(full: str, tab: Tab, tmp_path: Path) -> None:
    page = tab(full + "/trajectories?sort=title&dir=asc")
    boxes = page.locator(".pick input")
    boxes.nth(0).check()
    boxes.nth(1).check()
    expect(page.locator("[data-picked]")).to_contain_text("2 selected: A ")
    with page.expect_download() as started:
        page.get_by_role("button", name="Export logs").click()
    assert started.value.suggested_filename == "trajectories.zip"
    started.value.save_as(tmp_path / "kept.zip")
    assert (tmp_path / "kept.zip").read_bytes()[:2] == b"PK"
    page.get_by_role("button", name="Compare A with B").click()
    page.wait_for_url(re.compile(r"/trajectories/compare\?id="))
    expect(page.get_by_role("columnheader", name="B", exact=True)).to_be_visible()


def test_a_view_is_kept_with_columns_and_order(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories?q=standing%3Aimported")
    page.locator("summary", has_text="Columns").click()
    page.get_by_label("Events", exact=True).check()
    page.get_by_role("button", name="Show these").click()
    page.get_by_role("columnheader", name="Events").get_by_role("link").click()
    page.locator("summary", has_text="Save view").click()
    page.get_by_label("Name").fill("Longest imports")
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto(full + "/trajectories")
    page.get_by_role("link", name="Longest imports").click()
    expect(page.locator("#search")).to_have_value("standing:imported")
    expect(page.get_by_role("columnheader", name="Events")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.get_by_role("button", name="Drop the view Longest imports").click()
    expect(page.get_by_role("link", name="Longest imports")).to_have_count(0)


def test_the_list_fits_a_phone_and_its_pickers_open(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories?q=text%3Aerror", width=390, height=844)
    for summary in ("+ active", "+ all keys", "Columns", "Export…", "Save view…"):
        page.locator("summary", has_text=summary).first.click()
        box = page.locator(".pop[open] .box").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, summary
        page.keyboard.press("Escape")
        expect(page.locator(".pop[open]")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_printed_list_has_its_rows(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories")
    page.emulate_media(media="print")
    expect(page.locator("table.runs tbody tr").first).to_be_visible()
    expect(page.locator("table.runs tbody tr td.cut a").first).to_be_visible()
    for gone in (".pick", ".picked", ".pager", ".picks"):
        expect(page.locator(gone).first).to_be_hidden()


def test_nothing_that_opens_leaves_the_screen(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories?q=standing%3Aimported")
    for width in (1440, 1100, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for number in range(page.locator(".picks .pop > summary").count()):
            page.locator(".picks .pop > summary").nth(number).click()
            box = page.locator(".picks .pop[open] > .box").bounding_box()
            assert box is not None
            assert box["x"] >= 0 and box["x"] + box["width"] <= width, (width, number, box)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("Escape")
    for path in ("/trajectories", "/find?text=error"):
        page.goto(full + path)
        page.locator(".menu > summary").click()
        menu = page.locator(".menu nav").bounding_box()
        assert menu is not None and menu["x"] >= 0 and menu["x"] + menu["width"] <= 390


def test_what_takes_a_selection_says_so_until_there_is_one(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories")
    compare = page.get_by_role("button", name="Compare A with B")
    export = page.get_by_role("button", name="Export rows")
    expect(compare).to_be_disabled()
    expect(export).to_be_disabled()
    expect(compare).to_have_attribute("title", "a comparison takes two; 0 selected")
    page.locator(".pick input").nth(0).check()
    expect(export).to_be_enabled()
    expect(page.locator("[data-picked]")).to_contain_text("tick one more")
    page.locator(".pick input").nth(1).check()
    expect(compare).to_be_enabled()
    page.locator(".pick input").nth(2).check()
    expect(compare).to_be_disabled()
    expect(page.locator("[data-picked]")).to_contain_text("untick 1")


def test_a_comparison_shows_both_on_a_phone(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories/compare?id=hostile&id=demo-nightly-build")
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for column in (1, 2):
        box = page.locator(".compared tbody tr").nth(6).locator("td").nth(column - 1).bounding_box()
        assert box is not None and box["width"] > 60 and box["x"] + box["width"] <= 390
    assert "≠" in page.evaluate(
        "getComputedStyle(document.querySelector('.compared tr.differs > th'), '::after').content"
    )
