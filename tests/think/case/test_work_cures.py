"""What settings cost, and the gain without them: cures never slow a case down, in any order."""

from functools import reduce

import msgspec
import pytest
from cases import LAYER_MIB, OUTPUT_MIB, cpu_case, gpu_case, r, with_facts, with_tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.run import LongPrompt, TrialInTurns
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB
from unslow.think.case.cure import EVERYTHING, Cure
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.physics.token_time import LOGITS_S_PER_ENTRY

CACHE_ON_HOST = [
    Buffer(device="CUDA0", kind="model", bytes=(32 * LAYER_MIB + OUTPUT_MIB) * MIB, on_gpu=True),
    Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False),
]


def mixture(**more: object) -> Case:
    """A mixture of 128 experts, all of which an override keeps on the host."""
    facts = {
        "model.experts": 128, "model.experts_used": 8, "model.expert_bytes": int(0.95 * 32 * LAYER_MIB * MIB),
        "runtime.placement.tensor_overrides": ["--cpu-moe"],
        "runtime.memory.buffers": [
            Buffer(device="CUDA0", kind="model", bytes=int((0.05 * 32 * LAYER_MIB + OUTPUT_MIB) * MIB), on_gpu=True),
            Buffer(device="CPU", kind="model", bytes=int(0.95 * 32 * LAYER_MIB * MIB), on_gpu=False),
        ],
    }  # fmt: skip
    return with_facts(gpu_case(), {**facts, **more})


CASES = {
    "healthy": gpu_case(),
    "cpu": cpu_case(),
    "tensors": with_tensors(gpu_case(20)),
    "few layers": gpu_case(20),
    "cache on the host": with_facts(gpu_case(), {"runtime.memory.buffers": CACHE_ON_HOST, "run.depth_tokens": 2000}),
    "output on the host": with_facts(gpu_case(), {"runtime.placement.tensor_overrides": ["output.weight=CPU"]}),
    "experts on the host": mixture(),
    "a sort": with_facts(gpu_case(), {"runtime.sampling.top_k": 0}),
    "too many threads": with_facts(cpu_case(), {"runtime.compute.threads": 16}),
    "too few threads": with_facts(cpu_case(), {"runtime.compute.threads": 1}),
    "a quota": with_facts(cpu_case(), {"machine.cpu.quota_cpus": 1.0}),
    "half a CPU": with_facts(cpu_case(), {"machine.cpu.quota_cpus": 0.5}),
    "small batches": with_facts(gpu_case(20), {"runtime.compute.ubatch": 64}),
    "eager": with_facts(gpu_case(), {"runtime.name": "Transformers", "runtime.compute.eager": True}),
    "no flash attention": with_facts(gpu_case(), {"runtime.compute.flash_attention": False, "run.depth_tokens": 8000}),
}
cures = st.builds(
    Cure,
    only_own_memory=st.none(),  # it takes away what a driver lent, which physics never counted as slow
    threads=st.none(), quota_cpus=st.none() | st.floats(0.1, 64),
    vram_bytes=st.none() | st.floats(0, 1e12), context=st.none() | st.integers(256, 131072),
    flash_attention=st.none() | st.just(True), kv_on_gpu=st.none() | st.just(True),
    output_on_gpu=st.none() | st.just(True), experts_on_gpu=st.none() | st.just(True),
    ubatch=st.none() | st.sampled_from([512, 2048]), plain_sampling=st.none() | st.just(True),
    alone=st.none() | st.just(True), graphs=st.none() | st.just(True),
)  # fmt: skip
LEARNED = 1.002
"""What was learned of flash attention on one token is nought, give or take so much."""


def seconds(case: Case, cure: Cure | None = None, ask: str = "predict") -> float:
    found = getattr(CaseView(case).speed, ask)(cure)
    assert isinstance(found, Prediction)
    return found.seconds.mid


@pytest.mark.no_cover  # many cures through the same lines
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_cure_never_slows_down_and_empty_cure_changes_nothing(name, data):
    case, cure = CASES[name], data.draw(cures)
    assert seconds(case, cure) <= seconds(case) * LEARNED
    assert CaseView(case).speed.predict(Cure()) == CaseView(case).speed.predict()
    assert CaseView(case).speed.predict_prefill(Cure()) == CaseView(case).speed.predict_prefill()


@pytest.mark.no_cover  # many cures through the same lines
@given(st.lists(cures, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_order_of_cures_does_not_matter(some, random):
    shuffled = random.sample(some, len(some))
    assert reduce(Cure.and_also, some) == reduce(Cure.and_also, shuffled)


@pytest.mark.parametrize(
    ("name", "cure", "part"),
    [
        ("cache on the host", Cure(kv_on_gpu=True), "copies of keys and values"),
        ("output on the host", Cure(output_on_gpu=True), "host memory reads"),
        ("experts on the host", Cure(experts_on_gpu=True), "crossings to the host"),
        ("experts on the host", EVERYTHING, "host memory reads"),
        ("a sort", Cure(plain_sampling=True), "sorting the vocabulary"),
        ("too many threads", Cure(threads=2), "threads in each other's way"),
        ("a quota", Cure(threads=1), "stopped by the quota"),
        ("eager", Cure(graphs=True), "launches one by one"),
    ],
)
def test_cure_removes_the_part_of_its_setting(name, cure, part):
    now, then = CaseView(CASES[name]).speed.predict(), CaseView(CASES[name]).speed.predict(cure)
    assert isinstance(now, Prediction)
    assert isinstance(then, Prediction)
    assert part in [p.name for p in now.parts]
    assert part not in [p.name for p in then.parts]
    assert then.seconds.mid < now.seconds.mid


def test_two_threads_beat_one_and_sixteen_are_slower_than_two():
    one, two, sixteen = (seconds(CASES[n]) for n in ("too few threads", "cpu", "too many threads"))
    assert two < one
    assert sixteen > two
    assert seconds(CASES["too few threads"], Cure(threads=2)) == pytest.approx(two)


def test_quota_of_one_cpu_halves_two_threads():
    sampling = 128_256 * LOGITS_S_PER_ENTRY
    assert (seconds(CASES["a quota"]) - sampling) / (seconds(CASES["cpu"]) - sampling) == pytest.approx(2)
    assert seconds(CASES["a quota"], Cure(threads=1)) < seconds(CASES["a quota"])


def test_sampling_trial_wins_over_the_estimate():
    tried = TrialInTurns(changed="greedy", as_set_tokens_per_s=50, changed_tokens_per_s=100)
    case = with_facts(gpu_case(), {"run.plain_sampling": tried, "run.decode_tokens_per_s": 50.0})
    assert seconds(case) - seconds(case, Cure(plain_sampling=True)) == pytest.approx(0.01)


def test_experts_on_host_cost_only_the_active_experts():
    """Attention stays with the GPU: only the few experts that a token uses are read from the host's memory."""
    whole_layers = with_facts(mixture(), {"runtime.placement.tensor_overrides": [], "runtime.placement.gpu_layers": 1})
    assert seconds(CASES["experts on the host"]) < 0.7 * seconds(whole_layers)


def test_experts_move_to_the_gpu_as_far_as_they_fit():
    roomy = CASES["experts on the host"]
    devices = [msgspec.structs.replace(d, free_bytes=r(4 * GIB)) for d in roomy.runtime.placement.devices.need()]
    tight = with_facts(roomy, {"runtime.placement.devices": devices})
    some, all_of_them = (seconds(case, Cure(experts_on_gpu=True)) for case in (tight, roomy))
    assert seconds(tight) > some > all_of_them


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("small batches", Cure(ubatch=512)),
        ("few layers", EVERYTHING),
        ("cache on the host", Cure(kv_on_gpu=True)),
        ("experts on the host", Cure(experts_on_gpu=True)),
        ("no flash attention", Cure(flash_attention=True)),
        ("eager", Cure(graphs=True)),
    ],
)
def test_cures_speed_up_prefill(name, cure):
    assert seconds(CASES[name], cure, "predict_prefill") < seconds(CASES[name], None, "predict_prefill")


def test_longer_prompt_takes_longer_attention():
    short, long = (
        with_facts(gpu_case(), {"run.long_prompt": LongPrompt(tokens=n, seconds=1.0)}) for n in (1000, 60_000)
    )
    assert seconds(long, None, "predict_prefill") > seconds(short, None, "predict_prefill")
