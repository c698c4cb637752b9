"""Opening the page of a real server: what it shows, and that it loads nothing else."""

import time

import pytest
from real_browser import Watched, sideways, unfold, watched

from browser.served import MACHINE, served

PANELS = ("speed", "findings", "budget", "memory", "timeline", "roofline", "depth", "users", "change", "checklist")
PHONE = {"width": 360, "height": 740}


def test_page_opens_with_its_verdict_and_every_panel(browser, shown):
    subject = shown.get("report")["subjects"][0]
    with watched(browser, shown.url) as tab:
        assert subject["summary"].split()[0] in tab.inner_text("#verdict-0")
        for name in PANELS:
            assert tab.locator(f"#{name}-0").is_visible(), name
        assert tab.locator("#timeline-0 svg.drawing:visible").count() == 1
        for way in tab.locator("nav.contents a:visible").all():
            assert tab.locator(way.get_attribute("href")).is_visible()
        assert tab.locator("#run").is_hidden()


def test_page_loads_only_itself_and_its_api(browser, shown):
    seen = Watched(browser)
    seen.tab.goto(shown.url)
    seen.tab.wait_for_load_state("networkidle")
    seen.context.close()
    first, *more = seen.asked
    assert first == shown.url
    assert all(url.startswith(f"{shown.base}/api/v1/") for url in more)
    assert not any(shown.token in url for url in more)
    assert seen.wrong == []


def test_page_opens_by_localhost_too(browser, shown):
    with watched(browser, shown.url.replace("127.0.0.1", "localhost")) as tab:
        tab.locator('#memory-0 input[name="context"]').press("Home")
        tab.wait_for_selector('#answer-0[data-answers="1"]')
        assert tab.locator("#answer-0 .error").count() == 0


def test_ticket_url_opens_the_page_once(browser, tmp_path):
    told = tmp_path / "told"
    way = {"DISPLAY": ":0", "BROWSER": f"sh -c 'echo \"$0\" > {told}' %s", "SSH_CONNECTION": "", "SSH_TTY": ""}
    with served(MACHINE, data=tmp_path, **way) as page, watched(browser, "about:blank") as tab:
        url = waited_for(told)
        assert page.token not in url  # every user of the machine can read the command line of a browser
        tab.goto(url)
        assert tab.url == page.url
        tab.wait_for_selector("#verdict-0")
        seen = Watched(browser)
        assert seen.tab.goto(url).status == 401
        seen.context.close()


def waited_for(file, seconds=20):
    """What is written there, as soon as it is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (file.exists() and file.read_text().strip()):
        time.sleep(0.05)
    return file.read_text().strip()


def test_page_does_not_scroll_sideways_on_a_phone(browser, shown):
    with watched(browser, shown.url, viewport=PHONE) as tab:
        unfold(tab)
        for width in (360, 320):  # the second as at four times the size on a state
            tab.set_viewport_size({**PHONE, "width": width})
            assert sideways(tab) <= 0
        smallest = "Math.min(...[...document.querySelectorAll('button, input, summary')].filter((one) => "
        smallest += "one.checkVisibility()).map((one) => one.getBoundingClientRect().height))"
        assert tab.evaluate(smallest) >= 16  # a finger finds it


def test_buyer_tab_opens_by_keyboard_and_fits_a_phone(browser, shown):
    with watched(browser, shown.url, viewport=PHONE) as tab:
        with tab.expect_navigation():
            tab.locator("nav.tabs a", has_text="What to buy").press("Enter")
        assert tab.locator("form[data-ask]").count() == 4
        tab.fill("#tiers-memory", "8")
        tab.locator("#tiers-memory").press("Enter")
        tab.wait_for_selector("#tiers-answer table", timeout=60_000)
        unfold(tab)
        assert sideways(tab) <= 0


@pytest.mark.real
def test_buyer_form_shows_its_answer(browser, shown):
    with watched(browser, f"{shown.url}&view=buy") as tab:
        for name in ("choose", "devices", "cost", "tiers"):
            tab.click(f"#{name} button[type=submit]")
            tab.wait_for_selector(f"#{name}-answer table", timeout=60_000)
            assert tab.locator(f"#{name}-answer .error").count() == 0
            assert tab.evaluate("document.activeElement.type") == "submit"


def test_invalid_buyer_form_shows_the_error(browser, shown):
    seen = Watched(browser)
    seen.tab.goto(f"{shown.url}&view=buy")
    seen.tab.fill("#devices-model", "no-such-model-at-all")
    seen.tab.locator("#devices-model").press("Enter")
    said = seen.tab.locator("#devices-answer .error[role=alert]").inner_text()
    assert "no-such-model-at-all" in said
    assert seen.left == []
    seen.context.close()
