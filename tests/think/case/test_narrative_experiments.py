"""What prose may prove: experiments in which one thing differs, and which phase a complaint is about."""

import pytest
from cases import cpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import told_fact
from unslow.think.case.narrative import is_clear
from unslow.think.case.view import CaseView


def test_experiment_with_two_differences_proves_neither():
    both = tried(10.0, 20.0, Topic.THREADS, Topic.VERSION)
    assert CaseView(both).narrative.experiment_on(Topic.THREADS) is None
    assert CaseView(both).narrative.experiment_on(Topic.THREADS, Topic.VERSION) is not None
    assert CaseView(tried(10.0, 20.0)).narrative.experiment_on(Topic.THREADS) is None


def test_experiment_on_another_phase_is_ignored():
    assert CaseView(tried(10.0, 20.0, Topic.BATCH)).narrative.experiment_on(Topic.BATCH, metrics=("prefill",)) is None
    assert CaseView(tried(10.0, 20.0, Topic.BATCH, metric="unknown")).narrative.experiment_on(
        Topic.BATCH, metrics=("prefill",)
    )


def test_experiment_needs_two_clearly_different_speeds():
    assert CaseView(tried(0.0, 20.0, Topic.BATCH)).narrative.experiment_on(Topic.BATCH) is None
    assert not is_clear(None)
    assert not is_clear(CaseView(tried(19.0, 20.0, Topic.BATCH)).narrative.experiment_on(Topic.BATCH))


@pytest.mark.parametrize(
    ("slow", "decode", "prefill"), [("decode", True, False), ("unknown", True, True), ("load", False, False)]
)
def test_complaint_blames_its_phase_or_any(slow, decode, prefill):
    assert CaseView(saying(slow=slow)).narrative.blames("decode") is decode
    assert CaseView(saying(slow=slow)).narrative.blames("prefill") is prefill
    assert CaseView(saying(slow=slow)).narrative.names_phase("decode") is (slow == "decode")


def test_measured_machine_has_no_complaint():
    assert not CaseView(cpu_case()).narrative.is_report
    assert not CaseView(cpu_case()).narrative.blames("decode")
    assert CaseView(with_facts(Case(), {"run.decode_tokens_per_s": told_fact(3.0, "report:1")})).narrative.is_report
