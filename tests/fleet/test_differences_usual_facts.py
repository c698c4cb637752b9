"""What peers have in common, and when a value is far off it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.fleet.differences import MOST_PEERS, comparable_facts, is_deviating, usual_facts

LIMIT, THREADS, VERSION = "machine.gpus.power_limit_w", "runtime.compute.threads", "runtime.version"


def usual(path, *values):
    return usual_facts([{path: value} for value in values]).get(path)


def is_far(path, value, *peers):
    found = usual(path, *peers)
    return found is not None and is_deviating(path, value, found)


def test_numeric_facts_have_median_and_spread():
    found = usual(LIMIT, 690.0, 700.0, 700.0, 705.0, 710.0)
    assert found
    assert found.value == 700.0
    assert found.share == 1.0
    assert found.spread >= 0.12 * 700


def test_text_facts_are_counted():
    found = usual(VERSION, *["1"] * 9, "2")
    assert found
    assert (found.value, found.share) == ("1", 0.9)
    assert not is_far(VERSION, "2", *["1"] * 8, "2", "2"), "healthy ones have it too"
    assert is_far(VERSION, "3", *["1"] * 9, "2")
    assert not is_far(VERSION, "1", *["1"] * 10)


def test_facts_without_agreement_or_coverage_are_left_out():
    assert usual(VERSION, "1", "2", "3", "4", "5") is None
    assert usual(VERSION, "1", "1", "1") is None
    few = [{VERSION: "1"}] * 4 + [{}] * 10
    assert VERSION not in usual_facts(few)


def test_mixed_types_and_nan_are_left_out():
    assert usual(THREADS, 1.5, "auto", 1.5, 1.5, 1.5) is None
    assert usual(THREADS, *[float("nan")] * 6) is None
    assert not is_far(THREADS, "auto", 8, 8, 8, 8, 8)


def test_booleans_are_compared_as_text():
    assert is_far("runtime.compute.eager", True, *[False] * 6)
    assert not is_far("runtime.compute.eager", False, *[False] * 6)


def test_only_worse_values_count_as_differences():
    assert is_far(LIMIT, 350.0, *[700.0] * 6)
    assert not is_far(LIMIT, 1400.0, *[700.0] * 6)
    assert is_far(THREADS, 2, *[16] * 6)
    assert is_far(THREADS, 64, *[16] * 6)


def test_small_deviations_are_not_differences():
    gib = 1024**3
    assert not is_far("machine.memory.swap_used_bytes", gib // 8, *[0] * 6)
    assert is_far("machine.memory.swap_used_bytes", gib, *[0] * 6)
    assert not is_far("run.traffic.cache_used", 0.09, *[0.01] * 6)
    assert not is_far("machine.load.busy_cpus", 0.9, *[0.1] * 6)
    assert is_far("run.traffic.preemptions", 2, *[0] * 6)


def test_worst_gpu_is_compared_regardless_of_its_index():
    facts = comparable_facts({"machine.gpus.5.power_limit_w": 350.0, "runtime.process.url": "http://x"})
    assert facts == {LIMIT: ("machine.gpus.5.power_limit_w", 350.0)}


@settings(max_examples=30)
@given(st.lists(st.floats(100, 1000), min_size=4, max_size=60), st.data())
def test_few_members_deviate_from_their_own_group(values, data):
    """Whoever is taken from the group itself lies mostly within it."""
    far = sum(is_far(LIMIT, value, *values) for value in values)
    assert far <= 0.2 * len(values)
    assert not is_far(LIMIT, data.draw(st.sampled_from(sorted(values)[len(values) // 2 :])), *values)


def test_large_groups_are_sampled():
    peers = [{LIMIT: 700.0 + n % 7} for n in range(20 * MOST_PEERS)]
    found = usual_facts(peers)[LIMIT]
    assert abs(float(found.value) - 703) <= 1
