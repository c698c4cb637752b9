"""A request that shares its steps with others is held against what such a request gets."""

import pytest
from cases import gpu_case, with_facts, with_tensors, without

from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, measured
from unslow.think.case.prediction import Prediction, predict
from unslow.think.case.slowness import OTHERS, predict_among_others, rate_among_others, requests_at_once, times_longer
from unslow.think.case.work import COPIES, Cure
from unslow.think.judge.judge import judge


def among(running: float, tokens_per_s: float = 130.0) -> Case:
    traffic = Traffic(seconds=5.0, looks=9, running=running, waiting=0.0)
    return with_facts(with_tensors(gpu_case()), {"run.traffic": traffic, "run.decode_tokens_per_s": tokens_per_s})


def test_the_more_at_once_the_longer_each_token():
    assert times_longer(among(1.0)) == 1
    assert 1 < times_longer(among(8.0)) < times_longer(among(64.0))
    assert times_longer(gpu_case()) == 1


def test_what_the_others_take_is_a_part():
    alone, shared = predict(among(32.0)), predict_among_others(among(32.0))
    assert isinstance(alone, Prediction)
    assert isinstance(shared, Prediction)
    assert shared.seconds.mid == pytest.approx(alone.seconds.mid * times_longer(among(32.0)))
    assert [p.name for p in shared.parts[len(alone.parts) :]] == [OTHERS]
    assert shared.seconds.high / shared.seconds.low > alone.seconds.high / alone.seconds.low, "and less is sure of it"


def test_a_busy_server_is_not_slow():
    shared = predict_among_others(among(32.0))
    assert isinstance(shared, Prediction)
    rate = 1 / shared.seconds.mid
    assert judge(among(32.0, rate)).verdict == "normal"
    assert judge(among(1.0, rate / 2)).verdict == "slow"


def seen_among(each: float, among: float) -> Case:
    traffic = Traffic(
        seconds=5.0, looks=9, running=1.3, waiting=0.0, each_tokens_per_s=measured(each, ""), each_among=among
    )
    return with_facts(without(with_tensors(gpu_case()), "run.decode_tokens_per_s"), {"run.traffic": traffic})


def test_requests_that_were_never_alone_are_held_against_such_company():
    assert requests_at_once(seen_among(100.0, 8.0)) == 8
    shared = predict_among_others(seen_among(100.0, 8.0))
    assert isinstance(shared, Prediction)
    rate = 1 / shared.seconds.mid
    report = judge(seen_among(rate, 8.0))
    assert report.verdict == "normal"
    assert report.measured["decode_tokens_per_s"] == pytest.approx(rate)
    assert judge(seen_among(rate / 4, 8.0)).verdict == "slow"


def test_one_that_was_alone_counts_more():
    case = with_facts(seen_among(50.0, 8.0), {"run.decode_tokens_per_s": 120.0})
    assert rate_among_others(case).value == 120.0
    assert requests_at_once(case) == 1.3


def eight_of(layers_on_gpu: int, tokens_per_s: float = 0.6) -> Case:
    """Eight requests of a server that keeps some layers on the CPU while the GPU has room for all."""
    traffic = Traffic(seconds=6.0, looks=24, running=8.0, waiting=0.0, counts_waiting=True)
    facts = {
        "run.traffic": traffic, "runtime.slots": 8, "runtime.gpu_layers_set": layers_on_gpu,
        "run.decode_tokens_per_s": tokens_per_s,
    }  # fmt: skip
    return with_facts(with_tensors(gpu_case(layers_on_gpu)), facts)


ON_GPU = Cure(vram_bytes=20 * GIB)


@pytest.mark.parametrize("layers", [0, 20])
def test_the_cured_server_is_crowded_as_the_cured_one_is(layers):
    cured, there = predict_among_others(eight_of(layers), ON_GPU), predict_among_others(eight_of(33))
    assert isinstance(cured, Prediction)
    assert isinstance(there, Prediction)
    assert cured.seconds.mid == pytest.approx(there.seconds.mid)


@pytest.mark.parametrize(("layers", "tokens_per_s"), [(0, 0.6), (20, 1.5)])
def test_company_hides_no_spill(layers, tokens_per_s):
    report = judge(eight_of(layers, tokens_per_s))
    assert report.verdict == "slow"
    assert report.findings[0].cause == "gpu_layers_set_too_low"
    assert report.findings[0].speedup > 10


def test_many_who_share_a_spill_are_predicted():
    assert times_longer(eight_of(33)) < times_longer(eight_of(20)) <= 8, "a CPU computes for each of them"
    shared = predict_among_others(eight_of(20))
    assert isinstance(shared, Prediction)
    unexplained = [b.seconds for b in judge(eight_of(20, 1 / shared.seconds.mid)).budget if b.part == "unexplained"]
    assert sum(unexplained) < 0.05 * shared.seconds.mid


def test_more_keys_and_values_cross_for_more_who_ask():
    offloaded = with_facts(eight_of(33), {"run.depth_tokens": 4000})
    on_host = with_facts(offloaded, {"runtime.kv_offload": False})
    alone, shared = predict(on_host), predict_among_others(on_host)
    here = predict_among_others(offloaded)
    assert all(isinstance(p, Prediction) for p in (alone, shared, here))
    copies = sum(p.seconds for p in alone.parts if p.name == COPIES)
    assert copies > 0
    assert shared.seconds.mid - here.seconds.mid > 7 * copies
