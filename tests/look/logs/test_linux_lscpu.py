from pathlib import Path

import pytest

from unslow.facts.values import Known, Origin, Unknown
from unslow.look.logs.linux import parse_lscpu, parse_lscpu_machine

MACHINES = Path(__file__).parents[2] / "machines"
H200 = (MACHINES / "h200_llama_server_healthy_full_gpu" / "machine.txt").read_text()

RK3588 = """
Architecture:           aarch64
CPU(s):                 8
On-line CPU(s) list:    0-7
Vendor ID:              ARM
Model name:             Cortex-A55
Model:                  0
Thread(s) per core:     1
Core(s) per socket:     4
Socket(s):              1
CPU max MHz:            1800.0000
Flags:                  fp asimd evtstrm aes asimdhp asimddp
Model name:             Cortex-A76
Thread(s) per core:     1
Core(s) per socket:     2
Socket(s):              2
"""

LAPTOP = """
CPU(s):                   20
  On-line CPU(s) list:    0-19
Model name:               12th Gen Intel(R) Core(TM) i7-12700H
BIOS Model name:          whatever the board says
Thread(s) per core:       2
Core(s) per socket:       14
Socket(s):                1
CPU(s) scaling MHz:       25%
CPU max MHz:              4700.0000
NUMA node0 CPU(s):        0-19
"""


def test_lscpu_is_parsed_inside_a_larger_text():
    machine = parse_lscpu_machine(H200, "machine.txt")
    cpu = machine.cpu
    assert cpu.model == Known("Intel(R) Xeon(R) Processor", Origin.REPORTED, "machine.txt")
    assert [cpu.sockets.need(), cpu.physical_cores.need(), cpu.logical_cpus.need()] == [1, 16, 16]
    assert cpu.threads_per_core.need() == 1
    assert {"amx_int8", "avx512_vnni", "avx2", "f16c"} <= set(cpu.instruction_sets.need())
    assert isinstance(cpu.frequency_max_hz, Unknown)
    assert machine.memory.numa_nodes.need() == 1
    assert machine.system.hypervisor.need() == "KVM"


def test_lscpu_quoted_in_a_mail_is_parsed():
    quoted = "".join(f"> | {line}\r\n" for line in H200.splitlines())
    assert parse_lscpu(quoted).model.need() == "Intel(R) Xeon(R) Processor"
    assert parse_lscpu(quoted).logical_cpus.need() == 16


def test_lscpu_printed_twice_is_one_machine():
    assert parse_lscpu(H200 + H200).physical_cores.need() == 16


def test_lscpu_cores_of_several_kinds_are_summed():
    cpu = parse_lscpu(RK3588)
    assert cpu.physical_cores.need() == 8
    assert cpu.model.need() == "Cortex-A55 + Cortex-A76"
    assert isinstance(cpu.sockets, Unknown)
    assert cpu.instruction_sets.need() == ["dotprod", "fp16", "neon"]


def test_lscpu_scaling_percentage_gives_the_current_clock():
    cpu = parse_lscpu(LAPTOP)
    assert cpu.model.need() == "12th Gen Intel(R) Core(TM) i7-12700H"
    assert cpu.logical_cpus.need() == 20
    assert cpu.frequency_hz.need() == pytest.approx(1175e6)
    assert cpu.frequency_hz.origin is Origin.ESTIMATED
    assert cpu.frequency_max_hz.need() == pytest.approx(4.7e9)


def test_lscpu_cpus_of_a_numa_node_are_not_the_cpu_count():
    assert isinstance(parse_lscpu("NUMA node0 CPU(s):   0\n").logical_cpus, Unknown)


@pytest.mark.parametrize(
    "text", ["", "\x00\xff", "Model name:", "CPU(s): many", H200[:300], "Model name: " + "x" * 10**6]
)
def test_garbage_and_truncated_lscpu_output_gives_unknown_facts(text):
    cpu = parse_lscpu(text)
    assert isinstance(cpu.physical_cores, Unknown)
    assert isinstance(cpu.instruction_sets, Unknown)
