"""The machine of a case: what its processors may use, and what was seen of its memory and GPUs."""

from typing import Any

import pytest

from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MissingFactError, estimated, measured, reported
from unslow.think.hardware import Hardware, Room
from unslow.think.plan.running import is_assumed, seen_hardware, seen_processors


def case(cpu: dict[str, Any], memory: Memory | None = None, **runtime: Any) -> Case:
    facts = {name: reported(value, "test") for name, value in cpu.items()}
    told = {name: reported(value, "test") for name, value in runtime.items()}
    return Case(machine=Machine(cpu=Cpu(**facts), memory=memory or Memory()), runtime=Runtime(**told))


def card(name: str = "NVIDIA GeForce RTX 4090") -> Gpu:
    return Gpu(index=0, name=reported(name, "test"), vram_total_bytes=reported(24 * GIB, "test"))


def test_fast_cores_alone_count_where_there_are_two_kinds() -> None:
    hybrid = case({"physical_cores": 24, "performance_cores": 8, "logical_cpus": 32})
    assert seen_processors(hybrid).cores == 8
    assert seen_processors(case({"physical_cores": 16, "logical_cpus": 32})).cores == 16


def test_the_limits_of_its_own_process_count() -> None:
    limited = case({"physical_cores": 16, "logical_cpus": 32}, quota_cpus=2.5, allowed_cpus=8)
    assert seen_processors(limited).cores == 2
    assert seen_processors(limited).logical == 8


def test_memory_that_was_measured_is_taken_and_else_said_to_be_assumed() -> None:
    memory = Memory(read_bytes_per_s=measured(50e9, "test"), read_one_core_bytes_per_s=measured(12e9, "test"))
    known = case({"physical_cores": 8, "logical_cpus": 8}, memory)
    assert (seen_processors(known).bytes_per_s, seen_processors(known).one_core_bytes_per_s) == (50e9, 12e9)
    assert not is_assumed(known)
    unknown = case({"physical_cores": 8, "logical_cpus": 8})
    assert seen_processors(unknown).bytes_per_s == 64e9
    assert is_assumed(unknown)
    assert is_assumed(case({"physical_cores": 8}, Memory(read_bytes_per_s=estimated(50e9, "guess"))))


def test_a_card_and_the_host_beside_it() -> None:
    one = case({"physical_cores": 8, "logical_cpus": 8})
    found = seen_hardware(one, (card(),), Hardware((Room("RTX 4090", 24 * GIB),), Room("host", 64 * GIB)))
    assert found.chips[0].bytes_per_s == pytest.approx(1.008e12, rel=0.01)
    assert found.setting.backend == "cuda"
    assert found.host_setting.backend == "cpu"
    alone = seen_hardware(one, (), Hardware(host_room=Room("host", 64 * GIB)))
    assert (alone.chips, alone.setting.backend) == ((), "cpu")


def test_a_card_that_nobody_knows_can_not_be_priced() -> None:
    with pytest.raises(MissingFactError):
        seen_hardware(case({"physical_cores": 8}), (card("Voodoo 2"),), Hardware((Room("Voodoo 2", GIB),)))
