from answers import ask
from cases import gpu_case, r, with_facts, without
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.run import AtOnce, GpuUnderLoad, TrialInTurns
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kernel_launch_bound"


def fires():
    under_load = (GpuUnderLoad(index=0, samples=20, busy=r(0.9), memory_busy=r(0.3)),)
    facts = {"run.gpus": under_load, "run.own_cpus": 1.0, "run.decode_tokens_per_s": 28.0}
    return with_facts(gpu_case(), facts | {"runtime.name": "transformers"})


def test_one_busy_core_and_idle_gpu_memory_is_found():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert "56 microseconds" in report.findings[0].because


def test_speed_near_bandwidth_llama_cpp_and_eager_setting_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 120.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.name": "llama.cpp"})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.compute.eager": True})), Absent)


def test_seconds_per_token_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 0.5})), Absent)


def test_busy_gpu_without_memory_reading_gives_cannot_tell():
    answer = ask(NAME, without(fires(), "run.gpus.0.memory_busy"))
    assert isinstance(answer, CannotTell)
    assert "memory_busy" in answer.missing


def test_idle_gpu_told_by_person_is_suspected():
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


def test_four_requests_that_take_as_long_as_one_are_found():
    answer = ask(NAME, together(108.0))
    assert isinstance(answer, Found)
    assert "1.04 times" in answer.evidence[0].value


def test_steps_that_grow_with_requests_are_ruled_out():
    assert isinstance(ask(NAME, together(40.0)), Absent)


def test_sampling_is_not_explained_where_it_was_timed_without_samplers():
    assert ask(NAME, fires()).explains == ("cpu_round_trip_bound", "sampling_on_cpu")
    plain = TrialInTurns(changed="no samplers", as_set_tokens_per_s=28.0, changed_tokens_per_s=33.0)
    assert ask(NAME, with_facts(fires(), {"run.plain_sampling": plain})).explains == ("cpu_round_trip_bound",)
