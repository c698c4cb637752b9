"""Claims of a ratio, and how much of one a quant, a device, more devices or a setting can make."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.think.claims.amounts import any_phrase, bandwidth, gb, gb_and_gib, number, percent, rate, three_digits
from unslow.think.claims.devices import DeviceSaid, places
from unslow.think.claims.models import QuantSaid, Reading, cache_share, models_said, readings
from unslow.think.claims.report import Finding, JudgedClaim, Subject, cannot_tell, judged_claim
from unslow.think.claims.sentence import SentenceReading
from unslow.think.claims.speeds import MOST_GUESSED, USUALLY_GUESSED, CeilingQuestion, one_stream_ceiling

_N = r"(?P<low>\d{1,6}(?:,\d{3})?(?:\.\d{1,3})?)(?:\s?(?:-|to)\s?(?P<high>\d{1,6}(?:\.\d{1,3})?))?"
_ABOUT = r"(?:about |around |~)?"
_GAINS = "faster|quicker|speed-?ups?|speed|throughput|performance|improvement|bandwidth|larger|gain|scaling|more|higher"
_LOSSES = "slower|smaller|less|reduction|lower"
_TIMES = re.compile(rf"(?<![\w.]){_N}\s?(?:x|times)[\s-]{{1,2}}(?:\w+\s){{0,2}}?(?P<what>{_GAINS}|{_LOSSES})\b")
_OF = re.compile(rf"\b(?P<what>{_GAINS}|{_LOSSES})(?:\s(?:of|by|is))?\s{_ABOUT}{_N}\s?(?:x|times)\b")
_PERCENT = re.compile(rf"(?<![\w.]){_N}\s?%\s(?P<what>{_GAINS}|{_LOSSES})\b")
_SAVES = re.compile(
    r"\b(?P<what>cuts?|reduc\w+|shrinks?|compress\w*|sav\w+|lowers?|drops?)\b"
    rf"[^.;]{{0,60}}?(?:by\s)?{_ABOUT}{_N}\s?%"
)
_FASTER = r"(?:the |its |your )?(?:speed|throughput|performance|tok\w*)"
_TWICE = any_phrase("twice (?:as fast|the speed|the throughput|the performance)", rf"doubl\w+ {_FASTER}")
_THRICE = any_phrase(rf"tripl\w+ {_FASTER}")
_HALF = any_phrase(r"halv\w+", r"half (?:the|as much|of the|its)?\s?(?:\w+\s)?(?:memory|vram|size|data|footprint|kv)")
_QUARTER = any_phrase("quarters? (?:the|of the) (?:memory|vram|size|kv)")
_IN_WORDS = ((_TWICE, 2.0, False), (_THRICE, 3.0, False), (_HALF, 0.5, True), (_QUARTER, 0.25, True))
_OF_MEMORY = any_phrase("memory", "vram", "size", "footprint", "kv", "cache", "data", "smaller")


class Ratio(NamedTuple):
    """How many times as fast, or as large; a range where one is given."""

    low: float
    high: float
    text: str
    start: int
    of_size: bool = False
    of_bandwidth: bool = False


def ratio_said(said: SentenceReading) -> Ratio | None:
    """The first ratio of a sentence."""
    for pattern in (_SAVES, _TIMES, _OF, _PERCENT):
        if match := pattern.search(said.rest):
            low = number(match["low"])
            high = number(match["high"]) if match["high"] else low
            what, saves = match["what"], match.re is _SAVES
            shrinks = saves or bool(re.fullmatch(_LOSSES, what))
            # `3x slower` is a third, `30 % less` is 0.7, `30 % faster` is 1.3
            ends = [1 / max(end, 1e-9) if shrinks else end for end in (low, high)]
            if saves or match.re is _PERCENT:
                ends = [max(0.0, 1 + (-end if shrinks else end) / 100) for end in (low, high)]
            of_size = saves or (shrinks and what != "slower" and bool(_OF_MEMORY.search(said.rest)))
            return Ratio(min(ends), max(ends), match[0].strip(), match.start(), of_size, what == "bandwidth")
    for pattern, value, of_size in _IN_WORDS:
        if match := pattern.search(said.rest):
            return Ratio(value, value, match[0], match.start(), of_size)
    return None


_FLASH = any_phrase("flash[ -]?attention", "flash[ -]attn", "fa2?")
_CACHE = any_phrase("kv", "cache")
_GPUS = re.compile(r"\b(?:(\d{1,2})|two|dual|second|four)\s?(?:x\s)?(?:gpus?|cards?)\b")
_THAN = any_phrase("than", "as fast as", "over")
"""`A is faster than B` has the faster one first, `A to B` the slower one."""
_PAIR = 2
_NEARLY = 0.13
_SLACK = 1.25  # Two quants, or two devices, may also differ in how much of their bandwidth they reach
_EXAMPLE = "llama 3.1 8b"  # The model whose quants are compared where none is named


def judge_ratio(said: SentenceReading, ratio: Ratio) -> JudgedClaim:
    """The claimed difference against the one that is possible."""
    finding = _finding(said, ratio)
    if finding is None:
        missing = ["what is compared: two quants, two devices, a number of GPUs or a setting"]
        return cannot_tell(said, ratio.text, "ratio", missing)
    return judged_claim(said, ratio.text, "ratio", finding)


def _finding(said: SentenceReading, ratio: Ratio) -> Finding | None:
    if _FLASH.search(said.rest):
        if not ratio.of_size or not _CACHE.search(said.rest):
            return None
        ends = percent(ratio.low) if ratio.low == ratio.high else f"{percent(ratio.low)} to {percent(ratio.high)}"
        lines = (
            "KV cache = layers x KV heads x head size x 2 x context x bytes per element",
            "flash attention changes none of these: it shrinks the compute buffer, which no longer holds the scores",
            f"so the cache keeps its size; claimed {ends}",
        )
        return Finding("impossible", "flash attention does not change the size of the KV cache", lines)
    if said.cache_quants and ratio.of_size:
        quant = said.cache_quants[-1]
        truth = cache_share(quant.label)
        lines = (
            "an F16 element takes 2 bytes",
            f"a {quant.label} element takes {three_digits(truth * 2)}, scales included",
            f"the cache shrinks to {percent(truth)}; claimed {percent(ratio.low)}",
        )
        right = ratio.low - _NEARLY / 2 <= truth <= ratio.high + _NEARLY / 2
        return Finding("possible" if right else "impossible", f"it shrinks to {percent(truth)}", lines)
    pair = said.quants[-_PAIR:]
    if len(pair) == _PAIR and pair[0].label != pair[1].label:
        return _judge_quants(said, pair, ratio)
    if len(said.devices) > 1:
        return _judge_devices(said.devices[0], said.devices[1], ratio)
    several = _GPUS.search(said.rest)
    gpus = int(several[1] or (4 if "four" in several[0] else 2)) if several else 0
    number = said.devices[0].number if said.devices else gpus
    if number > 1:
        return _judge_several(number, ratio, said)
    return _judge_guessing(ratio) if said.settings.guessing else None


def _judge_quants(said: SentenceReading, pair: Sequence[QuantSaid], ratio: Ratio) -> Finding:
    model = said.model_at(ratio.start) or models_said(_EXAMPLE)[0]
    if _THAN.search(said.rest, pair[0].end, pair[1].start):
        pair = pair[::-1]
    (one, *_), after = (readings(model, quant) for quant in pair)
    if not ratio.of_size:
        return _judge_faster(one, min(after, key=lambda r: r.read_bytes), ratio, said.device_at(ratio.start))
    two = min(after, key=lambda r: abs(r.weights_bytes / one.weights_bytes - ratio.low))
    truth = two.weights_bytes / one.weights_bytes
    lines = (
        f"{one.name}: {gb_and_gib(one.weights_bytes)}",
        f"{two.name}: {gb_and_gib(two.weights_bytes)}",
        f"{percent(truth)}; claimed {percent(ratio.low)}",
    )
    right = ratio.low * (1 - _NEARLY) <= truth <= ratio.high * (1 + _NEARLY)
    because = f"{two.quant} has {percent(truth)} of the size"
    return Finding("possible" if right else "impossible", because, lines, Subject(model=one.model))


def _judge_faster(one: Reading, two: Reading, ratio: Ratio, device: DeviceSaid | None) -> Finding:
    """By the bytes of a token; on a device that holds only one of them, by the ceilings there."""
    most = one.read_bytes / two.read_bytes
    how = f"at most {three_digits(most)} times as fast where both fit"
    if device:
        place = max(places(device), key=lambda p: p.bytes_per_s)
        slow, fast = (one_stream_ceiling(CeilingQuestion(reading, place)).tokens_per_s for reading in (one, two))
        most = max(most, fast / slow)
        how = f"ceilings on {place.label}: {rate(slow)} and {rate(fast)}, {three_digits(most)} times"
    lines = (
        f"a token reads {gb(one.read_bytes)} of {one.name}",
        f"and {gb(two.read_bytes)} of {two.name}",
        f"{how}; claimed {three_digits(ratio.low)}",
    )
    found = Finding("possible", f"up to {three_digits(most)} times", lines, Subject(model=one.model))
    if ratio.low > most * _SLACK:
        return found._replace(verdict="impossible", because=f"at most {three_digits(most)} times")
    if ratio.low > most:
        return found._replace(verdict="unlikely", because=f"{three_digits(most)} times if both are equally efficient")
    return found


def _judge_devices(one: DeviceSaid, two: DeviceSaid, ratio: Ratio) -> Finding:
    pairs = [(p, q, p.bytes_per_s / max(1.0, q.bytes_per_s)) for p in places(one) for q in places(two)]
    fast, slow, truth = min(pairs, key=lambda pair: abs(pair[2] - ratio.low))
    lines = (
        f"{fast.label}: {bandwidth(fast.bytes_per_s)}",
        f"{slow.label}: {bandwidth(slow.bytes_per_s)}",
        f"{three_digits(truth)} times; claimed {three_digits(ratio.low)}",
    )
    subject = Subject(device=f"{fast.label}, {slow.label}")
    found = Finding("possible", f"bandwidth gives {three_digits(truth)} times", lines, subject)
    if ratio.of_bandwidth:
        right = ratio.low * (1 - _NEARLY / 2) <= truth <= ratio.high * (1 + _NEARLY / 2)
        return found if right else found._replace(verdict="impossible")
    if ratio.low > truth * _SLACK:
        because = f"bandwidth gives {three_digits(truth)} times, unless the model fits on only one of them"
        return found._replace(verdict="unlikely", because=because)
    return found


def _judge_several(number: int, ratio: Ratio, said: SentenceReading) -> Finding:
    lines = (
        f"{number} tensor-parallel GPUs read {number} times as fast together",
        "a layer split adds memory but no speed for one stream",
        f"so at most {number} times; claimed {three_digits(ratio.low)}",
    )
    if ratio.low <= number:
        return Finding("possible", f"up to {number} times with tensor parallelism", lines)
    if said.models:
        return Finding("unlikely", f"at most {number} times, unless the model did not fit on one", lines)
    return Finding("impossible", f"at most {number} times", lines)


def _judge_guessing(ratio: Ratio) -> Finding:
    lines = (
        "one step verifies all drafted tokens and yields the accepted ones plus one",
        f"{MOST_GUESSED - 1} drafted tokens, all accepted: {MOST_GUESSED} tokens; {USUALLY_GUESSED} is a good average",
        f"claimed {three_digits(ratio.low)} times",
    )
    if ratio.low > MOST_GUESSED:
        return Finding("impossible", f"at most {MOST_GUESSED} tokens per step", lines)
    if ratio.low > USUALLY_GUESSED:
        return Finding("unlikely", "only with nearly every drafted token accepted", lines)
    return Finding("possible", "within reach of a good acceptance rate", lines)
