import pytest

from unslow.catalog.devices import all_devices, vendor_of
from unslow.catalog.hardware_families import best_fit, find_cpu_family, find_gpu_family, gpu_families

FAMILIES = {
    "NVIDIA GeForce GTX 750": "maxwell",
    "NVIDIA GeForce GTX 745": "maxwell",
    "GTX 750 Ti": "maxwell",
    "NVIDIA GeForce GTX 780 Ti": "kepler",
    "GTX780Ti": "kepler",
    "NVIDIA GeForce GTX 660 Ti": "kepler",
    "NVIDIA GeForce GT 750M": "kepler",
    "NVIDIA GeForce 840M": "maxwell",
    "NVIDIA GeForce GTX 860M": "maxwell",
    "NVIDIA GeForce GTX 880M": "kepler",
    "NVIDIA GeForce 610M": "fermi",
    "Quadro K620": "maxwell",
    "Quadro K2200": "maxwell",
    "Quadro K4000": "kepler",
    "NVIDIA Corporation GK210GL [Tesla K80] (rev a1)": "kepler",
    "Tesla M2090": "fermi",
    "Tesla M60": "maxwell",
    "GTX TITAN": "kepler",
    "GeForce GTX TITAN X": "maxwell",
    "Radeon RX 590": "polaris",
    "Radeon RX 5300M": "rdna1",
    "AMD Radeon(TM) Graphics": "radeon_of_processors",
    "AMD Ryzen 7 7840HS w/ Radeon 780M Graphics": "radeon_of_processors",
    "AMD Radeon Vega 8 Graphics": "radeon_of_processors",
    "Mesa Intel(R) Graphics (RPL-P)": "intel_of_processors",
    "Intel(R) Arc(TM) Graphics": "intel_of_processors",
    "Intel Arc A550M Graphics": "alchemist",
    "Qualcomm(R) Adreno(TM) X1-85 GPU": "adreno",
}


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
def test_a_gpu_name_finds_its_family(name, family):
    assert find_gpu_family(name) == gpu_families()[family]


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GeForce RTX 4090", "Quadro RTX 6000", "GTX 1080", "GT 1030", "Radeon Pro Vega 48", "Radeon HD 7970"],
)
def test_cards_outside_the_described_families_have_none(name):
    assert find_gpu_family(name) is None


def test_gpu_families_agree_with_datasheets():
    """Families are for cards without a datasheet; where both exist, vendor and memory kind match."""
    found = [(d, find_gpu_family(d.name)) for d in all_devices() if d.kind in {"gpu", "unified"}]
    known = [(d, f) for d, f in found if f]
    assert known
    assert [d.name for d, f in known if f.vendor != d.vendor or f.unified != d.is_unified] == []


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("AMD Ryzen 7 5800X 8-Core Processor", {"AVX", "AVX2"}),
        ("Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", {"AVX", "AVX2"}),
        ("11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", {"AVX", "AVX2"}),
        ("13th Gen Intel(R) Core(TM) i9-13900K", {"AVX", "AVX2"}),
        ("Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz", {"AVX", "AVX2"}),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", None),
        ("Intel(R) Core(TM) i7-3770 CPU @ 3.40GHz", None),
        ("Intel(R) Core(TM) i7 CPU 970 @ 3.20GHz", None),
        ("Intel(R) Pentium(R) CPU G4400 @ 3.30GHz", None),
        ("Snapdragon(R) X Elite", {"NEON"}),
        ("Cortex-A76", {"NEON"}),
    ],
)
def test_a_cpu_name_finds_its_instruction_sets(name, sets):
    family = find_cpu_family(name)
    assert (set(family.instruction_sets) if family else None) == sets


def test_the_most_specific_family_pattern_wins():
    patterns = [("GTX 7??", "many"), ("GTX 750*", "few"), ("780M", "bare"), ("GTX 7??M", "mobile")]
    assert best_fit("GTX 750 Ti", patterns) == "few"
    assert best_fit("GTX 780M", patterns) == "mobile"
    assert best_fit("Radeon 780M", patterns) == "bare"
    assert best_fit("RTX 7500", patterns) is None


def test_the_vendor_is_found_from_a_name():
    assert vendor_of("RTX 9090") == "NVIDIA"
    assert vendor_of("Radeon Something") == "AMD"
    assert vendor_of("a card") == ""
