"""What was sampled while a case was at work: GPUs under load, and figures of each phase."""

import math
from functools import cached_property
from typing import NamedTuple

from unslow.catalog.hardware_families import gpu_maker
from unslow.facts.machine import Gpu
from unslow.facts.run import GpuTelemetry, GpuUnderLoad, Phase, PhaseTelemetry, Stat
from unslow.facts.values import Fact, Known
from unslow.think.case.group import Group
from unslow.think.report import Evidence

BUSY = 0.3  # A GPU that is less busy than this when somebody looks is as good as idle
FULLY_BUSY = 0.9  # Of the time: a GPU that computes so much of it has no pauses that anything else could explain
EXPLAINED_SHARE = 0.5  # Part of a loss, in powers, that lower clocks must account for before they are called its cause
THERMAL = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})
HOT_C = 87
"""NVIDIA's boost holds a target of 83 to 87 °C (`nvidia-smi -q -d TEMPERATURE`: GPU Target Temperature): a card that is
warmer can't hold it any more, and gives up clocks."""
USUAL_SLOWDOWN_C = 80  # Where the driver gives no limit: cards slow down from here on
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

    @property
    def reason_names(self) -> frozenset[str]:
        """Why its clocks are not higher, by its driver; empty where the driver names no reason."""
        return frozenset(self.reasons.get() or ())

    @property
    def power_path(self) -> str:
        """The fact that gives its power: the highest sample under load, else the reading of now."""
        return f"{self.at}.power_w" if self.at == self.place else f"{self.at}.power_max_w"


GPU_STATE = "while it generates: {gpu_state}"  # Clocks, power, temperature and link of the GPU at hand
ENOUGH_SAMPLES = 3  # Of a figure in a phase: fewer may be what was left of the phase before


class TelemetryView(Group):
    """Samples taken at work."""

    @cached_property
    def loaded_gpus(self) -> list[LoadedGpu]:
        """The runtime's GPUs as sampled while tokens were generated, else as they are now, if busy."""
        used = () if self.case.gpus.visible_to_runtime is False else self.case.gpus.in_use
        found = []
        for number, gpu in ((number, gpu) for number, gpu in self.case.gpus.places if gpu in used):
            place = at = f"machine.gpus.{number}"
            readings = (gpu.busy, gpu.clock_hz, gpu.power_w, gpu.temperature_c, gpu.event_reasons)
            if sample := self._sample_of(gpu):
                at, under = f"run.gpus.{sample[0]}", sample[1]
                readings = (under.busy, under.clock_hz, under.power_max_w, under.temperature_max_c, under.event_reasons)
            # Where nobody read whether it is busy, a chip that is held back at full performance state is
            held_back = is_awake(gpu) and bool((THERMAL | POWER).intersection(gpu.event_reasons.value_or([])))
            if sample or (gpu.busy.value >= BUSY if isinstance(gpu.busy, Known) else held_back):
                found.append(LoadedGpu(gpu, place, at, *readings))
        return found

    @cached_property
    def gpu_samples(self) -> list[tuple[int, GpuUnderLoad]]:
        """Readings of the runtime's GPUs under load, and their places in `run.gpus`; of all, where no GPU is known."""
        if not self.case.gpus.in_use:
            return list(enumerate(self.run.gpus.value_or(())))
        return [sample for gpu in self.case.gpus.in_use if (sample := self._sample_of(gpu)) is not None]

    def _sample_of(self, gpu: Gpu) -> tuple[int, GpuUnderLoad] | None:
        """The readings of one GPU: by its number, and where those of two makers share it, by the order they came in."""
        samples, telemetry = self.run.gpus.value_or(()), self.run.telemetry
        same = [(place, sample) for place, sample in enumerate(samples) if sample.index == gpu.index]
        if len(same) > 1 and isinstance(telemetry, Known):
            phases = (phase.gpus for phase in telemetry.value.phases if phase.phase == "decode" and phase.samples)
            named = tuple(watched for watched in next(phases, ()) if watched.figures)
            if len(named) == len(samples):
                same = [(place, samples[place]) for place in _places(gpu, named)]
        return same[-1] if same else None

    @cached_property
    def gpus_at_work(self) -> list[LoadedGpu]:
        """The runtime's GPUs while they compute; none where they were watched and idle."""
        self.case.ask_for("machine.gpus", GPU_STATE)
        loaded = self.loaded_gpus
        if not loaded:
            self.case.ask_for("run.gpus", GPU_STATE)
        return loaded

    def need_gpu_state(self, *paths: str) -> None:
        """What the driver shows of a GPU while it generates must be known."""
        for path in paths:
            self.case.ask_for(path, GPU_STATE)

    def in_phase(self, phase: Phase) -> PhaseTelemetry | None:
        """All devices in one phase; None where nobody watched, or no request was in it."""
        telemetry = self.run.telemetry
        phases = telemetry.value.phases if isinstance(telemetry, Known) else ()
        return next((p for p in phases if p.phase == phase and p.samples), None)

    def host_figure(self, name: str, phase: Phase = "decode") -> Stat | None:
        """A figure of the whole machine, such as `major_faults_per_s`; None where it was not watched."""
        seen = self.in_phase(phase)
        return seen.host.get(name) if seen else None

    def host_at_work(self, name: str) -> Stat | None:
        """The figure while tokens were generated; over the whole sample where no request finished in it."""
        found = self.host_figure(name)
        if found is None and self.in_phase("decode") is None and isinstance(self.run.decode_tokens_per_s, Known):
            found = self.host_figure(name, "idle")
        return found if found and found.samples >= ENOUGH_SAMPLES else None

    def gpu_figure(self, name: str, phase: Phase = "decode") -> Stat | None:
        """A figure of the runtime's GPU on which it is highest, such as `pcie_receive_bytes_per_s`."""
        seen = self.in_phase(phase)
        watched, used = seen.gpus if seen else (), self.case.gpus.in_use  # all, where no GPU is known
        own = [watched[place] for gpu in used for place in _places(gpu, watched)] if used else watched
        found = [gpu.figures[name] for gpu in own if name in gpu.figures]
        return max(found, key=lambda stat: stat.mean, default=None)

    def cite(self, name: str, value: str, reference: str | None = None) -> Evidence:
        """A watched figure as evidence, in words that tell its unit."""
        known = self.run.telemetry
        origin, source = (str(known.origin), known.source) if isinstance(known, Known) else ("measured", "")
        return Evidence(fact=f"run.telemetry.{name}", value=value, reference=reference, origin=origin, source=source)

    def figure_of_gpu(self, index: int, name: str) -> Stat | None:
        """A figure of this GPU while tokens were generated; None where it was not watched."""
        seen = self.in_phase("decode")
        gpu = next((g for g in seen.gpus if g.index == index), None) if seen else None
        return gpu.figures.get(name) if gpu else None

    @cached_property
    def work_of_others(self) -> tuple[str, float] | None:
        """The largest share of a GPU's time in kernels of other processes, and its fact; None if not counted."""
        facts = [(f"run.gpus.{place}.others_busy", gpu.others_busy) for place, gpu in self.gpu_samples]
        counted = [(path, fact.value) for path, fact in facts if isinstance(fact, Known)]
        between = self.gpu_figure("others_busy", "idle")  # other processes do not stop between requests
        if not counted and between is not None:
            return "run.telemetry", between.mean
        return max(counted, key=lambda one: one[1], default=None)

    @cached_property
    def busy_between_requests(self) -> float | None:
        """How busy the GPUs were while the runtime had nothing to do; None where that was not measured."""
        pause = self.gpu_figure("busy", "idle")
        if pause is not None and pause.samples >= ENOUGH_SAMPLES and self.in_phase("decode") is not None:
            return pause.mean
        if self.runtime.scheduling.busy_slots.get() == 0:
            return max((g.busy.value for g in self.case.gpus.in_use if isinstance(g.busy, Known)), default=None)
        return None


def _places(gpu: Gpu, watched: tuple[GpuTelemetry, ...]) -> list[int]:
    """Where a GPU stands among those that were watched, some of which a driver calls by their place on the bus."""
    same = [place for place, other in enumerate(watched) if other.index == gpu.index]
    names = {gpu.name.value_or(""), gpu.bus_id.value_or("")} - {""}
    return [place for place in same if watched[place].name in names] or same[-1:]


def is_awake(gpu: Gpu) -> bool:
    """Whether it is in a state of full performance, as a GPU is that was given work a moment ago."""
    return gpu.performance_state.value_or("") in _AT_WORK


def is_held_back_by_heat(gpu: LoadedGpu) -> bool:
    """Whether a card without pauses is beyond its target temperature at a power far below its limit.

    Heat that follows from work comes with power; heat without it is a card that gave up clocks and still can't cool.
    """
    busy, share, hot = gpu.busy.value_or(0.0), gpu.power_share, gpu.gpu.temperature_slowdown_c.value_or(HOT_C)
    nvidia = gpu_maker(gpu.gpu) == "NVIDIA"  # of others drivers report the hottest spot, which may be far warmer
    too_hot = gpu.temperature_c.value_or(0.0) >= min(hot, HOT_C)
    return nvidia and too_hot and busy >= FULLY_BUSY and share is not None and share <= HELD_BACK


def is_starved(gpu: LoadedGpu) -> bool:
    """Whether the GPU waits for work most of the time: low clocks are what such a GPU does."""
    return isinstance(gpu.busy, Known) and gpu.busy.value < BUSY


def explains(clock_share: float, lost: float | None) -> bool:
    """Whether clocks so low account for most of a loss; a loss that nobody put a number to is taken as explained."""
    return lost is None or math.log(1 / max(clock_share, 1e-3)) >= EXPLAINED_SHARE * math.log(max(1.0, lost))
