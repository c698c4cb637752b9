"""The GPUs while tokens were generated, as the causes of slowness want them: from the decode phase of a telemetry."""

from collections.abc import Callable
from typing import Any

from unslow.facts.bounded import bounded
from unslow.facts.run import GpuUnderLoad
from unslow.facts.telemetry import GpuTelemetry, PhaseTelemetry, Stat, Telemetry
from unslow.facts.values import Fact, Fraction, measured, not_found, reported

SOURCE = "sampled while generating"
MEANT_SHARE = 0.2
"""Of the samples in which a reason must be set to count as one. A GPU that works touches its power limit now and then
without losing anything: clocks that were halved in fewer samples than these cost less than a tenth of the speed, which
is no slowness. Heat and power that do hold a GPU back are set nearly all the time, or at least every other sample."""


def under_load(telemetry: Telemetry) -> tuple[GpuUnderLoad, ...]:
    """Every GPU that was watched while tokens were generated; none where none was."""
    decode = decode_phase(telemetry)
    return tuple(_gpu(gpu, decode.samples) for gpu in decode.gpus if gpu.figures) if decode else ()


def throttled_fraction(telemetry: Telemetry) -> Fact[Fraction]:
    """The share of the quota's periods in which it ran out while tokens were generated."""
    decode = decode_phase(telemetry)
    share = decode.host.get("cpu_throttled_share") if decode else None
    if share is None:
        return not_found(telemetry.unread.get("quota", "no period of a CPU quota ended meanwhile"))
    return measured(min(1.0, max(0.0, share.mean)), f"cpu.stat, {SOURCE}")


def decode_phase(telemetry: Telemetry) -> PhaseTelemetry | None:
    """The phase in which tokens were generated; None where it was not sampled."""
    return next((phase for phase in telemetry.phases if phase.phase == "decode" and phase.samples), None)


def meant_reasons(gpu: GpuTelemetry) -> list[str]:
    """The reasons that were set often enough to mean something."""
    return [name for name, share in gpu.reasons.items() if share >= MEANT_SHARE]


def _gpu(gpu: GpuTelemetry, samples: int) -> GpuUnderLoad:
    told = "clock_hz" in gpu.figures or gpu.reasons
    reasons = reported(meant_reasons(gpu), SOURCE) if told else not_found("the driver tells no reasons")
    return bounded(
        GpuUnderLoad(
            index=gpu.index,
            samples=samples,
            busy=_fact(gpu, "busy", _mean),
            memory_busy=_fact(gpu, "memory_busy", _mean),
            clock_hz=_fact(gpu, "clock_hz", _mean),
            temperature_max_c=_fact(gpu, "temperature_c", _high),
            power_max_w=_fact(gpu, "power_w", _high),
            vram_used_max_bytes=_fact(gpu, "vram_used_bytes", _whole_high),
            event_reasons=reasons,
            pcie_generation_max_seen=_fact(gpu, "pcie_generation", _whole_high),
            pcie_width_max_seen=_fact(gpu, "pcie_width", _whole_high),
            others_busy=_fact(gpu, "others_busy", _mean),
        )
    )


def _fact(gpu: GpuTelemetry, name: str, value: Callable[[Stat], Any]) -> Fact[Any]:
    stat = gpu.figures.get(name)
    return reported(value(stat), SOURCE) if stat else not_found(f"the driver did not tell {name} while generating")


def _mean(stat: Stat) -> float:
    return stat.mean


def _high(stat: Stat) -> float:
    return stat.high


def _whole_high(stat: Stat) -> int:
    return round(stat.high)
