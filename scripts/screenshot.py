"""Take the README's picture from a running demo: `python scripts/screenshot.py URL`."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).resolve().parent.parent / "docs" / "img" / "trajectory.png"
PAGE = "/t/demo-nightly-build/@{boundary}?tab=state"
BOUNDARY = 61_234


def main(url: str) -> None:
    """One boundary of the long demo trajectory, light, in the README's width."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-background-networking"],
        )
        page = browser.new_page(
            viewport={"width": 1360, "height": 860}, color_scheme="light", device_scale_factor=1
        )
        page.goto(url.rstrip("/") + PAGE.format(boundary=BOUNDARY), wait_until="load")
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
