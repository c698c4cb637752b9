"""The embedded engine on made-up models: what each cost of a token is on these processors."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from unslow import __version__
from unslow.app.progress import Progress
from unslow.commands.calibrate import CalibrateRequest
from unslow.facts.calibration import Calibration, Point, Rates
from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Machine
from unslow.facts.units import GB, MB
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.calibration import Guest, Limits, Measured, Rounds, measure_in_rounds, trials_for
from unslow.look.engine.cache import default_cache
from unslow.look.engine.server import engine_version
from unslow.look.kernel.caches import read_last_level_cache_bytes
from unslow.look.models.gguf import blueprint, read_gguf
from unslow.look.probes import read_machine
from unslow.look.system import LookError, System
from unslow.think.calibrate import demand_of, drift_of, fitted, mark_of

ENGINE = "embedded llama.cpp"
"""As the runtime is named in a snapshot."""
BUSY_SHARE = 0.2
"""Other programs may use this share of the processors before a calibration says no."""
FIT_ERROR = 0.05
LOST_SHARE = 0.25
MEMORY_OVER = 2
"""Some types are kept a second time in an order that suits the processor."""
ENGINE_BYTES = 120 * MB

Step = Callable[[str, float], None]


def calibrate_embedded(
    system: System,
    request: CalibrateRequest,
    progress: Progress,
    guests: Sequence[Guest] = (),
    limits: Limits | None = None,
) -> Calibration:
    """The calibration of this machine's processors; `guests` are measured in place of the usual made-up models."""
    start, version = system.clock(), engine_version()
    progress.step("looking at the machine", 0.0)
    machine, _ = read_machine(system)
    _check_idle(machine, request, progress)
    threads = request.threads or _threads(machine.cpu)
    speed = read_ram_bandwidth(system).read_bytes_per_s.value_or(0.0)
    guests = guests or cpu_guests(system, progress.step)
    _check_memory(machine, guests)
    rounds = measure_in_rounds(system, guests, threads, limits or Limits(), progress.step)
    speed = max(speed, read_ram_bandwidth(system).read_bytes_per_s.value_or(0.0))
    points = tuple(point_of(system, one) for one in rounds.measured)
    rates = _rates(points)
    return Calibration(
        unslow_version=__version__,
        taken_at=system.now(),
        seconds=round(system.clock() - start, 1),
        machine=mark_of(machine),
        engine=ENGINE,
        engine_version=version,
        backend="cpu",
        device="cpu",
        threads=threads,
        cache_bytes=_cache_bytes(system),
        ram_read_bytes_per_s=speed,
        others_cpus=rounds.use.busy_cpus if rounds.use else 0.0,
        drift=drift_of(points),
        disturbed=disturbance(rounds, rates),
        rates=rates,
        points=points,
    )


def cpu_guests(system: System, step: Step) -> list[Guest]:
    """The made-up models of a calibration on the processors, written where they are not there yet."""
    cache, trials = default_cache(), trials_for(_cache_bytes(system))
    guests = []
    for number, trial in enumerate(trials):
        step("writing made-up models", number / len(trials))
        path = str(cache.model(trial.shape, trial.quant))
        guests.append(Guest(trial.name, path, trial.depth_tokens, trial.prompt_tokens))
    return guests


def point_of(system: System, one: Measured) -> Point:
    """A measured model with what it asks for."""
    plan = blueprint(read_gguf(system, one.guest.path))
    return Point(
        name=one.guest.name,
        demand=demand_of(plan, one.depth_tokens),
        samples=one.samples,
        lost=one.lost,
        decode_s=one.best_decode_s,
        typical_s=one.typical_decode_s,
        prompt_tokens=one.guest.prompt_tokens,
        prefill_s=one.best_prefill_s,
    )


def disturbance(rounds: Rounds, rates: Rates) -> str:
    """Why the figures are to be taken with care; empty where nothing was in the way."""
    reasons = []
    if rounds.use and not rounds.quiet:
        names = ", ".join(p.name for p in rounds.use.busiest[:2])
        reasons.append(f"others used {rounds.use.busy_cpus:.1f} processors meanwhile{f' ({names})' if names else ''}")
    lost, good = (sum(n) for n in zip(*((one.lost, one.samples) for one in rounds.measured), strict=True))
    if lost > LOST_SHARE * (lost + good):
        reasons.append(f"{lost} of {lost + good} samples were broken off")
    if rounds.missing:
        reasons.append(f"nothing was learned of {', '.join(rounds.missing)}")
    if rates.error > FIT_ERROR:
        reasons.append(f"the costs explain the measured times only within {rates.error:.0%}")
    return "; ".join(reasons)


def _rates(points: Sequence[Point]) -> Rates:
    rates = fitted(points)
    if rates is None or not rates.types:
        raise UserError("too little could be measured to learn from", "try again when the machine is idle")
    return rates


def _check_idle(machine: Machine, request: CalibrateRequest, progress: Progress) -> None:
    """UserError where others keep the processors busy: their work would be measured too."""
    others, cores = machine.load.busy_cpus.value_or(0.0), machine.cpu.logical_cpus.value_or(1)
    if others <= BUSY_SHARE * cores:
        return
    names = ", ".join(p.name for p in machine.load.busiest.value_or([])[:2])
    busy = f"others use {others:.1f} of {cores} processors{f' ({names})' if names else ''}"
    if not request.anyway:
        raise UserError(f"{busy}, so a measurement would be wrong", "try again when it is idle, or use --anyway")
    progress.say(f"{busy}: measuring anyway, and noting it")


def _check_memory(machine: Machine, guests: Sequence[Guest]) -> None:
    """UserError where the engines would not fit beside each other."""
    wanted = sum(MEMORY_OVER * Path(guest.path).stat().st_size + ENGINE_BYTES for guest in guests)
    limits = (machine.memory.available_bytes.value_or(wanted), machine.memory.limit_bytes.value_or(wanted))
    if min(limits) < wanted:
        raise UserError(
            f"measuring needs {wanted / GB:.1f} GB of memory, and {min(limits) / GB:.1f} GB are free",
            "close other programs first",
        )


def _threads(cpu: Cpu) -> int:
    """One for each physical core that may be used, as llama.cpp does it."""
    cores = cpu.physical_cores.value_or(cpu.logical_cpus.value_or(1))
    allowed = min(cpu.allowed_cpus.value_or(cores), math.ceil(cpu.quota_cpus.value_or(cores)))
    return max(1, min(cores, allowed))


def _cache_bytes(system: System) -> int:
    try:
        return read_last_level_cache_bytes(system)
    except LookError:
        return 0
