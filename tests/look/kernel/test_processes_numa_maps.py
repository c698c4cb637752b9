import pytest
from doubles import FakeSystem

from unslow.look.kernel.processes import parse_bytes_by_node, read_nodes
from unslow.look.system import LookError

# a llama-server with a mapped model, on a machine with one node
ONE = """\
55fedf1d1000 default file=/opt/llama/llama-server mapped=67 mapmax=2 N0=67 kernelpagesize_kB=4
55ff07281000 default heap anon=4681 dirty=4681 active=0 N0=4681 kernelpagesize_kB=4
7f4ec7d35000 default
7f4ecf3b3000 default file=/models/small.gguf mapped=23580 N0=23580 kernelpagesize_kB=4
"""
# numa_maps as proc_pid_numa_maps(5) describes it: two nodes, and a mapping of huge pages
TWO = """\
7f0000000000 default file=/models/N9=4.gguf mapped=2500 N0=2000 N1=500 kernelpagesize_kB=4
7f1000000000 interleave:0-1 file=/anon_hugepage\\040(deleted) huge anon=4 dirty=4 N0=1 N1=3 kernelpagesize_kB=2048
"""


def test_numa_bytes_are_summed_over_all_mappings():
    assert parse_bytes_by_node(ONE) == {"0": (67 + 4681 + 23580) * 4096}


def test_huge_pages_count_with_their_own_size():
    assert parse_bytes_by_node(TWO) == {"0": 2000 * 4096 + 2 * 2**20, "1": 500 * 4096 + 6 * 2**20}


@pytest.mark.parametrize("text", ["", "7f4ec7d35000 default\n", "N0=1 N1=2", "\0" * 100])
def test_numa_maps_without_pages_is_a_failed_look(text):
    with pytest.raises(LookError):
        parse_bytes_by_node(text)


def test_a_memory_only_numa_node_is_not_counted():
    folder = "/sys/devices/system/node"
    cxl = FakeSystem(files={f"{folder}/has_cpu": "0-1\n", f"{folder}/has_memory": "0-2\n"})
    assert read_nodes(cxl) == [0, 1]
