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
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_backend_not_loaded"
fires = no_backend


def test_a_card_that_the_runtime_does_not_see():
    report = judge(no_backend())
    assert report.findings[0].cause == NAME
    assert "NVIDIA GeForce RTX 4090" in report.findings[0].because
    assert report.expected.achievable["decode_tokens_per_s"].mid > 80


def test_a_device_list_of_only_the_cpu_is_enough():
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.gpu_refused": not_found("no such line")})), Found)


def test_near_miss_hidden_load_lines():
    gone = not_found("not in the log", "restart with -lv 4")
    case = with_facts(
        no_backend(),
        {"runtime.gpu_refused": gone, "runtime.devices": gone, "runtime.buffers": gone, "runtime.backends": gone},
    )
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert "-lv 4" in answer.how_to_get


def test_not_without_a_gpu_nor_with_one_in_use():
    assert isinstance(ask(NAME, cpu_case()), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_not_for_the_embedded_engine_nor_by_choice():
    embedded = msgspec.structs.replace(no_backend().runtime, embedded=True)
    assert isinstance(ask(NAME, msgspec.structs.replace(no_backend(), runtime=embedded)), Absent)
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.device_set": "none"})), Absent)


def test_a_gpu_named_in_words_and_weights_in_a_cpu_buffer():
    host = [Buffer(device="CPU", kind="model", bytes=int(4437.8 * MIB), on_gpu=False)]
    report = judge(pasted(gpus=["NVIDIA GPU"], runtime={"name": "ollama", "buffers": host}))
    assert report.findings[0].cause == NAME
    assert report.findings[0].cost is None


def test_a_token_table_alone_is_no_proof():
    table = [Buffer(device="CPU_Mapped", kind="model", bytes=281 * MIB, on_gpu=False)]
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime={"buffers": table})), CannotTell)


def test_a_device_list_with_the_library_cpu():
    listed = [SeenDevice(name="0", library="cpu")]
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime={"devices": listed})), Found)


def test_a_driver_that_refuses_names_the_gpu_itself():
    refused = "amdgpu devices detected but permission problems block access: open /dev/kfd: permission denied"
    assert isinstance(ask(NAME, pasted(runtime={"gpu_refused": refused})), Found)
    answer = ask(NAME, pasted(runtime={"gpu_refused": "no compatible GPUs were discovered"}))
    assert isinstance(answer, CannotTell)
    assert "nvidia-smi -L" in answer.how_to_get
    unused = says(Topic.GPU_UNUSED, "my GPU is not used")
    assert isinstance(ask(NAME, pasted(unused, runtime={"gpu_refused": "no compatible GPUs were discovered"})), Found)


def test_only_the_backend_of_the_cpu_was_loaded():
    loaded = {"backends": ["CPU"]}
    unused = says(Topic.GPU_UNUSED, "GPU detected but CPU used")
    assert isinstance(ask(NAME, pasted(unused, gpus=["RTX 3060"], runtime=loaded | {"build_features": []})), Found)
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3060"], runtime=loaded)), CannotTell)


def test_a_complaint_and_a_guess_are_suspicions_with_the_command_that_settles_them():
    for topic in (Topic.GPU_UNUSED, Topic.GPU_LIBRARY_MISSING):
        case = pasted(says(topic, "the GPU is not used"), gpus=["RTX 3060"], runtime={"name": "ollama"})
        answer = ask(NAME, case)
        assert isinstance(answer, CannotTell)
        assert answer.suspected
        assert "journalctl -u ollama" in answer.how_to_get
        assert judge(case).verdict == "cannot_tell"


def integrated(name: str, vendor: str = "Intel") -> Gpu:
    return Gpu(index=0, name=r(name), vendor=r(vendor), kind=r("integrated"))


def test_the_small_gpu_of_a_processor_is_not_missed(wording):
    for name in ("Intel UHD Graphics 770", "Iris Xe", "Raptor Lake-S GT1"):
        alone = with_facts(no_backend(), {"machine.gpus": r((integrated(name),))})
        answer = ask(NAME, alone)
        assert isinstance(answer, Absent), name
        wording(answer.because, tells=name)


def test_beside_a_card_it_changes_nothing():
    (card,) = no_backend().machine.gpus.need()
    both = with_facts(no_backend(), {"machine.gpus": r((card, integrated("Intel UHD Graphics 770")))})
    answer = ask(NAME, both)
    assert isinstance(answer, Found)
    assert "RTX 4090" in answer.because


def test_a_mac_that_computes_on_its_processor_is_told():
    mac = with_facts(no_backend(), {"machine.gpus": r((integrated("Apple M2 Max", "Apple"),))})
    assert isinstance(ask(NAME, mac), Found)


@pytest.mark.parametrize(
    ("refused", "helps"),
    [
        ("NVIDIA driver too old: 570 or newer", "a newer driver"),
        ("dropping integrated GPU; to enable, set OLLAMA_IGPU_ENABLE=1", "the GPU of the processor"),
        ("/dev/kfd: permission denied", "the right to open it"),
        ("no usable GPU found", "a build for this GPU, with its driver"),
    ],
)
def test_the_reason_that_was_given_tells_what_helps(refused, helps):
    answer = ask(NAME, with_facts(no_backend(), {"runtime.gpu_refused": refused}))
    assert isinstance(answer, Found)
    why = answer.remedies[0].change.why
    assert helps in why
    assert ("right to open" in why) == ("permission" in refused)
