from doubles import FakeSystem

from unslow.facts.values import Absence, Origin, Unknown
from unslow.look.kernel import CPUINFO
from unslow.look.kernel.processors import CPUS, FAST_CORES
from unslow.look.probes.cpu import parse_cpuinfo, read
from unslow.look.system import FinishedCommand

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Processor @ 2.80GHz
flags\t\t: fpu sse4_2 fma avx f16c hypervisor avx2 avx512f avx512_vnni

processor\t: 1
model\t\t: 106
model name\t: Intel(R) Xeon(R) Processor @ 2.80GHz
"""
GRACE = """processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd aes asimdhp asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""


def laid_out(cores, sockets, **more):
    """The files of a machine whose cores and sockets are written as lists of CPUs."""
    files = {f"{CPUS}/online": ",".join(cores)}
    for name, lists in (("thread_siblings_list", cores), ("core_siblings_list", sockets)):
        for text in lists:
            ends = [int(number) for number in text.replace("-", ",").split(",")]
            numbers = range(ends[0], ends[1] + 1) if "-" in text else ends
            files |= {f"{CPUS}/cpu{cpu}/topology/{name}": text for cpu in numbers}
    return files | more


def test_two_sockets_with_two_threads_per_core_are_counted():
    files = laid_out(["0,4", "1,5", "2,6", "3,7"], ["0,1,4,5", "2,3,6,7"]) | {CPUINFO: XEON}
    cpu = read(FakeSystem(files=files)).cpu
    assert cpu.model.need() == "Intel(R) Xeon(R) Processor @ 2.80GHz"
    assert [cpu.sockets.need(), cpu.physical_cores.need(), cpu.logical_cpus.need()] == [2, 4, 8]
    assert [cpu.threads_per_core.need(), cpu.performance_cores.need(), cpu.efficiency_cores.need()] == [2, 4, 0]
    assert cpu.instruction_sets.need() == ["avx", "avx2", "avx512_vnni", "avx512f", "f16c", "fma", "sse4_2"]


def test_topology_of_a_large_machine_reads_each_core_once():
    class Counting(FakeSystem):
        reads = 0

        def read_bytes(self, path, limit=0):
            self.reads += 1
            return super().read_bytes(path, limit)

    system = Counting(files=laid_out([f"{i},{i + 128}" for i in range(128)], ["0-255"]) | {CPUINFO: XEON})
    cpu = read(system).cpu
    assert [cpu.physical_cores.need(), cpu.logical_cpus.need(), cpu.sockets.need()] == [128, 256, 1]
    assert system.reads < 150


def test_intel_hybrid_topology_counts_cores_and_not_threads():
    files = laid_out(["0-1", "2-3", "4", "5", "6", "7"], ["0-7"]) | {CPUINFO: XEON, FAST_CORES: "0-3\n"}
    cpu = read(FakeSystem(files=files)).cpu
    assert [cpu.performance_cores.need(), cpu.efficiency_cores.need()] == [2, 4]
    assert cpu.threads_per_core.need() == 2


def test_arm_hybrid_topology_comes_from_cpu_capacity():
    capacities = {f"{CPUS}/cpu{i}/cpu_capacity": c for i, c in enumerate(["530", "530", "1024", "980"])}
    files = laid_out(["0", "1", "2", "3"], ["0-3"]) | {CPUINFO: GRACE} | capacities
    lscpu = FinishedCommand(0, "Architecture: aarch64\nModel name: Cortex-A76\n", "")
    cpu = read(FakeSystem(files=files, commands={"lscpu": lscpu})).cpu
    assert [cpu.performance_cores.need(), cpu.efficiency_cores.need()] == [2, 2]
    assert cpu.performance_cores.origin is Origin.ESTIMATED
    assert cpu.model.need() == "Cortex-A76"
    assert cpu.instruction_sets.need() == ["bf16", "dotprod", "fp16", "i8mm", "neon", "sve"]


def test_lscpu_replaces_missing_topology_files():
    text = "CPU(s): 8\nModel name: Some CPU\nThread(s) per core: 2\nCore(s) per socket: 4\nSocket(s): 1\nFlags: avx2\n"
    cpu = read(FakeSystem(commands={"lscpu": FinishedCommand(0, text, "")})).cpu
    assert [cpu.model.need(), cpu.physical_cores.need(), cpu.logical_cpus.need()] == ["Some CPU", 4, 8]
    assert cpu.physical_cores.source == "lscpu"


def test_without_any_source_topology_is_not_found():
    cpu = read(FakeSystem()).cpu
    assert isinstance(cpu.physical_cores, Unknown)
    assert cpu.physical_cores.absence is Absence.NOT_FOUND


def test_garbage_topology_gives_unknown_facts():
    cpu = read(FakeSystem(files={CPUINFO: b"\xff\x00:::\n", f"{CPUS}/online": "nonsense"})).cpu
    assert all(isinstance(fact, Unknown) for fact in (cpu.model, cpu.physical_cores, cpu.instruction_sets))


def test_a_numeric_model_is_not_a_cpu_name():
    assert isinstance(parse_cpuinfo("model\t\t: 106\n").model, Unknown)
    assert parse_cpuinfo("Model\t\t: Raspberry Pi 5\n").model.need() == "Raspberry Pi 5"
