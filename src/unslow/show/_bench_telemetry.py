"""What the machine did while it was measured, by phase, as a table."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType

from unslow.facts.telemetry import PhaseTelemetry, Stat, Telemetry
from unslow.facts.units import GB
from unslow.show._console import dim, plain_table
from unslow.show._units import size

_PHASES = ("queue", "load", "prefill", "decode")
_SHORTEST_S = 0.05
"""A phase so short has hardly a sample."""
_SOURCES = {"NVIDIA": "nvml", "AMD": "amdgpu", "Radeon": "amdgpu", "Intel": "intel_gpu"}
"""Whose GPUs each source reads: that one of another maker is silent is nothing to tell."""
_Shown = Callable[[Stat], str]


def _percent(stat: Stat) -> str:
    return f"{stat.mean:.0%}"


def _mhz(stat: Stat) -> str:
    return f"{stat.mean / 1e6:,.0f} MHz"


def _watts(stat: Stat) -> str:
    return f"{stat.mean:.0f} W"


def _hottest(stat: Stat) -> str:
    return f"{stat.high:.0f} °C"


def _most(stat: Stat) -> str:
    return size(stat.high)


def _least(stat: Stat) -> str:
    return size(stat.low)


def _traffic(stat: Stat) -> str:
    return f"{stat.mean / GB:.2f} GB/s"


def _cpus(stat: Stat) -> str:
    return f"{stat.mean:.1f}"


_GPU: dict[str, tuple[str, _Shown]] = {
    "busy": ("busy", _percent),
    "memory_busy": ("memory busy", _percent),
    "clock_hz": ("clock", _mhz),
    "memory_clock_hz": ("memory clock", _mhz),
    "power_w": ("power", _watts),
    "temperature_c": ("temperature, most", _hottest),
    "vram_used_bytes": ("memory in use, most", _most),
    "pcie_receive_bytes_per_s": ("bus traffic to it", _traffic),
    "pcie_transmit_bytes_per_s": ("bus traffic from it", _traffic),
}
_HOST: dict[str, tuple[str, _Shown]] = {
    "own_cpus": ("processors, the server", _cpus),
    "others_cpus": ("processors, others", _cpus),
    "busiest_core": ("busiest processor", _percent),
    "memory_available_bytes": ("memory free, least", _least),
    "swap_in_bytes_per_s": ("read back from swap", _traffic),
    "disk_read_bytes_per_s": ("read from disks", _traffic),
    "cpu_pressure": ("waiting for a processor", _percent),
    "memory_pressure": ("waiting for memory", _percent),
    "io_pressure": ("waiting for disks", _percent),
}
_ONLY_IF_SEEN = {
    "swap_in_bytes_per_s": 1e5,
    "disk_read_bytes_per_s": 1e6,
    "cpu_pressure": 0.005,
    "memory_pressure": 0.005,
    "io_pressure": 0.005,
    "pcie_receive_bytes_per_s": 5e6,
    "pcie_transmit_bytes_per_s": 5e6,
}
"""Less than this is nothing worth a line."""


def telemetry_parts(telemetry: Telemetry, gpus: Sequence[str]) -> Iterator[RenderableType]:
    """The table, and what watching itself cost."""
    phases = [
        p for name in _PHASES for p in telemetry.phases if p.phase == name and p.seconds >= _SHORTEST_S and p.samples
    ]
    if phases:
        table = plain_table("  WHILE IT RAN", *(phase.phase.upper() for phase in phases))
        for row in (*_gpu_rows(phases), *_host_rows(phases)):
            table.add_row(*row)
        yield table
    yield dim(
        f"watched {telemetry.got_hz:.0f} times a second: {telemetry.cost.seconds_per_sample * 1e3:.2f} ms each, "
        f"{telemetry.cost.cpus:.2%} of a processor"
    )
    for source in sorted({_SOURCES[maker] for maker in _SOURCES if any(maker in gpu for gpu in gpus)}):
        if source in telemetry.unread:
            yield dim(f"not watched: {source}: {telemetry.unread[source]}")
    yield ""


def _gpu_rows(phases: Sequence[PhaseTelemetry]) -> Iterator[tuple[str, ...]]:
    indexes = sorted({gpu.index for phase in phases for gpu in phase.gpus})
    for index in indexes:
        gpus = [next((g for g in phase.gpus if g.index == index), None) for phase in phases]
        name = f"GPU {index}" if len(indexes) > 1 else "GPU"
        stats = [gpu.figures if gpu else {} for gpu in gpus]
        yield from _rows(name, _GPU, stats)
        reasons = sorted({reason for gpu in gpus if gpu for reason in gpu.reasons})
        for reason in reasons:
            shares = [gpu.reasons.get(reason, 0.0) if gpu else 0.0 for gpu in gpus]
            yield (f"  {name} {reason.replace('_', ' ')}", *(f"{share:.0%} of the time" for share in shares))


def _host_rows(phases: Sequence[PhaseTelemetry]) -> Iterator[tuple[str, ...]]:
    return _rows("", _HOST, [phase.host for phase in phases])


def _rows(
    prefix: str, names: dict[str, tuple[str, _Shown]], stats: Sequence[dict[str, Stat]]
) -> Iterator[tuple[str, ...]]:
    for name, (words, shown) in names.items():
        cells = [s.get(name) for s in stats]
        if not any(cells) or (
            name in _ONLY_IF_SEEN and not any(cell and cell.mean > _ONLY_IF_SEEN[name] for cell in cells)
        ):
            continue
        yield (f"  {prefix} {words}".replace("   ", "  "), *(shown(cell) if cell else "-" for cell in cells))
