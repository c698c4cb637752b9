from answers import ask
from cases import gpu_case, r, with_facts
from firing import out_of_memory

from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import MIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent
from unslow.think.judge.judge import judge

NAME = "memory_allocation_failed"
fires = out_of_memory


def test_failed_allocation_gives_verdict_failed_with_asked_and_free_bytes(wording):
    report = judge(CaseView(out_of_memory()))
    assert report.verdict == "failed"
    assert report.phase == "load"
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="16384 MiB")
    wording(report.findings[0].because, tells="5.0 GiB")


def test_longest_context_that_fits_is_offered():
    case = with_facts(out_of_memory(), {"runtime.placement.devices.0.free_bytes": 8 * 1024**3})
    fix = judge(CaseView(case)).findings[0].fixes[0]
    assert fix.knob == "context_length"
    assert 4096 <= fix.value < 131072


def test_loaded_model_is_ruled_out():
    assert isinstance(ask(NAME, gpu_case(layers_on_gpu=21, free_gib=5.0)), Absent)


def test_load_that_failed_for_another_reason_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.state": "failed"})), Absent)


def no_compute_buffer(**facts):
    failure = AllocationFailure(
        device="CUDA0", what="compute_buffer", asked_bytes=r(3716 * MIB), message="cudaMalloc failed: out of memory"
    )
    return with_facts(out_of_memory(), {"runtime.memory.allocation_failure": failure, **facts})


def knobs_of(case):
    return [str(remedy.change.knob) for remedy in ask(NAME, case).remedies]


def test_flash_attention_and_batch_come_first_where_the_compute_buffer_failed():
    large = no_compute_buffer(**{"runtime.compute.flash_attention": False, "runtime.compute.ubatch": 2048})
    assert knobs_of(large)[:2] == ["flash_attention", "batch"]
    assert "flash_attention" not in knobs_of(no_compute_buffer(**{"runtime.compute.flash_attention": True}))
    assert "flash_attention" not in knobs_of(with_facts(out_of_memory(), {"runtime.compute.flash_attention": False}))


def test_builds_without_automatic_fit_are_offered_a_number_of_layers():
    old = with_facts(out_of_memory(), {"runtime.version": "b6840", "runtime.context.length": 8192})
    last = ask(NAME, old).remedies[-1].change
    assert str(last.knob) == "gpu_layers"
    assert 0 < last.value < 33
    assert knobs_of(with_facts(old, {"runtime.version": "b10586"}))[-1] == "fit"


def test_a_process_that_the_kernel_killed_is_told_with_its_limit(wording):
    failure = AllocationFailure(device="", what="unknown", message="llama-server has terminated: signal: killed")
    limits = {"runtime.process.memory_limit_bytes": 600 * MIB, "model.weights_bytes": 1065 * MIB}
    case = with_facts(out_of_memory(), {"runtime.memory.allocation_failure": failure, **limits})
    wording(judge(CaseView(case)).findings[0].because, tells="its memory limit is 600 MiB")
