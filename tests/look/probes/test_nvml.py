import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from doubles import FakeSystem

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import Absence, Known, Unknown, reported_fact
from unslow.look.probes import nvml
from unslow.look.probes.nvml import parse_nvml, query_nvml
from unslow.look.system import FinishedCommand, LookError

RECORDED = Path(__file__).parents[2] / "machines" / "h200_llama_server_healthy_full_gpu" / "nvidia_smi_q.txt"
MIB = 1024**2
OF_OTHER_MAKERS = (
    "kind", "architecture", "cores", "gtt_total_bytes", "gtt_used_bytes", "shared_total_bytes", "shared_used_bytes",
)  # fmt: skip


class NVMLError_NotSupported(Exception):  # noqa: N801, N818 (the probe knows NVML's errors by these names)
    pass


class NVMLError_FunctionNotFound(Exception):  # noqa: N801, N818
    pass


class NVMLError_LibraryNotFound(Exception):  # noqa: N801, N818
    pass


class NVMLError_GpuIsLost(Exception):  # noqa: N801, N818
    pass


ANSWERS: dict[str, Any] = {
    "nvmlInit()": None,
    "nvmlShutdown()": None,
    "nvmlDeviceGetCount()": 1,
    "nvmlDeviceGetHandleByIndex(0)": "gpu",
    "nvmlDeviceGetHandleByIndex(1)": "gpu",
    "nvmlSystemGetDriverVersion()": "580.159.04",
    "nvmlSystemGetProcessName(4242)": "/usr/bin/llama-server",
    "nvmlSystemGetProcessName(4300)": "/usr/lib/Xorg",
    "nvmlDeviceGetName()": b"NVIDIA H200",
    "nvmlDeviceGetPciInfo()": SimpleNamespace(busId="00000000:0A:00.0"),
    "nvmlDeviceGetCudaComputeCapability()": (9, 0),
    "nvmlDeviceGetMemoryInfo(v2)": SimpleNamespace(total=1000, reserved=50, free=650, used=300),
    "nvmlDeviceGetMemoryInfo()": SimpleNamespace(total=1000, free=650, used=350),
    "nvmlDeviceGetMemoryBusWidth()": 6144,
    "nvmlDeviceGetUtilizationRates()": SimpleNamespace(gpu=81, memory=28),
    "nvmlDeviceGetClockInfo(SM)": 1755,
    "nvmlDeviceGetClockInfo(MEM)": 3201,
    "nvmlDeviceGetMaxClockInfo(SM)": 1980,
    "nvmlDeviceGetMaxClockInfo(MEM)": 3201,
    "nvmlDeviceGetPerformanceState()": 0,
    "nvmlDeviceGetTemperatureV(GPU)": 61,
    "nvmlDeviceGetTemperature(GPU)": 61,
    "nvmlDeviceGetFieldValues([82])": [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=70))],
    "nvmlDeviceGetTemperatureThreshold(SLOWDOWN)": 89,
    "nvmlDeviceGetTemperatureThreshold(SHUTDOWN)": 95,
    "nvmlDeviceGetMarginTemperature()": 26,
    "nvmlDeviceGetPowerUsage()": 424_340,
    "nvmlDeviceGetEnforcedPowerLimit()": 700_000,
    "nvmlDeviceGetPowerManagementLimit()": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit()": 700_000,
    "nvmlDeviceGetCurrentClocksEventReasons()": 0x404,
    "nvmlDeviceGetCurrentClocksThrottleReasons()": 0x404,
    "nvmlDeviceGetCurrPcieLinkGeneration()": 4,
    "nvmlDeviceGetMaxPcieLinkGeneration()": 5,
    "nvmlDeviceGetCurrPcieLinkWidth()": 8,
    "nvmlDeviceGetMaxPcieLinkWidth()": 16,
    "nvmlDeviceGetPcieThroughput(TX)": 1120,
    "nvmlDeviceGetPcieThroughput(RX)": 562,
    "nvmlDeviceGetNvLinkState(0)": 1,
    "nvmlDeviceGetNvLinkState(1)": 0,
    "nvmlDeviceGetNvLinkState(2)": 1,
    "nvmlDeviceGetEccMode()": [1, 1],
    "nvmlDeviceGetMigMode()": [0, 0],
    "nvmlDeviceGetComputeRunningProcesses()": [SimpleNamespace(pid=4242, usedGpuMemory=200)],
    "nvmlDeviceGetGraphicsRunningProcesses()": [
        SimpleNamespace(pid=4300, usedGpuMemory=90),
        SimpleNamespace(pid=4242, usedGpuMemory=200),
    ],
}

# What is lost where one call fails and no older one stands in for it.
LOST = {
    "nvmlSystemGetDriverVersion()": {"driver"},
    "nvmlSystemGetProcessName(4242)": set(),  # costs the name of one process, looked at in a test of its own
    "nvmlSystemGetProcessName(4300)": set(),
    "nvmlDeviceGetName()": {"name"},
    "nvmlDeviceGetPciInfo()": {"bus_id"},
    "nvmlDeviceGetCudaComputeCapability()": {"compute_capability"},
    "nvmlDeviceGetMemoryInfo(v2)": {"vram_reserved_bytes"},
    "nvmlDeviceGetMemoryBusWidth()": {"memory_bus_bits"},
    "nvmlDeviceGetUtilizationRates()": {"busy", "memory_busy"},
    "nvmlDeviceGetClockInfo(SM)": {"clock_hz"},
    "nvmlDeviceGetClockInfo(MEM)": {"memory_clock_hz"},
    "nvmlDeviceGetMaxClockInfo(SM)": {"clock_max_hz"},
    "nvmlDeviceGetMaxClockInfo(MEM)": {"memory_clock_max_hz"},
    "nvmlDeviceGetPerformanceState()": {"performance_state"},
    "nvmlDeviceGetTemperatureV(GPU)": set(),
    "nvmlDeviceGetFieldValues([82])": {"memory_temperature_c"},
    "nvmlDeviceGetTemperatureThreshold(SLOWDOWN)": {"temperature_slowdown_c"},
    "nvmlDeviceGetTemperatureThreshold(SHUTDOWN)": {"temperature_shutdown_c"},
    "nvmlDeviceGetMarginTemperature()": {"temperature_margin_c"},
    "nvmlDeviceGetPowerUsage()": {"power_w"},
    "nvmlDeviceGetEnforcedPowerLimit()": set(),
    "nvmlDeviceGetPowerManagementDefaultLimit()": {"power_limit_default_w"},
    "nvmlDeviceGetCurrentClocksEventReasons()": set(),
    "nvmlDeviceGetCurrPcieLinkGeneration()": {"pcie_generation"},
    "nvmlDeviceGetMaxPcieLinkGeneration()": {"pcie_generation_max"},
    "nvmlDeviceGetCurrPcieLinkWidth()": {"pcie_width"},
    "nvmlDeviceGetMaxPcieLinkWidth()": {"pcie_width_max"},
    "nvmlDeviceGetPcieThroughput(TX)": {"pcie_transmit_bytes_per_s"},
    "nvmlDeviceGetPcieThroughput(RX)": {"pcie_receive_bytes_per_s"},
    "nvmlDeviceGetNvLinkState(0)": {"nvlinks_active"},
    "nvmlDeviceGetNvLinkState(1)": set(),
    "nvmlDeviceGetNvLinkState(2)": set(),
    "nvmlDeviceGetNvLinkState(3)": set(),
    "nvmlDeviceGetEccMode()": {"ecc"},
    "nvmlDeviceGetMigMode()": {"mig"},
    "nvmlDeviceGetComputeRunningProcesses()": {"processes"},
    "nvmlDeviceGetGraphicsRunningProcesses()": set(),
}


class FakeNvml:
    """NVML with one full GPU; the calls named in `broken` raise."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = "SM", "MEM"
    NVML_TEMPERATURE_GPU = "GPU"
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = "SLOWDOWN", "SHUTDOWN"
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = "TX", "RX"
    NVML_FI_DEV_MEMORY_TEMP = 82
    NVML_NVLINK_MAX_LINKS = 36
    nvmlMemory_v2 = "v2"  # noqa: N815 (NVML's own spelling)

    def __init__(self, *, broken: tuple[str, ...] = (), error: Exception | None = None, **answers: Any) -> None:
        self.broken, self.error = broken, error or NVMLError_NotSupported("Not Supported")
        self.answers = ANSWERS | {f"{name}()": value for name, value in answers.items()}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            about = args[1:] if name.startswith("nvmlDeviceGet") and args[:1] == ("gpu",) else args
            key = f"{name}({', '.join(map(str, [*about, *named.values()]))})"
            self.calls.append(key)
            if key in self.broken or key not in self.answers:
                raise self.error
            return self.answers[key]

        return call


def full_gpu(fake: FakeNvml) -> Gpu:
    (gpu,) = parse_nvml(json.loads(json.dumps(query_nvml(fake))))
    return gpu


def known(gpu: Gpu) -> set[str]:
    return {name for name in gpu.__struct_fields__ if isinstance(getattr(gpu, name), Known)}


def calls_about_a_gpu() -> list[str]:
    fake = FakeNvml()
    query_nvml(fake)
    frame = ("nvmlInit()", "nvmlShutdown()", "nvmlDeviceGetCount()", "nvmlDeviceGetHandleByIndex(0)")
    return sorted(set(fake.calls).difference(frame))


def test_nvml_gives_every_fact_of_a_gpu():
    gpu = full_gpu(FakeNvml())
    assert {name: getattr(gpu, name).value for name in known(gpu)} == {
        "vendor": "NVIDIA",
        "name": "NVIDIA H200",
        "driver": "580.159.04",
        "bus_id": "0000:0a:00.0",
        "compute_capability": "9.0",
        "vram_total_bytes": 1000,
        "vram_used_bytes": 300,
        "vram_free_bytes": 650,
        "vram_reserved_bytes": 50,
        "memory_bus_bits": 6144,
        "busy": 0.81,
        "memory_busy": 0.28,
        "clock_hz": 1755e6,
        "clock_max_hz": 1980e6,
        "memory_clock_hz": 3201e6,
        "memory_clock_max_hz": 3201e6,
        "performance_state": "P0",
        "temperature_c": 61,
        "memory_temperature_c": 70,
        "temperature_slowdown_c": 89,
        "temperature_shutdown_c": 95,
        "temperature_margin_c": 26,
        "power_w": 424.34,
        "power_limit_w": 700,
        "power_limit_default_w": 700,
        "event_reasons": ["sw_power_cap", "unknown_bit_0x400"],
        "event_reason_bits": 0x404,
        "pcie_generation": 4,
        "pcie_generation_max": 5,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "pcie_transmit_bytes_per_s": 1_120_000,
        "pcie_receive_bytes_per_s": 562_000,
        "nvlinks_active": 2,
        "ecc": True,
        "mig": False,
        "processes": [
            GpuProcess(
                pid=4242, name=reported_fact("/usr/bin/llama-server", "nvml"), vram_bytes=reported_fact(200, "nvml")
            ),
            GpuProcess(pid=4300, name=reported_fact("/usr/lib/Xorg", "nvml"), vram_bytes=reported_fact(90, "nvml")),
        ],
    }
    assert known(gpu) == set(Gpu.__struct_fields__) - {"index", *OF_OTHER_MAKERS}


@pytest.mark.parametrize("call", calls_about_a_gpu())
@pytest.mark.parametrize(
    ("error", "absence"),
    [
        (NVMLError_NotSupported("Not Supported"), Absence.NOT_SUPPORTED),
        (NVMLError_FunctionNotFound("Function Not Found"), Absence.NOT_SUPPORTED),
        (AttributeError("no such function"), Absence.NOT_SUPPORTED),
        (RuntimeError("Unknown Error"), Absence.FAILED),
    ],
)
def test_a_failing_nvml_call_loses_only_its_own_fact(call: str, error: Exception, absence: Absence):
    gpu = full_gpu(FakeNvml(broken=(call,), error=error))
    told = {"nvlinks_active"} if isinstance(error, NVMLError_NotSupported) else set()  # such a card has no link
    assert known(full_gpu(FakeNvml())) - known(gpu) == LOST[call] - told
    for name in LOST[call] - {"vram_reserved_bytes"} - told:
        assert getattr(gpu, name).absence is absence


def test_a_card_without_nvlink_has_zero_links():
    refused = NVMLError_NotSupported("Not Supported")
    gpu = full_gpu(FakeNvml(broken=("nvmlDeviceGetNvLinkState(0)",), error=refused))
    assert gpu.nvlinks_active.value == 0


def test_an_old_driver_without_new_nvml_calls_gives_the_same_facts():
    new = ("nvmlDeviceGetMemoryInfo(v2)", "nvmlDeviceGetTemperatureV(GPU)", "nvmlDeviceGetEnforcedPowerLimit()",
           "nvmlDeviceGetCurrentClocksEventReasons()")  # fmt: skip
    gpu = full_gpu(FakeNvml(broken=new, error=NVMLError_FunctionNotFound("Function Not Found")))
    assert gpu.vram_used_bytes == reported_fact(350, "nvml")
    assert gpu.event_reason_bits == reported_fact(0x404, "nvml")
    assert gpu.temperature_c == reported_fact(61.0, "nvml")
    assert isinstance(gpu.vram_reserved_bytes, Unknown)


def test_memory_per_process_is_not_supported_under_wddm():
    hidden = [SimpleNamespace(pid=4242, usedGpuMemory=None), SimpleNamespace(pid=4300, usedGpuMemory=2**64 - 1)]
    gpu = full_gpu(FakeNvml(nvmlDeviceGetComputeRunningProcesses=hidden, nvmlDeviceGetGraphicsRunningProcesses=[]))
    sizes = [process.vram_bytes for process in gpu.processes.need()]
    assert [isinstance(size, Unknown) and size.absence for size in sizes] == [Absence.NOT_SUPPORTED] * 2


def test_a_lost_gpu_does_not_affect_the_other():
    two = query_nvml(FakeNvml(nvmlDeviceGetCount=2))
    assert [(gpu.index, gpu.name) for gpu in parse_nvml(two)] == [
        (0, reported_fact("NVIDIA H200", "nvml")),
        (1, reported_fact("NVIDIA H200", "nvml")),
    ]
    lost = FakeNvml(
        broken=("nvmlDeviceGetHandleByIndex(1)",), error=NVMLError_GpuIsLost("GPU is lost"), nvmlDeviceGetCount=2
    )
    well, gone = parse_nvml(query_nvml(lost))
    assert well.vram_total_bytes == reported_fact(1000, "nvml")
    assert gone.driver == reported_fact("580.159.04", "nvml")
    assert gone.name == Unknown("nvml: GPU is lost", absence=Absence.FAILED)


def test_an_out_of_range_nvml_value_is_not_a_fact():
    nonsense = SimpleNamespace(gpu=4_294_967_295, memory=0)
    gpu = full_gpu(FakeNvml(nvmlDeviceGetUtilizationRates=nonsense, nvmlDeviceGetPerformanceState=32))
    assert isinstance(gpu.busy, Unknown)
    assert gpu.memory_busy == reported_fact(0.0, "nvml")
    assert isinstance(gpu.performance_state, Unknown)
    assert gpu.performance_state.absence is Absence.NOT_FOUND


@pytest.mark.parametrize("raw", [None, [], {}, {"gpus": 3}, {"gpus": [None, 1]}])
def test_a_malformed_nvml_recording_has_no_gpus(raw: Any):
    assert parse_nvml(raw) == ()


def test_a_recorded_gpu_without_answers_has_unknown_facts():
    (gpu,) = parse_nvml({"gpus": [{"name": ["?"], "memory_bytes": "?", "compute_processes": [{}, 1]}]})
    assert isinstance(gpu.vram_total_bytes, Unknown)
    assert gpu.processes == reported_fact([], "nvml")


def test_a_missing_or_crashing_nvml_library_is_a_failed_look():
    with pytest.raises(LookError) as missing:
        query_nvml(FakeNvml(broken=("nvmlInit()",), error=NVMLError_LibraryNotFound("NVML Shared Library Not Found")))
    assert missing.value.absence is Absence.NOT_FOUND
    with pytest.raises(LookError, match="RuntimeError: boom"):
        query_nvml(FakeNvml(broken=("nvmlDeviceGetCount()",), error=RuntimeError("boom")))


def test_process_names_fall_back_to_proc_comm():
    raw = query_nvml(FakeNvml(broken=("nvmlSystemGetProcessName(4300)",)))
    machine = nvml.read(FakeSystem(asks={"nvml": raw}, files={"/proc/4300/comm": "Xorg\n"}))
    (gpu,) = machine.gpus.need()
    assert [process.name for process in gpu.processes.need()] == [
        reported_fact("/usr/bin/llama-server", "nvml"),
        reported_fact("Xorg", "/proc/4300/comm"),
    ]


def test_without_nvml_nvidia_smi_q_is_parsed():
    system = FakeSystem(commands={"nvidia-smi -q": FinishedCommand(0, RECORDED.read_text(), "")})
    (gpu,) = nvml.read(system).gpus.need()
    assert gpu.vram_total_bytes == reported_fact(143771 * MIB, "nvidia-smi -q")
    assert gpu.processes == reported_fact([], "nvidia-smi -q")


def test_processes_fall_back_to_the_compute_apps_query():
    text = RECORDED.read_text().replace("Processes                                          : None", "")
    apps = "pid, process_name, used_gpu_memory [MiB]\n5359, llama-server, 21616 MiB\n"
    system = FakeSystem(
        commands={
            "nvidia-smi -q": FinishedCommand(0, text, ""),
            " ".join(nvml.QUERY_PROCESSES): FinishedCommand(0, apps, ""),
        }
    )
    (gpu,) = nvml.read(system).gpus.need()
    assert [process.pid for process in gpu.processes.need()] == [5359]


NO_DRIVER = FinishedCommand(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "")
ON_THE_BUS = {
    "/sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086\n",
    "/sys/bus/pci/devices/0000:00:1f.0/class": "0x060100\n",
    "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
    "/sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n",
}
BUS = {"/sys/bus/pci/devices": ["0000:00:1f.0", "0000:01:00.0", "0000:01:00.1"]}


@pytest.mark.parametrize(
    ("links", "told"),
    [({}, ""), ({"/sys/bus/pci/devices/0000:01:00.0/driver": "/sys/bus/pci/drivers/nouveau"}, "nouveau")],
)
def test_a_gpu_without_the_nvidia_driver_is_listed_with_the_reason(links: dict[str, str], told: str, wording):
    system = FakeSystem(files=dict(ON_THE_BUS), folders=BUS, links=links, commands={"nvidia-smi -q": NO_DRIVER})
    (gpu,) = nvml.read(system).gpus.need()
    assert gpu.vendor == reported_fact("NVIDIA", "/sys/bus/pci/devices")
    assert gpu.bus_id == reported_fact("0000:01:00.0", "/sys/bus/pci/devices")
    assert gpu.name.absence is Absence.NOT_FOUND
    wording(gpu.name.why, gpu.name.how_to_get, tells=told)
    assert gpu.driver == gpu.vram_total_bytes == gpu.name


def test_a_container_without_the_library_sees_driver_and_device(wording):
    version = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: 12.2.0\n"
    )
    system = FakeSystem(files={**ON_THE_BUS, "/proc/driver/nvidia/version": version}, folders=BUS)
    (gpu,) = nvml.read(system).gpus.need()
    assert gpu.driver == reported_fact("580.159.04", "/proc/driver/nvidia/version")
    assert (gpu.name.how_to_get, gpu.name.absence) == ("run `nvidia-smi`", Absence.FAILED)
    wording(gpu.name.why, tells="580.159.04")


def test_a_driver_without_a_visible_device_is_a_failed_look():
    system = FakeSystem(files={"/proc/driver/nvidia/version": "?"}, folders={"/sys/bus/pci/devices": []})
    gpus = nvml.read(system).gpus
    assert isinstance(gpus, Unknown)
    assert gpus.absence is Absence.FAILED


def test_without_driver_and_device_there_are_no_nvidia_gpus():
    assert nvml.read(FakeSystem()).gpus.need() == ()
    assert nvml.read(FakeSystem(asks={"nvml": query_nvml(FakeNvml(nvmlDeviceGetCount=0))})).gpus.need() == ()
    folders = {"/sys/bus/pci/devices": ["0000:00:1f.0"]}
    assert nvml.read(FakeSystem(files=dict(ON_THE_BUS), folders=folders)).gpus.need() == ()


def test_a_source_that_was_not_looked_at_is_not_absence():
    never = LookError("not in the recording", Absence.NOT_LOOKED)
    system = FakeSystem(asks={"nvml": never}, files={"/proc/driver/nvidia/version": never})
    gpus = nvml.read(system).gpus
    assert isinstance(gpus, Unknown)
    assert gpus.absence is Absence.NOT_LOOKED


def test_an_unlistable_pci_bus_is_a_failed_look():
    class Locked(FakeSystem):
        def list_dir(self, path: str) -> list[str]:
            raise LookError(f"{path}: permission denied")

    assert nvml.read(Locked()).gpus == Unknown("/sys/bus/pci/devices: permission denied", absence=Absence.FAILED)


def test_a_memory_sensor_error_in_a_field_value_is_unknown():
    fake = FakeNvml()
    fake.answers["nvmlDeviceGetFieldValues([82])"] = [SimpleNamespace(nvmlReturn=3)]
    fake.NVMLError = lambda code: NVMLError_NotSupported(f"code {code}")
    assert full_gpu(fake).memory_temperature_c == Unknown("nvml: code 3", absence=Absence.NOT_SUPPORTED)


def test_unnamed_processes_stay_unknown():
    raw = query_nvml(FakeNvml(broken=("nvmlSystemGetProcessName(4300)", "nvmlDeviceGetComputeRunningProcesses()")))
    assert isinstance(nvml.read(FakeSystem(asks={"nvml": raw})).gpus.need()[0].processes, Unknown)
    raw = query_nvml(FakeNvml(broken=("nvmlSystemGetProcessName(4300)",)))
    _, xorg = nvml.read(FakeSystem(asks={"nvml": raw})).gpus.need()[0].processes.need()
    assert isinstance(xorg.name, Unknown)
    text = RECORDED.read_text().partition("    Processes")[0]
    (gpu,) = nvml.read(FakeSystem(commands={"nvidia-smi -q": FinishedCommand(0, text, "")})).gpus.need()
    assert isinstance(gpu.processes, Unknown)


LIBRARY = r"""
#include <string.h>
typedef unsigned int u; typedef unsigned long long ull;
struct memory2 { u version; ull total, reserved, free, used; };
struct rates { u gpu, memory; };
struct process { u pid; ull used; u gi, ci; };
struct pci { char legacy[16]; u domain, bus, device, id, sub; char bus_id[32]; };
int nvmlInitWithFlags(u flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "no words"; }
int nvmlDeviceGetCount_v2(u *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u i, void **gpu) { *gpu = (void *)0x1000; return 0; }
int nvmlSystemGetDriverVersion(char *s, u n) { strncpy(s, "999.10", n); return 0; }
int nvmlSystemGetProcessName(u pid, char *s, u n) { strncpy(s, "/bin/made-up", n); return 0; }
int nvmlDeviceGetName(void *gpu, char *s, u n) { strncpy(s, "NVIDIA Made Up 100", n); return 0; }
int nvmlDeviceGetPciInfo_v3(void *gpu, struct pci *p) { strcpy(p->bus_id, "00000000:65:00.0"); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct memory2 *m)
{ m->total = 24ull << 30; m->reserved = 1ull << 28; m->used = 3ull << 30; m->free = 20ull << 30; return 0; }
int nvmlDeviceGetUtilizationRates(void *gpu, struct rates *r) { r->gpu = 97; r->memory = 60; return 0; }
int nvmlDeviceGetClockInfo(void *gpu, int kind, u *mhz) { *mhz = kind == 2 ? 9501 : 1695; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, ull *bits) { *bits = 0x1004; return 0; }
int nvmlDeviceGetPowerUsage(void *gpu, u *mw) { return 999; }
int nvmlDeviceGetMigMode(void *gpu, u *now, u *later) { return 3; }
int nvmlDeviceGetNvLinkState(void *gpu, u link, u *up) { if (link > 3) return 2; *up = link != 1; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, u *n, struct process *p)
{
    if (!p) { *n = 1; return 7; }
    *n = 1; p[0].pid = 77; p[0].used = 2ull << 30;
    return 0;
}
"""
PROGRAM = """
import msgspec
from unslow.look.probes import nvml
from unslow.look.system.live import LiveSystem
print(msgspec.json.encode(nvml.read(LiveSystem()).gpus).decode())
"""


@pytest.mark.skipif(not shutil.which("gcc") or sys.platform != "linux", reason="builds a library with gcc")
def test_the_real_pynvml_binding_works_over_a_fake_library(tmp_path: Path):
    source, library = tmp_path / "nvml.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    (gpu,) = json.loads(done.stdout)["value"]
    values = {name: fact["value"] for name, fact in gpu.items() if name != "index" and fact["is"] == "known"}
    processes = values.pop("processes")
    assert values == {
        "vendor": "NVIDIA",
        "name": "NVIDIA Made Up 100",
        "driver": "999.10",
        "bus_id": "0000:65:00.0",
        "vram_total_bytes": 24 << 30,
        "vram_used_bytes": 3 << 30,
        "vram_free_bytes": 20 << 30,
        "vram_reserved_bytes": 1 << 28,
        "busy": 0.97,
        "memory_busy": 0.6,
        "clock_hz": 1695e6,
        "memory_clock_hz": 9501e6,
        "event_reasons": ["sw_power_cap", "unknown_bit_0x1000"],
        "event_reason_bits": 0x1004,
        "nvlinks_active": 3,
    }
    assert [(p["pid"], p["name"]["value"], p["vram_bytes"]["value"]) for p in processes] == [
        (77, "/bin/made-up", 2 << 30)
    ]
    assert gpu["mig"]["absence"] == gpu["temperature_c"]["absence"] == "not_supported"
    assert gpu["power_w"]["absence"] == "failed"
