import pytest
from answers import ask
from cases import gpu_case, with_facts
from firing import no_backend
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "gpu_architecture_unsupported"
REFUSED = 'msg="amdgpu is not supported" gpu=0 gpu_type=gfx1010:xnack- supported_types="[gfx1030 gfx1100]"'


def fires():
    return with_facts(no_backend(), {"runtime.gpu_refused": REFUSED})


def test_the_log_names_the_target_and_it_is_the_root():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("gpu_backend_not_loaded",)


def test_a_build_without_this_gpus_target():
    facts = {"runtime.build_architectures": ["750", "860", "890"], "machine.gpus.0.compute_capability": "6.1"}
    case = with_facts(no_backend(), {"runtime.gpu_refused": not_found("no"), **facts})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.compute_capability": "8.6"})), Absent)


def test_newer_gpus_may_compile_at_load():
    facts = {"runtime.build_architectures": ["750", "890"], "machine.gpus.0.compute_capability": "12.0"}
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.gpu_refused": not_found("no"), **facts})), Absent)


def test_gfx_targets_must_match_unless_overridden():
    blank = {"runtime.gpu_refused": not_found("no"), "machine.gpus.0.compute_capability": not_found("AMD")}
    facts = {"runtime.build_architectures": ["gfx1030", "gfx1100"], "machine.gpus.0.architecture": "gfx1010"}
    case = with_facts(no_backend(), blank | facts)
    assert isinstance(ask(NAME, case), Found)
    overridden = with_facts(case, {"runtime.environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}})
    assert isinstance(ask(NAME, overridden), CannotTell)


def test_a_person_who_calls_it_unsupported_may_guess():
    guess = says(Topic.GPU_NOT_SUPPORTED, "unsupported RDNA AMD GPU")
    answer = ask(NAME, pasted(guess, gpus=["Radeon RX 5700 XT"]))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert judge(pasted(guess, gpus=["Radeon RX 5700 XT"])).verdict == "cannot_tell"


def test_near_miss_a_gpu_that_computes():
    case = with_facts(gpu_case(), {"runtime.build_architectures": ["900"]})
    assert isinstance(ask(NAME, case), Absent)


def test_a_refusal_for_another_reason():
    hidden = with_facts(
        gpu_case(), {"runtime.gpu_refused": "no CUDA-capable device is detected", "runtime.buffers": []}
    )
    assert isinstance(ask(NAME, hidden), Absent)


@pytest.mark.parametrize(
    "line",
    [
        "ggml_cuda_init: failed to initialize ROCm: hipErrorNoBinaryForGpu: Unable to find code object",
        "rocBLAS error: Cannot read /opt/rocm/lib/library/TensileLibrary.dat: No such file for GPU arch : gfx1032",
        "CUDA error: no kernel image is available for execution on the device",
    ],
)
def test_how_drivers_and_libraries_name_it(line):
    report = judge(with_facts(no_backend(), {"runtime.gpu_refused": line}))
    assert report.findings[0].cause == NAME
    assert "weights_spill_to_ram" not in {f.cause for f in report.findings}


def test_a_gpu_that_computes_and_one_that_lacked_memory():
    assert isinstance(ask(NAME, gpu_case()), Absent)
    failure = AllocationFailure(device="CUDA0", what="kv_cache", message="out of memory")
    facts = {
        "runtime.state": "failed",
        "runtime.allocation_failure": failure,
        "run.decode_tokens_per_s": not_found("no"),
    }
    assert isinstance(ask(NAME, with_facts(gpu_case(), facts)), Absent)
