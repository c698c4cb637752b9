"""Every string that a driver reports leads to the right device, or to none."""

import pytest

from unslow.catalog.devices import all_devices, all_processors, find_device
from unslow.facts.values import GIB

NVIDIA_SMI = [
    ("NVIDIA GeForce GTX 1050 Ti", 4, "GTX 1050 Ti"),
    ("NVIDIA GeForce GTX 1060 3GB", 3, "GTX 1060 3GB"),
    ("NVIDIA GeForce GTX 1060 6GB", 6, "GTX 1060 6GB"),
    ("NVIDIA GeForce GTX 1060", 6, "GTX 1060 6GB"),
    ("GeForce GTX 1070 with Max-Q Design", 8, "GTX 1070 Max-Q Laptop"),
    ("NVIDIA GeForce GTX 1080 Ti", 11, "GTX 1080 Ti"),
    ("NVIDIA GeForce GTX 1650", 4, "GTX 1650"),
    ("NVIDIA GeForce GTX 1650 with Max-Q Design", 4, "GTX 1650 Max-Q Laptop"),
    ("NVIDIA GeForce GTX 1650 SUPER", 4, "GTX 1650 SUPER"),
    ("NVIDIA GeForce GTX 1660 Ti", 6, "GTX 1660 Ti"),
    ("NVIDIA GeForce GTX 1660 Ti with Max-Q Design", 6, "GTX 1660 Ti Max-Q Laptop"),
    ("NVIDIA GeForce RTX 2060", 6, "RTX 2060"),
    ("NVIDIA GeForce RTX 2060", 12, "RTX 2060 12GB"),
    ("NVIDIA GeForce RTX 2060 SUPER", 8, "RTX 2060 SUPER"),
    ("NVIDIA GeForce RTX 2070 with Max-Q Design", 8, "RTX 2070 Max-Q Laptop"),
    ("NVIDIA GeForce RTX 2070 Super with Max-Q Design", 8, "RTX 2070 SUPER Max-Q Laptop"),
    ("NVIDIA GeForce RTX 2080 Ti", 11, "RTX 2080 Ti"),
    ("NVIDIA GeForce RTX 2080 Ti", 22, "RTX 2080 Ti"),
    ("NVIDIA GeForce RTX 3050", 8, "RTX 3050"),
    ("NVIDIA GeForce RTX 3050", 6, "RTX 3050 6GB"),
    ("NVIDIA GeForce RTX 3050 Laptop GPU", 4, "RTX 3050 Laptop"),
    ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", 6, "RTX 3050 Laptop 6GB"),
    ("NVIDIA GeForce RTX 3050 Ti Laptop GPU", 4, "RTX 3050 Ti Laptop"),
    ("NVIDIA GeForce RTX 3060", 12, "RTX 3060"),
    ("NVIDIA GeForce RTX 3060", 8, "RTX 3060 8GB"),
    ("NVIDIA GeForce RTX 3060 Ti", 8, "RTX 3060 Ti"),
    ("NVIDIA GeForce RTX 3060 Laptop GPU", 6, "RTX 3060 Laptop"),
    ("NVIDIA GeForce RTX 3070 Ti Laptop GPU", 8, "RTX 3070 Ti Laptop"),
    ("NVIDIA GeForce RTX 3080", 10, "RTX 3080 10GB"),
    ("NVIDIA GeForce RTX 3080", 12, "RTX 3080 12GB"),
    ("NVIDIA GeForce RTX 3080 Ti", 12, "RTX 3080 Ti"),
    ("NVIDIA GeForce RTX 3080 Laptop GPU", 8, "RTX 3080 Laptop 8GB"),
    ("NVIDIA GeForce RTX 3080 Laptop GPU", 16, "RTX 3080 Laptop 16GB"),
    ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", 16, "RTX 3080 Ti Laptop"),
    ("NVIDIA GeForce RTX 3090", 24, "RTX 3090"),
    ("NVIDIA GeForce RTX 3090 Ti", 24, "RTX 3090 Ti"),
    ("NVIDIA GeForce RTX 4060 Ti", 16, "RTX 4060 Ti 16GB"),
    ("NVIDIA GeForce RTX 4060 Ti", 8, "RTX 4060 Ti 8GB"),
    ("NVIDIA GeForce RTX 4060 Laptop GPU", 8, "RTX 4060 Laptop"),
    ("NVIDIA GeForce RTX 4070", 12, "RTX 4070"),
    ("NVIDIA GeForce RTX 4070 Laptop GPU", 8, "RTX 4070 Laptop"),
    ("NVIDIA GeForce RTX 4070 Ti", 12, "RTX 4070 Ti"),
    ("NVIDIA GeForce RTX 4070 SUPER", 12, "RTX 4070 SUPER"),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", 16, "RTX 4070 Ti SUPER"),
    ("NVIDIA GeForce RTX 4080 SUPER", 16, "RTX 4080 SUPER"),
    ("NVIDIA GeForce RTX 4090", 24, "RTX 4090"),
    ("NVIDIA GeForce RTX 4090", 48, "RTX 4090"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, "RTX 4090 Laptop"),
    ("NVIDIA GeForce RTX 4090 D", 24, "RTX 4090 D"),
    ("NVIDIA GeForce RTX 5060 Ti", 16, "RTX 5060 Ti 16GB"),
    ("NVIDIA GeForce RTX 5070 Ti Laptop GPU", 12, "RTX 5070 Ti Laptop"),
    ("NVIDIA GeForce RTX 5090", 32, "RTX 5090"),
    ("NVIDIA GeForce RTX 5090 D", 32, "RTX 5090 D"),
    ("NVIDIA GeForce RTX 5090 D v2", 24, "RTX 5090 D v2"),
    ("NVIDIA GeForce RTX 5090 Laptop GPU", 24, "RTX 5090 Laptop"),
    ("NVIDIA TITAN RTX", 24, "TITAN RTX"),
    ("NVIDIA TITAN V", 12, "TITAN V"),
    ("NVIDIA TITAN Xp", 12, "TITAN Xp"),
    ("NVIDIA TITAN X (Pascal)", 12, "TITAN X (Pascal)"),
    ("Quadro RTX 8000", 48, "Quadro RTX 8000"),
    ("Quadro RTX 5000", 16, "Quadro RTX 5000"),
    ("Quadro P6000", 24, "Quadro P6000"),
    ("NVIDIA RTX A2000 12GB", 12, "RTX A2000 12GB"),
    ("NVIDIA RTX A2000", 6, "RTX A2000 6GB"),
    ("NVIDIA RTX A2000 8GB Laptop GPU", 8, "RTX A2000 Laptop 8GB"),
    ("NVIDIA RTX A4000", 16, "RTX A4000"),
    ("NVIDIA RTX A4000 Laptop GPU", 8, "RTX A4000 Laptop"),
    ("NVIDIA RTX A6000", 48, "RTX A6000"),
    ("NVIDIA RTX 2000 Ada Generation", 16, "RTX 2000 Ada"),
    ("NVIDIA RTX 2000 Ada Generation Laptop GPU", 8, "RTX 2000 Ada Laptop"),
    ("NVIDIA RTX 4000 Ada Generation", 20, "RTX 4000 Ada"),
    ("NVIDIA RTX 4000 SFF Ada Generation", 20, "RTX 4000 SFF Ada"),
    ("NVIDIA RTX 5880 Ada Generation", 48, "RTX 5880 Ada"),
    ("NVIDIA RTX 6000 Ada Generation", 48, "RTX 6000 Ada"),
    ("NVIDIA RTX PRO 4000 Blackwell", 24, "RTX PRO 4000 Blackwell"),
    ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", 24, "RTX PRO 4000 Blackwell SFF"),
    ("NVIDIA RTX PRO 5000 Blackwell", 48, "RTX PRO 5000 Blackwell"),
    ("NVIDIA RTX PRO 5000 72GB Blackwell", 72, "RTX PRO 5000 Blackwell 72GB"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 96, "RTX PRO 6000 Blackwell"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, "RTX PRO 6000 Blackwell"),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 96, "RTX PRO 6000 Blackwell Max-Q"),
    ("Tesla T4", 15, "Tesla T4"),
    ("Tesla P4", 8, "Tesla P4"),
    ("Tesla P40", 24, "Tesla P40"),
    ("Tesla M40 24GB", 24, "Tesla M40 24GB"),
    ("Tesla P100-PCIE-16GB", 16, "Tesla P100 PCIe 16GB"),
    ("Tesla P100-PCIE-12GB", 12, "Tesla P100 PCIe 12GB"),
    ("Tesla P100-SXM2-16GB", 16, "Tesla P100 SXM2 16GB"),
    ("Tesla V100-SXM2-16GB", 16, "Tesla V100 SXM2 16GB"),
    ("Tesla V100-SXM2-32GB", 32, "Tesla V100 SXM2 32GB"),
    ("Tesla V100-PCIE-32GB", 32, "Tesla V100 PCIe 32GB"),
    ("NVIDIA A2", 16, "A2"),
    ("NVIDIA A10", 24, "A10"),
    ("NVIDIA A10G", 23, "A10G"),
    ("NVIDIA A30", 24, "A30"),
    ("NVIDIA A40", 45, "A40"),
    ("NVIDIA A100-SXM4-40GB", 40, "A100 40GB SXM"),
    ("NVIDIA A100-SXM4-80GB", 80, "A100 80GB SXM"),
    ("NVIDIA A100-PCIE-40GB", 40, "A100 40GB PCIe"),
    ("NVIDIA A100 80GB PCIe", 80, "A100 80GB PCIe"),
    ("NVIDIA H100 80GB HBM3", 80, "H100 SXM"),
    ("NVIDIA H100 PCIe", 80, "H100 PCIe"),
    ("NVIDIA H100 NVL", 94, "H100 NVL"),
    ("NVIDIA H200", 140, "H200 SXM"),
    ("NVIDIA H200 NVL", 140, "H200 NVL"),
    ("NVIDIA H20", 96, "H20"),
    ("NVIDIA GH200 480GB", 96, "GH200 96GB"),
    ("NVIDIA B200", 179, "B200 SXM"),
    ("NVIDIA L4", 23, "L4"),
    ("NVIDIA L40", 45, "L40"),
    ("NVIDIA L40S", 45, "L40S"),
    ("NVIDIA GB10", 119, "DGX Spark GB10"),
    ("Orin (nvgpu)", 61, "Jetson AGX Orin 64GB"),
    ("NVIDIA Thor", 122, "Jetson Thor T5000"),
]
ROCM_AND_VULKAN = [
    ("AMD Radeon RX 7900 XTX", 24, "RX 7900 XTX"),
    ("Radeon RX 7900 XTX", 24, "RX 7900 XTX"),
    ("Radeon RX 7900 XT/7900 XTX", 24, "RX 7900 XTX"),
    ("Radeon RX 7900 XT/7900 XTX", 20, "RX 7900 XT"),
    ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", 20, "RX 7900 XT"),
    ("AMD Radeon RX 7900 GRE", 16, "RX 7900 GRE"),
    ("AMD Radeon RX 6800 XT (RADV NAVI21)", 16, "RX 6800 XT"),
    ("AMD Radeon RX 6800 (RADV NAVI21)", 16, "RX 6800"),
    ("AMD Radeon RX 6600M (RADV NAVI23)", 8, "RX 6600M"),
    ("AMD Radeon RX 9070 XT (RADV GFX1201)", 16, "RX 9070 XT"),
    ("AMD Radeon RX 9060 XT (RADV GFX1200)", 16, "RX 9060 XT 16GB"),
    ("AMD Radeon AI PRO R9700", 32, "Radeon AI PRO R9700"),
    ("AMD Radeon PRO W7900", 45, "Radeon Pro W7900"),
    ("AMD Radeon PRO W7800 48GB", 48, "Radeon Pro W7800 48GB"),
    ("AMD Radeon VII (RADV VEGA20)", 16, "Radeon VII"),
    ("Radeon RX 580 Series (RADV POLARIS10)", 8, "RX 580"),
    ("AMD Instinct MI300X", 192, "MI300X"),
    ("AMD Instinct MI300X OAM", 192, "MI300X"),
    ("AMD Instinct MI100", 32, "MI100"),
    ("AMD Instinct MI50/MI60", 32, "MI50 32GB"),
    ("gfx1151", 0, "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"),
    ("gfx1100", 24, "RX 7900 XTX"),
    ("AMD Radeon Graphics, gfx90a:sramecc+:xnack-", 64, "MI210"),
    ("Radeon 8060S Graphics (RADV GFX1151)", 96, "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"),
    ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", 0, "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"),
    ("AMD Radeon 890M Graphics (RADV GFX1150)", 16, "Radeon 890M (Ryzen AI 9 HX 370, LPDDR5x-7500)"),
    ("AMD Radeon 780M Graphics (RADV PHOENIX)", 16, "Radeon 780M (DDR5-5600)"),
    ("AMD Radeon Graphics (RADV GFX1103_R1)", 16, "Radeon 780M (DDR5-5600)"),
    ("Intel(R) Arc(tm) B580 Graphics (BMG G21)", 12, "Arc B580"),
    ("Intel(R) Arc(TM) A770 Graphics", 16, "Arc A770 16GB"),
    ("Intel(R) Arc(tm) A770 Graphics (DG2)", 8, "Arc A770 8GB"),
    ("Intel(R) Arc(TM) Pro B60 Graphics", 24, "Arc Pro B60"),
    ("Intel(R) Arc(TM) 140V GPU (16GB)", 16, "Arc 140V (Lunar Lake LPDDR5x-8533)"),
    ("Intel(R) Iris(R) Xe Graphics (TGL GT2)", 0, "Iris Xe (DDR4-3200)"),
    ("NVIDIA GeForce RTX 3090", 24, "RTX 3090"),
]
LSPCI = [
    ("NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)", 0, "RTX 3090"),
    ("NVIDIA Corporation AD107M [GeForce RTX 4060 Max-Q / Mobile] (rev a1)", 0, "RTX 4060 Laptop"),
    ("Advanced Micro Devices, Inc. [AMD/ATI] Vega 20 [Radeon Pro VII/Radeon Instinct MI50 32GB]", 32, "MI50 32GB"),
    ("Intel Corporation Battlemage G21 [Arc B580]", 0, "Arc B580"),
]
METAL = [
    ("Apple M1", 16, "Apple M1"),
    ("Apple M2 Ultra", 192, "Apple M2 Ultra"),
    ("Apple M3 Max", 36, "Apple M3 Max (30-core)"),
    ("Apple M3 Max", 96, "Apple M3 Max (30-core)"),
    ("Apple M3 Max", 128, "Apple M3 Max"),
    ("Apple M4 Max", 36, "Apple M4 Max (32-core)"),
    ("Apple M4 Pro", 24, "Apple M4 Pro"),
    ("Apple M5", 32, "Apple M5"),
]


@pytest.mark.parametrize(("reported", "memory_gib", "name"), NVIDIA_SMI + ROCM_AND_VULKAN + LSPCI + METAL)
def test_reported_driver_names_find_their_device(reported, memory_gib, name):
    found = find_device(reported, memory_gib * GIB)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "reported",
    [
        *("NVIDIA GeForce RTX 9999", "llvmpipe (LLVM 15)", "", "NVIDIA", "Matrox G200", "AMD Radeon Graphics", "GPU"),
        *("NVIDIA GeForce RTX 4080 Ti", "NVIDIA GeForce RTX 5080 D", "NVIDIA GeForce RTX 4070 Max-Q", "Tesla M4"),
        *("NVIDIA RTX PRO 3000 Blackwell Laptop GPU", "NVIDIA RTX 5000 Blackwell", "Intel(R) Arc(TM) Graphics"),
        *("AMD Radeon RX 7900", "AMD Radeon RX 6800 XTX", "NVIDIA driver 580", "NVIDIA GeForce 210", "Apple M9"),
    ],
)
def test_unknown_driver_names_find_no_device(reported):
    assert find_device(reported) is None


@pytest.mark.parametrize("reported", ["Orin (nvgpu)", "gfx1100", "Radeon RX 7900 XT/7900 XTX", "RTX 3090 and RTX 4090"])
def test_ambiguous_names_without_memory_find_no_device(reported):
    assert find_device(reported) is None


def test_a_very_long_name_is_looked_up_in_bounded_time():
    assert find_device("RTX 3090 " + "x(" * 500_000) is not None
    assert find_device("9" * 500_000) is None


def test_processors_are_loaded_without_the_other_devices():
    assert all_processors() == tuple(device for device in all_devices() if device.kind == "cpu")
