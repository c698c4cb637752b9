"""Predictions from what was measured on this machine, where that still holds."""

from typing import NamedTuple

from unslow.app.predict.cases import Case
from unslow.commands.predict import PredictRequest
from unslow.facts.blueprint import Blueprint
from unslow.facts.calibration import Calibration
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported
from unslow.look.calibration import read_calibrations
from unslow.look.system import System
from unslow.think.calibrate import Match, demand_of, matching
from unslow.think.hardware import Hardware
from unslow.think.physics.calibration import Calibrated, calibrated_decode, calibrated_prefill


class Measured(NamedTuple):
    """What a calibration says of a case, and what it is called."""

    decode: Calibrated
    prefill: Calibrated | None
    basis: str


def can_calibrate(hardware: Hardware, case: Case, request: PredictRequest) -> bool:
    """Whether a calibration could say it better: this machine's processors do all the work, for one conversation."""
    return hardware.machine is not None and case.asked.backend == "cpu" and request.batch <= 1 and request.is_llama_cpp


def find_match(system: System, hardware: Hardware, case: Case, request: PredictRequest) -> Match:
    """The calibration of this machine's processors, if they do all the work; with a reason if it is stale."""
    if hardware.machine is None or not can_calibrate(hardware, case, request):
        return Match(None)
    runtime = Runtime(threads=reported(request.threads, "--threads")) if request.threads else Runtime()
    return matching(read_calibrations(system), hardware.machine, runtime, system.now())


def measured_case(plan: Blueprint, calibration: Calibration, request: PredictRequest) -> Measured | None:
    """The case by that calibration; None where it has no rates."""
    kinds = (request.kv_type, request.kv_type)
    decode = calibrated_decode(demand_of(plan, max(1, request.depth), kinds), calibration)
    if decode is None:
        return None
    prefill = calibrated_prefill(demand_of(plan, 1, kinds), calibration, request.prompt) if not request.depth else None
    threads = f" with {calibration.threads} thread{'' if calibration.threads == 1 else 's'}"
    basis = (
        f"calibrated: {calibration.engine} {calibration.engine_version}{threads if calibration.threads else ''} "
        f"on this machine, {calibration.taken_at[:10]}"
    )
    return Measured(decode, prefill, basis)
