"""Claims of size: what a file weighs, what a cache, a layer or a model needs, and whether it fits in a memory."""

import re
from collections.abc import Iterator
from itertools import product

from unslow.facts.values import GIB, KIB, MIB
from unslow.think.claims.amounts import Amount, any_phrase, gb, gb_and_gib, gib, percent, three_digits, tokens
from unslow.think.claims.devices import places
from unslow.think.claims.models import Reading, readings
from unslow.think.claims.report import Finding, JudgedClaim, Subject, best_finding, cannot_tell, judged_claim
from unslow.think.claims.sentence import ALL_LAYERS, Role, SentenceReading, contexts_said

_EXACT, _BY_SIZE_ALONE = 0.045, 0.12
_BESIDE_BYTES = 3 * GIB  # Compute buffers, the driver's context, and what rounding adds
_ROUNDED_UP = 1.1
_USUAL_CONTEXT, _LONG_CONTEXT = 4096, 131072


def judge_size(said: SentenceReading, claim: Amount, role: Role) -> JudgedClaim:
    """What a model weighs, or needs in all."""
    model, what = said.model_at(claim.start), amount_in_gb(claim)
    if not model:
        return cannot_tell(said, what, "size", ["which model (name or size, and quant)"])
    found = readings(model, said.quant_at(claim.start), any_quant=True)
    if role == "need":
        held = [_judge_need(reading, claim, said.settings.context) for reading in found]
    else:
        held = [_judge_weights(reading, claim, said) for reading in found]
    return judged_claim(said, what, "size", best_finding(held))


def _judge_weights(reading: Reading, claim: Amount, said: SentenceReading) -> Finding:
    """What the tensors add up to, or what a token reads of them where that is said."""
    size = reading.weights_bytes
    unit = right_unit(claim, size, _EXACT if reading.shaped else _BY_SIZE_ALONE)
    if not unit and "token" in said.text:
        unit = right_unit(claim, reading.read_bytes, _EXACT)
    bits = three_digits(size * 8 / reading.parameters)
    lines = (
        f"{reading.name}: {three_digits(reading.parameters / 1e9)}B parameters, {bits} bits each on average",
        f"weights {gb_and_gib(size)}",
        f"claimed {amount_in_gb(claim)}: {three_digits(claim.low / size * 100)} %",
    )
    subject = Subject(model=reading.model, quant=reading.quant)
    found = Finding("possible", "it matches the sum of its tensors", lines, subject, reading.assumed)
    if not unit:
        because = f"its tensors add up to {gb_and_gib(size)}"
        return found._replace(verdict="impossible", because=because, nearness=-abs(claim.low - size))
    return found._replace(because=f"{found.because}, counted in GiB") if unit == "GiB" else found


def _judge_need(reading: Reading, claim: Amount, context: int) -> Finding:
    """Weights and cache at least; an unnamed context may be a long one."""
    cache = reading.cache_bytes(context or _USUAL_CONTEXT) or 0.0
    longest = cache if context else reading.cache_bytes(_LONG_CONTEXT) or reading.weights_bytes
    least = reading.weights_bytes - reading.table_bytes + (cache if context else 0.0)
    most = (reading.weights_bytes + longest) * _ROUNDED_UP + _BESIDE_BYTES
    at = tokens(context or _USUAL_CONTEXT)
    lines = (
        f"{reading.name}: weights {gb_and_gib(reading.weights_bytes)}",
        f"KV cache of {at} tokens: {gb_and_gib(cache)}" if cache else "KV cache: unknown, since only a size is given",
        f"together {gb_and_gib(reading.weights_bytes + cache)} and some buffers; claimed {amount_in_gb(claim)}",
    )
    subject = Subject(model=reading.model, quant=reading.quant, context=context)
    largest = max(high for _, high, _ in in_units(claim))
    found = Finding("possible", "about what it needs", lines, subject, reading.assumed, largest / least)
    if largest * (1 + _EXACT) < least:
        alone = "" if context else " for the weights alone"
        return found._replace(verdict="impossible", because=f"{gb(least - claim.high)} too little{alone}")
    return found._replace(verdict="impossible", because="far more than it needs") if claim.low > most else found


_TOLERANCE = 0.1
_UNNAMED_TYPES = ("Q8_0", "Q4_0", "F32")


def judge_cache(said: SentenceReading, claim: Amount) -> JudgedClaim:
    """What keys and values take, at any of the contexts that are named."""
    model, what, contexts = said.model_at(claim.start), f"{amount_in_gb(claim)} of KV cache", contexts_said(said.rest)
    if not model or not contexts:
        missing = ["which model"] * (not model) + ["at which context"] * (not contexts)
        return cannot_tell(said, what, "kv_cache", missing)
    # In the named type, else in F16; other types are guesses
    kinds = [said.cache_type] if said.cache_type else ["F16", *_UNNAMED_TYPES]
    models = {r.model: r for r in readings(model, None) if r.shaped}
    each = product(kinds, models.values(), contexts)
    found = [_judge_cache_size(r, claim, at, kind)._replace(assumed=kind != kinds[0]) for kind, r, at in each]
    if not found:
        return cannot_tell(said, what, "kv_cache", [f"which {model.label} model: the catalog has none of this size"])
    return judged_claim(said, what, "kv_cache", best_finding(found))


def _judge_cache_size(reading: Reading, claim: Amount, context: int, kind: str) -> Finding:
    size = max(1.0, reading.cache_bytes(context, kind) or 0.0)
    lines = (
        f"{reading.model} needs {size / context / KIB:,.4g} KiB per token in {kind}, over {reading.layers} layers",
        f"{tokens(context)} tokens: {gb_and_gib(size)}",
        f"claimed {amount_in_gb(claim)}: {three_digits(claim.low / size)} times as much",
    )
    subject = Subject(model=reading.model, quant=f"{kind} KV cache", context=context)
    found = Finding(
        "possible", "it matches the sum of keys and values", lines, subject, nearness=-abs(claim.low / size - 1)
    )
    if right_unit(claim, size, _TOLERANCE):
        return found
    because = f"keys and values of {tokens(context)} tokens are {gb_and_gib(size)}"
    return found._replace(verdict="impossible", because=because)


_EVERYTHING = any_phrase(
    "everything", "whole", "entire", "entirely", "fully", "all of", "completely",
    "all (?:of )?(?:the |its )?(?:layers|weights|model)",
)  # fmt: skip


def judge_count(said: SentenceReading) -> JudgedClaim:
    """How many layers a model has; logs count the output as one more."""
    claimed, model = said.settings.layers_named or 0, said.model_at(0)
    known = {r.model: r.layers for r in (readings(model, None) if model else []) if r.layers}
    if not known:
        return cannot_tell(said, f"{claimed} layers", "layers", ["which model"])
    found = []
    for name, layers in known.items():
        lines = (
            f"{name} has {layers} repeating layers",
            f"llama.cpp logs count the output as one more: {layers + 1}",
            f"claimed {claimed}",
        )
        one = Finding("impossible", f"it has {layers}", lines, Subject(model=name))
        right = claimed in {layers, layers + 1}
        found.append(one._replace(verdict="possible", because="it has that many") if right else one)
    return judged_claim(said, f"{claimed} layers", "layers", best_finding(found))


def judge_placed(said: SentenceReading, room_bytes: float) -> JudgedClaim:
    """So many layers on a card, or everything by -ngl."""
    claimed, model, device = said.settings.gpu_layers or 0, said.model_at(0), said.device_at(0)
    what = f"{'all' if claimed == ALL_LAYERS else claimed} layers on the GPU"
    found = [r for r in (readings(model, next(iter(said.quants), None)) if model else []) if r.layers]
    if not found:
        return cannot_tell(said, what, "layers", ["which model (name or size, and quant)"])
    everything = bool(_EVERYTHING.search(said.rest))
    place = max(places(device), key=lambda p: p.capacity_bytes) if device else None
    capacity = room_bytes or (place.capacity_bytes if place else 0.0)
    if everything and (not capacity or claimed < min(r.layers for r in found) + 1):
        findings = [_judge_everything(r, claimed) for r in found]
    elif capacity:
        label = place.label if place and device and not device.is_class else "the card"
        findings = [_judge_held_layers(r, claimed, capacity, label, said) for r in found]
    else:
        return cannot_tell(said, what, "layers", ["on which device, or in how much memory"])
    return judged_claim(said, what, "layers", best_finding(findings))


def _judge_everything(reading: Reading, claimed: int) -> Finding:
    layers, left = reading.layers, reading.layers - claimed
    lines = (
        f"{reading.model} has {layers} repeating layers and the output",
        f"everything on the GPU is -ngl {layers + 1} or more",
        f"claimed {claimed}",
    )
    subject = Subject(model=reading.model)
    if left < 0:
        return Finding("possible", "that is all layers", lines, subject)
    stay = {0: "the output matrix stays", 1: "a layer stays"}.get(left, f"{left} layers stay")
    return Finding("impossible", f"{stay} on the host: it has {layers} and the output", lines, subject)


def _judge_held_layers(reading: Reading, claimed: int, capacity: float, label: str, said: SentenceReading) -> Finding:
    number, context = min(claimed, reading.layers), said.settings.context
    of_all = (reading.cache_bytes(context, said.cache_type or "F16") or 0.0) if context else 0.0
    cache = of_all / reading.layers
    need = number * (reading.layer_bytes + cache)
    most = min(reading.layers, int(capacity // (reading.layer_bytes + cache)))
    with_cache = f", and {gb(number * cache)} of KV cache at {tokens(context)}" if cache else ""
    lines = (
        f"{reading.name}: {gb(reading.layer_bytes)} per layer, {reading.layers} layers",
        f"{number} layers need {gb_and_gib(number * reading.layer_bytes)}{with_cache}",
        f"{label} has {gib(capacity)}: at most {most} layers, without buffers",
    )
    subject = Subject(model=reading.model, quant=reading.quant, device=label, context=context)
    found = Finding("possible", "that many fit", lines, subject, reading.assumed, capacity / max(1.0, need))
    if need <= capacity:
        return found
    return found._replace(verdict="impossible", because=f"{gib(need - capacity)} too much: at most {most} layers")


def judge_layer_size(said: SentenceReading, claim: Amount) -> JudgedClaim:
    """What one layer weighs."""
    model, what = said.model_at(claim.start), f"{gb(claim.low)} per layer"
    found = [r for r in (readings(model, said.quant_at(claim.start)) if model else []) if r.layers]
    if not found:
        return cannot_tell(said, what, "layers", ["which model (name or size, and quant)"])
    findings = []
    for reading in found:
        size = reading.layer_bytes
        lines = (
            f"{reading.name}: {gb(size * reading.layers)} in {reading.layers} repeating layers",
            f"{gb_and_gib(size)} per layer on average",
            f"claimed {gb(claim.low)}: {percent(claim.low / size)}",
        )
        subject, nearness = Subject(model=reading.model, quant=reading.quant), -abs(claim.low - size)
        one = Finding("impossible", f"a layer has {gb(size)}", lines, subject, reading.assumed, nearness)
        right = right_unit(claim, size, _TOLERANCE)
        findings.append(one._replace(verdict="possible", because="it matches the sum of its tensors") if right else one)
    return judged_claim(said, what, "layers", best_finding(findings))


_COUNT = re.compile(
    r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)\s?([bmt])\s?(?:of\s)?"
    r"(?:(total|active|activated)|(?:parameters|params|weights)(?:\s(?:are\s)?(total|active|in all))?)\b"
)
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}
_TOTAL_NEAR, _ACTIVE_NEAR = 0.04, 0.12


def judge_parameters(said: SentenceReading) -> Iterator[JudgedClaim]:
    """Each number of parameters of a model that is named."""
    for match in _COUNT.finditer(said.rest):
        model = said.model_at(match.start())
        known = {r.model: r for r in (readings(model, None) if model and model.named else []) if r.shaped}
        is_active, claimed = "activ" in f"{match[3]} {match[4]}", float(match[1]) * _UNITS[match[2]]
        which = "active per token" if is_active else "in all"
        found = []
        for name, reading in known.items():
            truth = reading.active if is_active else reading.parameters
            has = f"{three_digits(truth / 1e9)}B {which}"
            total, said_to_have = (f"{three_digits(count / 1e9)}B" for count in (reading.parameters, claimed))
            lines = (f"{name}: {total} parameters", has, f"claimed {said_to_have}")
            near = abs(claimed / truth - 1) <= (_ACTIVE_NEAR if is_active else _TOTAL_NEAR)
            found.append(Finding("possible" if near else "impossible", f"it has {has}", lines, Subject(model=name)))
        if found:
            yield judged_claim(said, match[0], "parameters", best_finding(found))


_FITS = any_phrase(
    "fits?", "fitting", "fully (?:on|in|offloaded|loaded|resident)", "entirely (?:on|in)", "completely (?:on|in)",
    "everything (?:on|in)", "whole model", r"all (?:the |of the |its |\d+ )?layers", "100 ?% (?:on (?:the )?)?gpu",
    "natively?", "avoids? (?:paging|spilling)", "is enough", r"comfortabl\w+", "sweet spot",
)  # fmt: skip
_DENIED = any_phrase(
    "(?:not|never|won't|can't|cannot|doesn't|don't|no longer|hardly)[^.;]{0,20} (?:fit|hold|load)", "spills?",
    "always page", "too (?:large|big|much)",
)  # fmt: skip
_RUNS = any_phrase("runs?", "running", "loads?", "works?")
ABOUT_FITTING = (_FITS, _DENIED, _RUNS)  # A sentence says that something fits, or that it does not
_SEVERAL = re.compile(r"\b(two|dual|both|three|four|[2-4] ?x)\b")
_NUMBERS = {"two": 2, "dual": 2, "both": 2, "three": 3, "four": 4}
_BUFFERS_BYTES = 300 * MIB
_SURELY = 0.97
_MOST_SPILLED = 4  # Times the memory: what is larger does not run partly either


def judge_fit(said: SentenceReading, amount: Amount | None) -> JudgedClaim:
    """A model against a memory of a size, or of a device."""
    at = amount.start if amount else len(said.text)
    model, (label, room) = said.model_at(at), _room_said(said, amount, at)
    if not model or not room:
        missing = ["which model (name or size, and quant)"] * (not model) + ["how much memory"] * (not room)
        return cannot_tell(said, "fits", "fit", missing)
    denied = _DENIED.search(said.rest) is not None
    found = [_judge_room(r, label, room, said, denied=denied) for r in readings(model, said.quant_at(at))]
    finding = found[0] if denied else best_finding(found)
    return judged_claim(said, f"{'does not fit' if denied else 'fits'} in {label}", "fit", finding)


def _judge_room(reading: Reading, label: str, room: float, said: SentenceReading, *, denied: bool) -> Finding:
    """Whether it fits; that it does not is wrong only where it surely does."""
    context, weights = said.settings.context, reading.weights_bytes - reading.table_bytes
    at = tokens(context or _USUAL_CONTEXT)
    cache = reading.cache_bytes(context or _USUAL_CONTEXT, said.cache_type or "F16") or 0.0
    least, usual = weights + (cache if context else 0.0), weights + cache + _BUFFERS_BYTES
    lines = (
        f"{reading.name}: {gb_and_gib(weights)} of weights on the device",
        f"KV cache of {at} tokens: {gb_and_gib(cache)}" if cache else "KV cache: unknown, since only a size is given",
        f"together {gib(weights + cache)} and buffers, against {gib(room)}",
    )
    subject = Subject(model=reading.model, quant=reading.quant, device=label, context=context)
    free = f"leaves {gib(room - usual)} free"
    found = Finding("possible", f"it {free}", lines, subject, reading.assumed, room / least)
    if denied and usual <= room * _SURELY:
        return found._replace(verdict="impossible", because=f"it does fit, and {free}")
    if denied:
        lacking = usual - room
        return found._replace(because=f"{gib(lacking)} too much" if lacking > 0 else "it leaves almost nothing free")
    if usual <= room:
        return found
    if least <= room:
        because = f"barely: {gib(usual - room)} short for {at} tokens and buffers"
        return found._replace(verdict="unlikely", because=because)
    # Impossible, unless a cache in fewer bits would do, or unless it is only said to run
    smallest = weights + (reading.cache_bytes(context, "Q4_0") or 0.0) if context else least
    if not said.cache_type and smallest + _BUFFERS_BYTES <= room:
        because = "only with a KV cache in fewer bits, which the claim does not say"
        return found._replace(verdict="unlikely", because=because)
    missing = gib(least - room)
    if _RUNS.search(said.rest) and not _FITS.search(said.rest) and least <= room * _MOST_SPILLED:
        return found._replace(verdict="unlikely", because=f"{missing} must stay in host memory, which is slow")
    return found._replace(verdict="impossible", because=f"{missing} too much, even without buffers")


def _room_said(said: SentenceReading, amount: Amount | None, at: int) -> tuple[str, float]:
    """What the memory is called, and its size; 0 where none is named."""
    device = said.device_at(at)
    if device and (not amount or device.memory_bytes):
        largest = max(places(device), key=lambda place: place.capacity_bytes)
        return device.label if device.is_class else largest.label, largest.capacity_bytes
    if not amount:
        return "", 0.0
    several = _SEVERAL.search(said.text)
    number = _NUMBERS.get(several[1], 0) or int(several[1][0]) if several else 1
    one = three_digits(room_bytes(amount) / GIB)
    return f"{number} x {one} GB" if number > 1 else f"{one} GB", room_bytes(amount) * number


def room_bytes(room: Amount) -> float:
    """A memory of 24 GB has 24 GiB, whatever a file of 24 GB has; of a range, the largest."""
    return room.high * (1.024**3 if room.unit == "gb" else 1.0)


def amount_in_gb(claim: Amount) -> str:
    """The claim in GB."""
    return gb(claim.low) if claim.low == claim.high else f"{gb(claim.low)} to {gb(claim.high)}"


def in_units(claim: Amount) -> tuple[tuple[float, float, str], ...]:
    """The claim as written, and with GB read as GiB, which many mean by it."""
    ends = [(claim.low, claim.high, "GB")]
    if claim.unit in {"gb", "mb", "tb", "gig", "gigs"}:
        binary = {"m": 1.024**2, "g": 1.024**3, "t": 1.024**4}[claim.unit[0]]
        ends.append((claim.low * binary, claim.high * binary, "GiB"))
    return tuple(ends)


def right_unit(claim: Amount, truth: float, tolerance: float) -> str:
    """The unit in which the claim is right; empty where it is in none."""
    fits = (unit for low, high, unit in in_units(claim) if low * (1 - tolerance) <= truth <= high * (1 + tolerance))
    return next(fits, "")
