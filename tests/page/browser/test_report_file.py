"""The file of `unslow report` opened from disk: no requests, and the same slider answers as the server."""

import re

import pytest
from real_browser import sideways, unfold, violations, watched

from browser.memory_shown import label_of, sentence_of, settings_of, words_of

LARGEST_BYTES = 6_000_000
KNOBS = ("context", "gpu_layers", "kv_type", "quant", "slots")


def test_report_file_is_small_masked_and_without_foreign_addresses(file):
    text = file.read_text()
    assert len(text.encode()) < LARGEST_BYTES
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "public addresses are masked" in text


def test_report_file_opens_from_disk_with_every_panel(browser, file):
    with watched(browser, file.as_uri()) as tab:
        for name in ("verdict", "speed", "findings", "memory", "timeline", "roofline", "depth", "users"):
            assert tab.locator(f"#{name}-0").is_visible(), name
        assert tab.locator("button.start, #run").count() == 0
        assert tab.locator("#theme").is_visible()


def test_report_file_sliders_show_the_answers_of_the_server(browser, file, shown):
    with watched(browser, file.as_uri()) as tab:
        for knob in KNOBS:
            slider = tab.locator(f'#memory-0 input[name="{knob}"]')
            for key in ("Home", "End", "ArrowLeft"):
                slider.press(key)
                value = settings_of(tab)[knob]
                wanted = shown.get("subjects/0/what-if", **{knob: value})
                assert words_of(wanted).casefold() in sentence_of(tab).casefold()
                assert slider.get_attribute("aria-valuetext") == label_of(slider)


def test_report_file_has_an_answer_for_every_single_slider_value(browser, file):
    with watched(browser, file.as_uri()) as tab:
        before = sentence_of(tab)
        for knob in KNOBS:
            slider = tab.locator(f'#memory-0 input[name="{knob}"]')
            slider.press("Home")
            for _ in range(int(slider.get_attribute("max"))):
                tab.keyboard.press("ArrowRight")
            assert tab.locator("#answer-0 .error").count() == 0, knob
        tab.locator("#memory-0 .back").press("Enter")
        assert sentence_of(tab) == before


def test_report_file_is_readable_without_javascript_and_on_a_phone(browser, file):
    with watched(browser, file.as_uri(), java_script_enabled=False, viewport={"width": 360, "height": 740}) as tab:
        for name in ("verdict", "findings", "memory", "timeline"):
            assert tab.locator(f"#{name}-0").is_visible(), name
        assert tab.locator("#memory-0 svg.drawing:visible").count() == 1
        assert tab.locator("form:visible, button:visible").count() == 0  # what would not work is not there
        tab.locator("#ruled_out-0 summary").first.click()
        assert tab.locator("#ruled_out-0 dl").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_file_has_no_serious_accessibility_violations(browser, file, scheme):
    width = 1280 if scheme == "light" else 360
    with watched(
        browser, file.as_uri(), bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 800}
    ) as tab:
        unfold(tab)
        assert sideways(tab) <= 0
        assert violations(tab) == []
