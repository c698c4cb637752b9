"""The CPU class of a case: by its instruction sets, else by its name, and its memory kind."""

import pytest
from cases import with_facts

from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.placement import Placement

_ICE_LAKE = ["avx", "avx2", "avx512f", "avx512_vnni", "fma"]


def setting(**facts) -> SpeedSetting:
    return CaseView(with_facts(Case(), facts)).physics.host_setting(Placement(0.0, output_on_gpu=False))


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
def test_instruction_sets_decide_wide_vectors(instructions: list[str], model: str, wide: bool) -> None:
    facts = {"machine.cpu.instruction_sets": instructions, "machine.cpu.model": model}
    assert setting(**facts).wide_vectors is wide


def test_cpu_name_decides_where_instruction_sets_are_unknown() -> None:
    assert setting(**{"machine.cpu.model": "AMD Ryzen 9 7950X"}).wide_vectors
    assert not setting(**{"machine.cpu.model": "AMD Ryzen 7 5800X"}).wide_vectors
    assert not setting().wide_vectors


def test_family_is_the_memory_kind() -> None:
    assert setting(**{"machine.memory.kind": "DDR4-3200"}).family == "ddr4"
    assert setting().family == ""
