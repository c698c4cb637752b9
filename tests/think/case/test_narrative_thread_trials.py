"""Numbers of threads in what people write."""

import pytest
from cases import with_facts
from under_load import tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.case.narrative import thread_trial, threads_of


@pytest.mark.parametrize(
    "text",
    [
        "-t 32 gives 2.1 t/s, -t 16 gives 5.3 t/s",
        "32 threads: 2.1, 16 threads: 5.3 tok/s",
        "threads=32 2.1; threads=16 5.3",
    ],
)
def test_both_numbers(text):
    trial = thread_trial(tried(2.1, 5.3, Topic.THREADS, text=text))
    assert (trial.slow_threads, trial.fast_threads) == (32, 16)
    assert threads_of(tried(2.1, 5.3, Topic.THREADS, text=text)) == (32, "account.comparisons")


def test_the_other_number_is_the_one_that_the_runtime_has():
    case = with_facts(Case(), {"runtime.threads": 8})
    trial = thread_trial(tried(3.1, 5.9, Topic.THREADS, text="num_thread 4: 3.1 tok/s", case=case))
    assert (trial.slow_threads, trial.fast_threads) == (4, 8)
    assert threads_of(case) == (8, "runtime.threads")


def test_no_numbers_and_no_difference():
    assert thread_trial(tried(2.1, 5.3, Topic.THREADS)).slow_threads == 0
    assert thread_trial(tried(5.2, 5.3, Topic.THREADS, text="-t 8 5.2, -t 16 5.3")) is None
    assert threads_of(Case()) is None
    assert thread_trial(tried(2.1, 5.3, Topic.THREADS, text="-t " * 100_000)).slow_threads == 0
