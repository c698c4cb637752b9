"""Benchmarks and diagnoses recorded on an H200 under sampling replay to the same answers."""

from pathlib import Path

import pytest

from unslow.facts.bench import DECODE, DECODE_AT_4K, PREFILL, TOGETHER, Bench, Pass, parse_bench
from unslow.facts.snapshot import parse_snapshot
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import diagnose
from unslow.think.stats.comparison import compare_benches
from unslow.think.stats.depth import Reading, expectation_of, judge_depths
from unslow.think.stats.figures import decode_rate, figures_of

HERE = Path(__file__).parent


def bench(name: str) -> Bench:
    return parse_bench((HERE / "benches" / f"h200_{name}.json").read_bytes(), name)


def nearest(depths: set[float], done: Pass) -> float:
    return min(depths, key=lambda at: abs(at - done.prompt_tokens - done.cached_tokens))


def snapshot(name: str):
    return parse_snapshot((HERE / "snapshots" / f"h200_watched_{name}.json").read_bytes(), name)


@pytest.mark.parametrize(
    ("name", "verdict", "knee"),
    [
        ("slope", "slope", None),
        ("kv_on_host", "steep", None),
        ("vram_taken", "cliff", (8000, 8400)),
        ("cache_outgrows_vram", "cliff", (16000, 17000)),
    ],
)
def test_cliffs_are_distinguished_from_slopes(name, verdict, knee):
    recorded = bench(name)
    (sweep,) = recorded.sweeps
    rates = [(done, rate) for done in recorded.passes if done.round and (rate := decode_rate(done))]
    depths = {point.at for point in sweep.points}
    readings = [
        Reading(
            min(depths, key=lambda at, done=done: abs(at - done.prompt_tokens - done.cached_tokens)),
            1 / rate,
            done.started_s,
        )
        for done, rate in rates
    ]
    (case,) = snapshot("healthy").cases()
    curve = judge_depths(
        readings, expectation_of(CaseView(case), max(depths)), {point.at: point.seen for point in sweep.points}
    )
    assert curve.verdict == verdict == sweep.verdict
    if knee:
        assert knee[0] < (curve.knee or 0) < knee[1]
        assert "It is a spill" in curve.because


@pytest.mark.parametrize(
    ("name", "verdict", "first"),
    [
        ("healthy", "normal", ""),
        ("shared", "slow", "gpu_shared_with_other_work"),
        ("ngl20", "slow", "gpu_layers_set_too_low"),
    ],
)
def test_a_sampled_gpu_is_judged_by_its_samples_under_load(name, verdict, first):
    seen = snapshot(name)
    (gpu,) = seen.subjects[0].run.gpus.need()
    assert gpu.samples > 10
    (report,) = diagnose(seen).subjects
    assert report.verdict == verdict
    assert [finding.cause for finding in report.findings][:1] == ([first] if first else [])
    undecided = {one.cause for one in report.cannot_tell}
    assert not undecided & {
        "gpu_thermal_throttling",
        "gpu_power_capped",
        "pcie_link_degraded",
        "gpu_held_at_low_clocks",
    }


def test_figures_are_recalculated_from_the_requests():
    recorded = bench("standard")
    again = figures_of(recorded.passes)
    assert again.figures.keys() == recorded.figures.keys()
    assert again.figures[DECODE].median == pytest.approx(recorded.figures[DECODE].median)
    assert 230 < again.figures[DECODE].median < 250
    assert again.figures[DECODE_AT_4K].median < again.figures[DECODE].median < again.figures[PREFILL].median


def test_another_load_on_the_gpu_shows_in_the_comparison():
    found = compare_benches(bench("shared"), bench("after"))
    assert found.verdict == "faster"
    assert compare_benches(bench("after"), bench("shared")).verdict == "slower"


def test_the_phases_of_a_request_show_in_the_telemetry():
    telemetry = bench("standard").telemetry
    assert telemetry is not None
    phases = {phase.phase: phase for phase in telemetry.phases}
    assert phases["decode"].gpus[0].figures["power_w"].mean > phases["idle"].gpus[0].figures["power_w"].mean
    assert telemetry.cost.cpus < 0.03
    assert telemetry.got_hz == pytest.approx(10, rel=0.01)


def test_sixteen_users_get_over_three_times_the_throughput_of_one():
    points = {point.at: point for point in bench("users").sweeps[0].points}
    assert points[16].figures[TOGETHER].median > 3 * points[1].figures[TOGETHER].median
    assert points[16].expected[TOGETHER] == pytest.approx(points[16].figures[TOGETHER].median, rel=0.25)
