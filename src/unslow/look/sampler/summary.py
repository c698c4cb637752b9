"""Summaries as facts: of a phase, and of a stretch of time."""

from collections import Counter
from collections.abc import Sequence

from unslow.facts.telemetry import GpuTelemetry, Phase, PhaseTelemetry, Stat
from unslow.look.sampler.reading import REASON_BITS, Device
from unslow.look.sampler.tally import Tally

_MAXIMA = ("vram_used_bytes", "power_w", "temperature_c", "own_rss_bytes", "busiest_core")
"""Where the highest matters as much as the mean."""
_DIGITS = 12  # of a fraction: rounded so that a sum of thirds is a whole


def phase_telemetry(
    phase: Phase, seconds: float, tally: Tally, columns: Sequence[str], devices: Sequence[Device]
) -> PhaseTelemetry:
    """All devices in one phase."""
    stats = {columns[place]: running.stat() for place, running in tally.running.items() if running.count}
    gpus = tuple(_gpu(device, stats, _bits(device, tally, columns)) for device in devices)
    prefixes = tuple(device.prefix for device in devices)
    host = {name: stat for name, stat in stats.items() if not name.startswith(prefixes)}
    return PhaseTelemetry(phase=phase, seconds=max(0.0, seconds), samples=tally.samples, gpus=gpus, host=host)


def seen_in(tally: Tally, columns: Sequence[str], devices: Sequence[Device]) -> dict[str, float]:
    """Means by the name of the column, the maxima that matter with `_max` at the end, and the shares of reasons."""
    seen = {}
    for place, running in tally.running.items():
        name = columns[place]
        if running.count:
            seen[name] = running.total / running.count
            if name.endswith(_MAXIMA):
                seen[f"{name}_max"] = running.high
    for device in devices:
        shares = reason_shares(device, _bits(device, tally, columns))
        seen |= {f"{device.prefix}reason_{name}": share for name, share in shares.items()}
    return seen


def _bits(device: Device, tally: Tally, columns: Sequence[str]) -> Counter[float]:
    wanted = device.prefix + REASON_BITS
    return next((seen for place, seen in tally.masks.items() if columns[place] == wanted), Counter())


def _gpu(device: Device, stats: dict[str, Stat], bits: Counter[float]) -> GpuTelemetry:
    figures = {n.removeprefix(device.prefix): stat for n, stat in stats.items() if n.startswith(device.prefix)}
    return GpuTelemetry(index=device.number, name=device.name, figures=figures, reasons=reason_shares(device, bits))


def reason_shares(device: Device, bits: Counter[float]) -> dict[str, float]:
    """The share of the samples in which each reason was set, the most frequent first."""
    shares: Counter[str] = Counter()
    for mask, times in bits.items():
        for name in device.reason_names(int(mask)):
            shares[name] += times
    return {name: round(times / bits.total(), _DIGITS) for name, times in shares.most_common()}
