"""Tool output made to act on whoever looks at it (D 36), in a real browser over a real server.

One line of 50 MB that begins with every trick: terminal colours and a terminal link, characters
that turn text round, a script, attributes of htmx, an image that would report who looked, as HTML
and as Markdown. It is shown inert, its controls by name, cut, with a link to all of its bytes.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator

import httpx2
import pytest
from playwright.sync_api import Page, expect

from core.canonical import sha256
from core.events import registry
from core.events.context import RuntimeInput
from core.events.model_call import ModelReplied
from core.events.tool import ToolIntent, ToolResult
from tests.e2e.test_axe import AXE, _violations
from tests.web.api_world import append, claim, create

Tab = Callable[..., Page]
MEGABYTE = 1_000_000
#: Boundaries of the log, each with the ways in which its page shows the text.
SHOWN = (
    (3, ("", "?raw=1", "?tab=context")),
    (4, ("", "?raw=1", "?tab=operations")),
    (5, ("", "?raw=1")),
    (6, ("", "?raw=1", "?tab=state&all=1", "?tab=evidence")),
)
OPERATION = {"operation_id": "op-1", "attempt_id": "op-1.1"}


class _Beacon:
    """A listener that the output names: whatever reaches it was told."""

    def __init__(self) -> None:
        hits: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hits.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                return

        self.hits = hits
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def beacon(full: str) -> Iterator[_Beacon]:
    """A listener that the log `d36` names in everything it holds."""
    made = _Beacon()
    _record(full, made.url)
    yield made
    made.close()


def _tricks(beacon: str) -> str:
    return (
        "\x1b[31mred\x1b[0m \x1b]8;;" + beacon + "/osc8\x1b\\a link\x1b]8;;\x1b\\ "
        "\x1b]0;title\x07\x1b[2J\x1b[1;1H"
        "start\u202egpj.exe\u202c \u2066isolate\u2069 zero\u200bwidth \x00nul \x08back "
        "<script>window.hit=1</script>"
        f'<img src="{beacon}/img" onerror="window.hit=1">'
        f'<b hx-get="{beacon}/hx" hx-trigger="load" data-hx-get="/import" '
        'hx-on:load="window.hit=1">'
        f'<a href="javascript:window.hit=1">x</a><style>@import "{beacon}/css";</style>'
        f"![beacon]({beacon}/markdown.png) [link]({beacon}/link) "
        f'<iframe src="{beacon}/frame"></iframe><base href="{beacon}/"><meta http-equiv="refresh" '
        f'content="0;url={beacon}/meta">'
    )


def _record(full: str, beacon: str) -> None:
    text = _tricks(beacon)
    whole = text + "A" * (50 * MEGABYTE - len(text))
    large = registry.encode(ToolResult("succeeded", "sender", observation=whole))
    digest = f"sha256:{sha256(large).hex()}"
    with httpx2.Client(base_url=full, timeout=120) as client:
        create(client, "d36")  # type: ignore[arg-type]
        claim(client, "d36", request_id="claim-d36")  # type: ignore[arg-type]
        assert client.put(f"/v1/blobs/{digest}", content=large).status_code in (200, 201)
        small = (
            ("reply", ModelReplied("completed", model="m", text=text), {"invocation_id": "c1"}),
            ("intent", ToolIntent("intent", "bash", None, {"command": text}), OPERATION),
            ("input", RuntimeInput("message", text=text), {}),
        )
        events: list[dict[str, object]] = [
            {
                **_typed(name, type(payload).__name__),
                "payload": json.loads(registry.encode(payload)),
            }
            | ids
            for name, payload, ids in small
        ]
        events.append(
            _typed("result", "ToolResult")
            | OPERATION
            | {"payload_ref": {"digest": digest, "length": len(large)}}
        )
        answer = append(client, *events, name="d36")  # type: ignore[arg-type]
        assert answer.status_code == 201, answer.text[:600]


def _typed(event_id: str, type_: str) -> dict[str, object]:
    version = registry.FAMILIES[type_].version
    return {"event_id": event_id, "type": type_, "schema_version": version}


def test_output_made_to_act_is_inert_visible_and_cut_with_a_way_to_all_of_it(
    full: str, tab: Tab, beacon: _Beacon
) -> None:
    asked: list[str] = []
    for scheme in ("light", "dark"):
        page = tab(full + "/keys", color_scheme=scheme)
        page.on("request", lambda request: asked.append(request.url))
        for seq, queries in SHOWN:
            for query in queries if scheme == "light" else queries[: seq // 6]:
                page.goto(f"{full}/t/d36/@{seq}{query}")
                assert page.evaluate("window.hit") is None, (seq, query)
                assert page.locator("iframe, object, base, main script, main style").count() == 0
                if not query:
                    page.evaluate(AXE)
                    assert not _violations(page), (seq, query)
        page.goto(f"{full}/t/d36/@6")
        shown = page.locator("section.panel .scroll pre").first
        text = shown.inner_text()
        # Visible: names of what would hide or turn round; colours as colours; no link was made.
        assert "<script>window.hit=1</script>" in text and "![beacon](" in text
        assert all(name in text for name in ("\u2039RLO\u203a", "\u2039ZWSP\u203a", "\u2400"))
        assert shown.locator(".a-31").first.inner_text() == "red"
        assert shown.locator("a, img").count() == 0
        assert "\x1b" not in text and "\u202e" not in text
        # Cut, saying of how much, with all of it a link away: as a download, never as a page.
        expect(page.get_by_text("of 50,000,000 characters shown")).to_be_visible()
        assert len(page.content()) < 300_000
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    with page.expect_download() as started:
        page.get_by_role("link", name="the whole").first.click()
    assert started.value.path().stat().st_size > 50 * MEGABYTE
    answer = httpx2.get(f"{full}/v1/trajectories/d36/events/6/payload", timeout=60)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for path in (
        "/",
        "/trajectories",
        "/trajectories?q=text:beacon",
        "/t/d36/notes",
        "/t/d36/tree",
    ):
        page.goto(full + path)
        assert page.evaluate("window.hit") is None, path
    assert not [url for url in asked if not url.startswith((full, "data:", "blob:"))], asked
    assert beacon.hits == []


def test_its_page_at_phone_width_scrolls_its_own_text_and_not_the_page(
    full: str, tab: Tab, beacon: _Beacon
) -> None:
    page = tab(f"{full}/t/d36/@6", width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert beacon.hits == []
