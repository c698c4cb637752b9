"""Whether the CPU has a part of the model, and how many GPUs have."""

import pytest
from cases import cpu_case, gpu_case, with_facts
from several_gpus import two_gpus
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.placement import cpu_computes, gpus_computing, uses_no_gpu


def test_by_layers_by_share_and_by_machine():
    assert cpu_computes(cpu_case()) is True
    assert cpu_computes(gpu_case()) is False
    assert cpu_computes(gpu_case(layers_on_gpu=20)) is True
    assert cpu_computes(with_facts(Case(), {"runtime.vram_share": 0.5})) is True
    assert cpu_computes(with_facts(Case(), {"runtime.vram_share": 1.0})) is False
    assert cpu_computes(Case()) is None
    assert cpu_computes(saying(Topic.GPU_ABSENT, "no GPU")) is True


def test_all_layers_counted_and_experts_left_behind():
    left = Buffer(device="CPU_Mapped", kind="model", bytes=20 * GIB, on_gpu=False)
    case = gpu_case()
    assert cpu_computes(with_facts(case, {"runtime.buffers": [*case.runtime.buffers.value, left]})) is True


@pytest.mark.parametrize(
    ("facts", "count"), [({}, None), ({"runtime.tensor_parallel": 4}, 4), ({"runtime.split_mode": "none"}, 1)]
)
def test_gpus_that_compute(facts, count):
    assert gpus_computing(with_facts(Case(), facts)) == count


def test_gpus_that_hold_a_part():
    assert gpus_computing(two_gpus()) == 2
    assert gpus_computing(gpu_case()) == 1
    assert gpus_computing(cpu_case()) == 0


def test_no_gpu_computes_only_where_that_is_sure():
    assert uses_no_gpu(cpu_case())
    assert not uses_no_gpu(gpu_case())
    assert not uses_no_gpu(Case())
    assert uses_no_gpu(with_facts(Case(), {"runtime.environment": {"HIP_VISIBLE_DEVICES": "-1"}}))
    assert not uses_no_gpu(with_facts(gpu_case(), {"runtime.environment": {"CUDA_VISIBLE_DEVICES": ""}}))
