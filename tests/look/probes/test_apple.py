import pytest
from doubles import FakeSystem

from unslow.facts.machine import Machine
from unslow.facts.values import Absence, Origin, Unknown
from unslow.look.probes.apple import IOREG, POWER, PROFILER, SYSCTL, VERSION, VM_STAT, read
from unslow.look.system import FinishedCommand, LookError

GIB, MHZ = 1024**3, 10**6
PLIST = "<dict>\n\t<key>ProductVersion</key>\n\t<string>15.3</string>\n</dict>"
ANSWERS = {
    SYSCTL: "hw.model: Mac14,10\nhw.memsize: 34359738368\nhw.physicalcpu: 12\nhw.perflevel0.physicalcpu: 8\n"
    "hw.perflevel1.physicalcpu: 4\nmachdep.cpu.brand_string: Apple M2 Pro\niogpu.wired_limit_mb: 0\n"
    "vm.swapusage: total = 3072.00M  used = 1851.25M  free = 1220.75M  (encrypted)\n"
    "kern.memorystatus_vm_pressure_level: 4\n",
    VM_STAT: "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free: 4518.\nPages inactive: 191193.\n"
    "Pages speculative: 3014.\nPages wired down: 1400000.\nPages occupied by compressor: 454496.\nSwapouts: 929703.\n",
    PROFILER: "Graphics/Displays:\n\n    Apple M2 Pro:\n\n      Chipset Model: Apple M2 Pro\n      Type: GPU\n"
    "      Bus: Built-In\n      Total Number of Cores: 19\n      Vendor: Apple (0x106b)\n"
    "      Metal Support: Metal 3\n",
    IOREG: '"PerformanceStatistics" = {"In use system memory"=19928219136,"Device Utilization %"=99}\n',
}
ROOT = "GPU HW active frequency: 1200 MHz\nGPU Power: 11404 mW\n\nCurrent pressure level: Heavy\n"


def mac(answers: dict[tuple[str, ...], str]) -> FakeSystem:
    commands = {" ".join(command): FinishedCommand(0, text, "") for command, text in answers.items()}
    return FakeSystem(files={VERSION: PLIST}, commands=commands)


def test_an_apple_machine_gives_memory_and_gpu_facts():
    machine = read(mac(ANSWERS))
    assert (machine.system.name.need(), machine.cpu.model.need()) == ("macOS 15.3", "Apple M2 Pro")
    assert (machine.cpu.performance_cores.need(), machine.cpu.efficiency_cores.need()) == (8, 4)
    memory = machine.memory
    assert (memory.total_bytes.need(), memory.pressure.need()) == (32 * GIB, "critical")
    assert (memory.wired_bytes.need(), memory.compressed_bytes.need()) == (1400000 * 16384, 454496 * 16384)
    assert memory.swap_used_bytes.need() == int(1851.25 * 1024**2)
    (gpu,) = machine.gpus.need()
    assert (gpu.vendor.need(), gpu.kind.need(), gpu.cores.need()) == ("Apple", "integrated", 19)
    assert (gpu.architecture.need(), gpu.busy.need()) == ("Metal 3", 0.99)
    assert (gpu.vram_total_bytes.need(), gpu.vram_total_bytes.origin) == (32 * GIB * 2 // 3, Origin.ESTIMATED)
    assert gpu.vram_used_bytes.need() == 19928219136
    assert gpu.vram_free_bytes.need() == 32 * GIB * 2 // 3 - 19928219136


def test_facts_that_need_root_say_how_to_get_them():
    machine = read(mac(ANSWERS))
    for fact in (machine.gpus.need()[0].clock_hz, machine.gpus.need()[0].power_w, machine.cpu.thermal_pressure):
        assert fact.absence is Absence.NOT_SUPPORTED
        assert fact.how_to_get.startswith("sudo powermetrics")


def test_powermetrics_as_root_gives_clock_power_and_thermal_pressure():
    machine = read(mac({**ANSWERS, POWER: ROOT}))
    (gpu,) = machine.gpus.need()
    assert (gpu.clock_hz.need(), gpu.power_w.need()) == (1200 * MHZ, 11.404)
    assert machine.cpu.thermal_pressure.need() == "Heavy"
    assert gpu.name.need() == "Apple M2 Pro"


def test_a_raised_wired_limit_is_the_vram_total():
    raised = ANSWERS[SYSCTL].replace("wired_limit_mb: 0", "wired_limit_mb: 28672")
    (gpu,) = read(mac({**ANSWERS, SYSCTL: raised})).gpus.need()
    assert (gpu.vram_total_bytes.need(), gpu.vram_total_bytes.origin) == (28 * GIB, Origin.REPORTED)


@pytest.mark.parametrize("missing", list(ANSWERS), ids=lambda command: command[0])
def test_a_missing_macos_command_loses_only_its_facts(missing: tuple[str, ...]):
    machine = read(mac({command: text for command, text in ANSWERS.items() if command != missing}))
    assert machine.system.name.need() == "macOS 15.3"
    silent = FakeSystem(files={VERSION: "x"}, commands={" ".join(missing): LookError("no answer in 15 s")})
    assert not isinstance(read(silent).gpus, Unknown) or read(silent).gpus.absence is Absence.NOT_LOOKED


def test_linux_sysctl_does_not_make_a_mac():
    assert read(FakeSystem(commands={" ".join(SYSCTL): FinishedCommand(0, "vm.swappiness = 60\n", "")})) == Machine()


def test_free_gpu_memory_is_at_most_the_available_ram():
    (gpu,) = read(mac(ANSWERS)).gpus.need()
    available = (4518 + 191193 + 3014) * 16384
    assert gpu.vram_total_bytes.need() - gpu.vram_used_bytes.need() < available, "the limit is what binds here"
    roomy = ANSWERS | {IOREG: ANSWERS[IOREG].replace("19928219136", "1992821913")}
    (idle,) = read(mac(roomy)).gpus.need()
    assert idle.vram_free_bytes.need() == available
