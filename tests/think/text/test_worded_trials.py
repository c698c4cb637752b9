import pytest

from unslow.facts.account import Topic
from unslow.think.case.narrative import gain_of, times_as_fast
from unslow.think.text.comparisons import worded_trial
from unslow.think.text.prose import read_words


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("4 threads is much faster than 8", Topic.THREADS),
        ("--threads -1 is much slower than a set thread count", Topic.THREADS),
        ("the draft model lowers the speed", Topic.DRAFT),
        ("speculative decoding is slower than plain decoding", Topic.DRAFT),
        ("with cuda graphs it is faster", Topic.GRAPHS),
        ("disabling the json schema fixes it", Topic.GRAMMAR),
        ("guided generation very slow", Topic.GRAMMAR),
        ("generation collapses with logprobs", Topic.LOGPROBS),
        ("slow sampling with repetition_penalty", Topic.SAMPLER),
        ("the split-mode row is slower than layer", Topic.SPLIT_MODE),
        ("tensor parallel is slower than one process", Topic.TENSOR_PARALLEL),
        ("numactl --interleave is faster than the default", Topic.NUMA),
        ("faster when plugged in", Topic.CLOCKS),
    ],
)
def test_trial_without_figures_gives_its_topic(line, topic):
    assert topic in worded_trial(line)
    (one,) = (c for c in read_words([line], "r").subject.account.comparisons.need() if topic in c.differs)
    assert one.worded
    assert gain_of(one) is None
    assert times_as_fast(one) == "clearly faster"


@pytest.mark.parametrize(
    "line",
    [
        "maybe 4 threads are faster than 8",
        "I think the draft model lowers the speed",
        "is -sm row slower than -sm layer?",
        "threads should be faster than this",
        "slower than expected with 8 threads",
        "q8_0 is slower than q4_0",
        "0.1.31 is faster with the same langchain script",
        "the GPU is slower than a friend's",
    ],
)
def test_guesses_and_expectations_are_not_trials(line):
    assert worded_trial(line) == ()
