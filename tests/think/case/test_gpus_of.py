"""Which GPUs of a machine count: discrete ones, and an integrated one only where there is no discrete one."""

from cases import gpu_case, r, with_facts

from unslow.facts.machine import Gpu
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import not_found
from unslow.think.case.view import CaseView

CHIP = Gpu(index=1, name=r("Intel UHD Graphics 770"), kind=r("integrated"), vram_total_bytes=r(128 * 2**20))


def test_integrated_gpu_beside_a_discrete_one_is_ignored():
    (card,) = gpu_case().machine.gpus.need()
    both = with_facts(gpu_case(), {"machine.gpus": r((card, CHIP))})
    assert CaseView(both).gpus.usable == CaseView(both).gpus.in_use == (card,)
    assert CaseView(both).vram.free_bytes == CaseView(gpu_case()).vram.free_bytes
    assert CaseView(both).vram.margin_bytes == CaseView(gpu_case()).vram.margin_bytes


def test_integrated_gpu_alone_counts():
    assert CaseView(with_facts(gpu_case(), {"machine.gpus": r((CHIP,))})).gpus.usable == (CHIP,)


def test_listed_devices_that_hold_the_model_are_used():
    (card,) = gpu_case().machine.gpus.need()
    other = Gpu(index=1, name=r("Tesla P40"), vram_total_bytes=r(24 * 2**30))
    listed = [
        SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 4090"),
        SeenDevice(name="CUDA1", description="Tesla P40"),
    ]
    both = with_facts(gpu_case(), {"machine.gpus": r((card, other)), "runtime.placement.devices": listed})
    assert CaseView(both).gpus.in_use == (card,)
    unprinted = with_facts(both, {"runtime.memory.buffers": not_found("hidden")})
    assert CaseView(unprinted).gpus.in_use == (card, other)
    assert CaseView(with_facts(unprinted, {"runtime.placement.device_used": "CUDA1"})).gpus.in_use == (other,)
