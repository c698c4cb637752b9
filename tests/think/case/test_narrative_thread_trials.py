"""Thread counts in prose."""

import pytest
from cases import with_facts
from under_load import tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView


@pytest.mark.parametrize(
    "text",
    [
        "-t 32 gives 2.1 t/s, -t 16 gives 5.3 t/s",
        "32 threads: 2.1, 16 threads: 5.3 tok/s",
        "threads=32 2.1; threads=16 5.3",
    ],
)
def test_both_thread_counts_are_read_from_prose(text):
    trial = CaseView(tried(2.1, 5.3, Topic.THREADS, text=text)).narrative.thread_trial
    assert (trial.slow_threads, trial.fast_threads) == (32, 16)
    assert CaseView(tried(2.1, 5.3, Topic.THREADS, text=text)).narrative.thread_count == (32, "account.comparisons")


def test_missing_thread_count_is_the_configured_one():
    case = with_facts(Case(), {"runtime.compute.threads": 8})
    trial = CaseView(tried(3.1, 5.9, Topic.THREADS, text="num_thread 4: 3.1 tok/s", case=case)).narrative.thread_trial
    assert (trial.slow_threads, trial.fast_threads) == (4, 8)
    assert CaseView(case).narrative.thread_count == (8, "runtime.compute.threads")


def test_trial_without_counts_or_difference_proves_nothing():
    assert CaseView(tried(2.1, 5.3, Topic.THREADS)).narrative.thread_trial.slow_threads == 0
    assert CaseView(tried(5.2, 5.3, Topic.THREADS, text="-t 8 5.2, -t 16 5.3")).narrative.thread_trial is None
    assert CaseView(Case()).narrative.thread_count is None
    assert CaseView(tried(2.1, 5.3, Topic.THREADS, text="-t " * 100_000)).narrative.thread_trial.slow_threads == 0
