"""What `lscpu` prints, wherever it stands in a larger text."""

import re

from unslow.facts.machine import Cpu, Machine, Memory, System
from unslow.facts.units import MHZ
from unslow.facts.values import Amount, Count, Fact, estimated, not_found, reported
from unslow.look.kernel.cpu_flags import parse_instruction_sets
from unslow.look.logs.blocks import block, spans_of
from unslow.look.logs.dialect import Seen, Text

# A label is not anchored at the line start (quoted mails, tables); what may stand before it is ruled out instead.
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
_EDGES = " \t\r|`"
_STARTS = re.compile(r"Architecture:\s+\w|(?<!BIOS )Model name:\s+\S|(?<!\d )CPU\(s\):\s+\d|Thread\(s\) per core:\s+\d")
_GOES_ON = re.compile(r"[\w)]:\s")
_LEAST_LINES = 2
_SOCKETS = re.compile(r"Socket\(s\):[ \t]*(\d{1,6})")


def parse_machine(text: str, source: str = "lscpu") -> Machine:
    """All that lscpu says: the processor, its memory nodes, the hypervisor under it."""
    text = _first_output(text)
    return Machine(
        cpu=parse_cpu(text, source),
        memory=Memory(numa_nodes=_count(_NODES, text, source)),
        system=System(hypervisor=_text(_HYPERVISOR, text, source)),
    )


def parse_text(text: Text) -> Seen:
    """The first output of lscpu in a text, or as much of it as was pasted."""
    spans = [span for span in spans_of(text, _STARTS, _GOES_ON) if span[1] - span[0] >= _LEAST_LINES]
    if not spans:
        return Seen()
    machine = parse_machine(block(text, spans[0]), text.where(spans[0][0]))
    return Seen(machine=machine, lines=spans[0][1] - spans[0][0], spans=tuple(spans))


def parse_cpu(text: str, source: str = "lscpu") -> Cpu:
    """The processor; on one with several kinds of cores, their sum."""
    text = _first_output(text)
    blocks = _blocks(text)
    return Cpu(
        model=_model(blocks, source),
        sockets=_count(_SOCKETS, text, source) if len(blocks) == 1 else not_found(f"{source} counts clusters"),
        physical_cores=_physical_cores(blocks, source),
        logical_cpus=_count(_LOGICAL, text, source),
        threads_per_core=_threads_per_core(text, source),
        instruction_sets=_instruction_sets(text, source),
        frequency_hz=_frequency(text, source),
        frequency_max_hz=_megahertz(_MAX_MHZ, text, source),
    )


def _first_output(text: str) -> str:
    """A report can hold lscpu twice; cores must not be added up over both."""
    second = text.find("Architecture:", text.find("Architecture:") + 1)
    return text[:second] if second > 0 else text


def _blocks(text: str) -> list[str]:
    """One piece for each kind of core: each begins with its model name; older versions print that after the counts."""
    starts = [match.start() for match in _MODEL.finditer(text)]
    if len(starts) < 2:  # noqa: PLR2004 (one kind)
        return [text]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def _model(blocks: list[str], source: str) -> Fact[str]:
    names = [match[1].strip(_EDGES) for block in blocks[:8] if (match := _MODEL.search(block))]
    names = [name for name in names if name not in ("", "-")]
    return reported(" + ".join(names), source) if names else not_found(f"no model name in {source}")


def _physical_cores(blocks: list[str], source: str) -> Fact[Count]:
    pairs = [(_CORES.search(block), _GROUPS.search(block)) for block in blocks]
    cores = sum(int(each[1]) * int(groups[1]) for each, groups in pairs if each and groups)
    return reported(cores, source) if cores else not_found(f"no cores per socket in {source}")


def _threads_per_core(text: str, source: str) -> Fact[Count]:
    counts = [int(number) for number in _THREADS.findall(text)]
    return reported(max(counts), source) if counts else not_found(f"no threads per core in {source}")


def _instruction_sets(text: str, source: str) -> Fact[list[str]]:
    match = _FLAGS.search(text)
    return reported(parse_instruction_sets(match[1]), source) if match else not_found(f"no CPU flags in {source}")


def _frequency(text: str, source: str) -> Fact[Amount]:
    """Newer versions print the mean over all CPUs as a percentage of the maximum."""
    share, most = _SCALING.search(text), _MAX_MHZ.search(text)
    if share and most:
        return estimated(int(share[1]) / 100 * float(most[1]) * MHZ, f"{source}: {share[1]} % of the maximum")
    return _megahertz(_NOW_MHZ, text, source)


def _megahertz(pattern: re.Pattern[str], text: str, source: str) -> Fact[Amount]:
    match = pattern.search(text)
    return reported(float(match[1]) * MHZ, source) if match else not_found(f"no clock in {source}")


def _count(pattern: re.Pattern[str], text: str, source: str) -> Fact[Count]:
    match = pattern.search(text)
    return reported(int(match[1]), source) if match else not_found(f"{source} does not say")


def _text(pattern: re.Pattern[str], text: str, source: str) -> Fact[str]:
    match = pattern.search(text)
    return reported(match[1].strip(_EDGES), source) if match else not_found(f"{source} does not say")
