"""What one core computes in a cycle at most, by its instructions: a product and its sum are two operations.

x86: two fused multiply-adds a cycle, and as many products of 8-bit integers (VPDPBUSD, VPMADDUBSW), of 256 bits since
Haswell and Zen 2, of 512 bits on Intel's servers and Zen 5, half as many on Zen 4 (Agner Fog, Instruction tables,
agner.org/optimize). AMX: TDPBUSD multiplies 16 x 64 by 64 x 16 bytes, one every 16 cycles (Intel 64 and IA-32
Architectures Optimization Reference Manual, "Intel AMX"). Arm: four vectors of 128 bits a cycle (Arm Neoverse V1 and V2
Software Optimization Guides); SDOT has 16 products of 8-bit integers, SMMLA 32, with which a Neoverse V1 comes to the
256 operations that WikiChip tells of it. Small cores have half of it: two vectors of 128 bits.
"""

from typing import NamedTuple

from unslow.catalog.device_names import find_cpu
from unslow.facts.machine import Cpu
from unslow.think.adapt.host_question import has_tiles, multiplies_wide


class Peak(NamedTuple):
    """Operations a cycle in 32-bit floats and in 8-bit integers."""

    floats: float
    integers: float
    name: str


_AVX2 = Peak(2 * 8 * 2, 2 * 32 * 2, "AVX2")
_AVX512 = Peak(2 * 16 * 2, 2 * 64 * 2, "AVX-512")
_AMX = Peak(_AVX512.floats, 16 * 64 * 16 / 16 * 2, "AMX")
_DOT = Peak(4 * 4 * 2, 4 * 16 * 2, "NEON")
_MATRIX = Peak(_DOT.floats, 4 * 32 * 2, "NEON and I8MM")
_ARM_SETS = frozenset({"neon", "sve", "sve2", "i8mm", "dotprod"})


def peak_of(cpu: Cpu) -> Peak:
    """The most that a core of this CPU can do; by its name where nobody listed its instructions."""
    kind = find_cpu(cpu.model.value_or(""))
    peak = _of_arm(cpu) if _is_arm(cpu) else _of_x86(cpu)
    if kind is None or not kind.narrow_cores:
        return peak
    return Peak(peak.floats / 2, peak.integers / 2, peak.name)


def _is_arm(cpu: Cpu) -> bool:
    return bool(_ARM_SETS & set(cpu.instruction_sets.value_or([]))) or cpu.model.value_or("").startswith("Apple")


def _of_arm(cpu: Cpu) -> Peak:
    """A CPU whose instructions nobody listed may have the best of them."""
    sets = cpu.instruction_sets.value_or(["i8mm"])
    return _MATRIX if "i8mm" in sets else _DOT


def _of_x86(cpu: Cpu) -> Peak:
    if has_tiles(cpu):
        return _AMX
    return _AVX512 if multiplies_wide(cpu) else _AVX2
