"""Answers one case: calibrated where this machine was measured, with a draft model, the memory wall and notes."""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from unslow import __version__
from unslow.catalog.quants import mixes_from_large_to_small
from unslow.commands._hardware import find_hardware
from unslow.commands.models.find import OLLAMA, FoundModel, as_quant, find_gguf_model, find_shape
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import Case, Speeds, basis_of, case_of, hardware_request, speeds_of
from unslow.facts.calibration import Calibration
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint, MetadataValue
from unslow.facts.runtime import Compute, Runtime
from unslow.facts.values import GB, NOT_LOOKED, Unknown, reported_fact
from unslow.look.stored import read_calibrations
from unslow.look.system import System
from unslow.think.hardware import Hardware
from unslow.think.physics.placement import SPLIT_BY_LAYER, SPLIT_BY_TENSOR
from unslow.think.physics.speculative import accepted_tokens, break_even
from unslow.think.physics.terms import Interval, inverse_interval
from unslow.think.speed import report
from unslow.think.speed.calibration import Match, match_calibration
from unslow.think.speed.machine_rates import CalibratedTime, calibrated_decode, calibrated_prefill, demand_of
from unslow.think.speed.question import WIDER, Outcome, batching_curve, decode_outcome, ridge, walls, widen_interval
from unslow.think.speed.report import PredictionReport, shown_rate

USUAL_ACCEPTANCE = 0.7  # Of a draft model of the same family on ordinary text, where nothing is said
_SAME = 0.004
_ALSO = ("Q4_0",)  # Mixes that are no longer offered as a matter of course, and still compared


class MeasuredSpeeds(NamedTuple):
    """What a calibration says of a case, and what it is called."""

    decode: CalibratedTime
    prefill: CalibratedTime | None
    basis: str


def answer(system: System, request: PredictRequest) -> PredictionReport:
    """The prediction, or a report that says why there is none; UserError where the question can't be put."""
    found = _find_model(system, request)
    if found.tool == OLLAMA and "runtime" not in request.given:
        request = request._replace(runtime="ollama")
    draft = find_gguf_model(system, request.draft, None) if request.draft else None
    hardware = find_hardware(system, hardware_request(request))
    if isinstance(hardware, Unknown):
        return _no_prediction(found, hardware)
    # The draft's weights are on the first GPU already
    left = hardware.holding(draft.blueprint.weights_bytes) if draft else hardware
    case = case_of(found, left, request)
    if isinstance(case, Unknown):
        return _no_prediction(found, case)
    request = case.request
    match = _find_match(system, hardware, case)
    usable = match.usable if match else None
    measured = measured_case(found.blueprint, usable, request) if usable else None
    speeds = _as_measured(speeds_of(case, request), measured, request)
    split = case.asked.split if hardware.device_count > 1 else request.split or SPLIT_BY_LAYER
    names = ("depth", "kv_type", "batch", "ubatch", "flash_attention", "graphs")
    settings = {**{name: getattr(request, name) for name in names}, "split": split}
    prompt = report.PromptShown(
        prompt_tokens=request.prompt,
        micro_batch=min(request.ubatch, request.prompt),
        tokens_per_s=shown_rate(speeds.prefill),
        time_to_first_token_s=shown_rate(speeds.first_token_s(request)),
    )
    return PredictionReport(
        unslow_version=__version__,
        model=_model(found),
        place=_place(hardware, case),
        settings=settings,
        placement=_placement(case) if case.asked.backend != "cpu" else None,
        decode=_speed(speeds.decode, request),
        prefill=prompt,
        speculative=_speculative_speed(case, draft, hardware) if draft else None,
        explain=_memory_wall_of(found, case, hardware, usable) if request.explain else None,
        basis=report.BasisShown(kind="calibrated", text=measured.basis) if measured else basis_of(case),
        notes=tuple(dict.fromkeys((*_notes(found, hardware, case), *_calibration_notes(match, measured, request)))),
    )


def _find_model(system: System, request: PredictRequest) -> FoundModel:
    """As llama.cpp would load it, or as engines that load safetensors do."""
    if request.is_llama_cpp:
        return find_gguf_model(system, request.model, request.quant)
    shape = find_shape(system, request.model, request.quant, request.runtime)
    layers, trained = shape.shape.layers, shape.shape.positions
    numbers: dict[str, MetadataValue] = {"hf.block_count": layers, "hf.context_length": trained}
    plan = Blueprint(architecture="hf", metadata=numbers, tensors=[])
    found = FoundModel(shape.name, plan, shape.quant, shape.source, shape.parameters, shape.notes, shape=shape)
    return found._replace(stands_for=shape.stands_for)


def _no_prediction(found: FoundModel, why: Unknown) -> PredictionReport:
    return PredictionReport(
        unslow_version=__version__, model=_model(found), notes=found.notes, reason=why.why, hint=why.how_to_get
    )


def _find_match(system: System, hardware: Hardware, case: Case) -> Match | None:
    """The calibration of this machine's processors, with a reason if it is stale.

    None where no calibration could say it better: unless they do all the work, for one conversation.
    """
    request = case.request
    if hardware.machine is None or case.asked.backend != "cpu" or request.batch > 1 or not request.is_llama_cpp:
        return None
    threads = reported_fact(request.threads, "--threads") if request.threads else NOT_LOOKED
    runtime = Runtime(compute=Compute(threads=threads))
    return match_calibration(read_calibrations(system), hardware.machine, runtime, system.now())


def measured_case(plan: Blueprint, calibration: Calibration, request: PredictRequest) -> MeasuredSpeeds | None:
    """The case by that calibration; None where it has no rates."""
    kinds = (request.kv_type, request.kv_type)
    decode = calibrated_decode(demand_of(plan, max(1, request.depth), kinds), calibration)
    if decode is None:
        return None
    prefill = calibrated_prefill(demand_of(plan, 1, kinds), calibration, request.prompt) if not request.depth else None
    threads = f" with {calibration.threads} thread{'' if calibration.threads == 1 else 's'}"
    engine = f"{calibration.engine} {calibration.engine_version}{threads if calibration.threads else ''}"
    basis = f"calibrated: {engine} on this machine, {calibration.taken_at[:10]}"
    return MeasuredSpeeds(decode, prefill, basis)


def _as_measured(speeds: Speeds, measured: MeasuredSpeeds | None, request: PredictRequest) -> Speeds:
    if measured is None:
        return speeds
    parts = {part.name: part.seconds for part in measured.decode.parts}
    rate = inverse_interval(measured.decode.seconds)
    decode = Outcome(measured.decode.seconds.mid, parts, rate, max(speeds.decode.ceiling, rate.mid))
    if measured.prefill is None:
        return Speeds(decode, speeds.prefill)
    return Speeds(decode, Interval(*(request.prompt * end for end in inverse_interval(measured.prefill.seconds))))


def _model(found: FoundModel) -> report.ModelShown:
    return report.ModelShown(
        name=found.name, quant=found.quant, source=found.source, parameters=found.parameters,
        weights_bytes=found.weights_bytes, layers=found.blueprint.count("block_count"),
        stands_for=found.stands_for, estimated_as=found.estimate.mix.name if found.estimate else "",
        size_off=found.estimate.off if found.estimate else 0.0,
    )  # fmt: skip


def _place(hardware: Hardware, case: Case) -> report.PlaceShown:
    host = case.question.host
    return report.PlaceShown(
        device=hardware.device.name,
        gpus=0 if case.asked.backend == "cpu" else hardware.device_count,
        bytes_per_s=float(case.question.chip.bytes_per_s),
        backend=case.asked.backend,
        runtime=case.request.runtime,
        host_bytes_per_s=float(host.chip.bytes_per_s) if host else None,
    )


def _placement(case: Case) -> report.PlacementShown:
    placement = case.placement
    return report.PlacementShown(
        gpu_layers=placement.gpu_layers,
        all_gpu_layers=placement.all_layers,
        experts_on_cpu=placement.experts_on_cpu,
        chosen=placement.chosen,
        fits=case.fits,
    )


def _speed(decode: Outcome, request: PredictRequest) -> report.SpeedShown:
    return report.SpeedShown(
        tokens_per_s=shown_rate(decode.rate),
        each_tokens_per_s=decode.rate.mid / request.batch,
        step_s=decode.seconds,
        ceiling_tokens_per_s=decode.ceiling if math.isfinite(decode.ceiling) else None,
        walls=walls(decode, float(request.batch)),
    )


def _speculative_speed(case: Case, draft: FoundModel, hardware: Hardware) -> report.SpeculativeShown | None:
    """What drafting gives; None where the draft model can't be predicted there."""
    request = case.request
    small = case_of(draft, hardware._replace(rooms=()), request)
    if isinstance(small, Unknown):
        return None
    count = request.draft_tokens
    acceptance = USUAL_ACCEPTANCE if request.acceptance is None else request.acceptance
    plain = decode_outcome(case.question, case.group)
    # Checking is a step of so many tokens more, which share the keys and values of one conversation
    tokens = count + 1.0
    question = case.question._replace(tokens=tokens, depth=case.question.depth / tokens)
    check_s, draft_s = decode_outcome(question, case.group).seconds, decode_outcome(small.question, small.group).seconds
    accepted = accepted_tokens(count, acceptance)
    ratio = accepted / (check_s + count * draft_s) / plain.rate.mid
    interval = widen_interval(Interval(*(end * ratio for end in plain.rate)), WIDER * case.trust.wider)
    return report.SpeculativeShown(
        draft=f"{draft.name} {draft.quant}",
        draft_tokens=count,
        acceptance=acceptance,
        accepted_per_step=accepted,
        tokens_per_s=shown_rate(interval),
        speedup=ratio,
        break_even_acceptance=break_even(count, check_s, draft_s, plain.seconds),
    )


def _memory_wall_of(
    found: FoundModel, case: Case, hardware: Hardware, calibration: Calibration | None
) -> report.ExplainShown:
    """What more conversations and other quants would give; by a calibration, where it knows the speed of one."""
    curve = batching_curve(case.question, case.group)
    known = _calibrated_rate(found.blueprint, calibration, case.request)
    factor = known / curve[1] if known else 1.0
    # The usual mixes from the largest to the smallest, and the model's own
    names = [*(mix.name for mix in mixes_from_large_to_small()), *_ALSO]
    shown = []
    for name in names if found.quant in names else [*names, found.quant]:
        with suppress(UserError):  # a mix that these tensors can't have
            plan = found.blueprint if name == found.quant else as_quant(found.blueprint, name)
            shown.append(_quant(name, plan, hardware, case.request, calibration))
    # Those that differ in size: of a model whose experts stay as they are, most quants are the same
    quants, last = list[report.QuantShown](), math.inf
    for quant in sorted(filter(None, shown), key=lambda q: -q.weights_bytes):
        if quant.name == found.quant or quant.weights_bytes < last * (1 - _SAME):
            last = quant.weights_bytes
            quants.append(quant)
    return report.ExplainShown(
        batching=tuple(
            report.BatchShown(
                conversations=count,
                tokens_per_s=together * factor,
                each_tokens_per_s=together / count * factor,
                fits=case.holds(count),
            )
            for count, together in curve.items()
        ),
        ridge_conversations=ridge(case.question),
        quants=tuple(quants),
    )


def _calibrated_rate(plan: Blueprint, calibration: Calibration | None, request: PredictRequest) -> float | None:
    """Tokens per second of one conversation by the calibration; None where it has no rates."""
    measured = measured_case(plan, calibration, request) if calibration else None
    return inverse_interval(measured.decode.seconds).mid if measured else None


def _quant(
    name: str, plan: Blueprint, hardware: Hardware, request: PredictRequest, calibration: Calibration | None
) -> report.QuantShown | None:
    other = case_of(FoundModel(name, plan, name, "", 0), hardware, request)
    if isinstance(other, Unknown):
        return None
    elements = sum(math.prod(t.shape) for t in plan.tensors)
    rate = _calibrated_rate(plan, calibration, request) or decode_outcome(other.question, other.group).rate.mid
    return report.QuantShown(
        name=name,
        weights_bytes=plan.weights_bytes,
        bits_per_weight=8 * plan.weights_bytes / max(1, elements),
        fits=None if other.setup is None else other.setup.left() >= 0,
        gpu_layers=other.asked.gpu_layers,
        experts_on_cpu=other.placement.experts_on_cpu,
        tokens_per_s=rate,
    )


def _notes(found: FoundModel, hardware: Hardware, case: Case) -> Iterator[str]:
    """What was assumed, what makes the interval wide, and what was asked for in vain."""
    request = case.request
    yield from (*found.notes, *hardware.notes)
    yield from (f"{why}: the interval is wider" for why in case.trust.reasons)
    if case.question.host and case.question.totals and hardware.host_is_assumed:
        speed = float(case.question.host.chip.bytes_per_s) / GB
        yield f"Host memory bandwidth not given; assuming {speed:.0f} GB/s (--ram-bandwidth)"
    gpus = hardware.device_count
    if gpus > 1 and request.runtime == "vllm" and not request.split:
        heads = found.shape.shape.heads if found.shape else 0
        if case.asked.split == SPLIT_BY_TENSOR:
            yield f"Assuming tensor parallel (--tensor-parallel-size {gpus}); --split layer is a pipeline"
        else:
            yield f"{heads} heads cannot be split across {gpus} GPUs; assuming a pipeline"
    if hardware.device.vendor == "AMD" and request.is_llama_cpp and not request.backend:
        other = "vulkan" if case.asked.backend == "rocm" else "rocm"
        yield f"Assuming the usual backend, {case.asked.backend} (--backend {other} for the other one)"
    if request.draft and request.acceptance is None:
        yield f"Acceptance rate not given; assuming {USUAL_ACCEPTANCE:.0%}"
    if case.changed:
        yield f"These settings do not fit; predicted with {case.changed} (`unslow fit` has the command)"
    if case.fits is False and not case.placement.chosen:
        yield "This placement does not fit in memory; the speed is what it would be if it did"
    if case.placement.chosen and not request.explain:
        yield "The part outside VRAM limits the speed; --explain shows the speed of smaller quants"
    trained = found.blueprint.count("context_length", 0)
    if trained and request.depth > trained:
        yield f"The model was trained for {trained:,} tokens of context; output beyond that may be nonsense"
    if request.split not in ("", "layer") and gpus == 1:
        yield "--split has no effect: there is one GPU"
    if request.cpu_moe and not case.asked.load.is_sparse:
        yield "--cpu-moe has no effect: the model has no experts"


def _calibration_notes(match: Match | None, measured: MeasuredSpeeds | None, request: PredictRequest) -> Iterator[str]:
    """Why it is not used, how far it goes, or that there could be one."""
    if match and match.calibration is None:
        yield "CPUs vary; `unslow calibrate` takes a minute and makes the prediction several times sharper"
    if match and match.stale:
        yield f"This machine's calibration is not used: {match.stale}"
    if measured and request.explain:
        yield "Calibrated with one conversation; the curve for several is the usual one, scaled to it"
