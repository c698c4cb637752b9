"""What changes when memory runs out: signs that a sudden slowness is a spill."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from unslow.facts.units import GB, GIB, MIB

_OF_A_GPU = re.compile(r"gpu\d+_")


class _Sign(NamedTuple):
    """A figure that grows: by how many times and by how much at least, before it means something."""

    figure: str
    times: float
    least: float
    unit: float
    words: str


_SIGNS = (
    _Sign("pcie_receive_bytes_per_s", 3.0, 0.5 * GB, GB, "the GPU received {1:.1f} GB/s over PCIe instead of {0:.1f}"),
    _Sign("pcie_transmit_bytes_per_s", 3.0, 0.5 * GB, GB, "the GPU sent {1:.1f} GB/s over PCIe instead of {0:.1f}"),
    _Sign("gtt_used_bytes", 1.5, 0.2 * GIB, GIB, "the GPU used {1:.1f} GiB of the host's memory instead of {0:.1f}"),
    _Sign("own_cpus", 1.5, 1.0, 1.0, "the runtime used {1:.1f} CPUs instead of {0:.1f}"),
    _Sign("major_faults_per_s", 5.0, 20.0, 1.0, "{1:.0f} page faults a second waited for a disk instead of {0:.0f}"),
    _Sign("swap_in_bytes_per_s", 3.0, 1.0 * MIB, MIB, "{1:.0f} MiB/s came back from swap instead of {0:.0f}"),
    _Sign("disk_read_bytes_per_s", 5.0, 50.0 * MIB, MIB, "{1:.0f} MiB/s were read from disk instead of {0:.0f}"),
)
FIGURES = (
    *(sign.figure for sign in _SIGNS),
    "vram_used_bytes",
    "busy",
    "memory_busy",
    "clock_hz",
    "power_w",
    "others_cpus",
)
"""What is worth keeping of a depth."""
_MORE_BYTES = 1 * GIB
_FULL_BYTES = 600 * MIB
"""Free memory of a GPU that is full: what drivers and allocators leave."""
_IDLE_SHARE = 0.5


def worth_keeping(seen: Mapping[str, float]) -> dict[str, float]:
    """The figures that tell a spill from other causes."""
    return {name: value for name, value in seen.items() if value >= 0 and _plain(name) in FIGURES}


def spill_signs(before: Mapping[str, float], after: Mapping[str, float], vram_bytes: float = 0.0) -> tuple[str, ...]:
    """What tells of a spill between two depths, in words; nothing where nothing does, or nobody watched."""
    signs = [sign.words.format(*found) for sign in _SIGNS if (found := _grown(sign, before, after))]
    if not signs:
        return ()
    was, now, used = (
        _most(seen, name) for seen, name in ((before, "busy"), (after, "busy"), (after, "vram_used_bytes"))
    )
    if was is not None and now is not None and now < _IDLE_SHARE * was:
        signs.append(f"the GPU was busy for {now:.0%} of the time instead of {was:.0%}")
    if used is not None and vram_bytes and vram_bytes - used < _FULL_BYTES:
        signs.append("its memory was full")  # alone no sign: many fill it on purpose
    return tuple(signs)


def memory_taken(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """How much more memory of a GPU was in use later, by whomever; empty where it was not clearly more."""
    was, now = _most(before, "vram_used_bytes"), _most(after, "vram_used_bytes")
    if was is None or now is None or now - was < _MORE_BYTES:
        return ""
    return f"{now / GIB:.1f} GiB of the GPU's memory were in use instead of {was / GIB:.1f}"


def _grown(sign: _Sign, before: Mapping[str, float], after: Mapping[str, float]) -> tuple[float, float] | None:
    """The figure before and after in its unit, where it grew enough."""
    was, now = _most(before, sign.figure), _most(after, sign.figure)
    if was is None or now is None or now < sign.times * was or now - was < sign.least:
        return None
    return was / sign.unit, now / sign.unit


def _most(seen: Mapping[str, float], figure: str) -> float | None:
    """The figure, the highest of all GPUs where each has one."""
    return max((value for name, value in seen.items() if _plain(name) == figure), default=None)


def _plain(name: str) -> str:
    return _OF_A_GPU.sub("", name, count=1)
