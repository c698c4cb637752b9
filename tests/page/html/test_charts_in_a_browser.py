"""Charts as a real browser draws them, with the fonts that are there: nothing on top of each other, nothing cut off."""

from collections.abc import Iterator

import pytest
from real_browser import chromium
from tests.page.html.test_charts_stay_inside import SAMPLES

from unslow.page.html.document import style

pytestmark = pytest.mark.real

WORDS_ON_WORDS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg.drawing")) {
    if (!svg.getBoundingClientRect().width) continue;
    const whole = svg.viewBox.baseVal;
    const words = [...svg.querySelectorAll("text:not([transform])")].map((text) => [text.textContent, text.getBBox()]);
    words.forEach(([said, box], place) => {
      const right = box.x + box.width, foot = box.y + box.height;
      if (box.x < -1 || right > whole.width + 1 || foot > whole.height + 3) found.push([said]);
      for (const [other, its] of words.slice(place + 1)) {
        const across = box.x < its.x + its.width && its.x < box.x + box.width;
        if (across && box.y + 6 < its.y + its.height && its.y + 6 < box.y + box.height) found.push([said, other]);
      }
    });
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("wide", [1280, 600, 360])
@pytest.mark.parametrize("name", SAMPLES)
def test_chart_labels_do_not_overlap_at_any_width(browser, name, wide):
    page = browser.new_page(viewport={"width": wide, "height": 800})
    page.set_content(f"<!doctype html><style>{style()}</style><main>{SAMPLES[name]()}</main>")
    assert page.evaluate(WORDS_ON_WORDS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    shown = "[...document.querySelectorAll('svg.drawing')].filter((one) => one.getBoundingClientRect().width).length"
    assert page.evaluate(shown) == 1
    page.close()


@pytest.mark.parametrize("name", SAMPLES)
def test_chart_labels_are_readable_on_a_phone(browser, name):
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.set_content(f"<!doctype html><style>{style()}</style><main>{SAMPLES[name]()}</main>")
    smallest = """() => Math.min(...[...document.querySelectorAll("svg.drawing.narrow text")].map(
        (text) => parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"""
    assert page.evaluate(smallest) >= 10
    page.close()
