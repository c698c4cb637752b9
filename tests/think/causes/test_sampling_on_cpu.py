from pathlib import Path

import pytest
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts, without
from engines import vllm
from made_up_telemetry import traffic
from under_load import saying, tried

from unslow.commands.diagnose.target import read_stored
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.run import Traffic, TrialInTurns
from unslow.facts.snapshot import Case
from unslow.facts.values import measured_fact, told_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "sampling_on_cpu"
MACHINES = Path(__file__).parents[2] / "machines"


def fires():
    return with_facts(gpu_case(), {"runtime.sampling.top_k": 0, "run.decode_tokens_per_s": 60.0})


def test_top_k_0_is_found_and_priced():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert "128,256 entries" in finding.because
    assert finding.fixes[0].value == 40
    assert 1.3 < finding.speedup < 2.5


def test_top_k_0_beside_a_slow_model_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"runtime.sampling.top_k": 0})), Absent)


@pytest.mark.parametrize("topic", [Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS])
def test_told_trial_without_the_sampler_decides(topic):
    answer = ask(NAME, tried(30.0, 70.0, topic))
    assert isinstance(answer, Found)
    assert answer.speedup == pytest.approx(2.33, abs=0.01)
    assert isinstance(ask(NAME, tried(69.0, 70.0, topic)), Absent)


def test_told_trial_with_another_difference_is_not_found():
    assert not isinstance(ask(NAME, tried(30.0, 70.0, Topic.GRAMMAR, Topic.VERSION)), Found)


def test_top_k_0_with_a_decode_complaint_is_found():
    case = with_facts(saying(slow="decode"), {"runtime.sampling.top_k": 0})
    assert isinstance(ask(NAME, case), Found)
    assert not isinstance(ask(NAME, with_facts(saying(slow="prefill"), {"runtime.sampling.top_k": 0})), Found)
    nameless = with_facts(Case(), {"runtime.sampling.top_k": 0, "run.decode_tokens_per_s": told_fact(53.5, "report:1")})
    assert isinstance(ask(NAME, nameless), Found)


def test_grammar_below_the_expected_speed_is_found_with_a_complaint():
    slow = with_facts(gpu_case(), {"runtime.sampling.grammar": "a JSON schema", "run.decode_tokens_per_s": 30.0})
    assert isinstance(ask(NAME, saying(slow="decode", case=slow)), Found)
    answer = ask(NAME, slow)
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.plain_sampling"
    assert isinstance(ask(NAME, with_facts(slow, {"run.decode_tokens_per_s": 130.0})), Absent)


def in_turns(as_set: float, plain: float, **facts):
    tried = TrialInTurns(changed="no sampler", as_set_tokens_per_s=as_set, changed_tokens_per_s=plain)
    return with_facts(gpu_case(), {"run.plain_sampling": measured_fact(tried, "in turns"), **facts})


def test_measured_trial_decides_and_names_the_setting(wording):
    answer = ask(NAME, in_turns(50.0, 130.0, **{"runtime.sampling.top_k": 0, "run.decode_tokens_per_s": 50.0}))
    assert isinstance(answer, Found)
    assert answer.speedup == 2.6
    assert "top_k 0" in answer.because
    assert answer.cure.plain_sampling
    wording(ask(NAME, in_turns(50.0, 130.0, **{"run.decode_tokens_per_s": 50.0})).because)


def test_fix_orders_the_samplers_where_top_k_is_already_set():
    """It is missing among the samplers, or comes after one that sorts."""
    fixes = (
        judge(CaseView(in_turns(50.0, 130.0, **{"runtime.sampling.top_k": 40, "run.decode_tokens_per_s": 50.0})))
        .findings[0]
        .fixes
    )
    assert [(fix.knob, fix.value) for fix in fixes] == [("client", None)]
    assert "--samplers" in fixes[0].why


def test_measured_trial_within_noise_is_ruled_out():
    assert isinstance(ask(NAME, in_turns(120.0, 131.0, **{"runtime.sampling.top_k": 0})), Absent)


def test_requests_of_other_clients_stay_suspected_after_a_trial():
    traffic = Traffic(seconds=5.0, looks=5, running=1.0, waiting=0.0, grammar=r("json"), logprobs=r(20))
    answer = ask(NAME, in_turns(130.0, 131.0, **{"run.traffic": traffic}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "logprobs of 20" in answer.why


def test_reported_grammar_is_suspected():
    answer = ask(NAME, with_facts(saying(slow="decode"), {"runtime.sampling.grammar": "json"}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "without grammar" in answer.how_to_get


def test_default_sampler_settings_are_ruled_out():
    usual = {"runtime.sampling.top_k": 40, "runtime.sampling.grammar": ""}
    assert isinstance(ask(NAME, with_facts(Case(), usual)), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.sampling.top_k": 40})), Absent)


def test_command_line_without_sampler_flags_is_ruled_out():
    own = {"runtime.name": "llama.cpp", "runtime.process.environment": {}, "run.decode_tokens_per_s": 30.0}
    usual = with_facts(gpu_case(), own | {"runtime.process.command": ["llama-server", "-m", "m.gguf"]})
    assert isinstance(ask(NAME, usual), Absent)
    bound = with_facts(
        usual, {"runtime.process.command": ["llama-server", "-m", "m.gguf", "--grammar-file", "json.gbnf"]}
    )
    assert isinstance(ask(NAME, bound), CannotTell)


def test_watched_logprobs_are_found_where_requests_are_slow():
    asks = {"run.traffic": traffic(1.0, 0.0, logprobs=r(1000)), "run.decode_tokens_per_s": 50.0}
    answer = ask(NAME, with_facts(gpu_case(), asks))
    assert isinstance(answer, Found)
    assert "logprobs of 1000" in answer.because
    assert answer.cure.plain_sampling
    fast = ask(NAME, with_facts(gpu_case(), asks | {"run.decode_tokens_per_s": 130.0}))
    assert not isinstance(fast, Found)


def test_top_k_0_is_found_beside_another_slowdown():
    slow = with_facts(fires(), {"run.decode_tokens_per_s": 15.0})
    assert isinstance(ask(NAME, slow), Found)


def test_cheap_sort_is_suspected_on_a_live_server_only():
    url = {"runtime.process.url": "http://127.0.0.1:8080"}
    case = with_facts(gpu_case(), {"runtime.sampling.top_k": 0, "model.vocabulary": 8_000})
    assert isinstance(ask(NAME, case), Absent)
    live = ask(NAME, with_facts(case, url))
    assert isinstance(live, CannotTell)
    assert live.suspected
    assert live.missing == "run.plain_sampling"


def test_logprobs_within_the_expected_interval_are_found_by_their_cost():
    # the same two cores gave 116 tokens per second, and 78 with 1,000 logprobs, which is still within what is usual
    (healthy,) = read_stored(str(MACHINES / "lab_cpu_healthy_small")).cases()
    asks = {"run.traffic": traffic(1.0, 0.0, logprobs=r(1000)), "run.decode_tokens_per_s": 78.1}
    case = with_facts(without(healthy, "run.completions"), asks)
    report = judge(CaseView(case))
    assert [f.cause for f in report.findings] == [NAME]
    assert report.verdict == "slow"
    assert report.findings[0].cost.seconds == pytest.approx(1 / 78 - 1 / 116, rel=0.5)
    assert "fewer logprobs" in report.findings[0].fixes[0].why
    assert report.expected.achievable["decode_tokens_per_s"].mid == pytest.approx(116, rel=0.2)


def test_five_logprobs_are_neither_found_nor_suspected():
    few = ask(
        NAME, with_facts(gpu_case(), {"run.traffic": traffic(1.0, 0.0, logprobs=r(5)), "runtime.sampling.top_k": 40})
    )
    assert not isinstance(few, Found)
    assert not isinstance(few, CannotTell) or not few.suspected


def test_idle_server_answer_names_what_clients_requests_may_add(wording):
    live = with_facts(in_turns(130.0, 131.0), {"runtime.process.url": "http://127.0.0.1:8080"})
    wording(ask(NAME, live).because)
    watched = with_facts(live, {"run.traffic": traffic(1.0, 0.0, logprobs=r(0), top_k=r(40))})
    wording(ask(NAME, watched).because)


def test_an_engine_that_samples_on_the_gpu_is_told_so(wording):
    warned = (
        "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: "
        "`{'temperature': 0.6, 'top_p': 0.9}`. If this is not intended, please relaunch vLLM instance"
    )
    tried = TrialInTurns(changed="greedy, at temperature 0", as_set_tokens_per_s=90.0, changed_tokens_per_s=150.0)
    answer = ask(NAME, vllm(**{"run.plain_sampling": tried, "runtime.history.warnings": [warned]}))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("generation_config.json", "top_p: 0.9", "the GPU"))
    assert [remedy.change.knob for remedy in answer.remedies] == [Knob.SAMPLER, Knob.CLIENT, Knob.CLIENT]
    unwarned = ask(NAME, vllm(**{"run.plain_sampling": tried}))
    wording(unwarned.because, tells="the configured samplers")
