"""Bounds of buffers that were not laid out hold for models of every kind."""

from itertools import pairwise, product

import pytest
from tests.think.plan.llama_cpp.everything import few_layers
from tests.think.plan.llama_cpp.planning import blueprint, settings

from unslow.think.memory.llama_cpp.need import memory_of
from unslow.think.plan.llama_cpp.bounds import Buffers
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing, placed_settings

LAYERS = 4
MODELS = ("smollm2-1.7b", "falcon-h1-0.5b", "deepseek-v2-lite", "gemma-3-1b", "lfm2-350m", "mamba-130m")


@pytest.mark.no_cover  # the same lines as a layout, a hundred times
@pytest.mark.parametrize("stem", MODELS)
def test_no_placing_needs_less_than_its_bound(stem: str) -> None:
    pieces = Pieces(few_layers(blueprint(stem), LAYERS))
    for on_gpu in (True, False):
        buffers = Buffers(1)
        for micro in (128, 512):
            asked = settings(8192)._replace(micro_batch=micro, cache_on_gpu=on_gpu)
            needs = {placing: _compute(pieces, asked, placing) for placing in _placings(pieces)}
            buffers.learn_base(asked, (needs[Placing()],))
            least = buffers.least(asked)
            for placing, need in needs.items():
                assert need >= least.of(placing.kind)[0], placing
            for placing, need in needs.items():
                buffers.learn(asked, placing.kind, (need,), (0, 0))


def _placings(pieces: Pieces) -> list[Placing]:
    some = [Placing(whole, apart) for whole, apart in product(range(LAYERS + 1), (0, 1, 2)) if whole + apart <= LAYERS]
    return [placing for placing in some if not placing.apart or pieces.parted_layers[-1]]


def _compute(pieces: Pieces, asked, placing: Placing) -> int:  # type: ignore[no-untyped-def]
    return memory_of(pieces.blueprint, placed_settings(asked, placing, pieces, (1,)), (1.0,)).needs[0].compute


def test_larger_micro_batch_may_need_smaller_buffers() -> None:
    """With the smaller one, copies of two layers' keys and values are held at once: only half of it is a bound."""
    pieces = Pieces(few_layers(blueprint("smollm2-1.7b"), LAYERS))
    sizes = [_compute(pieces, settings(16384)._replace(micro_batch=micro), Placing(2)) for micro in (128, 256)]
    assert all(larger < 0.75 * smaller for smaller, larger in pairwise(sizes))
