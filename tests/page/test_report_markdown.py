"""The view for GitHub: tables and bars of letters, and nothing that acts."""

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


def test_the_report_comes_first_and_the_numbers_after_it(wording):
    text = view_markdown(view(), "Slow at home")
    assert text.startswith("## Slow at home\n")
    assert text.index("### It is slow") < text.index("#### How fast it is") < text.index("#### Memory")
    assert (
        "| Answers | 16.0 tok/s | 12.0 tok/s to 72.0 tok/s | 180 tok/s to 300 tok/s | 1,038 tok/s | 100 tok/s |" in text
    )
    wording(text.splitlines()[-1])


def test_memory_is_a_line_of_letters_as_long_as_the_memory():
    text = view_markdown(view())
    (line,) = [one for one in text.splitlines() if one.startswith("[WWWW") and "!" in one]
    assert len(line) == 50
    assert line.count("W") == round(48 * 18.4 / 26.2)
    assert "  S firefox: 1.3 GiB" in text


def test_curves_are_tables_of_what_was_measured():
    text = view_markdown(view())
    table = text[text.index("#### Speed by depth") : text.index("#### Speed by users")]
    points = view().subjects[0].depth.points
    assert all(f"| {point.at:,.0f} |" in table for point in points if point.measured is not None)


def test_before_and_after():
    assert "| Answers | 16.0 tok/s | 196 tok/s | ×12.20 (10.980 to 13.420) | Faster |" in view_markdown(view())


def test_what_changed_has_a_person_s_words_and_whether_answers_stayed_is_told(wording):
    told = msgspec.structs.replace(
        change(), because="a whole request: ×3.96", changes=("runtime.gpu_layers: 19 → 33",), answers="the same answers"
    )
    text = view_markdown(view(change=told))
    wording(text, about="3.96")
    assert "\nThe same answers.\n" in text
    assert "- layers on the GPU: 19 → 33" in text
    assert "runtime.gpu_layers" not in text


def test_what_is_not_drawn_is_left_out():
    text = view_markdown(bare())
    assert "#### Memory" not in text
    assert "### It is slow" in text


def test_names_can_not_act():
    part = MemoryPart(kind="stranger", name=HOSTILE, bytes=2**30)
    now = WhatIf(settings={}, bars=(MemoryBar(name=HOSTILE, parts=(part,)),), verdict="fits", summary=HOSTILE)
    memory = msgspec.structs.replace(view().subjects[0].memory, now=now)
    hostile = msgspec.structs.replace(subject(), model=HOSTILE)
    text = view_markdown(view(hostile, memory=memory), HOSTILE)
    outside = re.sub(r"^```text\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # in a block, all is text
    assert outside.count("</details>") == outside.count("<details>")
    assert not re.search(r"<img|!\[x\]|```|@me|\| # ", outside)
    assert "\u202e" not in text


def test_html_is_a_format_of_the_diagnosis():
    page = render(view().report, "html", width=80, color=False)
    assert page.startswith("<!doctype html>")
    assert 'id="findings-0"' in page
    assert "look before you share it" in page
    assert "Memory</h3>" not in page
