"""Every slider moved by keys: what the page then shows is what the server answers to a program."""

import msgspec
from real_browser import Watched, watched
from recorded_machines import MACHINES, recorded

from browser.memory_shown import assert_shows, label_of, sentence_of, settings_of, words_of
from browser.served import served
from unslow.facts.snapshot import dump_snapshot

KNOBS = ("context", "gpu_layers", "kv_type", "quant", "slots")


def answers(tab):
    return int(tab.get_attribute("#answer-0", "data-answers") or 0)


def move(tab, slider, key):
    """Press a key and wait for the answer; nothing is asked where the slider stays."""
    before, place = answers(tab), slider.input_value()
    slider.press(key)
    if slider.input_value() != place:
        tab.wait_for_selector(f'#answer-0[data-answers="{before + 1}"]', timeout=10_000)


def test_sliders_show_the_answer_of_the_server(browser, shown):
    with watched(browser, shown.url) as tab:
        first, before = settings_of(tab), sentence_of(tab)
        assert tuple(first) == KNOBS
        assert_shows(tab, shown.get("subjects/0/what-if"))
        for knob in KNOBS:  # each goes on from where the others stand
            slider = tab.locator(f'#memory-0 input[name="{knob}"]')
            seen = set()
            for key in ("Home", "End", "ArrowLeft"):
                move(tab, slider, key)
                assert slider.get_attribute("aria-valuetext") == label_of(slider)
                assert tab.locator(f'output[for="memory-0-{knob}"]').inner_text() == label_of(slider)
                assert_shows(tab, shown.get("subjects/0/what-if", **settings_of(tab)))
                seen.add(tab.inner_text("#answer-0"))
            assert len(seen) > 1, knob
            assert tab.evaluate("document.activeElement.name") == knob  # the answer takes no focus away
        said = answers(tab)
        tab.locator("#memory-0 .back").press("Enter")
        tab.wait_for_selector(f'#answer-0[data-answers="{said + 1}"]')
        assert (settings_of(tab), sentence_of(tab)) == (first, before)


def test_rapid_slider_moves_show_only_the_last_answer(browser, shown):
    with watched(browser, shown.url) as tab:
        slider = tab.locator('#memory-0 input[name="gpu_layers"]')
        slider.press("Home")
        for _ in range(30):
            tab.keyboard.press("ArrowRight")
        wanted = shown.get("subjects/0/what-if", **settings_of(tab))
        tab.locator("#answer-0 .fits", has_text=words_of(wanted)).wait_for()
        tab.wait_for_load_state("networkidle")
        assert_shows(tab, wanted)
        assert 2 <= answers(tab) <= 31  # on the way too, and never more than there were questions
        tab.locator("#said", has_text=words_of(wanted)).wait_for(state="attached")


def test_each_subject_has_its_own_sliders(browser, tmp_path):
    first, second = (recorded(MACHINES / name) for name in ("h200_llama_server_ngl_28", "h200_llama_server_healthy_8b"))
    both = msgspec.structs.replace(first, subjects=(*first.subjects, *second.subjects))
    file = tmp_path / "both.json"
    file.write_bytes(dump_snapshot(both))
    with served(str(file), data=tmp_path) as page, watched(browser, page.url) as tab:
        tab.locator('nav.switch a[href="#verdict-1"]').press("Enter")
        before = tab.inner_text("#answer-0"), tab.inner_text("#answer-1")
        tab.locator('#memory-1 input[name="context"]').press("Home")
        tab.wait_for_selector('#answer-1[data-answers="1"]')
        assert tab.inner_text("#answer-0") == before[0]
        assert tab.inner_text("#answer-1") != before[1]
        ids = tab.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))


def test_slider_reports_an_unreachable_server(browser, shown):
    seen = Watched(browser)
    tab = seen.tab
    tab.goto(shown.url)
    before = sentence_of(tab)
    tab.route("**/what-if.html?**", lambda route: route.abort("connectionrefused"))
    tab.locator('#memory-0 input[name="context"]').press("Home")
    assert "is unslow serve still running?" in tab.locator("#answer-0 .error[role=alert]").inner_text()
    assert sentence_of(tab) == before
    assert all("ERR_CONNECTION_REFUSED" in said for said in seen.wrong)  # the browser's own words, no other
    seen.context.close()
