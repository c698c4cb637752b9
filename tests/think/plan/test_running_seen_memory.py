"""Memory that a restarted server would find."""

from typing import Any

import pytest

from unslow.facts.machine import Gpu, GpuProcess, Machine, Memory
from unslow.facts.runtime import Buffer, Runtime, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, reported_fact
from unslow.think.case.view import CaseView
from unslow.think.hardware import CUDA_CONTEXT_BYTES
from unslow.think.plan.running import gpus_at_work, seen_memory

TOTAL, RESERVED, FREE, OWN, STRANGER = (size * MIB for size in (24576, 376, 4000, 16000, 4200))


def told(**facts: Any) -> dict[str, Any]:
    return {name: reported_fact(value, "test") for name, value in facts.items()}


def card(*processes: tuple[int, int]) -> Gpu:
    listed = [GpuProcess(pid=pid, **told(vram_bytes=held)) for pid, held in processes]
    sizes = told(vram_total_bytes=TOTAL, vram_reserved_bytes=RESERVED, vram_free_bytes=FREE, processes=listed)
    return Gpu(index=0, **told(name="NVIDIA GeForce RTX 4090"), **sizes)


def case(gpu: Gpu, memory: Memory | None = None, **runtime: Any) -> Case:
    facts = told(name="llama.cpp", pid=7, state="loaded") | told(**runtime)
    return Case(
        machine=Machine(gpus=reported_fact((gpu,), "test"), memory=memory or Memory()),
        runtime=Runtime().with_facts(**facts),
    )


def usable(one: Case) -> int:
    return seen_memory(CaseView(one), gpus_at_work(CaseView(one))).rooms[0].usable_bytes


def test_own_vram_counts_as_free_and_foreign_vram_does_not() -> None:
    assert usable(case(card((7, OWN), (9, STRANGER)))) == FREE + OWN


def test_own_buffers_count_without_a_process_list() -> None:
    buffers = [Buffer(device="CUDA0", kind="model", bytes=OWN, on_gpu=True)]
    assert usable(case(card(), buffers=buffers)) == FREE + OWN + CUDA_CONTEXT_BYTES


def test_failed_load_frees_nothing() -> None:
    buffers = [Buffer(device="CUDA0", kind="model", bytes=OWN, on_gpu=True)]
    assert usable(case(card(), buffers=buffers, state="failed")) == FREE


def test_gpu_known_only_from_the_log_uses_its_reported_memory() -> None:
    seen = SeenDevice(name="CUDA0", **told(total_bytes=TOTAL, free_bytes=FREE))
    one = case(Gpu(index=0, **told(name="NVIDIA GeForce RTX 4090")), devices=[seen])
    (gpu,) = gpus_at_work(CaseView(one))
    assert gpu.vram_total_bytes.value_or(0) == TOTAL
    assert usable(one) == FREE
    bare = case(Gpu(index=0, **told(name="NVIDIA GeForce RTX 4090")), gpu_layers=3, layers=3)
    assert gpus_at_work(CaseView(bare))[0].vram_total_bytes.value_or(0) == pytest.approx(24 * GIB, rel=0.01)


def test_runtime_without_a_gpu_has_none() -> None:
    assert gpus_at_work(CaseView(case(card((9, STRANGER)), gpu_refused="no kernel image"))) == ()


def test_host_memory_is_available_plus_own_private_memory() -> None:
    memory = Memory(**told(total_bytes=64 * GIB, available_bytes=20 * GIB))
    mapped = [Buffer(device="CPU_Mapped", kind="model", bytes=8 * GIB, on_gpu=False)]
    one = case(card(), memory, buffers=mapped, resident_bytes=10 * GIB)
    host = seen_memory(CaseView(one), ()).host_room
    assert host is not None
    assert host.usable_bytes == 22 * GIB  # pages of the file count as available already
    limited = case(card(), memory, buffers=mapped, resident_bytes=10 * GIB, memory_limit_bytes=12 * GIB)
    within = seen_memory(CaseView(limited), ()).host_room
    assert within is not None
    assert within.usable_bytes == 12 * GIB


def test_mac_gpu_memory_is_limited_by_the_wired_limit() -> None:
    gpu = Gpu(index=0, **told(name="Apple M2 Max", vram_total_bytes=48 * GIB))
    memory = Memory(**told(total_bytes=64 * GIB, available_bytes=60 * GIB))
    found = seen_memory(CaseView(one := case(gpu, memory)), gpus_at_work(CaseView(one)))
    assert found.is_unified
    assert (found.rooms[0].capacity_bytes, found.rooms[0].usable_bytes) == (64 * GIB, 48 * GIB)
    assert found.rooms[0].context_bytes == 0
