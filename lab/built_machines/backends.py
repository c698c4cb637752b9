"""Backends: GPUs that a runtime can't get at, has no code for, or passes over for a slower one."""

from lab.built_machines.amd import AmdCard, add_amd
from lab.built_machines.built import Built, Write, recording, snapshot
from lab.built_machines.linux import linux
from lab.built_machines.llama_server import CPU_FEATURES, LOG, PID, URL, Device, Server, serve
from lab.built_machines.nvidia import Card, nvml
from lab.built_machines.parts import CUDA_FEATURES, DESKTOP, RTX_3060, answers, elsewhere
from lab.built_machines.shapes import LLAMA_8B
from lab.built_machines.sources import CONTAINER, CPU_BUILD, KFD_GROUP, NO_GFX, NO_SM, WRONG_GPU
from lab.built_machines.windows import Adapter, windows
from lab.built_machines.world import World

IDLE_XTX = AmdCard(used_mib=0, busy=0, mhz=500, watts=18, celsius=38)
IDLE_3060 = RTX_3060._replace(busy=0, mhz=210, state=8, watts=15, celsius=38, reasons=1)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_not_loaded(), *_no_code(), *_wrong_one())


def _not_loaded() -> tuple[Built, ...]:
    denied = (
        "I ggml_cuda_init: found 0 ROCm devices",
        "E ggml_cuda_init: failed to initialize ROCm: no ROCm-capable device is detected",
    )
    inside = ("E ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",)
    rtx = Adapter("NVIDIA GeForce RTX 4060", "NVIDIA", 8, 600, 90)
    return (
        Built(
            "rx_7900_xtx_kfd_denied", "gpu_backend_not_loaded",
            "an RX 7900 XTX whose /dev/kfd the user may not open: the ROCm build finds no device", KFD_GROUP,
            recording(add_amd(_on_cpu(denied, "ROCm : NO_VMM = 1 | "), PID, IDLE_XTX, may_open=False)),
        ),
        Built(
            "windows_cpu_only_build", "gpu_backend_not_loaded",
            "an RTX 4060 under Windows beside a build that has no backend but the CPU's", CPU_BUILD,
            snapshot(elsewhere(windows(rtx), _cpu_server((), "")._replace(system="Windows x86_64")), url=URL, log=LOG),
        ),
        Built(
            "container_without_the_gpu", "gpu_backend_not_loaded",
            "a container that was started without --gpus on a machine with an RTX 3060", CONTAINER,
            recording(_boxed(_on_cpu(inside, CUDA_FEATURES.removesuffix(CPU_FEATURES)))),
        ),
    )  # fmt: skip


def _cpu_server(start: tuple[str, ...], features: str, tokens_per_s: float = 8.0) -> Server:
    """A llama-server that found nothing but the CPU."""
    return Server(
        LLAMA_8B,
        (),
        answers(tokens_per_s, 512, 12.0),
        start=start,
        features=features + CPU_FEATURES,
        args=("-ngl", "99"),
    )


def _on_cpu(start: tuple[str, ...], features: str) -> World:
    return serve(linux(memory=DESKTOP), _cpu_server(start, features))


def _boxed(world: World) -> World:
    """The world with the server in a container, and a GPU that only the host sees."""
    world.files[f"/proc/{PID}/cgroup"] = "0::/system.slice/docker-3f1c0de.scope\n"
    world.files["/sys/fs/cgroup/system.slice/docker-3f1c0de.scope/cpu.max"] = "max 100000\n"
    return world.add(asks={"nvml": nvml(PID, "llama-server", IDLE_3060)})


def _no_code() -> tuple[Built, ...]:
    old = Card(
        "Tesla M40 24GB", (5, 2), 24576, 384, 1114, 3004, 250, 250, busy=0, mhz=135, state=8, watts=12,
        celsius=35, generation_max=3, generation=1,
    )  # fmt: skip
    newer = "CUDA : ARCHS = 750,800,860,890,900 | USE_GRAPHS = 1 | "
    navi = AmdCard(
        "AMD Radeon RX 6600", "73ff", "c7", 100302, 8176, 0, busy=0, mhz=500, max_mhz=2491, watts=6, limit_w=100
    )
    no_binary = "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"
    refused = (f"E ggml_cuda_init: failed to initialize ROCm: {no_binary}",)
    sm = Server(
        LLAMA_8B, (), answers(8.0, 512, 12.0), features=newer + CPU_FEATURES, start=(
            "E ggml_cuda_init: failed to initialize CUDA: no kernel image is available for execution on the device",
        ),
    )  # fmt: skip
    return (
        Built(
            "rx_6600_gfx1032_unsupported", "gpu_architecture_unsupported",
            "an RX 6600 (gfx1032) beside libraries without code for it", NO_GFX,
            recording(add_amd(_on_cpu(refused, ""), PID, navi)), also=("gpu_backend_not_loaded",),
        ),
        Built(
            "tesla_m40_sm_52_unsupported", "gpu_architecture_unsupported",
            "a Tesla M40 (compute capability 5.2) beside a build for 7.5 and later", NO_SM,
            recording(serve(linux(memory=DESKTOP), sm).add(asks={"nvml": nvml(PID, "llama-server", old)})),
            also=("gpu_backend_not_loaded",),
        ),
    )  # fmt: skip


def _wrong_one() -> tuple[Built, ...]:
    chip = Adapter("Intel(R) UHD Graphics 770", "Intel", 0.125, 120, 5600, (0, 5400))
    card = Adapter("NVIDIA GeForce RTX 4060", "NVIDIA", 8, 650, 90)
    used = card._replace(dedicated_mib=6900, process_mib=(6300, 60))
    return (
        Built(
            "windows_igpu_while_rtx_4060_idles", "wrong_device_selected",
            "the Vulkan backend computes on the processor's own GPU while an RTX 4060 idles", WRONG_GPU,
            _vulkan(5.2, "Vulkan1", chip._replace(process_mib=(100, 5400)), card),
        ),
        Built(
            "windows_rtx_4060_beside_igpu", "", "the same machine with the card in use", WRONG_GPU,
            _vulkan(40.0, "Vulkan0", chip._replace(shared_mib=300), used), "normal",
        ),
    )  # fmt: skip


def _vulkan(tokens_per_s: float, used: str, *adapters: Adapter) -> Write:
    names = {"Vulkan0": ("NVIDIA GeForce RTX 4060", 8188, 7500), "Vulkan1": ("Intel(R) UHD Graphics 770", 16000, 15500)}
    devices = tuple(
        Device(name, what, total, free, 32 if name == used else 0, output=name == used)
        for name, (what, total, free) in names.items()
    )
    start = (
        "I ggml_vulkan: Found 2 Vulkan devices:",
        "I ggml_vulkan: 0 = NVIDIA GeForce RTX 4060 (NVIDIA) | uma: 0 | fp16: 1 | warp size: 32",
        "I ggml_vulkan: 1 = Intel(R) UHD Graphics 770 (Intel Corporation) | uma: 1 | fp16: 1 | warp size: 32",
    )
    server = Server(
        LLAMA_8B, devices, answers(tokens_per_s, 512, 10 / tokens_per_s), start=start, context=4096,
        system="Windows x86_64", features=f"Vulkan : {CPU_FEATURES}", cpus=16,
    )  # fmt: skip
    return snapshot(elsewhere(windows(*adapters), server), url=URL, log=LOG)
