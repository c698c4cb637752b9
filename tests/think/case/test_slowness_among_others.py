"""A request that shares its steps with others is compared with what such a request gets."""

import pytest
from cases import gpu_case, with_facts, with_tensors, without

from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, measured_fact
from unslow.think.case.cure import Cure
from unslow.think.case.physics import COPIES
from unslow.think.case.sharing import OTHERS
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge


def among(running: float, tokens_per_s: float = 130.0) -> Case:
    traffic = Traffic(seconds=5.0, looks=9, running=running, waiting=0.0)
    return with_facts(with_tensors(gpu_case()), {"run.traffic": traffic, "run.decode_tokens_per_s": tokens_per_s})


def test_more_concurrent_requests_take_longer_per_token():
    assert CaseView(among(1.0)).sharing.times_longer() == 1
    assert 1 < CaseView(among(8.0)).sharing.times_longer() < CaseView(among(64.0)).sharing.times_longer()
    assert CaseView(gpu_case()).sharing.times_longer() == 1


def test_time_of_other_requests_is_its_own_part():
    alone, shared = CaseView(among(32.0)).speed.predict(), CaseView(among(32.0)).sharing.predict_among_others()
    assert isinstance(alone, Prediction)
    assert isinstance(shared, Prediction)
    assert shared.seconds.mid == pytest.approx(alone.seconds.mid * CaseView(among(32.0)).sharing.times_longer())
    assert [p.name for p in shared.parts[len(alone.parts) :]] == [OTHERS]
    assert shared.seconds.high / shared.seconds.low > alone.seconds.high / alone.seconds.low, "and less is sure of it"


def test_speed_of_a_busy_server_is_normal():
    shared = CaseView(among(32.0)).sharing.predict_among_others()
    assert isinstance(shared, Prediction)
    rate = 1 / shared.seconds.mid
    assert judge(CaseView(among(32.0, rate))).verdict == "normal"
    assert judge(CaseView(among(1.0, rate / 2))).verdict == "slow"


def seen_among(each: float, among: float) -> Case:
    traffic = Traffic(
        seconds=5.0, looks=9, running=1.3, waiting=0.0, each_tokens_per_s=measured_fact(each, ""), each_among=among
    )
    return with_facts(without(with_tensors(gpu_case()), "run.decode_tokens_per_s"), {"run.traffic": traffic})


def test_requests_that_were_never_alone_are_compared_with_concurrency():
    assert CaseView(seen_among(100.0, 8.0)).sharing.requests_at_once == 8
    shared = CaseView(seen_among(100.0, 8.0)).sharing.predict_among_others()
    assert isinstance(shared, Prediction)
    rate = 1 / shared.seconds.mid
    report = judge(CaseView(seen_among(rate, 8.0)))
    assert report.verdict == "normal"
    assert report.measured["decode_tokens_per_s"] == pytest.approx(rate)
    assert judge(CaseView(seen_among(rate / 4, 8.0))).verdict == "slow"


def test_request_measured_alone_wins():
    case = with_facts(seen_among(50.0, 8.0), {"run.decode_tokens_per_s": 120.0})
    assert CaseView(case).sharing.rate_among_others.value == 120.0
    assert CaseView(case).sharing.requests_at_once == 1.3


def eight_of(layers_on_gpu: int, tokens_per_s: float = 0.6) -> Case:
    """Eight requests of a server that keeps some layers on the CPU while the GPU has room for all."""
    traffic = Traffic(seconds=6.0, looks=24, running=8.0, waiting=0.0, counts_waiting=True)
    facts = {
        "run.traffic": traffic, "runtime.scheduling.slots": 8, "runtime.placement.gpu_layers_set": layers_on_gpu,
        "run.decode_tokens_per_s": tokens_per_s,
    }  # fmt: skip
    return with_facts(with_tensors(gpu_case(layers_on_gpu)), facts)


ON_GPU = Cure(vram_bytes=20 * GIB)


@pytest.mark.parametrize("layers", [0, 20])
def test_cured_prediction_uses_concurrency_of_the_cured_server(layers):
    cured, there = (
        CaseView(eight_of(layers)).sharing.predict_among_others(ON_GPU),
        CaseView(eight_of(33)).sharing.predict_among_others(),
    )
    assert isinstance(cured, Prediction)
    assert isinstance(there, Prediction)
    assert cured.seconds.mid == pytest.approx(there.seconds.mid)


@pytest.mark.parametrize(("layers", "tokens_per_s"), [(0, 0.6), (20, 1.5)])
def test_concurrency_does_not_hide_a_spill(layers, tokens_per_s):
    report = judge(CaseView(eight_of(layers, tokens_per_s)))
    assert report.verdict == "slow"
    assert report.findings[0].cause == "gpu_layers_set_too_low"
    assert report.findings[0].speedup > 10


def test_concurrent_requests_with_a_spill_are_predicted():
    assert CaseView(eight_of(33)).sharing.times_longer() < CaseView(eight_of(20)).sharing.times_longer() <= 8, (
        "a CPU computes for each of them"
    )
    shared = CaseView(eight_of(20)).sharing.predict_among_others()
    assert isinstance(shared, Prediction)
    unexplained = [
        b.seconds for b in judge(CaseView(eight_of(20, 1 / shared.seconds.mid))).budget if b.part == "unexplained"
    ]
    assert sum(unexplained) < 0.05 * shared.seconds.mid


def test_kv_cache_on_host_costs_more_with_more_requests():
    offloaded = with_facts(eight_of(33), {"run.depth_tokens": 4000})
    on_host = with_facts(offloaded, {"runtime.cache.offload": False})
    alone, shared = CaseView(on_host).speed.predict(), CaseView(on_host).sharing.predict_among_others()
    here = CaseView(offloaded).sharing.predict_among_others()
    assert all(isinstance(p, Prediction) for p in (alone, shared, here))
    copies = sum(p.seconds for p in alone.parts if p.name == COPIES)
    assert copies > 0
    assert shared.seconds.mid - here.seconds.mid > 7 * copies
