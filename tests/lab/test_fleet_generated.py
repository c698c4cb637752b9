"""A generated fleet: deterministic per seed, with a known number of faults, and a reliable scorer."""

from collections import Counter

import pytest
from lab.fleet.faults import FAULTS, with_fault
from lab.fleet.generated import all_targets, fleet, truth
from lab.fleet.memory import Watched, cpu_s, held_bytes, peak_bytes
from lab.fleet.mix import FAULT_SHARES
from lab.fleet.scoring import score


@pytest.fixture(scope="module")
def instances():
    return fleet(400)


def test_a_fleet_is_deterministic_per_seed(instances):
    assert fleet(400) == instances
    assert fleet(400, seed=7) != instances


def test_every_instance_has_unique_names(instances):
    names = [name for one in truth(instances) for name in one.names]
    assert len(set(names)) == len(names)
    assert len({one.address for one in instances}) == len(instances)


def test_fault_counts_match_their_shares(instances):
    counted = Counter(one.fault for one in instances)
    assert set(counted) == {*FAULT_SHARES, ""}
    assert counted["thermal"] in range(1, 4)
    assert counted[""] > 0.9 * len(instances)


def test_no_two_instances_share_a_gpu(instances):
    places = [(one.host.name, gpu.place) for one in instances for gpu in one.gpus]
    assert len(set(places)) == len(places)
    assert max(gpu.place for one in instances for gpu in one.gpus) < 8


def test_a_host_fault_is_on_a_host_of_its_own(instances):
    alone = [one for one in instances if one.fault in ("swapping", "no_exporter")]
    shared = Counter(one.host.name for one in instances)
    assert alone
    assert all(shared[one.host.name] == 1 for one in alone)


def test_no_series_exists_twice(instances):
    seen = Counter(
        (line.name, *sorted({**target.labels, **line.labels}.items()))
        for target in all_targets(instances[:120])
        for line in target.lines
    )
    assert not [name for name, number in seen.items() if number > 1]


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_changes_the_instance_and_names_itself(instances, name):
    one = next(one for one in instances if not one.fault and one.engine.running and one.gpus)
    ill = with_fault(one, name)
    assert ill.fault == name
    assert ill._replace(fault="") != one
    assert ill.engine.gap_s == pytest.approx(one.engine.gap_s * FAULTS[name].slower)


def report(instances, **said):
    named = {one.names[0]: said.get(one.fault or "healthy", ("normal", ())) for one in truth(instances)}
    return [
        {"key": key, "verdict": verdict, "findings": [{"cause": cause} for cause in causes]}
        for key, (verdict, causes) in named.items()
    ]


def test_a_silent_report_scores_zero_named_and_zero_false(instances):
    known = [one._asdict() for one in truth(instances)]
    seen = score(known, report(instances))
    assert (seen.named_share, seen.false_share, seen.lost, seen.extra) == (0.0, 0.0, 0, 0)


def test_right_and_wrong_reports_score_differently(instances, wording):
    known = [one._asdict() for one in truth(instances)]
    right = {name: ("slow", tuple(fault.causes)) for name, fault in FAULTS.items() if fault.causes}
    assert score(known, report(instances, **right)).named_share == 1.0
    wrong = score(known, report(instances, thermal=("slow", ("swapping",)), healthy=("slow", ("swapping",))))
    assert wrong.confused["thermal", "swapping"] == wrong.faults["thermal"]
    assert wrong.false_share > 0.9
    assert wrong.wrongly["swapping"] > 300
    wording(wrong.shown(), about="swapping", tells="thermal")


def test_lost_and_extra_instances_are_counted(instances):
    known = [one._asdict() for one in truth(instances)]
    seen = score(known, [*report(instances)[5:], {"key": "who?", "verdict": "normal", "findings": []}])
    assert (seen.lost, seen.extra) == (5, 1)


def test_memory_and_cpu_time_of_a_process_are_watched():
    import os

    with Watched(os.getpid()) as watched:
        block = bytearray(64 * 2**20)
        block[::4096] = b"x" * len(block[::4096])
        while watched.most_bytes < 64e6:
            pass
    assert 64e6 < watched.most_bytes < 16e9
    assert held_bytes(os.getpid()) > 10e6
    assert cpu_s(os.getpid()) > 0
    assert peak_bytes(os.getpid()) > 64e6
