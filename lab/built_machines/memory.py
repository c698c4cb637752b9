"""Memory: what a driver or a system moved away, what an estimate left out, and what never fits."""

from lab.built_machines.amd import AmdCard, add_amd
from lab.built_machines.apple import Mac
from lab.built_machines.built import Built, Write, recording, snapshot
from lab.built_machines.linux import linux
from lab.built_machines.llama_server import LOG, PID, URL, Device, Server, serve
from lab.built_machines.parts import (
    CUDA_FEATURES,
    DESKTOP,
    RTX_3060,
    RTX_4060,
    answers,
    cuda_start,
    elsewhere,
    on_card,
    on_mac,
    one_card,
)
from lab.built_machines.shapes import LLAMA_8B, LLAMA_70B, QWEN_14B, QWEN_32B, Shape
from lab.built_machines.sources import GTT, LONG_CONTEXT, SYSMEM, TOO_LARGE, WIRED
from lab.built_machines.windows import Adapter, windows

from unslow.facts.run import AtDepth, Run
from unslow.facts.values import measured_fact

METAL_WARNING = (
    "ggml_metal_log_allocated_size: warning: current allocated size is greater than the recommended max "
    "working set size"
)
TRIED = "in turns"
RX_7900_XTX = AmdCard()
ROCM_START = (
    "I ggml_cuda_init: found 1 ROCm devices (Total VRAM: 24560 MiB):",
    "I   Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32, VRAM: 24560 MiB",
)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_apple(), *_windows(), *_amd(), *_too_large())


def _apple() -> tuple[Built, ...]:
    full = Mac(
        "Apple M1 Pro", "MacBookPro18,3", 16, 8, 2, 16, pressure=4, swap_used_mib=6200, free_gib=0.1, wired_gib=11.4,
        compressed_gib=3.9, in_use_gib=10.4,
    )  # fmt: skip
    roomy = full._replace(memory_gib=32, pressure=1, swap_used_mib=0, free_gib=9, compressed_gib=0.4)
    raised = full._replace(memory_gib=32, wired_limit_mib=28672, pressure=1, swap_used_mib=0, free_gib=6, wired_gib=22)
    return (
        Built(
            "m1_pro_16_gb_under_pressure", "unified_memory_pressure",
            "a 14B model on a MacBook Pro of 16 GiB: pressure critical, 6 GiB swapped, 4 GiB compressed", WIRED,
            on_mac(full, 3.1, QWEN_14B, warnings=(METAL_WARNING,)), also=("swapping",),
        ),
        Built(
            "m1_pro_32_gb_plenty_free", "", "the same model on the same chip with 32 GiB", WIRED,
            on_mac(roomy, 15.5, QWEN_14B), "normal",
        ),
        Built(
            "m1_pro_32_gb_raised_limit", "",
            "a 32B model on 32 GiB with the wired limit raised to 28 GiB, without pressure", WIRED,
            on_mac(raised, 7.6, QWEN_32B), "normal",
        ),
    )  # fmt: skip


def _windows() -> tuple[Built, ...]:
    spilled = Adapter("NVIDIA GeForce RTX 4060", "NVIDIA", 8, 7780, 3650, (7420, 3520))
    full = spilled._replace(dedicated_mib=7400, shared_mib=180, process_mib=(7000, 120))
    chip = Adapter("AMD Radeon(TM) Graphics", "AMD", 0.5, 300, 90)
    filled = spilled._replace(dedicated_mib=8100, shared_mib=900, process_mib=(7700, 820))
    whole = _on_windows(QWEN_14B, 48, 4.1, 3.1, spilled, chip)
    return (
        Built(
            "windows_rtx_4060_shared_memory", "driver_spills_to_shared_memory",
            "a 14B model with all layers on an RTX 4060 of 8 GB under Windows: 3.6 GiB of them in shared GPU memory",
            SYSMEM, whole,
        ),
        Built(
            "windows_rtx_4060_partial_offload", "weights_spill_to_ram",
            "the same model with 32 of 48 layers on the GPU by the runtime's own fit, nothing shared", SYSMEM,
            _on_windows(QWEN_14B, 32, 9.0, 0.7, full, chip),
        ),
        Built(
            "windows_rtx_4060_cache_outgrows_memory", "kv_cache_outgrows_vram",
            "an 8B model on the same card: 42 tokens per second at first, 4 at 16,384 tokens, and its memory full",
            SYSMEM, _on_windows(LLAMA_8B, 32, 42.0, 0.21, filled, chip, context=20480, run=_falling()),
        ),
        Built(
            "windows_rtx_4060_healthy", "", "an 8B model on the same card, nothing shared", SYSMEM,
            _on_windows(LLAMA_8B, 32, 43.0, 0.21, full, chip), "normal",
        ),
    )  # fmt: skip


def _falling() -> Run:
    depths = (AtDepth(depth_tokens=128, tokens_per_s=42.0), AtDepth(depth_tokens=16384, tokens_per_s=4.0))
    return Run(
        depths=measured_fact(depths, TRIED),
        decode_tokens_per_s=measured_fact(4.0, TRIED),
        depth_tokens=measured_fact(16384, TRIED),
    )


def _on_windows(
    shape: Shape,
    layers: int,
    tokens_per_s: float,
    prompt_s: float,
    *adapters: Adapter,
    context: int = 4096,
    run: Run = Run(),  # noqa: B008 (frozen)
) -> Write:
    device = Device("CUDA0", adapters[0].name, 8188, 7070, layers, output=True)
    server = Server(
        shape, (device,), answers(tokens_per_s, 512, prompt_s), start=cuda_start(RTX_4060), features=CUDA_FEATURES,
        context=context, system="Windows x86_64", cpus=16,
    )  # fmt: skip
    return snapshot(elsewhere(windows(*adapters), server), run, url=URL, log=LOG)


def _amd() -> tuple[Built, ...]:
    spilled = RX_7900_XTX._replace(used_mib=24100, gtt_used_mib=6900, busy=38, watts=110)
    full = RX_7900_XTX._replace(used_mib=20600)
    return (
        Built(
            "rx_7900_xtx_gtt_spill", "driver_spills_to_shared_memory",
            "a 32B model with 32,768 tokens of context, all layers on an RX 7900 XTX: 6.7 GiB of it in GTT", GTT,
            _on_amd(spilled, 5.5, 32768),
        ),
        Built(
            "rx_7900_xtx_healthy", "", "the same model with 4096 tokens of context: next to nothing in GTT", GTT,
            _on_amd(full, 30.0, 4096), "normal",
        ),
    )  # fmt: skip


def _on_amd(card: AmdCard, tokens_per_s: float, context: int) -> Write:
    device = Device("ROCm0", card.name, card.vram_mib, card.vram_mib - 300, 64, output=True)
    server = Server(QWEN_32B, (device,), answers(tokens_per_s, 512, 1.1), start=ROCM_START, context=context, busy=True)
    return recording(add_amd(serve(linux(memory=DESKTOP), server), PID, card))


def _too_large() -> tuple[Built, ...]:
    small = RTX_4060._replace(busy=6, watts=40)
    huge = on_card(RTX_4060, LLAMA_70B, 13, answered=answers(0.95, 512, 3.4), context=4096, busy=True)
    hardly = on_card(RTX_3060, QWEN_14B, 43, args=("-c", "16384"), answered=answers(16.5, 512, 0.5), context=16384)
    return (
        Built(
            "rtx_4060_llama_70b", "model_outside_envelope",
            "a 70B model on an RTX 4060 of 8 GB: no useful quant of it fits", TOO_LARGE,
            recording(one_card(small, huge)), also=("weights_spill_to_ram", "prefill_pcie_bound"),
        ),
        Built(
            "rtx_3060_fits_after_one_change", "context_larger_than_needed",
            "a 14B model with 16,384 tokens of context on an RTX 3060: 43 of 48 layers, and all with a shorter one",
            LONG_CONTEXT, recording(one_card(RTX_3060._replace(busy=40), hardly)), also=("weights_spill_to_ram",),
        ),
    )  # fmt: skip
