"""What words may prove: trials in which one thing differs, and whose complaint it is."""

import pytest
from cases import cpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import told
from unslow.think.case.narrative import blames, experiment_on, is_clear, is_report, names_phase


def test_a_trial_in_which_something_else_differs_too_is_none():
    both = tried(10.0, 20.0, Topic.THREADS, Topic.VERSION)
    assert experiment_on(both, Topic.THREADS) is None
    assert experiment_on(both, Topic.THREADS, Topic.VERSION) is not None
    assert experiment_on(tried(10.0, 20.0), Topic.THREADS) is None


def test_a_trial_of_another_phase_is_none():
    assert experiment_on(tried(10.0, 20.0, Topic.BATCH), Topic.BATCH, metrics=("prefill",)) is None
    assert experiment_on(tried(10.0, 20.0, Topic.BATCH, metric="unknown"), Topic.BATCH, metrics=("prefill",))


def test_a_speed_of_nothing_is_no_trial():
    assert experiment_on(tried(0.0, 20.0, Topic.BATCH), Topic.BATCH) is None
    assert not is_clear(None)
    assert not is_clear(experiment_on(tried(19.0, 20.0, Topic.BATCH), Topic.BATCH))


@pytest.mark.parametrize(
    ("slow", "decode", "prefill"), [("decode", True, False), ("unknown", True, True), ("load", False, False)]
)
def test_whose_complaint_it_is(slow, decode, prefill):
    assert blames(saying(slow=slow), "decode") is decode
    assert blames(saying(slow=slow), "prefill") is prefill
    assert names_phase(saying(slow=slow), "decode") is (slow == "decode")


def test_a_machine_complains_of_nothing():
    assert not is_report(cpu_case())
    assert not blames(cpu_case(), "decode")
    assert is_report(with_facts(Case(), {"run.decode_tokens_per_s": told(3.0, "report:1")}))
