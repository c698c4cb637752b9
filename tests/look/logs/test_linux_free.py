from pathlib import Path

import pytest

from unslow.facts.values import GIB, KIB, MIB, Origin, Unknown
from unslow.look.logs.dialect import Text
from unslow.look.logs.linux import parse_free, parse_free_text

MACHINES = Path(__file__).parents[2] / "machines"
H200 = (MACHINES / "h200_llama_server_healthy_full_gpu" / "machine.txt").read_text()
HEADER = "               total        used        free      shared  buff/cache   available\n"


def table(total, available, swap=("0", "0", "0")):
    return f"{HEADER}Mem: {total} 1 2 3 4 {available}\nSwap: {' '.join(swap)}\n"


def test_a_guessed_unit_of_free_is_an_estimate():
    memory = parse_free(H200, "machine.txt")
    assert memory.total_bytes.need() == 125 * GIB
    assert memory.available_bytes.need() == 125 * GIB
    assert memory.swap_total_bytes.need() == 0
    assert memory.total_bytes.origin is Origin.ESTIMATED


@pytest.mark.parametrize(
    ("total", "unit"),
    [("25274793984", 1), ("24682416", KIB), ("24103", MIB), ("23", GIB), ("1006", GIB), ("7844", MIB)],
)
def test_the_unit_of_free_is_guessed_from_the_total(total, unit):
    assert parse_free(table(total, total)).total_bytes.need() == int(total) * unit


@pytest.mark.parametrize(("option", "unit"), [("-m", MIB), ("-g", GIB), ("-b", 1), ("--mebi", MIB), ("-t -k", KIB)])
def test_the_unit_of_free_comes_from_the_command_line_above(option, unit):
    memory = parse_free(f"$ free {option}\n" + table("2015", "1000"))
    assert memory.total_bytes.need() == 2015 * unit
    assert memory.total_bytes.origin is Origin.REPORTED


def test_the_callers_unit_of_free_wins():
    memory = parse_free(table("1024", "512", ("100", "7", "93")), unit_bytes=1)
    assert [memory.total_bytes.need(), memory.available_bytes.need(), memory.swap_used_bytes.need()] == [1024, 512, 7]


@pytest.mark.parametrize(
    ("word", "size"),
    [("62Gi", 62 * GIB), ("15G", 15 * GIB), ("1.5Ti", 1536 * GIB), ("3,8Gi", int(3.8 * GIB)), ("512M", 512 * MIB)],
)
def test_human_readable_sizes_of_free_are_parsed(word, size):
    memory = parse_free("> free -h\n" + table(word, word, ("2.0Gi", "0B", "2.0Gi")))
    assert memory.total_bytes.need() == size
    assert memory.swap_total_bytes.need() == 2 * GIB
    assert memory.swap_used_bytes.need() == 0
    assert memory.total_bytes.origin is Origin.REPORTED


def test_the_old_free_table_without_available_is_an_estimate():
    text = (
        "             total       used       free     shared    buffers     cached\n"
        "Mem:      16384000    9000000    7384000          0     100000    2000000\n"
        "-/+ buffers/cache:    6900000    9484000\n"
        "Swap:      8192000       1000    8191000\n"
    )
    memory = parse_free(text)
    assert memory.available_bytes.need() == 9484000 * KIB
    assert memory.available_bytes.origin is Origin.ESTIMATED
    assert memory.swap_used_bytes.need() == 1000 * KIB


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "Mem: 1 2 3",
        HEADER,
        HEADER + "Mem:",
        HEADER + "Mem: lots of it",
        "MiB Mem : 128 total",
        "total used free " * 10**5,
    ],
)
def test_garbage_and_truncated_free_output_gives_unknown_facts(text):
    memory = parse_free(text)
    assert isinstance(memory.total_bytes, Unknown)
    assert isinstance(memory.swap_used_bytes, Unknown)


def test_free_output_that_ends_before_swap_is_parsed():
    lines = ["free -m", *table(64000, 32000).splitlines()[:2]]
    seen = parse_free_text(Text(lines, "paste.txt", numbers=(4, 5, 6)))
    assert seen.machine.memory.total_bytes.value == 64000 * MIB
    assert seen.spans == ((1, 3),)
