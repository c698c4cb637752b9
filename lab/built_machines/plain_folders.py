"""Machines of people who wrote down a log, nvidia-smi's tables and some timings: cards of all sizes, older builds."""

from lab.built_machines.built import Built
from lab.built_machines.llama_server import Answered, Device, Server
from lab.built_machines.nvidia import Card
from lab.built_machines.parts import CUDA_FEATURES, RTX_3060, RTX_3090, RTX_4060_TI, answers
from lab.built_machines.plain import Plain, plain
from lab.built_machines.shapes import LLAMA_8B, LLAMA_70B, QWEN_14B, QWEN_32B, Shape
from lab.built_machines.sources import FIT_LINES, RISER, ROWS, SERVER_FLAGS, SYSMEM

RTX_4070_LAPTOP = Card(
    "NVIDIA GeForce RTX 4070 Laptop GPU",
    (8, 9),
    8188,
    128,
    3105,
    8001,
    80,
    80,
    mhz=2100,
    watts=38,
    width=8,
    width_max=8,
)
RTX_3080 = Card("NVIDIA GeForce RTX 3080", (8, 6), 10240, 320, 2100, 9501, 320, 320, mhz=1905, watts=270)
RTX_3070 = Card("NVIDIA GeForce RTX 3070", (8, 6), 8192, 256, 2100, 7001, 220, 220, mhz=1900, watts=45)
ALLOCATING = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating"
COMFYUI, BLENDER = (3321, "/opt/comfyui/bin/python3", 7264), (4410, "/opt/blender/blender", 12400)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_strangers(), *_lent(), *_links(), *_old_builds())


def _fit(asked: int, free: int, cut: int, *placed: str) -> tuple[str, ...]:
    """The fit cuts the context to 4096 tokens before it leaves layers out."""
    head = "common_params_fit_impl:"
    return (
        "common_init_from_params: fitting params to device memory, for bugs during this step try with -fit off",
        f"{head} projected to use {asked} MiB of device memory vs. {free} MiB of free device memory",
        f"{head} cannot fulfill margin of 1024 MiB, need to reduce device memory by {asked + 1024 - free} MiB",
        f"{head} context size reduced from 32768 to 4096 -> need {cut} MiB less memory in total",
        f"{head} filling dense layers back-to-front:",
        *(f"{head}   - {line}" for line in placed),
    )


def _server(shape: Shape, devices: tuple[Device, ...], answered: tuple[Answered, ...], *args: str) -> Server:
    return Server(shape, devices, answered, args, context=4096, cpus=16, features=CUDA_FEATURES)


def _strangers() -> tuple[Built, ...]:
    card = RTX_3060._replace(busy=14, watts=52, used_mib=3700, others=(COMFYUI,))
    one = (Device("CUDA0", card.name, card.total_mib, 4584, 15, output=True),)
    fit = _fit(14650, 4584, 5376, "CUDA0 (NVIDIA GeForce RTX 3060): 16 layers,   3490 MiB used,   1094 MiB free")
    free = RTX_4060_TI._replace(busy=18, watts=55, used_mib=14800)
    taken = RTX_4060_TI._replace(busy=6, watts=40, used_mib=2100, others=(BLENDER,))
    two = (
        Device("CUDA0", free.name, free.total_mib, 15800, 45),
        Device("CUDA1", taken.name, taken.total_mib, 3400, 6, output=True),
    )
    of_two = _fit(
        27360, 19200, 7168, "CUDA0 (NVIDIA GeForce RTX 4060 Ti): 45 layers,  14700 MiB used,   1100 MiB free",
        "CUDA1 (NVIDIA GeForce RTX 4060 Ti):  7 layers,   2300 MiB used,   1100 MiB free",
    )  # fmt: skip
    return (
        Built(
            "rtx_3060_beside_comfyui", "other_process_holds_vram",
            "a 14B model on an RTX 3060 of which ComfyUI holds 7 GiB: the fit cuts the context, then leaves layers out",
            FIT_LINES, plain(Plain(_server(QWEN_14B, one, answers(4.9, 40, 0.9)), (card,), 2025, fit)),
            also=("weights_spill_to_ram",),
        ),
        Built(
            "two_rtx_4060_ti_one_beside_blender", "other_process_holds_vram",
            "a 32B model on two RTX 4060 Ti, of one of which Blender holds 12 GiB; no table names the GPU of a row",
            FIT_LINES, plain(Plain(_server(QWEN_32B, two, answers(5.6, 120, 0.9)), (free, taken), 2025, of_two)),
            also=("weights_spill_to_ram",),
        ),
    )  # fmt: skip


def _lent() -> tuple[Built, ...]:
    card = RTX_4070_LAPTOP._replace(busy=98, used_mib=7700)
    device = (Device("CUDA0", card.name, card.total_mib, 7066, 48, output=True),)
    server = _server(QWEN_14B, device, answers(3.0, 40, 2.5), "-ngl", "99", "-c", "8192")._replace(context=8192)
    told = Plain(
        server, (card,), 2025, cpu="13th Gen Intel(R) Core(TM) i7-13700H", hypervisor="Microsoft", lists_processes=False
    )
    return (
        Built(
            "wsl2_rtx_4070_laptop_all_layers", "driver_spills_to_shared_memory",
            "a 14B model with -ngl 99 under WSL2 on a laptop's RTX 4070 of 8 GB: all layers count, no counter tells",
            SYSMEM, plain(told),
        ),
    )  # fmt: skip


def _links() -> tuple[Built, ...]:
    narrow = RTX_3090._replace(busy=40, watts=160, used_mib=11200, generation=3, width=4)
    rows = tuple(Device(f"CUDA{n}", narrow.name, narrow.total_mib, 23870, 20, output=n == 3) for n in range(4))
    outside = RTX_3080._replace(busy=93, used_mib=6300, generation=3, width=4)
    alone = (Device("CUDA0", outside.name, outside.total_mib, 9702, 32, output=True),)
    row_server = _server(LLAMA_70B, rows, answers(6.1, 60, 1.1), "-ngl", "99", "-sm", "row")
    return (
        Built(
            "four_rtx_3090_rows_over_four_lanes", "multi_gpu_link_bound",
            "a 70B model split by rows over four RTX 3090 on four lanes each; nobody says whether there is NVLink",
            ROWS, plain(Plain(row_server, (narrow,) * 4, 2025)),
        ),
        Built(
            "rtx_3080_outside_on_four_lanes", "",
            "an 8B model on an RTX 3080 in a box on four lanes of PCIe 3: next to nothing crosses them", RISER,
            plain(Plain(_server(LLAMA_8B, alone, answers(104.0, 600, 0.26)), (outside,), 2025)), "normal",
        ),
    )  # fmt: skip


def _old_builds() -> tuple[Built, ...]:
    card = RTX_3060._replace(busy=60, watts=110, used_mib=5300)
    device = (Device("CUDA0", card.name, card.total_mib, 11700, 32),)
    last = _server(LLAMA_8B, device, answers(33.0, 60, 0.16), "-ngl", "32", "-c", "4096")
    full = RTX_3070._replace(busy=0, used_mib=6900)
    room = (Device("CUDA0", full.name, full.total_mib, 7460, 32, output=True),)
    failing = _server(LLAMA_8B, room, (), "-ngl", "99", "-c", "16384", "-fa", "off", "-ub", "2048")
    failing = failing._replace(context=16384, flash_attention=False, ubatch=2048)
    error = (
        f"{ALLOCATING} 2180.00 MiB on device 0: cudaMalloc failed: out of memory",
        "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 2285895680",
        "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
        "main: exiting due to model loading error",
    )
    return (
        Built(
            "rtx_3060_last_layer_left_out", "output_layer_on_cpu",
            "-ngl 32 of 33 layers with a build of 2024, which places the output last", SERVER_FLAGS,
            plain(Plain(last, (card,), 2024)),
        ),
        Built(
            "rtx_3070_compute_buffer_too_large", "memory_allocation_failed",
            "-fa off and -ub 2048 with 16,384 tokens: the compute buffer of 2 GiB finds no room", SERVER_FLAGS,
            plain(Plain(failing, (full,), 2025, error=error)), "failed",
        ),
    )  # fmt: skip
