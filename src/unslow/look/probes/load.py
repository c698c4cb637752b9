"""How busy the machine is: processor time over a short window, the load average and the kernel's pressure figures."""

import re
from typing import Any

from unslow.facts.machine import Load, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import Absence, Amount, Fact, Fraction, measured, not_found, not_supported, reported
from unslow.look.kernel.processors import cpus_between, read_cpu_sample, read_own_pid
from unslow.look.system import LookError, System, read_text, try_fact, unknown

WINDOW_S = 0.25
_SOME = re.compile(r"^some avg10=(\d{1,3}(?:\.\d{1,4})?)", re.MULTILINE)


def read(system: System) -> Machine:
    """The load now, without that of this program."""
    average = try_fact(lambda: parse_average(read_text(system, "/proc/loadavg")))
    pressures: dict[str, Any] = {f"{kind}_pressure": _read_pressure(system, kind) for kind in ("cpu", "memory", "io")}
    try:
        own, before = read_own_pid(system), read_cpu_sample(system)
        system.sleep(WINDOW_S)
        use = cpus_between(before, read_cpu_sample(system), {own})
        source = f"/proc/stat and /proc/*/stat over {WINDOW_S:g} s"
        window = Load(busy_cpus=measured(use.busy_cpus, source), busiest=measured(use.busiest, source))
    except LookError as error:
        window = Load(busy_cpus=unknown(error), busiest=unknown(error))
    return Machine(load=overlaid(Load(average_1min=average, **pressures), window))


def parse_average(text: str) -> Fact[Amount]:
    """The first number of /proc/loadavg: tasks running or waiting, averaged over a minute."""
    match = re.match(r"\d{1,9}\.\d{1,4}", text)
    return reported(float(match[0]), "/proc/loadavg") if match else not_found("/proc/loadavg holds no number")


def _read_pressure(system: System, kind: str) -> Fact[Fraction]:
    path = f"/proc/pressure/{kind}"
    try:
        return parse_pressure(read_text(system, path), path)
    except LookError as error:
        if error.absence is Absence.NOT_FOUND or "not supported" in error.why:
            return not_supported(f"this kernel keeps no pressure figures ({path})", "boot Linux with psi=1")
        return unknown(error)


def parse_pressure(text: str, source: str) -> Fact[Fraction]:
    """The share of the last ten seconds in which some task waited."""
    match = _SOME.search(text)
    share = float(match[1]) / 100 if match else -1
    return reported(share, f"{source}, some avg10") if 0 <= share <= 1 else not_found(f"{source} has no such figure")
