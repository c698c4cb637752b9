"""Which of two settings is in use, and what that means for speed and settings."""

import pytest

from unslow.facts.account import Topic
from unslow.think.text.comparisons import comparisons_told
from unslow.think.text.lines import prose_lines
from unslow.think.text.prose import read_words

THREADS = ("It is slow.", "With -t 8: 5.1 tokens/s", "With -t 16: 9.0 tokens/s")


def in_use(*text: str):
    return {c.now for c in comparisons_told(tuple(prose_lines(text, "p"))) if c.differs}


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ((*THREADS, "I now use 16 threads."), "fast"),
        ((*THREADS, "Currently I run it with 8 threads."), "slow"),
        ((*THREADS, "Should I use 16 threads?"), None),
        (THREADS, None),
        (("-sm layer gives 25 t/s, -sm row gives 40 t/s. I am using -sm row. Still slow",), "fast"),
        (("llama-server -ngl 99 -fa on is slow", "with -fa off: 50 t/s, with -fa on: 100 t/s"), "fast"),
        (("8 threads 5 t/s, now with 16 threads 9 t/s",), "fast"),
    ],
)
def test_side_in_use_is_found(text, side):
    assert in_use(*text) == {side}


def test_speed_and_setting_are_those_in_use():
    used = read_words([*THREADS, "I now use 16 threads."], "p").subject
    assert used.run.decode_tokens_per_s.value == 9.0
    assert used.runtime.compute.threads.value == 16
    unsaid = read_words(THREADS, "p").subject
    assert unsaid.run.decode_tokens_per_s.value == 5.1
    assert all(c.differs == (Topic.THREADS,) for c in unsaid.account.comparisons.value)
