"""Who is slower than its peers, and which fact differs: an injected difference is named first, chance is not."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_fleets import BUSY, PREEMPTS, WINDOW_S, alike, judged, named, slowed, varied, with_gpu
from recorded_machines import first_case

from unslow.fleet.judging import judge_instance
from unslow.fleet.report import Judgement
from unslow.fleet.summary import peer_groups
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import Expectation

INJECTED = (
    ("machine.gpus.0.power_limit_w", 250.0, "gpu_power_capped"),
    ("machine.gpus.0.clock_hz", 900e6, "gpu_held_at_low_clocks"),
    ("machine.gpus.0.temperature_c", 91.0, "gpu_thermal_throttling"),
    ("machine.gpus.0.pcie_width", 4, "pcie_link_degraded"),
    ("machine.gpus.0.driver", "470.82", ""),
    ("machine.load.busy_cpus", 15.0, "cpu_contended"),
    ("machine.memory.swap_used_bytes", 9 * 1024**3, "swapping"),
    ("runtime.version", "0.9.1", "runtime_version_regressed"),
    ("runtime.compute.eager", True, "eager_mode"),
    ("run.traffic.preemptions", 40, "kv_cache_preemption"),
    ("runtime.memory.gpu_memory_fraction", 0.4, ""),
)


def only_group(members):
    (group,) = peer_groups(members, WINDOW_S)
    return group


def without_prediction(one):
    return one._replace(instance=msgspec.structs.replace(one.instance, expected=Expectation()))


def at_load(one, running):
    return one._replace(instance=msgspec.structs.replace(one.instance, running=running, at_once=running))


@pytest.mark.parametrize(("path", "value", "cause"), INJECTED, ids=lambda one: str(one)[-24:])
def test_an_injected_difference_is_named_first(path, value, cause):
    fleet = alike(12, fact_noise=0.03)
    fleet[5] = slowed(fleet[5], 0.6, **{path: value})
    (odd,) = only_group(fleet).odd
    assert odd.key == fleet[5].instance.key
    assert (odd.differences[0].fact, odd.differences[0].value) == (path, value)
    assert odd.differences[0].explains == cause
    assert odd.reached == pytest.approx(0.6, abs=0.05)


@settings(max_examples=25)
@given(
    st.integers(6, 40), st.integers(0, 10_000), st.floats(0.1, 0.72), st.sampled_from(INJECTED),
    st.floats(0.0, 0.03), st.floats(0.0, 0.05),
)  # fmt: skip
def test_only_the_slow_instance_is_odd_at_any_noise(count, seed, share, injected, speed_noise, fact_noise):
    fleet = alike(count, seed, speed_noise, fact_noise)
    place = seed % count
    fleet[place] = slowed(fleet[place], share, **{injected[0]: injected[1]})
    (odd,) = only_group(fleet).odd
    assert odd.key == fleet[place].instance.key
    assert odd.differences[0].fact == injected[0]


def test_equal_instances_have_no_odd_one():
    group = only_group(alike(30, fact_noise=0.1))
    assert group.odd == ()
    assert group.judged == group.instances == 30
    assert group.speed
    assert group.speed.low < group.speed.mid < group.speed.high
    assert group.because == ""


def test_small_groups_tolerate_more_deviation():
    few, many = alike(6, speed_noise=0.0), alike(60, speed_noise=0.0)
    few[2], many[2] = slowed(few[2], 0.86), slowed(many[2], 0.86)
    assert only_group(few).odd == ()
    assert [odd.key for odd in only_group(many).odd] == [many[2].instance.key]


def test_normal_instances_are_the_norm_when_most_are_slow():
    fleet = alike(12)
    ill = [
        one._replace(instance=msgspec.structs.replace(one.instance, verdict="slow"))
        for one in (slowed(other, 0.5, **{"runtime.compute.eager": True}) for other in fleet[:8])
    ]
    group = only_group([*ill, *fleet[8:]])
    assert {odd.key for odd in group.odd} == {one.instance.key for one in ill}
    assert all(odd.differences[0].fact == "runtime.compute.eager" for odd in group.odd)


def test_odd_instance_without_a_differing_fact_says_so(wording):
    fleet = alike(10)
    fleet[2] = slowed(fleet[2], 0.5)
    (odd,) = only_group(fleet).odd
    assert odd.differences == ()
    wording(odd.summary)


def test_groups_that_are_too_small_are_not_compared():
    group = only_group([*alike(3), slowed(alike(4)[3], 0.3)])
    assert group.odd == ()
    assert "5 are needed" in group.because


def test_instances_with_few_tokens_are_not_peers():
    quiet = [one._replace(instance=msgspec.structs.replace(one.instance, tokens_per_s=0.01)) for one in alike(9)]
    assert only_group(quiet).judged == 0


def test_different_model_or_gpu_count_is_not_a_peer():
    fleet = alike(10)
    larger = msgspec.structs.replace(fleet[0].instance, model="another model")
    doubled = msgspec.structs.replace(fleet[1].instance, devices=(fleet[1].instance.devices[0],) * 2, gpus=2)
    groups = peer_groups([*fleet[2:], Judgement(larger, {}), Judgement(doubled, {})], WINDOW_S)
    assert [group.instances for group in groups] == [8, 1, 1]
    assert any(group.devices.startswith("2 x ") for group in groups)


def test_higher_load_is_not_slowness():
    """Without a prediction the speed of one is held only against those with about its load."""
    fleet = [without_prediction(one) for one in alike(20)]
    loaded = [at_load(slowed(one, 0.5), 60.0) for one in fleet[:6]]
    assert only_group([*loaded, *fleet[6:]]).odd == ()
    lonely = only_group([at_load(slowed(fleet[0], 0.5), 60.0), *fleet[6:]])
    assert lonely.odd == ()
    assert lonely.judged == 14
    slow = slowed(at_load(slowed(fleet[7], 0.5), 60.0), 0.5)
    assert [odd.key for odd in only_group([*loaded, slow, *fleet[8:]]).odd] == [slow.instance.key]


def test_different_loads_without_predictions_are_not_compared(wording):
    fleet = [at_load(without_prediction(one), 3.0**n) for n, one in enumerate(alike(6))]
    wording(only_group(fleet).because)


def test_instance_is_not_its_own_peer():
    fleet = [without_prediction(one) for one in alike(10)]
    placed = [at_load(one, 10.0 if n < 6 else 100.0) for n, one in enumerate(fleet)]
    placed[9] = slowed(placed[9], 0.5)
    group = only_group(placed)
    assert (group.judged, group.odd) == (6, ()), "of the four at the higher load, each has three to be held against"


def test_better_value_than_peers_is_not_a_reason():
    fleet = alike(10)
    cool = {"machine.gpus.0.temperature_c": 30.0, "machine.gpus.0.power_limit_w": 900.0}
    fleet[4] = slowed(fleet[4], 0.5, **cool)
    assert only_group(fleet).odd[0].differences == ()


def test_effects_and_names_are_not_reasons():
    fleet = alike(10)
    own = {
        "machine.gpus.0.busy": 0.1,
        "machine.gpus.0.power_w": 60.0,
        "runtime.process.url": "http://x",
        "run.traffic.running": 1,
    }
    fleet[4] = slowed(fleet[4], 0.5, **own)
    assert only_group(fleet).odd[0].differences == ()


def test_difference_shared_by_several_odd_ones_comes_first():
    fleet = alike(20)
    for place in (3, 4, 5):
        alone = {"machine.cpu.governor": "powersave"} if place == 3 else {}
        fleet[place] = slowed(fleet[place], 0.6, **{"machine.system.kernel": "5.4.0", **alone})
    found = {one.key: [difference.fact for difference in one.differences] for one in only_group(fleet).odd}
    assert found[fleet[3].instance.key] == ["machine.system.kernel", "machine.cpu.governor"]
    assert len(found) == 3


def test_difference_cited_by_a_finding_comes_first():
    """The recorded server with preemptions, beside healthy ones."""
    fleet = [*alike(8), judged(PREEMPTS, "bad")]
    fleet[-1] = slowed(fleet[-1], 1.0, **{"machine.gpus.0.driver": "470.82"})
    (odd,) = only_group(fleet).odd
    assert odd.key == "bad"
    assert odd.differences[0].explains == "kv_cache_preemption"
    assert "machine.gpus.0.driver" in [difference.fact for difference in odd.differences]


def test_throttle_reason_is_named_before_the_clock():
    fleet = alike(10)
    for place, reason in ((2, {"power_limit_w": 210.0}), (3, {"temperature_c": 92.0})):
        held = {"clock_hz": 700e6, "event_reasons": "sw_power_cap", **reason}
        fleet[place] = slowed(fleet[place], 0.5, **{f"machine.gpus.0.{name}": value for name, value in held.items()})
    first = {odd.key: odd.differences[0].fact for odd in only_group(fleet).odd}
    assert first[fleet[2].instance.key] == "machine.gpus.0.power_limit_w"
    assert first[fleet[3].instance.key] == "machine.gpus.0.temperature_c"


def test_facts_without_peer_agreement_are_not_reasons():
    chance = random.Random(3)
    fleet = [one._replace(facts=one.facts | {"runtime.compute.threads": chance.randrange(1, 60)}) for one in alike(20)]
    fleet[0] = slowed(fleet[0], 0.5, **{"runtime.compute.threads": 61})
    assert "runtime.compute.threads" not in [d.fact for d in only_group(fleet).odd[0].differences]


def test_changed_recorded_machine_is_found_as_odd(wording):
    """The machine is changed before it is judged, not the table of facts."""
    case = with_gpu(first_case(BUSY), power_limit_w=200.0)
    slow = slowed(judge_instance(named("capped"), CaseView(case), judge(CaseView(case))), 0.5)
    chance = random.Random(5)
    fleet = [*alike(8), varied(slow, "capped", chance, 0.0, 0.01)]
    (odd,) = only_group(fleet).odd
    wording(odd.summary, tells=("200 W", "450 W"))


def test_group_speed_is_per_request():
    fleet = alike(9, speed_noise=0.0)
    speed = only_group(fleet).speed
    assert speed
    assert speed.mid == pytest.approx(fleet[0].instance.measured[DECODE])
