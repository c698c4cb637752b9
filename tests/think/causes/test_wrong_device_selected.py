from answers import ask
from cases import gpu_case, r
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import GIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "wrong_device_selected"
LISTED = [
    SeenDevice(name="Vulkan0", description="Intel(R) UHD Graphics 770", library="Vulkan"),
    SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 4070", total_bytes=r(12 * GIB), library="CUDA"),
]


def fires(used: str = "Vulkan0"):
    return pasted(gpus=["RTX 4070", "Intel UHD"], runtime={"device_used": used, "devices": LISTED})


def test_the_integrated_gpu_computes_and_the_card_is_idle(wording):
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value == "CUDA0", "what the runtime itself calls it"
    wording(report.findings[0].because, tells=("770", "CUDA0", "RTX 4070"))


def test_near_miss_the_better_card_computes():
    assert isinstance(ask(NAME, fires("CUDA0")), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_the_slower_of_two_cards():
    case = pasted(gpus=["RTX 4090", "GTX 1060 6GB"], runtime={"device_used": "NVIDIA GeForce GTX 1060 6GB"})
    assert isinstance(ask(NAME, case), Found)
    case = pasted(gpus=["RTX 4090", "RTX 3090"], runtime={"device_used": "NVIDIA GeForce RTX 3090"})
    assert isinstance(ask(NAME, case), Absent)


def test_words_decide_where_both_gpus_are_known():
    said = says(Topic.WRONG_GPU, "it uses the integrated one instead")
    assert isinstance(ask(NAME, pasted(said, gpus=["RTX 4070", "Intel UHD Graphics"])), Found)
    assert isinstance(ask(NAME, pasted(said, gpus=["RTX 4070"])), CannotTell)


def test_two_backends_on_one_card_are_no_wrong_device():
    trial = compares(Topic.DEVICE, 20.0, 40.0, "vulkan instead of rocm")
    assert isinstance(ask(NAME, pasted(trial, gpus=["RX 7900 XTX"])), CannotTell)
    assert isinstance(ask(NAME, pasted(trial, gpus=["RTX 4070", "Intel UHD Graphics"])), Found)


def test_a_runtime_that_sees_only_the_slower_one():
    sees = {"devices": [SeenDevice(name="Vulkan0", description="AMD Radeon(TM) Graphics")]}
    assert isinstance(ask(NAME, pasted(gpus=["RX 7800 XT"], runtime=sees)), Found)
