import msgspec
import pytest
from doubles import FakeSystem

from unslow.facts.machine import Gpu, GpuProcess, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import not_supported, reported
from unslow.look.logs.windows import parse_adapters
from unslow.look.probes.windows_gpu import COMMAND, read
from unslow.look.system import Finished, LookError

GIB = 1024**3
CARD, CHIP, SOFTWARE = (f"luid_0x00000000_0x0000{n}_phys_0" for n in ("A6CB", "B1F2", "C3D4"))
NAME = "NVIDIA GeForce RTX 4060"
ANSWER = {
    "adapters": [
        {"Name": CARD, "DedicatedUsage": 8160051200, "SharedUsage": 3328599654},
        {"Name": CHIP, "DedicatedUsage": "0", "SharedUsage": "104857600"},
        {"Name": SOFTWARE, "DedicatedUsage": 0, "SharedUsage": 0},
    ],
    "processes": {"Name": f"pid_9120_{CARD}", "DedicatedUsage": 7516192768, "SharedUsage": 3221225472},
    "directx": [
        {"Description": NAME, "AdapterLuid": 0xA6CB, "DedicatedVideoMemory": 8 * GIB, "SharedSystemMemory": 17071734784,
         "VendorId": 4318},
        {"Description": "Intel(R) UHD Graphics 770", "AdapterLuid": 0xB1F2, "DedicatedVideoMemory": 134217728,
         "SharedSystemMemory": 17071734784, "VendorId": 32902},
    ],
}  # fmt: skip


def windows(stdout: str, stderr: str = "") -> FakeSystem:
    done = Finished(0, stdout, stderr)
    return FakeSystem(asks={"sys.platform": "win32"}, commands={" ".join(COMMAND): done})


def test_the_adapters_that_hold_memory():
    card, chip = read(windows(msgspec.json.encode(ANSWER).decode())).gpus.need()
    assert (card.name.need(), card.vendor.need()) == (NAME, "NVIDIA")
    assert (card.vram_used_bytes.need(), card.vram_total_bytes.need()) == (8160051200, 8 * GIB)
    assert (card.shared_used_bytes.need(), card.shared_total_bytes.need()) == (3328599654, 17071734784)
    (process,) = card.processes.need()
    assert (process.pid, process.vram_bytes.need(), process.shared_bytes.need()) == (9120, 7516192768, 3221225472)
    assert (chip.vendor.need(), chip.shared_used_bytes.need()) == ("Intel", 104857600)


def test_a_card_that_its_own_driver_described_is_not_counted_twice():
    """NVML under WDDM tells all but what it borrows and what each process holds."""
    why = not_supported("this driver model (WDDM) does not tell memory by process")
    nvml = Gpu(
        index=0,
        vendor=reported("NVIDIA", "nvml"),
        name=reported(NAME, "nvml"),
        bus_id=reported("0000:01:00.0", "nvml"),
        vram_total_bytes=reported(8585740288, "nvml"),
        processes=reported([GpuProcess(pid=9120, vram_bytes=why)], "nvml"),
    )
    seen = read(windows(msgspec.json.encode(ANSWER).decode()))
    gpus = overlaid(Machine(gpus=reported((nvml,), "nvml")), seen).gpus.need()
    assert [gpu.name.need() for gpu in gpus] == [NAME, "Intel(R) UHD Graphics 770"]
    assert (gpus[0].vram_total_bytes.need(), gpus[0].shared_used_bytes.need()) == (8585740288, 3328599654)
    assert gpus[0].processes.need()[0].vram_bytes.need() == 7516192768
    assert gpus[0].bus_id.need() == "0000:01:00.0"


@pytest.mark.parametrize("asks", [{}, {"sys.platform": "linux"}, {"sys.platform": "darwin"}])
def test_another_system_is_left_alone(asks: dict[str, str]):
    assert read(FakeSystem(asks=asks)) == Machine()


def test_counters_that_say_nothing_are_a_failed_look():
    with pytest.raises(LookError, match="Invalid class"):
        read(windows("", "Get-CimInstance : Invalid class"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"adapters": 5}',
        '{"adapters": [{"Name": 1}]}',
        "[" * 10**5,
        '{"adapters":[{"Name":"luid_0x0_0x1","DedicatedUsage":-5,"SharedUsage":1e300}]}',
    ],
)
def test_garbage(text: str):
    assert parse_adapters(text) == ()


def test_the_programs_of_processes_have_names():
    named = ANSWER | {"names": [{"Id": 9120, "ProcessName": "LM Studio"}, {"Id": "7", "ProcessName": 5}, {"Id": None}]}
    card, _ = read(windows(msgspec.json.encode(named).decode())).gpus.need()
    assert [process.name.need() for process in card.processes.need()] == ["LM Studio"]
