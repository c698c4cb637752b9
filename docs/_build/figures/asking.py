"""How the figures of the questions are asked for: the same predictor and memory counts that the commands use."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from unslow.buy.rigs import ModelRating, hardware_of, parse_rig, rate_model
from unslow.commands.models.find import FoundModel, find_gguf_model
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import setup_of
from unslow.facts.values import Unknown
from unslow.look.system.live import LiveSystem
from unslow.show.units import rate
from unslow.think.hardware import Hardware
from unslow.think.setup import Setup
from unslow.think.speed.report import RateShown

SYSTEM = LiveSystem()
QUANT = "Q4_K_M"


class Answer(NamedTuple):
    """A question's answer in two sentences, and the figures below it; both are computed."""

    words: str
    figures: str


@cache
def model(name: str, quant: str | None = QUANT) -> FoundModel:
    """A well-known model in a quant."""
    return find_gguf_model(SYSTEM, name, quant)


def layers(name: str) -> int:
    """In the count of llama.cpp, the output as one more."""
    return model(name).blueprint.count("block_count") + 1


def weights(name: str, quant: str | None = QUANT) -> int:
    """Bytes of all tensors."""
    return sum(t.bytes for t in model(name, quant).blueprint.tensors)


@cache
def placed(device: str, request: PredictRequest) -> Hardware:
    """A device by name, as the predictor takes it."""
    hardware = hardware_of(parse_rig(device), request)
    if isinstance(hardware, Unknown):
        raise SystemExit(f"{device}: {hardware.why}")
    return hardware


@cache
def asked(name: str, device: str, quant: str | None = QUANT, **settings: Any) -> ModelRating | Unknown:
    """How fast a model is on a device, with as much on the GPU as fits; Unknown where it can't run."""
    request = PredictRequest(model=name, quant=quant, **settings)
    return rate_model(model(name, quant), placed(device, request), request)


def speed(name: str, device: str, quant: str | None = QUANT, **settings: Any) -> ModelRating:
    """The same for what must run."""
    answer = asked(name, device, quant, **settings)
    if isinstance(answer, Unknown):
        raise SystemExit(f"{name} on {device}: {answer.why}")
    return answer


def middle(name: str, device: str, quant: str | None = QUANT, **settings: Any) -> float:
    """The expected tokens per second of an answer."""
    return speed(name, device, quant, **settings).speed.decode_tokens_per_s.mid


def memory(name: str, device: str, quant: str | None = QUANT, **settings: Any) -> Setup:
    """What it asks of the memory of an NVIDIA card."""
    request = PredictRequest(model=name, quant=quant, **settings)
    setup = setup_of(model(name, quant).blueprint, placed(device, request), request, "cuda")
    if setup is None:
        raise SystemExit(f"the memory of {device} is not known")
    return setup


def ends(shown: RateShown) -> str:
    """The interval that holds four of five measurements."""
    return f"{rate(shown.low)} to {rate(shown.high)}"


def cell(found: ModelRating | Unknown) -> str:
    """A speed, and whether only a part of the model is on the GPU."""
    if isinstance(found, Unknown):
        return "does not fit"
    text = rate(found.speed.decode_tokens_per_s.mid)
    return text if found.fits == "whole" else f"{text} (spills)" if found.fits == "partly" else "does not fit"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, whose figures stand on the right."""
    found = list(rows)
    marks = ["---:" if any(row[n][:1].isdecimal() for row in found) and n else "---" for n in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, marks, *found))


def times(factor: float) -> str:
    """How many times as fast."""
    return f"{factor:.2g} times"
