from answers import ask
from cases import gpu_case, with_facts
from firing import out_of_memory

from unslow.think.causes._cause import Absent
from unslow.think.judge import judge

NAME = "memory_allocation_failed"
fires = out_of_memory


def test_the_verdict_is_failed_with_what_was_asked_and_what_was_free():
    report = judge(out_of_memory())
    assert report.verdict == "failed"
    assert report.phase == "load"
    assert report.findings[0].cause == NAME
    assert "16384 MiB for the KV cache" in report.findings[0].because
    assert "5.0 GiB were free" in report.findings[0].because


def test_the_longest_context_that_fits_is_offered():
    case = with_facts(out_of_memory(), {"runtime.devices.0.free_bytes": 8 * 1024**3})
    fix = judge(case).findings[0].fixes[0]
    assert fix.knob == "context_length"
    assert 4096 <= fix.value < 131072


def test_near_miss_slow_but_loaded():
    assert isinstance(ask(NAME, gpu_case(layers_on_gpu=21, free_gib=5.0)), Absent)


def test_a_load_that_failed_for_another_reason():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.state": "failed"})), Absent)
