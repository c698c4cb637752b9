from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from several_gpus import two_gpus
from under_load import tried

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "fits_on_one_gpu"


def fires():
    return two_gpus(**{"runtime.placement.tensor_parallel": 2, "run.decode_tokens_per_s": 25.0})


def test_small_model_split_over_two_gpus_is_found(wording):
    report = judge(CaseView(fires()))
    assert NAME in [f.cause for f in report.findings]
    wording(ask(NAME, fires()).because, tells=("4.6 GiB", "24.0 GiB"))
    assert ask(NAME, fires()).remedies[0].change.value == "none"


def test_model_that_needs_both_gpus_is_ruled_out():
    assert isinstance(ask(NAME, two_gpus(held=(20.0, 20.0), **{"runtime.placement.tensor_parallel": 2})), Absent)


def test_layer_split_is_ruled_out():
    assert isinstance(ask(NAME, two_gpus(**{"runtime.placement.split_mode": "layer"})), Absent)


def test_expected_speed_or_one_gpu_rules_it_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 160.0})), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_trial_on_one_gpu_decides_if_it_names_its_sides():
    text = "one GPU 31 tok/s, both GPUs 20 tok/s"
    answer = ask(NAME, tried(20.0, 31.0, Topic.GPU_COUNT, case=two_gpus(), text=text))
    assert isinstance(answer, Found)
    assert answer.speedup == 31.0 / 20.0
    assert isinstance(ask(NAME, tried(30.0, 31.0, Topic.GPU_COUNT)), Absent)
    assert isinstance(ask(NAME, tried(20.0, 31.0, Topic.GPU_COUNT)), CannotTell)
    assert isinstance(ask(NAME, tried(20.0, 31.0, Topic.GPU_COUNT, text=text)), CannotTell)
    gain = tried(10.0, 20.0, Topic.GPU_COUNT, case=two_gpus(), text="1 GPU: 10 t/s, 2 GPUs: 20 t/s")
    assert isinstance(ask(NAME, gain), Absent)


def test_it_explains_multi_gpu_link_bound():
    report = judge(CaseView(two_gpus(**{"runtime.placement.split_mode": "row", "run.decode_tokens_per_s": 20.0})))
    assert [f.cause for f in report.findings] == [NAME, "multi_gpu_link_bound"]
    assert report.findings[0].cost.seconds > 0


def test_engine_that_fills_both_gpus_with_kv_cache_counts_one_request():
    filled = [Buffer(device=f"GPU{i}", kind="kv", bytes=12 * GIB, on_gpu=True) for i in (0, 1)]
    case = vllm(**{"runtime.memory.buffers": filled, "run.decode_tokens_per_s": 25.0, "runtime.context.length": 4096})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    finding = next(f for f in judge(CaseView(case)).findings if f.cause == NAME)
    assert 40 < finding.fixes[0].predicted["decode_tokens_per_s"] < 60, "what one of them gives, not both"


def test_one_gpu_that_would_not_be_faster_is_ruled_out():
    assert isinstance(ask(NAME, vllm(**{"run.decode_tokens_per_s": 55.0, "runtime.context.length": 4096})), Absent)


def test_slow_linked_modules_are_ruled_out(wording):
    h100 = "NVIDIA H100 80GB HBM3"
    slow = vllm((h100, h100), **{"run.decode_tokens_per_s": 25.0, "runtime.context.length": 4096})
    answer = ask(NAME, slow)
    assert isinstance(answer, Absent)
    wording(answer.because)
