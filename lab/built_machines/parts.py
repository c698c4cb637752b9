"""Machines that many of the built ones share: one NVIDIA card with a llama-server, all of the model on it or a part."""

from typing import Any

from lab.built_machines.apple import Mac, mac
from lab.built_machines.built import Write, snapshot
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.llama_server import (
    CPU_FEATURES,
    LOG,
    PID,
    URL,
    Answered,
    Device,
    Server,
    answers_of,
    log_of,
    serve,
)
from lab.built_machines.nvidia import Card, nvml
from lab.built_machines.shapes import LLAMA_8B, Shape
from lab.built_machines.world import World

from unslow.facts.run import PhaseTelemetry, SamplerCost, Stat, Telemetry
from unslow.facts.values import Known, measured_fact

CUDA_FEATURES = f"CUDA : ARCHS = 500,610,700,750,800,860,890 | USE_GRAPHS = 1 | {CPU_FEATURES}"
DESKTOP = Memory(64, 48, 1, 42.0, 21.0)
"""DDR4-3200 in two channels gives 51.2 GB/s by its data sheet; about four fifths can be read."""
RTX_4090 = Card()
RTX_3060 = Card("NVIDIA GeForce RTX 3060", (8, 6), 12288, 192, 2130, 7501, 170, 170, mhz=1900, watts=150, celsius=66)
RTX_4060 = Card(
    "NVIDIA GeForce RTX 4060",
    (8, 9),
    8188,
    128,
    3105,
    8501,
    115,
    115,
    mhz=2600,
    watts=90,
    celsius=58,
    width=8,
    width_max=8,
)
RTX_4060_TI = Card(
    "NVIDIA GeForce RTX 4060 Ti", (8, 9), 16380, 128, 3105, 9001, 165, 165, mhz=2700, watts=120, celsius=60, width=8,
    width_max=8,
)  # fmt: skip
RTX_3090 = Card("NVIDIA GeForce RTX 3090", (8, 6), 24576, 384, 2100, 9751, 350, 350, mhz=1900, watts=330, celsius=68)
RESERVED_MIB = 400
COMPUTE_MIB = 560
"""The compute buffer, and what CUDA itself takes."""


def cuda_start(*cards: Card) -> tuple[str, ...]:
    """What ggml's CUDA backend prints of the cards that it finds."""
    total = sum(card.total_mib for card in cards)
    rows = [
        f"I   Device {n}: {c.name}, compute capability {c.capability[0]}.{c.capability[1]}, VMM: yes, VRAM: "
        f"{c.total_mib} MiB"
        for n, c in enumerate(cards)
    ]
    return (f"I ggml_cuda_init: found {len(cards)} CUDA devices (Total VRAM: {total} MiB):", *rows)


def answers(tokens_per_s: float, prompt_tokens: int = 512, prompt_s: float = 0.2) -> tuple[Answered, ...]:
    """Two requests of this speed."""
    return (Answered(prompt_tokens, prompt_s, 256, tokens_per_s),) * 2


def on_card(card: Card, shape: Shape = LLAMA_8B, layers: int | None = None, **server: Any) -> Server:
    """A llama-server with so many layers on the card, and all of them where nobody says."""
    count = shape.layers if layers is None else layers
    free = card.total_mib - RESERVED_MIB - sum(mib for _, _, mib in card.others)
    device = Device("CUDA0", card.name, card.total_mib, free, count, output=count > 0)
    return Server(shape, (device,), start=cuda_start(card), features=CUDA_FEATURES, **server)


def held_mib(server: Server) -> int:
    """What its process holds on the one GPU."""
    (device,) = server.devices
    weights = device.layers * server.shape.layer_mib + server.shape.output_mib
    return round(weights + server.shape.kv_mib(server.context) * device.layers / server.shape.layers + COMPUTE_MIB)


def one_card(card: Card, server: Server, cpu: Cpu = Cpu(), memory: Memory = DESKTOP, **more: float) -> World:  # noqa: B008 (frozen)
    """A desktop with one card, on which the server runs."""
    world = serve(linux(cpu, memory, **more), server)
    return world.add(asks={"nvml": nvml(PID, "/usr/bin/llama-server", card._replace(used_mib=held_mib(server)))})


def watched(**host: float) -> Known[Telemetry]:
    """What the host did while tokens were generated: figures that stayed as they are."""
    stats = {name: Stat(mean=v, low=v, high=v, last=v, samples=40) for name, v in host.items()}
    decode = PhaseTelemetry(phase="decode", seconds=10.0, samples=40, host=stats)
    cost = SamplerCost(seconds_per_sample=1e-4, slowest_sample_s=1e-3, cpus=0.01)
    seen = Telemetry(seconds=10.0, samples=40, asked_hz=4.0, got_hz=4.0, cost=cost, phases=(decode,))
    return measured_fact(seen, "sampled while it generated")


def elsewhere(world: World, server: Server) -> World:
    """A world whose processes nobody lists, with the server at its address and its log in a file."""
    path = server.model
    return world.add({LOG: log_of(server)}, http=answers_of(server), asks={f"gguf {path}": server.shape.gguf(path)})


def gpu_mib(machine: Mac) -> int:
    """What macOS lets the GPU have: as somebody set it, else two thirds of small memories, three quarters of large."""
    share = 2 / 3 if machine.memory_gib <= 32 else 3 / 4
    return machine.wired_limit_mib or round(machine.memory_gib * 1024 * share)


def metal_start(machine: Mac) -> tuple[str, ...]:
    """What ggml's Metal backend prints first."""
    return (
        f"I ggml_metal_device_init: GPU name:   {machine.chip}",
        f"I ggml_metal_device_init: recommendedMaxWorkingSetSize  = {gpu_mib(machine) * 1.048576:.2f} MB",
    )


def on_mac(machine: Mac, tokens_per_s: float, shape: Shape = LLAMA_8B, **server: Any) -> Write:
    """A Mac with a llama-server that has all layers on its GPU."""
    limit = gpu_mib(machine)
    device = Device("MTL0", machine.chip, limit, limit - 100, shape.layers, output=True)
    run = Server(
        shape, (device,), answers(tokens_per_s, 512, 0.9), start=metal_start(machine), system="Darwin arm64",
        threads=machine.fast, cpus=machine.fast + machine.slow, cpu=(machine.chip, machine.memory_gib * 1024),
        features="MTL : EMBED_LIBRARY = 1 | CPU : NEON = 1 | ARM_FMA = 1 | FP16_VA = 1 | DOTPROD = 1 | ", **server,
    )  # fmt: skip
    return snapshot(elsewhere(mac(machine), run), url=URL, log=LOG)
