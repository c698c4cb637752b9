"""The search finds what looking at everything finds."""

from itertools import product

import pytest
from tests.think.plan.llama_cpp.planning import MARGIN_BYTES, blueprint, hardware, search, settings

from unslow.think.memory.llama_cpp.need import memory_of
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.placing import Placing, placed
from unslow.think.plan.llama_cpp.search import Search

MICRO_BATCHES = (128, 512)
ALIKE = 1.005


def everything(by: Search, base, work: Work) -> float:  # type: ignore[no-untyped-def]
    """The shortest request of all placings and ways, each laid out."""
    layers, best = len(by.pieces.layers), float("inf")
    free = by.hardware.free_bytes[0] - MARGIN_BYTES
    for micro, on_gpu in product(MICRO_BATCHES, (True, False)):
        way = base._replace(micro_batch=micro, cache_on_gpu=on_gpu)
        for whole, apart, pieces in product(range(layers + 1), range(layers + 1), range(3)):
            if whole + apart + bool(pieces) > layers:
                continue
            placing = Placing(whole, apart, pieces)
            split = (layers + 1 - whole,) if whole < layers else (0,)
            price = by.pricing.price(way, placing, split, by.threads).request_s
            if price < best and _fits(by, placed(way, placing, by.pieces, split), free):
                best = price
    return best


def _fits(by: Search, asked, free: float) -> bool:  # type: ignore[no-untyped-def]
    need = memory_of(by.pieces.blueprint, asked, (1.0,)).needs[0]
    return need.total <= free


@pytest.mark.no_cover  # hundreds of layouts of the same lines
@pytest.mark.parametrize("free_mib", [300, 420])
@pytest.mark.parametrize("prompt", [32, 2048])
def test_finds_what_looking_at_everything_finds(free_mib: int, prompt: int) -> None:
    work = Work(prompt, 0, 64)
    plan = _few_layers()
    by = search(plan, hardware(free_mib / 1024), work)
    found = by.best(settings(), MICRO_BATCHES)
    assert found
    assert found.price.request_s <= ALIKE * everything(by, settings(), work)


def _few_layers():  # type: ignore[no-untyped-def]
    """A small model with a few layers, so that all placings can be laid out."""
    import msgspec

    plan = blueprint()
    kept = [t for t in plan.tensors if not t.name.startswith("blk.") or int(t.name.split(".")[1]) < 5]
    return msgspec.structs.replace(plan, tensors=kept, metadata={**plan.metadata, "llama.block_count": 5})


def test_what_takes_too_long_is_not_even_laid_out() -> None:
    by = search(_few_layers(), hardware(300 / 1024), Work(512, 0, 64))
    found = by.best(settings(), MICRO_BATCHES)
    assert found
    laid_out = by.counted.laid_out
    assert by.best(settings(4096, "Q8_0"), MICRO_BATCHES, below_s=found.price.request_s / 10) is None
    assert by.counted.laid_out == laid_out


def test_the_cache_goes_to_the_host_only_where_that_is_asked_for() -> None:
    by = search(_few_layers(), hardware(300 / 1024), Work(32, 0, 16))
    near, far = (by.best(settings(), MICRO_BATCHES, (side,)) for side in (True, False))
    assert near
    assert far
    assert near.settings.cache_on_gpu
    assert not far.settings.cache_on_gpu


def test_a_second_cache_is_found_with_fewer_layouts_and_as_well_as_alone() -> None:
    plan, machine, work = blueprint(), hardware(300 / 1024), Work(512, 0, 64)
    both, alone = search(plan, machine, work), search(plan, machine, work)
    both.best(settings(), (512,))
    first = both.counted.laid_out
    with_guesses, without = (by.best(settings(4096, "Q8_0"), (512,)) for by in (both, alone))
    assert with_guesses
    assert without
    assert both.counted.laid_out - first <= alone.counted.laid_out
    assert with_guesses.price.request_s <= ALIKE * without.price.request_s


def test_a_guess_that_is_too_large_costs_nothing_but_a_layout() -> None:
    by, plain = (search(blueprint(), hardware(300 / 1024), Work(512, 0, 64)) for _ in range(2))
    by.buffers.hint(settings(), Placing(3).kind, [120 * 2**20])
    misled, found = by.best(settings(), (512,)), plain.best(settings(), (512,))
    assert misled
    assert found
    assert misled.placing == found.placing
