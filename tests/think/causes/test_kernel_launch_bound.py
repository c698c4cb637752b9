from answers import ask
from cases import gpu_case, r, with_facts, without
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.run import AtOnce, GpuUnderLoad, Tried
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kernel_launch_bound"


def fires():
    under_load = (GpuUnderLoad(index=0, samples=20, busy=r(0.9), memory_busy=r(0.3)),)
    facts = {"run.gpus": under_load, "run.own_cpus": 1.0, "run.decode_tokens_per_s": 28.0}
    return with_facts(gpu_case(), facts | {"runtime.name": "transformers"})


def test_one_core_starts_what_the_gpu_finishes_sooner():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert "56 microseconds" in report.findings[0].because


def test_near_miss_near_the_bandwidth_or_with_graphs():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 120.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.name": "llama.cpp"})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.eager": True})), Absent)


def test_seconds_for_a_token_are_no_launches():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 0.5})), Absent)


def test_a_busy_gpu_whose_memory_nobody_looked_at_is_no_proof_against_it():
    answer = ask(NAME, without(fires(), "run.gpus.0.memory_busy"))
    assert isinstance(answer, CannotTell)
    assert "memory_busy" in answer.missing


def test_an_idle_gpu_in_words_is_a_suspicion():
    idle = says(Topic.GPU_IDLE, "GPU usage stays at 30 %")
    answer = ask(NAME, pasted(idle, gpus=["RTX 4090"], runtime={"name": "exllama"}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def together(tokens_per_s: float):
    tried = (
        AtOnce(requests=1, tokens_per_s=28.0, first_token_s=0.1),
        AtOnce(requests=4, tokens_per_s=tokens_per_s, first_token_s=0.2),
    )
    return with_facts(without(fires(), "run.own_cpus"), {"run.at_once": tried})


def test_four_requests_that_take_as_long_as_one():
    answer = ask(NAME, together(108.0))
    assert isinstance(answer, Found)
    assert "1.04 times" in answer.evidence[0].value


def test_near_miss_steps_that_grow_with_the_requests():
    assert isinstance(ask(NAME, together(40.0)), Absent)


def test_samplers_that_were_tried_without_stand_by_themselves():
    assert ask(NAME, fires()).explains == ("cpu_round_trip_bound", "sampling_on_cpu")
    plain = Tried(changed="no samplers", as_set_tokens_per_s=28.0, changed_tokens_per_s=33.0)
    assert ask(NAME, with_facts(fires(), {"run.plain_sampling": plain})).explains == ("cpu_round_trip_bound",)
