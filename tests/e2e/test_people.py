"""What people do with the pages, each story whole: in Chromium, over a real server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
from playwright.sync_api import Page, expect

from ingest import demo
from tests.e2e.test_axe import AXE, _violations
from tests.web.api_world import append, claim, create, note

Tab = Callable[..., Page]
LONG = "/t/demo-nightly-build"
SESSION = Path(demo.__file__).parent / "demo_data" / "2c1d9f50-7a44-4f0e-9b1b-5d0c7e3a1f10.jsonl"


def _seq(page: Page, seq: int) -> None:
    expect(page.locator("#view")).to_have_attribute("data-seq", str(seq))


def _client(full: str) -> httpx2.Client:
    return httpx2.Client(base_url=full, timeout=60)


def _owned(client: httpx2.Client, name: str) -> None:
    create(client, name)  # type: ignore[arg-type]
    claim(client, name, request_id=f"claim-{name}")  # type: ignore[arg-type]


def _import(full: str, name: str, data: bytes) -> str:
    """Send one file, and wait for its report; the trajectory it became."""
    with _client(full) as client:
        job = client.post(f"/v1/imports?name={name}", content=data).json()
        deadline = time.monotonic() + 30
        while job["state"] != "done":
            assert time.monotonic() < deadline, job
            time.sleep(0.05)
            job = client.get(job["url"]).json()
    return str(job["files"][0]["report"]["trajectories"][0]["id"])


def _lines(session: str, title: str, *, first: int = 1, last: int = 6) -> bytes:
    """Lines of a session file: each prompt is answered by the next line."""
    made = []
    for number in range(first, last + 1):
        asks = number % 2 == 1
        message: dict[str, object] = (
            {"role": "user", "content": f"{title}, question {number}"}
            if asks
            else {
                "id": f"msg_{session[:4]}_{number}",
                "type": "message",
                "role": "assistant",
                "model": "claude-example-5",
                "content": [{"type": "text", "text": f"answer {number}"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 5},
            }
        )
        made.append(
            {
                "type": "user" if asks else "assistant",
                "uuid": f"{session[:8]}-0000-4000-8000-{number:012d}",
                "parentUuid": f"{session[:8]}-0000-4000-8000-{number - 1:012d}"
                if number > 1
                else None,
                "sessionId": session,
                "isSidechain": False,
                "cwd": "/home/u/project",
                "version": "2.0.1",
                "timestamp": f"2026-11-20T09:00:{number:02d}.000Z",
                "message": message,
                **({} if asks else {"requestId": f"req_{number}"}),
            }
        )
    return b"".join(json.dumps(line).encode() + b"\n" for line in made)


# ---- find, filter --------------------------------------------------------------------------


def test_a_person_finds_a_run_by_what_was_said_in_it(full: str, tab: Tab) -> None:
    name = "a1a1a1a1-1111-4111-8111-111111111111"
    _import(full, f"{name}.jsonl", _lines(name, "Why does the xylophone parser stall"))
    page = tab(full + "/")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    deadline = time.monotonic() + 15
    while True:
        # The index follows the log; the page says while it is behind.
        page.goto(full + "/trajectories")
        page.locator("#search").fill('text:"xylophone parser"')
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/trajectories\?q=text"))
        if page.locator("table.runs tbody tr").count() == 1 or time.monotonic() > deadline:
            break
        time.sleep(0.3)
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.locator("table.runs tbody a").first.click()
    page.wait_for_url(re.compile(r"/@\d+"))
    box = page.get_by_placeholder("find in this log")
    box.fill("xylophone")
    box.press("Enter")
    expect(page).to_have_url(re.compile("find=xylophone"))
    expect(page.locator("#view")).to_contain_text("xylophone")


def test_a_person_narrows_the_list_by_pickers_and_keeps_the_address(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories")
    before = page.locator("table.runs tbody tr").count()
    page.locator("#search").fill("status:failed")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"q=status%3Afailed"))
    expect(page.locator(".qterm")).to_contain_text("FAILED")
    after = page.locator("table.runs tbody tr").count()
    assert 0 < after < before
    again = tab(page.url)
    assert again.locator("table.runs tbody tr").count() == after
    again.get_by_label(re.compile("^Without:")).first.click()
    expect(again.locator("table.runs tbody tr")).to_have_count(before)


# ---- follow live ---------------------------------------------------------------------------


def test_a_file_that_grows_is_followed_at_its_end_and_held_still_elsewhere(
    full: str, tab: Tab
) -> None:
    name = "b2b2b2b2-2222-4222-8222-222222222222"
    trajectory = _import(full, f"{name}.jsonl", _lines(name, "A run that goes on"))
    page = tab(f"{full}/t/{trajectory}")
    # Uploaded, and nobody is known to read the file again: the page claims no more.
    expect(page.locator("#follow")).to_contain_text("at the end")
    head = int(page.locator("#view").get_attribute("data-seq") or 0)
    _import(full, f"{name}.jsonl", _lines(name, "A run that goes on", last=8))
    expect(page.locator("#view")).not_to_have_attribute("data-seq", str(head))
    new = int(page.locator("#view").get_attribute("data-seq") or 0)
    assert new > head
    page.keyboard.press("k")
    _seq(page, new - 1)
    _import(full, f"{name}.jsonl", _lines(name, "A run that goes on", last=10))
    # It holds still, and says how much has come, also a second time.
    chip = page.locator("#ahead .newer")
    expect(chip).to_contain_text("newer event")
    first = int((chip.text_content() or "0").split()[0])
    _import(full, f"{name}.jsonl", _lines(name, "A run that goes on", last=12))
    expect(chip).not_to_contain_text(f"{first} newer")
    more = int((chip.text_content() or "0").split()[0])
    assert more > first
    expect(page.locator("#ahead .later").first).to_contain_text(f"{more + 1} more events")
    _seq(page, new - 1)
    # Stepping reads the page anew: what had come is no longer newer than it.
    page.keyboard.press("k")
    _seq(page, new - 2)
    expect(chip).to_have_count(0)
    lines: list[str] = []
    page.on("request", lambda request: lines.append(request.url))
    _import(full, f"{name}.jsonl", _lines(name, "A run that goes on", last=14))
    expect(chip).to_contain_text("newer event")
    _seq(page, new - 2)
    page.keyboard.press("$")
    expect(page.locator("#view")).to_contain_text("answer 14")
    expect(page.locator("#follow")).to_contain_text("at the end")
    _import(full, f"{name}.jsonl", _lines(name, "A run that goes on", last=16))
    expect(page.locator("#view")).to_contain_text("answer 16")
    # One line for the page: moving it lays no further one.
    assert not [url for url in lines if "/live" in url]


def test_a_page_that_lost_its_line_takes_up_where_it_was(full: str, tab: Tab) -> None:
    with _client(full) as client:
        _owned(client, "torn")
        # In a context of its own, since what a browser says of a lost line is no error of ours.
        browser = tab(full + "/keys").context.browser
        assert browser is not None
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{full}/t/torn")
        _seq(page, 2)
        context.set_offline(True)
        append(client, note("n1"), name="torn", request_id="t1")  # type: ignore[arg-type]
        time.sleep(0.8)
        _seq(page, 2)
        context.set_offline(False)
        # Nothing more is appended: what was missed is taken up all the same.
        _seq(page, 3)
        context.close()


def test_a_list_says_that_it_has_grown_old_and_is_read_again(full: str, tab: Tab) -> None:
    page = tab(full + "/trajectories")
    with page.expect_response(lambda answer: "/trajectories/live" in answer.url):
        page.reload()
    expect(page.locator("#newer button")).to_have_count(0)
    with _client(full) as client:
        create(client, "quite-new")  # type: ignore[arg-type]
        button = page.get_by_role("button", name=re.compile("newer than this list"))
        expect(button).to_be_visible()
        assert page.get_by_role("link", name="task of quite-new").count() == 0
        button.click()
        expect(page.get_by_role("link", name="task of quite-new").first).to_be_visible()
        expect(page.locator("#newer button")).to_have_count(0)


# ---- keyboard only -------------------------------------------------------------------------


def test_a_person_with_a_keyboard_alone_gets_everywhere(full: str, tab: Tab) -> None:
    page = tab(full + "/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(full + "/trajectories")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("table.runs tbody tr").first.locator("a[href]").first).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("nightly")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=nightly"))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/t/demo-nightly-build/@\d+$"))
    page.keyboard.press("/")
    page.keyboard.type("1000")
    page.keyboard.press("Enter")
    _seq(page, 1000)
    for key in "mtedJ":
        before = int(page.locator("#view").get_attribute("data-seq") or 0)
        page.keyboard.press(key)
        expect(page.locator("#view")).not_to_have_attribute("data-seq", str(before))
        assert int(page.locator("#view").get_attribute("data-seq") or 0) > before, key
    for key in "MTEDK":
        before = int(page.locator("#view").get_attribute("data-seq") or 0)
        page.keyboard.press(key)
        expect(page.locator("#view")).not_to_have_attribute("data-seq", str(before))
        assert int(page.locator("#view").get_attribute("data-seq") or 0) < before, key
    page.keyboard.press("c")
    expect(page.locator("#said")).to_have_text("there is none that way")
    for _ in range(page.locator("[data-tab]").count()):
        name = page.locator("[data-tab][aria-current]").get_attribute("data-tab")
        page.keyboard.press("]")
        expect(page.locator("[data-tab][aria-current]")).not_to_have_attribute(
            "data-tab", name or ""
        )
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    for key, path in (("o", "/"), ("i", "/import"), ("h", "/health")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(full + path)


def test_focus_is_always_seen(full: str, tab: Tab) -> None:
    for path in (LONG + "/@1000", "/", "/trajectories"):
        page = tab(full + path)
        for _ in range(14):
            page.keyboard.press("Tab")
            seen = page.evaluate(
                """() => { const at = document.activeElement;
                if (!at || at === document.body) return true;
                const style = getComputedStyle(at), box = at.getBoundingClientRect();
                return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
                  || at.type === 'range' || box.width === 0; }"""
            )
            assert seen, (path, page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))


# ---- tree and notes ------------------------------------------------------------------------


def test_a_person_goes_from_a_run_to_what_it_began_and_back(full: str, tab: Tab) -> None:
    page = tab(f"{full}/t/parent-run")
    page.get_by_role("link", name="2 sub-agents").click()
    expect(page).to_have_url(f"{full}/t/parent-run/tree")
    expect(page.locator(".tree-table tbody tr")).to_have_count(3)
    expect(page.locator(".facts").nth(1)).to_contain_text("150 ")
    page.get_by_role("link", name="second helper").click()
    page.wait_for_url(re.compile(r"/t/helper-2/@\d+$"))
    page.get_by_role("link", name="parent run").click()
    page.wait_for_url(re.compile(r"/t/parent-run/@2$"))


def test_a_person_writes_a_note_where_it_belongs_and_finds_it_again(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@700")
    page.keyboard.press("n")
    expect(page.locator("#note")).to_be_focused()
    page.keyboard.type("this is where it went wrong")
    page.get_by_role("button", name="Add the note").click()
    expect(page).to_have_url(re.compile(r"/@700#act-\d+$"))
    expect(page.locator(".desk")).to_contain_text("1 note at 700: this is where it went wrong")
    page.keyboard.press("j")
    _seq(page, 701)
    expect(page.locator(".desk")).not_to_contain_text("went wrong")
    page.get_by_role("link", name=re.compile("1 note")).click()
    page.locator("#tag").fill("went-wrong")
    page.get_by_role("button", name="Add the tag").click()
    expect(page.locator(".tags")).to_contain_text("went-wrong")
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        page.goto(full + "/trajectories?q=tag:went-wrong")
        if page.locator("table.runs tbody tr").count():
            break
        time.sleep(0.2)
    page.locator("table.runs tbody a").first.click()
    page.wait_for_url(re.compile(r"/t/demo-nightly-build/@\d+"))
    page.goto(full + LONG + "/notes")
    page.get_by_role("link", name="700", exact=True).click()
    _seq(page, 700)
    page.locator(".note-here summary").click()
    page.get_by_role("button", name="Retract").click()
    expect(page.locator(".desk")).not_to_contain_text("1 note at 700")


def test_a_note_needs_no_javascript(full: str, tab: Tab) -> None:
    page = tab(full + LONG + "/@710", java_script_enabled=False)
    page.locator(".note-here summary").click()
    page.locator("#note").fill("written without a script")
    page.get_by_role("button", name="Add the note").click()
    expect(page.locator(".desk")).to_contain_text("written without a script")


def test_a_page_holds_still_while_a_note_is_written(full: str, tab: Tab) -> None:
    with _client(full) as client:
        _owned(client, "writing")
        page = tab(f"{full}/t/writing")
        _seq(page, 2)
        page.keyboard.press("n")
        page.keyboard.type("half a th")
        append(client, note("w1"), name="writing", request_id="w1")  # type: ignore[arg-type]
        time.sleep(1.2)
        _seq(page, 2)
        page.keyboard.type("ought")
        page.get_by_role("button", name="Add the note").click()
        expect(page.locator(".desk")).to_contain_text("1 note at 2: half a thought")


# ---- phone ---------------------------------------------------------------------------------


def test_every_page_fits_a_phone_and_can_be_worked_by_a_finger(full: str, tab: Tab) -> None:
    page = tab(full + "/", width=390, height=844, has_touch=True)
    for path in (
        "/",
        "/trajectories",
        "/trajectories?q=status:failed",
        "/import",
        "/health",
        "/settings/prices",
        "/keys",
        "/t/parent-run/tree",
        LONG + "/notes",
        *(
            f"{LONG}/@700?tab={tab_}"
            for tab_ in ("event", "state", "context", "operations", "budget", "evidence")
        ),
    ):
        page.goto(full + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.evaluate(AXE)
        assert not _violations(page), path
    page.goto(full + "/t/parent-run/@2")
    page.locator(".note-here summary").tap()
    expect(page.locator("#note")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".dock").get_by_role("link", name="Next boundary").tap()
    _seq(page, 3)


# ---- one file to send ----------------------------------------------------------------------


def test_a_boundary_is_sent_as_one_file_that_needs_nothing(
    full: str, tab: Tab, tmp_path: Path
) -> None:
    answer = httpx2.get(f"{full}{LONG}/@700/page.html?tab=state", timeout=30)
    assert answer.status_code == 200
    kept = tmp_path / "boundary.html"
    kept.write_bytes(answer.content)
    page = tab(full + "/keys")
    asked: list[str] = []
    other = page.context.new_page()
    other.on("request", lambda request: asked.append(request.url))
    other.goto(kept.as_uri())
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    text = other.locator("body").inner_text()
    assert "700" in text and "Keep the nightly build green" in text
    assert other.locator("script").count() == 0
    other.evaluate(AXE)
    assert not _violations(other)


def test_a_step_keeps_the_place_and_the_focus_on_a_phone(full: str, tab: Tab) -> None:
    page = tab(f"{full}{LONG}/@700", width=390, height=844)
    # Step, read, step: what the event says stands before the log.
    order = page.evaluate(
        "[...document.querySelectorAll('.c-log > .panel')]"
        ".map(panel => [panel.id, panel.getBoundingClientRect().top])"
    )
    assert min(order, key=lambda pair: pair[1])[0] == "panel"
    page.evaluate("scrollTo(0, 420)")
    forward = page.get_by_label("Next boundary").last
    for seq in (701, 702):
        forward.click()
        _seq(page, seq)
        assert page.evaluate("scrollY") == 420
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Next boundary"
    page.keyboard.press("k")
    _seq(page, 701)
    assert page.evaluate("scrollY") == 420
    # A row of the log leads to what it says, above it.
    page.locator("#e703").click()
    _seq(page, 703)
    expect(page.locator("#panel")).to_be_in_viewport()


def test_the_newest_of_a_conversation_is_in_sight(full: str, tab: Tab) -> None:
    page = tab(f"{full}{LONG}/@700?tab=conversation")
    expect(page.locator("#newest")).to_be_in_viewport()
    page.keyboard.press("m")
    expect(page).to_have_url(re.compile(r"tab=conversation"))
    expect(page.locator("#newest")).to_be_in_viewport()
    page.get_by_role("link", name=re.compile("what was said before")).click()
    expect(page).to_have_url(re.compile(r"before=\d+"))
    expect(page.locator("#view")).to_contain_text("back to")
