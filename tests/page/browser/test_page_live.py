"""A run that the page starts: its progress, the timeline that grows, the result; and a stop."""

import pytest
from real_browser import sideways, violations, watched

from browser.served import served
from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.system.live import LiveSystem

PATIENCE_MS = 90_000
PHONE = {"width": 360, "height": 740}
WATCH = """() => {
  window.seen = [];
  const note = () => {
    const share = document.getElementById("run-share");
    window.seen.push([document.getElementById("run-text").textContent, share.value]);
  };
  new MutationObserver(note).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""
"""Notes the words and the bar whenever something changes."""
LONG = "Number(document.querySelector('#timeline-0 figcaption')?.textContent.match(/Sampled for (\\d+) s/)?.[1] ?? 0)"
"""The seconds that the timeline shows."""
ENDED = "#run-close:not([hidden])"


def run_to_its_end(tab, kind):
    """Start a run by key and wait until it is over: what was seen on the way."""
    tab.evaluate(WATCH)
    tab.locator(f'button[data-run="{kind}"]').press("Enter")
    tab.wait_for_selector(ENDED, timeout=PATIENCE_MS)
    return [tuple(one) for one in tab.evaluate("window.seen")]


def test_diagnosis_shows_progress_and_then_its_result(browser, live):
    with watched(browser, live.url) as tab:
        offer = live.get("offers")[0]
        assert tab.locator("#offer-0-diagnose").inner_text() == offer["words"]
        seen = run_to_its_end(tab, "diagnose")
        assert any(
            "tokens in all to http://127.0.0.1" in one for one in tab.locator("#run-remarks li").all_inner_texts()
        )
        texts, shares = {text for text, _ in seen}, [share for _, share in seen]
        assert len(texts) > 3
        assert len(set(shares)) > 3
        assert shares == sorted(shares)  # it never goes back
        subject = live.get("report")["subjects"][0]
        assert subject["summary"].startswith(tab.inner_text("#run-text"))
        assert len(tab.inner_text("#run-text")) > 20
        assert f"{subject['measured']['decode_tokens_per_s']:.0f}" in tab.inner_text("#speed-0")
        assert tab.locator("#timeline-0 svg.drawing:visible").count() == 1
        ways = {way.get_attribute("href") for way in tab.locator("nav.contents a:visible").all()}
        assert ways == {
            f"#{one.get_attribute('id')}" for one in tab.locator(".panels section[data-panel]:visible").all()
        }
        assert tab.locator('button[data-run="diagnose"]').inner_text() == "Measure again"
        assert tab.locator("button.start:disabled").count() == 0
        tab.click("#run-close")
        assert tab.locator("#run").is_hidden()


def test_timeline_grows_and_a_second_window_can_stop_the_run(browser, live):
    with watched(browser, live.url) as tab, watched(browser, live.url, viewport=PHONE) as other:
        tab.locator('button[data-run="users"]').press("Enter")
        tab.wait_for_selector("#run-remarks li")
        assert tab.locator("button.start:enabled").count() == 0
        lengths = {tab.evaluate(LONG)}  # of an earlier run, perhaps
        while len(lengths) < 4 and tab.locator(ENDED).count() == 0:
            tab.wait_for_timeout(200)
            lengths.add(tab.evaluate(LONG))
        assert len(lengths) == 4
        other.reload()
        other.wait_for_selector("#run:not([hidden])")
        assert other.locator("button.start:enabled").count() == 0
        assert sideways(other) <= 0
        other.locator("#run-stop").press("Space")
        for one in (tab, other):
            one.wait_for_selector(ENDED, timeout=PATIENCE_MS)
            assert one.locator("#run.failed").count() == 0
        assert live.get("runs")[-1]["state"] == "stopped"


def test_cached_chat_in_the_only_slot_is_evicted_only_by_measure_anyway(browser, tmp_path):
    model = str(ModelCache(tmp_path).model("tiny"))
    with start_engine(LiveSystem(), model, settings={"slots": 1}) as engine:
        LiveSystem().request("POST", f"{engine.url}/completion", {"prompt": "Hello", "n_predict": 4}, timeout_s=30)
        with served(engine.url, "--seconds", "5", data=tmp_path) as page, watched(browser, page.url) as tab:
            tab.wait_for_selector("#verdict-0")  # the first look is over
            run_to_its_end(tab, "diagnose")
            assert "observing only" in tab.inner_text("#run-remarks")
            assert "--evict" not in tab.inner_text("#run")  # nobody gave a command here
            assert "decode_tokens_per_s" not in page.get("report")["subjects"][0]["measured"]
            assert "evicts one conversation's prompt cache" in tab.inner_text("#run-anyway-words")
            tab.locator("#run-anyway").press("Enter")
            tab.wait_for_selector("#run-anyway", state="hidden")
            tab.wait_for_selector(ENDED, timeout=PATIENCE_MS)
            assert page.get("report")["subjects"][0]["measured"]["decode_tokens_per_s"] > 0
            assert tab.locator("#run-anyway").is_hidden()
            assert violations(tab) == []


@pytest.mark.real
def test_page_measures_the_embedded_engine(browser, tmp_path):
    with served("--quick", "--model", "tiny", data=tmp_path) as alone:
        if alone.get("report")["subjects"]:
            pytest.skip("something runs on this machine already")
        with watched(browser, alone.url) as tab:
            tab.locator('button[data-run="diagnose"]').press("Enter")
            tab.wait_for_selector("#verdict-0", timeout=PATIENCE_MS)
            assert alone.get("report")["subjects"][0]["measured"]["decode_tokens_per_s"] > 0
            assert "tok/s" in tab.inner_text("#verdict-0")
            assert tab.locator("#timeline-0 svg.drawing:visible").count() == 1
            run_to_its_end(tab, "bench")
            assert violations(tab) == []
