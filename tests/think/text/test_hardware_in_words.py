import pytest

from unslow.facts.machine import Machine
from unslow.facts.values import GIB, Known, Origin
from unslow.think.text.prose import read_words


def machine(*lines: str) -> Machine:
    return read_words(lines, "report.txt").machine


def names(*lines: str) -> list[str]:
    return [gpu.name.need() for gpu in machine(*lines).gpus.value_or(())]


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("I have an RTX 3090 and a Ryzen 9 5950X", ["RTX 3090"]),
        ("2x RTX 3090 in one box", ["RTX 3090", "RTX 3090"]),
        ("RX 7900 XTX on Windows 11", ["RX 7900 XTX"]),
        ("M2 Max 64GB MacBook Pro", ["Apple M2 Max"]),
        ("laptop with RTX 4060 8GB and Intel Iris Xe", ["RTX 4060", "Iris Xe (DDR4-3200)"]),
        ("RTX 4060 8GB and Intel UHD 630", ["RTX 4060", "Intel UHD 630"]),
        ("AMD Ryzen AI Max+ 395 with Radeon 8060S, 128GB", ["Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"]),
        ("RTX 3090; on another machine with an RTX 4090 it is fast", ["RTX 3090"]),
        ("a server with 4 NVIDIA GPUs", ["NVIDIA GPU"] * 4),
        ("GPU: none of your business", ["GPU"]),
    ],
)
def test_gpus_are_found_in_prose(line, gpus):
    assert names(line) == gpus


@pytest.mark.parametrize("line", ["GPUs are expensive", "it is slow", "no GPU usage is shown", "Ryzen 7 5800X"])
def test_sentence_without_a_gpu_gives_none(line):
    assert names(line) == []


def test_hardware_line_wins_over_mentions():
    assert names("On an RTX 4090 others get 100 tok/s.", "GPU: RTX 3060 12GB") == ["RTX 3060"]


@pytest.mark.parametrize("line", ["Hardware: CPU-only VPS", "GPU: none, cpu only", "System: no GPU, 64 GB RAM"])
def test_stated_absence_of_a_gpu_is_known(line):
    found = machine(line).gpus
    assert isinstance(found, Known)
    assert found.value == ()


def test_memory_belongs_to_the_gpu_or_to_the_unified_chip():
    (card,) = machine("RTX 3080 12GB").gpus.need()
    assert card.vram_total_bytes.need() == 12 * GIB
    mac = machine("M2 Max 64GB MacBook Pro")
    (chip,) = mac.gpus.need()
    assert chip.kind.need() == "integrated"
    assert not isinstance(chip.vram_total_bytes, Known)
    assert mac.memory.total_bytes.need() == 64 * GIB


def test_whole_machine_is_read_from_one_line():
    found = machine("", "RTX 3090 24GB, Ryzen 9 5950X, 64GB DDR4-3200, Ubuntu 22.04, in Docker")
    assert found.cpu.model.need() == "Ryzen 9 5950X"
    assert found.memory.total_bytes.need() == 64 * GIB
    assert found.memory.kind.need() == "DDR4-3200"
    assert found.system.name.need() == "Linux"
    assert found.system.container.need() == "docker"
    assert found.memory.total_bytes.source == "report.txt:2"
    assert found.memory.total_bytes.origin is Origin.TOLD


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        ("32 GB of RAM", 32),
        ("RAM: 16GB", 16),
        ("128 gigs of system memory", 128),
        ("24GB VRAM and 64GB RAM", 64),
        ("24 GB VRAM", None),
        ("99999 GB RAM", None),
    ],
)
def test_ram_size_is_parsed(line, gib):
    assert machine(line).memory.total_bytes.value_or(None) == (gib * GIB if gib else None)


def test_two_sockets_are_read():
    cpu = machine("CPU-only server, 2x Xeon Gold 6248").cpu
    assert (cpu.model.need(), cpu.sockets.need()) == ("Xeon Gold 6248", 2)
    assert machine("one Xeon Gold 6248").cpu.sockets.value_or(None) is None


def test_gpu_readings_belong_to_the_first_gpu():
    (gpu,) = machine("RTX 3090 on PCIe gen 3 x4", "GPU temperature is 92 C, drawing 140 W").gpus.need()
    assert (gpu.pcie_generation.need(), gpu.pcie_width.need()) == (3, 4)
    assert (gpu.temperature_c.need(), gpu.power_w.need()) == (92, 140)
