import pytest

from unslow.facts.machine import Machine, Memory
from unslow.facts.values import NOT_LOOKED, Known, Origin, Unknown
from unslow.look.logs import macos
from unslow.look.logs.dialect import Text

GIB, MIB, PAGE, MHZ = 1024**3, 1024**2, 16384, 10**6

# a Mac of 16 GiB under pressure: both commands in one paste
VM_STAT = """\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                4518.
Pages active:                            194947.
Pages inactive:                          191193.
Pages speculative:                         3014.
Pages throttled:                              0.
Pages wired down:                        159117.
Pages purgeable:                            630.
"Translation faults":                 574921966.
Pages copy-on-write:                   38671927.
File-backed pages:                       141843.
Anonymous pages:                         247311.
Pages stored in compressor:             1022243.
Pages occupied by compressor:            454496.
Decompressions:                        73011127.
Compressions:                          92304380.
Pageins:                                7854456.
Pageouts:                                320741.
Swapins:                                 470789.
Swapouts:                                929703.
"""
PRESSURE = """\
The system has 17179869184 (1048576 pages with a page size of 16384).

Stats:
Pages free: 4490
Pages purgeable: 630

Swap I/O:
Swapins: 470789
Swapouts: 929703

Page Q counts:
Pages active: 194990
Pages inactive: 191194
Pages speculative: 3014
Pages wired down: 159117

Compressor Stats:
Pages used by compressor: 454496

System-wide memory free percentage: 38%
"""
SYSCTL = """\
hw.model: Mac15,9
hw.memsize: 68719476736
hw.physicalcpu: 16
hw.logicalcpu: 16
hw.perflevel0.physicalcpu: 12
hw.perflevel1.physicalcpu: 4
machdep.cpu.brand_string: Apple M3 Max
iogpu.wired_limit_mb: 0
vm.swapusage: total = 2048.00M  used = 512.00M  free = 1536.00M  (encrypted)
kern.memorystatus_vm_pressure_level: 2
kern.osproductversion: 15.3
"""
DISPLAYS = """\
Graphics/Displays:

    Apple M2 Pro:

      Chipset Model: Apple M2 Pro
      Type: GPU
      Bus: Built-In
      Total Number of Cores: 19
      Vendor: Apple (0x106b)
      Metal Support: Metal 3
      Displays:
        Color LCD:
          Display Type: Built-In Liquid Retina XDR Display
"""
HARDWARE = """\
Hardware:

    Hardware Overview:

      Model Name: MacBook Pro
      Model Identifier: Mac16,1
      Chip: Apple M4 Pro
      Total Number of Cores: 14 (10 performance and 4 efficiency)
      Memory: 24 GB
"""
INTEL_MAC = """\
    AMD Radeon Pro 5500M:

      Chipset Model: AMD Radeon Pro 5500M
      Type: GPU
      Bus: PCIe
      PCIe Lane Width: x16
      VRAM (Total): 8 GB
      Vendor: AMD (0x1002)
      Metal Support: Metal 3
"""
# an M2 Pro at rest, as henrygd/beszel tests its agent with, and the thermal sampler
POWER = """\
Machine model: Mac14,10
OS version: 25D125

*** Sampled system activity (Sat Feb 14 00:42:06 2026 -0500) (503.05ms elapsed) ***

**** GPU usage ****

GPU HW active frequency: 444 MHz
GPU HW active residency:   0.97% (444 MHz: .97% 612 MHz:   0% 808 MHz:   0% 968 MHz:   0% 1398 MHz:   0%)
GPU SW requested state: (P1 : 100% P2 :   0% P3 :   0%)
GPU idle residency:  99.03%
GPU Power: 4 mW

**** Thermal pressure ****

Current pressure level: Nominal
"""
IOREG = """\
+-o AGXAcceleratorG17G  <class AGXAcceleratorG17G, id 0x100000534>
    {
      "model" = "Apple M5"
      "gpu-core-count" = 10
      "PerformanceStatistics" = {"In use system memory"=928219136,"Device Utilization %"=42,"Tiler Utilization %"=35}
    }
"""


@pytest.mark.parametrize("text", ["hw.memsize: 99999999999999999999", "hw.memsize: nan", "hw.memsize: 1e30"])
def test_an_out_of_range_memsize_is_not_a_fact(text: str):
    assert not isinstance(macos.parse_sysctl(text).memory.total_bytes, Known)


def test_an_out_of_range_page_count_is_not_a_fact():
    text = "(page size of 65536 bytes)\nPages wired down: 999999999999999.\n"
    assert isinstance(macos.parse_vm_stat(text).wired_bytes, Unknown)


@pytest.mark.parametrize("text", [VM_STAT, PRESSURE])
def test_vm_stat_pages_are_converted_to_bytes(text: str):
    memory = macos.parse_vm_stat(text)
    assert memory.wired_bytes.need() == 159117 * PAGE
    assert memory.compressed_bytes.need() == 454496 * PAGE
    assert (memory.swapped_in_bytes.need(), memory.swapped_out_bytes.need()) == (470789 * PAGE, 929703 * PAGE)
    assert memory.available_bytes.origin is Origin.ESTIMATED
    assert memory.available_bytes.need() // PAGE == pytest.approx(4518 + 191193 + 3014, abs=100)


def test_total_memory_comes_from_memory_pressure_only():
    assert macos.parse_vm_stat(PRESSURE).total_bytes.need() == 16 * GIB
    assert macos.parse_vm_stat(VM_STAT).total_bytes == NOT_LOOKED
    assert macos.parse_vm_stat(VM_STAT).wired_bytes.source == "vm_stat:7"


def test_sysctl_of_a_mac_is_parsed():
    machine = macos.parse_sysctl(SYSCTL)
    assert (machine.cpu.model.need(), machine.cpu.physical_cores.need()) == ("Apple M3 Max", 16)
    assert (machine.cpu.performance_cores.need(), machine.cpu.efficiency_cores.need()) == (12, 4)
    assert (machine.memory.total_bytes.need(), machine.memory.pressure.need()) == (64 * GIB, "warn")
    assert (machine.memory.swap_total_bytes.need(), machine.memory.swap_used_bytes.need()) == (2048 * MIB, 512 * MIB)
    assert machine.system.version.need() == "15.3"
    assert machine.memory.pressure.source == "sysctl:10"


@pytest.mark.parametrize(("gib", "limit_gib"), [(16, 10.67), (24, 16), (32, 21.33), (36, 27), (64, 48), (128, 96)])
def test_the_default_wired_limit_matches_observed_macs(gib: int, limit_gib: float):
    """Expected values: recommendedMaxWorkingSetSize in llama.cpp logs of Macs of these sizes."""
    memory = macos.parse_sysctl(f"hw.memsize: {gib * GIB}\niogpu.wired_limit_mb: 0\n").memory
    assert memory.wired_limit_bytes.need() / GIB == pytest.approx(limit_gib, abs=0.01)
    assert memory.wired_limit_bytes.origin is Origin.ESTIMATED


def test_a_configured_wired_limit_is_reported():
    memory = macos.parse_sysctl("hw.memsize: 34359738368\niogpu.wired_limit_mb: 26624\n").memory
    assert memory.wired_limit_bytes.need() == 26624 * MIB
    assert memory.wired_limit_bytes.origin is Origin.REPORTED


def test_linux_sysctl_output_gives_no_facts():
    assert macos.parse_sysctl("vm.swappiness = 60\nkernel.osrelease = 6.8.0\nvm.overcommit_memory = 0\n") == Machine()


def test_an_apple_gpu_is_parsed_from_system_profiler():
    (gpu,) = macos.parse_system_profiler(DISPLAYS).gpus.need()
    assert (gpu.name.need(), gpu.vendor.need(), gpu.kind.need()) == ("Apple M2 Pro", "Apple", "integrated")
    assert (gpu.cores.need(), gpu.architecture.need()) == (19, "Metal 3")
    assert gpu.vram_total_bytes == NOT_LOOKED


def test_a_discrete_gpu_of_an_intel_mac_is_parsed():
    (gpu,) = macos.parse_system_profiler(INTEL_MAC).gpus.need()
    assert (gpu.vendor.need(), gpu.kind.need(), gpu.vram_total_bytes.need()) == ("AMD", "discrete", 8 * GIB)


@pytest.mark.parametrize("text", [HARDWARE + DISPLAYS, DISPLAYS + HARDWARE])
def test_gpu_cores_and_cpu_cores_of_system_profiler_are_separate(text: str):
    machine = macos.parse_system_profiler(text)
    assert (machine.cpu.model.need(), machine.cpu.physical_cores.need()) == ("Apple M4 Pro", 14)
    assert (machine.cpu.performance_cores.need(), machine.cpu.efficiency_cores.need()) == (10, 4)
    assert machine.memory.total_bytes.need() == 24 * GIB
    assert machine.gpus.need()[0].cores.need() == 19


def test_powermetrics_is_parsed():
    machine = macos.parse_powermetrics(POWER)
    (gpu,) = machine.gpus.need()
    assert (gpu.clock_hz.need(), gpu.clock_max_hz.need(), gpu.power_w.need()) == (444 * MHZ, 1398 * MHZ, 0.004)
    assert gpu.busy.need() == pytest.approx(0.0097)
    assert machine.cpu.thermal_pressure.need() == "Nominal"


def test_ioreg_is_parsed():
    (gpu,) = macos.parse_ioreg(IOREG)
    assert (gpu.name.need(), gpu.cores.need(), gpu.busy.need()) == ("Apple M5", 10, 0.42)
    assert gpu.vram_used_bytes.need() == 928219136


@pytest.mark.parametrize(
    ("dialect", "block"),
    [("vm_stat", VM_STAT), ("vm_stat", PRESSURE), ("sysctl", SYSCTL), ("system_profiler", HARDWARE),
     ("system_profiler", DISPLAYS), ("powermetrics", POWER), ("ioreg", IOREG)],
)  # fmt: skip
def test_macos_tool_output_is_found_amid_prose(dialect: str, block: str):
    parse_text = macos.TEXT_DIALECTS[dialect]
    lines = ["My Mac became slow.", "", *block.splitlines(), "", "Why?"]
    seen = parse_text(Text(lines, "post.md"))
    assert seen.machine != Machine()
    assert seen.lines
    assert parse_text(Text(["My Mac became slow.", "", "Why?"], "post.md")).lines == 0
    assert "post.md:" in repr(seen.machine)


@pytest.mark.parametrize(
    "text", ["", "\x00", ":" * 10**5, "Pages free: x", "hw.memsize: -1", "Chipset Model:", "GPU Power: W", '"model" = ']
)
def test_garbage_and_truncated_macos_output_gives_no_facts(text: str):
    assert macos.parse_vm_stat(text) == Memory()
    assert macos.parse_ioreg(text) == ()
    for parse in (macos.parse_sysctl, macos.parse_system_profiler, macos.parse_powermetrics):
        assert not isinstance(parse(text).memory.total_bytes.value_or(None), int)
