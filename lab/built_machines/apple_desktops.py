"""Macs on which Ollama runs as an app: small and large memories, reloads, thinking, and what only looks bad."""

from lab.built_machines.apple import Mac, mac
from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.llama_server import Device, Server
from lab.built_machines.ollama import URL, Load
from lab.built_machines.ollama_app import BLOBS, App, with_app
from lab.built_machines.parts import answers, gpu_mib, metal_start
from lab.built_machines.shapes import (
    LLAMA_1B,
    LLAMA_3B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_14B,
    QWEN_32B,
    QWEN_CODER_480B,
    Shape,
)
from lab.built_machines.sources import DEFAULT_CONTEXT, MAC_SMALL, MAC_TAKEN, RELOADS, THINKING, WIRED

from unslow.facts.run import Run
from unslow.facts.values import measured_fact, reported_fact

M1_AIR = Mac(
    "Apple M1", "MacBookAir10,1", 8, 4, 4, 8, pressure=4, swap_used_mib=3400, free_gib=0.05, wired_gib=5.4,
    compressed_gib=1.9, in_use_gib=4.9,
)  # fmt: skip
M2_AIR = Mac("Apple M2", "Mac14,2", 8, 4, 4, 8, swap_used_mib=2048, free_gib=1.4, wired_gib=2.6, in_use_gib=1.3)
M4_MINI = Mac("Apple M4", "Mac16,10", 10, 4, 6, 16, free_gib=2.4, wired_gib=7.2, in_use_gib=5.6)
M4_MAX = Mac("Apple M4 Max", "Mac16,5", 40, 12, 4, 64, free_gib=18, wired_gib=24, in_use_gib=22)
M1_PRO = Mac(
    "Apple M1 Pro", "MacBookPro18,3", 16, 8, 2, 16, pressure=4, swap_used_mib=6200, free_gib=0.1, wired_gib=11.4,
    compressed_gib=3.9, in_use_gib=10.4,
)  # fmt: skip
M3_ULTRA = Mac("Apple M3 Ultra", "Mac15,14", 80, 24, 8, 512, free_gib=96, wired_gib=385, in_use_gib=383)
M1_ULTRA = Mac("Apple M1 Ultra", "Mac13,2", 64, 16, 4, 64, free_gib=9, wired_gib=47, in_use_gib=46)
ONCE = (Load(4096, 4.2, 9.0),)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_small(), *_large(), *_served())


def _small() -> tuple[Built, ...]:
    metal = (
        'server.go:470 msg="system memory" total="16.0 GiB" free="3.0 GiB" free_swap="0 B"',
        (
            "server.go:522 msg=offload library=Metal layers.requested=-1 layers.model=29 layers.offload=10 "
            'layers.split=[10] memory.available="[2.7 GiB]" memory.gpu_overhead="0 B" memory.required.full="5.1 GiB" '
            'memory.required.partial="2.6 GiB" memory.required.kv="1.8 GiB" memory.required.allocations="[2.6 GiB]" '
            'memory.weights.total="1.9 GiB" memory.weights.repeating="1.6 GiB"'
        ),
        (
            'server.go:386 msg="starting runner" cmd="/Applications/Ollama.app/Contents/Resources/ollama runner '
            f"--model {BLOBS['mac']} --ctx-size 16384 --batch-size 512 --n-gpu-layers 10 "
            '--threads 4 --parallel 1 --port 51339"'
        ),
        'server.go:1289 msg="llama runner started in 2.31 seconds"',
    )
    small = App("mac", "llama3.2:1b", size="1.2B", compute=_compute(M2_AIR))
    taken = M4_MINI._replace(
        pressure=2, swap_used_mib=1900, free_gib=0.4, wired_gib=4.1, compressed_gib=3.2, in_use_gib=2.5
    )
    return (
        Built(
            "m1_8_gb_llama_8b", "unified_memory_pressure",
            "an 8B model of Ollama's on a MacBook Air of 8 GiB: pressure critical, 3.4 GB swapped", MAC_SMALL,
            _on_app(M1_AIR, LLAMA_8B, 32, 1.6), also=("swapping",),
        ),
        Built(
            "m4_16_gb_taken_by_others", "other_process_holds_vram",
            "Ollama 0.12.9 on a Mac of 16 GiB with 3 of them free: 10 of 29 layers of a 3B model on the GPU", MAC_TAKEN,
            _on_app(
                taken, LLAMA_3B, 10, 9.0, App(
                    "mac", "llama3.2:3b", size="3.2B", version="0.12.9", own_engine=metal, share=0.48,
                    compute=_compute(taken),
                ), (Load(16384, 2.3, 8.0),),
            ),
        ),
        Built(
            "m2_8_gb_swap_of_earlier", "",
            "a 1B model on a MacBook Air of 8 GiB with 2 GB of swap from earlier work and no pressure", MAC_SMALL,
            _on_app(M2_AIR, LLAMA_1B, 16, 72.0, small, prompt_s=0.34),
            "normal",
        ),
    )  # fmt: skip


def _large() -> tuple[Built, ...]:
    coder = App(
        "mac", "qwen3-coder:480b-a35b-q6_K", "qwen3moe", "480.2B", "Q6_K", compute=_compute(M3_ULTRA),
    )  # fmt: skip
    llama = App("mac", "llama3.3:70b", size="70.6B", compute=_compute(M1_ULTRA))
    return (
        Built(
            "m3_ultra_512_gb_default_limit", "unified_memory_pressure",
            "a 480B model of 366 GiB at 131,072 tokens on an M3 Ultra of 512 GiB with macOS's own limit of 384",
            WIRED, _on_app(M3_ULTRA, QWEN_CODER_480B, 58, 8.8, coder, (Load(131072, 71.0, 95.0),)),
            also=("weights_spill_to_ram",),
        ),
        Built(
            "m1_ultra_64_gb_default_context", "unified_memory_pressure",
            "a 70B model with Ollama's default context for 48 GiB, cut to the model's 131,072 tokens: half of it fits",
            DEFAULT_CONTEXT, _on_app(M1_ULTRA, LLAMA_70B, 39, 3.0, llama, (Load(131072, 16.0, 40.0),), prompt_s=6.0),
            also=("weights_spill_to_ram",),
        ),
    )  # fmt: skip


def _served() -> tuple[Built, ...]:
    every = tuple(Load(4096, 3.4, 12.0) for _ in range(6))
    turns = tuple(Load(4096, 8.2, 31.0) for _ in range(6))
    thought = Run(thinking_tokens=reported_fact(3000, "usage"), answer_tokens=reported_fact(120, "usage"))
    qwen = App("mac", "qwen3:32b", "qwen3", "32.8B", compute=_compute(M4_MAX))
    away = App("mac", variables=(("OLLAMA_KEEP_ALIVE", "0s"),), compute=_compute(M4_MINI))
    return (
        Built(
            "m4_mini_keep_alive_0", "model_reloads_between_requests",
            "OLLAMA_KEEP_ALIVE=0 on a Mac mini: an 8B model is loaded for each of six requests", RELOADS,
            _on_app(M4_MINI, LLAMA_8B, 32, 20.5, away, every),
        ),
        Built(
            "m4_max_thinks_long", "answer_is_mostly_thinking",
            "a 32B model on an M4 Max: 3000 tokens of thinking before 120 of the answer, at the speed of the chip",
            THINKING, _on_app(M4_MAX, QWEN_32B, 64, 19.0, qwen, run=thought),
        ),
        Built(
            "m1_pro_16_gb_pressure_and_reloads", "unified_memory_pressure",
            "a 14B model on 16 GiB under critical pressure, which is also loaded for each of six requests", RELOADS,
            _on_app(M1_PRO, QWEN_14B, 48, 3.0, App(
                "mac", "qwen2.5:14b", "qwen2", "14.8B", variables=(("OLLAMA_KEEP_ALIVE", "0s"),),
                compute=_compute(M1_PRO),
            ), turns), also=("model_reloads_between_requests", "swapping"),
        ),
    )  # fmt: skip


def _compute(machine: Mac) -> str:
    size = f'total="{gpu_mib(machine) / 1024:.1f} GiB" available="{gpu_mib(machine) / 1024:.1f} GiB"'
    return f'id=0 library=Metal compute=0.0 name=MTL0 description="{machine.chip}" driver=0.0 type=iGPU {size}'


def _on_app(  # noqa: PLR0913 (each is a figure of its own)
    machine: Mac,
    shape: Shape,
    layers: int,
    tokens_per_s: float,
    app: App | None = None,
    loads: tuple[Load, ...] = ONCE,
    *,
    run: Run = Run(),  # noqa: B008 (frozen)
    prompt_s: float = 0.9,
) -> Write:
    limit = gpu_mib(machine)
    device = Device("MTL0", machine.chip, limit, limit - 1, layers, output=True)
    server = Server(
        shape, (device,), answers(tokens_per_s, 512, prompt_s), start=metal_start(machine), system="Darwin arm64",
        context=loads[-1].context, threads=machine.fast, cpus=machine.fast + machine.slow,
        cpu=(machine.chip, machine.memory_gib * 1024),
        features="MTL : EMBED_LIBRARY = 1 | CPU : NEON = 1 | ARM_FMA = 1 | ",
    )  # fmt: skip
    world = with_app(mac(machine), app or App("mac", compute=_compute(machine)), server, loads)
    known = {name: getattr(run, name) for name in ("thinking_tokens", "answer_tokens")}
    speed = measured_fact(tokens_per_s, "three completions")
    return snapshot(world, Run(decode_tokens_per_s=speed, **known), url=URL)
