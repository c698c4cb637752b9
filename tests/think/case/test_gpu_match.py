"""Which GPUs of the machine the runtime's devices are."""

import msgspec
import pytest
from cases import gpu_case, r, with_facts, without

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.runtime import FACT_PATHS, Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB
from unslow.think.case.view import CaseView

RTX_4090, P40 = "NVIDIA GeForce RTX 4090", "Tesla P40"


def cards(*names: str, seen: tuple[str, ...] = (), held: tuple[str, ...] = ("CUDA0",), **runtime: object) -> Case:
    """The usual model on these cards: what the runtime lists, by number, and the devices that hold the model."""
    (one,) = gpu_case().machine.gpus.need()
    gpus = tuple(msgspec.structs.replace(one, index=n, name=r(name), processes=r([])) for n, name in enumerate(names))
    devices = [SeenDevice(name=f"CUDA{n}", description=name, free_bytes=r(20 * GIB)) for n, name in enumerate(seen)]
    buffers = [Buffer(device=name, kind="model", bytes=2 * GIB, on_gpu=True) for name in held]
    facts = {"machine.gpus": gpus, "runtime.placement.devices": devices, "runtime.memory.buffers": buffers}
    return with_facts(gpu_case(), facts | {f"runtime.{FACT_PATHS[name]}": value for name, value in runtime.items()})


def used(case: Case) -> list[int]:
    return [gpu.index for gpu in CaseView(case).gpus.in_use]


def test_equal_gpus_are_matched_by_device_number():
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090))) == [0]
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090), held=("CUDA1",))) == [1]
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090,))) == [0]
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090), held=("CUDA0", "CUDA1"))) == [0, 1]


def test_processes_on_an_unused_gpu_do_not_count():
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090))
    training = [GpuProcess(pid=99, name=r("python"), vram_bytes=r(20 * GIB))]
    case = with_facts(case, {"machine.gpus.1.processes": training})
    assert CaseView(case).vram.other_processes == []
    assert CaseView(case).vram.margin_bytes == CaseView(gpu_case()).vram.margin_bytes
    assert CaseView(case).vram.available_bytes == 20 * GIB


@pytest.mark.parametrize("visible", ["1", " 1 ", '"1"'])
def test_device_numbers_restart_among_visible_gpus(visible):
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090,), environment={"CUDA_VISIBLE_DEVICES": visible})
    assert used(case) == [1]


@pytest.mark.parametrize("visible", ["GPU-8f2c", "", "9", "1" * 5000])
def test_visible_devices_that_match_no_gpu_hide_none(visible):
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090,), held=(), environment={"CUDA_VISIBLE_DEVICES": visible})
    assert used(case) in ([0], [0, 1])


def test_visible_devices_decide_when_the_runtime_lists_none():
    case = cards(RTX_4090, RTX_4090, held=(), environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert used(without(case, "runtime.placement.devices")) == [1]
    assert used(without(cards(RTX_4090, RTX_4090, held=(), device_set="CUDA1"), "runtime.placement.devices")) == [1]
    alone = cards(RTX_4090, RTX_4090, held=(), split_mode="none", main_gpu=1)
    assert used(without(alone, "runtime.placement.devices")) == [1]


def test_name_that_is_a_prefix_of_another_is_matched_exactly():
    names = ("NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 4060 Ti")
    assert used(cards(*names, seen=names[1:])) == [1]
    assert used(cards(*names, seen=names[:1])) == [0]
    assert used(cards("GeForce RTX 4060", "GeForce RTX 4060 Ti", seen=names[1:])) == [1]


def test_different_gpus_are_matched_by_name_because_cuda_sorts_by_speed():
    assert used(cards(P40, RTX_4090, seen=(RTX_4090, P40))) == [1]
    assert used(cards(P40, RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090, P40), held=("CUDA1",))) == [2]
    assert used(cards(P40, RTX_4090)) == [0, 1], "a number alone does not tell"
    assert used(cards(P40, RTX_4090, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) == [0]


def test_split_numbers_follow_the_runtimes_device_order():
    case = cards(P40, RTX_4090, seen=(RTX_4090, P40), held=("CUDA0", "CUDA1"))
    assert [CaseView(case).gpus.by_number(number).name.need() for number in (0, 1)] == [RTX_4090, P40]
    assert CaseView(case).gpus.by_number(7) is None


def test_marketing_and_pci_names_are_matched():
    amd = Gpu(
        index=0, vendor=r("AMD"), name=r("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]"), vram_total_bytes=r(24 * GIB)
    )
    other = Gpu(index=1, vendor=r("AMD"), name=r("AMD Radeon RX 6600"), vram_total_bytes=r(8 * GIB))
    seen = [SeenDevice(name="Vulkan0", description="AMD Radeon RX 7900 XTX (RADV NAVI31)", total_bytes=r(24 * GIB))]
    facts = {"machine.gpus": (amd, other), "runtime.placement.devices": seen, "runtime.memory.buffers": []}
    assert CaseView(with_facts(gpu_case(), facts)).gpus.in_use == (amd,)


def test_process_table_of_the_driver_decides_between_equal_gpus():
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090,))
    own = [GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(5 * GIB))]
    assert used(with_facts(case, {"machine.gpus.1.processes": own})) == [1]


def test_bare_cuda_context_is_not_use():
    case = without(cards(RTX_4090, RTX_4090, held=()), "runtime.placement.devices")
    own, bare = (GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(size)) for size in (5 * GIB, 420 * MIB))
    assert used(with_facts(case, {"machine.gpus.0.processes": [bare], "machine.gpus.1.processes": [own]})) == [1]
    assert used(with_facts(case, {"machine.gpus.0.processes": [own], "machine.gpus.1.processes": [own]})) == [0, 1]
