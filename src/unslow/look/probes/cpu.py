"""The processor: what it is, how its cores are laid out, its clocks, how busy and how hot it is.

From /proc/cpuinfo, /sys/devices/system/cpu, /proc/stat, /proc/pressure and the sensors under /sys/class/hwmon.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from unslow.facts.machine import Cpu, Load, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import (
    MHZ,
    Absence,
    Amount,
    Degrees,
    Fact,
    Fraction,
    Known,
    Unknown,
    estimated_fact,
    measured_fact,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look.kernel import CPUINFO, CPUINFO_LIMIT_BYTES, MILLI, Sensors, parse_whole, read_number, read_word
from unslow.look.kernel.processors import (
    CPUS,
    EFFICIENCY_BELOW,
    FAST_CORES,
    cpus_between,
    parse_cpu_list,
    parse_instruction_sets,
    read_cpu_sample,
    read_own_pid,
)
from unslow.look.logs import linux
from unslow.look.system import LookError, System, read_text, try_fact, try_look, unknown

_MODEL = re.compile(r"^(?:model name|Model|cpu model|cpu)[ \t]*:[ \t]*(\S[^\n]{0,200})$", re.MULTILINE)
_FLAGS = re.compile(r"^(?:flags|Features)[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)
_PROCESSOR = re.compile(r"^processor[ \t]*:[ \t]*\d", re.MULTILINE)
Group = frozenset[int]
POLICIES = "/sys/devices/system/cpu/cpufreq"
MOST_POLICIES = 16  # kernels before 5.18 can sleep 10 ms in each read of a current frequency
KHZ = 10**3
NO_CPUFREQ = not_supported("no cpufreq: a virtual machine, or a kernel without a driver for this CPU")
_MHZ = re.compile(r"^cpu MHz[ \t]*:[ \t]*(\d{1,6}(?:\.\d{1,6})?)", re.MULTILINE)
_VIRTUAL = re.compile(r"^flags[ \t]*:[^\n]*\bhypervisor\b", re.MULTILINE)
WINDOW_S = 0.25
_SOME = re.compile(r"^some avg10=(\d{1,3}(?:\.\d{1,4})?)", re.MULTILINE)
HWMON = "/sys/class/hwmon"
THROTTLES = "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count"
# Drivers of processors and the label of the sensor that stands for the whole chip; the first that is there counts.
_LABELS = {"coretemp": ("Package id 0",), "k10temp": ("Tdie", "Tctl"), "zenpower": ("Tdie",)}
_ONE_SENSOR = ("cpu_thermal", "soc_thermal", "package_thermal")  # Drivers of ARM boards, whose only sensor has no label
_MOST_SENSORS = 64


def read(system: System) -> Machine:
    """The processor and the load now; the heat comes last, since recordings hold the answers in that order."""
    cpu = overlaid(_read_topology(system), _read_clocks(system))
    load = _read_load(system)
    return Machine(cpu=overlaid(cpu, _read_heat(system)), load=load)


def _read_topology(system: System) -> Cpu:
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
    return cpu


def parse_cpuinfo(text: str) -> Cpu:
    """Model and instruction sets of the first CPU listed, and how many are listed."""
    # On x86 "model" alone is a number, and only "model name" is the name
    model = next((match[1].strip() for match in _MODEL.finditer(text) if not match[1].strip().isdigit()), "")
    flags, listed, no_flags = _FLAGS.search(text), len(_PROCESSOR.findall(text)), not_found(f"{CPUINFO} lists no flags")
    return Cpu(
        model=reported_fact(model, CPUINFO) if model else not_found(f"{CPUINFO} names no model"),
        logical_cpus=reported_fact(listed, CPUINFO) if listed else not_found(f"{CPUINFO} lists no processor"),
        instruction_sets=reported_fact(parse_instruction_sets(flags[1]), CPUINFO) if flags else no_flags,
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
        logical_cpus=reported_fact(len(online), f"{CPUS}/online"),
        physical_cores=reported_fact(len(cores), f"{CPUS}/cpu*/topology"),
        sockets=reported_fact(len(sockets), f"{CPUS}/cpu*/topology"),
        threads_per_core=reported_fact(max(map(len, cores), default=1), f"{CPUS}/cpu*/topology"),
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
    fast, source = len(cores), f"{CPUS}: one kind of core"
    fact: Callable[[int, str], Known[int]] = reported_fact
    try:
        fast_cpus = parse_cpu_list(read_text(system, FAST_CORES))
        fast, source = sum(1 for core in cores if core & fast_cpus), FAST_CORES
    except LookError:
        with suppress(LookError):  # where the scheduler keeps no rating, they are of one kind
            rated = [read_number(system, f"{CPUS}/cpu{min(core)}/cpu_capacity") for core in cores]
            if len(set(rated)) > 1:
                fast = sum(1 for rating in rated if rating >= EFFICIENCY_BELOW * max(rated))
                fact, source = estimated_fact, f"{CPUS}/cpu*/cpu_capacity"
    return Cpu(performance_cores=fact(fast, source), efficiency_cores=fact(len(cores) - fast, source))


def _read_clocks(system: System) -> Cpu:
    """The governor, the mean frequency now and the highest one, from some CPUs spread over all."""
    names = [name for name in try_look([], system.list_dir, POLICIES) if name.startswith("policy")]
    policies = names[:: -(-len(names) // MOST_POLICIES) or 1]
    try:
        now = _read_kilohertz(system, policies, "scaling_cur_freq")
        source = f"{POLICIES}/policy*/scaling_cur_freq, mean of {len(now)}"
        frequency: Fact[Amount] = reported_fact(sum(now) / len(now) * KHZ, source)
    except LookError:
        frequency = try_fact(lambda: parse_cpuinfo_mhz(read_text(system, CPUINFO, CPUINFO_LIMIT_BYTES)))
    if not policies:
        return Cpu(governor=NO_CPUFREQ, frequency_max_hz=NO_CPUFREQ, frequency_hz=frequency)
    governors = f"{POLICIES}/policy*/scaling_governor"
    governor = try_fact(
        lambda: reported_fact(", ".join(sorted(set(_read_each(system, policies, "scaling_governor")))), governors)
    )
    highest: dict[str, Any] = {}
    for fact, name in (("frequency_max_hz", "cpuinfo_max_freq"), ("frequency_limit_hz", "scaling_max_freq")):
        try:
            hertz = float(max(_read_kilohertz(system, policies, name)) * KHZ)
            highest[fact] = reported_fact(hertz, f"{POLICIES}/policy*/{name}")
        except LookError as error:
            highest[fact] = unknown(error)
    return Cpu(governor=governor, frequency_hz=frequency, **highest)


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
        raise LookError(f"{POLICIES}/*/{name}: not a number")
    return positive


def parse_cpuinfo_mhz(text: str) -> Fact[Amount]:
    """The mean of "cpu MHz"; inside a virtual machine that is the nominal clock, whatever the real one does."""
    numbers = [float(number) for number in _MHZ.findall(text)]
    if not numbers:
        return not_supported(f"{CPUINFO} reports no clock for this kind of CPU")
    mean_hz = sum(numbers) / len(numbers) * MHZ
    if _VIRTUAL.search(text):
        return estimated_fact(mean_hz, f"{CPUINFO}, the nominal clock of a virtual machine")
    return reported_fact(mean_hz, f"{CPUINFO}, mean of {len(numbers)}")


def _read_load(system: System) -> Load:
    average = try_fact(lambda: parse_average(read_text(system, "/proc/loadavg")))
    pressures: dict[str, Any] = {f"{kind}_pressure": _read_pressure(system, kind) for kind in ("cpu", "memory", "io")}
    try:
        own, before = read_own_pid(system), read_cpu_sample(system)
        system.sleep(WINDOW_S)
        use = cpus_between(before, read_cpu_sample(system), {own})
        source = f"/proc/stat and /proc/*/stat over {WINDOW_S:g} s"
        window = Load(busy_cpus=measured_fact(use.busy_cpus, source), busiest=measured_fact(use.busiest, source))
    except LookError as error:
        window = Load(busy_cpus=unknown(error), busiest=unknown(error))
    return overlaid(Load(average_1min=average, **pressures), window)


def parse_average(text: str) -> Fact[Amount]:
    """The first number of /proc/loadavg: tasks running or waiting, averaged over a minute."""
    match = re.match(r"\d{1,9}\.\d{1,4}", text)
    return reported_fact(float(match[0]), "/proc/loadavg") if match else not_found("/proc/loadavg holds no number")


def _read_pressure(system: System, kind: str) -> Fact[Fraction]:
    """The share of the last ten seconds in which some task waited."""
    path = f"/proc/pressure/{kind}"
    try:
        match = _SOME.search(read_text(system, path))
    except LookError as error:
        if error.absence is Absence.NOT_FOUND or "not supported" in error.why:
            return not_supported(f"this kernel has no pressure statistics ({path})", "boot Linux with psi=1")
        return unknown(error)
    share, missing = float(match[1]) / 100 if match else -1, not_found(f"{path} has no such figure")
    return reported_fact(share, f"{path}, some avg10") if 0 <= share <= 1 else missing


def _read_heat(system: System) -> Cpu:
    """The temperature and how often it was too high; nothing at all where no sensor is listed."""
    temperature: Fact[Degrees] = not_found(f"{HWMON} has no CPU sensor")
    for folder in (f"{HWMON}/{name}" for name in try_look([], system.list_dir, HWMON)[:_MOST_SENSORS]):
        driver = try_look("", read_word, system, f"{folder}/name")
        if driver not in (*_ONE_SENSOR, *_LABELS):
            continue
        sensors = Sensors(system, folder)
        readings = (
            sensors.labelled_number(label, "input", MILLI) if label else sensors.number(("temp1_input",), MILLI)
            for label in _LABELS.get(driver, ("",))
        )
        if known := next((reading for reading in readings if isinstance(reading, Known)), None):
            temperature = known
            break
    count = try_look(None, read_number, system, THROTTLES)  # Intel's processors count; AMD's do not
    if count is None and not isinstance(temperature, Known):
        return Cpu()
    throttles = not_found(f"{THROTTLES} is not there") if count is None else reported_fact(count, THROTTLES)
    return Cpu(temperature_c=temperature, package_throttles=throttles)
