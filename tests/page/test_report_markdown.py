"""The view as Markdown: tables, bars of letters, escaped names."""

import re
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent / "html"))  # the samples of the page's tests
from page_samples import bare, change, subject, view

from unslow.commands._formats import render
from unslow.page.report import view_markdown
from unslow.page.view import MemoryBar, MemoryPart, WhatIf

HOSTILE = "</details>\n```\n| # @me <img src=x> ![x](http://y) \u202e"


def test_markdown_has_the_report_first_then_the_panels(wording):
    text = view_markdown(view(), "Slow at home")
    assert text.startswith("## Slow at home\n")
    wording(re.findall(r"^###+ .*", text, re.MULTILINE))
    wording(text, about="1,038 tok/s", tells=("16.0 tok/s", "12.0", "72.0 tok/s", "180", "300 tok/s", "100 tok/s"))
    wording(text.splitlines()[-1])


def test_markdown_memory_bar_has_a_letter_per_share():
    text = view_markdown(view())
    (line,) = [one for one in text.splitlines() if one.startswith("[WWWW") and "!" in one]
    assert len(line) == 50
    assert line.count("W") == round(48 * 18.4 / 26.2)
    assert "  S firefox: 1.3 GiB" in text


def test_markdown_curves_are_tables():
    text = view_markdown(view())
    drawn = view().subjects[0]
    table = text[text.index(drawn.depth.because[1:]) : text.index(drawn.users.because[1:])]
    points = drawn.depth.points
    assert all(f"| {point.at:,.0f} |" in table for point in points if point.measured is not None)


def test_markdown_change_table_has_before_after_and_speedup(wording):
    facts = ("16.0 tok/s", "196 tok/s", "10.980", "13.420")
    wording(view_markdown(view()), about="×12.20", tells=facts)


def test_markdown_change_names_settings_by_label_and_states_the_output(wording):
    told = msgspec.structs.replace(
        change(),
        because="a whole request: ×3.96",
        changes=("runtime.placement.gpu_layers: 19 → 33",),
        answers="the same answers",
    )
    text = view_markdown(view(change=told))
    wording(text, about="3.96")
    assert "\nThe same answers.\n" in text
    wording(text, about="19 → 33")
    assert "runtime.placement.gpu_layers" not in text


def test_markdown_omits_missing_panels(wording):
    text = view_markdown(bare())
    wording(re.findall(r"^###+ .*", text, re.MULTILINE))


def test_markdown_escapes_hostile_names():
    part = MemoryPart(kind="stranger", name=HOSTILE, bytes=2**30)
    now = WhatIf(settings={}, bars=(MemoryBar(name=HOSTILE, parts=(part,)),), verdict="fits", summary=HOSTILE)
    memory = msgspec.structs.replace(view().subjects[0].memory, now=now)
    hostile = msgspec.structs.replace(subject(), model=HOSTILE)
    text = view_markdown(view(hostile, memory=memory), HOSTILE)
    outside = re.sub(r"^```text\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # in a block, all is text
    assert outside.count("</details>") == outside.count("<details>")
    assert not re.search(r"<img|!\[x\]|```|@me|\| # ", outside)
    assert "\u202e" not in text


def test_diagnosis_has_an_html_format(wording):
    page = render(view().report, "html", width=80, color=False)
    assert page.startswith("<!doctype html>")
    assert 'id="findings-0"' in page
    wording(re.search(r"<footer><p>(.*?)</p>", page)[1])
    assert 'id="memory-0-title"' not in page
