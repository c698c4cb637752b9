"""CPUs with 512-bit vectors, recognized by name."""

import pytest

from unslow.catalog.device_names import find_cpu
from unslow.facts.values import Unknown
from unslow.think.speed.question import CORE_FLOPS_PER_S, core_flops_per_s, cpu_chip, has_wide_vectors
from unslow.think.speed.rows import parse_row


@pytest.mark.parametrize(
    "name",
    [
        "Ryzen-7950X", "AMD Ryzen 9 9950X3D 16-Core Processor", "AMD Ryzen 7 7840HS", "AMD Ryzen 7 PRO 8840U",
        "AMD Ryzen 9 7945HX", "Framework 13 (Ryzen AI 5 340)", "AMD Ryzen Z1 Extreme", "AMD EPYC 9554 12ch DDR5",
        "Threadripper PRO 7995WX", "11th Gen Intel(R) Core(TM) i7-1165G7", "i7-11700K", "i7-1065G7", "i9-7980XE",
        "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "Intel(R) Xeon(R) W-2145 CPU",
    ],
)  # fmt: skip
def test_cpus_with_avx512_are_recognized(name: str) -> None:
    assert has_wide_vectors(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "AMD Ryzen 7 5800X", "AMD Ryzen 5 7530U", "AMD Ryzen 7 7735HS", "Ryzen 3 7320U", "AMD EPYC 7352",
        "Threadripper PRO 5995WX", "i9-13900K", "i5-10600K", "Intel Core i7-7820HQ", "i9-9900K", "i7-6950X",
        "Intel(R) Core(TM) Ultra 7 155H", "Intel N100", "Xeon E5-2690 v3", "Pi 5 - 16GB", "AmpereOne A192-32X",
        "Apple M2",
    ],
)  # fmt: skip
def test_cpus_without_avx512_are_recognized(name: str) -> None:
    assert not has_wide_vectors(name)


@pytest.mark.parametrize("name", ["Intel(R) Xeon(R) Platinum 8480+", "6980P"])
def test_cpus_with_amx_do_not_count_as_wide_vectors(name: str) -> None:
    assert not has_wide_vectors(name)


def test_implausible_clock_is_ignored() -> None:
    assert core_flops_per_s(5e9) == 2 * core_flops_per_s(5e9, narrow=True)
    assert core_flops_per_s(0.0) == core_flops_per_s(9e12) == CORE_FLOPS_PER_S


def test_small_cores_have_less_compute() -> None:
    small, large = (find_cpu(name) for name in ("Intel N100", "Ryzen 9 7950X"))
    assert small is not None
    assert large is not None
    assert float(cpu_chip(small, 4.0).flops_per_s) < 0.5 * float(cpu_chip(large, 4.0).flops_per_s)


def test_ik_llama_is_a_runtime_of_its_own_on_cpus() -> None:
    row = {"hardware": "Ryzen 9 7950X", "model": "Llama 3.1 8B", "quant": "Q4_K_M", "backend": "CPU"}
    fork, plain = (parse_row(row | {"runtime": name}) for name in ("ik_llama.cpp", "llama.cpp"))
    assert not isinstance(fork, Unknown)
    assert not isinstance(plain, Unknown)
    assert (fork.setting.runtime, plain.setting.runtime) == ("ik_llama", "")


@pytest.mark.parametrize(("hardware", "wide"), [("AMD Ryzen 7 7840HS", True), ("RTX 4090, Ryzen 9 7950X", False)])
def test_row_on_a_wide_vector_cpu_is_marked(hardware: str, wide: bool) -> None:
    found = parse_row({"hardware": hardware, "model": "Llama 3.1 8B", "quant": "Q4_K_M"})
    assert not isinstance(found, Unknown)
    assert found.setting.wide_vectors is wide
