"""Several causes cost no more together than there is to gain, and each is priced beside those before it."""

from pathlib import Path

import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case, with_facts
from firing import spilled

from unslow.app.read_target import read_stored
from unslow.facts.snapshot import Case
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Found
from unslow.think.judge import diagnose, judge
from unslow.think.phases import Pace, outlook
from unslow.think.physics.decode import Part
from unslow.think.physics.interval import around
from unslow.think.predict import Prediction
from unslow.think.pricing import Together, alone, time_with
from unslow.think.report import Cost, SubjectReport

MACHINES = sorted(p.parent for p in (Path(__file__).parents[1] / "machines").glob("*/expected.toml"))
CONTEXT_TOO_LARGE = {"runtime.context_length": 131072, "runtime.kv_cells": 131072, "runtime.kv_bytes": 131072**2}
COMBINATIONS = {
    "spill and threads": with_facts(spilled(), {"runtime.threads": 64}),
    "spill and a busy CPU": with_facts(spilled(), {"run.others_cpus": 1.9, "run.waiting_for_cpu_s_per_token": 0.05}),
    "spill, threads, a queue": with_facts(spilled(), {"runtime.threads": 16, "run.queue_s": 4.0}),
    "context, threads": with_facts(spilled(), {"runtime.threads": 16} | CONTEXT_TOO_LARGE),
    "no offload, threads": with_facts(gpu_case(layers_on_gpu=0), {"runtime.threads": 32}),
    "threads, a busy CPU": with_facts(
        cpu_case(), {"runtime.threads": 8, "run.others_cpus": 1.5, "run.decode_tokens_per_s": 0.7}
    ),
}


def test_every_combination_is_one():
    assert all(judge(case).findings for case in COMBINATIONS.values())
    assert sum(len(judge(case).findings) > 1 for case in COMBINATIONS.values()) >= 4


def check_no_second_is_counted_twice(report: SubjectReport) -> None:
    for per, metric in (("token", "decode_tokens_per_s"), ("prompt_token", "prefill_tokens_per_s")):
        rate, best = report.measured.get(metric), report.expected.achievable.get(metric)
        here = [f.cost for f in report.findings if f.cost and f.cost.per == per and f.cost.depth_tokens is None]
        costs = [cost.seconds for cost in here]
        assert all(cost >= 0 for cost in costs)
        if rate and best and costs:
            assert sum(costs) <= max(0.0, 1 / rate - 1 / best.mid) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("folder", MACHINES, ids=lambda p: p.name)
def test_costs_of_a_recorded_machine_sum_to_what_can_be_gained(folder):
    for report in diagnose(read_stored(str(folder))).subjects:
        check_no_second_is_counted_twice(report)


@pytest.mark.parametrize("name", [*FIRING, *COMBINATIONS])
def test_costs_of_causes_together_sum_to_what_can_be_gained(name):
    report = judge(COMBINATIONS[name] if name in COMBINATIONS else FIRING[name]())
    check_no_second_is_counted_twice(report)
    explained = {e for f in report.findings for e in f.explains}
    assert all(f.cost is None for f in report.findings if f.cause in explained)
    assert all(f.cause not in f.explains for f in report.findings)


def pace(measured_s: float | None, parts: dict[str, float], cured: dict[str, float]) -> Pace:
    """A pace of which any cure but an empty one takes some parts away."""

    def predicted(_case: Case, cure: Cure | None = None) -> Prediction:
        now = cured if cure and any(v is not None for v in cure) else parts
        made = [Part(name, s, 2.0 if name.startswith("host") else 1.1) for name, s in now.items()]
        return Prediction(around(sum(now.values()), 1.5), made, 1e6)

    case = gpu_case()
    return Pace("token", measured_s, predicted(case), predicted(case, Cure(threads=4)), predicted)


BOTH, GPU = {"host memory reads": 0.030, "compute": 0.004}, {"compute": 0.005}


def test_what_physics_met_falls_to_what_it_predicts():
    assert time_with(gpu_case(), pace(0.034, BOTH, GPU), Cure(vram_bytes=1e9)) == pytest.approx(0.005, rel=0.01)
    assert time_with(gpu_case(), pace(None, BOTH, GPU), Cure(vram_bytes=1e9)) == pytest.approx(0.005)


def test_a_remainder_stays_mostly_with_what_is_least_certain():
    then = time_with(gpu_case(), pace(0.068, BOTH, GPU), Cure(vram_bytes=1e9))
    assert 0.005 < then < 0.0056, "the host's part was longer than predicted, and it is gone"


def test_what_physics_does_not_see_is_the_remainder():
    assert time_with(gpu_case(), pace(0.068, BOTH, BOTH), Cure()) == pytest.approx(0.034)
    assert time_with(gpu_case(), pace(0.068, BOTH, BOTH), Cure(alone=True)) == pytest.approx(0.034)


def test_the_less_sure_physics_is_the_more_of_a_remainder_stays():
    slow, cured = {"host compute": 0.002, "host memory reads": 0.002}, {"host compute": 0.002}
    sure, unsure = (pace(0.012, slow, cured)._replace(now=_within(slow, spread)) for spread in (1.1, 2.5))
    few, more = (time_with(gpu_case(), one, Cure(ubatch=512)) for one in (sure, unsure))
    assert few == pytest.approx(0.002 + 0.5 * 0.008 / 2, rel=0.05), "half of it, by the time of the parts"
    assert few < more < 0.002 + 0.008 / 2


def _within(parts: dict[str, float], spread: float) -> Prediction:
    made = [Part(name, s, 2.0) for name, s in parts.items()]
    return Prediction(around(sum(parts.values()), spread), made, 1e6)


def test_nothing_gets_slower_by_a_cure():
    assert time_with(gpu_case(), pace(0.020, BOTH, BOTH), Cure()) == 0.020


def priced(measured_s: float, *found: Found) -> list[float]:
    seen = outlook(gpu_case(), None)._replace(decode=pace(measured_s, BOTH, GPU))
    together = Together(gpu_case(), "decode", seen)
    costs = [together.cured(one) for one in found]
    return [cost.seconds for cost in costs if cost]


def found(**facts) -> Found:
    return Found("so", (), **facts)


def test_the_second_cure_of_the_same_time_saves_nothing_more():
    first, second = priced(0.034, found(cure=Cure(vram_bytes=1e9)), found(cure=Cure(threads=4)))
    assert first == pytest.approx(0.029, rel=0.01)
    assert second == pytest.approx(0.0, abs=1e-6)


def test_trials_multiply_but_not_below_what_is_possible():
    assert priced(0.034, found(speedup=2.0)) == [pytest.approx(0.017)]
    assert sum(priced(0.034, found(speedup=4.0), found(speedup=4.0))) == pytest.approx(0.029)
    assert priced(0.034, found(speedup=20.0)) == [pytest.approx(0.034 * 0.95)], "an experiment beats physics"


def test_what_was_measured_itself_is_taken_off():
    assert priced(0.034, found(lost=Cost(seconds=0.004, per="token"))) == [pytest.approx(0.004)]
    assert priced(0.034, found(lost=Cost(seconds=3.0, per="request"))) == [3.0]


def test_a_wait_is_cured_as_a_whole_once():
    waits = outlook(with_facts(gpu_case(), {"run.queue_s": 4.0}), None)
    together = Together(gpu_case(), "queue", waits)
    assert [together.cured(found()), together.cured(found())] == [
        Cost(seconds=4.0, per="request"), Cost(seconds=0.0, per="request"),
    ]  # fmt: skip


def test_a_cause_alone_says_how_many_times_as_fast():
    seen = outlook(gpu_case(), None)._replace(decode=pace(0.034, BOTH, GPU))
    assert alone(gpu_case(), found(cure=Cure(threads=4)), "decode", seen).speedup == pytest.approx(6.8, rel=0.02)
    assert alone(gpu_case(), found(), "decode", seen) == (None, None)
