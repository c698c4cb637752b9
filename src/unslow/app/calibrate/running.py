"""A running server with the model that it has loaded: one point, so one factor for all that is expected of it."""

import os

from unslow import __version__
from unslow.app.course import USUAL
from unslow.app.diagnose import Request as Look
from unslow.app.diagnose import look
from unslow.app.measure import Manners
from unslow.app.progress import Progress
from unslow.commands.calibrate import CalibrateRequest
from unslow.facts.calibration import Calibration, Scale
from unslow.facts.errors import UserError
from unslow.facts.gpu_lists import computing
from unslow.facts.machine import Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import Unknown
from unslow.think.calibrate import mark_of
from unslow.think.measuring.catalogue import SPEED
from unslow.think.predict import predict

SLOWEST_FACTOR = 1.6
"""Efficiencies of one engine differ less than this from card to card; more has a cause that can be found."""
DISTURBED_SHARE = 0.1


def calibrate_running(request: CalibrateRequest, progress: Progress) -> Calibration:
    """Measure a server as a diagnosis does, with the same manners; UserError where it may not or can't be measured."""
    manners = Manners(evict=request.evict, api_key=request.api_key or os.environ.get("UNSLOW_API_KEY"))
    snapshot = look(Look(request.target, manners, limits=USUAL._replace(only=(SPEED,))), progress)
    return checked(calibration_of(snapshot), anyway=request.anyway)


def checked(calibration: Calibration, *, anyway: bool) -> Calibration:
    """The calibration; UserError where it would take a server that is slow for some reason as the normal one."""
    factor = calibration.scale.factor if calibration.scale else 1.0
    if factor > SLOWEST_FACTOR and not anyway:
        raise UserError(
            f"the server is {factor:.1f} times slower than expected, which must not count as normal",
            "`unslow` with the same target says why; --anyway keeps it all the same",
        )
    return calibration


def calibration_of(snapshot: Snapshot) -> Calibration:
    """The calibration that a measured server gives."""
    case = _measured_case(snapshot)
    runtime, machine = case.runtime, case.machine
    on_gpu = any(buffer.on_gpu for buffer in runtime.buffers.value_or([])) or bool(runtime.gpu_layers.value_or(0))
    return Calibration(
        unslow_version=__version__,
        taken_at=snapshot.taken_at,
        seconds=sum(c.client_total_s or 0.0 for c in case.run.completions.value_or(())),
        machine=mark_of(machine),
        engine=runtime.name.value_or("llama.cpp"),
        engine_version=runtime.version.value_or("unknown"),
        backend="gpu" if on_gpu else "cpu",
        device=_device(machine, runtime) if on_gpu else "cpu",
        threads=runtime.threads.value_or(0),
        ram_read_bytes_per_s=machine.memory.read_bytes_per_s.value_or(0.0),
        others_cpus=case.run.others_cpus.value_or(0.0),
        disturbed=_disturbance(case),
        scale=_scale(case),
    )


def _measured_case(snapshot: Snapshot) -> Case:
    case = next(iter(snapshot.cases()), None)
    if case is None:
        raise UserError("no running server was found", "give its URL or process id")
    speed = case.run.decode_tokens_per_s
    if isinstance(speed, Unknown):
        raise UserError(f"the server was not measured: {speed.why}", speed.how_to_get)
    if isinstance(snapshot.machine.cpu.model, Unknown):
        raise UserError("the server's machine can't be seen from here", "run `unslow calibrate` on that machine")
    return case


def _disturbance(case: Case) -> str:
    others, cores = case.run.others_cpus.value_or(0.0), case.machine.cpu.logical_cpus.value_or(1)
    return f"others used {others:.1f} processors meanwhile" if others > DISTURBED_SHARE * cores else ""


def _scale(case: Case) -> Scale:
    expected = predict(case)
    if isinstance(expected, Unknown):
        raise UserError(f"what to expect of this server can't be told: {expected.why}", expected.how_to_get)
    return Scale(
        model=case.model.name.value_or("unknown"),
        measured_decode_s=1 / max(case.run.decode_tokens_per_s.need(), 1e-9),
        expected_decode_s=expected.seconds.mid,
        measured_prefill_tokens_per_s=case.run.prefill_tokens_per_s.value_or(0.0),
    )


def _device(machine: Machine, runtime: Runtime) -> str:
    """The GPUs by name, else as the runtime calls them."""
    names = [gpu.name.value_or("?") for gpu in computing(machine.gpus.value_or(()))]
    return ", ".join(names) or ", ".join(device.description or device.name for device in runtime.devices.value_or([]))
