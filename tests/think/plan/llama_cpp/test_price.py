"""Prices: batched pricing agrees with single pricing, and properties hold."""

import pytest
from tests.think.plan.llama_cpp import planning

from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Pricing

PIECES = Pieces(planning.blueprint("llama-3.1-8b"))
SPARSE = Pieces(planning.blueprint("qwen3-30b-a3b"))
LAYERS = len(PIECES.layers)
PLACINGS = [Placing(), Placing(4), Placing(0, 4), Placing(0, 4, 2), Placing(8, 3), Placing(LAYERS)]


def _split(placing: Placing) -> tuple[int, ...]:
    return (LAYERS + 1 - placing.whole if placing.whole < LAYERS else 0,)


def _pricing(work: Work) -> Pricing:
    return Pricing(PIECES, planning.hardware(8), work)


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("prompt", [16, 2048])
def test_batched_prices_equal_single_prices(prompt: int, *, on_gpu: bool) -> None:
    pricing = _pricing(Work(prompt, 1000, 64))
    settings = planning.settings(8192, "Q8_0")._replace(cache_on_gpu=on_gpu)
    together = pricing.prices(settings, [(p, _split(p)) for p in PLACINGS], 8)
    alone = [pricing.price(settings, p, _split(p), 8) for p in PLACINGS]
    assert [t.request_s for t in together] == pytest.approx([a.request_s for a in alone])


def test_more_layers_on_the_host_are_never_faster() -> None:
    pricing = _pricing(Work(2048, 0, 64))
    for places in ([Placing(n) for n in range(0, LAYERS, 4)], [Placing(0, n) for n in range(0, LAYERS, 4)]):
        seconds = [pricing.price(planning.settings(), p, _split(p), 8).request_s for p in places]
        assert seconds == sorted(seconds)


def test_cache_on_host_costs_more_with_depth() -> None:
    near, far = (planning.settings(16384)._replace(cache_on_gpu=on_gpu) for on_gpu in (True, False))
    lost = [
        _pricing(Work(32, kept, 64)).price(far, Placing(), (33,), 8).step_s
        - _pricing(Work(32, kept, 64)).price(near, Placing(), (33,), 8).step_s
        for kept in (0, 4000, 12000)
    ]
    assert 0 < lost[0] < lost[1] < lost[2]


def test_larger_micro_batch_speeds_up_prefill_with_host_weights() -> None:
    pricing = _pricing(Work(4096, 0, 1))
    rates = [
        pricing.price(planning.settings()._replace(micro_batch=micro), Placing(16), (17,), 8).prefill_tokens_per_s
        for micro in (128, 512, 2048)
    ]
    assert rates[0] < rates[1] < rates[2]


def test_threads_beyond_cores_gain_nothing() -> None:
    pricing = _pricing(Work(32, 0, 64))
    steps = [pricing.price(planning.settings(), Placing(16), (17,), n).step_s for n in (2, 4, 8, 16)]
    assert steps[0] > steps[1] > steps[2]
    assert steps[3] >= steps[2]


def test_experts_on_host_cost_less_than_whole_layers() -> None:
    pricing = Pricing(SPARSE, planning.hardware(8), Work(32, 0, 64))
    apart = pricing.price(planning.settings(), Placing(0, 20), (49,), 8)
    whole = pricing.price(planning.settings(), Placing(20), (29,), 8)
    assert apart.step_s < whole.step_s
