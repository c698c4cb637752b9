"""A real Prometheus over a fleet with one fault on one instance each: that instance is named, and no other."""

import os
import socket
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from lab.fleet.bed import BEFORE_S, PEERS, Real, bed, fleet, healthy, sent_bed
from lab.fleet.faults import FAULTS, with_fault
from lab.fleet.instance import Instance
from tests.real_prometheus import node_exporter, prometheus_program

from unslow.commands._output import Silent
from unslow.fleet.actions import fleet_report
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options
from unslow.fleet.settings import FleetSettings

NAMES = [*FAULTS, "version"]
NAMED = {name: fault.causes for name, fault in FAULTS.items() if fault.causes} | {
    "version": frozenset({"runtime_version_regressed"})
}
QUIET = ("no_exporter", "down", "")
"""Instances on which nothing may be found."""


def judged(url, window_s=900.0, compare_s=0.0):
    options = Options(window_s=window_s, compare_s=compare_s)
    return fleet_report(FleetSettings(access=Access(url=url), options=options, workers=1), Silent())


def instances():
    """Every fault once, and one whose version is another than before."""
    known = fleet(list(FAULTS))
    number = len(known)
    return [*known, versioned(healthy(number), "0.11.0", 1.8)._replace(fault="version")]


def before():
    """All of them while they were well."""
    return [
        *(healthy(number) for number in range(len(FAULTS) + PEERS)),
        versioned(healthy(len(FAULTS) + PEERS), "0.10.2"),
    ]


def versioned(one, version, times=1.0):
    engine = one.engine._replace(gap_s=one.engine.gap_s * times)
    return one._replace(engine=engine, labels=(("version", version),))


def of(report, one: Instance):
    """What the report says of an instance, by either of its names."""
    names = {one.address, f"{one.pod.namespace}/{one.pod.name}" if one.pod else ""}
    found = [told for told in report.instances if told.key in names]
    assert len(found) == 1, names
    return found[0]


def true_of(one: Instance):
    """Every cause that may be named for it."""
    return NAMED.get(one.fault, frozenset()) | (FAULTS[one.fault].also if one.fault in FAULTS else frozenset())


def causes(told):
    return {finding.cause for finding in told.findings}


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    known = instances()
    with sent_bed(prometheus_program(), tmp_path_factory.mktemp("fleet"), known, before()) as prometheus:
        yield known, judged(prometheus.url, compare_s=BEFORE_S)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_injected_fault_is_found_on_its_instance(sent, name):
    known, report = sent
    told = of(report, next(one for one in known if one.fault == name))
    assert causes(told) & NAMED[name], (told.summary, causes(told))
    assert told.verdict == "slow"


@pytest.mark.parametrize("name", sorted(NAMED))
def test_injected_fault_is_found_on_no_other_instance(sent, name):
    known, report = sent
    others = [one for one in known if not NAMED[name] & true_of(one)]
    wrong = {one.fault: causes(of(report, one)) & NAMED[name] for one in others}
    assert not {fault: found for fault, found in wrong.items() if found}


def test_healthy_instances_have_no_findings(sent):
    known, report = sent
    found = {one.name: causes(of(report, one)) for one in known if one.fault in QUIET}
    assert len(found) == PEERS + 2
    assert not any(found.values()), found
    assert [of(report, one).verdict for one in known if not one.fault] == ["normal"] * PEERS


def test_slow_instance_without_a_cause_is_slow_without_findings(sent):
    known, report = sent
    told = of(report, next(one for one in known if one.fault == "unexplained"))
    assert (told.verdict, causes(told)) == ("slow", set())


def test_odd_instance_names_the_differing_fact(sent):
    known, report = sent
    odd = {one.key: one for group in report.peers for one in group.odd}
    thermal, unexplained = (next(one for one in known if one.fault == fault) for fault in ("thermal", "unexplained"))
    assert odd[of(report, thermal).key].reached < 0.6
    assert odd[of(report, thermal).key].differences
    assert odd[of(report, unexplained).key].reached < 0.6
    assert not {of(report, one).key for one in known if not one.fault} & set(odd)


def test_missing_gpu_exporter_gives_no_gpu_findings(sent):
    known, report = sent
    told = of(report, next(one for one in known if one.fault == "no_exporter"))
    assert told.verdict in ("cannot_tell", "normal")
    assert told.devices == ()


def test_down_instance_is_stated(sent):
    _, report = sent
    assert {"down", "stale"} & {statement.kind for statement in report.statements}


def test_largest_losses_come_first_and_totals_add_up(sent):
    known, report = sent
    lost = [one.lost.tokens_per_s or 0.0 for one in report.instances]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] > 0
    assert len(report.instances) == len(known)
    assert dict(report.verdicts) == {
        **dict.fromkeys(report.verdicts, 0),
        **Counter(i.verdict for i in report.instances),
    }
    assert msgspec.json.decode(msgspec.json.encode(report))["queries"] == report.queries


def test_query_count_is_independent_of_fleet_size(sent, tmp_path):
    _, many = sent
    two = [healthy(0), with_fault(healthy(1), "thermal")]
    with sent_bed(prometheus_program(), tmp_path, two, [healthy(0)]) as small:
        few, counted = judged(small.url, compare_s=BEFORE_S), small.counted()
    assert few.queries <= many.queries <= few.queries + 4  # what is asked only where there are pods, or versions
    assert counted == few.queries


@pytest.mark.real
def test_real_and_replayed_targets_are_all_read(tmp_path):
    """A real Prometheus, node exporter and llama-server beside replayed vLLMs and GPUs, every fault on one instance."""
    server, model = os.environ.get("UNSLOW_LLAMA_SERVER", ""), os.environ.get("UNSLOW_LLAMA_MODEL", "")
    real = Real(node_exporter(), Path(server) if server else None, Path(model) if model else None)
    with bed(prometheus_program(), tmp_path, fleet(list(FAULTS)), real) as one:
        time.sleep(70)  # the shortest window is a minute
        report = judged(one.prometheus.url, window_s=60.0)
        assert one.prometheus.ask("node_load1{instance='" + socket.gethostname() + ":9100'}")
        known = one.instances
    for fault in sorted(set(NAMED) - {"version"}):
        for each in known:
            if NAMED[fault] & true_of(each):
                continue
            if each.fault != "down":  # it was never up, so that nothing says what it is
                assert not causes(of(report, each)) & NAMED[fault], (fault, each.fault)
        told = of(report, next(each for each in known if each.fault == fault))
        assert causes(told) & NAMED[fault], (fault, told.summary)
    if server and model:
        own = [told for told in report.instances if told.runtime.startswith("llama.cpp")]
        assert len(own) == 2
        assert all(told.measured["decode_tokens_per_s"] > 0 for told in own)
        assert not any(told.findings and told.verdict == "normal" for told in own)
