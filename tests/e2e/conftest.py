"""Chromium of the system, a real server with a full and an empty store, and what went wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.require import ROOT, need

#: No sandbox because tests run as root in containers; no traffic that the browser thinks up.
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
]
#: Two cores are shared with the server and other tests; a story waits for what it expects.
expect.set_options(timeout=12_000)
_VIOLATIONS = """
window.__csp = [];
document.addEventListener('securitypolicyviolation', e => {
  window.__csp.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + (e.sample || ''));
});
"""


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {"executable_path": str(need("chromium")), "args": ARGS, "headless": True}


def _serve(folder: str, kind: str) -> Iterator[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.child", folder, kind],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        url = child.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), url
        yield url
    finally:
        child.terminate()
        assert child.wait(timeout=20) == 0
        child.stdout.close()


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server over the demo files, a long trajectory and a hostile one."""
    need("chromium")
    yield from _serve(str(tmp_path_factory.mktemp("full")), "full")


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server over an empty store."""
    need("chromium")
    yield from _serve(str(tmp_path_factory.mktemp("empty")), "empty")


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages that must end without a violation of the policy or an error of a script."""
    contexts: list[BrowserContext] = []
    opened: list[Page] = []
    wrong: list[str] = []

    def open_(url: str, *, width: int = 1440, height: int = 900, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.add_init_script(_VIOLATIONS)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        page.on(
            "console",
            lambda message: (
                wrong.append(f"console: {message.text}")
                if message.type == "error" and "status of 4" not in message.text
                else None
            ),
        )
        page.goto(url)
        opened.append(page)
        return page

    yield open_
    for page in opened:
        wrong += [f"policy: {what}" for what in page.evaluate("window.__csp || []")]
    for context in contexts:
        context.close()
    assert not wrong, wrong
