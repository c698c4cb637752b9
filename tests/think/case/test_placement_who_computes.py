"""Whether the CPU computes a part of the model, and how many GPUs do."""

import pytest
from cases import cpu_case, gpu_case, with_facts
from several_gpus import two_gpus
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView


def test_cpu_computes_by_layers_vram_share_or_machine():
    assert CaseView(cpu_case()).placement.cpu_computes is True
    assert CaseView(gpu_case()).placement.cpu_computes is False
    assert CaseView(gpu_case(layers_on_gpu=20)).placement.cpu_computes is True
    assert CaseView(with_facts(Case(), {"runtime.memory.vram_share": 0.5})).placement.cpu_computes is True
    assert CaseView(with_facts(Case(), {"runtime.memory.vram_share": 1.0})).placement.cpu_computes is False
    assert CaseView(Case()).placement.cpu_computes is None
    assert CaseView(saying(Topic.GPU_ABSENT, "no GPU")).placement.cpu_computes is True


def test_cpu_computes_experts_left_on_the_host():
    left = Buffer(device="CPU_Mapped", kind="model", bytes=20 * GIB, on_gpu=False)
    case = gpu_case()
    assert (
        CaseView(
            with_facts(case, {"runtime.memory.buffers": [*case.runtime.memory.buffers.value, left]})
        ).placement.cpu_computes
        is True
    )


@pytest.mark.parametrize(
    ("facts", "count"),
    [({}, None), ({"runtime.placement.tensor_parallel": 4}, 4), ({"runtime.placement.split_mode": "none"}, 1)],
)
def test_computing_gpus_follow_tensor_parallel_and_split_mode(facts, count):
    assert CaseView(with_facts(Case(), facts)).gpus.computing_count == count


def test_computing_gpus_follow_buffers():
    assert CaseView(two_gpus()).gpus.computing_count == 2
    assert CaseView(gpu_case()).gpus.computing_count == 1
    assert CaseView(cpu_case()).gpus.computing_count == 0


def test_no_gpu_is_concluded_only_when_certain():
    assert CaseView(cpu_case()).placement.uses_no_gpu
    assert not CaseView(gpu_case()).placement.uses_no_gpu
    assert not CaseView(Case()).placement.uses_no_gpu
    assert CaseView(
        with_facts(Case(), {"runtime.process.environment": {"HIP_VISIBLE_DEVICES": "-1"}})
    ).placement.uses_no_gpu
    assert not CaseView(
        with_facts(gpu_case(), {"runtime.process.environment": {"CUDA_VISIBLE_DEVICES": ""}})
    ).placement.uses_no_gpu
