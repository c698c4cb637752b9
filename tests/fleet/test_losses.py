"""What an instance loses: by hand on recorded machines, and bounded whatever the traffic."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_fleets import BUSY, PREEMPTS, QUEUE, WINDOW_S, judged, named, report_on, with_traffic
from recorded_machines import first_case

from unslow.facts.run import Run
from unslow.facts.values import NOT_LOOKED, not_found, reported_fact
from unslow.fleet.judging import judge_instance
from unslow.fleet.losses import NOBODY_ASKED, loss_of
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import Cost, Expectation, Finding, Range

HOURS = WINDOW_S / 3600


def lost(name, **traffic):
    case = with_traffic(first_case(name), **traffic)
    return loss_of(CaseView(case), judge(CaseView(case)), WINDOW_S)


def finding(cause="eager_mode", phase="decode", cost=None, **more):
    return Finding(cause=cause, title=cause, phase=phase, confidence=0.9, because="", evidence=(), cost=cost, **more)


def judged_so(verdict="slow", rate=20.0, best=(35.0, 40.0, 45.0), findings=(), phase="decode"):
    """The report on the busy vLLM, had it been judged so."""
    low, mid, high = best or (0.0, 0.0, 0.0)
    expected = Expectation(achievable={DECODE: Range(low=low, mid=mid, high=high)} if best else {}, because="no size")
    measured = {DECODE: rate} if rate else {}
    return msgspec.structs.replace(
        report_on(BUSY), verdict=verdict, phase=phase, measured=measured, expected=expected, findings=findings
    )


def loss_so(report, by_itself=(), **traffic):
    case = with_traffic(first_case(BUSY), **{"tokens_per_s": reported_fact(480.0, "test"), **traffic})
    return loss_of(CaseView(case), report, WINDOW_S, by_itself)


def test_normal_instance_loses_nothing():
    found = lost(BUSY)
    assert found.loss.tokens_per_s == found.loss.gpu_hours == 0.0
    assert found.by_cause == {}


def test_idle_instance_has_idle_gpu_hours_and_no_loss():
    loss = lost(BUSY, running=0.0, each_among=0.0, tokens_per_s=reported_fact(0.0, "test")).loss
    assert loss.idle_gpu_hours == pytest.approx(HOURS)
    assert not loss.gpu_hours


def test_undetermined_idle_instance_loses_nothing():
    nobody = {"running": 0.0, "each_among": 0.0, "tokens_per_s": reported_fact(0.0, "test"), "waiting": 0.0}
    found = loss_so(judged_so("cannot_tell", rate=None), **nobody).loss
    assert (found.tokens_per_s, found.gpu_hours, found.because) == (0.0, 0.0, NOBODY_ASKED)
    stuck = loss_so(judged_so("cannot_tell", rate=None), **nobody | {"waiting": 3.0}).loss
    assert stuck.tokens_per_s is None
    assert stuck.because != NOBODY_ASKED


def test_missing_speed_is_stated_as_not_measured(wording):
    unseen = not_found("its tokens are too few to tell a speed")
    case = with_traffic(first_case(BUSY), each_tokens_per_s=unseen, running=0.1)
    runtime = case.runtime.with_facts(decode_tokens_per_s=NOT_LOOKED)
    watched = msgspec.structs.replace(case, runtime=runtime, run=Run(traffic=case.run.traffic))
    because = loss_of(CaseView(watched), judged_so("cannot_tell", rate=None), WINDOW_S).loss.because
    wording(because)


def test_quarter_load_leaves_three_quarters_idle_gpu_hours():
    assert loss_so(judged_so("normal", rate=80.0), running=6.0, each_among=24.0).loss.idle_gpu_hours == pytest.approx(
        0.75 * HOURS
    )


def test_half_the_achievable_speed_loses_as_much_as_it_generates():
    found = loss_so(judged_so(rate=20.0, findings=(finding(cost=Cost(seconds=0.02, per="token")),)))
    assert found.loss.tokens_per_s == pytest.approx(480.0)
    assert found.loss.gpu_hours == pytest.approx(HOURS / 2)
    assert found.by_cause == {
        "eager_mode": pytest.approx(480.0 * 0.02 / (1 / 20 - 1 / 40)), "": pytest.approx(480.0 * 0.2)
    }  # fmt: skip


def test_within_the_interval_only_the_cause_cost_is_lost():
    found = loss_so(judged_so(rate=36.0, findings=(finding(cost=Cost(seconds=1 / 36 - 1 / 38, per="token")),)))
    assert found.loss.tokens_per_s == pytest.approx(480.0 * (38 / 36 - 1))


def test_unexplained_loss_goes_to_the_exporter_cause():
    assert set(loss_so(judged_so(), ("eager_mode", "swapping")).by_cause) == {"eager_mode"}


def test_speedup_replaces_a_missing_cost_up_to_achievable():
    found = loss_so(judged_so(rate=36.0, findings=(finding(speedup=3.0),)))
    assert found.loss.tokens_per_s == pytest.approx(480.0 * (40 / 36 - 1))
    without = loss_so(judged_so(rate=36.0, best=None, findings=(finding(speedup=1.5),)))
    assert without.loss.tokens_per_s == pytest.approx(240.0)


def test_waiting_requests_are_counted_at_the_larger_batch():
    case = first_case(QUEUE)
    deep = msgspec.structs.replace(case.run, depth_tokens=reported_fact(1024, "test"))  # each reads its own in a step
    view = CaseView(msgspec.structs.replace(case, run=deep))
    report = judge(view)
    found = loss_of(view, report, WINDOW_S)
    alone = 22.0 * report.expected.achievable[DECODE].mid
    assert 0.5 * alone < found.loss.tokens_per_s < 0.95 * alone
    assert set(found.by_cause) == {"queueing"}


def test_waiting_without_a_queue_finding_is_not_a_loss(wording):
    assert loss_so(judged_so(rate=39.0), waiting=50.0).loss.tokens_per_s == 0.0
    wording(loss_so(judged_so(rate=39.0)).loss.because)


def test_preemption_also_slows_decode():
    found = lost(PREEMPTS)
    assert set(found.by_cause) == {"kv_cache_preemption"}
    assert sum(found.by_cause.values()) == pytest.approx(found.loss.tokens_per_s)


def test_waiting_is_counted_without_an_expected_speed():
    queued = judged_so(best=None, rate=None, phase="queue", findings=(finding("queueing", "queue"),))
    found = loss_so(queued, waiting=3.0, running=24.0)
    assert 0.8 * 3 * 480 / 24 < found.loss.tokens_per_s < 3 * 480 / 24
    assert "only" in found.loss.because


def test_prefill_loss_is_a_share_of_all_time():
    slow = judged_so(
        rate=41.0, findings=(finding("prefill_batch_too_small", "prefill", Cost(seconds=0.001, per="prompt_token")),)
    )
    found = loss_so(slow, prompt_tokens_per_s=reported_fact(200.0, "test"))
    assert found.by_cause == {"prefill_batch_too_small": pytest.approx(480 * 0.2 / 0.8)}


def test_load_loss_is_a_share_of_each_request():
    reloads = finding("model_reloads_between_requests", "load", Cost(seconds=6.4, per="request"))
    found = loss_so(judged_so(rate=41.0, findings=(reloads,)), running=24.0)
    come_per_s = 480.0 / 256
    share = come_per_s * 6.4 / 24.0
    assert found.loss.tokens_per_s == pytest.approx(480 * share / (1 - share))


@pytest.mark.parametrize(
    ("report", "traffic", "because"),
    [
        (judged_so("cannot_tell"), {}, "no size"),
        (judged_so("failed"), {}, "does not load"),
        (judged_so(best=None), {}, "no size"),
        (judged_so(), {"tokens_per_s": NOT_LOOKED}, "unknown"),
    ],
)
def test_unknown_loss_states_the_reason(report, traffic, because):
    found = loss_so(report, **traffic)
    assert found.loss.tokens_per_s is None
    assert because in found.loss.because
    assert found.by_cause == {}


def test_failed_load_loses_all_its_gpu_hours():
    assert loss_so(judged_so("failed")).loss.gpu_hours == pytest.approx(HOURS)


def test_sleeping_instance_is_idle():
    case = first_case(BUSY)
    asleep = msgspec.structs.replace(
        case, runtime=msgspec.structs.replace(case.runtime, state=reported_fact("asleep", "t"))
    )
    assert loss_of(CaseView(asleep), judged_so("normal"), WINDOW_S).loss.idle_gpu_hours == pytest.approx(HOURS)


def test_cpu_instance_loses_no_gpu_hours():
    cpu = judged("built_laptop_cpu_healthy").instance
    assert cpu.gpus == 0
    assert cpu.lost.gpu_hours == 0.0


def test_unknown_gpu_count_gives_no_gpu_hours():
    case = first_case(BUSY)
    unseen = msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, gpus=NOT_LOOKED))
    alone = msgspec.structs.replace(unseen, runtime=unseen.runtime.with_facts(tensor_parallel=NOT_LOOKED))
    several = msgspec.structs.replace(
        unseen, runtime=unseen.runtime.with_facts(tensor_parallel=reported_fact(4, "test"))
    )
    assert judge_instance(named("one"), CaseView(alone), judged_so()).instance.lost.gpu_hours is None
    assert judge_instance(named("one"), CaseView(several), judged_so()).instance.gpus == 4


PRICES = st.one_of(
    st.none(), st.builds(Cost, seconds=st.floats(0, 1e4), per=st.sampled_from(("token", "request", "prompt_token")))
)
TRAFFIC = st.fixed_dictionaries({
    "running": st.floats(0, 1e4), "waiting": st.floats(0, 1e5), "each_among": st.floats(0, 1e4),
    "tokens_per_s": st.floats(0, 1e6).map(lambda rate: reported_fact(rate, "test")),
})  # fmt: skip
RATES = st.one_of(st.none(), st.floats(0.01, 1e4))
PHASES = st.sampled_from(("decode", "prefill", "queue", "load"))
VERDICTS = st.sampled_from(("slow", "normal", "failed", "cannot_tell"))


@settings(max_examples=60)
@given(VERDICTS, RATES, RATES, PHASES, PRICES, TRAFFIC)
def test_losses_are_bounded_and_causes_sum_to_the_loss(verdict, rate, mid, phase, cost, traffic):
    best = None if mid is None else (0.8 * mid, mid, 1.2 * mid)
    report = judged_so(verdict, rate, best, (finding(phase=phase, cost=cost),), phase)
    loss, taken = loss_so(report, **traffic)
    assert loss.tokens_per_s is None or loss.tokens_per_s >= 0.0
    assert loss.tokens_per_s is not None or loss.because
    assert (loss.gpu_hours or 0.0) >= 0.0 <= (loss.idle_gpu_hours or 0.0)
    assert (loss.gpu_hours or 0.0) + (loss.idle_gpu_hours or 0.0) <= HOURS * (1 + 1e-9)
    assert sum(taken.values()) == pytest.approx(loss.tokens_per_s or 0.0)
    assert verdict == "slow" or not loss.tokens_per_s
