"""Which CPUs a case is held against: by the instructions that it has, else by its name, and by its memory."""

import pytest
from cases import with_facts

from unslow.facts.snapshot import Case
from unslow.think.case.questions import host_setting
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.placement import Placement

_ICE_LAKE = ["avx", "avx2", "avx512f", "avx512_vnni", "fma"]


def setting(**facts) -> SpeedSetting:
    return host_setting(with_facts(Case(), facts), Placement(0.0, output_on_gpu=False))


@pytest.mark.parametrize(
    ("instructions", "model", "wide"),
    [
        (_ICE_LAKE, "Intel(R) Xeon(R) Processor @ 2.80GHz", True),
        ([*_ICE_LAKE, "amx_int8"], "Intel(R) Xeon(R) Processor", False),
        (["avx", "avx2", "fma"], "AMD EPYC 7B13", False),
        (["avx", "avx2", "fma"], "AMD Ryzen 9 7950X", False),  # switched off
        (["asimd"], "Neoverse-V1", False),
    ],
)
def test_instructions_decide(instructions: list[str], model: str, wide: bool) -> None:
    facts = {"machine.cpu.instruction_sets": instructions, "machine.cpu.model": model}
    assert setting(**facts).wide_vectors is wide


def test_the_name_decides_where_nobody_listed_the_instructions() -> None:
    assert setting(**{"machine.cpu.model": "AMD Ryzen 9 7950X"}).wide_vectors
    assert not setting(**{"machine.cpu.model": "AMD Ryzen 7 5800X"}).wide_vectors
    assert not setting().wide_vectors


def test_the_family_is_that_of_the_memory() -> None:
    assert setting(**{"machine.memory.kind": "DDR4-3200"}).family == "ddr4"
    assert setting().family == ""
