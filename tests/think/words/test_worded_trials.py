"""Trials without figures, and sentences that only sound like one."""

import pytest

from unslow.facts.account import Topic
from unslow.think.words.worded import worded_trial


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("4 threads are much faster than 8 threads", (Topic.THREADS,)),
        ("it is slower with the draft model", (Topic.DRAFT,)),
        ("the draft model lowers the speed", (Topic.DRAFT,)),
        ("without the grammar it is fast, disabling the grammar fixes it", (Topic.GRAMMAR,)),
        ("fast without json schema", (Topic.GRAMMAR,)),
        ("the problem is gone after i set numactl --interleave", (Topic.NUMA,)),
        ("with cuda graphs it is much faster", (Topic.GRAPHS,)),
    ],
)
def test_one_way_against_another(text, topics):
    assert set(topics) <= set(worded_trial(text))


@pytest.mark.parametrize(
    "text",
    [
        "maybe it is slower with the draft model",
        "is it slower with 8 threads?",
        "threads could be slower than expected",
        "8 threads are slower than i expected",
        "i think the grammar lowers the speed",
        "q4_0 is faster than q8_0",
        "it is slower with a long context",
        "8 threads",
        "it is slow",
    ],
)
def test_guesses_hopes_and_what_differs_by_nature(text):
    assert worded_trial(text) == ()
