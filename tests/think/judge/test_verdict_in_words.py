"""Verdicts on prose reports: normal where such hardware behaves like that, else what is missing."""

import msgspec
from cases import cpu_case, gpu_case, with_facts
from told import account, compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import told_fact
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge

BUSY = says(Topic.CPU_BUSY, "CPU at 100%")
NO_GPU = says(Topic.GPU_ABSENT, "no GPU present")


def test_busy_cpu_without_a_gpu_is_normal(wording):
    report = judge(CaseView(pasted(BUSY, NO_GPU, runtime={"name": "ollama"})))
    assert report.verdict == "normal"
    assert report.findings == ()
    wording(report.summary, tells="GPU")


def test_busy_cpu_with_unknown_gpu_gives_cannot_tell():
    assert judge(CaseView(pasted(BUSY, runtime={"name": "ollama"}))).verdict == "cannot_tell"


def test_saturated_threads_are_normal_memory_limit():
    assert judge(CaseView(pasted(says(Topic.SATURATED, "more than 4 threads give no extra tok/s")))).verdict == "normal"


def test_lost_speed_is_not_called_normal():
    lost = compares(Topic.VERSION, 2.0, 9.0)
    assert judge(CaseView(pasted(BUSY, NO_GPU, lost))).verdict == "cannot_tell"
    assert judge(CaseView(pasted(BUSY, NO_GPU, slowdown=3.0))).verdict == "cannot_tell"


def test_measured_speed_wins_over_prose():
    case = msgspec.structs.replace(cpu_case(), account=account(BUSY, NO_GPU))
    slow = with_facts(case, {"run.decode_tokens_per_s": told_fact(0.1, "paste:5")})
    assert judge(CaseView(slow)).verdict == "slow"


def test_experiment_is_not_ruled_out_by_a_normal_speed():
    trial = compares(Topic.FLASH_ATTENTION, 130.0, 200.0, "without flash attention 130, with it 200 t/s")
    case = msgspec.structs.replace(
        with_facts(gpu_case(), {"runtime.compute.flash_attention": False}), account=account(trial)
    )
    report = judge(CaseView(case))
    assert report.verdict == "slow"
    assert report.findings[0].cause == "flash_attention_off"


def test_former_higher_speed_makes_a_normal_speed_slow():
    assert judge(CaseView(gpu_case())).verdict == "normal"
    before = msgspec.structs.replace(gpu_case(), account=account(compares(Topic.VERSION, 130.0, 210.0)))
    assert judge(CaseView(before)).verdict == "slow"
