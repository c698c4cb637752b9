import pytest
from answers import ask
from cases import cpu_case, gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import told
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "sampling_on_cpu"


def fires():
    return with_facts(gpu_case(), {"runtime.top_k": 0, "run.decode_tokens_per_s": 60.0})


def test_a_sort_of_the_whole_vocabulary_is_priced():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "128,256 entries" in finding.because
    assert finding.fixes[0].value == 40
    assert 1.3 < finding.speedup < 1.5


def test_the_same_sort_is_nothing_beside_a_slow_model():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"runtime.top_k": 0})), Absent)


@pytest.mark.parametrize("topic", [Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS])
def test_a_trial_with_and_without(topic):
    answer = ask(NAME, tried(30.0, 70.0, topic))
    assert isinstance(answer, Found)
    assert answer.speedup == pytest.approx(2.33, abs=0.01)
    assert isinstance(ask(NAME, tried(69.0, 70.0, topic)), Absent)


def test_a_trial_in_which_more_differs_proves_nothing():
    assert not isinstance(ask(NAME, tried(30.0, 70.0, Topic.GRAMMAR, Topic.VERSION)), Found)


def test_top_k_of_a_request_and_a_complaint():
    case = with_facts(saying(slow="decode"), {"runtime.top_k": 0})
    assert isinstance(ask(NAME, case), Found)
    assert not isinstance(ask(NAME, with_facts(saying(slow="prefill"), {"runtime.top_k": 0})), Found)
    nameless = with_facts(Case(), {"runtime.top_k": 0, "run.decode_tokens_per_s": told(53.5, "report:1")})
    assert isinstance(ask(NAME, nameless), Found)


def test_a_grammar_below_the_expected_speed():
    slow = with_facts(gpu_case(), {"runtime.grammar": "a JSON schema", "run.decode_tokens_per_s": 30.0})
    assert isinstance(ask(NAME, slow), Found)
    assert isinstance(ask(NAME, with_facts(slow, {"run.decode_tokens_per_s": 130.0})), Absent)


def test_a_grammar_that_somebody_uses_is_a_suspicion():
    answer = ask(NAME, with_facts(saying(slow="decode"), {"runtime.grammar": "json"}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "without grammar" in answer.how_to_get


def test_usual_settings():
    usual = {"runtime.top_k": 40, "runtime.grammar": ""}
    assert isinstance(ask(NAME, with_facts(Case(), usual)), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.top_k": 40})), Absent)
