"""What stands below a prediction: what was assumed, what has no effect, and what to ask next."""

from collections.abc import Iterator

from unslow.app.fit.models import Found
from unslow.app.predict.calibrated import Measured
from unslow.app.predict.cases import Case
from unslow.app.predict.drafting import USUAL_ACCEPTANCE
from unslow.commands.predict import PredictRequest
from unslow.facts.units import GB
from unslow.think.calibrate import Match
from unslow.think.hardware import Hardware
from unslow.think.physics.interconnect import TENSOR


def notes_on(found: Found, hardware: Hardware, case: Case, request: PredictRequest) -> tuple[str, ...]:
    """What was assumed, what makes the interval wide, and what was asked for in vain."""
    wide = (f"{why}: the interval is wider" for why in case.trust.reasons)
    assumed = _assumed(found, hardware, case, request)
    notes = (*found.notes, *hardware.notes, *wide, *assumed, *_on_placement(found, case, request))
    return tuple(dict.fromkeys((*notes, *_without_effect(hardware, case, request))))


def _assumed(found: Found, hardware: Hardware, case: Case, request: PredictRequest) -> Iterator[str]:
    if case.question.host and case.question.totals and hardware.host_is_assumed:
        speed = float(case.question.host.chip.bytes_per_s) / GB
        yield f"the host's memory is taken to deliver {speed:.0f} GB/s: --ram-bandwidth says it better"
    gpus = hardware.device_count
    if gpus > 1 and request.runtime == "vllm" and not request.split:
        heads = found.shape.shape.heads if found.shape else 0
        if case.asked.split == TENSOR:
            yield f"all GPUs share every layer (--tensor-parallel-size {gpus}): --split layer is a pipeline"
        else:
            yield f"{heads} heads can't be shared by {gpus} GPUs: they are taken to work as a pipeline"
    if hardware.device.vendor == "AMD" and request.is_llama_cpp and not request.backend:
        other = "vulkan" if case.asked.backend == "rocm" else "rocm"
        yield f"the backend is taken to be {case.asked.backend}, as is usual there: --backend {other} for the other one"
    if request.draft and request.acceptance is None:
        yield f"no acceptance was given: {USUAL_ACCEPTANCE:.0%} of the drafted tokens are taken to be right"


def _on_placement(found: Found, case: Case, request: PredictRequest) -> Iterator[str]:
    if case.changed:
        yield f"as asked it does not fit: this is with {case.changed}, `unslow fit` has the command"
    if case.fits is False and not case.placement.chosen:
        yield "this placement does not fit the memory: the speed is what it would be if it did"
    if case.placement.chosen and not request.explain:
        yield "what does not fit the GPU sets the speed: --explain shows how fast smaller quants are"
    trained = found.blueprint.count("context_length", 0)
    if trained and request.depth > trained:
        yield f"the model was trained for contexts of {trained:,} tokens: beyond them it may write nonsense"


def _without_effect(hardware: Hardware, case: Case, request: PredictRequest) -> Iterator[str]:
    if request.split not in ("", "layer") and hardware.device_count == 1:
        yield "--split has no effect: there is one GPU"
    if request.cpu_moe and not case.asked.load.is_sparse:
        yield "--cpu-moe has no effect: the model has no experts"


def notes_on_calibration(
    match: Match, measured: Measured | None, request: PredictRequest, *, can_calibrate: bool
) -> Iterator[str]:
    """Why it is not used, how far it goes, or that there could be one."""
    if can_calibrate and match.calibration is None:
        yield "processors differ: `unslow calibrate` measures these in a minute, and makes this several times sharper"
    if match.stale:
        yield f"the calibration of this machine is not used: {match.stale}"
    if measured and request.explain:
        yield "one conversation was calibrated: the curve of several is the usual one, moved to begin there"
