"""Prometheus slow, down, restarting, partial, skewed, or with wrong labels: a clear statement, no wrong verdict."""

import time

import pytest
from lab.fleet.bed import healthy, sent_bed
from lab.fleet.blocks import Span
from lab.fleet.faults import with_fault
from lab.fleet.instance import Target, targets
from lab.fleet.prometheus import RECEIVES, started
from lab.fleet.remote_write import send
from lab.fleet.unwell import unwell
from tests.real_prometheus import prometheus_program

from unslow.commands._output import Silent
from unslow.facts.errors import UserError
from unslow.fleet.actions import fleet_report
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options
from unslow.fleet.report import FleetReport
from unslow.fleet.settings import FleetSettings

PEERS = 3
HOT, LATE = "gpu-03", "llm/llama-8b-05"
"""The faulty instances: thermally throttled, and queueing."""


def judged(url, timeout_s=3.0, whole_s=12.0) -> FleetReport:
    wanted = Access(url=url, timeout_s=timeout_s, whole_s=whole_s)
    return fleet_report(FleetSettings(access=wanted, options=Options(compare_s=0.0), workers=1), Silent())


def told(report, name):
    return next((one for one in report.instances if name in one.key or name in one.host), None)


def causes(report):
    return {one.key: {finding.cause for finding in one.findings} for one in report.instances if one.findings}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    known = [*(healthy(number) for number in range(PEERS)), with_fault(healthy(3), "thermal"), healthy(4)]
    known.append(with_fault(healthy(5), "queueing"))
    with sent_bed(prometheus_program(), tmp_path_factory.mktemp("unwell"), known) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def truth(real):
    report = judged(real.url)
    assert report.complete
    assert sorted(next(iter(found)) for found in causes(report).values()) == ["gpu_thermal_throttling", "queueing"]
    return report


@pytest.mark.parametrize(
    "deed",
    ["starting", "gateway", "page", "unauthorized", "elsewhere", "empty",
     "reset", "cut", "half_json", "internal"],
)  # fmt: skip
def test_permanently_failing_server_is_an_error_without_report(real, deed):
    with unwell(real.url, deed) as proxy, pytest.raises(UserError) as raised:
        judged(proxy.url, timeout_s=1.0, whole_s=1.0)
    assert str(raised.value).startswith(proxy.url)
    assert raised.value.hint


def test_unreachable_server_error_names_the_address():
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9"):
        judged("http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("only", "deed"),
    [
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "timed_out"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "mimir_series"),
        ("DCGM_FI_DEV_SM_CLOCK", "too_many_samples"),
        ("DCGM_FI_DEV_SM_CLOCK", "thanos_series"),
        ("DCGM_FI_DEV_FB_USED", "victoria_series"),
    ],
)
def test_refused_gpu_query_is_stated_without_findings(real, truth, deed, only):
    """Without a response on throttling, throttling must not be ruled out."""
    with unwell(real.url, deed, only=only) as proxy:
        report = judged(proxy.url)
    assert not report.complete
    assert {"limit", "partial", "missing"} & {statement.kind for statement in report.statements}
    assert nothing_new(report, truth)
    if only == "DCGM_FI_DEV_CLOCKS_EVENT_REASONS":
        assert told(report, HOT).verdict != "normal"


@pytest.mark.parametrize("only", ["vllm:num_requests_waiting", "vllm:inter_token_latency_seconds_sum"])
def test_refused_engine_query_gives_no_verdicts(real, truth, only):
    with unwell(real.url, "timed_out", only=only) as proxy:
        report = judged(proxy.url)
    assert not report.complete
    assert nothing_new(report, truth)
    if only == "vllm:num_requests_waiting":
        assert told(report, LATE).verdict != "normal"


def test_partial_response_makes_the_report_incomplete(real, truth):
    with unwell(real.url, "partial") as proxy:
        report = judged(proxy.url)
    assert not report.complete
    said = [statement.text for statement in report.statements if statement.kind == "partial"]
    assert any("store-1" in text for text in said)
    assert nothing_new(report, truth)


@pytest.mark.parametrize("deed", ["packed", "last_word", "no_post", "informed"])
def test_unusual_but_valid_responses_change_nothing(real, truth, deed):
    with unwell(real.url, deed) as proxy:
        report = judged(proxy.url)
    assert causes(report) == causes(truth)
    assert report.verdicts == truth.verdicts


def test_slow_server_is_waited_for(real, truth):
    with unwell(real.url, "slow:0.05") as proxy:
        assert causes(judged(proxy.url)) == causes(truth)


def test_server_slower_than_the_timeout_is_stated(real):
    begun = time.monotonic()
    with unwell(real.url, "slow:5") as proxy, pytest.raises(UserError) as raised:
        judged(proxy.url, timeout_s=0.3, whole_s=1.0)
    assert time.monotonic() - begun < 10
    assert raised.value.hint


def test_restarting_server_is_retried(real, truth):
    with unwell(real.url) as proxy:
        proxy.next.extend(["pass"] * 6 + ["starting"] + ["pass"] * 4 + ["reset"])
        assert causes(judged(proxy.url)) == causes(truth)


def nothing_new(report, truth):
    """Whether there is no wrong finding and no healthy instance is slow."""
    true = causes(truth)
    for one in report.instances:
        found = {finding.cause for finding in one.findings}
        well = next(each for each in truth.instances if each.key == one.key).verdict == "normal"
        if found - true.get(one.key, set()) or (well and one.verdict == "slow"):
            return False
    return True


def labelled(tmp_path, change):
    """The report on a fleet whose targets were changed before they were sent."""
    now_s = time.time()
    known = [*(healthy(number) for number in range(PEERS)), with_fault(healthy(3), "thermal")]
    with started(prometheus_program(), tmp_path, flags=RECEIVES) as prometheus:
        send(prometheus.url, change(list(targets(known))), Span(now_s - 960, now_s, 15.0))
        return judged(prometheus.url)


def without(shown: list[Target], *names: str) -> list[Target]:
    """The same series without these labels of their own."""
    return [
        target._replace(lines=[line._replace(labels=fewer(line.labels, names)) for line in target.lines])
        for target in shown
    ]


def fewer(labels, names):
    return {name: value for name, value in labels.items() if name not in names}


def test_two_replicas_of_a_fleet_count_once(tmp_path):
    def twice(shown: list[Target]) -> list[Target]:
        return [t._replace(labels={**t.labels, "prometheus_replica": letter}) for letter in "ab" for t in shown]

    report = labelled(tmp_path, twice)
    assert len(report.instances) == PEERS + 1
    assert list(causes(report).values()) == [{"gpu_thermal_throttling"}]
    assert report.gpus == PEERS + 1
    assert "duplicates" in {statement.kind for statement in report.statements}


def test_gpus_with_unmatched_labels_are_unassigned(tmp_path):
    def nowhere(shown: list[Target]) -> list[Target]:
        lost = without(shown, "Hostname", "pod", "namespace", "container")
        gpus = [t._replace(labels={**t.labels, "instance": "10.9.8.7:9400"}) for t in lost if t.labels["job"] == "dcgm"]
        return [*gpus, *(t for t in shown if t.labels["job"] != "dcgm")]

    report = labelled(tmp_path, nowhere)
    assert len(report.instances) == PEERS + 1
    assert causes(report) == {}  # no instance gets the heat of a GPU that may be another's
    assert not any(one.devices for one in report.instances)
    assert {"missing", "labels"} & {statement.kind for statement in report.statements}


def test_unknown_model_has_no_expected_speed(tmp_path):
    report = labelled(tmp_path, lambda shown: without(shown, "model_name"))
    assert {one.verdict for one in report.instances} <= {"cannot_tell", "slow"}
    assert [key for key, found in causes(report).items() if "gpu_thermal_throttling" not in found] == []
    assert "labels" in {statement.kind for statement in report.statements}


def test_empty_prometheus_is_not_a_normal_fleet(tmp_path):
    with started(prometheus_program(), tmp_path) as prometheus:
        report = judged(prometheus.url)
    assert report.instances == ()
    assert report.statements
    assert not report.verdicts.get("normal")


@pytest.mark.parametrize("ahead_s", [-3000.0, 3000.0])
def test_clock_skew_is_stated_or_harmless(tmp_path, ahead_s):
    """Series with times of another clock than the server's: nothing fresh is there, or it lies in the future."""
    now_s = time.time() + ahead_s
    known = [*(healthy(number) for number in range(PEERS)), with_fault(healthy(3), "thermal")]
    with started(prometheus_program(), tmp_path, flags=RECEIVES) as prometheus:
        send(prometheus.url, targets(known), Span(now_s - 960, now_s, 15.0))
        report = judged(prometheus.url)
    assert not report.verdicts.get("slow")
    assert not report.verdicts.get("normal")
    assert report.statements
