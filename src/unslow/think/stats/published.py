"""What was published about a change of weights or cache, beside what `unslow verify` measured of it."""

from typing import NamedTuple

from unslow.facts.verification import Side
from unslow.think.case.engine import NEWEST, build_number
from unslow.think.case.memory import ROTATES_FROM
from unslow.think.plan.quality import Bounds, Cost, Loss, agreement, quality_cost
from unslow.think.stats.verification_report import PerplexityShown, PublishedShown

_LLAMA_CPP = ("llama.cpp", "Ollama")
_SIXTEEN = "f16"  # what runtimes keep their caches in unless they are told otherwise
_SAME_MODEL = 0.01  # quants of one model have as many weights, but for what a publisher adds


class _Setup(NamedTuple):
    """What decides the quality of one side."""

    quant: str
    keys: str
    values: str
    parameters: int
    architecture: str
    rotated: bool

    @property
    def cost(self) -> Cost:
        return quality_cost(*self[:5], rotated=self.rotated)


def published_of(before: Side, after: Side, measured: PerplexityShown) -> PublishedShown | None:
    """What others found, and whether it agrees; None where nothing of it was changed, or the model is another."""
    old, new = _setup_of(before), _setup_of(after)
    if old is None or new is None or old == new or old.architecture != new.architecture:
        return None
    if abs(new.parameters / old.parameters - 1) > _SAME_MODEL:
        return None
    change = published_change(old.cost, new.cost)
    rise = measured.increase
    agrees, because = agreement(Bounds(rise.low, rise.mid, rise.high), change)
    return PublishedShown(increase=change.increase, sources=change.sources, agrees=agrees, because=because)


def published_change(before: Cost, after: Cost) -> Loss:
    """What a change costs by published figures: a quant that both have cancels, known or not."""
    parts = [(before.cache.by_others, after.cache.by_others)]
    if before.quant != after.quant:
        parts.append((before.weights.by_others, after.weights.by_others))
    ratio: float | None = 1.0
    for old, new in parts:
        known = ratio is not None and old.increase is not None and new.increase is not None
        ratio = (ratio or 1.0) * (1 + (new.increase or 0.0)) / (1 + (old.increase or 0.0)) if known else None
    told = [loss for pair in parts for loss in pair if loss.words]
    return Loss(
        None if ratio is None else ratio - 1,
        None,
        at_least=any(new.at_least for _, new in parts),
        words="; ".join(dict.fromkeys(loss.words for loss in told)),
        sources=tuple(dict.fromkeys(source for loss in told for source in loss.sources)),
        much=any(new.much and not old.much for old, new in parts),
    )


def _setup_of(side: Side) -> _Setup | None:
    """By the settings that it was seen with; None where the model was not seen."""
    known = side.settings
    quant, architecture = known.get("model.quant", ""), known.get("model.architecture", "")
    count = known.get("model.parameters", "")
    if not quant or not architecture or not count.isdecimal() or not int(count):
        return None
    build = build_number(side.runtime_version)
    rotated = side.runtime.endswith(_LLAMA_CPP) and build != NEWEST and build >= ROTATES_FROM
    keys, values = (known.get(f"runtime.kv_type_{half}", _SIXTEEN) for half in "kv")
    return _Setup(quant, keys, values, int(count), architecture, rotated)
