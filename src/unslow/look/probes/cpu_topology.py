"""The processor: what it is from /proc/cpuinfo, how its cores are laid out from /sys/devices/system/cpu."""

import re
from collections.abc import Callable
from contextlib import suppress

from unslow.facts.machine import Cpu, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import Known, Unknown, estimated, not_found, reported
from unslow.look.kernel import CPUINFO, CPUINFO_LIMIT_BYTES, read_number
from unslow.look.kernel.processors import CPUS, EFFICIENCY_BELOW, FAST_CORES, parse_cpu_list, parse_instruction_sets
from unslow.look.logs import linux
from unslow.look.system import LookError, System, read_text, unknown

_MODEL = re.compile(r"^(?:model name|Model|cpu model|cpu)[ \t]*:[ \t]*(\S[^\n]{0,200})$", re.MULTILINE)
_FLAGS = re.compile(r"^(?:flags|Features)[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)
_PROCESSOR = re.compile(r"^processor[ \t]*:[ \t]*\d", re.MULTILINE)

Group = frozenset[int]


def read(system: System) -> Machine:
    """The processor; `lscpu` fills in what the kernel's files leave open."""
    try:
        told = parse_cpuinfo(read_text(system, CPUINFO, CPUINFO_LIMIT_BYTES))
    except LookError as error:
        why = unknown(error)
        told = Cpu(model=why, logical_cpus=why, instruction_sets=why)
    cpu = overlaid(told, read_layout(system))
    if Unknown in map(type, (cpu.model, cpu.physical_cores, cpu.instruction_sets)):
        try:
            done = system.run(["lscpu"])
            told = linux.parse_lscpu(done.stdout) if done.status == 0 else Cpu()
        except LookError as error:
            told = Cpu(model=unknown(error))
        cpu = overlaid(told, cpu)
    return Machine(cpu=cpu)


def parse_cpuinfo(text: str) -> Cpu:
    """Model and instruction sets of the first CPU listed, and how many are listed."""
    # On x86 "model" alone is a number, and only "model name" is the name
    model = next((match[1].strip() for match in _MODEL.finditer(text) if not match[1].strip().isdigit()), "")
    flags, listed, no_flags = _FLAGS.search(text), len(_PROCESSOR.findall(text)), not_found(f"{CPUINFO} lists no flags")
    return Cpu(
        model=reported(model, CPUINFO) if model else not_found(f"{CPUINFO} names no model"),
        logical_cpus=reported(listed, CPUINFO) if listed else not_found(f"{CPUINFO} lists no processor"),
        instruction_sets=reported(parse_instruction_sets(flags[1]), CPUINFO) if flags else no_flags,
    )


def read_layout(system: System) -> Cpu:
    """Sockets, cores and threads; one read for each core and each socket, not for each CPU and question."""
    try:
        online = parse_cpu_list(read_text(system, f"{CPUS}/online"))
        cores = _read_groups(system, online, "thread_siblings_list")
        sockets = _read_groups(system, online, "core_siblings_list")
    except LookError as error:
        why = unknown(error)
        return Cpu(sockets=why, physical_cores=why, threads_per_core=why, performance_cores=why, efficiency_cores=why)
    layout = Cpu(
        logical_cpus=reported(len(online), f"{CPUS}/online"),
        physical_cores=reported(len(cores), f"{CPUS}/cpu*/topology"),
        sockets=reported(len(sockets), f"{CPUS}/cpu*/topology"),
        threads_per_core=reported(max(map(len, cores), default=1), f"{CPUS}/cpu*/topology"),
    )
    return overlaid(layout, _read_kinds(system, cores))


def _read_groups(system: System, cpus: frozenset[int], name: str) -> list[Group]:
    if not cpus:
        raise LookError(f"{CPUS}/online: names no CPU")
    groups, left = [], set(cpus)
    for cpu in sorted(cpus):
        if cpu in left:
            together = parse_cpu_list(read_text(system, f"{CPUS}/cpu{cpu}/topology/{name}"))
            groups.append(frozenset(together & left | {cpu}))
            left -= groups[-1]
    return groups


def _read_kinds(system: System, cores: list[Group]) -> Cpu:
    with suppress(LookError):
        fast = parse_cpu_list(read_text(system, FAST_CORES))
        return _kinds(sum(1 for core in cores if core & fast), len(cores), reported, FAST_CORES)
    try:
        capacities = [read_number(system, f"{CPUS}/cpu{min(core)}/cpu_capacity") for core in cores]
    except LookError:  # the scheduler keeps no rating
        capacities = [1] * len(cores)
    if len(set(capacities)) == 1:
        return _kinds(len(cores), len(cores), reported, f"{CPUS}: one kind of core")
    fastest = sum(1 for capacity in capacities if capacity >= EFFICIENCY_BELOW * max(capacities))
    return _kinds(fastest, len(cores), estimated, f"{CPUS}/cpu*/cpu_capacity")


def _kinds(fast: int, cores: int, fact: Callable[[int, str], Known[int]], source: str) -> Cpu:
    return Cpu(performance_cores=fact(fast, source), efficiency_cores=fact(cores - fast, source))
