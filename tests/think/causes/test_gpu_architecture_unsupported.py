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
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

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


def two_cards(*capabilities: str, **facts):
    """Two cards of which the runtime uses none, of a build for Turing to Ada."""
    names = ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce GTX 1060 6GB")
    case = two_gpus(names, **{"runtime.build_architectures": ["750", "860", "890"], "runtime.buffers": []})
    own = {f"machine.gpus.{i}.compute_capability": one for i, one in enumerate(capabilities)}
    idle = {"runtime.devices": [SeenDevice(name="CPU")], "runtime.gpu_layers": not_found("no"), **own}
    return with_facts(case, idle | {"run.decode_tokens_per_s": 3.3} | facts)


SEEN = [
    SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 3090"),
    SeenDevice(name="CUDA1", description="NVIDIA GeForce GTX 1060 6GB"),
]


@pytest.mark.parametrize("capabilities", [("8.6", "6.1"), ("6.1", "8.6")])
def test_a_build_with_code_for_one_of_two_cards_is_not_why_neither_is_used(capabilities):
    answer = ask(NAME, two_cards(*capabilities))
    assert isinstance(answer, Absent)
    assert "8.6" in answer.because


def test_a_card_without_code_among_those_that_a_failed_load_took(wording):
    failed = {"runtime.devices": SEEN, "runtime.state": "failed", "run.decode_tokens_per_s": not_found("failed")}
    answer = ask(NAME, two_cards("8.6", "6.1", **failed))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("GTX 1060 6GB", "6.1"))
    assert answer.evidence[1].fact == "machine.gpus.1.compute_capability"
    assert (answer.remedies[0].change.knob, answer.remedies[0].change.value) == (Knob.DEVICE, "CUDA0")
    hidden = failed | {"runtime.devices": SEEN[:1]}
    assert isinstance(ask(NAME, two_cards("8.6", "6.1", **hidden)), Absent)


def test_where_no_card_has_code_any_of_them_is_the_proof():
    answer = ask(NAME, two_cards("5.2", "6.1"))
    assert isinstance(answer, Found)
    hidden = {"runtime.environment": {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}}
    assert isinstance(ask(NAME, two_cards("8.6", "6.1", **hidden)), Found), "the setting leaves it only the old one"


def test_a_card_of_unknown_architecture_leaves_it_open():
    assert isinstance(ask(NAME, two_cards("6.1", **{"machine.gpus.1.compute_capability": not_found("no")})), CannotTell)


def test_a_card_of_another_maker_is_none_that_the_build_is_for():
    amd = {"vendor": "AMD", "compute_capability": not_found("AMD"), "architecture": "gfx1100"}
    both = two_cards("8.6", **{f"machine.gpus.1.{name}": value for name, value in amd.items()})
    assert isinstance(ask(NAME, both), Absent)


def test_a_warning_about_another_card_than_the_one_that_computes():
    warned = {
        "runtime.warnings": [
            "NVIDIA GeForce GT 710 with CUDA capability sm_35 is not compatible with the current PyTorch"
        ]
    }
    assert isinstance(ask(NAME, with_facts(two_gpus(), warned)), Absent)
    assert isinstance(ask(NAME, with_facts(no_backend(), warned | {"runtime.gpu_refused": not_found("no")})), Found)


def test_ollamas_words_for_libraries_without_code():
    said = "dropping ROCm device: no rocblas support for gfx target: gfx1032"
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.gpu_refused": said})), Found)
