"""Which GPUs of a machine count: the cards, and a processor's own only where there is no card."""

from cases import gpu_case, r, with_facts

from unslow.facts.machine import Gpu
from unslow.think.adapt.vram import free_vram_bytes, gpus_of, gpus_used, margin_bytes

CHIP = Gpu(index=1, name=r("Intel UHD Graphics 770"), kind=r("integrated"), vram_total_bytes=r(128 * 2**20))


def test_a_card_computes_without_the_processors_own():
    (card,) = gpu_case().machine.gpus.need()
    both = with_facts(gpu_case(), {"machine.gpus": r((card, CHIP))})
    assert gpus_of(both) == gpus_used(both) == (card,)
    assert free_vram_bytes(both) == free_vram_bytes(gpu_case())
    assert margin_bytes(both) == margin_bytes(gpu_case())


def test_where_there_is_no_card_the_processors_own_counts():
    assert gpus_of(with_facts(gpu_case(), {"machine.gpus": r((CHIP,))})) == (CHIP,)
