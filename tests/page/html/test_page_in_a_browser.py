"""The file in a real Chromium, opened from disk: sliders, copying, themes, keys, narrow screens, no script at all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_samples import subject, view
from real_browser import chromium, unfold, violations, watched

from unslow.page.html.document import document

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page") / "report.html"
    place.write_text(document(view(subject(), subject("gpu_thermal_throttling"))))
    return place


def test_file_opens_from_disk_without_requests(browser, file):
    with watched(browser, file.as_uri()) as page:
        assert page.locator("h2").first.is_visible()
        assert page.locator("#findings-0 .command").count() == page.locator("#findings-0 .copy").count()


def test_slider_shows_the_stored_answer(browser, file):
    with watched(browser, file.as_uri()) as page:
        context, layers = (
            page.locator('#memory-0 input[name="context"]'),
            page.locator('#memory-0 input[name="gpu_layers"]'),
        )
        context.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert "Fits with context at 8192" in page.locator("#answer-0").inner_text()
        assert context.get_attribute("aria-valuetext") == "8,192 tokens"
        layers.evaluate("(one) => { one.value = 60; one.dispatchEvent(new Event('input', {bubbles: true})); }")
        assert "Fits with gpu_layers at 60" in page.locator("#answer-0").inner_text()
        assert context.get_attribute("aria-valuetext") == "32,768 tokens"
        page.locator("#memory-0 .back").click()
        assert "1.1 GiB too little" in page.locator("#answer-0").inner_text()


def test_copy_button_copies_and_announces_it(browser, file):
    with watched(browser, file.as_uri(), permissions=["clipboard-read", "clipboard-write"]) as page:
        button = page.locator("#answer-0 .copy")
        button.click()
        assert page.evaluate("navigator.clipboard.readText()") == "llama-server -m model.gguf -c 32768 -ngl 65"
        page.locator("#said", has_text="copied").wait_for(state="attached")
        assert button.inner_text() == "Copied"


def test_theme_follows_the_system_until_chosen_and_persists(browser, file):
    with watched(browser, file.as_uri(), color_scheme="dark") as page:
        colour = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(colour)
        assert page.locator("#theme").get_attribute("aria-pressed") == "true"
        page.locator("#theme").click()
        light = page.evaluate(colour)
        page.reload()
        assert light != dark
        assert page.evaluate(colour) == light


@pytest.mark.parametrize("width", [320, 360, 700, 1280])
def test_file_does_not_scroll_sideways(browser, file, width):
    with watched(browser, file.as_uri(), viewport={"width": width, "height": 800}) as page:
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_control_is_reachable_by_keyboard(browser, file):
    with watched(browser, file.as_uri()) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        reached = set()
        for _ in range(120):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate(
                    "document.activeElement.className || document.activeElement.name || document.activeElement.tagName"
                )
            )
        assert {"copy", "context", "gpu_layers", "SUMMARY"} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_file_has_no_serious_accessibility_violations(browser, file, scheme):
    with watched(browser, file.as_uri(), color_scheme=scheme, bypass_csp=True) as page:
        assert violations(page) == []


def test_file_is_readable_without_javascript(browser, file):
    with watched(browser, file.as_uri(), java_script_enabled=False) as page:
        assert page.locator("#findings-0").is_visible()
        assert page.locator("#memory-0 figure").is_visible()
        assert not page.locator("#memory-0 form").is_visible()
        assert not page.locator(".copy").first.is_visible()
        page.locator("#ruled_out-0 summary").click()
        assert page.locator("#ruled_out-0 dl").is_visible()


def test_print_hides_the_buttons(browser, file):
    with watched(browser, file.as_uri(), color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator(".copy").first.is_visible()
        assert not page.locator("#theme").is_visible()
