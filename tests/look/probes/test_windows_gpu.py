import msgspec
import pytest
from doubles import FakeSystem

from unslow.facts.machine import Gpu, GpuProcess, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import not_supported, reported_fact
from unslow.look.logs.windows import parse_adapters, powershell_command
from unslow.look.probes.windows_gpu import OBJECTS, read
from unslow.look.system import FinishedCommand, LookError

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
    done = FinishedCommand(0, stdout, stderr)
    return FakeSystem(asks={"sys.platform": "win32"}, commands={" ".join(powershell_command(OBJECTS)): done})


def test_windows_adapters_with_memory_in_use_are_listed():
    card, chip = read(windows(msgspec.json.encode(ANSWER).decode())).gpus.need()
    assert (card.name.need(), card.vendor.need()) == (NAME, "NVIDIA")
    assert (card.vram_used_bytes.need(), card.vram_total_bytes.need()) == (8160051200, 8 * GIB)
    assert (card.shared_used_bytes.need(), card.shared_total_bytes.need()) == (3328599654, 17071734784)
    (process,) = card.processes.need()
    assert (process.pid, process.vram_bytes.need(), process.shared_bytes.need()) == (9120, 7516192768, 3221225472)
    assert (chip.vendor.need(), chip.shared_used_bytes.need()) == ("Intel", 104857600)


def test_a_gpu_known_from_nvml_is_not_listed_twice_on_windows():
    """Under WDDM, NVML lacks only shared memory and memory per process."""
    why = not_supported("this driver model (WDDM) does not report memory per process")
    nvml = Gpu(
        index=0,
        vendor=reported_fact("NVIDIA", "nvml"),
        name=reported_fact(NAME, "nvml"),
        bus_id=reported_fact("0000:01:00.0", "nvml"),
        vram_total_bytes=reported_fact(8585740288, "nvml"),
        processes=reported_fact([GpuProcess(pid=9120, vram_bytes=why)], "nvml"),
    )
    seen = read(windows(msgspec.json.encode(ANSWER).decode()))
    gpus = overlaid(Machine(gpus=reported_fact((nvml,), "nvml")), seen).gpus.need()
    assert [gpu.name.need() for gpu in gpus] == [NAME, "Intel(R) UHD Graphics 770"]
    assert (gpus[0].vram_total_bytes.need(), gpus[0].shared_used_bytes.need()) == (8585740288, 3328599654)
    assert gpus[0].processes.need()[0].vram_bytes.need() == 7516192768
    assert gpus[0].bus_id.need() == "0000:01:00.0"


@pytest.mark.parametrize("asks", [{}, {"sys.platform": "linux"}, {"sys.platform": "darwin"}])
def test_windows_gpu_counters_are_not_read_elsewhere(asks: dict[str, str]):
    assert read(FakeSystem(asks=asks)) == Machine()


def test_failed_windows_gpu_counters_are_a_failed_look():
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
def test_garbage_windows_gpu_counters_give_no_gpus(text: str):
    assert parse_adapters(text) == ()


def test_windows_gpu_processes_have_names():
    named = ANSWER | {"names": [{"Id": 9120, "ProcessName": "LM Studio"}, {"Id": "7", "ProcessName": 5}, {"Id": None}]}
    card, _ = read(windows(msgspec.json.encode(named).decode())).gpus.need()
    assert [process.name.need() for process in card.processes.need()] == ["LM Studio"]
