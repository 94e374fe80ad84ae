"""The pages as people use them, in a real browser over a real server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from ingest import demo

Tab = Callable[..., Page]
DEMO = Path(demo.__file__).parent / "demo_data"
LONG = "/t/demo-nightly-build"


def _seq(page: Page, seq: int) -> None:
    expect(page.locator("#view")).to_have_attribute("data-seq", str(seq))


def test_a_person_imports_a_file_finds_it_and_opens_it(empty: str, tab: Tab) -> None:
    page = tab(empty + "/")
    expect(page.get_by_role("heading", name="This store is empty")).to_be_visible()
    page.locator("#files").set_input_files(
        [DEMO / "repair-slugify.traj.json", DEMO.parent / "demo.py"]
    )
    page.get_by_role("button", name="Import", exact=True).click()
    page.wait_for_url(re.compile(r"/import/[0-9a-f]{32}$"))
    expect(page.get_by_role("status").first).to_have_text("2 files · 1 refused, 1 imported")
    expect(page.get_by_role("heading", name="Refused: demo.py")).to_be_visible()
    expect(page.get_by_text("What this format cannot say").first).to_be_visible()
    page.goto(empty + "/trajectories")
    page.locator("#search").fill("slugify")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page).to_have_url(re.compile(r"q=slugify"))
    page.locator("table.runs tbody a").first.click()
    page.wait_for_url(re.compile(r"/t/tr_[a-z0-9]+/@\d+$"))
    expect(page.get_by_text("completeness not provable").first).to_be_visible()


def test_a_dropped_file_is_sent_with_the_form(empty: str, tab: Tab) -> None:
    page = tab(empty + "/import")
    data = page.evaluate_handle(
        """() => { const data = new DataTransfer();
             data.items.add(new File(['{"x": 1}'], 'dropped.json')); return data; }"""
    )
    page.locator("#drop").dispatch_event("drop", {"dataTransfer": data})
    page.wait_for_url(re.compile(r"/import/[0-9a-f]{32}$"))
    expect(page.get_by_role("heading", name="Refused: dropped.json")).to_be_visible()


def test_scrubbing_by_keyboard_loses_no_step_and_keeps_the_tab(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000?tab=state")
    for _ in range(40):
        page.keyboard.press("j")
    _seq(page, 1040)
    expect(page).to_have_url(re.compile(r"/@1040\?tab=state$"))
    for _ in range(15):
        page.keyboard.press("k")
    _seq(page, 1025)
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(r"/@1025\?tab=context$"))
    page.keyboard.press("0")
    _seq(page, 0)
    page.keyboard.press("$")
    _seq(page, 3000)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(full + "/trajectories")


def test_keys_jump_to_the_next_of_a_kind_and_back(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000")
    for key, types in (
        ("m", ("ContextBuilt", "ModelReplied")),
        ("t", ("ToolIntent",)),
        ("J", ("ContextBuilt",)),
    ):
        before = int(page.locator("#view").get_attribute("data-seq") or 0)
        page.keyboard.press(key)
        expect(page.locator("#view")).not_to_have_attribute("data-seq", str(before))
        after = int(page.locator("#view").get_attribute("data-seq") or 0)
        assert after > before, key
        row = page.locator(".ev[aria-current] b")
        assert row.inner_text() in types, key
    page.keyboard.press("e")
    expect(page.locator(".ev[aria-current]")).to_have_class(re.compile("f-bad"))
    page.go_back()
    expect(page.locator(".ev[aria-current] b")).to_have_text("ContextBuilt")
    page.go_forward()
    expect(page.locator(".ev[aria-current]")).to_have_class(re.compile("f-bad"))


def test_scrubbing_by_mouse(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000")
    box = page.locator("#at").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 3, y)
    page.mouse.down()
    for part in range(20):
        page.mouse.move(box["x"] + box["width"] * (0.33 + part * 0.02), y)
    page.mouse.up()
    at = page.locator("#at").input_value()
    assert abs(int(at) - 2130) < 60
    _seq(page, int(at))
    expect(page).to_have_url(re.compile(rf"/@{at}$"))
    lanes = page.locator("#lanes > svg").bounding_box()
    assert lanes is not None
    page.mouse.click(lanes["x"] + lanes["width"] * 0.5, lanes["y"] + 40)
    first, last = (
        int(page.locator("#lanes").get_attribute(name) or 0) for name in ("data-first", "data-last")
    )
    _seq(page, int(first + (last - first + 1) * 0.5))
    page.locator(".ev").nth(4).click()
    expect(page.locator(".ev[aria-current]")).to_be_visible()


def test_a_typed_jump_and_one_that_means_nothing(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000?tab=state")
    page.keyboard.press("/")
    page.keyboard.type("step:20")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/@\d+\?tab=state$"))
    expect(page.locator(".facts").first).to_contain_text("step 20 now")
    page.locator("#search").fill("nothing of the kind")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nothing here is called nothing of the kind")


def test_two_boundaries_are_compared(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000")
    page.get_by_role("link", name="Compare…").click()
    expect(page.get_by_label("compare with")).to_be_focused()
    page.get_by_label("compare with").fill("900")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page).to_have_url(re.compile(r"/@1000\?tab=state&vs=900$"))
    expect(page.locator(".group", has_text="event_counts")).to_contain_text("ContextBuilt")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"/@1001\?tab=state&vs=900$"))


def test_the_log_is_verified_when_asked(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@500?tab=evidence")
    page.get_by_role("link", name="Verify to here").click()
    expect(page.get_by_text("verified to 500")).to_be_visible()


def test_everything_works_without_javascript(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories", java_script_enabled=False)
    page.locator("#search").fill("nightly")
    page.get_by_role("button", name="Search", exact=True).click()
    page.locator("table.runs tbody a").first.click()
    page.get_by_role("link", name="State", exact=True).click()
    page.get_by_role("link", name="Previous boundary").first.click()
    expect(page).to_have_url(full + LONG + "/@2999?tab=state")
    page.locator("#search").fill("418")
    page.locator("#search").press("Enter")
    expect(page).to_have_url(full + LONG + "/@418?tab=state")
    expect(page.locator(".ev[aria-current]")).to_be_visible()
    page.locator("#at").fill("700")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page).to_have_url(full + LONG + "/@700?tab=state")
    page.get_by_label("compare with").fill("600")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("table.changes tbody tr").nth(3)).to_be_visible()
    page.goto(full + "/import")
    page.locator("#files").set_input_files(DEMO / "repair-slugify.traj.json")
    page.get_by_role("button", name="Import", exact=True).click()
    for _ in range(50):
        if "unchanged" in page.content():
            break
        time.sleep(0.1)
        page.reload()
    expect(page.get_by_text("1 file · 1 unchanged").first).to_be_visible()


def test_the_phone_page_has_its_dock_and_never_scrolls_sideways(
    full: str, empty: str, tab: Tab
) -> None:
    page = tab(full + LONG + "/@1000?tab=state&all=1", width=390, height=844)
    for path in (
        LONG + "/@1000?tab=state&all=1",
        LONG + "/@1000?tab=state&vs=900",
        LONG + "/@1000?tab=evidence",
        "/t/hostile/@8",
        "/t/hostile/@1?raw=1",
        "/",
        "/trajectories",
        "/import",
        "/health",
        "/keys",
        "/docs/errors",
        "/nope",
    ):
        page.goto(full + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    for path in ("/", "/trajectories", "/import", "/health"):
        page.goto(empty + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.goto(full + LONG + "/@1000")
    dock = page.locator(".dock")
    expect(dock).to_be_visible()
    dock.get_by_role("link", name="Next boundary").click()
    _seq(page, 1001)
    dock.get_by_role("link", name="Jump…").click()
    expect(page.locator("#search")).to_be_focused()
    page.locator("summary", has_text="Menu").click()
    page.get_by_role("navigation", name="Pages, menu").get_by_role("link", name="Health").click()
    expect(page).to_have_url(full + "/health")


def test_hostile_text_does_nothing(full: str, tab: Tab) -> None:
    page = tab(full + "/t/hostile/@1")
    for seq in range(1, 20):
        for query in ("", "?tab=state&all=1") if seq in (1, 8, 9, 19) else ("",):
            page.goto(f"{full}/t/hostile/@{seq}{query}")
            assert page.evaluate("window.hit") is None
    for path in ("/", "/trajectories", "/import"):
        page.goto(full + path)
        assert page.evaluate("window.hit") is None


def test_charts_are_drawn_late_and_within_the_policy(full: str, tab: Tab) -> None:
    page = tab(full + "/health")
    for name in ("queue-wait", "storage-time", "group-size"):
        box = page.locator(f'[data-plot$="{name}"]')
        box.scroll_into_view_if_needed()
        expect(box).to_have_attribute("data-drawn", "1", timeout=20_000)
    assert page.locator(".modebar").count() == 0
    assert page.get_by_text("Share").count() == 0


def test_the_theme_is_remembered_by_the_server(full: str, tab: Tab) -> None:
    page = tab(full + "/keys", color_scheme="light")
    switch = page.get_by_role("button", name=re.compile("theme:"))
    switch.click()
    switch.click()
    expect(switch).to_have_text("theme: dark")
    page.goto(full + "/health")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_keys_are_listed_and_typing_is_left_alone(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#search").focus()
    page.keyboard.type("jjj?")
    expect(page.locator("#search")).to_have_value("jjj?")
    _seq(page, 1000)


def test_the_link_to_a_boundary_opens_it_in_a_fresh_browser(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@1000?tab=state&all=1&by=time")
    page.locator(".ev").nth(3).click()
    expect(page.locator("#view")).not_to_have_attribute("data-seq", "1000")
    link = page.url
    assert "tab=state" in link and "all=1" in link and "by=time" in link
    other = tab(link)
    assert other.locator("#view").get_attribute("data-seq") == page.locator("#view").get_attribute(
        "data-seq"
    )
    expect(other.get_by_role("link", name="by time")).to_have_attribute("aria-current", "true")


def _append(page: Page, full: str, epoch: int, number: int) -> None:
    answer = page.request.post(
        f"{full}/v1/trajectories/only-begun/events",
        data={
            "owner_epoch": epoch,
            "worker": "worker-e2e",
            "request_id": f"append-{number}",
            "events": [
                {
                    "event_id": f"live-{number}",
                    "type": "RuntimeInput",
                    "schema_version": 1,
                    "payload": {"kind": "message", "text": f"number {number}"},
                }
            ],
        },
    )
    assert answer.ok, answer.text()


def test_an_open_trajectory_is_followed_only_at_its_end(full: str, tab: Tab) -> None:
    page = tab(full + "/t/only-begun")
    claim = page.request.post(
        f"{full}/v1/trajectories/only-begun/claim",
        data={"request_id": "claim-1", "worker": "worker-e2e"},
    )
    assert claim.ok, claim.text()
    _seq(page, 2)
    _append(page, full, claim.json()["owner_epoch"], 1)
    _seq(page, 3)
    expect(page).to_have_url(re.compile(r"/@3$"))
    expect(page.locator(".ev[aria-current]")).to_contain_text("number 1")
    page.keyboard.press("k")
    _seq(page, 2)
    _append(page, full, claim.json()["owner_epoch"], 2)
    time.sleep(1.2)
    _seq(page, 2)
    page.keyboard.press("$")
    _seq(page, 4)
    for number in range(3, 9):
        # Some come while the page is still taking up the one before; none may be the last seen.
        _append(page, full, claim.json()["owner_epoch"], number)
        time.sleep(0.15)
    _seq(page, 10)
