"""A software renderer, the CPU posing as a GPU: found without a GPU in the machine, and counted as the host."""

import msgspec
import pytest
from answers import ask
from cases import cpu_case, gpu_case, r

from unslow.commands.triage.pasted_text import triage
from unslow.facts.machine import Gpu
from unslow.facts.run import Completion
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import MIB, Known, Unknown
from unslow.think.case.software_renderer import find_renderer
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge

NAME = "wrong_device_selected"
RENDERER = SeenDevice(name="Vulkan0", description="llvmpipe (LLVM 15.0.6, 256 bits)", library="Vulkan")
ON_IT = [Buffer(device="Vulkan0", kind="model", bytes=4692 * MIB, on_gpu=True)]


def rendered(tokens_per_s: float = 0.04, **facts: object) -> Case:
    case = cpu_case()
    runtime = case.runtime.with_facts(**{name: r(value) for name, value in facts.items()})
    run = msgspec.structs.replace(case.run, decode_tokens_per_s=r(tokens_per_s))
    return msgspec.structs.replace(case, runtime=runtime, run=run)


@pytest.mark.parametrize(
    "facts",
    [
        {"devices": [RENDERER], "buffers": ON_IT, "gpu_layers": 33, "layers": 33},
        {"software_renderer": "llvmpipe"},
        {"device_used": "Vulkan0 (llvmpipe (LLVM 15.0.6, 256 bits))"},
        {"devices": [SeenDevice(name="Vulkan0", description="Microsoft Basic Render Driver")]},
        {"devices": [SeenDevice(name="Vulkan0", description="SwiftShader Device (LLVM 10.0.0)")]},
    ],
)
def test_a_renderer_is_found_without_a_gpu_and_the_speed_of_the_cpu_is_promised(facts):
    report = judge(CaseView(rendered(**facts)))
    first = report.findings[0]
    assert (report.verdict, first.cause) == ("slow", NAME)
    assert (str(first.fixes[0].knob), first.fixes[0].value) == ("device", "none")
    assert first.fixes[0].predicted["decode_tokens_per_s"] > 2


def test_what_is_on_a_renderer_is_on_the_host():
    view = CaseView(rendered(devices=[RENDERER], buffers=ON_IT, gpu_layers=33, layers=33))
    assert not view.vram.buffers("model", on_gpu=True)
    assert view.placement.cpu_computes
    assert isinstance(view.runtime.placement.gpu_layers, Unknown)


def test_a_renderer_beside_a_card_that_holds_the_model_is_no_fault():
    case = gpu_case()
    listed = [*case.runtime.placement.devices.value_or([]), RENDERER]
    case = msgspec.structs.replace(case, runtime=case.runtime.with_facts(devices=r(listed)))
    assert find_renderer(case.runtime) is None
    assert isinstance(ask(NAME, case), Absent)


def test_with_an_idle_card_its_driver_is_the_fix():
    case = rendered(software_renderer="llvmpipe")
    machine = msgspec.structs.replace(case.machine, gpus=gpu_case().machine.gpus)
    answer = ask(NAME, msgspec.structs.replace(case, machine=machine))
    assert isinstance(answer, Found)
    assert [str(remedy.change.knob) for remedy in answer.remedies] == ["gpu_backend", "device"]


def test_a_listed_renderer_is_not_a_gpu_of_the_machine():
    case = cpu_case()
    machine = msgspec.structs.replace(case.machine, gpus=r((Gpu(index=0, name=r("llvmpipe (LLVM 15.0.6, 256 bits)")),)))
    assert not isinstance(CaseView(msgspec.structs.replace(case, machine=machine)).machine.gpus, Known)


PASTE = """0.00.189 I llama_prepare_model_devices: using device Vulkan0 (llvmpipe (LLVM 15.0.6, 256 bits)) - 2048 MiB free
load_tensors: offloaded 31/31 layers to GPU
load_tensors:      Vulkan0 model buffer size =    92.71 MiB
slot print_timing: id  3 | task 0 |        eval time =    6207.95 ms /     8 tokens (  886.85 ms per token,     1.13 tokens per second)
"""  # noqa: E501


def test_a_pasted_log_names_it(wording):
    (subject,) = triage([PASTE.encode()], "paste").report.subjects
    assert [finding.cause for finding in subject.findings] == [NAME]
    wording(subject.findings[0].because, tells="llvmpipe")


def test_prompts_alone_on_a_renderer_are_a_matter_of_prefill(wording):
    case = rendered(3.3, software_renderer="llvmpipe")
    done = Completion(prompt_tokens=90, prefill_s=60.0, generated_tokens=32, decode_s=9.7)
    case = msgspec.structs.replace(case, run=msgspec.structs.replace(case.run, completions=r((done,))))
    report = judge(CaseView(case))
    assert (report.verdict, report.phase, report.findings[0].cause) == ("slow", "prefill", NAME)
    wording(report.summary, tells="prefill")


def test_a_renderer_waits_for_its_own_threads_where_others_use_little():
    case = rendered(software_renderer="llvmpipe")
    for others, kind in ((0.4, Absent), (1.5, Found)):
        run = msgspec.structs.replace(case.run, others_cpus=r(others), waiting_for_cpu_s_per_token=r(20.0))
        assert isinstance(ask("cpu_contended", msgspec.structs.replace(case, run=run)), kind)
