"""Quotes of a user's text are short and never cut within a word."""

import pytest
from told import pasted, says

from unslow.facts.account import Topic
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.judge.subject import LONGEST, excerpt, with_quotes
from unslow.think.report import Untold

LONG = (
    "I run qwen3:14b on a 3090 with the newest drivers and 64 GB of RAM, speed is fine, 58 t/s, but it thinks for ages"
)


def test_short_text_is_quoted_whole():
    assert excerpt("it is  slow\n") == "it is slow"


@pytest.mark.parametrize(("start", "end"), [(0, 0), (50, 60), (len(LONG) - 9, len(LONG)), (len(LONG), len(LONG) + 90)])
def test_excerpt_ends_at_word_boundaries(start, end):
    short = excerpt(LONG, start, end)
    assert len(short) <= LONGEST + 4
    assert set(short.strip("… ").split()) <= {word.strip(",") for word in LONG.split()} | set(LONG.split())


def test_single_very_long_word_is_cut():
    assert len(excerpt("x" * 5000)) <= LONGEST + 4


def test_report_quotes_the_relevant_words_with_their_line():
    case = pasted(says(Topic.LONG_THINKING, LONG), runtime={"name": "Ollama"})
    (finding,) = [f for f in judge(CaseView(case)).findings if f.cause == "answer_is_mostly_thinking"]
    assert "thinks for ages" in finding.because
    assert "I run qwen3" not in finding.because
    assert "(paste:3)" in finding.because
    assert all("I run qwen3" not in str(item.value) for item in finding.evidence)


def test_suspicions_are_quoted_briefly():
    case = pasted(says(Topic.SWAPPING, LONG))
    report = judge(CaseView(pasted()))
    item = Untold(cause="swapping", missing="x", because=f"it swaps: {LONG}", how_to_get="", suspected=True)
    changed = type(report)(
        **{name: getattr(report, name) for name in report.__struct_fields__} | {"cannot_tell": (item,)}
    )
    assert len(with_quotes(case, changed).cannot_tell[0].because) < LONGEST + 40
