"""The verdict, where it is easy to get wrong."""

import msgspec
from cases import cpu_case, gpu_case, r, with_facts
from firing import clamped, spilled

from unslow.facts.machine import Gpu
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.units import GIB
from unslow.facts.values import failed, not_found
from unslow.think.judge import diagnose, judge


def test_faster_than_the_bandwidth_allows_is_a_contradiction_not_normal():
    report = judge(with_facts(gpu_case(), {"run.decode_tokens_per_s": 2000.0}))
    assert report.verdict == "cannot_tell"
    assert "not what it seems" in report.summary


def test_a_wide_interval_hides_no_cause():
    estimated = with_facts(cpu_case(), {"machine.memory.read_bytes_per_s": not_found("no"), "runtime.threads": 4})
    report = judge(with_facts(estimated, {"run.decode_tokens_per_s": 1.2}))
    assert report.verdict == "slow"
    assert report.findings[0].cause == "threads_exceed_cores"


def test_a_cause_that_costs_little_is_ruled_out_with_the_reason():
    fine = with_facts(clamped(32), {"run.decode_tokens_per_s": 120.0})
    report = judge(fine)
    assert report.verdict == "normal"
    assert not report.findings
    assert any("costs little" in r.because for r in report.ruled_out)


def test_a_spill_under_a_setting_that_already_takes_all_there_is():
    full = with_facts(gpu_case(layers_on_gpu=21, free_gib=4.3, context=4096), {"runtime.gpu_layers_set": 21})
    assert judge(full).findings[0].cause == "weights_spill_to_ram"


def test_layers_left_on_the_cpu_without_a_reason_are_not_normal():
    case = with_facts(gpu_case(layers_on_gpu=10), {"run.decode_tokens_per_s": 5.0, "runtime.fit": True})
    report = judge(case)
    assert report.verdict == "slow"
    assert not report.findings, "what is free was read before the load, so that nothing tells whether they would fit"


def test_slow_without_a_reason_that_was_seen():
    report = judge(with_facts(gpu_case(), {"run.decode_tokens_per_s": 60.0}))
    assert report.verdict == "slow"
    assert not report.findings
    assert "No cause could be proven" in report.summary


def test_a_build_that_offloads_nothing_by_default():
    case = with_facts(gpu_case(layers_on_gpu=0), {"run.decode_tokens_per_s": 3.0})
    finding = judge(case).findings[0]
    assert finding.cause == "gpu_layers_set_too_low"
    assert "default of this build" in finding.because
    assert finding.fixes[0].value == 33


def two_gpus(**second):
    case = gpu_case()
    first = case.machine.gpus.value[0]
    other = Gpu(
        **{"index": 1, "name": r("Tesla P4"), "vram_total_bytes": r(8 * GIB), "vram_free_bytes": r(8 * GIB)} | second
    )
    seen = [SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 4090", free_bytes=r(20 * GIB))]
    return with_facts(case, {"machine.gpus": r((first, other)), "runtime.devices": seen})


def test_an_idle_second_gpu_does_not_set_the_pace():
    both, one = judge(two_gpus()), judge(gpu_case())
    assert both.expected.achievable == one.expected.achievable
    assert judge(two_gpus(name=r("Matrox G200"))).verdict == "normal"


def test_a_failed_measurement_is_not_replaced_by_old_counters():
    case = with_facts(
        gpu_case(), {"run.decode_tokens_per_s": failed("broke off"), "runtime.decode_tokens_per_s": 130.0}
    )
    assert judge(case).verdict == "cannot_tell"


def test_the_worst_comes_first():
    cases = [gpu_case(), spilled(), with_facts(spilled(), {"run.decode_tokens_per_s": not_found("no")})]
    subjects = tuple(Subject(runtime=c.runtime, model=c.model, run=c.run) for c in cases)
    report = diagnose(Snapshot(unslow_version="0", machine=spilled().machine, subjects=subjects))
    assert [s.verdict for s in report.subjects][-1] == "normal"
    assert sorted(s.number for s in report.subjects) == [0, 1, 2]
    assert msgspec.json.encode(report)
