import pytest

from unslow.facts.account import Topic
from unslow.think.text.comparisons import told_gain, told_times
from unslow.think.text.prose import read_words


@pytest.mark.parametrize(
    ("line", "factor"),
    [
        ("setting top_k to 40 doubles the speed", 2.0),
        ("a static cache triples the throughput", 3.0),
        ("logprobs=20 cuts throughput in half", 2.0),
        ("interleave=all is 60% faster", 1.6),
        ("four threads are three times faster", 3.0),
        ("it is 2.5x faster on one card", 2.5),
        ("it is faster", None),
        ("the context doubles", None),
        ("0x faster", None),
    ],
)
def test_gain_factors_are_parsed(line, factor):
    assert told_gain(line) == (None if factor is None else pytest.approx(factor))


@pytest.mark.parametrize(
    ("line", "slow_s", "fast_s"),
    [
        ("LangChain takes 40 s, curl with the same prompt 3 s", 40, 3),
        ("load takes 6 min from /mnt/c, 20 s from ext4", 360, 20),
        ("latency rises from 2 s to 11 s", 11, 2),
        ("900 ms without, 4 seconds with json mode", 4, 0.9),
    ],
)
def test_two_times_in_one_line_are_a_comparison(line, slow_s, fast_s):
    (one,) = told_times(line)
    assert (1 / one.slow, 1 / one.fast) == (pytest.approx(slow_s), pytest.approx(fast_s))


@pytest.mark.parametrize(
    "line",
    [
        "runs of 32 tokens with 10 s pauses, 30 s in all",
        "40 s, then 41 s",
        "3 s",
        "1 s, 2 s, 3 s",
        "0 s to 5 s",
        "5 ms/token, 9 s",
    ],
)
def test_unrelated_times_are_not_a_comparison(line):
    assert list(told_times(line)) == []


def test_times_become_rates_of_their_phase():
    (one,) = read_words(["load time 95 s with mmap, 12 s with --no-mmap"], "r").subject.account.comparisons.need()
    assert (one.metric, one.differs) == ("load", (Topic.LOAD_MODE,))
    assert one.fast / one.slow == pytest.approx(95 / 12)


def test_complaint_is_about_the_nearest_phase():
    def blamed(line):
        return read_words([line], "r").subject.account.slow_metric.need()

    assert blamed("model loading very slow, generation fine") == "load"
    assert blamed("generation is fine, loading takes forever") == "load"
    assert blamed("prompt processing is slow, generation is normal") == "prefill"
