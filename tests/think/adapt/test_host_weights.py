"""Weights in the host's memory, and the link they would cross."""

import pytest
from cases import gpu_case, with_facts
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import MissingFactError
from unslow.think.adapt.host_weights import host_link_bytes_per_s, host_weights_bytes


def test_as_allocated_less_the_token_table():
    buffers = [Buffer(device="CUDA0", kind="model", bytes=GIB, on_gpu=True)]
    buffers += [Buffer(device="CPU_Mapped", kind="model", bytes=3 * GIB, on_gpu=False)]
    assert host_weights_bytes(with_facts(gpu_case(), {"runtime.buffers": buffers})) == 3 * GIB - 282 * MIB


def test_by_share_by_layers_and_by_experts():
    sized = with_facts(Case(), {"model.weights_bytes": 100 * GIB})
    assert host_weights_bytes(with_facts(sized, {"runtime.vram_share": 0.25})) == 75 * GIB
    counted = with_facts(sized, {"runtime.gpu_layers": 30, "runtime.layers": 40})
    assert host_weights_bytes(counted) == 25 * GIB
    assert host_weights_bytes(saying(Topic.EXPERTS_ON_CPU, "experts on the CPU", case=sized)) == 100 * GIB
    with pytest.raises(MissingFactError):
        host_weights_bytes(Case())


def test_the_link_as_seen():
    assert host_link_bytes_per_s(gpu_case()) is None
    seen = with_facts(gpu_case(), {"machine.gpus.0.pcie_generation": 3, "machine.gpus.0.pcie_width": 8})
    assert host_link_bytes_per_s(seen) == pytest.approx(6.3e9, rel=0.01)
