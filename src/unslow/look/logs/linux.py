"""What Linux's `free` and `lscpu` print, wherever it stands in a larger text."""

import re
from collections.abc import Callable
from typing import TypeVar

from unslow.facts.machine import Cpu, Machine, Memory, System
from unslow.facts.values import GIB, KIB, MHZ, MIB, Bytes, Fact, estimated_fact, not_found, reported_fact
from unslow.look.kernel import parse_whole
from unslow.look.kernel.processors import parse_instruction_sets
from unslow.look.logs.dialect import LogFacts, Text, TextDialect
from unslow.look.logs.text_blocks import block_text, spans_of

T = TypeVar("T")

# `free`
_TABLE = re.compile(
    r"\b(total[ \t]+used[ \t]+free\b[^\n]{0,200})\n"  # the names of the columns
    r"[^\n]{0,200}?\bMem:([^\n]{0,400})"
    r"((?:\n[^\n]{0,400}){0,4})"  # where the line for swap is found
)
_HEADER = re.compile(r"\btotal[ \t]+used[ \t]+free\b")
_LINES_BEFORE, _LINES_OF_TABLE = 3, 3
_SWAP = re.compile(r"\bSwap:([^\n]{0,400})")
_COMMAND = re.compile(r"\bfree[ \t]+(?:-\w+[ \t]+)*(--\w+|-\w*[bkmgh]\w*)")
_SIZE = re.compile(r"(\d{1,18}(?:[.,]\d{1,3})?)([KMGTPB])?(i)?B?", re.IGNORECASE)
_LETTERS = {"B": 1, "K": KIB, "M": MIB, "G": GIB, "T": 1024 * GIB, "P": 1024**2 * GIB}
_OPTIONS = {"b": 1, "k": KIB, "m": MIB, "g": GIB}
_WORDS = {"--bytes": 1, "--kibi": KIB, "--mebi": MIB, "--gibi": GIB, "--tebi": 1024 * GIB}
_LEAST_TOTAL_BYTES = 4 * GIB

# `lscpu`; a label is not anchored at the line start (quoted mails, tables): what may stand before it is ruled out
_MODEL = re.compile(r"(?<!BIOS )Model name:[ \t]*(\S[^\n]{0,200})")
_LOGICAL = re.compile(r"(?<!\d )CPU\(s\):[ \t]*(\d{1,6})\b")  # not "NUMA node0 CPU(s): 0-15"
_FLAGS = re.compile(r"(?:Flags|Features):[ \t]*(\S.*)")
_MAX_MHZ = re.compile(r"CPU max MHz:[ \t]*(\d{1,6}(?:\.\d+)?)")
_NOW_MHZ = re.compile(r"CPU MHz:[ \t]*(\d{1,6}(?:\.\d+)?)")
_SCALING = re.compile(r"CPU\(s\) scaling MHz:[ \t]*(\d{1,3})%")
_NODES = re.compile(r"NUMA node\(s\):[ \t]*(\d{1,6})")
_HYPERVISOR = re.compile(r"Hypervisor vendor:[ \t]*(\S[^\n]{0,200})")
_THREADS = re.compile(r"Thread\(s\) per core:[ \t]*(\d{1,4})")
_CORES = re.compile(r"Core\(s\) per (?:socket|cluster):[ \t]*(\d{1,6})")
_GROUPS = re.compile(r"(?:Socket|Cluster)\(s\):[ \t]*(\d{1,6})")
_SOCKETS = re.compile(r"Socket\(s\):[ \t]*(\d{1,6})")
_EDGES = " \t\r|`"
_STARTS = re.compile(r"Architecture:\s+\w|(?<!BIOS )Model name:\s+\S|(?<!\d )CPU\(s\):\s+\d|Thread\(s\) per core:\s+\d")
_GOES_ON = re.compile(r"[\w)]:\s")
_LEAST_LINES = 2


def parse_free_text(text: Text) -> LogFacts:
    """The last table of `free` in a text."""
    for index in reversed(range(len(text.lines) - 1)):
        if _HEADER.search(text.lines[index]) and "Mem:" in text.lines[index + 1]:
            end = min(index + _LINES_OF_TABLE, len(text.lines))  # the text may end before the line of swap
            memory = parse_free("\n".join(text.lines[max(0, index - _LINES_BEFORE) : end]), text.where(index))
            return LogFacts(machine=Machine(memory=memory), lines=3, spans=((index, end),))
    return LogFacts()


def parse_free(text: str, source: str = "free", unit_bytes: int | None = None) -> Memory:
    """Memory and swap; where caller, suffix and command line are silent, the unit is guessed and the origin says so."""
    table = _TABLE.search(text)
    if not table:
        missing = not_found(f"no table of `free` in {source}")
        return Memory(total_bytes=missing, available_bytes=missing, swap_total_bytes=missing, swap_used_bytes=missing)
    names = table[1].split()
    memory = dict(zip(names, table[2].split(), strict=False))
    swap_line = _SWAP.search(table[3])
    swap = dict(zip(names[:3], swap_line[1].split() if swap_line else [], strict=False))
    if not unit_bytes and (options := _COMMAND.findall(text[: table.start()][-4096:])):  # the last command above it
        letters = (_OPTIONS[letter] for letter in options[-1].lstrip("-") if letter in _OPTIONS)
        unit_bytes = _WORDS.get(options[-1]) or next(letters, None)
    # By the likely unit the total lies between 4 GiB and 4 TiB: bytes, KiB, MiB and GiB each cover their own range
    total = parse_whole(memory.get("total", "")) or 0
    unit = unit_bytes or next((unit for unit in (1, KIB, MIB) if total * unit >= _LEAST_TOTAL_BYTES), GIB)

    def fact(word: str) -> Fact[Bytes]:
        size = _bytes(word, unit)
        if size is None:
            return not_found(f"not in the table of {source}")
        if unit_bytes or not word.isdigit():
            return reported_fact(size, source)
        return estimated_fact(size, f"{source}, assumed to be in units of {unit} bytes")

    available = fact(memory.get("available", ""))
    parts = [_bytes(memory.get(name, "0"), unit) for name in ("free", "buffers", "cached")]
    if "available" not in memory and "free" in memory and None not in parts:
        # Before procps 3.3.10 there was no such column; what is free or cached comes closest
        available = estimated_fact(sum(part or 0 for part in parts), f"{source}: free + buffers + cached")
    return Memory(
        total_bytes=fact(memory.get("total", "")),
        available_bytes=available,
        swap_total_bytes=fact(swap.get("total", "")),
        swap_used_bytes=fact(swap.get("used", "")),
    )


def _bytes(word: str, unit_bytes: int) -> int | None:
    match = _SIZE.fullmatch(word)
    if not match:
        return None
    # Bare letters are binary: `free -h` wrote "15G" for GiB until procps 3.3.13; decimal needs the rare --si.
    unit = _LETTERS[match[2].upper()] if match[2] else unit_bytes
    return int(float(match[1].replace(",", ".")) * unit)


def parse_lscpu_text(text: Text) -> LogFacts:
    """The first output of lscpu in a text, or as much of it as was pasted."""
    spans = [span for span in spans_of(text, _STARTS, _GOES_ON) if span[1] - span[0] >= _LEAST_LINES]
    if not spans:
        return LogFacts()
    machine = parse_lscpu_machine(block_text(text, spans[0]), text.where(spans[0][0]))
    return LogFacts(machine=machine, lines=spans[0][1] - spans[0][0], spans=tuple(spans))


def parse_lscpu_machine(text: str, source: str = "lscpu") -> Machine:
    """All that lscpu says: the processor, its memory nodes, the hypervisor under it."""
    text = _first_output(text)
    return Machine(
        cpu=parse_lscpu(text, source),
        memory=Memory(numa_nodes=_match_fact(_NODES, text, source, int)),
        system=System(hypervisor=_match_fact(_HYPERVISOR, text, source, lambda name: name.strip(_EDGES))),
    )


def parse_lscpu(text: str, source: str = "lscpu") -> Cpu:
    """The processor; on one with several kinds of cores, their sum."""
    text = _first_output(text)
    # One piece for each kind of core: each begins with its model name; older versions print that after the counts
    starts = [match.start() for match in _MODEL.finditer(text)]
    several = len(starts) > 1
    blocks = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)] if several else [text]
    names = [match[1].strip(_EDGES) for block in blocks[:8] if (match := _MODEL.search(block))]
    model = " + ".join(name for name in names if name not in ("", "-"))
    pairs = [(_CORES.search(block), _GROUPS.search(block)) for block in blocks]
    cores = sum(int(each[1]) * int(groups[1]) for each, groups in pairs if each and groups)
    threads, no_threads = _THREADS.findall(text), not_found(f"no threads per core in {source}")
    frequency = _match_fact(_NOW_MHZ, text, source, lambda mhz: float(mhz) * MHZ, "no clock in {}")
    share, most = _SCALING.search(text), _MAX_MHZ.search(text)
    if share and most:  # newer versions print the mean over all CPUs as a percentage of the maximum
        hertz = int(share[1]) / 100 * float(most[1]) * MHZ
        frequency = estimated_fact(hertz, f"{source}: {share[1]} % of the maximum")
    return Cpu(
        model=reported_fact(model, source) if model else not_found(f"no model name in {source}"),
        sockets=not_found(f"{source} counts clusters") if several else _match_fact(_SOCKETS, text, source, int),
        physical_cores=reported_fact(cores, source) if cores else not_found(f"no cores per socket in {source}"),
        logical_cpus=_match_fact(_LOGICAL, text, source, int),
        threads_per_core=reported_fact(max(map(int, threads)), source) if threads else no_threads,
        instruction_sets=_match_fact(_FLAGS, text, source, parse_instruction_sets, "no CPU flags in {}"),
        frequency_hz=frequency,
        frequency_max_hz=_match_fact(_MAX_MHZ, text, source, lambda mhz: float(mhz) * MHZ, "no clock in {}"),
    )


def _first_output(text: str) -> str:
    """A report can hold lscpu twice; cores must not be added up over both."""
    second = text.find("Architecture:", text.find("Architecture:") + 1)
    return text[:second] if second > 0 else text


def _match_fact(
    pattern: re.Pattern[str], text: str, source: str, value: Callable[[str], T], missing: str = "{} does not say"
) -> Fact[T]:
    match = pattern.search(text)
    return reported_fact(value(match[1]), source) if match else not_found(missing.format(source))


TEXT_DIALECTS: dict[str, TextDialect] = {"free": parse_free_text, "lscpu": parse_lscpu_text}
