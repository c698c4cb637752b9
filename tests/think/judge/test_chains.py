"""Causal chains: one chain with its root first, never a cycle, no symptom as a cause."""

from all_firing import FIRING
from cases import gpu_case, with_facts
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.run import TrialInTurns
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.cure import Cure
from unslow.think.case.speed import Prediction, host_share
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge
from unslow.think.judge.verdict import chains_of, consequences, settle_answers
from unslow.think.physics.terms import interval_around
from unslow.think.physics.token_time import Part
from unslow.think.report import Finding

A, B, C = "context_larger_than_needed", "other_process_holds_vram", "weights_spill_to_ram"


def found(*explains: str) -> Found:
    return Found("so", (), explains=explains)


def finding(cause: str, *explains: str) -> Finding:
    return Finding(cause=cause, title=cause, confidence=0.9, because="so", evidence=(), explains=explains)


def test_consequences_are_transitive():
    explains = consequences({A: found(B), B: found(C), C: found()}, (A, B, C))
    assert explains == {A: (B, C), B: (C,), C: ()}
    assert consequences({A: found(B), B: found(C), C: found()}, (C, B, A)) == explains, "in whatever order"


def test_first_cause_breaks_a_cycle():
    circle = {A: found(B), B: found(C), C: found(A)}
    assert consequences(circle, (A, B, C)) == {A: (B, C), B: (C,), C: ()}
    assert consequences(circle, (C, B, A))[C] == (A,)
    assert all(name not in others for name, others in consequences(circle, (B, A, C)).items())


def test_cause_explains_neither_itself_nor_unfound_causes():
    assert consequences({A: found(A, C)}, (A,)) == {A: ()}


def test_chain_is_listed_once_under_its_root():
    chains = chains_of([finding(A, B, C), finding("swapping", C), finding(B, C), finding(C)])
    assert [(c.root.cause, [f.cause for f in c.after]) for c in chains] == [(A, [B, C]), ("swapping", [])]
    assert chains_of([]) == []


def prediction(host_s: float, device_s: float) -> Prediction:
    parts = [Part("host memory reads", host_s, 1.5), Part("device memory reads", device_s, 1.2)]
    return Prediction(interval_around(host_s + device_s, 1.4), parts, 1000.0)


def test_low_clocks_of_a_waiting_gpu_are_not_a_finding():
    low = {"gpu_held_at_low_clocks": found(), C: found()}
    waiting = settle_answers(gpu_case(), low, prediction(0.03, 0.002))
    assert isinstance(waiting["gpu_held_at_low_clocks"], Absent)
    assert "94%" in waiting["gpu_held_at_low_clocks"].because
    assert isinstance(waiting[C], Found)
    assert settle_answers(gpu_case(), low, prediction(0.001, 0.02)) == low
    assert settle_answers(gpu_case(), low, None) == low
    assert host_share(prediction(0.03, 0.01)) == 0.75


def test_spill_is_one_chain_with_one_cost():
    report = judge(CaseView(FIRING[B]()))
    chains = chains_of(report.findings)
    assert len(chains) == 1
    assert chains[0].root.cost is not None
    assert chains[0].after
    assert all(f.cost is None for f in chains[0].after)
    assert set(chains[0].root.explains) == {f.cause for f in chains[0].after}


ROUND_TRIP, REGRESSED = "cpu_round_trip_bound", "runtime_version_regressed"


def is_left(resort: str, other: str, answer: Found, case: Case | None = None) -> bool:
    case = case or gpu_case()
    now = CaseView(case).speed.predict()
    assert isinstance(now, Prediction)
    return isinstance(settle_answers(CaseView(case), {other: answer, resort: found()}, now)[resort], Found)


def test_last_resort_stays_beside_causes_of_another_loss():
    assert not is_left(ROUND_TRIP, "sampling_on_cpu", Found("so", (), speedup=2.0))
    assert is_left(ROUND_TRIP, "sampling_on_cpu", Found("so", (), speedup=1.02)), "which costs next to nothing"
    assert is_left(ROUND_TRIP, "prefill_batch_too_small", Found("so", (), speedup=2.0)), "of prompts"
    assert is_left(REGRESSED, "slow_model_load", found()), "of the load"


def test_last_resort_is_ruled_out_by_a_significant_loss():
    spilled, cured = gpu_case(layers_on_gpu=20), Found("so", (), Cure(vram_bytes=20 * GIB))
    assert not is_left(ROUND_TRIP, "gpu_layers_set_too_low", cured, spilled)
    hardly = gpu_case(layers_on_gpu=33)
    assert not is_left(ROUND_TRIP, "gpu_held_at_low_clocks", Found("so", (), Cure(alone=True)), hardly)
    tried = TrialInTurns(changed="no sort", as_set_tokens_per_s=130.0, changed_tokens_per_s=138.0)
    sorts = with_facts(gpu_case(), {"run.plain_sampling": tried})
    assert is_left(ROUND_TRIP, "sampling_on_cpu", Found("so", (), Cure(plain_sampling=True)), sorts)


def test_prose_report_names_one_cause():
    told = saying(Topic.QUEUED, "requests ran while", case=gpu_case())
    assert CaseView(told).narrative.is_report
    assert not is_left(REGRESSED, "queueing", found(), told)
