"""The state of a case's GPUs while they compute: an idle reading of clocks, power or link says nothing."""

import math
from typing import NamedTuple

from unslow.facts.machine import Gpu
from unslow.facts.run import GpuUnderLoad
from unslow.facts.snapshot import Case
from unslow.facts.telemetry import GpuTelemetry
from unslow.facts.values import Fact, Known
from unslow.think.adapt.vram import gpu_places, gpus_used, runtime_sees_gpu
from unslow.think.gpu_makers import maker_of

BUSY = 0.3
"""A GPU that is less busy than this when somebody looks is as good as idle."""
FULLY_BUSY = 0.9
"""Of the time: a GPU that computes so much of it has no pauses that anything else could explain."""
EXPLAINED_SHARE = 0.5
"""Part of a loss, in powers, that lower clocks must account for before they are called its cause."""
THERMAL = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})

HOT_C = 87
"""NVIDIA's boost holds a target of 83 to 87 °C (`nvidia-smi -q -d TEMPERATURE`: GPU Target Temperature): a card that is
warmer can't hold it any more, and gives up clocks."""
HELD_BACK = 0.6
"""Of its power limit: a card that reads its memory all the time takes more, unless something holds it back."""

_AT_WORK = frozenset({"P0", "P1", "P2"})


class LoadedGpu(NamedTuple):
    """A GPU at work; `at` is where its readings stand, `place` where the GPU itself does."""

    gpu: Gpu
    place: str
    at: str
    busy: Fact[float]
    clock_hz: Fact[float]
    power_w: Fact[float]
    temperature_c: Fact[float]
    reasons: Fact[list[str]]

    @property
    def clock_share(self) -> float | None:
        """The clock as a part of the highest; None where one of the two is unknown."""
        most = self.gpu.clock_max_hz.value_or(0)
        return self.clock_hz.value / most if most and isinstance(self.clock_hz, Known) else None

    @property
    def power_share(self) -> float | None:
        """The power as a part of the limit; None where one of the two is unknown."""
        most = self.gpu.power_limit_w.value_or(0)
        return self.power_w.value / most if most and isinstance(self.power_w, Known) else None


def loaded_gpus(case: Case) -> list[LoadedGpu]:
    """The runtime's GPUs as they were while tokens were generated, else as they are now, where they are busy now."""
    used = () if runtime_sees_gpu(case) is False else gpus_used(case)
    found = []
    for number, gpu in gpu_places(case):
        sample = _sample_of(case, gpu)
        if gpu in used and sample is not None:
            found.append(_sampled(gpu, number, *sample))
        elif gpu in used and _is_at_work(gpu):
            found.append(_now(gpu, number))
    return found


def gpu_samples(case: Case) -> list[tuple[int, GpuUnderLoad]]:
    """Readings of the runtime's GPUs under load, and their places in `run.gpus`; of all, where no GPU is known."""
    if not gpus_used(case):
        return list(enumerate(case.run.gpus.value_or(())))
    return [sample for gpu in gpus_used(case) if (sample := _sample_of(case, gpu)) is not None]


def watched_gpus(case: Case, watched: tuple[GpuTelemetry, ...]) -> list[GpuTelemetry]:
    """Of the GPUs that were watched those of the runtime; all, where no GPU is known."""
    used = gpus_used(case)
    return [watched[place] for gpu in used for place in _places(gpu, watched)] if used else list(watched)


def _sample_of(case: Case, gpu: Gpu) -> tuple[int, GpuUnderLoad] | None:
    """The readings of one GPU: by its number, and where those of two makers share it, by the order they came in."""
    samples, telemetry = case.run.gpus.value_or(()), case.run.telemetry
    same = [(place, sample) for place, sample in enumerate(samples) if sample.index == gpu.index]
    if len(same) > 1 and isinstance(telemetry, Known):
        phases = (phase.gpus for phase in telemetry.value.phases if phase.phase == "decode" and phase.samples)
        named = tuple(watched for watched in next(phases, ()) if watched.figures)
        if len(named) == len(samples):
            same = [(place, samples[place]) for place in _places(gpu, named)]
    return same[-1] if same else None


def _places(gpu: Gpu, watched: tuple[GpuTelemetry, ...]) -> list[int]:
    """Where a GPU stands among those that were watched, some of which a driver calls by their place on the bus."""
    same = [place for place, other in enumerate(watched) if other.index == gpu.index]
    names = {gpu.name.value_or(""), gpu.bus_id.value_or("")} - {""}
    return [place for place in same if watched[place].name in names] or same[-1:]


def _is_at_work(gpu: Gpu) -> bool:
    """Whether a GPU is busy; where nobody read that, a chip that is held back at full performance state is."""
    if isinstance(gpu.busy, Known):
        return gpu.busy.value >= BUSY
    reasons = set(gpu.event_reasons.value_or([]))
    return is_awake(gpu) and bool(reasons & (THERMAL | POWER))


def is_awake(gpu: Gpu) -> bool:
    """Whether it is in a state of full performance, as a GPU is that was given work a moment ago."""
    return gpu.performance_state.value_or("") in _AT_WORK


def _sampled(gpu: Gpu, number: int, place: int, under: GpuUnderLoad) -> LoadedGpu:
    return LoadedGpu(
        gpu, f"machine.gpus.{number}", f"run.gpus.{place}", under.busy, under.clock_hz, under.power_max_w,
        under.temperature_max_c, under.event_reasons,
    )  # fmt: skip


def _now(gpu: Gpu, number: int) -> LoadedGpu:
    at = f"machine.gpus.{number}"
    return LoadedGpu(gpu, at, at, gpu.busy, gpu.clock_hz, gpu.power_w, gpu.temperature_c, gpu.event_reasons)


def is_held_back_by_heat(gpu: LoadedGpu) -> bool:
    """Whether a card without pauses is beyond its target temperature at a power far below its limit.

    Heat that follows from work comes with power; heat without it is a card that gave up clocks and still can't cool.
    """
    busy, share, hot = gpu.busy.value_or(0.0), gpu.power_share, gpu.gpu.temperature_slowdown_c.value_or(HOT_C)
    nvidia = maker_of(gpu.gpu) == "NVIDIA"  # of others drivers report the hottest spot, which may be far warmer
    too_hot = gpu.temperature_c.value_or(0.0) >= min(hot, HOT_C)
    return nvidia and too_hot and busy >= FULLY_BUSY and share is not None and share <= HELD_BACK


def starved(gpu: LoadedGpu) -> bool:
    """Whether the GPU waits for work most of the time: low clocks are what such a GPU does."""
    return isinstance(gpu.busy, Known) and gpu.busy.value < BUSY


def explains(clock_share: float, lost: float | None) -> bool:
    """Whether clocks so low account for most of a loss; a loss that nobody put a number to is taken as explained."""
    return lost is None or math.log(1 / max(clock_share, 1e-3)) >= EXPLAINED_SHARE * math.log(max(1.0, lost))
