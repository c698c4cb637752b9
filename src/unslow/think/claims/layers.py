"""Claims of layers: how many a model has, how many a card holds, how large one is, what -ngl does."""

from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.phrases import any_of
from unslow.think.claims.places import places
from unslow.think.claims.readings import Reading, readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.settings_in_text import ALL_LAYERS
from unslow.think.claims.sizes import right_unit
from unslow.think.claims.verdicts import Finding, best, cannot_tell, judged

_EVERYTHING = any_of(
    "everything", "whole", "entire", "entirely", "fully", "all of", "completely",
    "all (?:of )?(?:the |its )?(?:layers|weights|model)",
)  # fmt: skip
_TOLERANCE = 0.1


def judge_count(said: Said) -> Judged:
    """How many layers a model has; logs count the output as one more."""
    claimed, model = said.settings.layers_named or 0, said.model_at(0)
    known = {r.model: r for r in (readings(model, None) if model else []) if r.layers}
    if not known:
        return cannot_tell(said, f"{claimed} layers", "layers", ["which model"])
    return judged(said, f"{claimed} layers", "layers", best([_count(r, claimed) for r in known.values()]))


def _count(reading: Reading, claimed: int) -> Finding:
    layers = reading.layers
    lines = (
        f"{reading.model} has {layers} repeating layers",
        f"logs of llama.cpp count the output as one more: {layers + 1}",
        f"claimed {claimed}",
    )
    subject = Subject(model=reading.model)
    if claimed in {layers, layers + 1}:
        return Finding("possible", "that is how many it has", lines, subject)
    return Finding("impossible", f"it has {layers}", lines, subject)


def judge_placed(said: Said, room_bytes: float) -> Judged:
    """So many layers on a card, or everything by -ngl."""
    claimed, model, device = said.settings.gpu_layers or 0, said.model_at(0), said.device_at(0)
    what = f"{'all' if claimed == ALL_LAYERS else claimed} layers on the GPU"
    found = [r for r in (readings(model, next(iter(said.quants), None)) if model else []) if r.layers]
    if not found:
        return cannot_tell(said, what, "layers", ["which model (name or size, and quant)"])
    everything = bool(_EVERYTHING.search(said.rest))
    if everything and claimed < min(r.layers for r in found) + 1:
        return judged(said, what, "layers", best([_everything(r, claimed) for r in found]))
    place = max(places(device), key=lambda p: p.capacity_bytes) if device else None
    capacity = room_bytes or (place.capacity_bytes if place else 0.0)
    if capacity:
        label = place.label if place and device and not device.is_class else "the card"
        return judged(said, what, "layers", best([_held(r, claimed, capacity, label, said) for r in found]))
    if everything:
        return judged(said, what, "layers", best([_everything(r, claimed) for r in found]))
    return cannot_tell(said, what, "layers", ["on which device, or in how much memory"])


def _everything(reading: Reading, claimed: int) -> Finding:
    layers, left = reading.layers, reading.layers - claimed
    lines = (
        f"{reading.model} has {layers} repeating layers and the output",
        f"all of it is -ngl {layers + 1} or more",
        f"claimed {claimed}",
    )
    subject = Subject(model=reading.model)
    if left < 0:
        return Finding("possible", "that is all of them", lines, subject)
    stay = {0: "the output matrix stays", 1: "a layer stays"}.get(left, f"{left} layers stay")
    return Finding("impossible", f"{stay} on the host: it has {layers} and the output", lines, subject)


def _held(reading: Reading, claimed: int, capacity: float, label: str, said: Said) -> Finding:
    """Whether so many layers fit, with the cache of a context that is named."""
    number, context = min(claimed, reading.layers), said.settings.context
    of_all = (reading.cache_bytes(context, said.cache_type or "F16") or 0.0) if context else 0.0
    cache = of_all / reading.layers
    need = number * (reading.layer_bytes + cache)
    most = min(reading.layers, int(capacity // (reading.layer_bytes + cache)))
    with_cache = f", and {w.gb(number * cache)} of KV cache at {w.tokens(context)}" if cache else ""
    lines = (
        f"{reading.name}: {w.gb(reading.layer_bytes)} a layer, {reading.layers} layers",
        f"{number} layers take {w.both(number * reading.layer_bytes)}{with_cache}",
        f"{label} has {w.gib(capacity)}: {most} layers at most, before any buffer",
    )
    subject = Subject(model=reading.model, quant=reading.quant, device=label, context=context)
    found = Finding("possible", "so many fit", lines, subject, reading.assumed, capacity / max(1.0, need))
    if need <= capacity:
        return found
    return found._replace(verdict="impossible", because=f"{w.gib(need - capacity)} too much: {most} layers at most")


def judge_layer_size(said: Said, claim: Amount) -> Judged:
    """What one layer weighs."""
    model, what = said.model_at(claim.start), f"{w.gb(claim.low)} a layer"
    found = [r for r in (readings(model, said.quant_at(claim.start)) if model else []) if r.layers]
    if not found:
        return cannot_tell(said, what, "layers", ["which model (name or size, and quant)"])
    return judged(said, what, "layers", best([_layer_size(r, claim) for r in found]))


def _layer_size(reading: Reading, claim: Amount) -> Finding:
    size = reading.layer_bytes
    lines = (
        f"{reading.name}: {w.gb(size * reading.layers)} in {reading.layers} repeating layers",
        f"{w.both(size)} a layer on average",
        f"claimed {w.gb(claim.low)}: {w.share(claim.low / size)} of it",
    )
    subject = Subject(model=reading.model, quant=reading.quant)
    if right_unit(claim, size, _TOLERANCE):
        return Finding("possible", "its tensors add up to that", lines, subject, reading.assumed)
    nearness = -abs(claim.low - size)
    return Finding("impossible", f"a layer has {w.gb(size)}", lines, subject, reading.assumed, nearness)
