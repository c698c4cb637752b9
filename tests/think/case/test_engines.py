"""Engines that serve many, on several GPUs: where their weights lie, and what a token waits for."""

import pytest
from cases import gpu_case, r, with_facts
from engines import vllm
from made_up_telemetry import traffic

from unslow.facts.runtime import SO_FAR, Buffer
from unslow.facts.values import GB, GIB, Unknown, estimated, not_found
from unslow.think.case.bandwidth import GpuSplit, copies_of, gpu_split_of, has_fast_links
from unslow.think.case.demand import read_shape
from unslow.think.case.placement import computes_all_on_gpus, read_placement
from unslow.think.case.prediction import measured_rate, predict, predict_prefill
from unslow.think.case.slowness import MOST_PROMPTS, predict_among_others, prompts_share, requests_at_once
from unslow.think.case.waits import is_history, queue_s
from unslow.think.case.work import EVERYTHING, Cure, fetched_bytes
from unslow.think.judge.judge import judge

BOARD = ("NVIDIA H100 80GB HBM3",) * 2
LINKED = {f"machine.gpus.{i}.nvlinks_active": 18 for i in (0, 1)}


def rate(case, cure=None):
    return predict(case, cure).tokens_per_s.mid


def test_a_token_goes_over_the_gpus_that_share_its_layers():
    assert gpu_split_of(vllm(), 2) == GpuSplit(2, cuts_layers=True)
    assert gpu_split_of(vllm(tensor_parallel=1), 2) == GpuSplit(1, cuts_layers=False)
    assert gpu_split_of(vllm(tensor_parallel=1, **{"runtime.pipeline_parallel": 2}), 2) == GpuSplit(
        2, cuts_layers=False
    )
    assert gpu_split_of(gpu_case(), 1) == GpuSplit(1, cuts_layers=False)


def test_layers_that_are_cut_are_read_by_all_gpus_at_once():
    cut, alone = rate(vllm()), rate(vllm(), Cure(one_gpu=True))
    assert 1.2 < cut / alone < 2
    assert rate(vllm(), Cure(by_layers=True)) < cut
    assert predict(vllm()).ceiling > 1.9 * predict(vllm(tensor_parallel=1)).ceiling


def test_links_of_their_own_make_gathering_cheap():
    apart = {f"machine.gpus.{i}.nvlinks_active": 0 for i in (0, 1)}
    assert rate(vllm(BOARD, **LINKED)) > 1.1 * rate(vllm(BOARD, **apart))


def test_a_slower_gpu_sets_the_pace_of_all():
    mixed = vllm(("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"))
    assert rate(mixed) < rate(vllm())


def test_bridges_join_pairs():
    pair = vllm(("NVIDIA GeForce RTX 3090",) * 2, **{f"machine.gpus.{i}.nvlinks_active": 4 for i in (0, 1)})
    assert has_fast_links(pair) is True
    four = with_facts(pair, {"machine.gpus": r(pair.machine.gpus.need() * 2)})
    assert has_fast_links(four) is False


def test_what_one_worker_logs_is_not_all_that_lies_on_gpus():
    one = vllm(**{"runtime.buffers": [Buffer(device="GPU0", kind="model", bytes=8 * GB, on_gpu=True)]})
    shape = read_shape(one)
    assert read_placement(one, shape).gpu_layers == shape.layers
    assert computes_all_on_gpus(one)
    assert not computes_all_on_gpus(vllm(**{"runtime.device_used": "cpu"}))
    assert not computes_all_on_gpus(gpu_case())


def test_weights_in_the_hosts_memory_cross_the_link_for_every_token():
    kept = vllm(**{"runtime.cpu_offload_bytes": 10 * GIB})
    assert fetched_bytes(kept, Cure()) == 10 * GIB
    assert fetched_bytes(kept, EVERYTHING) == 0
    assert fetched_bytes(gpu_case(), Cure()) == 0
    assert rate(kept) < rate(vllm()) / 5


def test_accelerate_fetches_what_does_not_fit():
    buffers = [
        Buffer(device=device, kind="model", bytes=size * GIB, on_gpu=device == "cuda:0")
        for device, size in (("cuda:0", 10), ("meta", 5))
    ]
    case = with_facts(gpu_case(), {"runtime.name": "Transformers", "runtime.buffers": buffers})
    assert fetched_bytes(case, Cure()) == 5 * GIB


def test_requests_share_the_steps_of_one_copy():
    watched = {"run.traffic": traffic(16.0, 0.0), "run.decode_tokens_per_s": not_found("busy")}
    assert copies_of(vllm(tensor_parallel=1)) == 2
    assert copies_of(vllm()) == 1
    assert requests_at_once(vllm(tensor_parallel=1, **watched)) == 8
    assert requests_at_once(vllm(**watched)) == 16


def mean(**facts):
    unmeasured = {"run.decode_tokens_per_s": not_found("passive")}
    counted = {"runtime.decode_tokens_per_s": estimated(20.0, f"/metrics: mean, {SO_FAR}")}
    return vllm(**unmeasured, **counted, **facts)


def test_a_mean_of_all_requests_so_far_is_no_speed_of_one():
    assert isinstance(measured_rate(mean()), Unknown)
    assert judge(mean()).verdict == "cannot_tell"
    assert measured_rate(mean(**{"runtime.max_sequences": 1})).value == 20
    assert measured_rate(mean(**{"run.traffic": traffic(8.0, 0.0)})).value == 20


def test_a_mean_wait_of_the_past_is_no_queue_of_now():
    waited = {"run.queue_s": estimated(4.2, "/metrics: sum / count")}
    past, now = vllm(**waited, **{"runtime.deferred_requests": 0}), vllm(**waited, **{"runtime.deferred_requests": 9})
    assert is_history(past)
    assert not is_history(now)
    assert queue_s(past) is None
    assert queue_s(now) == 4.2
    assert "queueing" not in [finding.cause for finding in judge(past).findings]
    assert "queue_s" not in judge(past).measured


def watched(prompts_per_s: float, among: float = 4.0):
    each = {"each_tokens_per_s": r(8.0), "each_among": among, "prompt_tokens_per_s": r(prompts_per_s)}
    return vllm(**{"run.traffic": traffic(among, 0.0, **each), "run.decode_tokens_per_s": not_found("busy")})


def test_prompts_of_others_take_their_part_of_every_step():
    able = predict_prefill(watched(0.0)).tokens_per_s.mid
    assert prompts_share(watched(0.0)) == 0
    assert prompts_share(watched(able / 2)) == pytest.approx(0.375), "one of the four prompts is its own"
    assert prompts_share(watched(able / 2, among=1.0)) == 0, "who is alone waits for nobody's prompt"
    assert prompts_share(watched(9 * able)) == MOST_PROMPTS
    quiet, half = (predict_among_others(watched(read)).seconds.mid for read in (0.0, able / 2))
    assert half == pytest.approx(quiet / (1 - 0.375))


def test_long_prompts_of_others_take_longer_for_each_token():
    usual, long = watched(1000.0), with_facts(watched(1000.0), {"run.depth_tokens": 32_000})
    assert predict_prefill(long).tokens_per_s.mid < 0.9 * predict_prefill(usual).tokens_per_s.mid
    assert prompts_share(long) > 1.1 * prompts_share(usual)
    short = with_facts(usual, {"run.depth_tokens": 300})
    assert prompts_share(short) == prompts_share(usual), "several short ones are computed together"


def test_of_a_server_that_prompts_take_whole_nobody_knows_how_fast_its_answers_should_be():
    able = predict_prefill(watched(0.0)).tokens_per_s.mid
    half, whole = (predict_among_others(watched(share * able)).seconds for share in (0.5, 1.2))
    quiet = predict_among_others(watched(0.0)).seconds.mid
    assert whole.high > quiet / 0.03, "3 % of the time are left for answers, and that is no fault"
    assert half.high < 5 * quiet


def test_a_server_that_reads_prompts_most_of_the_time_says_so(wording):
    report = judge(watched(1e6))
    assert report.verdict == "normal"
    wording(report.summary)
    assert "--max-num-batched-tokens" in report.summary
    assert judge(watched(0.0)).verdict == "slow"
