"""The speed to expect of a model by name on a device by name: for other parts of the program."""

from typing import NamedTuple

from unslow.app.fit.models import Found
from unslow.app.hardware import named_hardware
from unslow.app.predict.basis import basis_of
from unslow.app.predict.cases import Case, case_of, hardware_request, speeds_of
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.think.blueprints.made_up import made_up
from unslow.think.physics.interval import Interval
from unslow.think.speed.named_models import mix_of, named_model


class Expected(NamedTuple):
    """Tokens per second of one conversation."""

    decode: Interval
    prefill: Interval
    ceiling_tokens_per_s: float
    """What bandwidth alone would allow."""
    group: str
    basis: str
    gpu_layers: int | None = None
    """How many layers find room on the GPUs; None for all."""
    notes: tuple[str, ...] = ()


def expected(
    model_name: str, quant: str, device_name: str, *, gpus: int = 1, context: int = 0, backend: str = ""
) -> Expected | Unknown:
    """What to expect with as much on the GPUs as fits, or why nothing can be."""
    try:
        request = PredictRequest.from_flags({"quant": quant or None, "backend": backend or None, "depth": context})
        return _expected(model_name, device_name, request, gpus)
    except UserError as error:
        return Unknown(error.message, error.hint)


def _expected(model_name: str, device_name: str, request: PredictRequest, gpus: int) -> Expected | Unknown:
    model = named_model(model_name)
    if model is None:
        return Unknown(f"the model {model_name!r} is not in the catalogue", "`unslow fit --list` lists them")
    hardware = named_hardware(device_name, gpus, hardware_request(request))
    if isinstance(hardware, Unknown):
        return hardware
    mix = mix_of(request.quant or model.published or "Q4_K_M")
    found = Found(model.name, made_up(model, mix), mix, "catalogue", model.parameters)
    case = case_of(found, hardware, request)
    return case if isinstance(case, Unknown) else _of(case)


def _of(case: Case) -> Expected:
    decode, prefill = speeds_of(case, case.request)
    return Expected(
        decode=decode.rate,
        prefill=prefill,
        ceiling_tokens_per_s=decode.ceiling,
        group=case.group,
        basis=basis_of(case).text,
        gpu_layers=case.asked.gpu_layers,
        notes=case.trust.reasons,
    )
