"""Claims of size: what a file weighs, and what a model needs."""

from unslow.facts.units import GIB
from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.readings import Reading, readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.roles import Role
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Finding, best, cannot_tell, judged

_EXACT, _BY_SIZE_ALONE = 0.045, 0.12
_BESIDE_BYTES = 3 * GIB
"""Compute buffers, the driver's context, and what rounding adds."""
_ROUNDED_UP = 1.1
_USUAL_CONTEXT, _LONG_CONTEXT = 4096, 131072


def judge_size(said: Said, claim: Amount, role: Role) -> Judged:
    """What a model weighs, or needs in all."""
    model, what = said.model_at(claim.start), spelled(claim)
    if not model:
        return cannot_tell(said, what, "size", ["which model (name or size, and quant)"])
    found = readings(model, said.quant_at(claim.start), any_quant=True)
    held = [_need(r, claim, said.settings.context) if role == "need" else _weights(r, claim, said) for r in found]
    return judged(said, what, "size", best(held))


def spelled(claim: Amount) -> str:
    """The claim in GB."""
    return w.gb(claim.low) if claim.low == claim.high else f"{w.gb(claim.low)} to {w.gb(claim.high)}"


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


def _weights(reading: Reading, claim: Amount, said: Said) -> Finding:
    """What the tensors add up to, or what a token reads of them where that is said."""
    size = reading.weights_bytes
    unit = right_unit(claim, size, _EXACT if reading.shaped else _BY_SIZE_ALONE)
    if not unit and "token" in said.text:
        unit = right_unit(claim, reading.read_bytes, _EXACT)
    bits = w.digits(size * 8 / reading.parameters)
    lines = (
        f"{reading.name}: {w.digits(reading.parameters / 1e9)}B parameters, {bits} bits each on average",
        f"weights {w.both(size)}",
        f"claimed {spelled(claim)}: {w.digits(claim.low / size * 100)} % of it",
    )
    subject = Subject(model=reading.model, quant=reading.quant)
    if not unit:
        nearness = -abs(claim.low - size)
        return Finding("impossible", f"its tensors add up to {w.both(size)}", lines, subject, reading.assumed, nearness)
    counted = ", counted in GiB" if unit == "GiB" else ""
    return Finding("possible", f"its tensors add up to that{counted}", lines, subject, reading.assumed)


def _need(reading: Reading, claim: Amount, context: int) -> Finding:
    """Weights and cache at least; a context that nobody named may be a long one."""
    cache = reading.cache_bytes(context or _USUAL_CONTEXT) or 0.0
    longest = cache if context else reading.cache_bytes(_LONG_CONTEXT) or reading.weights_bytes
    least = reading.weights_bytes - reading.table_bytes + (cache if context else 0.0)
    most = (reading.weights_bytes + longest) * _ROUNDED_UP + _BESIDE_BYTES
    at = w.tokens(context or _USUAL_CONTEXT)
    lines = (
        f"{reading.name}: weights {w.both(reading.weights_bytes)}",
        f"KV cache of {at} tokens: {w.both(cache)}" if cache else "KV cache: not known for a size alone",
        f"together {w.both(reading.weights_bytes + cache)} and some buffers; claimed {spelled(claim)}",
    )
    subject = Subject(model=reading.model, quant=reading.quant, context=context)
    largest = max(high for _, high, _ in in_units(claim))
    found = Finding("possible", "about what it takes", lines, subject, reading.assumed, largest / least)
    if largest * (1 + _EXACT) < least:
        alone = "" if context else " for the weights alone"
        return found._replace(verdict="impossible", because=f"{w.gb(least - claim.high)} too little{alone}")
    return found._replace(verdict="impossible", because="far more than it takes") if claim.low > most else found
