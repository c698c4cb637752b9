"""The fleet as a whole: sums, causes and order, whatever it is made of."""

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_fleets import BUSY, HEAD, PREEMPTS, QUEUE, WINDOW_S, alike, judged, slowed
from recorded_machines import FOLDERS

from unslow.fleet.report import FleetReport, Instance, Judgement, Loss
from unslow.fleet.summary import WORST_FIRST, fleet_of

REAL = (BUSY, QUEUE, PREEMPTS, "built_vllm_eight_copies_of_sixteen_places", "built_pytorch_out_of_memory")
AMOUNTS = st.one_of(st.none(), st.just(0.0), st.floats(1e-6, 1e5))


def named(name, key):
    one = judged(name)
    return one._replace(instance=msgspec.structs.replace(one.instance, key=key))


@st.composite
def generated(draw):
    """Instances with any loss, of which the causes have any part."""
    count = draw(st.integers(0, 12))
    return [Judgement(_instance(draw, f"one-{n}"), {}) for n in range(count)]


def _instance(draw, key):
    tokens = draw(AMOUNTS)
    share = draw(st.floats(0, 1))
    by = {"queueing": (tokens or 0.0) * share, "": (tokens or 0.0) * (1 - share)} if tokens else {}
    return Instance(
        key=key, runtime="vLLM", model="m", verdict=draw(st.sampled_from(WORST_FIRST)), summary="s", gpus=2,
        lost=Loss(tokens_per_s=tokens, gpu_hours=draw(AMOUNTS)), lost_by=by, tokens_per_s=draw(AMOUNTS),
    )  # fmt: skip


@settings(max_examples=40)
@given(generated())
def test_instances_are_sorted_by_loss(fleet):
    report = fleet_of(fleet, HEAD)
    assert sorted(one.key for one in report.instances) == sorted(one.instance.key for one in fleet)
    tokens = [one.lost.tokens_per_s or 0.0 for one in report.instances]
    assert tokens == sorted(tokens, reverse=True)
    assert sum(report.verdicts.values()) == len(fleet)


@settings(max_examples=40)
@given(generated())
def test_cause_losses_sum_to_the_fleet_loss(fleet):
    report = fleet_of(fleet, HEAD)
    assert sum(cause.tokens_per_s or 0.0 for cause in report.causes) == pytest.approx(report.lost.tokens_per_s or 0.0)
    assert sum(cause.gpu_hours or 0.0 for cause in report.causes) <= (report.lost.gpu_hours or 0.0) * (1 + 1e-9)
    costs = [cause.tokens_per_s or 0.0 for cause in report.causes]
    assert costs == sorted(costs, reverse=True)


@settings(max_examples=15)
@given(st.permutations(range(len(REAL))), st.integers(0, 5))
def test_verdicts_are_independent_of_order_and_healthy_instances(order, healthy):
    fleet = [named(name, name) for name in REAL]
    before = {one.key: one for one in fleet_of(fleet, HEAD).instances}
    after = {one.key: one for one in fleet_of([*(fleet[n] for n in order), *alike(healthy)], HEAD).instances}
    assert all(after[key] == one for key, one in before.items())


def test_recorded_machines_are_sorted_by_loss(wording):
    report = fleet_of([named(name, name) for name in REAL], HEAD)
    assert report.instances[0].key == "built_vllm_eight_copies_of_sixteen_places"
    assert report.instances[-1].key == BUSY
    assert report.verdicts == {"failed": 1, "slow": 3, "cannot_tell": 0, "normal": 1}
    assert report.causes[0].cause == "queueing"
    wording(report.causes[0].title)
    assert report.causes[0].worst[0] == "built_vllm_eight_copies_of_sixteen_places"
    assert report.gpus == 12
    assert "1 of 5" in report.lost.because


def test_unknown_amounts_are_not_zero():
    """A failed query must not turn unknown amounts into zero."""
    slow = Instance(key="a", runtime="vLLM", model="m", verdict="slow", summary="s", by_itself=("swapping",))
    report = fleet_of([Judgement(slow, {})], HEAD)
    assert (report.tokens_per_s, report.gpus) == (None, None)
    assert [(cause.tokens_per_s, cause.gpu_hours) for cause in report.causes] == [(None, None)]
    idle = msgspec.structs.replace(slow, tokens_per_s=0.0, gpus=0, lost=Loss(tokens_per_s=0.0, gpu_hours=0.0))
    report = fleet_of([Judgement(slow, {}), Judgement(idle, {})], HEAD)
    assert (report.tokens_per_s, report.gpus) == (0.0, 0)
    assert [(cause.tokens_per_s, cause.gpu_hours) for cause in report.causes] == [(0.0, 0.0)]


def test_failed_instance_hours_go_to_its_first_cause():
    report = fleet_of([named("built_pytorch_out_of_memory", "failed")], HEAD)
    (cause, *_) = report.causes
    assert cause.cause == "memory_allocation_failed"
    assert cause.gpu_hours == pytest.approx(WINDOW_S / 3600)


def test_unexplained_and_exporter_causes_are_counted(wording):
    slow = Instance(
        key="a", runtime="vLLM", model="m", verdict="slow", summary="s", by_itself=("swapping", "of_a_newer_version"),
        lost=Loss(tokens_per_s=5.0, gpu_hours=0.1), lost_by={"": 5.0},
    )  # fmt: skip
    report = fleet_of([Judgement(slow, {})], HEAD)
    assert {cause.cause for cause in report.causes} == {"unexplained", "swapping", "of_a_newer_version"}
    wording([cause.title for cause in report.causes])


def test_most_common_undetermined_reasons_come_first():
    untold = Instance(key="a", runtime="vLLM", model="m", verdict="cannot_tell", summary="It could not be judged.")
    reasons = ["no GPU exporter"] * 2 + ["no size", ""]
    fleet = [
        Judgement(msgspec.structs.replace(untold, key=str(n), lost=Loss(because=why)), {})
        for n, why in enumerate(reasons)
    ]
    assert list(fleet_of(fleet, HEAD).untold.items()) == [
        ("no GPU exporter", 2), ("It could not be judged.", 1), ("no size", 1),
    ]  # fmt: skip


def test_reasons_differing_only_by_name_are_merged():
    untold = Instance(key="a", runtime="vLLM", model="m", verdict="cannot_tell", summary="s")
    reasons = [f"no exporter is found for its host: no labels say node-{n}" for n in range(20)] + ["no size: 7 GB"]
    fleet = [
        Judgement(msgspec.structs.replace(untold, key=str(n), lost=Loss(because=w)), {}) for n, w in enumerate(reasons)
    ]
    assert fleet_of(fleet, HEAD).untold == {
        "no exporter is found for its host, such as no labels say node-0": 20, "no size: 7 GB": 1,
    }  # fmt: skip


def test_idle_instance_is_counted_apart_without_a_reason():
    lost = Loss(tokens_per_s=0.0, because="nobody asked it anything in the window")
    idle = Instance(key="a", runtime="vLLM", model="m", verdict="cannot_tell", summary="s", lost=lost)
    report = fleet_of([Judgement(idle, {}), judged(BUSY, "b")], HEAD)
    assert (report.idle, report.untold, report.lost.because) == (1, {}, "")
    assert report.verdicts["cannot_tell"] == 1


def test_empty_fleet_gives_a_valid_report():
    report = fleet_of([], HEAD)
    assert report.instances == report.peers == report.causes == ()
    assert report.lost.tokens_per_s is None


def test_fleet_report_round_trips_through_json():
    report = fleet_of([*alike(6), *(named(name, name) for name in REAL)], HEAD)
    assert msgspec.json.decode(msgspec.json.encode(report), type=FleetReport) == report


def test_every_recorded_machine_can_be_part_of_a_fleet():
    """Every recorded machine at once: losses stay bounded."""
    fleet = [named(folder.name, folder.name) for folder in FOLDERS[::25]]
    for one in fleet_of(fleet, HEAD).instances:
        most = (one.gpus or 0) * WINDOW_S / 3600
        assert 0.0 <= (one.lost.gpu_hours or 0.0) <= most
        assert (one.lost.tokens_per_s or 0.0) >= 0.0
        assert one.verdict != "normal" or one.lost.tokens_per_s == 0.0


def test_judging_time_grows_at_most_linearly():
    """Ten times as many instances take at most about ten times as long, with odd ones among them."""
    few, many = _timed(200), _timed(2000)
    assert many < 30 * max(few, 0.01)


def _timed(count):
    fleet = alike(count)
    fleet[7] = slowed(fleet[7], 0.5, **{"runtime.version": "0.1"})
    started = time.process_time()
    report = fleet_of(fleet, HEAD)
    assert report.peers[0].odd[0].differences[0].fact == "runtime.version"
    return time.process_time() - started
