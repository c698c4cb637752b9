"""Serving engines on several GPUs: where their weights are, and what a token waits for."""

import pytest
from cases import gpu_case, r, with_facts
from engines import vllm
from made_up_telemetry import traffic

from unslow.facts.runtime import SO_FAR, Buffer
from unslow.facts.values import GB, GIB, Unknown, estimated_fact, not_found
from unslow.think.case.cure import EVERYTHING, Cure
from unslow.think.case.gpus import GpuSplit
from unslow.think.case.sharing import MOST_PROMPTS
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge

BOARD = ("NVIDIA H100 80GB HBM3",) * 2
LINKED = {f"machine.gpus.{i}.nvlinks_active": 18 for i in (0, 1)}


def rate(case, cure=None):
    return CaseView(case).speed.predict(cure).tokens_per_s.mid


def test_gpu_split_follows_tensor_and_pipeline_parallel():
    assert CaseView(vllm()).gpus.split_over(2) == GpuSplit(2, cuts_layers=True)
    assert CaseView(vllm(tensor_parallel=1)).gpus.split_over(2) == GpuSplit(1, cuts_layers=False)
    assert CaseView(vllm(tensor_parallel=1, **{"runtime.placement.pipeline_parallel": 2})).gpus.split_over(
        2
    ) == GpuSplit(2, cuts_layers=False)
    assert CaseView(gpu_case()).gpus.split_over(1) == GpuSplit(1, cuts_layers=False)


def test_tensor_parallel_reads_layers_on_all_gpus_at_once():
    cut, alone = rate(vllm()), rate(vllm(), Cure(one_gpu=True))
    assert 1.2 < cut / alone < 2
    assert rate(vllm(), Cure(by_layers=True)) < cut
    assert CaseView(vllm()).speed.predict().ceiling > 1.9 * CaseView(vllm(tensor_parallel=1)).speed.predict().ceiling


def test_nvlink_speeds_up_tensor_parallel():
    apart = {f"machine.gpus.{i}.nvlinks_active": 0 for i in (0, 1)}
    assert rate(vllm(BOARD, **LINKED)) > 1.1 * rate(vllm(BOARD, **apart))


def test_slowest_gpu_sets_the_pace():
    mixed = vllm(("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"))
    assert rate(mixed) < rate(vllm())


def test_nvlink_bridges_join_only_pairs():
    pair = vllm(("NVIDIA GeForce RTX 3090",) * 2, **{f"machine.gpus.{i}.nvlinks_active": 4 for i in (0, 1)})
    assert CaseView(pair).gpus.have_fast_links is True
    four = with_facts(pair, {"machine.gpus": r(pair.machine.gpus.need() * 2)})
    assert CaseView(four).gpus.have_fast_links is False


def test_log_of_one_worker_does_not_limit_the_gpu_layers():
    one = vllm(**{"runtime.memory.buffers": [Buffer(device="GPU0", kind="model", bytes=8 * GB, on_gpu=True)]})
    shape = CaseView(one).memory.shape
    assert CaseView(one).placement.read(shape).gpu_layers == shape.layers
    assert CaseView(one).placement.computes_all_on_gpus
    assert not CaseView(vllm(**{"runtime.placement.device_used": "cpu"})).placement.computes_all_on_gpus
    assert not CaseView(gpu_case()).placement.computes_all_on_gpus


def test_cpu_offloaded_weights_cross_the_link_for_every_token():
    kept = vllm(**{"runtime.placement.cpu_offload_bytes": 10 * GIB})
    assert CaseView(kept).physics.fetched_bytes(Cure()) == 10 * GIB
    assert CaseView(kept).physics.fetched_bytes(EVERYTHING) == 0
    assert CaseView(gpu_case()).physics.fetched_bytes(Cure()) == 0
    assert rate(kept) < rate(vllm()) / 5


def test_accelerate_meta_weights_are_fetched():
    buffers = [
        Buffer(device=device, kind="model", bytes=size * GIB, on_gpu=device == "cuda:0")
        for device, size in (("cuda:0", 10), ("meta", 5))
    ]
    case = with_facts(gpu_case(), {"runtime.name": "Transformers", "runtime.memory.buffers": buffers})
    assert CaseView(case).physics.fetched_bytes(Cure()) == 5 * GIB


def test_requests_are_divided_among_data_parallel_copies():
    watched = {"run.traffic": traffic(16.0, 0.0), "run.decode_tokens_per_s": not_found("busy")}
    assert CaseView(vllm(tensor_parallel=1)).gpus.model_copies == 2
    assert CaseView(vllm()).gpus.model_copies == 1
    assert CaseView(vllm(tensor_parallel=1, **watched)).sharing.requests_at_once == 8
    assert CaseView(vllm(**watched)).sharing.requests_at_once == 16


def mean(**facts):
    unmeasured = {"run.decode_tokens_per_s": not_found("passive")}
    counted = {"runtime.history.decode_tokens_per_s": estimated_fact(20.0, f"/metrics: mean, {SO_FAR}")}
    return vllm(**unmeasured, **counted, **facts)


def test_mean_over_all_requests_is_not_the_speed_of_one():
    assert isinstance(CaseView(mean()).speed.measured_rate, Unknown)
    assert judge(CaseView(mean())).verdict == "cannot_tell"
    assert CaseView(mean(**{"runtime.scheduling.max_sequences": 1})).speed.measured_rate.value == 20
    assert CaseView(mean(**{"run.traffic": traffic(8.0, 0.0)})).speed.measured_rate.value == 20


def test_past_mean_wait_is_not_a_current_queue():
    waited = {"run.queue_s": estimated_fact(4.2, "/metrics: sum / count")}
    past, now = (
        vllm(**waited, **{"runtime.scheduling.deferred_requests": 0}),
        vllm(**waited, **{"runtime.scheduling.deferred_requests": 9}),
    )
    assert CaseView(past).waits.is_mean_of_past
    assert not CaseView(now).waits.is_mean_of_past
    assert CaseView(past).waits.queue_s is None
    assert CaseView(now).waits.queue_s == 4.2
    assert "queueing" not in [finding.cause for finding in judge(CaseView(past)).findings]
    assert "queue_s" not in judge(CaseView(past)).measured


def watched(prompts_per_s: float, among: float = 4.0, **meanwhile: float):
    each = {"each_tokens_per_s": r(8.0), "each_among": among, "prompt_tokens_per_s": r(prompts_per_s)}
    each |= {name: r(read) for name, read in meanwhile.items()}
    return vllm(**{"run.traffic": traffic(among, 0.0, **each), "run.decode_tokens_per_s": not_found("busy")})


def test_prefill_of_other_requests_takes_its_share_of_steps():
    able = CaseView(watched(0.0)).speed.predict_prefill().tokens_per_s.mid
    assert CaseView(watched(0.0)).sharing.prompts_share() == 0
    assert CaseView(watched(able / 2)).sharing.prompts_share() == pytest.approx(0.375), (
        "one of the four prompts is its own"
    )
    assert CaseView(watched(able / 2, among=1.0)).sharing.prompts_share() == 0, "who is alone waits for nobody's prompt"
    assert CaseView(watched(9 * able)).sharing.prompts_share() == MOST_PROMPTS
    quiet, half = (CaseView(watched(read)).sharing.predict_among_others().seconds.mid for read in (0.0, able / 2))
    assert half == pytest.approx(quiet / (1 - 0.375))


def test_prompts_that_came_in_a_wave_do_not_count_for_the_answers_between_waves():
    able = CaseView(watched(0.0)).speed.predict_prefill().tokens_per_s.mid
    assert CaseView(watched(able / 2, each_prompt_tokens_per_s=0.0)).sharing.prompts_share() == 0
    assert CaseView(watched(0.0, each_prompt_tokens_per_s=able / 2)).sharing.prompts_share() == pytest.approx(0.375)


def test_long_prompts_of_others_cost_more_per_token():
    usual, long = watched(1000.0), with_facts(watched(1000.0), {"run.depth_tokens": 32_000})
    assert (
        CaseView(long).speed.predict_prefill().tokens_per_s.mid
        < 0.9 * CaseView(usual).speed.predict_prefill().tokens_per_s.mid
    )
    assert CaseView(long).sharing.prompts_share() > 1.1 * CaseView(usual).sharing.prompts_share()
    short = with_facts(usual, {"run.depth_tokens": 300})
    assert CaseView(short).sharing.prompts_share() == CaseView(usual).sharing.prompts_share(), (
        "several short ones are computed together"
    )


def test_prefill_saturated_server_has_a_wide_decode_interval():
    able = CaseView(watched(0.0)).speed.predict_prefill().tokens_per_s.mid
    half, whole = (CaseView(watched(share * able)).sharing.predict_among_others().seconds for share in (0.5, 1.2))
    quiet = CaseView(watched(0.0)).sharing.predict_among_others().seconds.mid
    assert whole.high > quiet / 0.03, "3 % of the time are left for answers, and that is no fault"
    assert half.high < 5 * quiet


def test_prefill_bound_server_is_normal_and_says_so(wording):
    report = judge(CaseView(watched(1e6)))
    assert report.verdict == "normal"
    wording(report.summary)
    assert "--max-num-batched-tokens" in report.summary
    assert judge(CaseView(watched(0.0))).verdict == "slow"
