"""The machine of a case: usable cores, and what is known about its memory and GPUs."""

from typing import Any

import pytest

from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MissingFactError, estimated_fact, measured_fact, reported_fact
from unslow.think.case.view import CaseView
from unslow.think.hardware import Hardware, Room
from unslow.think.plan.running import is_assumed, seen_hardware, seen_processors


def case(cpu: dict[str, Any], memory: Memory | None = None, **runtime: Any) -> Case:
    facts = {name: reported_fact(value, "test") for name, value in cpu.items()}
    told = {name: reported_fact(value, "test") for name, value in runtime.items()}
    return Case(machine=Machine(cpu=Cpu(**facts), memory=memory or Memory()), runtime=Runtime().with_facts(**told))


def card(name: str = "NVIDIA GeForce RTX 4090") -> Gpu:
    return Gpu(index=0, name=reported_fact(name, "test"), vram_total_bytes=reported_fact(24 * GIB, "test"))


def test_only_performance_cores_count_on_hybrid_cpus() -> None:
    hybrid = case({"physical_cores": 24, "performance_cores": 8, "logical_cpus": 32})
    assert seen_processors(CaseView(hybrid)).cores == 8
    assert seen_processors(CaseView(case({"physical_cores": 16, "logical_cpus": 32}))).cores == 16


def test_limits_of_the_process_apply() -> None:
    limited = case({"physical_cores": 16, "logical_cpus": 32}, quota_cpus=2.5, allowed_cpus=8)
    assert seen_processors(CaseView(limited)).cores == 2
    assert seen_processors(CaseView(limited)).logical == 8


def test_unmeasured_bandwidth_is_assumed_and_marked() -> None:
    memory = Memory(read_bytes_per_s=measured_fact(50e9, "test"), read_one_core_bytes_per_s=measured_fact(12e9, "test"))
    known = case({"physical_cores": 8, "logical_cpus": 8}, memory)
    assert (seen_processors(CaseView(known)).bytes_per_s, seen_processors(CaseView(known)).one_core_bytes_per_s) == (
        50e9,
        12e9,
    )
    assert not is_assumed(CaseView(known))
    unknown = case({"physical_cores": 8, "logical_cpus": 8})
    assert seen_processors(CaseView(unknown)).bytes_per_s == 64e9
    assert is_assumed(CaseView(unknown))
    assert is_assumed(CaseView(case({"physical_cores": 8}, Memory(read_bytes_per_s=estimated_fact(50e9, "guess")))))


def test_gpu_and_host_are_read() -> None:
    one = case({"physical_cores": 8, "logical_cpus": 8})
    found = seen_hardware(CaseView(one), (card(),), Hardware((Room("RTX 4090", 24 * GIB),), Room("host", 64 * GIB)))
    assert found.chips[0].bytes_per_s == pytest.approx(1.008e12, rel=0.01)
    assert found.setting.backend == "cuda"
    assert found.host_setting.backend == "cpu"
    alone = seen_hardware(CaseView(one), (), Hardware(host_room=Room("host", 64 * GIB)))
    assert (alone.chips, alone.setting.backend) == ((), "cpu")


def test_unknown_gpu_is_a_missing_fact() -> None:
    with pytest.raises(MissingFactError):
        seen_hardware(CaseView(case({"physical_cores": 8})), (card("Voodoo 2"),), Hardware((Room("Voodoo 2", GIB),)))
