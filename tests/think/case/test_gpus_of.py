"""Which GPUs of a machine count: the cards, and a processor's own only where there is no card."""

from cases import gpu_case, r, with_facts

from unslow.facts.machine import Gpu
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import not_found
from unslow.think.case.vram import free_vram_bytes, gpus_of, gpus_used, margin_bytes

CHIP = Gpu(index=1, name=r("Intel UHD Graphics 770"), kind=r("integrated"), vram_total_bytes=r(128 * 2**20))


def test_a_card_computes_without_the_processors_own():
    (card,) = gpu_case().machine.gpus.need()
    both = with_facts(gpu_case(), {"machine.gpus": r((card, CHIP))})
    assert gpus_of(both) == gpus_used(both) == (card,)
    assert free_vram_bytes(both) == free_vram_bytes(gpu_case())
    assert margin_bytes(both) == margin_bytes(gpu_case())


def test_where_there_is_no_card_the_processors_own_counts():
    assert gpus_of(with_facts(gpu_case(), {"machine.gpus": r((CHIP,))})) == (CHIP,)


def test_of_the_devices_that_are_listed_those_that_hold_the_model():
    (card,) = gpu_case().machine.gpus.need()
    other = Gpu(index=1, name=r("Tesla P40"), vram_total_bytes=r(24 * 2**30))
    listed = [
        SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 4090"),
        SeenDevice(name="CUDA1", description="Tesla P40"),
    ]
    both = with_facts(gpu_case(), {"machine.gpus": r((card, other)), "runtime.devices": listed})
    assert gpus_used(both) == (card,)
    unprinted = with_facts(both, {"runtime.buffers": not_found("hidden")})
    assert gpus_used(unprinted) == (card, other)
    assert gpus_used(with_facts(unprinted, {"runtime.device_used": "CUDA1"})) == (other,)
