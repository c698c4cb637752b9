import pytest
from answers import ask
from cases import gpu_case, with_facts
from firing import no_backend
from several_gpus import two_gpus
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import AllocationFailure, SeenDevice
from unslow.facts.values import not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_architecture_unsupported"
REFUSED = 'msg="amdgpu is not supported" gpu=0 gpu_type=gfx1010:xnack- supported_types="[gfx1030 gfx1100]"'


def fires():
    return with_facts(no_backend(), {"runtime.placement.gpu_refused": REFUSED})


def test_unsupported_target_in_the_log_explains_the_missing_backend():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("gpu_backend_not_loaded",)


def test_build_without_code_for_the_gpu_is_found():
    facts = {"runtime.build.architectures": ["750", "860", "890"], "machine.gpus.0.compute_capability": "6.1"}
    case = with_facts(no_backend(), {"runtime.placement.gpu_refused": not_found("no"), **facts})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.compute_capability": "8.6"})), Absent)


def test_gpu_newer_than_the_build_is_ruled_out():
    facts = {"runtime.build.architectures": ["750", "890"], "machine.gpus.0.compute_capability": "12.0"}
    assert isinstance(
        ask(NAME, with_facts(no_backend(), {"runtime.placement.gpu_refused": not_found("no"), **facts})), Absent
    )


def test_gfx_targets_must_match_unless_overridden():
    blank = {"runtime.placement.gpu_refused": not_found("no"), "machine.gpus.0.compute_capability": not_found("AMD")}
    facts = {"runtime.build.architectures": ["gfx1030", "gfx1100"], "machine.gpus.0.architecture": "gfx1010"}
    case = with_facts(no_backend(), blank | facts)
    assert isinstance(ask(NAME, case), Found)
    overridden = with_facts(case, {"runtime.process.environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}})
    assert isinstance(ask(NAME, overridden), CannotTell)


def test_person_who_calls_the_gpu_unsupported_is_suspected():
    guess = says(Topic.GPU_NOT_SUPPORTED, "unsupported RDNA AMD GPU")
    answer = ask(NAME, pasted(guess, gpus=["Radeon RX 5700 XT"]))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert judge(CaseView(pasted(guess, gpus=["Radeon RX 5700 XT"]))).verdict == "cannot_tell"


def test_gpu_that_holds_the_model_is_ruled_out_whatever_the_list():
    case = with_facts(gpu_case(), {"runtime.build.architectures": ["900"]})
    assert isinstance(ask(NAME, case), Absent)


def test_refusal_for_another_reason_is_ruled_out():
    hidden = with_facts(
        gpu_case(),
        {"runtime.placement.gpu_refused": "no CUDA-capable device is detected", "runtime.memory.buffers": []},
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
def test_messages_of_drivers_and_libraries_are_recognized(line):
    report = judge(CaseView(with_facts(no_backend(), {"runtime.placement.gpu_refused": line})))
    assert report.findings[0].cause == NAME
    assert "weights_spill_to_ram" not in {f.cause for f in report.findings}


def test_gpu_that_computes_or_ran_out_of_memory_is_ruled_out():
    assert isinstance(ask(NAME, gpu_case()), Absent)
    failure = AllocationFailure(device="CUDA0", what="kv_cache", message="out of memory")
    facts = {
        "runtime.state": "failed",
        "runtime.memory.allocation_failure": failure,
        "run.decode_tokens_per_s": not_found("no"),
    }
    assert isinstance(ask(NAME, with_facts(gpu_case(), facts)), Absent)


def two_cards(*capabilities: str, **facts):
    """Two cards of which the runtime uses none, of a build for Turing to Ada."""
    names = ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce GTX 1060 6GB")
    case = two_gpus(names, **{"runtime.build.architectures": ["750", "860", "890"], "runtime.memory.buffers": []})
    own = {f"machine.gpus.{i}.compute_capability": one for i, one in enumerate(capabilities)}
    idle = {
        "runtime.placement.devices": [SeenDevice(name="CPU")],
        "runtime.placement.gpu_layers": not_found("no"),
        **own,
    }
    return with_facts(case, idle | {"run.decode_tokens_per_s": 3.3} | facts)


SEEN = [
    SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 3090"),
    SeenDevice(name="CUDA1", description="NVIDIA GeForce GTX 1060 6GB"),
]


@pytest.mark.parametrize("capabilities", [("8.6", "6.1"), ("6.1", "8.6")])
def test_code_for_one_of_two_unused_gpus_is_ruled_out(capabilities):
    answer = ask(NAME, two_cards(*capabilities))
    assert isinstance(answer, Absent)
    assert "8.6" in answer.because


def test_failed_load_with_an_unsupported_second_gpu_excludes_it(wording):
    failed = {
        "runtime.placement.devices": SEEN,
        "runtime.state": "failed",
        "run.decode_tokens_per_s": not_found("failed"),
    }
    answer = ask(NAME, two_cards("8.6", "6.1", **failed))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("GTX 1060 6GB", "6.1"))
    assert answer.evidence[1].fact == "machine.gpus.1.compute_capability"
    assert (answer.remedies[0].change.knob, answer.remedies[0].change.value) == (Knob.DEVICE, "CUDA0")
    hidden = failed | {"runtime.placement.devices": SEEN[:1]}
    assert isinstance(ask(NAME, two_cards("8.6", "6.1", **hidden)), Absent)


def test_code_for_none_of_the_visible_gpus_is_found():
    answer = ask(NAME, two_cards("5.2", "6.1"))
    assert isinstance(answer, Found)
    hidden = {"runtime.process.environment": {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}}
    assert isinstance(ask(NAME, two_cards("8.6", "6.1", **hidden)), Found), "the setting leaves it only the old one"


def test_unknown_architecture_of_one_gpu_gives_cannot_tell():
    assert isinstance(ask(NAME, two_cards("6.1", **{"machine.gpus.1.compute_capability": not_found("no")})), CannotTell)


def test_gpu_of_another_vendor_than_the_build_is_ignored():
    amd = {"vendor": "AMD", "compute_capability": not_found("AMD"), "architecture": "gfx1100"}
    both = two_cards("8.6", **{f"machine.gpus.1.{name}": value for name, value in amd.items()})
    assert isinstance(ask(NAME, both), Absent)


def test_warning_about_a_second_gpu_is_ruled_out_where_one_computes():
    warned = {
        "runtime.history.warnings": [
            "NVIDIA GeForce GT 710 with CUDA capability sm_35 is not compatible with the current PyTorch"
        ]
    }
    assert isinstance(ask(NAME, with_facts(two_gpus(), warned)), Absent)
    assert isinstance(
        ask(NAME, with_facts(no_backend(), warned | {"runtime.placement.gpu_refused": not_found("no")})), Found
    )


def test_ollama_message_of_missing_rocblas_support_is_found():
    said = "dropping ROCm device: no rocblas support for gfx target: gfx1032"
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.placement.gpu_refused": said})), Found)
