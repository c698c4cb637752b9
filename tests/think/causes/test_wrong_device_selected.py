from answers import ask
from cases import gpu_case, r
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "wrong_device_selected"
LISTED = [
    SeenDevice(name="Vulkan0", description="Intel(R) UHD Graphics 770", library="Vulkan"),
    SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 4070", total_bytes=r(12 * GIB), library="CUDA"),
]


def fires(used: str = "Vulkan0"):
    return pasted(gpus=["RTX 4070", "Intel UHD"], runtime={"device_used": used, "devices": LISTED})


def test_an_integrated_gpu_in_use_beside_an_idle_card_is_found(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value == "CUDA0", "what the runtime itself calls it"
    wording(report.findings[0].because, tells=("770", "CUDA0", "RTX 4070"))


def test_the_faster_card_in_use_rules_it_out():
    assert isinstance(ask(NAME, fires("CUDA0")), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_the_slower_card_is_wrong_only_where_the_other_is_much_faster():
    case = pasted(gpus=["RTX 4090", "GTX 1060 6GB"], runtime={"device_used": "NVIDIA GeForce GTX 1060 6GB"})
    assert isinstance(ask(NAME, case), Found)
    case = pasted(gpus=["RTX 4090", "RTX 3090"], runtime={"device_used": "NVIDIA GeForce RTX 3090"})
    assert isinstance(ask(NAME, case), Absent)


def test_a_remark_decides_where_both_gpus_are_known():
    said = says(Topic.WRONG_GPU, "it uses the integrated one instead")
    assert isinstance(ask(NAME, pasted(said, gpus=["RTX 4070", "Intel UHD Graphics"])), Found)
    assert isinstance(ask(NAME, pasted(said, gpus=["RTX 4070"])), CannotTell)


def test_a_trial_of_two_backends_on_one_card_is_not_a_wrong_device():
    trial = compares(Topic.DEVICE, 20.0, 40.0, "vulkan instead of rocm")
    assert isinstance(ask(NAME, pasted(trial, gpus=["RX 7900 XTX"])), CannotTell)
    assert isinstance(ask(NAME, pasted(trial, gpus=["RTX 4070", "Intel UHD Graphics"])), Found)


def test_a_runtime_that_lists_only_the_slower_gpu_is_found():
    sees = {"devices": [SeenDevice(name="Vulkan0", description="AMD Radeon(TM) Graphics")]}
    assert isinstance(ask(NAME, pasted(gpus=["RX 7800 XT"], runtime=sees)), Found)
