from answers import ask
from cases import gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "answer_is_mostly_thinking"


def fires(thinking: int = 1800, answer: int = 120):
    return with_facts(gpu_case(), {"run.thinking_tokens": thinking, "run.answer_tokens": answer})


def test_1800_thinking_tokens_before_120_answer_tokens_are_found():
    report = judge(CaseView(fires()))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup == 16
    assert report.findings[0].cost.per == "request"


def test_little_thinking_or_a_long_answer_is_ruled_out():
    assert isinstance(ask(NAME, fires(thinking=300, answer=900)), Absent)
    assert isinstance(ask(NAME, fires(thinking=60, answer=5)), Absent)


def test_trial_without_thinking_counts_for_total_time_not_decode():
    assert isinstance(ask(NAME, tried(1 / 60, 1 / 6, Topic.THINKING, metric="total")), Found)
    assert not isinstance(ask(NAME, tried(20.0, 30.0, Topic.THINKING, metric="decode")), Found)


def test_remark_about_a_reasoning_model_is_suspected():
    answer = ask(NAME, saying(Topic.THINKING, "it is a reasoning model"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
