import msgspec
import pytest
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts
from firing import no_backend
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.values import MIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_backend_not_loaded"
fires = no_backend


def test_gpu_that_the_runtime_does_not_see_is_found():
    report = judge(CaseView(no_backend()))
    assert report.findings[0].cause == NAME
    assert "NVIDIA GeForce RTX 4090" in report.findings[0].because
    assert report.expected.achievable["decode_tokens_per_s"].mid > 80


def test_device_list_with_only_the_cpu_is_found():
    assert isinstance(
        ask(NAME, with_facts(no_backend(), {"runtime.placement.gpu_refused": not_found("no such line")})), Found
    )


def test_hidden_load_lines_ask_for_lv_4():
    gone = not_found("not in the log", "restart with -lv 4")
    case = with_facts(
        no_backend(),
        {
            "runtime.placement.gpu_refused": gone,
            "runtime.placement.devices": gone,
            "runtime.memory.buffers": gone,
            "runtime.build.backends": gone,
        },
    )
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert "-lv 4" in answer.how_to_get


def test_no_gpu_or_gpu_in_use_is_ruled_out():
    assert isinstance(ask(NAME, cpu_case()), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_embedded_engine_or_device_none_is_ruled_out():
    embedded = msgspec.structs.replace(no_backend().runtime, embedded=True)
    assert isinstance(ask(NAME, msgspec.structs.replace(no_backend(), runtime=embedded)), Absent)
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.placement.device_set": "none"})), Absent)


def test_weights_in_a_cpu_buffer_are_found_without_a_cost():
    host = [Buffer(device="CPU", kind="model", bytes=int(4437.8 * MIB), on_gpu=False)]
    report = judge(CaseView(pasted(gpus=["NVIDIA GPU"], runtime={"name": "ollama", "buffers": host})))
    assert report.findings[0].cause == NAME
    assert report.findings[0].cost is None


def test_token_table_in_a_cpu_buffer_gives_cannot_tell():
    table = [Buffer(device="CPU_Mapped", kind="model", bytes=281 * MIB, on_gpu=False)]
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime={"buffers": table})), CannotTell)


def test_device_with_library_cpu_is_found():
    listed = [SeenDevice(name="0", library="cpu")]
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime={"devices": listed})), Found)


def test_refusal_is_found_where_it_or_the_person_names_a_gpu():
    refused = "amdgpu devices detected but permission problems block access: open /dev/kfd: permission denied"
    assert isinstance(ask(NAME, pasted(runtime={"gpu_refused": refused})), Found)
    assert isinstance(ask(NAME, pasted(runtime={"gpu_refused": "local rank 0 is out of bounds for 0 devices"})), Found)
    answer = ask(NAME, pasted(runtime={"gpu_refused": "no compatible GPUs were discovered"}))
    assert isinstance(answer, CannotTell)
    assert "nvidia-smi -L" in answer.how_to_get
    unused = says(Topic.GPU_UNUSED, "my GPU is not used")
    assert isinstance(ask(NAME, pasted(unused, runtime={"gpu_refused": "no compatible GPUs were discovered"})), Found)


def test_cpu_backend_alone_is_found_with_a_complaint_else_cannot_tell():
    loaded = {"backends": ["CPU"]}
    unused = says(Topic.GPU_UNUSED, "GPU detected but CPU used")
    assert isinstance(ask(NAME, pasted(unused, gpus=["RTX 3060"], runtime=loaded | {"build_features": []})), Found)
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3060"], runtime=loaded)), CannotTell)


def test_complaint_about_the_gpu_is_suspected_with_the_command_that_decides():
    for topic in (Topic.GPU_UNUSED, Topic.GPU_LIBRARY_MISSING):
        case = pasted(says(topic, "the GPU is not used"), gpus=["RTX 3060"], runtime={"name": "ollama"})
        answer = ask(NAME, case)
        assert isinstance(answer, CannotTell)
        assert answer.suspected
        assert "journalctl -u ollama" in answer.how_to_get
        assert judge(CaseView(case)).verdict == "cannot_tell"


def integrated(name: str, vendor: str = "Intel") -> Gpu:
    return Gpu(index=0, name=r(name), vendor=r(vendor), kind=r("integrated"))


def test_intel_integrated_gpu_is_ruled_out(wording):
    for name in ("Intel UHD Graphics 770", "Iris Xe", "Raptor Lake-S GT1"):
        alone = with_facts(no_backend(), {"machine.gpus": r((integrated(name),))})
        answer = ask(NAME, alone)
        assert isinstance(answer, Absent), name
        wording(answer.because, tells=name)


def test_unused_card_beside_an_integrated_gpu_is_found():
    (card,) = no_backend().machine.gpus.need()
    both = with_facts(no_backend(), {"machine.gpus": r((card, integrated("Intel UHD Graphics 770")))})
    answer = ask(NAME, both)
    assert isinstance(answer, Found)
    assert "RTX 4090" in answer.because


def test_unused_apple_gpu_is_found():
    mac = with_facts(no_backend(), {"machine.gpus": r((integrated("Apple M2 Max", "Apple"),))})
    assert isinstance(ask(NAME, mac), Found)


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param("NVIDIA driver too old: 570 or newer", id="old_driver"),
        pytest.param("dropping integrated GPU; to enable, set OLLAMA_IGPU_ENABLE=1", id="integrated"),
        pytest.param("/dev/kfd: permission denied", id="permission"),
        pytest.param("local rank 0 is out of bounds for 0 devices", id="no_device"),
        pytest.param("no usable GPU found", id="no_reason"),
    ],
)
def test_fix_depends_on_the_reason_that_the_runtime_gave(refused, wording):
    answer = ask(NAME, with_facts(no_backend(), {"runtime.placement.gpu_refused": refused}))
    assert isinstance(answer, Found)
    wording(answer.remedies[0].change.why)
