from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from several_gpus import two_gpus
from under_load import tried

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "fits_on_one_gpu"


def fires():
    return two_gpus(**{"runtime.tensor_parallel": 2, "run.decode_tokens_per_s": 25.0})


def test_five_of_twenty_four_gib_split_over_two(wording):
    report = judge(fires())
    assert NAME in [f.cause for f in report.findings]
    wording(ask(NAME, fires()).because, tells=("4.6 GiB", "24.0 GiB"))
    assert ask(NAME, fires()).remedies[0].change.value == "none"


def test_near_miss_a_model_that_needs_both():
    assert isinstance(ask(NAME, two_gpus(held=(20.0, 20.0), **{"runtime.tensor_parallel": 2})), Absent)


def test_a_split_by_layers_costs_next_to_nothing():
    assert isinstance(ask(NAME, two_gpus(**{"runtime.split_mode": "layer"})), Absent)


def test_a_good_speed_and_one_gpu():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 160.0})), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_a_trial_on_one_gpu():
    text = "one GPU 31 tok/s, both GPUs 20 tok/s"
    answer = ask(NAME, tried(20.0, 31.0, Topic.GPU_COUNT, case=two_gpus(), text=text))
    assert isinstance(answer, Found)
    assert answer.speedup == 31.0 / 20.0
    assert isinstance(ask(NAME, tried(30.0, 31.0, Topic.GPU_COUNT)), Absent)
    assert isinstance(ask(NAME, tried(20.0, 31.0, Topic.GPU_COUNT)), CannotTell)
    assert isinstance(ask(NAME, tried(20.0, 31.0, Topic.GPU_COUNT, text=text)), CannotTell)
    gain = tried(10.0, 20.0, Topic.GPU_COUNT, case=two_gpus(), text="1 GPU: 10 t/s, 2 GPUs: 20 t/s")
    assert isinstance(ask(NAME, gain), Absent)


def test_it_is_the_root_of_what_the_links_cost():
    report = judge(two_gpus(**{"runtime.split_mode": "row", "run.decode_tokens_per_s": 20.0}))
    assert [f.cause for f in report.findings] == [NAME, "multi_gpu_link_bound"]
    assert report.findings[0].cost.seconds > 0


def test_an_engine_whose_cache_fills_both_gpus_all_the_same():
    filled = [Buffer(device=f"GPU{i}", kind="kv", bytes=12 * GIB, on_gpu=True) for i in (0, 1)]
    case = vllm(**{"runtime.buffers": filled, "run.decode_tokens_per_s": 25.0, "runtime.context_length": 4096})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    finding = next(f for f in judge(case).findings if f.cause == NAME)
    assert 40 < finding.fixes[0].predicted["decode_tokens_per_s"] < 60, "what one of them gives, not both"


def test_near_miss_one_gpu_alone_would_be_no_faster():
    assert isinstance(ask(NAME, vllm(**{"run.decode_tokens_per_s": 55.0, "runtime.context_length": 4096})), Absent)


def test_near_miss_modules_with_links_of_their_own_are_slow_for_another_reason(wording):
    h100 = "NVIDIA H100 80GB HBM3"
    slow = vllm((h100, h100), **{"run.decode_tokens_per_s": 25.0, "runtime.context_length": 4096})
    answer = ask(NAME, slow)
    assert isinstance(answer, Absent)
    wording(answer.because)
