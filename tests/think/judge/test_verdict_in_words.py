"""Verdicts on what people tell: normal where it is how such hardware behaves, else what is missing."""

import msgspec
from cases import cpu_case, gpu_case, with_facts
from told import account, compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import told
from unslow.think.judge.judge import judge

BUSY = says(Topic.CPU_BUSY, "CPU at 100%")
NO_GPU = says(Topic.GPU_ABSENT, "no GPU present")


def test_a_busy_cpu_in_a_machine_without_a_gpu_is_normal(wording):
    report = judge(pasted(BUSY, NO_GPU, runtime={"name": "ollama"}))
    assert report.verdict == "normal"
    assert report.findings == ()
    wording(report.summary, tells="GPU")


def test_a_busy_cpu_where_nobody_said_that_there_is_no_gpu_is_not():
    assert judge(pasted(BUSY, runtime={"name": "ollama"})).verdict == "cannot_tell"


def test_threads_that_give_nothing_show_the_memory_at_its_limit():
    assert judge(pasted(says(Topic.SATURATED, "more than 4 threads give no extra tok/s"))).verdict == "normal"


def test_who_lost_speed_is_not_told_that_it_is_normal():
    lost = compares(Topic.VERSION, 2.0, 9.0)
    assert judge(pasted(BUSY, NO_GPU, lost)).verdict == "cannot_tell"
    assert judge(pasted(BUSY, NO_GPU, slowdown=3.0)).verdict == "cannot_tell"


def test_a_measured_speed_counts_more_than_words():
    case = msgspec.structs.replace(cpu_case(), account=account(BUSY, NO_GPU))
    slow = with_facts(case, {"run.decode_tokens_per_s": told(0.1, "paste:5")})
    assert judge(slow).verdict == "slow"


def test_an_experiment_is_not_ruled_out_by_a_good_speed():
    trial = compares(Topic.FLASH_ATTENTION, 130.0, 200.0, "without flash attention 130, with it 200 t/s")
    case = msgspec.structs.replace(with_facts(gpu_case(), {"runtime.flash_attention": False}), account=account(trial))
    report = judge(case)
    assert report.verdict == "slow"
    assert report.findings[0].cause == "flash_attention_off"


def test_a_usual_speed_is_no_answer_to_who_had_more():
    assert judge(gpu_case()).verdict == "normal"
    before = msgspec.structs.replace(gpu_case(), account=account(compares(Topic.VERSION, 130.0, 210.0)))
    assert judge(before).verdict == "slow"
