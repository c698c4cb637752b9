from answers import ask
from cases import gpu_case, r, with_facts
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.run import GpuUnderLoad
from unslow.think.causes._cause import Absent, CannotTell
from unslow.think.judge import judge

NAME = "kernel_launch_bound"


def fires():
    under_load = (GpuUnderLoad(index=0, samples=20, busy=r(0.9), memory_busy=r(0.3)),)
    facts = {"run.gpus": under_load, "run.own_cpus": 1.0, "run.decode_tokens_per_s": 28.0}
    return with_facts(gpu_case(), facts | {"runtime.name": "transformers"})


def test_one_core_starts_what_the_gpu_finishes_sooner():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert "56 microseconds" in report.findings[0].because


def test_not_near_the_bandwidth_nor_with_graphs():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 120.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.name": "llama.cpp"})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.eager": True})), Absent)


def test_seconds_for_a_token_are_no_launches():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 0.5})), Absent)


def test_an_idle_gpu_in_words_is_a_suspicion():
    idle = says(Topic.GPU_IDLE, "GPU usage stays at 30 %")
    answer = ask(NAME, pasted(idle, gpus=["RTX 4090"], runtime={"name": "exllama"}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
