"""Peak operations per cycle of a CPU core."""

import pytest
from tests.cases import cpu_case, r

from unslow.facts.machine import Cpu
from unslow.page.roofline import CpuPeak, cpu_peak, roofline_view
from unslow.page.view import RooflineView
from unslow.think.case.view import CaseView


@pytest.mark.parametrize(
    ("model", "sets", "floats", "integers"),
    [
        ("AMD Ryzen 7 5800X", ["avx2", "fma"], 32, 128),
        ("AMD Ryzen 9 9950X", ["avx2", "avx512f", "avx512_vnni"], 64, 256),
        ("Intel(R) Xeon(R) Processor", ["avx2", "avx512f", "amx_int8"], 64, 2048),
        ("Neoverse-V1", ["neon", "sve", "dotprod", "i8mm"], 32, 256),
        ("Neoverse-N1", ["neon", "dotprod"], 16, 64),
        ("Apple M4", None, 32, 256),
        ("Intel(R) N100", ["avx2", "avx_vnni"], 16, 64),
        ("", None, 32, 128),
    ],
)
def test_cpu_peak_operations_per_cycle(model: str, sets: list[str] | None, floats: int, integers: int):
    cpu = Cpu(model=r(model)) if sets is None else Cpu(model=r(model), instruction_sets=r(sets))
    assert cpu_peak(cpu) == CpuPeak(floats, integers, cpu_peak(cpu).name)


def test_cpu_roof_source_states_its_calculation(wording):
    view = roofline_view(CaseView(cpu_case()))
    assert isinstance(view, RooflineView)
    (roof,) = view.roofs
    wording(roof.source, tells=("8-bit", "AVX2"))
    assert " 1 cores" not in roof.source
