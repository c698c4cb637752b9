import re

from unslow.facts.machine import Machine
from unslow.facts.values import GIB, Known, Origin
from unslow.look.logs import linux, nvidia_smi
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.text_blocks import facts_at_place, spans_of

TABLE = """\
| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0  On |                  N/A |
|  0%   45C    P8             25W /  350W |     512MiB /  24576MiB |      3%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
FREE = """\
$ free -m
               total        used        free      shared  buff/cache   available
Mem:           64000        8000       20000        1000       34000       53000
Swap:           2048           0        2048
"""
LSCPU = """\
Architecture:            x86_64
CPU(s):                  32
  Thread(s) per core:    2
  Core(s) per socket:    16
  Socket(s):             1
Model name:              AMD Ryzen 9 7950X 16-Core Processor
"""


def text(*parts: str) -> Text:
    return Text("".join(parts).split("\n"), "post")


def test_a_span_continues_over_two_blank_lines():
    lines = text("words\n> one\n> two\n\n\n> three\nwords\n> four\n")
    assert spans_of(lines, re.compile("^>"), re.compile("^>")) == ((1, 6), (7, 8))
    assert spans_of(text("> one\n\n\n\n> two\n"), re.compile("one"), re.compile("^>")) == ((0, 1),)
    assert spans_of(text("nothing"), re.compile("^>"), re.compile("^>")) == ()


def test_facts_of_a_block_name_its_line():
    cpu = linux.parse_lscpu(LSCPU)
    assert facts_at_place(cpu, "post:7").logical_cpus == Known(32, Origin.REPORTED, "post:7")


def test_nvidia_smi_tables_are_found_amid_prose():
    seen = nvidia_smi.parse_text(
        text("Hi,\nthis is it:\n", TABLE, "\nand later\n", TABLE.replace(" 512MiB", "9999MiB"))
    )
    [gpu] = seen.machine.gpus.need()
    assert gpu.vram_total_bytes.need() == 24 * GIB
    assert gpu.vram_used_bytes.source == "post:12"
    assert seen.spans == ((2, 9), (11, 18))
    assert seen.lines == 14


def test_free_uses_the_unit_of_its_command_line():
    seen = linux.parse_free_text(text("my memory\n", FREE, "and words\n"))
    assert seen.machine.memory.total_bytes == Known(64000 * 2**20, Origin.REPORTED, "post:3")
    assert seen.spans == ((2, 5),)


def test_complete_and_partial_lscpu_blocks_are_found():
    seen = linux.parse_lscpu_text(text("my cpu\n", LSCPU, "and words\n"))
    assert seen.machine.cpu.physical_cores == Known(16, Origin.REPORTED, "post:2")
    part = linux.parse_lscpu_text(text("CPU(s):                  32\nModel name:              AMD Ryzen 9\n"))
    assert part.machine.cpu.model.need() == "AMD Ryzen 9"


def test_prose_is_not_parsed_as_tool_output():
    words = text("The total used free memory, Mem: unknown.\nname, index, and so on\nMy GPU Name is X | ok |\n")
    for parse in (nvidia_smi.parse_text, linux.parse_free_text, linux.parse_lscpu_text):
        assert parse(words).machine == Machine()
        assert parse(text("")) == LogFacts()
