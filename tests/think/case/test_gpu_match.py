"""Which GPUs of the machine a runtime's devices are."""

import msgspec
import pytest
from cases import gpu_case, r, with_facts, without

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB
from unslow.think.case.bandwidth import gpu_numbered
from unslow.think.case.vram import available_vram_bytes, gpus_used, margin_bytes, other_gpu_processes

RTX_4090, P40 = "NVIDIA GeForce RTX 4090", "Tesla P40"


def cards(*names: str, seen: tuple[str, ...] = (), held: tuple[str, ...] = ("CUDA0",), **runtime: object) -> Case:
    """The usual model on these cards: what the runtime lists, by number, and the devices that hold the model."""
    (one,) = gpu_case().machine.gpus.need()
    gpus = tuple(msgspec.structs.replace(one, index=n, name=r(name), processes=r([])) for n, name in enumerate(names))
    devices = [SeenDevice(name=f"CUDA{n}", description=name, free_bytes=r(20 * GIB)) for n, name in enumerate(seen)]
    buffers = [Buffer(device=name, kind="model", bytes=2 * GIB, on_gpu=True) for name in held]
    facts = {"machine.gpus": gpus, "runtime.devices": devices, "runtime.buffers": buffers}
    return with_facts(gpu_case(), facts | {f"runtime.{name}": value for name, value in runtime.items()})


def used(case: Case) -> list[int]:
    return [gpu.index for gpu in gpus_used(case)]


def test_of_two_alike_the_one_with_the_number():
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090))) == [0]
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090), held=("CUDA1",))) == [1]
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090,))) == [0]
    assert used(cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090), held=("CUDA0", "CUDA1"))) == [0, 1]


def test_what_lies_on_the_other_is_nobodys_business():
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090))
    training = [GpuProcess(pid=99, name=r("python"), vram_bytes=r(20 * GIB))]
    case = with_facts(case, {"machine.gpus.1.processes": training})
    assert other_gpu_processes(case) == []
    assert margin_bytes(case) == margin_bytes(gpu_case())
    assert available_vram_bytes(case) == 20 * GIB


@pytest.mark.parametrize("visible", ["1", " 1 ", '"1"'])
def test_numbers_start_anew_among_those_that_are_visible(visible):
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090,), environment={"CUDA_VISIBLE_DEVICES": visible})
    assert used(case) == [1]


@pytest.mark.parametrize("visible", ["GPU-8f2c", "", "9", "1" * 5000])
def test_a_list_that_names_no_gpu_of_the_machine_hides_none(visible):
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090,), held=(), environment={"CUDA_VISIBLE_DEVICES": visible})
    assert used(case) in ([0], [0, 1])


def test_what_is_visible_where_the_runtime_lists_nothing():
    case = cards(RTX_4090, RTX_4090, held=(), environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert used(without(case, "runtime.devices")) == [1]
    assert used(without(cards(RTX_4090, RTX_4090, held=(), device_set="CUDA1"), "runtime.devices")) == [1]
    alone = cards(RTX_4090, RTX_4090, held=(), split_mode="none", main_gpu=1)
    assert used(without(alone, "runtime.devices")) == [1]


def test_one_name_that_is_a_part_of_another():
    names = ("NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 4060 Ti")
    assert used(cards(*names, seen=names[1:])) == [1]
    assert used(cards(*names, seen=names[:1])) == [0]
    assert used(cards("GeForce RTX 4060", "GeForce RTX 4060 Ti", seen=names[1:])) == [1]


def test_unlike_cards_go_by_their_names_for_cuda_puts_the_fastest_first():
    assert used(cards(P40, RTX_4090, seen=(RTX_4090, P40))) == [1]
    assert used(cards(P40, RTX_4090, RTX_4090, seen=(RTX_4090, RTX_4090, P40), held=("CUDA1",))) == [2]
    assert used(cards(P40, RTX_4090)) == [0, 1], "a number alone does not tell"
    assert used(cards(P40, RTX_4090, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) == [0]


def test_the_numbers_of_a_split_are_the_runtimes():
    case = cards(P40, RTX_4090, seen=(RTX_4090, P40), held=("CUDA0", "CUDA1"))
    assert [gpu_numbered(case, number).name.need() for number in (0, 1)] == [RTX_4090, P40]
    assert gpu_numbered(case, 7) is None


def test_names_as_other_sources_write_them():
    amd = Gpu(
        index=0, vendor=r("AMD"), name=r("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]"), vram_total_bytes=r(24 * GIB)
    )
    other = Gpu(index=1, vendor=r("AMD"), name=r("AMD Radeon RX 6600"), vram_total_bytes=r(8 * GIB))
    seen = [SeenDevice(name="Vulkan0", description="AMD Radeon RX 7900 XTX (RADV NAVI31)", total_bytes=r(24 * GIB))]
    facts = {"machine.gpus": (amd, other), "runtime.devices": seen, "runtime.buffers": []}
    assert gpus_used(with_facts(gpu_case(), facts)) == (amd,)


def test_the_driver_knows_better_which_of_two_alike_it_is():
    case = cards(RTX_4090, RTX_4090, seen=(RTX_4090,))
    own = [GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(5 * GIB))]
    assert used(with_facts(case, {"machine.gpus.1.processes": own})) == [1]


def test_a_bare_context_is_no_work():
    case = without(cards(RTX_4090, RTX_4090, held=()), "runtime.devices")
    own, bare = (GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(size)) for size in (5 * GIB, 420 * MIB))
    assert used(with_facts(case, {"machine.gpus.0.processes": [bare], "machine.gpus.1.processes": [own]})) == [1]
    assert used(with_facts(case, {"machine.gpus.0.processes": [own], "machine.gpus.1.processes": [own]})) == [0, 1]
