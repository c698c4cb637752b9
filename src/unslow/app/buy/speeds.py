"""How fast a rig is with a model: the same questions that `unslow predict` puts, for many devices in a row."""

from typing import NamedTuple, Protocol

from unslow.app.fit.models import Found, find_gguf_model
from unslow.app.predict.cases import Case, case_of, speeds_of
from unslow.commands.predict import PredictRequest
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import remembered
from unslow.think.buy.report import AskedShown, Fits, SpeedShown
from unslow.think.hardware import Hardware
from unslow.think.physics.interval import Interval
from unslow.think.speed.report import RateShown

_EVERYTHING = 10_000
"""More layers than any model has: all of them."""
UNFIT = Unknown("it does not fit whole", "more memory, a smaller quant or a shorter context")
"""The answer of what can't hold all of a model."""


class Work(Protocol):
    """What every request of a buyer has in common."""

    @property
    def model(self) -> str: ...
    @property
    def quant(self) -> str | None: ...
    @property
    def context(self) -> int: ...
    @property
    def users(self) -> int: ...
    @property
    def prompt(self) -> int: ...
    @property
    def kv_type(self) -> str: ...


class Rated(NamedTuple):
    """A rig with a model."""

    fits: Fits
    speed: SpeedShown
    notes: tuple[str, ...] = ()


def find_work(system: System, work: Work) -> tuple[Found, PredictRequest, AskedShown]:
    """The model, the question that is put to every device, and both as the report has them."""
    found = find_gguf_model(system, work.model, work.quant)
    request = PredictRequest.from_flags(
        {
            "model": work.model, "quant": work.quant, "depth": work.context, "batch": work.users,
            "prompt": work.prompt, "kv_type": work.kv_type,
        }
    )  # fmt: skip
    return found, request, shown_work(found, request)


def shown_work(found: Found, request: PredictRequest) -> AskedShown:
    """What was asked, as the report has it."""
    return AskedShown(
        model=found.name, quant=found.quant, parameters=found.parameters, stands_for=found.stands_for,
        estimated_as=found.estimate.mix.name if found.estimate else "",
        weights_bytes=sum(t.bytes for t in found.blueprint.tensors), context=request.depth, users=request.batch,
        prompt_tokens=request.prompt, kv_type=request.kv_type,
        context_trained=found.blueprint.count("context_length"),
    )  # fmt: skip


def rated(found: Found, hardware: Hardware, request: PredictRequest, *, whole: bool = False) -> Rated | Unknown:
    """The speed with as much on the GPUs as fits; with `whole`, Unknown where not all of it does."""
    if whole and hardware.rooms:
        if _weights(found) > sum(room.usable_bytes for room in hardware.rooms):
            return UNFIT
        request = request._replace(gpu_layers=_EVERYTHING)
    case = case_of(found, hardware, request)
    if isinstance(case, Unknown):
        return case
    fits = fit_of(case)
    if whole and fits == "no":
        return UNFIT
    shared = dict.fromkeys(room.note for room in hardware.rooms if room.unified and room.note)
    return Rated(fits, speed_of(case, case.request), (*case.trust.reasons, *shared))


def _weights(found: Found) -> int:
    """Of the tensors that lie on a GPU with everything: a table that is only looked up may stay on the host."""
    tensors = found.blueprint.tensors
    tables = ("token_embd.weight", "per_layer_token_embd.weight")
    return remembered(found.blueprint, "placed", lambda: sum(t.bytes for t in tensors if t.name not in tables))


def fit_of(case: Case) -> Fits:
    """How much of the model the devices hold."""
    placement, fits = case.placement, case.fits
    if fits is None:
        return "unknown"
    if not fits or (case.asked.backend != "cpu" and not placement.gpu_layers):
        return "no"
    everything = not case.changed and (case.asked.backend == "cpu" or placement.gpu_layers >= placement.all_layers)
    return "whole" if everything and not placement.experts_on_cpu else "partly"


def speed_of(case: Case, request: PredictRequest) -> SpeedShown:
    """Decode, prompt and first token of a case, as `unslow predict` has them."""
    speeds = speeds_of(case, request)
    rate = speeds.decode.rate
    return SpeedShown(
        decode_tokens_per_s=_shown(rate),
        each_tokens_per_s=_shown(Interval(*(end / request.batch for end in rate))),
        prefill_tokens_per_s=_shown(speeds.prefill),
        first_token_s=_shown(speeds.first_token_s(request)),
        gpu_layers=case.asked.gpu_layers,
        experts_on_cpu=case.placement.experts_on_cpu,
        backend=case.asked.backend,
    )


def _shown(interval: Interval) -> RateShown:
    return RateShown(low=interval.low, mid=interval.mid, high=interval.high)
