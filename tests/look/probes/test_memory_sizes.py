from doubles import FakeSystem

from unslow.facts.values import KIB, Absence, Origin, Unknown
from unslow.look.kernel.processes import NUMA_NODES as NODES
from unslow.look.probes.memory import MEMINFO, parse_meminfo, read
from unslow.look.system import FinishedCommand

TEXT = """MemTotal:       24682416 kB
MemFree:        22084208 kB
MemAvailable:   24265748 kB
Buffers:           21532 kB
Cached:          2321820 kB
SwapTotal:       8000000 kB
SwapFree:        7000000 kB
HugePages_Total:       0
"""


def test_meminfo_gives_sizes_and_numa_nodes_with_cpus():
    files = {MEMINFO: TEXT, f"{NODES}/has_cpu": "0-1\n", f"{NODES}/has_memory": "0-1,8-15\n"}
    memory = read(FakeSystem(files=files)).memory
    assert memory.total_bytes.need() == 24682416 * KIB
    assert memory.available_bytes.need() == 24265748 * KIB
    assert memory.swap_total_bytes.need() == 8000000 * KIB
    assert memory.swap_used_bytes.need() == 1000000 * KIB
    assert memory.numa_nodes.need() == 2  # the nodes 8 to 15 are a GPU's memory


def test_without_memavailable_available_memory_is_an_estimate():
    memory = parse_meminfo(TEXT.replace("MemAvailable", "Other"))
    assert memory.available_bytes.need() == (22084208 + 21532 + 2321820) * KIB
    assert memory.available_bytes.origin is Origin.ESTIMATED


def test_free_replaces_a_missing_meminfo():
    table = "   total  used  free  shared  buff/cache  available\nMem: 1000 100 200 0 700 850\nSwap: 0 0 0\n"
    memory = read(FakeSystem(commands={"free -b": FinishedCommand(0, table, "")})).memory
    assert [memory.total_bytes.need(), memory.available_bytes.need()] == [1000, 850]
    assert memory.total_bytes.source == "free -b"


def test_without_any_source_memory_is_not_found():
    memory = read(FakeSystem()).memory
    assert memory.total_bytes.absence is Absence.NOT_FOUND
    assert memory.numa_nodes.absence is Absence.NOT_FOUND


def test_garbage_meminfo_gives_unknown_facts():
    memory = parse_meminfo("MemTotal: lots\nSwapTotal:\n\x00")
    assert isinstance(memory.total_bytes, Unknown)
    assert isinstance(memory.available_bytes, Unknown)
    assert isinstance(memory.swap_used_bytes, Unknown)
