"""What could make a claimed difference, and how much of one it can make: a quant, a device, more devices, a setting."""

import re
from collections.abc import Sequence

from unslow.think.claims import wording as w
from unslow.think.claims.ceilings import MOST_GUESSED, USUALLY_GUESSED, Question, one_stream
from unslow.think.claims.devices_in_text import DeviceSaid
from unslow.think.claims.models_in_text import models_said
from unslow.think.claims.phrases import any_of
from unslow.think.claims.places import places
from unslow.think.claims.quants_in_text import QuantSaid
from unslow.think.claims.ratios import Ratio
from unslow.think.claims.readings import Reading, cache_share, readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Finding, cannot_tell, judged

_FLASH = any_of("flash[ -]?attention", "flash[ -]attn", "fa2?")
_CACHE = any_of("kv", "cache")
_GPUS = re.compile(r"\b(?:(\d{1,2})|two|dual|second|four)\s?(?:x\s)?(?:gpus?|cards?)\b")
_THAN = any_of("than", "as fast as", "over")
"""`A is faster than B` has the faster one first, `A to B` the slower one."""
_PAIR = 2
_NEARLY = 0.13
_SLACK = 1.25
"""Two quants, or two devices, may also differ in how much of their bandwidth they reach."""
_EXAMPLE = "llama 3.1 8b"
"""The model whose quants are compared where none is named."""


def judge_ratio(said: Said, ratio: Ratio) -> Judged:
    """The claimed difference against the one that is possible."""
    finding = _finding(said, ratio)
    if finding is None:
        missing = ["from what to what: two quants, two devices, a number of GPUs or a setting"]
        return cannot_tell(said, ratio.text, "ratio", missing)
    return judged(said, ratio.text, "ratio", finding)


def _finding(said: Said, ratio: Ratio) -> Finding | None:
    if _FLASH.search(said.rest):
        return _flash(ratio) if _CACHE.search(said.rest) and ratio.of_size else None
    if said.cache_quants and ratio.of_size:
        return _cache_type(said.cache_quants[-1], ratio)
    pair = said.quants[-_PAIR:]
    if len(pair) == _PAIR and pair[0].label != pair[1].label:
        return _quants(said, pair, ratio)
    if len(said.devices) > 1:
        return _devices(said.devices[0], said.devices[1], ratio)
    number = said.devices[0].number if said.devices else _gpus(said.rest)
    if number > 1:
        return _several(number, ratio, said)
    return _guessing(ratio) if said.settings.guessing else None


def _gpus(text: str) -> int:
    match = _GPUS.search(text)
    return int(match[1] or (4 if "four" in match[0] else 2)) if match else 0


def _flash(ratio: Ratio) -> Finding:
    ends = w.share(ratio.low) if ratio.low == ratio.high else f"{w.share(ratio.low)} to {w.share(ratio.high)}"
    lines = (
        "KV cache = layers x KV heads x length of a head x 2 x context x bytes of an element",
        "flash attention is in none of these: it spares the matrix of scores in the compute buffer",
        f"so the cache keeps its size; claimed {ends} of it",
    )
    return Finding("impossible", "flash attention does not change the size of the KV cache", lines)


def _cache_type(quant: QuantSaid, ratio: Ratio) -> Finding:
    truth = cache_share(quant.label)
    lines = (
        "an element of F16 takes 2 bytes",
        f"one of {quant.label} takes {w.digits(truth * 2)}, scales included",
        f"the cache becomes {w.share(truth)} of what it was; claimed {w.share(ratio.low)}",
    )
    right = ratio.low - _NEARLY / 2 <= truth <= ratio.high + _NEARLY / 2
    return Finding("possible" if right else "impossible", f"it becomes {w.share(truth)}", lines)


def _quants(said: Said, pair: Sequence[QuantSaid], ratio: Ratio) -> Finding:
    model = said.model_at(ratio.start) or models_said(_EXAMPLE)[0]
    if _THAN.search(said.rest, pair[0].end, pair[1].start):
        pair = pair[::-1]
    before, after = (readings(model, quant) for quant in pair)
    if ratio.of_size:
        return _smaller(before[0], after, ratio)
    return _faster(before[0], min(after, key=lambda r: r.read_bytes), ratio, said.device_at(ratio.start))


def _smaller(one: Reading, after: list[Reading], ratio: Ratio) -> Finding:
    two = min(after, key=lambda r: abs(r.weights_bytes / one.weights_bytes - ratio.low))
    truth = two.weights_bytes / one.weights_bytes
    lines = (
        f"{one.name}: {w.both(one.weights_bytes)}",
        f"{two.name}: {w.both(two.weights_bytes)}",
        f"{w.share(truth)} of it; claimed {w.share(ratio.low)}",
    )
    right = ratio.low * (1 - _NEARLY) <= truth <= ratio.high * (1 + _NEARLY)
    because = f"{two.quant} has {w.share(truth)} of the size"
    return Finding("possible" if right else "impossible", because, lines, Subject(model=one.model))


def _faster(one: Reading, two: Reading, ratio: Ratio, device: DeviceSaid | None) -> Finding:
    """By the bytes of a token; on a device that holds only one of them, by the ceilings there."""
    most = one.read_bytes / two.read_bytes
    how = f"{w.digits(most)} times as fast at most where both fit"
    if device:
        place = max(places(device), key=lambda p: p.bytes_per_s)
        slow, fast = (one_stream(Question(reading, place)).tokens_per_s for reading in (one, two))
        most = max(most, fast / slow)
        how = f"ceilings on {place.label}: {w.rate(slow)} and {w.rate(fast)}, {w.digits(most)} times"
    lines = (
        f"a token reads {w.gb(one.read_bytes)} of {one.name}",
        f"and {w.gb(two.read_bytes)} of {two.name}",
        f"{how}; claimed {w.digits(ratio.low)}",
    )
    found = Finding("possible", f"up to {w.digits(most)} times", lines, Subject(model=one.model))
    if ratio.low > most * _SLACK:
        return found._replace(verdict="impossible", because=f"{w.digits(most)} times at most")
    if ratio.low > most:
        return found._replace(verdict="unlikely", because=f"{w.digits(most)} times where both are as efficient")
    return found


def _devices(one: DeviceSaid, two: DeviceSaid, ratio: Ratio) -> Finding:
    pairs = [(p, q, p.bytes_per_s / max(1.0, q.bytes_per_s)) for p in places(one) for q in places(two)]
    fast, slow, truth = min(pairs, key=lambda pair: abs(pair[2] - ratio.low))
    lines = (
        f"{fast.label}: {w.bandwidth(fast.bytes_per_s)}",
        f"{slow.label}: {w.bandwidth(slow.bytes_per_s)}",
        f"{w.digits(truth)} times; claimed {w.digits(ratio.low)}",
    )
    found = Finding(
        "possible", f"bandwidth gives {w.digits(truth)} times", lines, Subject(device=f"{fast.label}, {slow.label}")
    )
    if ratio.of_bandwidth:
        right = ratio.low * (1 - _NEARLY / 2) <= truth <= ratio.high * (1 + _NEARLY / 2)
        return found if right else found._replace(verdict="impossible")
    if ratio.low > truth * _SLACK:
        because = f"bandwidth gives {w.digits(truth)} times, unless the model fits on one of them alone"
        return found._replace(verdict="unlikely", because=because)
    return found


def _several(number: int, ratio: Ratio, said: Said) -> Finding:
    lines = (
        f"{number} GPUs that share each layer read {number} times as fast together",
        "GPUs that take the layers in turn add memory, and no speed for one stream",
        f"so {number} times at most; claimed {w.digits(ratio.low)}",
    )
    if ratio.low <= number:
        return Finding("possible", f"up to {number} times where each layer is shared", lines)
    if said.models:
        return Finding("unlikely", f"{number} times at most, unless the model did not fit on one", lines)
    return Finding("impossible", f"{number} times at most", lines)


def _guessing(ratio: Ratio) -> Finding:
    lines = (
        "one step checks all guesses at once and gives those that were right, and one more",
        f"{MOST_GUESSED - 1} guesses, all right: {MOST_GUESSED} tokens; {USUALLY_GUESSED} are a good average",
        f"claimed {w.digits(ratio.low)} times",
    )
    if ratio.low > MOST_GUESSED:
        return Finding("impossible", f"{MOST_GUESSED} tokens a step at most", lines)
    if ratio.low > USUALLY_GUESSED:
        return Finding("unlikely", "only with nearly every guess right", lines)
    return Finding("possible", "within what good guesses give", lines)
