from pathlib import Path

import pytest

from unslow.facts.values import NOT_LOOKED, Absence, Unknown, reported_fact
from unslow.look.logs.nvidia_smi import TABLE_SOURCE, parse_nvidia_smi

MACHINES = Path(__file__).parents[2] / "machines"
RECORDED = [MACHINES / "h200_llama_server_healthy_full_gpu" / "machine.txt"]
MIB = 1024**2

OLD = """\
Mon Aug 22 15:24:23 2022
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 415.27       Driver Version: 415.27       CUDA Version: 10.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GT 640      Off  | 00000000:01:00.0 N/A |                  N/A |
| 30%   30C    P0    N/A /  N/A |      0MiB /  1999MiB |     N/A      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla P100-PCIE...  On   | 00000000:04:00.0 Off |                    0 |
| N/A   77C    P2   198W / 250W |  15103MiB / 16384MiB |     97%   E. Process |
+-------------------------------+----------------------+----------------------+
|   2  ERR!                Off  | 00000000:05:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 16384MiB |    ERR!      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0                    Not Supported                                       |
|    1     31337      C   python3 train.py                           15093MiB |
+-----------------------------------------------------------------------------+
"""
NEW = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.94                 Driver Version: 560.94         CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090      WDDM  |   00000000:01:00.0  On |                  Off |
|  0%   41C    P8             19W /  450W |    1462MiB /  24564MiB |      3%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   41C    P8              4W /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |             Enabled* |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A      1492    C+G   C:\\Windows\\explorer.exe                     N/A      |
|    1     7    0      5511      C   ...bin/ollama runner                        11904MiB |
+-----------------------------------------------------------------------------------------+
"""


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_nvidia_smi_table_of_a_recorded_h200_is_parsed(path: Path):
    (gpu,) = parse_nvidia_smi(path.read_text())
    assert (gpu.index, gpu.name, gpu.driver) == (
        0,
        reported_fact("NVIDIA H200", TABLE_SOURCE),
        reported_fact("580.159.04", TABLE_SOURCE),
    )
    assert gpu.bus_id == reported_fact("0000:00:06.0", TABLE_SOURCE)
    assert (gpu.temperature_c.need(), gpu.performance_state.need()) == (34, "P0")
    assert (gpu.power_w.need(), gpu.power_limit_w.need()) == (100, 700)
    assert (gpu.vram_used_bytes.need(), gpu.vram_total_bytes.need()) == (0, 143771 * MIB)
    assert gpu.busy == reported_fact(0.0, TABLE_SOURCE)
    assert gpu.mig == reported_fact(False, TABLE_SOURCE)
    assert gpu.processes == reported_fact([], TABLE_SOURCE)
    assert gpu.clock_hz == NOT_LOOKED


def test_the_narrow_table_of_old_drivers_is_parsed():
    plain, busy, broken = parse_nvidia_smi(OLD)
    assert (plain.name.need(), plain.temperature_c.need(), plain.vram_total_bytes.need()) == (
        "GeForce GT 640",
        30,
        1999 * MIB,
    )
    for fact in (plain.power_w, plain.busy):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_SUPPORTED
    assert plain.mig == NOT_LOOKED
    assert (busy.name.need(), busy.performance_state.need(), busy.busy.need()) == ("Tesla P100-PCIE...", "P2", 0.97)
    assert (busy.power_w.need(), busy.vram_used_bytes.need()) == (198, 15103 * MIB)
    (process,) = busy.processes.need()
    assert (process.pid, process.name.need(), process.vram_bytes.need()) == (31337, "python3 train.py", 15093 * MIB)
    assert isinstance(broken.temperature_c, Unknown)
    assert broken.temperature_c.absence is Absence.FAILED
    assert broken.vram_total_bytes.need() == 16384 * MIB


def test_the_wide_table_of_windows_and_unified_memory_is_parsed():
    windows, shared = parse_nvidia_smi(NEW)
    assert (windows.name.need(), windows.power_limit_w.need()) == ("NVIDIA GeForce RTX 4090", 450)
    (explorer,) = windows.processes.need()
    assert (explorer.pid, explorer.name.need()) == (1492, "C:\\Windows\\explorer.exe")
    assert explorer.vram_bytes.absence is Absence.NOT_SUPPORTED
    assert shared.bus_id.need() == "000f:01:00.0"
    assert shared.mig == reported_fact(True, TABLE_SOURCE)
    assert isinstance(shared.vram_total_bytes, Unknown)
    assert shared.vram_total_bytes.absence is Absence.NOT_SUPPORTED
    assert shared.power_w == reported_fact(4.0, TABLE_SOURCE)
    assert [(p.pid, p.vram_bytes.need()) for p in shared.processes.need()] == [(5511, 11904 * MIB)]


@pytest.mark.parametrize("text", [OLD, NEW])
def test_a_quoted_and_coloured_table_parses_alike(text: str):
    quoted = "\r\n".join(f"\x1b[32m> {line}\x1b[0m" for line in text.splitlines())
    assert parse_nvidia_smi(quoted) == parse_nvidia_smi(text)


def test_a_table_without_its_process_section_leaves_processes_not_looked():
    head, _, _ = NEW.partition("| Processes")
    assert [gpu.processes for gpu in parse_nvidia_smi(head)] == [NOT_LOOKED, NOT_LOOKED]


@pytest.mark.parametrize(
    "text", ["", "|||", "|   0  x On | 0 | 0 |\n", "No devices were found", NEW[: NEW.index("|  0%")]]
)
def test_truncated_tables_and_other_text_give_no_false_facts(text: str):
    for gpu in parse_nvidia_smi(text):
        assert gpu.name == reported_fact("NVIDIA GeForce RTX 4090", TABLE_SOURCE)
        assert gpu.temperature_c == NOT_LOOKED
