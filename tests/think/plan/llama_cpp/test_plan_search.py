"""The search finds what an exhaustive search finds."""

import pytest
from tests.think.plan.llama_cpp.everything import few_layers, shortest_request
from tests.think.plan.llama_cpp.planning import blueprint, hardware, search, settings

from unslow.think.hardware import Processors
from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Guard, Pricing
from unslow.think.plan.llama_cpp.search import EXACTLY

SOME = (128, 512)
NEAR, BOTH = (True,), (True, False)
ALIKE = 1.005
CASES = {
    "a guess that is too large": ("smollm2-135m", 4, 205.6, 4096, "F16", Work(32, 0, 64), SOME, NEAR),
    "experts of one more layer": ("olmoe-1b-7b", 6, 2039.3, 16384, "F16", Work(2048, 0, 64), SOME, BOTH),
    "all of it with large buffers": ("olmoe-1b-7b", 4, 1994.1, 16384, "F16", Work(2048, 0, 64), SOME, BOTH),
    "whole layers, and not pieces": ("smollm2-1.7b", 4, 359.6, 1024, "F16", Work(512, 0, 16), (512,), BOTH),
    "all pieces of the last layer": ("olmoe-1b-7b", 4, 860.3, 16384, "F16", Work(256, 8192, 128), (512,), BOTH),
    "a larger one with smaller buffers": ("smollm2-1.7b", 4, 691.7, 16384, "F16", Work(32, 0, 64), (*SOME, 256), NEAR),
    "first layers without experts": ("deepseek-v2-lite", 3, 900.0, 4096, "F16", Work(256, 2048, 64), SOME, NEAR),
    "windows": ("gemma-3-1b", 6, 320.0, 4096, "Q8_0", Work(512, 1024, 64), SOME, NEAR),
    "states beside attention": ("falcon-h1-0.5b", 4, 280.0, 4096, "F16", Work(512, 0, 64), SOME, NEAR),
}


@pytest.mark.no_cover  # hundreds of layouts of the same lines
@pytest.mark.parametrize("case", CASES)
def test_search_matches_exhaustive_search(case: str) -> None:
    stem, layers, free_mib, context, cache, work, micro_batches, sides = CASES[case]
    by = search(few_layers(blueprint(stem), layers), hardware(free_mib / 1024), work)
    with one_judgement():
        by.best(settings(context, "Q8_0" if cache == "F16" else "F16"), micro_batches)  # which leaves guesses
        found = by.best(settings(context, cache), micro_batches, sides)
        assert found
        wanted = shortest_request(by, settings(context, cache), micro_batches, sides)
    assert found.price.request_s <= EXACTLY * wanted
    assert found.price.request_s >= wanted * 0.999
    assert not by.counted.unproved


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("stem", "layers", "free_mib", "context", "work"),
    [
        ("smollm2-135m", 6, 205.0, 4096, Work(256, 2048, 128)),
        ("smollm2-135m", 4, 204.3, 1024, Work(512, 0, 64)),
        ("olmoe-1b-7b", 3, 667.5, 4096, Work(2048, 0, 16)),
    ],
)
def test_search_matches_exhaustive_search_on_two_gpus(
    stem: str, layers: int, free_mib: float, context: int, work: Work
) -> None:
    by = search(few_layers(blueprint(stem), layers), hardware(free_mib / 1024, 2), work)
    with one_judgement():
        found = by.best(settings(context), (512,))
        assert found
        by.allowed = None
        wanted = shortest_request(by, settings(context), (512,), NEAR)
    assert found.price.request_s <= EXACTLY * wanted


@pytest.mark.no_cover
def test_search_finds_the_fastest_that_guards_allow() -> None:
    plan, machine, work = few_layers(blueprint("smollm2-1.7b"), 5), hardware(420 / 1024), Work(64, 0, 64)
    by = search(plan, machine, work)
    with one_judgement():
        free = by.best(settings(), SOME)
        deep = Pricing(by.pieces, machine, Work(32, 4000, 64))
        assert free
        least = min(
            deep.price(settings()._replace(micro_batch=512), Placing(w, 5 - w), (6 - w,), 8).request_s for w in range(5)
        )
        now = deep.price(free.settings, free.placing, free.split, 8).request_s
        by.guards = (Guard(deep, most_s=(least + now) / 2),)
        found = by.best(settings(), SOME)
        wanted = shortest_request(by, settings(), SOME, NEAR)
    assert (found.price.request_s if found else float("inf")) == pytest.approx(wanted, rel=EXACTLY - 1)


def test_slow_gpu_beside_a_fast_host_is_not_used() -> None:
    slow = hardware(8, name="GTX 1050 Ti")._replace(processors=Processors(64, 460e9, 20e9))
    by = search(few_layers(blueprint("olmoe-1b-7b"), 4), slow, Work(16, 0, 400))
    found = by.best(settings(), (512,))
    assert found
    assert not any(found.split)
    assert found.settings.gpu_layers == 0
    assert not slow.is_plain


def test_missing_host_or_gpu_room_finds_nothing() -> None:
    by = search(few_layers(blueprint(), 5), hardware(1, host_gib=0.0001), Work(512, 0, 64))
    assert by.best(settings(), SOME) is None
    by = search(few_layers(blueprint(), 5), hardware(0.0), Work(512, 0, 64))
    assert by.best(settings(), SOME) is None  # not even buffers find room


def test_options_above_the_time_limit_are_not_laid_out() -> None:
    by = search(few_layers(blueprint(), 5), hardware(300 / 1024), Work(512, 0, 64))
    found = by.best(settings(), SOME)
    assert found
    laid_out = by.counted.laid_out
    assert by.best(settings(4096, "Q8_0"), SOME, below_s=found.price.request_s / 10) is None
    assert by.counted.laid_out == laid_out


def test_cache_goes_to_the_host_only_on_request() -> None:
    by = search(few_layers(blueprint(), 5), hardware(300 / 1024), Work(32, 0, 16))
    near, far = (by.best(settings(), SOME, (side,)) for side in (True, False))
    assert near
    assert far
    assert near.settings.cache_on_gpu
    assert not far.settings.cache_on_gpu


def test_second_cache_type_needs_no_more_layouts() -> None:
    plan, machine, work = blueprint(), hardware(300 / 1024), Work(512, 0, 64)
    both, alone = search(plan, machine, work), search(plan, machine, work)
    both.best(settings(), (512,))
    first = both.counted.laid_out
    with_guesses, without = (by.best(settings(4096, "Q8_0"), (512,)) for by in (both, alone))
    assert with_guesses
    assert without
    assert both.counted.laid_out - first <= alone.counted.laid_out + 1  # what it is proved with
    assert with_guesses.price.request_s <= ALIKE * without.price.request_s


def test_too_large_guess_does_not_change_the_result() -> None:
    by, plain = (search(blueprint(), hardware(300 / 1024), Work(512, 0, 64)) for _ in range(2))
    by.buffers.hint(settings(), Placing(3).kind, [120 * 2**20])
    misled, found = by.best(settings(), (512,)), plain.best(settings(), (512,))
    assert misled
    assert found
    assert misled.placing == found.placing
