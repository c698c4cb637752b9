"""What a person wrote is quoted briefly, and never cut within a word."""

import pytest
from told import pasted, says

from unslow.facts.account import Topic
from unslow.think.judge.judge import judge
from unslow.think.judge.quotes import LONGEST, excerpt, with_quotes
from unslow.think.report import Untold

LONG = (
    "I run qwen3:14b on a 3090 with the newest drivers and 64 GB of RAM, speed is fine, 58 t/s, but it thinks for ages"
)


def test_a_short_text_stays_whole():
    assert excerpt("it is  slow\n") == "it is slow"


@pytest.mark.parametrize(("start", "end"), [(0, 0), (50, 60), (len(LONG) - 9, len(LONG)), (len(LONG), len(LONG) + 90)])
def test_an_excerpt_ends_at_word_borders(start, end):
    short = excerpt(LONG, start, end)
    assert len(short) <= LONGEST + 4
    assert set(short.strip("… ").split()) <= {word.strip(",") for word in LONG.split()} | set(LONG.split())


def test_one_endless_word_is_cut_all_the_same():
    assert len(excerpt("x" * 5000)) <= LONGEST + 4


def test_a_report_quotes_the_words_that_matter_with_their_line():
    case = pasted(says(Topic.LONG_THINKING, LONG), runtime={"name": "Ollama"})
    (finding,) = [f for f in judge(case).findings if f.cause == "answer_is_mostly_thinking"]
    assert "thinks for ages" in finding.because
    assert "I run qwen3" not in finding.because
    assert "(paste:3)" in finding.because
    assert all("I run qwen3" not in str(item.value) for item in finding.evidence)


def test_what_is_only_suspected_is_quoted_too():
    case = pasted(says(Topic.SWAPPING, LONG))
    report = judge(pasted())
    item = Untold(cause="swapping", missing="x", because=f"it swaps: {LONG}", how_to_get="", suspected=True)
    changed = type(report)(
        **{name: getattr(report, name) for name in report.__struct_fields__} | {"cannot_tell": (item,)}
    )
    assert len(with_quotes(case, changed).cannot_tell[0].because) < LONGEST + 40
