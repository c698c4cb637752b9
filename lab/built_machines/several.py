"""Several GPUs: splits that wait for a link, that leave the faster card idle, or that nobody needs."""

from typing import Any

from lab.built_machines.built import Built, Write, recording
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.llama_server import PID, Device, Server, serve
from lab.built_machines.nvidia import Card, nvml
from lab.built_machines.parts import COMPUTE_MIB, CUDA_FEATURES, RESERVED_MIB, RTX_3090, answers, cuda_start
from lab.built_machines.shapes import LLAMA_8B, LLAMA_70B, QWEN_32B, Shape
from lab.built_machines.sources import ONE_IS_ENOUGH, ROWS, SERVER_FLAGS

P40 = Card(
    "Tesla P40", (6, 1), 24576, 384, 1531, 3615, 250, 250, mhz=1531, state=0, watts=120, generation=3, generation_max=3
)
WORKSTATION = Memory(128, 100, 1, 80.0, 24.0)


def machines() -> tuple[Built, ...]:
    """All of them."""
    two = (RTX_3090._replace(busy=55, nvlinks=0), RTX_3090._replace(busy=55, nvlinks=0))
    mixed = (RTX_3090._replace(busy=30), P40._replace(busy=95))
    return (
        Built(
            "two_rtx_3090_row_split", "multi_gpu_link_bound",
            "a 70B model split by rows over two RTX 3090 without NVLink: half the speed of a split by layers", ROWS,
            _split(two, LLAMA_70B, (40, 40), 8.0, "-sm", "row"),
        ),
        Built(
            "two_rtx_3090_layer_split", "", "the same model split by layers", ROWS,
            _split(two, LLAMA_70B, (40, 40), 16.5), "normal",
        ),
        Built(
            "rtx_3090_and_p40_uneven_split", "uneven_split",
            "a 32B model split in halves over an RTX 3090 and a Tesla P40, though more fits on the faster one",
            SERVER_FLAGS, _split(mixed, QWEN_32B, (32, 32), 15.5, "-ts", "1,1"),
        ),
        Built(
            "two_rtx_3090_small_model_row_split", "fits_on_one_gpu",
            "an 8B model split by rows over two RTX 3090, each of which could hold it alone", ONE_IS_ENOUGH,
            _split(two, LLAMA_8B, (16, 16), 45.0, "-sm", "row"), also=("multi_gpu_link_bound",),
        ),
    )  # fmt: skip


def _split(cards: tuple[Card, ...], shape: Shape, layers: tuple[int, ...], tokens_per_s: float, *args: str) -> Write:
    last = len(cards) - 1
    devices = tuple(
        Device(f"CUDA{n}", card.name, card.total_mib, card.total_mib - RESERVED_MIB, count, output=n == last)
        for n, (card, count) in enumerate(zip(cards, layers, strict=True))
    )
    server = Server(
        shape, devices, answers(tokens_per_s, 512, 1.0), args=args, context=4096, start=cuda_start(*cards), cpus=16,
        features=CUDA_FEATURES, threads=16, busy=True,
    )  # fmt: skip
    held = [c._replace(used_mib=_held_mib(server, d)) for c, d in zip(cards, devices, strict=True)]
    world = serve(linux(Cpu(fast=16), WORKSTATION), server)
    answer: dict[str, Any] = {"nvml": nvml(PID, "/usr/bin/llama-server", *held)}
    return recording(world.add(asks=answer))


def _held_mib(server: Server, device: Device) -> int:
    shape, cache = server.shape, server.shape.kv_mib(server.context)
    output = shape.output_mib if device.output else 0
    return round(device.layers * (shape.layer_mib + cache / shape.layers) + output + COMPUTE_MIB)
