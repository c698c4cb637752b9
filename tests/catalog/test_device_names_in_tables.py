"""Hardware names in tables of published measurements lead to the measured device."""

import csv
from pathlib import Path

import pytest

from unslow.catalog.device_names import devices_written, find_cpu, find_written
from unslow.catalog.devices import all_gpus

MEASUREMENTS = Path(__file__).parents[2] / "lab" / "data" / "measurements.csv"
STRIX_HALO = "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"
# Every way in which the table names its hardware, and the device that it means.
MEANT = {
    "2x RX 9070 16GB (Vulkan)": "RX 9070",
    "2× AMD Radeon AI PRO R9700 32GB (TP, ROCm/HIP, Q8_0)": "Radeon AI PRO R9700",
    "2× Tesla P40 24GB (UD-Q4_K_XL, 262K, q4_0 KV)": "Tesla P40",
    "2× Tesla P40 24GB (tensor split)": "Tesla P40",
    "6980P": "CPU Xeon 6 12ch MRDIMM-8800",
    "7900 XTX": "RX 7900 XTX",
    "A100": "A100 80GB PCIe",
    "A100 SXM 80GB": "A100 80GB SXM",
    "A10G": "A10G",
    "A40 48GB": "A40",
    "AMD 7900 XT": "RX 7900 XT",
    "AMD AI Pro R9700": "Radeon AI PRO R9700",
    "AMD EPYC 7352 24-Core Processor (znver2)": "CPU EPYC 7002/7003 8ch DDR4-3200",
    "AMD EPYC 9554 12ch DDR5 (460.8 GB/s)": "CPU EPYC 9004 12ch DDR5-4800",
    "AMD Instinct MI210 64GB (CDNA2/gfx90a, Q8_0, 32K, f16 KV, custom build)": "MI210",
    "AMD Pro W7700": "Radeon Pro W7700",
    "AMD RX 6500 XT": "RX 6500 XT",
    "AMD Radeon 780M (8840U)": "Radeon 780M (DDR5-5600)",
    "AMD Radeon 780M iGPU (Phoenix, 32GB UMA)": "Radeon 780M (DDR5-5600)",
    "AMD Radeon AI PRO R9700 32GB (Windows/Vulkan)": "Radeon AI PRO R9700",
    "AMD Radeon RX 7900 XT": "RX 7900 XT",
    "AMD Ryzen 7 7840HS": "CPU DDR5-5600 dual-channel",
    "AMD Ryzen 7 8745H w/ Radeon 780M Graphics": "Radeon 780M (DDR5-5600)",
    "AMD Ryzen Z1": "CPU DDR5-6400 dual-channel",
    "AMD Strix Halo (Ryzen AI Max+ 395, Radeon 8060S)": STRIX_HALO,
    "AmpereOne A192-32X - 512GB": "CPU AmpereOne A192 8ch DDR5-5200",
    "Apple M1 7-Core GPU 8GB": "Apple M1 (7-core)",
    "Apple M1 M1 Max 64GB": "Apple M1 Max",
    "Apple M1 Max 32GB": "Apple M1 Max",
    "Apple M1 Ultra 64-core 128GB": "Apple M1 Ultra",
    "Apple M2 Ultra 76-Core GPU 192GB": "Apple M2 Ultra",
    "Apple M3 10-Core GPU 16GB": "Apple M3",
    "Apple M3 Max 40-Core GPU 48GB": "Apple M3 Max",
    "Apple M3 Max 64GB": "Apple M3 Max",
    "Apple M4 16GB": "Apple M4",
    "Apple M4 M4 Pro 48GB": "Apple M4 Pro",
    "Apple M5 Max": "Apple M5 Max",
    "Framework 13 (Ryzen AI 5 340)": "CPU DDR5-5600 dual-channel",
    "GMK EVO-X2, Ryzen AI Max+ 395 (64GB unified, ROCm/HIP)": STRIX_HALO,
    "GMKtec G3 Plus (Intel N150) - 16GB": "CPU DDR5-4800 single-channel (N100)",
    "GTX 1650 SUPER": "GTX 1650 SUPER",
    "H100": "H100 SXM",
    "H100 PCIe 80GB": "H100 PCIe",
    "Intel Alder Lake-P GT2 [Iris Xe Graphics] (integrated)": "Iris Xe (DDR4-3200)",
    "Intel Arc A310 ECO": "Arc A310",
    "Intel Arc A770": "Arc A770 16GB",
    "Intel Arc Graphics 130V/140V (integrated)": "Arc 140V (Lunar Lake LPDDR5x-8533)",
    "Intel Core i7-7820HQ": "CPU DDR4-2400 dual-channel",
    "Intel N100": "CPU DDR5-4800 single-channel (N100)",
    "Intel(R) Core(TM) Ultra 7 155H": "CPU DDR5-5600 dual-channel",
    "L40S 48GB": "L40S",
    "M1 Ultra (48 GPU Core) 64GB": "Apple M1 Ultra (48-core)",
    "M4 Mac mini (10 core - 32GB)": "Apple M4",
    "Minisforum MS-R1": "CPU Radxa Orion O6 LPDDR5 128-bit",
    "NVIDIA CMP 170HX 64GB (unlocked HBM2e)": "CMP 170HX",
    "NVIDIA DGX Spark GB10": "DGX Spark GB10",
    "NVIDIA GB10": "DGX Spark GB10",
    "NVIDIA RTX 5880 Ada Generation": "RTX 5880 Ada",
    "Nvidia 4070": "RTX 4070",
    "Nvidia A400": "RTX A400",
    "Nvidia A4000": "RTX A4000",
    "Nvidia RTX A2000": "RTX A2000 12GB",
    "Nvidia Spark": "DGX Spark GB10",
    "Pi 5 - 16GB": "CPU Raspberry Pi 5 LPDDR4X-4267",
    "RTX 2070 Max-Q": "RTX 2070 Max-Q Laptop",
    "RTX 3080": "RTX 3080 10GB",
    "RTX 3080 10GB (UD-IQ2_XXS, 16K, headless)": "RTX 3080 10GB",
    "RTX 3090 24GB (turboquant, n-max 6)": "RTX 3090",
    "RTX 4000 Ada 20GB": "RTX 4000 Ada",
    "RTX 4070 Super": "RTX 4070 SUPER",
    "RTX 4090 24GB (Purusha, LoRA merge)": "RTX 4090",
    "RTX 5060 Laptop 8GB": "RTX 5060 Laptop",
    "RTX 5090 32GB (desktop)": "RTX 5090",
    "RTX 5090 32GB desktop (UD-Q5_K_XL)": "RTX 5090",
    "RTX 5090 mobile 24GB": "RTX 5090 Laptop",
    "RTX A6000 48GB (Ada)": "RTX A6000",
    "RTX PRO 6000 Blackwell 96GB": "RTX PRO 6000 Blackwell",
    "RX 7900 GRE 16GB (Vulkan, packed)": "RX 7900 GRE",
    "RX 7900 XTX (gfx1100)": "RX 7900 XTX",
    "RX 9060 XT": "RX 9060 XT 16GB",
    "Radeon 840M / 860M Graphics": "Radeon 860M (Ryzen AI 7 350)",
    "Raspberry Pi5": "CPU Raspberry Pi 5 LPDDR4X-4267",
    "Ryzen 5900X DDR4-3600 dual": "CPU DDR4-3600 dual-channel",
    "Ryzen AI Max+ 395 / Radeon 8060S 64GB (Linux, Vulkan/RADV)": STRIX_HALO,
    "Ryzen-7950X": "CPU DDR5-4800 dual-channel",
    "T4": "Tesla T4",
    "Tesla V100 PCIe 32GB": "Tesla V100 PCIe 32GB",
    "i5-10600K": "CPU DDR4-2666 dual-channel",
    "i7-1185G7": "CPU DDR4-3200 dual-channel",
}
SEVERAL = {
    "RTX 3060 Ti 8GB + RTX 3080 Ti 12GB (TP, `-sm tensor`)": ["RTX 3060 Ti", "RTX 3080 Ti"],
    "RTX A1000 8GB + Core i9-9900T": ["RTX A1000", "CPU DDR4-2666 dual-channel"],
}
UNKNOWN = {
    "Dell Optiplex 780 (C2Q Q8400)",
    "Framework Mainboard (128GB)",
    "Framework Mainboard Cluster (512GB)",
    "RTX PRO 3000 Blackwell Laptop 12GB",
    "SpacemiT X60",
    "gfx1100 (RX 7900 class)",
    "unspecified multi-GPU",
}


@pytest.mark.parametrize(("text", "name"), MEANT.items())
def test_a_table_name_finds_its_device(text: str, name: str) -> None:
    device = find_written(text)
    assert device is not None
    assert device.name == name


@pytest.mark.parametrize(("text", "names"), SEVERAL.items())
def test_a_table_name_of_several_devices_finds_all(text: str, names: list[str]) -> None:
    assert [meant.device.name for meant in devices_written(text)] == names
    assert find_written(text) is None


def test_every_measurement_row_names_a_device_except_known_ones() -> None:
    with MEASUREMENTS.open(encoding="utf-8") as file:
        written = {row["hardware"] for row in csv.DictReader(file)}
    assert {text for text in written if not devices_written(text)} == UNKNOWN


@pytest.mark.parametrize(
    ("text", "name", "how_many"),
    [
        ("2x RTX 3090", "RTX 3090", 2),
        ("2xRTX3090", "RTX 3090", 2),
        ("RTX 3090 x2", "RTX 3090", 2),
        ("RTX 3090 24GB (x4)", "RTX 3090", 4),
        ("Dual RTX 3090", "RTX 3090", 2),
        ("8x H100 SXM 80GB", "H100 SXM", 8),
        ("4 x NVIDIA GeForce RTX 4090", "RTX 4090", 4),
        ("RTX 3090 PCIe 4.0 x16", "RTX 3090", 1),
        ("RTX 4090 (24GB)", "RTX 4090", 1),
    ],
)
def test_device_counts_are_parsed(text: str, name: str, how_many: int) -> None:
    assert [(meant.device.name, meant.how_many) for meant in devices_written(text)] == [(name, how_many)]


VENDORS = {"NVIDIA": ("NVIDIA ", "NVIDIA GeForce ", "Nvidia "), "AMD": ("AMD ", "AMD Radeon "), "Intel": ("Intel ",)}


@pytest.mark.parametrize("device", all_gpus(), ids=lambda d: d.name)
def test_names_with_vendor_prefix_and_memory_suffix_find_the_device(device) -> None:
    texts = [device.name, device.name.upper(), *(prefix + device.name for prefix in VENDORS.get(device.vendor, ()))]
    sizes = {size >> 30 for size in (device.memory_bytes, *device.memory_sizes_bytes) if size}
    texts += [form.format(text=device.name, size=size) for size in sizes for form in FORMS if " GB" not in device.name]
    if device.vendor == "Apple" and device.units:
        bare = device.name.split(" (")[0]
        texts += [f"{bare} ({device.units}-core GPU)", f"{bare} {device.units}-Core GPU {min(sizes)}GB"]
    for text in texts:
        found = find_written(text)
        assert found is not None, text
        assert found.memory_bytes_per_s == device.memory_bytes_per_s, text


FORMS = ("{text} {size}GB", "{text} ({size}GB)", "{text} {size} GB (Q4_K_M, 32K)")


@pytest.mark.parametrize(
    ("model_name", "platform"),
    [
        ("AMD Ryzen 9 7950X 16-Core Processor", "CPU DDR5-4800 dual-channel"),
        ("AMD Ryzen 9 9950X 16-Core Processor", "CPU DDR5-5600 dual-channel"),
        ("AMD Ryzen 7 5800X3D 8-Core Processor", "CPU DDR4-3200 dual-channel"),
        ("AMD Ryzen Threadripper PRO 5975WX 32-Cores", "CPU Threadripper PRO 5000WX 8ch DDR4-3200"),
        ("AMD Ryzen Threadripper 3970X 32-Core Processor", "CPU Threadripper 3000 4ch DDR4-3200"),
        ("AMD EPYC 9374F 32-Core Processor", "CPU EPYC 9004 12ch DDR5-4800"),
        ("2x AMD EPYC 9334", "CPU 2x EPYC 9004 24ch DDR5-4800"),
        ("Ryzen 9 7950X DDR5-3600", "CPU DDR5-3600 dual-channel (4 DIMM AM5)"),
        ("Ryzen 9 9950X DDR5-6000 dual channel", "CPU DDR5-6000 dual-channel"),
        ("AMD EPYC 9575F 64-Core Processor", "CPU EPYC 9005 12ch DDR5-6000"),
        ("AMD EPYC 7763 64-Core Processor", "CPU EPYC 7002/7003 8ch DDR4-3200"),
        ("Intel(R) Xeon(R) Platinum 8480+", "CPU Xeon Sapphire Rapids 8ch DDR5-4800"),
        ("Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz", "CPU Xeon Scalable 2nd gen 6ch DDR4-2933"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "CPU Xeon E5 v3/v4 4ch DDR4-2400"),
        ("Intel(R) Core(TM) i7-4770K CPU @ 3.50GHz", "CPU DDR3-1600 dual-channel"),
        ("12th Gen Intel(R) Core(TM) i9-12900K", "CPU DDR5-4800 dual-channel"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "CPU DDR5-5600 dual-channel"),
        ("Intel(R) Core(TM) Ultra 9 285K", "CPU DDR5-6400 dual-channel"),
        ("Intel(R) Core(TM) Ultra 7 258V", "CPU LPDDR5x-8533 128-bit"),
        ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "CPU LPDDR5x-7500 128-bit"),
        ("Orange Pi 5 Plus", "CPU RK3588 LPDDR4X/5"),
        ("Raspberry Pi 5 Model B Rev 1.1", "CPU Raspberry Pi 5 LPDDR4X-4267"),
        ("Raspberry Pi 400 Rev 1.0", "CPU Raspberry Pi 4 LPDDR4-3200"),
    ],
)
def test_a_cpu_model_finds_its_memory_platform(model_name: str, platform: str) -> None:
    found = find_cpu(model_name)
    assert found is not None
    assert found.name == platform


@pytest.mark.parametrize("model_name", ["", "Intel(R) Pentium(R) 4 CPU 3.00GHz", "QEMU Virtual CPU version 2.5+"])
def test_an_unknown_cpu_has_no_platform(model_name: str) -> None:
    assert find_cpu(model_name) is None
