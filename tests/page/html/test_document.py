"""The whole page: complete, inert and without foreign requests."""

import base64
import hashlib
import re
from itertools import pairwise

import msgspec
import pytest
from page_samples import Parsed, bare, moved, page, parsed, subject, view

from unslow.facts.errors import UserError
from unslow.page.html.document import PANEL_NAMES, Serving, Tab, document, frame_page, panel, script, style
from unslow.page.html.markup import Offer, tag
from unslow.page.view import Missing, SubjectView
from unslow.think.report import Evidence, Fix

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202eevil\x1b[31m&amp;"


@pytest.mark.parametrize("shown", [bare(), view(subject(), subject("gpu_thermal_throttling"))])
def test_every_element_is_closed_and_ids_are_unique(shown):
    read = parsed(shown)
    assert not read.broken
    assert not read.open
    inert = re.sub(r"<template.*?</template>", "", document(shown), flags=re.DOTALL)
    ids = [attributes["id"] for _, attributes in Parsed(inert).elements if "id" in attributes]
    assert sorted(ids) == sorted(set(ids))


def test_every_link_and_aria_reference_has_a_target():
    read = parsed(view(subject(), subject("gpu_thermal_throttling")))
    ids = {attributes["id"] for _, attributes in read.elements if "id" in attributes}
    links = [a["href"] for a in read.all("a")]
    named = [a[k] for _, a in read.elements for k in ("aria-labelledby", "aria-describedby", "for") if a.get(k)]
    assert {link for link in links if link.removeprefix("#") not in ids} == set()
    assert {name for names in named for name in names.split() if name not in ids} == set()


def test_headings_skip_no_level():
    levels = [int(name[1]) for name, _ in Parsed(page()).elements if re.fullmatch("h[1-6]", name)]
    assert levels[:2] == [1, 2]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_verdict_comes_first_with_measured_and_expected_speed():
    html = page()
    assert html.index('id="verdict-0"') < html.index('id="speed-0"') < html.index('id="findings-0"')
    head = html[html.index('id="verdict-0"') : html.index('id="speed-0"')]
    assert "Slow</span>" in head
    first = re.search(r"<h2[^>]*>(.*?)</h2>", head)[1]
    assert view().report.subjects[0].summary.startswith(first)
    assert len(re.findall(r"[\d.]*\d", first)) >= 2, "what is measured, and what this hardware should give"


def test_page_has_every_panel():
    read = Parsed(page())
    shown = {a["id"] for a in read.all("section") if "hidden" not in a}
    for name in ("speed", "findings", "memory", "timeline", "roofline", "depth", "users", "change", "checklist"):
        assert f"{name}-0" in shown, name


def test_missing_panel_says_why_and_how_to_get_it(wording):
    html = document(bare())
    wording(re.search(r"<p><b>[^<]*</b>nothing was watched\.", html)[0])
    assert html.count('data-copy="unslow bench"') == 1
    assert Parsed(html).all("section", id="timeline-0")[0].keys() == {"id", "data-panel", "hidden"}
    assert 'href="#timeline-0"' not in html
    assert '<a href="#timeline-0" hidden>' in document(bare(), serving=Serving("", ""))  # until a run fills it


def test_served_page_names_its_button_instead_of_a_command(wording):
    why = {
        "timeline": Missing(why="nothing was watched", how_to_get="unslow http://127.0.0.1:8080"),
        "change": Missing(why="nothing was compared", how_to_get="unslow bench http://127.0.0.1:8080 --compare LAST"),
    }
    shown = msgspec.structs.replace(view(), subjects=(SubjectView(number=0, missing=why),))
    offers = [
        Offer(kind=kind, subject=0, label=label, words="")
        for kind, label in (("diagnose", "Measure again"), ("bench", "Benchmark"))
    ]
    for html in (document(shown, serving=Serving("", ""), offers=offers), panel(shown, 0, "missing", offers)):
        wording(re.findall(r"<p>(How to get it: .*?)</p>", html), tells=("Measure again", "Benchmark"))
        assert "unslow bench" not in html
    several = msgspec.structs.replace(shown, report=view(subject(), subject()).report)
    html = document(several, serving=Serving("", ""), offers=offers)
    assert "ress Benchmark" not in html  # it would compare nothing
    refused = [msgspec.structs.replace(offer, refused="it is busy") for offer in offers]
    assert 'data-copy="unslow bench http' in document(shown, serving=Serving("", ""), offers=refused)


def test_failed_load_lists_no_missing_panels():
    report = msgspec.structs.replace(subject(), verdict="failed")
    failed = msgspec.structs.replace(bare(), report=view(report).report)
    assert Parsed(document(failed)).all("section", id="missing-0")[0].keys() == {"id", "data-panel", "hidden"}


def test_page_has_no_handlers_styles_or_foreign_addresses():
    read = parsed(view(), serving=Serving("n", "t"))
    for name, attributes in read.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("style", "srcset", "ping")], name
        for key in ("src", "href", "action"):
            assert (attributes.get(key) or "#").startswith(("#", "data:,")), (name, attributes)
    assert not re.search(r"https?://|@import|url\((?!#)", style() + script())


def test_file_policy_allows_only_its_own_script_and_style():
    html = page()
    policy = Parsed(html).all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    for name, kind in (("script", "script-src"), ("style", "style-src")):
        inside = re.search(rf"<{name}>(.*?)</{name}>", html, re.DOTALL)
        assert inside
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "unslow-token" not in html.split("<script>")[0]


def test_served_page_has_nonce_and_token():
    read = parsed(view(), serving=Serving("abc", 't"ok'))
    assert read.all("script")[0]["nonce"] == read.all("style")[0]["nonce"] == "abc"
    assert read.all("meta", name="unslow-token")[0]["content"] == 't"ok'
    assert not read.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert not read.all("template")
    assert read.all("aside", id="run")


def test_hostile_names_stay_text():
    hostile = msgspec.structs.replace(
        subject(),
        model=HOSTILE,
        runtime=HOSTILE,
        devices=(HOSTILE,),
        url=HOSTILE,
        summary=f"{HOSTILE}. {HOSTILE}",
        notes=(HOSTILE,),
    )
    finding = msgspec.structs.replace(
        hostile.findings[0],
        because=HOSTILE,
        title=HOSTILE,
        evidence=(Evidence(fact=HOSTILE, value=HOSTILE, reference=HOSTILE, origin=HOSTILE, source=HOSTILE),),
        fixes=(
            Fix(knob=HOSTILE, value=HOSTILE, why=HOSTILE, commands=(HOSTILE, f"in a chat: {HOSTILE}"), risk=HOSTILE),
        ),
    )
    hostile = msgspec.structs.replace(hostile, findings=(finding,))
    shown = view(hostile, hostile)
    machine = {"cpu": HOSTILE, HOSTILE: 1}
    html = document(msgspec.structs.replace(shown, machine=machine, taken_at=HOSTILE), title=HOSTILE)
    read = Parsed(html)
    assert not read.broken
    assert len(read.all("script")) == 1
    assert not read.all("img")
    assert not [a for _, a in read.elements if "onerror" in a]
    assert "\u202e" not in html
    assert "\x1b" not in html
    assert any(a["data-copy"].startswith("</script>") for a in read.all("button", class_="copy"))


def test_several_subjects_are_linked_from_the_top():
    read = parsed(view(subject(), subject("gpu_thermal_throttling")))
    assert [a["href"] for a in read.all("a") if (a["href"] or "").startswith("#verdict-")] == [
        "#verdict-0",
        "#verdict-1",
    ]
    assert [a["data-subject"] for a in read.all("article")] == ["0", "1"]
    alike = [msgspec.structs.replace(subject(), url=f"http://127.0.0.1:{port}") for port in (8080, 8081)]
    assert {" 127.0.0.1:8080", " 127.0.0.1:8081"} <= set(parsed(view(*alike)).texts)  # one model, two servers
    assert not [a for a in Parsed(page()).all("nav") if a.get("class") == "switch"]


def test_panel_fragment_equals_the_panel_on_the_page(wording):
    shown = view()
    html = document(shown)
    for name in PANEL_NAMES:
        made = panel(shown, 0, name)
        assert f'id="{name}-0"' in made.split(">", 1)[0]
        assert made in html
    for number, name, fact in ((0, "nope", "'nope'"), (7, "speed", "7")):
        with pytest.raises(UserError) as refused:
            panel(shown, number, name)
        wording(refused.value.message, refused.value.hint, tells=fact)


def test_file_has_a_template_per_slider_answer():
    read = Parsed(page())
    kept = [(a["data-knob"], a["data-value"]) for a in read.all("template")]
    assert kept == [("context", "8192"), ("context", "4096"), ("gpu_layers", "60")]
    both = moved("context", "8192")
    both = msgspec.structs.replace(both, settings={**both.settings, "gpu_layers": "1"})
    shown = view()
    memory = msgspec.structs.replace(shown.subjects[0].memory, ready=(both,))
    assert not parsed(view(memory=memory)).all("template")


def test_file_without_answers_has_no_sliders():
    shown = view()
    memory = msgspec.structs.replace(shown.subjects[0].memory, ready=())
    assert not parsed(view(memory=memory)).all("form")
    assert parsed(view(memory=memory), serving=Serving("n", "t")).all("form")


def test_footer_says_whether_the_page_is_masked(wording):
    for masked in (True, False):
        html = document(msgspec.structs.replace(view(), masked=masked))
        wording(re.search(r"<footer><p>(.*?)</p>", html)[1])


def test_header_has_the_machine_in_one_line():
    html = page()
    assert "2 x H200 · 64.0 GiB RAM · 2026-01-02 03:04 UTC" in html


def test_run_buttons_say_what_they_send():
    offers = [
        Offer(kind="diagnose", subject=0, label="Measure again", words="about 20 prompts to :8080"),
        Offer(kind="bench", subject=0, label="Benchmark", words="", refused="it is busy"),
        Offer(kind="bench", subject=1, label="Benchmark", words="to another"),
    ]
    read = parsed(view(), serving=Serving("n", "t"), offers=offers)
    again, bench = read.all("button", class_="start")
    assert (again["data-run"], again["data-subject"], "disabled" in again) == ("diagnose", "0", False)
    assert "disabled" in bench
    assert {offers[0].words, offers[1].refused} <= set(read.texts)
    assert offers[2].words not in read.texts


def test_page_without_subjects_says_so(wording):
    report = msgspec.structs.replace(view().report, subjects=())
    html = document(msgspec.structs.replace(view(), report=report, subjects=()))
    wording(re.search(r'<p class="empty">(.*?)</p>', html)[1])
    assert not Parsed(html).broken


def test_current_tab_is_marked():
    html = frame_page(
        "What to buy", tag("p", "x"), tabs=(Tab("Diagnosis", "./"), Tab("Buy", "./?view=buy", current=True))
    )
    assert [a.get("aria-current") for a in Parsed(html).all("a")][1:] == [None, "page"]
