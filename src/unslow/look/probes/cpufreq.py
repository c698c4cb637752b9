"""Clocks: /sys/devices/system/cpu/cpufreq, and where there is none, what /proc/cpuinfo says."""

import re

from unslow.facts.machine import Cpu, Machine
from unslow.facts.values import MHZ, Amount, Fact, estimated, not_supported, reported
from unslow.look.kernel import CPUINFO, CPUINFO_LIMIT_BYTES, parse_whole
from unslow.look.system import LookError, System, read_text, try_fact, try_look

POLICIES = "/sys/devices/system/cpu/cpufreq"
MOST_POLICIES = 16  # kernels before 5.18 can sleep 10 ms in each read of a current frequency
KHZ = 10**3
NO_CPUFREQ = not_supported("no cpufreq here: a virtual machine, or a kernel without a driver for this processor")
_MHZ = re.compile(r"^cpu MHz[ \t]*:[ \t]*(\d{1,6}(?:\.\d{1,6})?)", re.MULTILINE)
_VIRTUAL = re.compile(r"^flags[ \t]*:[^\n]*\bhypervisor\b", re.MULTILINE)


def read(system: System) -> Machine:
    """The governor, the mean frequency now and the highest one, from some CPUs spread over all."""
    names = [name for name in try_look([], system.list_dir, POLICIES) if name.startswith("policy")]
    policies = names[:: -(-len(names) // MOST_POLICIES) or 1]
    if not policies:
        nominal = _read_cpuinfo_mhz(system)
        return Machine(cpu=Cpu(governor=NO_CPUFREQ, frequency_max_hz=NO_CPUFREQ, frequency_hz=nominal))
    governor = try_fact(_read_governor, system, policies)
    try:
        now = _read_kilohertz(system, policies, "scaling_cur_freq")
        source = f"{POLICIES}/policy*/scaling_cur_freq, mean of {len(now)}"
        frequency: Fact[Amount] = reported(sum(now) / len(now) * KHZ, source)
    except LookError:
        frequency = _read_cpuinfo_mhz(system)
    return Machine(
        cpu=Cpu(
            governor=governor,
            frequency_hz=frequency,
            frequency_max_hz=try_fact(_read_highest, system, policies, "cpuinfo_max_freq"),
            frequency_limit_hz=try_fact(_read_highest, system, policies, "scaling_max_freq"),
        )
    )


def _read_governor(system: System, policies: list[str]) -> Fact[str]:
    words = _read_each(system, policies, "scaling_governor")
    return reported(", ".join(sorted(set(words))), f"{POLICIES}/policy*/scaling_governor")


def _read_each(system: System, policies: list[str], name: str) -> list[str]:
    """The words in one file of each policy; an offline CPU's is empty or gone, so LookError only where all are."""
    words, first_error = [], LookError(f"{POLICIES}/*/{name}: empty")
    for policy in policies:
        try:
            words.append(read_text(system, f"{POLICIES}/{policy}/{name}").strip())
        except LookError as error:
            first_error = error
    words = [word for word in words if word]
    if not words:
        raise first_error
    return words


def _read_kilohertz(system: System, policies: list[str], name: str) -> list[int]:
    numbers = [parse_whole(word) for word in _read_each(system, policies, name)]
    positive = [number for number in numbers if number and number > 0]
    if not positive:
        raise LookError(f"{POLICIES}/*/{name}: no number in it")
    return positive


def _read_highest(system: System, policies: list[str], name: str) -> Fact[Amount]:
    return reported(float(max(_read_kilohertz(system, policies, name)) * KHZ), f"{POLICIES}/policy*/{name}")


def _read_cpuinfo_mhz(system: System) -> Fact[Amount]:
    return try_fact(lambda: parse_cpuinfo_mhz(read_text(system, CPUINFO, CPUINFO_LIMIT_BYTES)))


def parse_cpuinfo_mhz(text: str) -> Fact[Amount]:
    """The mean of "cpu MHz"; inside a virtual machine that is the nominal clock, whatever the real one does."""
    numbers = [float(number) for number in _MHZ.findall(text)]
    if not numbers:
        return not_supported(f"{CPUINFO} states no clock on this kind of processor")
    mean_hz = sum(numbers) / len(numbers) * MHZ
    if _VIRTUAL.search(text):
        return estimated(mean_hz, f"{CPUINFO}, the nominal clock of a virtual machine")
    return reported(mean_hz, f"{CPUINFO}, mean of {len(numbers)}")
