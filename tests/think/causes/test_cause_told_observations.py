"""What somebody saw decides a cause by itself; where another observation explains it, it does not."""

import msgspec
import pytest
from answers import ask
from cases import with_facts
from told import pasted, says
from under_load import saying, tried

from unslow.facts.account import Comparison, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import told_fact
from unslow.think.causes._cause import CannotTell, Found

TWO_CARDS = {"gpus": ("RTX 3090", "RTX 3090")}
ONE_CARD = {"gpus": ("RTX 3090",)}


@pytest.mark.parametrize(
    ("cause", "topic", "text", "phase", "given"),
    [
        ("pcie_link_degraded", Topic.LINK_NARROW, "one GPU at Gen2 x1", "decode", TWO_CARDS),
        ("gpu_power_capped", Topic.POWER_LIMITED, "SW Power Cap: Active", "decode", ONE_CARD),
        ("gpu_thermal_throttling", Topic.THROTTLED, "throttles at 97 C", "decode", ONE_CARD),
        ("gpu_thermal_throttling", Topic.THROTTLED, "overheats and drops to 1 W", "decode", ONE_CARD),
        ("gpu_held_at_low_clocks", Topic.GPU_CLOCK_LOW, "SCLK 41MHz, GPU 100%", "decode", ONE_CARD),
        ("answer_is_mostly_thinking", Topic.LONG_THINKING, "thinks for two minutes", "total", {}),
        ("client_overhead", Topic.EXTRA_REQUESTS, "title generation after each answer", "total", {}),
        ("slow_model_load", Topic.SLOW_SHARE, "weights on NFS", "load", {}),
        ("runtime_version_regressed", Topic.GOING_BACK_HELPS, "rolling back fixes it", "decode", ONE_CARD),
    ],
)
def test_it_decides(cause, topic, text, phase, given):
    answer = ask(cause, pasted(says(topic, text), slow_metric=phase, **given))
    assert isinstance(answer, Found)
    assert text in " ".join(str(e.value) for e in answer.evidence)
    assert answer.speedup is None


@pytest.mark.parametrize(
    ("cause", "said", "phase", "given"),
    [
        ("multi_gpu_link_bound", [(Topic.GPUS_TAKE_TURNS, "no faster")], "decode", ONE_CARD),
        ("multi_gpu_link_bound", [(Topic.GPUS_TAKE_TURNS, "each GPU sits at 50 %")], "decode", TWO_CARDS),
        ("pcie_link_degraded", [(Topic.LINK_NARROW, "an x1 riser")], "decode", ONE_CARD),
        ("gpu_thermal_throttling", [(Topic.THROTTLED, "is it throttling")], "decode", ONE_CARD),
        ("gpu_held_at_low_clocks", [(Topic.GPU_CLOCK_LOW, "stuck"), (Topic.GPU_UNUSED, "idle")], "decode", ONE_CARD),
        ("answer_is_mostly_thinking", [(Topic.LONG_THINKING, "it thinks")], "load", {}),
        ("slow_model_load", [(Topic.SLOW_SHARE, "weights on NFS")], "decode", {}),
        ("runtime_version_regressed", [(Topic.GOING_BACK_HELPS, "b"), (Topic.GPU_UNUSED, "a")], "decode", ONE_CARD),
        ("queueing", [(Topic.QUEUED, "requests for two models wait")], "total", {}),
    ],
)
def test_it_does_not_decide(cause, said, phase, given):
    remarks = [says(topic, text) for topic, text in said]
    assert not isinstance(ask(cause, pasted(*remarks, slow_metric=phase, **given)), Found)


def test_experts_that_are_copied_and_small_batches():
    given = {**ONE_CARD, "slow_metric": "prefill", "runtime": {"ubatch": 512}}
    experts, copies = says(Topic.EXPERTS_ON_CPU, "experts on the CPU"), says(Topic.COPIES_TO_GPU, "experts are copied")
    assert isinstance(ask("prefill_batch_too_small", pasted(experts, **given)), Found)
    assert isinstance(ask("prefill_pcie_bound", pasted(experts, copies, **given)), Found)
    assert not isinstance(ask("prefill_batch_too_small", pasted(experts, copies, **given)), Found)


def test_one_busy_core_beside_a_gpu_that_is_not():
    core, idle = says(Topic.ONE_CORE_BUSY, "one core at 100 %"), says(Topic.GPU_IDLE, "GPU use at most 60 %")
    given = {**ONE_CARD, "runtime": {"name": "exllamav3"}}
    assert isinstance(ask("kernel_launch_bound", pasted(core, idle, **given)), Found)
    assert isinstance(ask("kernel_launch_bound", pasted(core, **given)), CannotTell)


def test_threads_that_follow_the_host():
    follow, quota = says(Topic.THREADS_OF_HOST, "64 host threads"), says(Topic.CPU_QUOTA, "docker --cpus 8")
    assert isinstance(ask("threads_exceed_cpu_quota", pasted(follow, quota)), Found)
    assert not isinstance(ask("threads_exceed_cpu_quota", pasted(follow)), Found)


def test_idle_cores_count_only_where_the_cpu_computes():
    cores, none = says(Topic.CORES_IDLE, "uses only 4 of 16 cores"), says(Topic.GPU_ABSENT, "no GPU")
    assert isinstance(ask("threads_too_few", pasted(cores, none)), Found)
    assert not isinstance(ask("threads_too_few", pasted(cores, **ONE_CARD)), Found)


def test_threads_that_are_compared_in_words(wording):
    text = "4 threads are much faster than 8"
    worded = Comparison(metric="decode", slow=1, fast=1.5, worded=True, differs=(Topic.THREADS,), text=text, source="r")
    answer = ask("threads_exceed_cores", pasted(worded, says(Topic.GPU_ABSENT, "no GPU")))
    assert isinstance(answer, Found)
    wording(answer.because)
    assert answer.speedup is None


def test_a_draft_that_is_rejected_and_complained_of():
    case = with_facts(
        saying(Topic.DRAFT, "drafting is slow", slow="decode"), {"runtime.sampling.draft_acceptance": 0.07}
    )
    assert isinstance(ask("speculative_decoding_hurts", case), Found)
    case = tried(52.13, 67.73, Topic.DRAFT, text="with draft 52.13 tokens/s, without 67.73")
    assert isinstance(ask("speculative_decoding_hurts", case), Found)
    case = tried(52.13, 67.73, Topic.DRAFT, text="with draft 67.73 tokens/s, without 52.13")
    assert not isinstance(ask("speculative_decoding_hurts", case), Found)


def test_two_versions_that_are_named_are_a_border():
    both = {"version_before": "1.50", "version_since": "1.52"}
    assert isinstance(ask("runtime_version_regressed", pasted(**ONE_CARD, **both)), Found)
    assert not isinstance(ask("runtime_version_regressed", pasted(**ONE_CARD, version_since="1.52")), Found)


@pytest.mark.parametrize(("slow", "decides"), [(20.0, True), (5.0, False)])
def test_an_update_that_costs_too_much_is_more_often_a_gpu_that_is_gone(slow, decides):
    answer = ask("runtime_version_regressed", tried(slow, 40.0, Topic.VERSION))
    assert isinstance(answer, Found) is decides


def test_a_load_that_crawls_from_an_unknown_disk():
    case = with_facts(saying(slow="load"), {"run.load_s": 565.0, "model.weights_bytes": 17_000_000_000})
    assert isinstance(ask("slow_model_load", case), Found)
    assert not isinstance(ask("slow_model_load", with_facts(saying(slow="decode", case=case), {})), Found)


def test_all_cores_of_a_hybrid_cpu():
    facts = {"machine.cpu.performance_cores": 4, "machine.cpu.efficiency_cores": 4}
    busy = says(Topic.CPU_BUSY, "all 8 cores busy now")
    updated = Comparison(metric="decode", slow=3.8, fast=6.9, differs=(Topic.VERSION,), source="r")
    assert isinstance(ask("threads_on_efficiency_cores", with_facts(pasted(busy, updated), facts)), Found)
    unexplained = msgspec.structs.replace(updated, differs=())
    assert not isinstance(ask("threads_on_efficiency_cores", with_facts(pasted(busy, unexplained), facts)), Found)
    assert not isinstance(ask("threads_on_efficiency_cores", with_facts(pasted(busy), facts)), Found)


def test_a_person_who_names_the_runtime_writes_a_report():
    case = with_facts(Case(), {"runtime.sampling.top_k": 0})
    assert not isinstance(ask("sampling_on_cpu", case), Found)
    named = with_facts(case, {})
    runtime = type(named.runtime)(name=told_fact("llama.cpp", "paste:1"), sampling=named.runtime.sampling)
    assert isinstance(ask("sampling_on_cpu", type(case)(runtime=runtime)), Found)
