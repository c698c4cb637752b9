"""Machines made up for tests: healthy ones, and one fact or two changed."""

from functools import cache
from typing import Any

import msgspec

from unslow.catalog.models import find_model
from unslow.facts.machine import Cpu, Gpu, GpuProcess, Machine, Memory
from unslow.facts.model import Blueprint, Model, packed_tensors
from unslow.facts.run import Run
from unslow.facts.runtime import Buffer, Runtime, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known, Unknown, reported_fact
from unslow.think.blueprints import made_up

LAYER_MIB, OUTPUT_MIB, TABLE_MIB = 125, 410, 282


def r(value: Any) -> Known[Any]:
    return reported_fact(value, "test")


def model_8b() -> Model:
    weights = (32 * LAYER_MIB + OUTPUT_MIB + TABLE_MIB) * MIB
    return Model(
        name=r("llama-8b"), quant=r("Q4_K_M"), parameters=r(8_030_261_248), weights_bytes=r(weights), layers=r(32),
        width=r(4096), heads=r(32), kv_heads=r(8), key_length=r(128), value_length=r(128), vocabulary=r(128_256),
        experts=r(0), experts_used=r(0), token_table_bytes=r(TABLE_MIB * MIB), output_bytes=r(OUTPUT_MIB * MIB),
        output_tied=r(False),
    )  # fmt: skip


def cpu_case() -> Case:
    """Two cores, no GPU, a runtime that does what they can."""
    return Case(
        machine=Machine(
            cpu=Cpu(physical_cores=r(2), logical_cpus=r(2), threads_per_core=r(1)),
            memory=Memory(total_bytes=r(24 * GIB), read_bytes_per_s=r(17e9), read_one_core_bytes_per_s=r(12e9)),
            gpus=r(()),
        ),
        runtime=Runtime().with_facts(
            name=r("llama.cpp"), pid=r(10), command=r(["llama-server", "-m", "m.gguf"]), threads=r(2),
            state=r("loaded"), context_length=r(4096), devices=r([SeenDevice(name="CPU")]),
            buffers=r([Buffer(device="CPU_Mapped", kind="model", bytes=4692 * MIB, on_gpu=False)]),
        ),
        model=model_8b(),
        run=Run(
            decode_tokens_per_s=r(3.3), others_cpus=r(0.02), waiting_for_cpu_s_per_token=r(0.0005), depth_tokens=r(100)
        ),
    )  # fmt: skip


def gpu_case(layers_on_gpu: int = 33, free_gib: float = 20.0, context: int = 8192) -> Case:
    """A 24 GiB card with a model on it, all of it unless told otherwise."""
    gpu_bytes = (OUTPUT_MIB + LAYER_MIB * (layers_on_gpu - 1)) * MIB if layers_on_gpu else 0
    buffers = [Buffer(device="CUDA0", kind="compute", bytes=130 * MIB, on_gpu=True)]
    if gpu_bytes:
        buffers.append(Buffer(device="CUDA0", kind="model", bytes=gpu_bytes, on_gpu=True))
    case = cpu_case()
    gpu = Gpu(
        index=0, vendor=r("NVIDIA"), name=r("NVIDIA GeForce RTX 4090"), vram_total_bytes=r(24 * GIB),
        vram_free_bytes=r(int(free_gib * GIB) - gpu_bytes), vram_reserved_bytes=r(0), compute_capability=r("8.9"),
        processes=r([GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(gpu_bytes))]),
    )  # fmt: skip
    return with_facts(
        case,
        {
            "machine.gpus": r((gpu,)),
            "runtime.placement.devices": r(
                [SeenDevice(name="CUDA0", free_bytes=r(int(free_gib * GIB))), SeenDevice(name="CPU")]
            ),
            "runtime.memory.buffers": r(buffers),
            "runtime.placement.gpu_layers": r(layers_on_gpu),
            "runtime.placement.layers": r(33),
            "runtime.context.length": r(context),
            "runtime.cache.cells": r(context),
            "runtime.cache.bytes": r(context * 131072),
            "runtime.history.longest_sequence": r(500),
            "run.decode_tokens_per_s": r(130.0 if layers_on_gpu == 33 else 12.0),
        },
    )


@cache
def plan_8b() -> Blueprint:
    """The tensors of the model that all cases have."""
    return made_up(find_model("llama-3.1-8b"), "Q4_K_M")


def with_tensors(case: Case) -> Case:
    """The case with its model known down to the tensors, as from a file."""
    own = {k: v for k, v in plan_8b().metadata.items() if k.startswith("llama.")}
    return with_facts(
        case,
        {
            "model.architecture": "llama",
            "model.tensors": packed_tensors(plan_8b().tensors),
            "model.metadata": own,
            "runtime.scheduling.slots": 1,
            "runtime.compute.flash_attention": True,
            "runtime.compute.ubatch": 512,
            "runtime.compute.batch": 2048,
        },
    )


def with_facts(case: Case, changes: dict[str, Any]) -> Case:
    """The case with the facts at these dotted paths replaced; plain values become reported ones."""
    for path, value in changes.items():
        fact = value if isinstance(value, Known | Unknown) else r(value)
        case = _replaced(case, path.split("."), fact)
    return case


def without(case: Case, path: str) -> Case:
    """The case with one fact blanked."""
    return with_facts(case, {path: Unknown("blanked by a test", "ask the test")})


def _replaced(value: Any, steps: list[str], fact: Any) -> Any:
    step, *rest = steps
    if isinstance(value, Known):
        return msgspec.structs.replace(value, value=_replaced(value.value, steps, fact))
    if step.isdigit():
        items = list(value)
        items[int(step)] = _replaced(items[int(step)], rest, fact) if rest else fact
        return type(value)(items)
    new = _replaced(getattr(value, step), rest, fact) if rest else fact
    return msgspec.structs.replace(value, **{step: new})
