"""Every page, empty and full, light and dark, without a violation that axe can find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from playwright.sync_api import Page

from tests.require import ROOT

AXE = (ROOT / "tests" / "vendor" / "axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LONG = "/t/demo-nightly-build/@1000"
EMPTY = (
    "/",
    "/trajectories",
    "/import",
    "/health",
    "/settings/prices",
    "/keys",
    "/docs/errors",
    "/nope",
)
FULL = (
    *EMPTY,
    "/trajectories?status=FAILED&standing=imported",
    "/trajectories?q=nothing+like+it",
    "/trajectories?q=cost%3Acheap+text%3Aerror+-status%3Afailed&cols=title,tags,unknown,in_doubt",
    "/trajectories/compare?id=hostile&id=only-begun",
    "/find",
    "/find?text=line",
    "/docs/errors/fenced",
    LONG + "?raw=1",
    LONG + "?by=time&rows=200",
    LONG + "?tab=state",
    LONG + "?tab=state&all=1",
    LONG + "?tab=state&vs=900",
    LONG + "?tab=evidence",
    LONG + "?tab=context",
    LONG + "?tab=context&ctx=repeated&find=timeout",
    LONG + "?tab=operations&only=errors,tools",
    LONG + "?tab=budget&zoom=1-2000",
    "/t/hostile/@9?tab=context",
    "/t/hostile/@9?tab=operations&find=red",
    "/t/hostile/@9?tab=budget",
    "/t/demo-nightly-build/@0",
    "/t/only-begun/@1?tab=state",
    "/t/parent-run/tree",
    "/t/only-begun/tree",
    "/t/hostile/notes",
    *(f"/t/hostile/@{seq}" for seq in (1, 2, 3, 8)),
    "/t/hostile/@9?tab=state&all=1",
    "/t/hostile/@9?tab=evidence",
    "/t/hostile/go?q=nonsense&from=4",
)
Scheme = Literal["light", "dark"]


def _violations(page: Page) -> list[str]:
    found: list[dict[str, Any]] = page.evaluate(
        "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
        ".then(r => r.violations)",
        RULES,
    )
    return [
        f"{one['id']}: {node['html'][:140]} {node['failureSummary'][:200]}"
        for one in found
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["empty", "full"])
def test_no_page_has_a_violation(
    request: pytest.FixtureRequest, tab: Callable[..., Page], kind: str, scheme: Scheme
) -> None:
    url: str = request.getfixturevalue(kind)
    page = tab(url + "/", color_scheme=scheme)
    wrong: dict[str, list[str]] = {}
    for path in EMPTY if kind == "empty" else FULL:
        page.goto(url + path)
        page.evaluate(AXE)
        found = _violations(page)
        if found:
            wrong[path] = found
    assert not wrong, "\n".join(f"{path}\n  " + "\n  ".join(lines) for path, lines in wrong.items())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_violation_at_phone_width(
    full: str, tab: Callable[..., Page], scheme: Scheme
) -> None:
    page = tab(full + "/", width=390, height=844, color_scheme=scheme)
    for path in (
        "/",
        "/trajectories?q=cost%3Ax+text%3Aline",
        "/find?text=line",
        "/import",
        LONG + "?tab=state&all=1",
        LONG,
    ):
        page.goto(full + path)
        page.evaluate(AXE)
        assert not _violations(page), path


def test_the_list_of_keys_has_no_violation(full: str, tab: Callable[..., Page]) -> None:
    page = tab(full + LONG)
    page.keyboard.press("?")
    page.evaluate(AXE)
    assert not _violations(page)
