"""Text from a server must not send escape sequences to the terminal."""

import json

from cases import gpu_case, with_facts

from unslow.commands._formats import render
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import Report


def shown(name: str) -> str:
    report = Report(
        unslow_version="0", machine={}, subjects=(judge(CaseView(with_facts(gpu_case(), {"model.name": name}))),)
    )
    return render(report, "terminal", width=80, color=False)


def test_escape_sequences_and_direction_marks_are_removed():
    text = shown("evil\x1b]0;title\x07\u202ename")
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_markup_in_a_model_name_is_shown_literally():
    assert "[/]" in shown("a[/]b")
    assert "[instruct]" in shown("a[instruct]b")


def test_megabyte_long_name_is_cut():
    assert len(shown("x" * 3_000_000)) < 20_000


def test_json_escapes_control_characters_and_decodes_to_the_same_name():
    name = "evil\x1b]0;t\x07 \x9b2J\u202e\x7f ü"
    report = Report(
        unslow_version="0", machine={}, subjects=(judge(CaseView(with_facts(gpu_case(), {"model.name": name}))),)
    )
    text = render(report, "json", width=80, color=False)
    assert not set("\x1b\x07\x9b\u202e\x7f") & set(text)
    assert "ü" in text
    assert name in json.loads(text)["subjects"][0]["model"]
