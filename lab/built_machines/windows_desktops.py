"""Windows machines on which Ollama or LM Studio runs as an app: small cards, batteries, drivers, disks."""

import json
from typing import Any

from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.llama_server import Device, Server
from lab.built_machines.nvidia import POWER_CAP, Card, nvml
from lab.built_machines.ollama import URL, Load
from lab.built_machines.ollama_app import DIGEST, PROGRAMS, WINDOWS_HOME, App, with_app
from lab.built_machines.parts import CUDA_FEATURES, RTX_4060, RTX_4090, answers, cuda_start, held_mib
from lab.built_machines.shapes import LLAMA_8B, QWEN_14B, Shape
from lab.built_machines.sources import BATTERY, DISK, OLD_DRIVER, OVERRIDE, PARTIAL, RELOADS, SLOTS, SYSMEM
from lab.built_machines.windows import Adapter, windows
from lab.built_machines.world import World

from unslow.facts.run import Run
from unslow.facts.values import measured_fact

PID = 9120
NO_GPU = (
    'id=cpu library=cpu compute="" name=cpu description=cpu libdirs=ollama driver="" pci_id="" type="" '
    'total="31.9 GiB" available="18.2 GiB"'
)
ONCE = (Load(4096, 3.1, 6.0),)
OLLAMA = PROGRAMS["windows"]
LM_URL = "http://127.0.0.1:1234"
RTX_3060_LAPTOP = Card(
    "NVIDIA GeForce RTX 3060 Laptop GPU", (8, 6), 6144, 192, 2100, 7001, 80, 80, mhz=1700, watts=45, celsius=63,
    busy=34,
)  # fmt: skip
RTX_4070_LAPTOP = Card(
    "NVIDIA GeForce RTX 4070 Laptop GPU", (8, 9), 8188, 128, 3105, 8001, 115, 115, mhz=2300, watts=48, celsius=61,
    busy=41, width=8, width_max=8,
)  # fmt: skip
RTX_4060_LAPTOP = RTX_4070_LAPTOP._replace(
    name="NVIDIA GeForce RTX 4060 Laptop GPU", limit_w=35, watts=34, mhz=700, busy=98, reasons=POWER_CAP
)
GTX_1070_TI = Card(
    "NVIDIA GeForce GTX 1070 Ti", (6, 1), 8192, 256, 1911, 4004, 180, 180, mhz=139, watts=9, celsius=38, busy=1,
    state=8, reasons=1, generation=1, generation_max=3,
)  # fmt: skip
RTX_3080 = Card("NVIDIA GeForce RTX 3080", (8, 6), 10240, 320, 2100, 9501, 320, 320, mhz=1800, watts=250, celsius=62)
RTX_4080 = Card("NVIDIA GeForce RTX 4080", (8, 9), 16376, 256, 3105, 11201, 320, 320, mhz=2700, watts=240, celsius=58)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_placed(), *_cards(), *_others(), *_amd(), *_over_a_day())


def _placed() -> tuple[Built, ...]:
    slots = (("OLLAMA_NUM_PARALLEL", "4"), ("OLLAMA_CONTEXT_LENGTH", "8192"))
    return (
        Built(
            "windows_rtx_3060_laptop_qwen_14b", "model_outside_envelope",
            "a 14B model of Ollama's on a laptop with 6 GB of GPU memory: 29 of 49 layers fit", PARTIAL,
            _on_app(RTX_3060_LAPTOP, QWEN_14B, 28, 6.1, App("windows", "qwen2.5:14b", "qwen2", "14.8B"), prompt_s=0.9),
            also=("weights_spill_to_ram",),
        ),
        Built(
            "windows_four_parallel_requests", "parallel_slots_inflate_kv",
            "OLLAMA_NUM_PARALLEL=4 with 8192 tokens each on 8 GB: a cache of 4 GiB drives a third of an 8B model out",
            SLOTS, _on_app(
                RTX_4070_LAPTOP, LLAMA_8B, 20, 12.0, App("windows", variables=slots), (Load(32768, 4.0, 7.0),), slots=4,
            ), also=("weights_spill_to_ram", "context_larger_than_needed"),
        ),
        Built(
            "windows_rtx_4090_desktop_shares_a_little", "",
            "an 8B model on an RTX 4090 whose desktop holds 0.7 GiB of shared memory", SYSMEM,
            _on_app(RTX_4090, LLAMA_8B, 32, 128.0, App("windows"), shared_mib=700, prompt_s=0.07), "normal",
        ),
    )  # fmt: skip


def _cards() -> tuple[Built, ...]:
    old = App(
        "windows", compute=NO_GPU, share=0.0,
        remarks=(
            'WARN cuda.go:88 msg="NVIDIA driver too old" driver=537 required_driver="570 or newer"',
        ),
    )  # fmt: skip
    return (
        Built(
            "windows_laptop_on_battery", "gpu_power_capped",
            "an RTX 4060 Laptop on battery: held to 35 of 115 W, 700 of 3105 MHz while an 8B model generates", BATTERY,
            _on_app(RTX_4060_LAPTOP, LLAMA_8B, 32, 13.0, App("windows")),
        ),
        Built(
            "windows_driver_too_old", "gpu_backend_not_loaded",
            "a GTX 1070 Ti with the driver 537 beside Ollama 0.33, which wants 570 or newer", OLD_DRIVER,
            _on_app(GTX_1070_TI, LLAMA_8B, 0, 7.0, old, prompt_s=9.0),
        ),
    )  # fmt: skip


def _others() -> tuple[Built, ...]:
    on_d = App("windows", blob=f"D:\\ollama\\blobs\\{DIGEST}")
    spilled = Adapter("NVIDIA GeForce RTX 4060", "NVIDIA", 8, 7780, 3650, (7420, 3520), "node")
    return (
        Built(
            "windows_model_on_a_slow_disk", "slow_model_load",
            "an 8B model on a hard disk: 96 s to load, and then as fast as an RTX 4080 should be", DISK,
            _on_app(RTX_4080, LLAMA_8B, 32, 101.0, on_d, (Load(4096, 96.4, 99.0),), prompt_s=0.09),
        ),
        Built(
            "windows_lm_studio_shared_memory", "driver_spills_to_shared_memory",
            "LM Studio with all layers of a 14B model on an RTX 4060 of 8 GB: 3.6 GiB of them in shared GPU memory",
            SYSMEM, snapshot(
                _lm_studio(windows(spilled, pid=PID), QWEN_14B, RTX_4060),
                Run(decode_tokens_per_s=measured_fact(4.1, "three completions")), url=LM_URL,
            ),
        ),
    )  # fmt: skip


def _amd() -> tuple[Built, ...]:
    refused = (
        'WARN runner.go:512 msg="dropping ROCm device — no rocblas support for gfx target" compute=gfx1031 '
        'hint="set HSA_OVERRIDE_GFX_VERSION"'
    )
    app = App("windows", compute=NO_GPU, share=0.0, variables=(("OLLAMA_VULKAN", "0"),), remarks=(refused,))
    server = Server(LLAMA_8B, (), answers(6.9, 512, 9.0), system="Windows x86_64", cpus=16, context=4096)
    world = with_app(windows(Adapter("AMD Radeon RX 6700 XT", "AMD", 12, 700, 120)), app, server, ONCE)
    speed = Run(decode_tokens_per_s=measured_fact(6.9, "three completions"))
    return (
        Built(
            "windows_rx_6700_xt_without_rocblas", "gpu_architecture_unsupported",
            "an RX 6700 XT (gfx1031) under Windows, where ROCm takes no override, with Vulkan switched off", OVERRIDE,
            snapshot(world, speed, url=URL), also=("gpu_backend_not_loaded",),
        ),
    )  # fmt: skip


def _over_a_day() -> tuple[Built, ...]:
    hours = ("07", "09", "15", "20")
    loads = tuple(Load(4096, 2.4, 4.0, hour=hour, other=n % 2 == 0) for n, hour in enumerate(hours))
    return (
        Built(
            "windows_rtx_3080_loads_over_a_day", "",
            "two models that are asked in turn, with hours between: each load is the first of its task", RELOADS,
            _on_app(RTX_3080, LLAMA_8B, 32, 94.0, App("windows"), loads, prompt_s=0.13), "normal",
        ),
    )  # fmt: skip


def _compute(card: Card) -> str:
    free = card.total_mib - 900
    return (
        f'id=0 library=CUDA compute={card.capability[0]}.{card.capability[1]} name=CUDA0 description="{card.name}" '
        "libdirs=ollama,cuda_v13 driver=13.0 pci_id=0000:01:00.0 type=discrete "
        f'total="{card.total_mib / 1024:.1f} GiB" available="{free / 1024:.1f} GiB"'
    )


def _on_app(  # noqa: PLR0913 (each is a figure of its own)
    card: Card,
    shape: Shape,
    layers: int,
    tokens_per_s: float,
    app: App,
    loads: tuple[Load, ...] = ONCE,
    *,
    slots: int = 1,
    shared_mib: int = 180,
    prompt_s: float = 0.35,
) -> Write:
    device = Device("CUDA0", card.name, card.total_mib, card.total_mib - 900, layers, output=True)
    devices = (device,) if layers else ()
    server = Server(
        shape, devices, answers(tokens_per_s, 512, prompt_s), start=cuda_start(card) if layers else (), slots=slots,
        features=CUDA_FEATURES, system="Windows x86_64", cpus=16, context=loads[-1].context,
    )  # fmt: skip
    used = held_mib(server) if layers else 0
    held = (used, min(60, shared_mib)) if used else (0, 0)
    adapter = Adapter(card.name, "NVIDIA", card.total_mib / 1024, used + 500, shared_mib, held)
    whole = app if app.compute else app._replace(compute=_compute(card))
    world = with_app(windows(adapter, pid=PID), whole, server, loads)
    world.add(asks={"nvml": _unlisted(card._replace(used_mib=used + 500))})
    return snapshot(world, Run(decode_tokens_per_s=measured_fact(tokens_per_s, "three completions")), url=URL)


def _unlisted(card: Card, program: str = OLLAMA) -> dict[str, Any]:
    """What NVML answers under Windows: it lists processes, and of none how much it holds."""
    answer = nvml(PID, program, card)
    for gpu in answer["gpus"]:
        gpu["compute_processes"] = [{"pid": PID, "used_bytes": None}]
    return answer


def _lm_studio(world: World, shape: Shape, card: Card) -> World:
    key, folder = "qwen2.5-14b-instruct", f"{WINDOWS_HOME}/.lmstudio/models"
    path = "bartowski/Qwen2.5-14B-Instruct-GGUF/Qwen2.5-14B-Instruct-Q4_K_M.gguf"
    size = shape.gguf("")["file_bytes"]
    config = {
        "context_length": 4096, "eval_batch_size": 512, "parallel": 4, "flash_attention": True,
        "offload_kv_cache_to_gpu": True,
    }  # fmt: skip
    listed = {
        "type": "llm", "key": key, "architecture": "qwen2", "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
        "size_bytes": size, "params_string": "14B", "max_context_length": shape.context, "format": "gguf",
        "loaded_instances": [{"id": key, "config": config}],
    }  # fmt: skip
    loaded = {
        "type": "llm", "modelKey": key, "identifier": key, "path": path, "sizeBytes": size, "contextLength": 4096,
        "status": "idle", "queued": 0, "parallel": 4, "ttlMs": None,
    }  # fmt: skip
    engines = "LLM ENGINE\nllama.cpp-win-x86_64-nvidia-cuda12-avx2@2.3.0   ✓   GGUF\n"
    return world.add(
        http={
            f"GET {LM_URL}/lmstudio-greeting": json.dumps({"lmstudio": True}),
            f"GET {LM_URL}/api/v1/models": json.dumps({"models": [listed]}),
        },
        commands={"lms ps --json --port 1234": json.dumps([loaded]), "lms runtime ls --port 1234": engines},
        asks={
            f"gguf {folder}/{path}": shape.gguf(f"{folder}/{path}"),
            "surroundings of model stores": {"home": WINDOWS_HOME, "variables": {}},
            "nvml": _unlisted(card._replace(used_mib=7600), f"{WINDOWS_HOME}\\.lmstudio\\.internal\\utils\\node.exe"),
        },
    ).add({f"{folder}/{path}": "GGUF"})
