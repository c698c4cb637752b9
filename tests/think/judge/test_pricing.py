"""Costs of several causes sum to at most the possible gain; each is priced after those before it."""

from collections.abc import Callable

import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case, with_facts
from firing import spilled
from recorded_machines import FOLDERS as MACHINES
from recorded_machines import recorded

from unslow.facts.run import AtDepth, Completion, Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import MIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.speed import DECODE, Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Found
from unslow.think.judge.judge import judge
from unslow.think.judge.phases import PER, Pace, PhaseTime, outlook
from unslow.think.judge.pricing import DEPTHS, Together, price_alone, time_with
from unslow.think.physics.terms import interval_around
from unslow.think.physics.token_time import Part
from unslow.think.report import Cost, Evidence, Finding, SubjectReport

CONTEXT_TOO_LARGE = {"runtime.context.length": 131072, "runtime.cache.cells": 131072, "runtime.cache.bytes": 131072**2}
COMBINATIONS = {
    "spill and threads": with_facts(spilled(), {"runtime.compute.threads": 64}),
    "spill and a busy CPU": with_facts(spilled(), {"run.others_cpus": 1.9, "run.waiting_for_cpu_s_per_token": 0.05}),
    "spill, threads, a queue": with_facts(spilled(), {"runtime.compute.threads": 16, "run.queue_s": 4.0}),
    "context, threads": with_facts(spilled(), {"runtime.compute.threads": 16} | CONTEXT_TOO_LARGE),
    "no offload, threads": with_facts(gpu_case(layers_on_gpu=0), {"runtime.compute.threads": 32}),
    "threads, a busy CPU": with_facts(
        cpu_case(), {"runtime.compute.threads": 8, "run.others_cpus": 1.5, "run.decode_tokens_per_s": 0.7}
    ),
}


def test_every_combination_has_findings():
    assert all(judge(CaseView(case)).findings for case in COMBINATIONS.values())
    assert sum(len(judge(CaseView(case)).findings) > 1 for case in COMBINATIONS.values()) >= 4


def check_no_second_is_counted_twice(case: Case) -> SubjectReport:
    """That in no phase the costs sum to more than what curing all of it saves."""
    report = judge(CaseView(case))
    assert all(f.cost.seconds >= 0 for f in report.findings if f.cost)
    for per, metric in (("token", "decode_tokens_per_s"), ("prompt_token", "prefill_tokens_per_s")):
        rate, best = report.measured.get(metric), report.expected.achievable.get(metric)
        costs = costs_of(report, lambda f, per=per: f.cost.per == per and f.cost.depth_tokens is None)
        if rate and best and costs:
            assert sum(costs) <= max(0.0, 1 / rate - 1 / best.mid) * (1 + 1e-9) + 1e-12
    check_deep_token(case, report)
    for time in outlook(CaseView(case), None).times:
        if time.phase not in PER:
            check_wait(report, time)
    return report


def costs_of(report: SubjectReport, wanted: Callable[[Finding], bool]) -> list[float]:
    return [f.cost.seconds for f in report.findings if f.cost and wanted(f)]


def check_deep_token(case: Case, report: SubjectReport) -> None:
    deep = [f for f in report.findings if f.cost and f.cost.depth_tokens is not None]
    if deep:
        token_s = 1 / max(case.run.depths.value, key=lambda d: d.depth_tokens).tokens_per_s
        tried = [f.speedup for f in report.findings if f.speedup and any(e.fact == DEPTHS for e in f.evidence)]
        most = token_s * (1 - 1 / max(tried))
        assert sum(f.cost.seconds for f in deep) <= most * (1 + 1e-9)
        by_any = costs_of(report, lambda f: f.cost.per == "token")
        assert sum(by_any) <= token_s * (1 + 1e-9), "nor with what a token at the start loses"


def check_wait(report: SubjectReport, time: PhaseTime) -> None:
    """Of a phase in which nothing is computed; thinking is computed, whatever phase it stands under."""
    own = [f for f in report.findings if f.phase == time.phase and f.cause != "answer_is_mostly_thinking"]
    costs = [f.cost.seconds for f in own if f.cost and f.cost.per == "request"]
    assert sum(costs) <= time.seconds * (1 + 1e-9) + 1e-12


def eight_at_once(case: Case) -> Case:
    return with_facts(case, {"run.traffic": Traffic(seconds=6.0, looks=24, running=8.0, waiting=2.0)})


def falls_with_depth(case: Case) -> Case:
    """With a speed that falls off a cliff, and all that might be why."""
    if not isinstance(
        CaseView(case).sharing.rate_among_others, Known
    ):  # whoever tries it deep has tried it at the start
        case = with_facts(case, {"run.decode_tokens_per_s": 20.0})
    rate = CaseView(case).sharing.rate_among_others.value_or(20.0)
    tried = (AtDepth(depth_tokens=60, tokens_per_s=rate), AtDepth(depth_tokens=7900, tokens_per_s=rate / 6))
    full = {f"machine.gpus.{n}.vram_free_bytes": 300 * MIB for n, _ in enumerate(case.machine.gpus.value_or(()))}
    return with_facts(case, {"run.depths": tried, "runtime.compute.flash_attention": False} | full)


WAYS = (lambda case: case, eight_at_once, falls_with_depth)
TURNS = [(folder, number % len(WAYS)) for number, folder in enumerate(MACHINES)]
"""One way for each machine in turn: all of them for each would take minutes."""


@pytest.mark.no_cover  # the machines are judged elsewhere
@pytest.mark.parametrize(("folder", "way"), TURNS, ids=lambda p: getattr(p, "name", p))
def test_costs_of_a_recorded_machine_sum_to_the_possible_gain(folder, way):
    for case in recorded(folder).cases():
        check_no_second_is_counted_twice(WAYS[way](case))


@pytest.mark.no_cover
def test_recorded_machines_show_several_causes_at_depth_and_under_load():
    stored = [case for folder in MACHINES[::8] for case in recorded(folder).cases()]
    deep = [judge(CaseView(falls_with_depth(case))).findings for case in stored]
    assert any(f.cost and f.cost.depth_tokens for findings in deep for f in findings)
    assert any(len([f for f in judge(CaseView(eight_at_once(case))).findings if f.cost]) > 1 for case in stored)


@pytest.mark.no_cover  # each is judged elsewhere
@pytest.mark.parametrize("name", [*FIRING, *COMBINATIONS])
def test_costs_of_combined_causes_sum_to_the_possible_gain(name):
    case = COMBINATIONS[name] if name in COMBINATIONS else FIRING[name]()
    for seen in (eight_at_once(case), falls_with_depth(case)):
        check_no_second_is_counted_twice(seen)
    report = check_no_second_is_counted_twice(case)
    explained = {e for f in report.findings for e in f.explains}
    assert all(f.cost is None for f in report.findings if f.cause in explained)
    assert all(f.cause not in f.explains for f in report.findings)


def pace(measured_s: float | None, parts: dict[str, float], cured: dict[str, float]) -> Pace:
    """A pace of which any cure but an empty one takes some parts away."""

    def predicted(cure: Cure | None = None) -> Prediction:
        now = cured if cure and any(v is not None for v in cure) else parts
        made = [Part(name, s, 2.0 if name.startswith("host") else 1.1) for name, s in now.items()]
        return Prediction(interval_around(sum(now.values()), 1.5), made, 1e6)

    return Pace("token", measured_s, predicted(), predicted(Cure(threads=4)), predicted)


BOTH, GPU = {"host memory reads": 0.030, "compute": 0.004}, {"compute": 0.005}


def test_predicted_time_falls_to_the_cured_prediction():
    assert time_with(CaseView(gpu_case()), pace(0.034, BOTH, GPU), Cure(vram_bytes=1e9)) == pytest.approx(
        0.005, rel=0.01
    )
    assert time_with(CaseView(gpu_case()), pace(None, BOTH, GPU), Cure(vram_bytes=1e9)) == pytest.approx(0.005)


def test_unexplained_remainder_stays_mostly_with_the_least_certain_part():
    then = time_with(CaseView(gpu_case()), pace(0.068, BOTH, GPU), Cure(vram_bytes=1e9))
    assert 0.005 < then < 0.0056, "the host's part was longer than predicted, and it is gone"


def test_unpredicted_loss_stays_as_remainder():
    assert time_with(CaseView(gpu_case()), pace(0.068, BOTH, BOTH), Cure()) == pytest.approx(0.034)
    assert time_with(CaseView(gpu_case()), pace(0.068, BOTH, BOTH), Cure(alone=True)) == pytest.approx(0.034)


def test_uncertain_prediction_keeps_more_of_the_remainder():
    slow, cured = {"host compute": 0.002, "host memory reads": 0.002}, {"host compute": 0.002}
    sure, unsure = (pace(0.012, slow, cured)._replace(now=_within(slow, spread)) for spread in (1.1, 2.5))
    few, more = (time_with(CaseView(gpu_case()), one, Cure(ubatch=512)) for one in (sure, unsure))
    assert few == pytest.approx(0.002 + 0.5 * 0.008 / 2, rel=0.05), "half of it, by the time of the parts"
    assert few < more < 0.002 + 0.008 / 2


def _within(parts: dict[str, float], spread: float) -> Prediction:
    made = [Part(name, s, 2.0) for name, s in parts.items()]
    return Prediction(interval_around(sum(parts.values()), spread), made, 1e6)


def test_cure_never_increases_the_time():
    assert time_with(CaseView(gpu_case()), pace(0.020, BOTH, BOTH), Cure()) == 0.020


def priced(measured_s: float, *found: Found) -> list[float]:
    seen = outlook(CaseView(gpu_case()), None)._replace(decode=pace(measured_s, BOTH, GPU))
    together = Together(CaseView(gpu_case()), "decode", seen)
    costs = [together.save_by(one) for one in found]
    return [cost.seconds for cost in costs if cost]


def found(**facts) -> Found:
    return Found("so", (), **facts)


def test_second_cure_of_the_same_time_saves_nothing():
    first, second = priced(0.034, found(cure=Cure(vram_bytes=1e9)), found(cure=Cure(threads=4)))
    assert first == pytest.approx(0.029, rel=0.01)
    assert second == pytest.approx(0.0, abs=1e-6)


def test_trial_speedups_multiply_but_not_below_the_possible_time():
    assert priced(0.034, found(speedup=2.0)) == [pytest.approx(0.017)]
    assert sum(priced(0.034, found(speedup=4.0), found(speedup=4.0))) == pytest.approx(0.029)
    assert priced(0.034, found(speedup=20.0)) == [pytest.approx(0.034 * 0.95)], "an experiment beats physics"


def test_measured_loss_is_subtracted():
    assert priced(0.034, found(lost=Cost(seconds=0.004, per="token"))) == [pytest.approx(0.004)]
    assert priced(0.034, found(lost=Cost(seconds=3.0, per="request"))) == [3.0]


def test_wait_is_cured_only_once():
    waits = outlook(CaseView(with_facts(gpu_case(), {"run.queue_s": 4.0})), None)
    together = Together(gpu_case(), "queue", waits)
    assert [together.save_by(found()), together.save_by(found())] == [
        Cost(seconds=4.0, per="request"), Cost(seconds=0.0, per="request"),
    ]  # fmt: skip


def test_single_cause_gives_its_speedup():
    seen = outlook(CaseView(gpu_case()), None)._replace(decode=pace(0.034, BOTH, GPU))
    assert price_alone(CaseView(gpu_case()), found(cure=Cure(threads=4)), "decode", seen).speedup == pytest.approx(
        6.8, rel=0.02
    )
    assert price_alone(CaseView(gpu_case()), found(), "decode", seen) == (None, None)


def test_overlapping_wait_estimates_are_counted_once():
    together = Together(gpu_case(), "queue", outlook(CaseView(gpu_case()), None))
    told = [together.save_by(found(lost=Cost(seconds=s, per="request"))) for s in (3.0, 4.0, 2.0)]
    assert [cost.seconds for cost in told] == [3.0, 1.0, 0.0]


def test_thinking_cost_does_not_depend_on_client_timing():
    thinks = {"run.thinking_tokens": 4000, "run.answer_tokens": 100}
    timed = Completion(
        prompt_tokens=20, generated_tokens=64, prefill_s=0.02, decode_s=0.49, client_total_s=0.56,
        client_first_token_s=0.03, cached_tokens=0,
    )  # fmt: skip
    untimed = with_facts(gpu_case(), thinks)
    for case in (untimed, with_facts(untimed, {"run.completions": (timed, timed)})):
        thinking = judge(CaseView(case)).findings[0]
        assert thinking.cause == "answer_is_mostly_thinking"
        assert thinking.cost.seconds == pytest.approx(4000 / 130)


def test_overlapping_trials_at_depth_are_counted_once():
    case = falls_with_depth(gpu_case())
    tried = Evidence(fact=DEPTHS, value="", reference=None, origin="measured", source="")
    together = Together(CaseView(case), "decode", outlook(CaseView(case), None))
    costs = [together.save_by(Found("so", (tried,), speedup=times)) for times in (2.0, 4.0, 3.0)]
    token_s = 6 / 130
    assert [cost.seconds for cost in costs] == [pytest.approx(token_s / 2), pytest.approx(token_s / 4), 0.0]
    assert {cost.depth_tokens for cost in costs} == {7900}


def test_flash_attention_explains_a_falling_speed_before_kv_spill():
    deep = [
        f for f in judge(CaseView(falls_with_depth(gpu_case()))).findings if any(e.fact == DEPTHS for e in f.evidence)
    ]
    assert [f.cause for f in deep] == ["flash_attention_off", "kv_cache_outgrows_vram"]
    assert deep[0].explains == ("kv_cache_outgrows_vram",)


def test_machine_faster_than_predicted_still_gains_from_a_cure():
    crowded = with_facts(cpu_case(), {"runtime.compute.threads": 64})
    now, best = CaseView(crowded).speed.predict(), CaseView(crowded).speed.predict(Cure(threads=2))
    assert now.seconds.mid > 1.2 * best.seconds.mid
    quick = with_facts(crowded, {"run.decode_tokens_per_s": 1 / best.seconds.mid})
    report = judge(CaseView(quick))
    assert [f.cause for f in report.findings] == ["threads_exceed_cores"]
    assert report.verdict == "slow"
    assert report.findings[0].fixes[0].predicted[DECODE] > 1.1 * report.measured[DECODE]
    assert report.expected.achievable[DECODE].mid > 1.1 * report.measured[DECODE]
