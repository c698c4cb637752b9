"""Answers one case: finds the model and the hardware, and puts the question."""

import math

from unslow import __version__
from unslow.app.fit.hf_models import find_shape
from unslow.app.fit.models import OLLAMA, Found, find_gguf_model
from unslow.app.hardware import find_hardware
from unslow.app.predict.basis import basis_of
from unslow.app.predict.calibrated import Measured, can_calibrate, find_match, measured_case
from unslow.app.predict.cases import Case, Speeds, case_of, hardware_request, speeds_of
from unslow.app.predict.drafting import beside, drafted, find_draft
from unslow.app.predict.explained import explained
from unslow.app.predict.notes import notes_on, notes_on_calibration
from unslow.commands.predict import PredictRequest
from unslow.facts.blueprint import Blueprint, Value
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.hardware import Hardware
from unslow.think.physics.interconnect import LAYER
from unslow.think.physics.interval import Interval, inverse
from unslow.think.speed.outcome import Outcome
from unslow.think.speed.report import (
    BasisShown,
    ModelShown,
    PlacementShown,
    PlaceShown,
    PredictionReport,
    PromptShown,
    RateShown,
    SpeedShown,
    WallShown,
)
from unslow.think.speed.walls import walls


def answer(system: System, request: PredictRequest) -> PredictionReport:
    """The prediction, or a report that says why there is none; UserError where the question can't be put."""
    found = _find_model(system, request)
    if found.tool == OLLAMA and "runtime" not in request.given:
        request = request._replace(runtime="ollama")
    draft = find_draft(system, request)
    hardware = find_hardware(system, hardware_request(request))
    if isinstance(hardware, Unknown):
        return _abstained(found, hardware)
    case = case_of(found, beside(hardware, draft), request)
    if isinstance(case, Unknown):
        return _abstained(found, case)
    request = case.request
    match = find_match(system, hardware, case, request)
    measured = measured_case(found.blueprint, match.usable, request) if match.usable else None
    speeds = _as_measured(speeds_of(case, request), measured, request)
    return PredictionReport(
        unslow_version=__version__,
        model=_model(found),
        place=_place(hardware, case, request),
        settings=_settings(request, case.asked.split if hardware.device_count > 1 else request.split or LAYER),
        placement=_placement(case) if case.asked.backend != "cpu" else None,
        decode=_speed(speeds.decode, request),
        prefill=_prompt(speeds, request),
        speculative=drafted(case, draft, hardware, request) if draft else None,
        explain=explained(found, case, hardware, request, match.usable) if request.explain else None,
        basis=BasisShown(kind="calibrated", text=measured.basis) if measured else basis_of(case),
        notes=(
            *notes_on(found, hardware, case, request),
            *notes_on_calibration(match, measured, request, can_calibrate=can_calibrate(hardware, case, request)),
        ),
    )


def _find_model(system: System, request: PredictRequest) -> Found:
    """As llama.cpp would load it, or as engines that load safetensors do."""
    if request.is_llama_cpp:
        return find_gguf_model(system, request.model, request.quant)
    shape = find_shape(system, request.model, request.quant, request.runtime)
    numbers: dict[str, Value] = {"hf.block_count": shape.shape.layers, "hf.context_length": shape.shape.positions}
    plan = Blueprint(architecture="hf", metadata=numbers, tensors=[])
    found = Found(shape.name, plan, shape.quant, shape.source, shape.parameters, shape.notes, shape=shape)
    return found._replace(stands_for=shape.stands_for)


def _abstained(found: Found, why: Unknown) -> PredictionReport:
    return PredictionReport(
        unslow_version=__version__, model=_model(found), notes=found.notes, reason=why.why, hint=why.how_to_get
    )


def _model(found: Found) -> ModelShown:
    return ModelShown(
        name=found.name, quant=found.quant, source=found.source, parameters=found.parameters,
        weights_bytes=found.weights_bytes, layers=found.blueprint.count("block_count"),
        stands_for=found.stands_for, estimated_as=found.estimate.mix.name if found.estimate else "",
        size_off=found.estimate.off if found.estimate else 0.0,
    )  # fmt: skip


def _place(hardware: Hardware, case: Case, request: PredictRequest) -> PlaceShown:
    host = case.question.host
    return PlaceShown(
        device=hardware.device.name,
        gpus=0 if case.asked.backend == "cpu" else hardware.device_count,
        bytes_per_s=float(case.question.chip.bytes_per_s),
        backend=case.asked.backend,
        runtime=request.runtime,
        host_bytes_per_s=float(host.chip.bytes_per_s) if host else None,
    )


def _settings(request: PredictRequest, split: str) -> dict[str, str | int | float | bool]:
    names = ("depth", "kv_type", "batch", "ubatch", "flash_attention", "graphs")
    return {**{name: getattr(request, name) for name in names}, "split": split}


def _placement(case: Case) -> PlacementShown:
    placement = case.placement
    return PlacementShown(
        gpu_layers=placement.gpu_layers,
        all_gpu_layers=placement.all_layers,
        experts_on_cpu=placement.experts_on_cpu,
        chosen=placement.chosen,
        fits=case.fits,
    )


def _as_measured(speeds: Speeds, measured: Measured | None, request: PredictRequest) -> Speeds:
    """The speeds by a calibration of this machine, where there is one."""
    if measured is None:
        return speeds
    parts = {part.name: part.seconds for part in measured.decode.parts}
    rate = inverse(measured.decode.seconds)
    decode = Outcome(measured.decode.seconds.mid, parts, rate, max(speeds.decode.ceiling, rate.mid))
    if measured.prefill is None:
        return Speeds(decode, speeds.prefill)
    return Speeds(decode, Interval(*(request.prompt * end for end in inverse(measured.prefill.seconds))))


def _rate(interval: Interval) -> RateShown:
    return RateShown(low=interval.low, mid=interval.mid, high=interval.high)


def _speed(decode: Outcome, request: PredictRequest) -> SpeedShown:
    return SpeedShown(
        tokens_per_s=_rate(decode.rate),
        each_tokens_per_s=decode.rate.mid / request.batch,
        step_s=decode.seconds,
        ceiling_tokens_per_s=decode.ceiling if math.isfinite(decode.ceiling) else None,
        walls=tuple(
            WallShown(part=w.part, seconds=w.seconds, share=w.share, binds=w.binds, halved_tokens_per_s=w.halved)
            for w in walls(decode, float(request.batch))
        ),
    )


def _prompt(speeds: Speeds, request: PredictRequest) -> PromptShown:
    return PromptShown(
        prompt_tokens=request.prompt,
        micro_batch=min(request.ubatch, request.prompt),
        tokens_per_s=_rate(speeds.prefill),
        time_to_first_token_s=_rate(speeds.first_token_s(request)),
    )
