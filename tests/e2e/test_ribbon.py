"""The ribbon as Chromium lays it out: every text has a place of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

#: Boxes of the texts that are drawn, cut to the picture's own box as the picture cuts them.
_TEXTS = """() => {
  const svg = document.querySelector('#lanes > svg');
  const clip = (box, outer) => ({
    left: Math.max(box.left, outer.left), right: Math.min(box.right, outer.right),
    top: Math.max(box.top, outer.top), bottom: Math.min(box.bottom, outer.bottom),
  });
  return [...svg.querySelectorAll('text')].map(text => {
    let box = clip(text.getBoundingClientRect(), svg.getBoundingClientRect());
    const holder = text.parentNode;
    if (holder !== svg && holder.getAttribute('width'))
      box = clip(box, holder.getBoundingClientRect());
    return { words: text.textContent, ...box };
  }).filter(one => one.words.trim() && one.right - one.left > 1);
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_no_text_of_the_ribbon_lies_on_another(
    full: str, tab: Callable[..., Page], width: int
) -> None:
    page = tab(f"{full}/t/demo-nightly-build/@0", width=width)
    drawn = 0
    for boundary in (0, 1, 60, 61, 119, 120, 121, 500, 1499, 2950, 3000):
        page.goto(f"{full}/t/demo-nightly-build/@{boundary}")
        texts = page.evaluate(_TEXTS)
        drawn += len(texts)
        for number, one in enumerate(texts):
            for other in texts[number + 1 :]:
                across = min(one["right"], other["right"]) - max(one["left"], other["left"])
                down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
                assert across <= 1 or down <= 2, (boundary, one, other)
    assert drawn > 50
