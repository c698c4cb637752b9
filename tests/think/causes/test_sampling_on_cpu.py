from pathlib import Path

import pytest
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts, without
from made_up_telemetry import traffic
from under_load import saying, tried

from unslow.commands.diagnose.target import read_stored
from unslow.facts.account import Topic
from unslow.facts.run import Traffic, Tried
from unslow.facts.snapshot import Case
from unslow.facts.values import measured, told
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "sampling_on_cpu"
MACHINES = Path(__file__).parents[2] / "machines"


def fires():
    return with_facts(gpu_case(), {"runtime.top_k": 0, "run.decode_tokens_per_s": 60.0})


def test_a_sort_of_the_whole_vocabulary_is_priced():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "128,256 entries" in finding.because
    assert finding.fixes[0].value == 40
    assert 1.3 < finding.speedup < 2.5


def test_near_miss_the_same_sort_is_nothing_beside_a_slow_model():
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
    assert isinstance(ask(NAME, saying(slow="decode", case=slow)), Found)
    answer = ask(NAME, slow)
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.plain_sampling"
    assert isinstance(ask(NAME, with_facts(slow, {"run.decode_tokens_per_s": 130.0})), Absent)


def in_turns(as_set: float, plain: float, **facts):
    tried = Tried(changed="no sampler", as_set_tokens_per_s=as_set, changed_tokens_per_s=plain)
    return with_facts(gpu_case(), {"run.plain_sampling": measured(tried, "in turns"), **facts})


def test_what_was_tried_in_turns_decides_and_names_the_setting(wording):
    answer = ask(NAME, in_turns(50.0, 130.0, **{"runtime.top_k": 0, "run.decode_tokens_per_s": 50.0}))
    assert isinstance(answer, Found)
    assert answer.speedup == 2.6
    assert "top_k 0" in answer.because
    assert answer.cure.plain_sampling
    wording(ask(NAME, in_turns(50.0, 130.0, **{"run.decode_tokens_per_s": 50.0})).because)


def test_top_k_that_is_set_already_is_not_set_again():
    """It is missing among the samplers, or comes after one that sorts."""
    fixes = judge(in_turns(50.0, 130.0, **{"runtime.top_k": 40, "run.decode_tokens_per_s": 50.0})).findings[0].fixes
    assert [(fix.knob, fix.value) for fix in fixes] == [("client", None)]
    assert "--samplers" in fixes[0].why


def test_near_miss_a_difference_within_noise():
    assert isinstance(ask(NAME, in_turns(120.0, 131.0, **{"runtime.top_k": 0})), Absent)


def test_what_other_clients_ask_for_was_not_tried():
    traffic = Traffic(seconds=5.0, looks=5, running=1.0, waiting=0.0, grammar=r("json"), logprobs=r(20))
    answer = ask(NAME, in_turns(130.0, 131.0, **{"run.traffic": traffic}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "logprobs of 20" in answer.why


def test_a_grammar_that_somebody_uses_is_a_suspicion():
    answer = ask(NAME, with_facts(saying(slow="decode"), {"runtime.grammar": "json"}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "without grammar" in answer.how_to_get


def test_usual_settings():
    usual = {"runtime.top_k": 40, "runtime.grammar": ""}
    assert isinstance(ask(NAME, with_facts(Case(), usual)), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.top_k": 40})), Absent)


def test_near_miss_a_server_that_was_started_with_the_usual_samplers():
    own = {"runtime.name": "llama.cpp", "runtime.environment": {}, "run.decode_tokens_per_s": 30.0}
    usual = with_facts(gpu_case(), own | {"runtime.command": ["llama-server", "-m", "m.gguf"]})
    assert isinstance(ask(NAME, usual), Absent)
    bound = with_facts(usual, {"runtime.command": ["llama-server", "-m", "m.gguf", "--grammar-file", "json.gbnf"]})
    assert isinstance(ask(NAME, bound), CannotTell)


def test_what_the_watched_requests_ask_for_decides_where_they_are_slow():
    asks = {"run.traffic": traffic(1.0, 0.0, logprobs=r(1000)), "run.decode_tokens_per_s": 50.0}
    answer = ask(NAME, with_facts(gpu_case(), asks))
    assert isinstance(answer, Found)
    assert "logprobs of 1000" in answer.because
    assert answer.cure.plain_sampling
    fast = ask(NAME, with_facts(gpu_case(), asks | {"run.decode_tokens_per_s": 130.0}))
    assert not isinstance(fast, Found)


def test_a_sort_is_not_hidden_by_what_else_slows_a_token_down():
    slow = with_facts(fires(), {"run.decode_tokens_per_s": 15.0})
    assert isinstance(ask(NAME, slow), Found)


def test_a_sort_that_takes_little_is_tried_where_it_can_be():
    url = {"runtime.url": "http://127.0.0.1:8080"}
    case = with_facts(gpu_case(), {"runtime.top_k": 0, "model.vocabulary": 8_000})
    assert isinstance(ask(NAME, case), Absent)
    live = ask(NAME, with_facts(case, url))
    assert isinstance(live, CannotTell)
    assert live.suspected
    assert live.missing == "run.plain_sampling"


def test_logprobs_within_what_is_usual_for_such_a_cpu_are_found_by_their_price():
    # the same two cores gave 116 tokens per second, and 78 with 1,000 logprobs, which is still within what is usual
    (healthy,) = read_stored(str(MACHINES / "lab_cpu_healthy_small")).cases()
    asks = {"run.traffic": traffic(1.0, 0.0, logprobs=r(1000)), "run.decode_tokens_per_s": 78.1}
    case = with_facts(without(healthy, "run.completions"), asks)
    report = judge(case)
    assert [f.cause for f in report.findings] == [NAME]
    assert report.verdict == "slow"
    assert report.findings[0].cost.seconds == pytest.approx(1 / 78 - 1 / 116, rel=0.5)
    assert "fewer logprobs" in report.findings[0].fixes[0].why
    assert report.expected.achievable["decode_tokens_per_s"].mid == pytest.approx(116, rel=0.2)


def test_near_miss_a_few_logprobs_cost_little():
    few = ask(NAME, with_facts(gpu_case(), {"run.traffic": traffic(1.0, 0.0, logprobs=r(5)), "runtime.top_k": 40}))
    assert not isinstance(few, Found)
    assert not isinstance(few, CannotTell) or not few.suspected


def test_what_an_idle_server_does_not_show_is_said(wording):
    live = with_facts(in_turns(130.0, 131.0), {"runtime.url": "http://127.0.0.1:8080"})
    wording(ask(NAME, live).because)
    watched = with_facts(live, {"run.traffic": traffic(1.0, 0.0, logprobs=r(0), top_k=r(40))})
    wording(ask(NAME, watched).because)
