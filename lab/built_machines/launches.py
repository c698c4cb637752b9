"""A framework that starts every kernel from Python, where that takes longer than the kernels, and where it does not."""

import json
from typing import Any

from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.nvidia import Card, nvml
from lab.built_machines.sources import LAUNCHES

from unslow.facts.model import Model
from unslow.facts.run import GpuUnderLoad, Run
from unslow.facts.runtime import Runtime, ServerProcess
from unslow.facts.values import measured_fact, reported_fact

PID = 4100
URL = "http://127.0.0.1:5000"
SERVER = Memory(256, 230, 1, 160.0, 14.0)
A100 = Card("NVIDIA A100-SXM4-40GB", (8, 0), 40960, 5120, 1410, 1215, 400, 400, mhz=1410, watts=120, celsius=45)
LLAMA_13B: dict[str, Any] = {
    "name": "llama-13b", "quant": "exl2 4.0bpw", "weights_bytes": 6_700_000_000, "parameters": 13_015_864_320,
    "layers": 40, "width": 5120, "heads": 40, "kv_heads": 40, "key_length": 128, "value_length": 128,
    "vocabulary": 32000, "experts": 0, "experts_used": 0,
}  # fmt: skip


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (
        Built(
            "exllama_starts_each_kernel", "kernel_launch_bound",
            "exllamav2 with a 13B model in 4 bits at 35 tokens per second on an A100, as fast as one of 30B", LAUNCHES,
            _exllama(35.41, busy=0.45, memory_busy=0.2), figures="speed as reported, loads chosen",
        ),
        Built(
            "exllama_near_its_bandwidth", "", "the same at the speed that the card's memory gives", LAUNCHES,
            _exllama(90.0, busy=0.98, memory_busy=0.7), "normal",
        ),
    )  # fmt: skip


def _exllama(tokens_per_s: float, busy: float, memory_busy: float) -> Write:
    card = A100._replace(used_mib=9000, busy=round(100 * busy))
    listed = {"object": "list", "data": [{"id": "llama-13b", "object": "model", "owned_by": "tabbyAPI"}]}
    world = linux(Cpu(fast=32), SERVER).add(
        http={f"GET {URL}/v1/models": json.dumps(listed)}, asks={"nvml": nvml(PID, "/venv/bin/python3", card)}
    )
    under = GpuUnderLoad(
        index=0, samples=20, busy=measured_fact(busy, "sampled"), memory_busy=measured_fact(memory_busy, "sampled"),
        clock_hz=measured_fact(1.41e9, "sampled"), event_reasons=measured_fact([], "sampled"),
    )  # fmt: skip
    run = Run(
        decode_tokens_per_s=measured_fact(tokens_per_s, "three completions"), own_cpus=measured_fact(1.0, "sampled"),
        gpus=measured_fact((under,), "sampled"), depth_tokens=measured_fact(200, "three completions"),
    )  # fmt: skip
    known: dict[str, Any] = {name: reported_fact(value, "config.json") for name, value in LLAMA_13B.items()}
    runtime = Runtime(
        name=reported_fact("exllamav2", "command"), process=ServerProcess(pid=reported_fact(PID, "command"))
    )
    return snapshot(world, run, model=Model(**known), runtime=runtime, url=URL)
