"""Measures what this machine really gives, keeps it, lists it, forgets it."""

import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from unslow import __version__
from unslow.commands._formats import Looking
from unslow.commands._output import Progress
from unslow.commands.calibrate import CalibrateRequest
from unslow.commands.diagnose.look import look_and_measure
from unslow.facts.calibration import Calibration, KeptCalibration, KeptReport, Point, Rates, Scale
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.merge import computing_gpus, overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot
from unslow.facts.values import GB, MB, Unknown, reported_fact
from unslow.look.bench.calibration import Limits, ModelTimes, ModelToMeasure, Rounds, measure_in_rounds, trials_for
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.engine import engine_version
from unslow.look.engine.made_up_models import default_cache
from unslow.look.kernel.processors import read_last_level_cache_bytes
from unslow.look.models.gguf import blueprint, read_gguf
from unslow.look.probes import read_machine
from unslow.look.stored import CalibrationStore, StoredCalibration, default_store
from unslow.look.system import LookError, System
from unslow.think.case.view import views_of
from unslow.think.judge.next_measurement import SPEED
from unslow.think.speed.calibration import calibrations_of_machine, mark_of, stale_because
from unslow.think.speed.machine_rates import demand_of, drift_of, fit_rates

ENGINE = "embedded llama.cpp"  # As the runtime is named in a snapshot
BUSY_SHARE = 0.2  # Other programs may use this share of the processors before a calibration says no
DISTURBED_SHARE = 0.1
FIT_ERROR = 0.05
LOST_SHARE = 0.25
SLOWEST_FACTOR = 1.6
"""Efficiencies of one engine differ less than this from card to card; more has a cause that can be found."""
MEMORY_OVER = 2  # Some types are kept a second time in an order that suits the processor
ENGINE_BYTES = 120 * MB
Step = Callable[[str, float], None]


def calibrate(system: System, request: CalibrateRequest, progress: Progress) -> Calibration:
    """Measure the embedded engine, or the server that the request names, and keep the result.

    UserError where a server may not or can't be measured.
    """
    if request.target:  # as a diagnosis does, with the same manners
        key = request.api_key or os.environ.get("UNSLOW_API_KEY")
        wanted = Looking(target=request.target, evict=request.evict, api_key=key)
        snapshot = look_and_measure(wanted, progress, only=(SPEED,)).snapshot
        calibration = check_calibration(calibration_of(snapshot), anyway=request.anyway)
    else:
        calibration = calibrate_embedded(system, request, progress)
    progress.say(f"saved to {default_store().save(calibration)}")
    return calibration


def calibrate_embedded(
    system: System,
    request: CalibrateRequest,
    progress: Progress,
    guests: Sequence[ModelToMeasure] = (),
    limits: Limits | None = None,
) -> Calibration:
    """The calibration of this machine's processors; `guests` are measured in place of the usual made-up models."""
    start, version = system.clock(), engine_version()
    progress.step("looking at the machine", 0.0)
    machine, _ = read_machine(system)
    _check_idle(machine, request, progress)
    # One for each physical core that may be used, as llama.cpp does it
    cpu = machine.cpu
    cores = cpu.physical_cores.value_or(cpu.logical_cpus.value_or(1))
    allowed = min(cpu.allowed_cpus.value_or(cores), math.ceil(cpu.quota_cpus.value_or(cores)))
    threads = request.threads or max(1, min(cores, allowed))
    speed = read_ram_bandwidth(system).read_bytes_per_s.value_or(0.0)
    guests = guests or cpu_guests(system, progress.step)
    _check_memory(machine, guests)
    rounds = measure_in_rounds(system, guests, threads, limits or Limits(), progress.step)
    speed = max(speed, read_ram_bandwidth(system).read_bytes_per_s.value_or(0.0))
    points = tuple(point_of(system, one) for one in rounds.measured)
    rates = fit_rates(points)
    if rates is None or not rates.types:
        raise UserError("too few measurements succeeded", "try again when the machine is idle")
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


def _check_idle(machine: Machine, request: CalibrateRequest, progress: Progress) -> None:
    """UserError where others keep the processors busy: their work would be measured too."""
    others, cores = machine.load.busy_cpus.value_or(0.0), machine.cpu.logical_cpus.value_or(1)
    if others <= BUSY_SHARE * cores:
        return
    names = ", ".join(p.name for p in machine.load.busiest.value_or([])[:2])
    busy = f"other processes use {others:.1f} of {cores} CPUs{f' ({names})' if names else ''}"
    if not request.anyway:
        raise UserError(f"{busy}, so a measurement would be unreliable", "try again when it is idle, or use --anyway")
    progress.say(f"{busy}: measuring anyway (noted)")


def cpu_guests(system: System, step: Step) -> list[ModelToMeasure]:
    """The made-up models of a calibration on the processors, written where they are not there yet."""
    cache, trials = default_cache(), trials_for(_cache_bytes(system))
    guests = []
    for number, trial in enumerate(trials):
        step("writing synthetic models", number / len(trials))
        path = str(cache.model(trial.shape, trial.quant))
        guests.append(ModelToMeasure(trial.name, path, trial.depth_tokens, trial.prompt_tokens))
    return guests


def _cache_bytes(system: System) -> int:
    try:
        return read_last_level_cache_bytes(system)
    except LookError:
        return 0


def _check_memory(machine: Machine, guests: Sequence[ModelToMeasure]) -> None:
    wanted = sum(MEMORY_OVER * Path(guest.path).stat().st_size + ENGINE_BYTES for guest in guests)
    free = min(machine.memory.available_bytes.value_or(wanted), machine.memory.limit_bytes.value_or(wanted))
    if free < wanted:
        why = f"calibration needs {wanted / GB:.1f} GB of memory, but only {free / GB:.1f} GB are free"
        raise UserError(why, "free some memory first")


def point_of(system: System, one: ModelTimes) -> Point:
    """A measured model with what it asks for."""
    plan = blueprint(read_gguf(system, one.model.path))
    return Point(
        name=one.model.name,
        demand=demand_of(plan, one.depth_tokens),
        samples=one.samples,
        lost=one.lost,
        decode_s=one.best_decode_s,
        typical_s=one.typical_decode_s,
        prompt_tokens=one.model.prompt_tokens,
        prefill_s=one.best_prefill_s,
    )


def disturbance(rounds: Rounds, rates: Rates) -> str:
    """Why the figures are to be taken with care; empty where nothing was in the way."""
    reasons = []
    if rounds.use and not rounds.quiet:
        names = ", ".join(p.name for p in rounds.use.busiest[:2])
        named = f" ({names})" if names else ""
        reasons.append(f"other processes used {rounds.use.busy_cpus:.1f} CPUs meanwhile{named}")
    lost, good = (sum(n) for n in zip(*((one.lost, one.samples) for one in rounds.measured), strict=True))
    if lost > LOST_SHARE * (lost + good):
        reasons.append(f"{lost} of {lost + good} samples were aborted")
    if rounds.missing:
        reasons.append(f"no result for {', '.join(rounds.missing)}")
    if rates.error > FIT_ERROR:
        reasons.append(f"the fitted costs match the measured times only within {rates.error:.0%}")
    return "; ".join(reasons)


def check_calibration(calibration: Calibration, *, anyway: bool) -> Calibration:
    """The calibration; UserError where it would take a server that is slow for some reason as the normal one."""
    factor = calibration.scale.factor if calibration.scale else 1.0
    if factor > SLOWEST_FACTOR and not anyway:
        why = f"the server is {factor:.1f} times slower than expected, so it must not become the baseline"
        raise UserError(why, "`unslow` with the same target says why; --anyway saves it regardless")
    return calibration


def calibration_of(snapshot: Snapshot) -> Calibration:
    """The calibration that a measured server gives."""
    case = next(iter(views_of(snapshot)), None)
    if case is None:
        raise UserError("no running server found", "give its URL or process id")
    speed = case.run.decode_tokens_per_s
    if isinstance(speed, Unknown):
        raise UserError(f"the server was not measured: {speed.why}", speed.how_to_get)
    if isinstance(snapshot.machine.cpu.model, Unknown):
        raise UserError("the server's machine is not visible from here", "run `unslow calibrate` on that machine")
    runtime, machine = case.runtime, case.machine
    buffers, placement = runtime.memory.buffers.value_or([]), runtime.placement
    on_gpu = any(buffer.on_gpu for buffer in buffers) or bool(placement.gpu_layers.value_or(0))
    others, cores = case.run.others_cpus.value_or(0.0), case.machine.cpu.logical_cpus.value_or(1)
    gpus = [gpu.name.value_or("?") for gpu in computing_gpus(machine.gpus.value_or(()))]
    devices = gpus or [one.description or one.name for one in placement.devices.value_or([])]
    expected = case.speed.predict()
    if isinstance(expected, Unknown):
        raise UserError(f"the expected speed of this server is unknown: {expected.why}", expected.how_to_get)
    return Calibration(
        unslow_version=__version__,
        taken_at=snapshot.taken_at,
        seconds=sum(c.client_total_s or 0.0 for c in case.run.completions.value_or(())),
        machine=mark_of(machine),
        engine=runtime.name.value_or("llama.cpp"),
        engine_version=runtime.version.value_or("unknown"),
        backend="gpu" if on_gpu else "cpu",
        device=", ".join(devices) if on_gpu else "cpu",
        threads=runtime.compute.threads.value_or(0),
        ram_read_bytes_per_s=machine.memory.read_bytes_per_s.value_or(0.0),
        others_cpus=case.run.others_cpus.value_or(0.0),
        disturbed=f"other processes used {others:.1f} CPUs meanwhile" if others > DISTURBED_SHARE * cores else "",
        scale=Scale(
            model=case.model.name.value_or("unknown"),
            measured_decode_s=1 / max(case.run.decode_tokens_per_s.need(), 1e-9),
            expected_decode_s=expected.seconds.mid,
            measured_prefill_tokens_per_s=case.run.prefill_tokens_per_s.value_or(0.0),
        ),
    )


def list_calibrations(system: System, progress: Progress, store: CalibrationStore | None = None) -> KeptReport:
    """Every calibration with what has changed since."""
    store = store or default_store()
    found = store.read_all(system)
    progress.step("looking at the machine", 0.5)
    machine = overlaid(read_machine(system)[0], Machine(memory=read_ram_bandwidth(system))) if found else Machine()
    kept = tuple(_kept_calibration(one, machine, system.now()) for one in found)
    return KeptReport(folder=str(store.folder), calibrations=kept)


def _kept_calibration(one: StoredCalibration, machine: Machine, now: str) -> KeptCalibration:
    if one.calibration is None:
        return KeptCalibration(path=one.path, problem=one.problem)
    if not calibrations_of_machine([one.calibration], machine):
        stale = ("it was measured on another machine",)
        return KeptCalibration(path=one.path, calibration=one.calibration, stale=stale)
    # The engine as it is now; a server that is not asked is taken to be what it was
    runtime = Runtime()
    if one.calibration.engine == ENGINE:
        with suppress(UserError):  # no longer installed
            runtime = Runtime(version=reported_fact(engine_version(), "installed package"))
    changed = stale_because(one.calibration, machine, runtime, now)
    return KeptCalibration(path=one.path, calibration=one.calibration, stale=tuple(changed))


def forget_calibrations(system: System, word: str, store: CalibrationStore | None = None) -> list[str]:
    """Remove the calibrations whose file, engine, device or processor has the word, or all; UserError for none."""
    store, gone = store or default_store(), list[str]()
    for one in store.read_all(system):
        known = one.calibration
        words = (known.engine, known.device, known.engine_version, known.machine.cpu) if known else ()
        if word.casefold() in " ".join((one.path, *words)).casefold():
            gone.append(one.path)
    if not gone:
        what = f"no calibration matches {word!r}" if word else "there are no saved calibrations"
        raise UserError(what, "`unslow calibrate --list` shows them")
    for path in gone:
        store.forget(path)
    return gone
