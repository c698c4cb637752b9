"""Whether the memory of a desktop or laptop is as slow as if one of its two channels were empty.

No file tells a user who is not root which slots are filled; the speed of all cores together does.
"""

import re

from unslow.facts.snapshot import Case
from unslow.facts.units import GB
from unslow.facts.values import Known, Origin
from unslow.think.adapt.who_computes import uses_no_gpu

ONE_CHANNEL = 23 * GB
"""In a second: one channel of DDR4-3200 has 25.6 GB/s, of which nine tenths can be read; two of the slowest DDR4, at
2133, have 34.1."""
_TWO_CHANNELS = re.compile(
    r"(?i)\bRyzen\b(?!.*Embedded)|\bi[3579]-(?:[6-9]\d{3}|1\d{4})|\bCore(?:\(TM\))? (?:Ultra )?[3579]\b"
)
"""Desktops and laptops with DDR4 or newer: earlier ones, with DDR3, are that slow with both; an N100 has one."""


def slow_as_one_channel(case: Case) -> float | None:
    """Bytes a second that its memory gives, where that is no more than one of two channels would; else None."""
    read, cpu, system = case.machine.memory.read_bytes_per_s, case.machine.cpu, case.machine.system
    real = not isinstance(system.hypervisor, Known) and not system.wsl.value_or(default=False)
    if not isinstance(read, Known) or read.origin is not Origin.MEASURED or not real or not uses_no_gpu(case):
        return None
    return read.value if read.value <= ONE_CHANNEL and _TWO_CHANNELS.search(cpu.model.value_or("")) else None
