"""Using the page: copy buttons, themes, keyboard, accessibility."""

import pytest
from real_browser import unfold, violations, watched

from browser.memory_shown import settings_of

FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']"
MARK = f"""() => {{
  const all = [...document.querySelectorAll("{FOCUSABLE}")].filter(
    (one) => !one.disabled && one.checkVisibility({{visibilityProperty: true}}));
  all.forEach((one, place) => {{ one.dataset.place = place; }});
  return all.length;
}}"""
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  const ring = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || style.boxShadow !== "none";
  return [Number(one.dataset.place ?? -1), ring, box.bottom > 0 && box.top < innerHeight];
}"""
INK = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
CLIPBOARD = ["clipboard-read", "clipboard-write"]
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined});"


def commands(subject):
    """Every command of a subject's fixes, those of what follows from a cause too."""
    return {command for found in subject["findings"] for fix in found["fixes"] for command in fix["commands"]}


def test_copy_buttons_copy_the_exact_command(browser, shown):
    with watched(browser, shown.url, permissions=CLIPBOARD) as tab:
        copied = set()
        for button in tab.locator("button.copy:visible").all():
            button.press("Enter")
            tab.locator("#said", has_text="copied").wait_for(state="attached")
            text = tab.evaluate("navigator.clipboard.readText()")
            assert text == button.get_attribute("data-copy")
            assert button.inner_text() == "Copied"
            copied.add(text)
        wanted = commands(shown.get("report")["subjects"][0])
        assert wanted & copied
        text = tab.inner_text("#findings-0")
        assert all(one in copied or (one.startswith("remove ") and one in text) for one in wanted)


def test_copy_button_of_a_slider_answer_works(browser, shown):
    with watched(browser, shown.url, permissions=CLIPBOARD) as tab:
        tab.locator('#memory-0 input[name="gpu_layers"]').press("End")
        tab.wait_for_selector('#answer-0[data-answers="1"]')
        tab.click("#answer-0 button.copy")
        tab.locator("#said", has_text="copied").wait_for(state="attached")
        wanted = shown.get("subjects/0/what-if", **settings_of(tab))["command"]
        assert wanted.startswith("llama-server")
        assert tab.evaluate("navigator.clipboard.readText()") == wanted


def test_copying_works_without_the_clipboard_api(browser, shown):
    with watched(browser, shown.url) as tab:
        tab.add_init_script(NO_CLIPBOARD)
        tab.reload()
        button = tab.locator("#findings-0 button.copy").first
        button.click()
        assert button.inner_text() == "Copied"
        assert tab.evaluate("document.activeElement.className") == "copy"
        tab.evaluate("document.body.append(Object.assign(document.createElement('textarea'), {id: 'here'}))")
        tab.locator("#here").press("ControlOrMeta+V")
        assert tab.input_value("#here") == button.get_attribute("data-copy")


def test_theme_follows_the_system_until_chosen_and_persists(browser, shown):
    with watched(browser, shown.url, color_scheme="light") as tab:
        light = tab.evaluate(INK)
        assert tab.get_attribute("#theme", "aria-pressed") == "false"
        tab.locator("#theme").press("Space")
        dark = tab.evaluate(INK)
        assert dark != light
        assert tab.get_attribute("#theme", "aria-pressed") == "true"
        tab.reload()
        assert tab.evaluate(INK) == dark
    with watched(browser, shown.url, color_scheme="dark") as tab:
        assert tab.evaluate(INK) == dark
        tab.emulate_media(color_scheme="light")
        assert tab.evaluate(INK) == light


def test_tab_key_reaches_every_control_in_page_order(browser, shown):
    with watched(browser, shown.url, reduced_motion="reduce") as tab:  # else it is on its way when it is looked for
        count = tab.evaluate(MARK)
        places, hidden = [], []
        for _ in range(count):
            tab.keyboard.press("Tab")
            place, has_ring, is_seen = tab.evaluate(FOCUSED)
            places.append(place)
            if not (has_ring and is_seen):
                hidden.append(tab.evaluate("document.activeElement.outerHTML.slice(0, 120)"))
        assert places == list(range(count))
        assert hidden == []
        tab.keyboard.press("Shift+Tab")
        assert tab.evaluate(FOCUSED)[0] == count - 2


def test_every_control_works_by_keyboard(browser, shown):
    with watched(browser, shown.url) as tab:
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.className") == "skip"
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.activeElement.id") == "main"
        for key in ("Enter", "Space"):
            folded = tab.locator("#ruled_out-0 details").first
            before = folded.get_attribute("open")
            folded.locator("summary").press(key)
            assert folded.get_attribute("open") != before
        tab.locator('nav.contents a[href="#memory-0"]').press("Enter")
        tab.keyboard.press("Tab")  # on from the panel, not from the top
        assert tab.evaluate("document.activeElement.closest('section').id") == "memory-0"


@pytest.mark.parametrize("how", ["light", "dark", "narrow", "buy"])
def test_page_has_no_serious_accessibility_violations(browser, shown, how):
    options = {"viewport": {"width": 360, "height": 740}} if how == "narrow" else {}
    options |= {"color_scheme": "dark"} if how in ("dark", "narrow") else {}
    url = shown.url + ("&view=buy" if how == "buy" else "")
    with watched(browser, url, bypass_csp=True, **options) as tab:
        if how == "buy":
            tab.click("#devices button[type=submit]")
            tab.wait_for_selector("#devices-answer table", timeout=60_000)
        unfold(tab)
        assert violations(tab) == []
