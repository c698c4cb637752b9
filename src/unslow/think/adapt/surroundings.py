"""Where a case happens, as far as commands differ by it: the system, the container, the makers of its GPUs."""

import re

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.remembered import once
from unslow.think.adapt.vram import gpus_of, seen_gpus
from unslow.think.gpu_makers import maker_of

_MAKERS = {"CUDA": "NVIDIA", "ROCm": "AMD", "HIP": "AMD", "MTL": "Apple", "Metal": "Apple", "SYCL": "Intel"}
"""By the backend that a runtime names its devices after; Vulkan is anybody's."""


_UNIT = re.compile(r"/([\w@.:-]{1,120}\.service)(?:/|$)")


@once
def system_of(case: Case) -> str:
    """The family of the operating system; empty where neither a word nor the hardware tells."""
    words = case.machine.system.name.value_or(case.runtime.system.value_or("")).lower()
    if "windows" in words:
        return "Windows"
    if "mac" in words or "darwin" in words or "Apple" in makers_of(case):
        return "macOS"
    return "Linux" if words or container_of(case) else ""


def container_of(case: Case) -> str:
    """The kind of container that the runtime is in; empty for none that is known."""
    return str(case.runtime.container.value_or(case.machine.system.container.value_or("")))


def unit_of(case: Case) -> str:
    """The service of systemd that starts the runtime, or whose control group limits it; empty for none known."""
    if isinstance(case.runtime.unit, Known):
        return case.runtime.unit.value.rpartition(" ")[2]
    limits = (case.runtime.memory_limit_bytes, case.runtime.quota_cpus)
    found = (_UNIT.search(limit.source) for limit in limits if isinstance(limit, Known))
    return next((match[1] for match in found if match), "")


@once
def makers_of(case: Case) -> frozenset[str]:
    """Who made the machine's GPUs, else those that the runtime sees."""
    makers = {maker_of(gpu) for gpu in gpus_of(case)} - {""}
    named = {device.name.rstrip("0123456789") for device in seen_gpus(case)}
    return frozenset(makers or {_MAKERS[name] for name in named if name in _MAKERS})
