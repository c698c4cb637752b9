"""Claims of speed, bandwidth and efficiency, held against what memory and arithmetic allow at most."""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from unslow.catalog.hardware_families import MemoryKind, memory_kinds
from unslow.catalog.models import same_shape_as
from unslow.catalog.quants import estimated_mix
from unslow.think.claims.amounts import Amount, any_phrase, bandwidth, gb, gib, percent, rate, three_digits, tokens
from unslow.think.claims.devices import BOOST, DESKTOP, DISK, Host, Place, host_for, host_said, places
from unslow.think.claims.models import Reading, readings
from unslow.think.claims.report import (
    Finding,
    JudgedClaim,
    Kind,
    Subject,
    Verdict,
    best_finding,
    cannot_tell,
    judged_claim,
)
from unslow.think.claims.sentence import SentenceReading, Settings
from unslow.think.physics.terms import Interval
from unslow.think.report import Range

Expected = Callable[[str, str, str, int, int], Interval | None]
"""Model, quant, device, number of devices and context to the expected tok/s; None where unknown."""
MOST_GUESSED = 9  # Tokens of one step with speculative decoding: eight guesses, all of them right, and the next one
USUALLY_GUESSED = 4
"""Published speed-ups of speculative decoding are 1.5 to 3; those of the best trained heads reach 4 to 6."""
_BEST_MEASURED = 0.95  # Of the bandwidth: the most that a published measurement of one stream without guessing reaches
_FAR_ABOVE, _FAR_BELOW = 1.4, 3.0
_LIMIT_TOLERANCE = 1.12  # For a ceiling worked out from rounded sizes
_LEAST_SHOWN = 0.01
_CACHE_GAIN = 10.0  # How much quicker a last-level cache may be than the memory behind it
_WORDS: dict[Kind, str] = {"prefill": " prefill", "throughput": " in total", "ceiling": " at most"}


class CeilingQuestion(NamedTuple):
    """A model somewhere, with what decides the bytes of a token."""

    reading: Reading
    place: Place
    depth: int = 0  # Tokens whose keys and values are read
    context: int = 0  # Tokens that there must be room for
    gpu_layers: int | None = None
    host: Host | None = None
    by_layer: bool = False  # Whether one device works after the other


class Ceiling(NamedTuple):
    """The least time of a token, and from where its bytes come."""

    tokens_per_s: float
    device_bytes: float
    host_bytes: float
    resident_tokens_per_s: float  # If all of it lay in the device's memory
    host: Host
    cache_bytes: float
    disk_bytes: float = 0.0  # Of the weights, what no memory holds

    @property
    def read_bytes(self) -> float:
        """All that a token reads."""
        return self.device_bytes + self.host_bytes


def judge_speed(said: SentenceReading, claim: Amount, expected: Expected) -> JudgedClaim:
    """A number of tokens a second."""
    s = said.settings
    kind: Kind = "ceiling" if s.limit else "speed"
    if s.prefill or s.users > 1 or s.all_streams:
        kind = "prefill" if s.prefill else "throughput"
    ends = rate(claim.high) if claim.low == claim.high else f"{three_digits(claim.low)}-{rate(claim.high)}"
    what = f"{'under ' if claim.is_limit else ''}{ends}{_WORDS.get(kind, '')}"
    if claim.is_limit:
        return judged_claim(said, what, kind, Finding("possible", "any machine can be that slow", ()))
    model, where = said.model_at(claim.start), _places(said, claim)
    if not model or not where:
        missing = ["which model (name or size, and quant)"] * (not model) + ["on which device"] * (not where)
        return cannot_tell(said, what, kind, missing, _device_requirements(said, claim) if kind == "speed" else ())
    # A number may belong to any of the quants where it is the only speed of the sentence
    alone = sum(a.kind == "speed" for a in said.amounts) == 1
    quants = said.quants if alone and said.quants else [said.quant_at(claim.start)]
    read = [r for quant in quants for r in readings(model, quant)]
    asked = (s.context, s.gpu_layers, said.host, s.by_layer)
    questions = [CeilingQuestion(r, place, 0, *asked) for place in where for r in read]
    if kind == "prefill":
        found = best_finding([judge_prompt(question, claim) for question in questions])
    elif kind == "throughput":
        found = best_finding([judge_streams(question, claim, s.users) for question in questions])
    else:
        found = best_finding([judge_stream(question, claim, s, expected) for question in questions])
        found = deep_enough(found, questions, claim, s)
    if found.verdict == "impossible" and model.stranger:
        # What the catalog does not know may read less than all of itself
        because = f"{found.because}, if it has no experts"
        notes = (f"{model.label} is not in the catalog: judged by its size alone",)
        found = found._replace(verdict="unlikely", because=because, notes=notes)
    return judged_claim(said, what, kind, found._replace(notes=(*found.notes, *_taken_as(said, claim, found))))


def _taken_as(said: SentenceReading, claim: Amount, found: Finding) -> Iterator[str]:
    model, quant = said.model_at(claim.start), said.quant_at(claim.start)
    for known in model.models if model else ():
        written = said.text[model.start : model.end] if model and known.name == found.subject.model else ""
        if other := same_shape_as(written, known):
            yield f"{other} has the shape of {known.name}, which was used"
    if quant and estimated_mix(quant.label):
        yield f"{quant.label} is estimated from {found.subject.quant}"


def _device_requirements(said: SentenceReading, claim: Amount) -> tuple[str, ...]:
    model = said.model_at(claim.start)
    if not model:
        return ()
    reading = readings(model, said.quant_at(claim.start))[0]
    needed = bandwidth(reading.read_bytes * claim.low)
    return (
        f"a token reads {gb(reading.read_bytes)} of {reading.name} ({gb(reading.weights_bytes)})",
        f"{rate(claim.low)} would need {needed} of memory bandwidth at full efficiency",
        f"and {gib(reading.weights_bytes)} of memory, without the KV cache",
    )


def _places(said: SentenceReading, claim: Amount) -> list[Place]:
    device = said.device_at(claim.start)
    if device:
        return places(device)
    stated = next((a for a in said.amounts if a.kind == "bandwidth"), None)
    if stated and not said.on_cpu:
        return [Place(f"memory at {bandwidth(stated.high)}", stated.high)]
    if not said.on_cpu:
        return []
    host = said.host or DESKTOP
    most = max(host.device.memory_bytes, *host.device.memory_sizes_bytes, 0) if host.device else 0
    return [Place(host.label, host.bytes_per_s, most, device=host.device)]


def judge_stream(question: CeilingQuestion, claim: Amount, settings: Settings, expected: Expected) -> Finding:
    """The claim against the ceiling, then against what is expected below it."""
    ceiling, reading, device = one_stream_ceiling(question), question.reading, question.place.device
    steps = MOST_GUESSED if settings.guessing else 1
    most = ceiling.tokens_per_s * steps
    notes = (f"no quant named: assuming {reading.quant}",) if reading.assumed else ()
    lines = _arithmetic(question, ceiling, claim, steps)
    found = Finding("possible", "", lines, subject_of(question), reading.assumed, most, most, notes=notes)
    if claim.low > most * (_LIMIT_TOLERANCE if settings.limit else BOOST):
        because = f"{three_digits(claim.low / most)} times what memory bandwidth allows"
        return found._replace(verdict="impossible", because=because)
    if settings.limit:
        return found._replace(because=f"memory bandwidth allows {rate(most)}")
    likely = None
    if steps == 1 and reading.shaped and device:
        likely = expected(reading.model, reading.quant, device.name, question.place.number, question.context)
    known = Range(low=likely.low, mid=likely.mid, high=likely.high) if likely else None
    verdict, because = _judge_below_ceiling(question.place, claim, ceiling, steps, known)
    return found._replace(verdict=verdict, because=because, expected=known)


def _judge_below_ceiling(
    place: Place, claim: Amount, ceiling: Ceiling, steps: int, known: Range | None
) -> tuple[Verdict, str]:
    part, most = claim.low / ceiling.tokens_per_s, ceiling.tokens_per_s * steps
    if ceiling.disk_bytes:
        return "unlikely", f"does not fit in {gib(place.capacity_bytes)}: {gb(ceiling.disk_bytes)} would stay on disk"
    if steps > 1 and part > USUALLY_GUESSED:
        return "unlikely", f"needs {three_digits(part)} tokens per step; {USUALLY_GUESSED} is a good average"
    if steps == 1 and part > _BEST_MEASURED and place.device and place.device.kind != "asic":
        return "unlikely", f"{percent(part)} of the ceiling; no published measurement beats {percent(_BEST_MEASURED)}"
    if known and claim.low > known.high * _FAR_ABOVE:
        times = f"{three_digits(claim.low / known.mid)} times the expected {rate(known.mid)}"
        return "unlikely", f"below the ceiling, but {times}"
    if known and claim.high * _FAR_BELOW < known.low:
        return "possible", f"possible, but slow: {three_digits(known.mid / claim.high)} times slower than expected"
    if math.isinf(most):
        return "possible", "no memory is read: the weights are in the chip"
    if claim.low / most < _LEAST_SHOWN:
        return "possible", "far below what memory bandwidth allows"
    return "possible", f"{percent(claim.low / most)} of what memory bandwidth allows"


def deep_enough(finding: Finding, questions: list[CeilingQuestion], claim: Amount, settings: Settings) -> Finding:
    """The same at the stated context, where that is filled or where the claim holds only while it is not."""
    if finding.verdict != "possible" or not settings.context or settings.limit or settings.guessing:
        return finding
    question = next(q for q in questions if subject_of(q) == finding.subject)._replace(depth=settings.context)
    ceiling = one_stream_ceiling(question)
    if claim.low <= ceiling.tokens_per_s * BOOST:
        return finding
    depth, most = tokens(settings.context), ceiling.tokens_per_s
    changed = finding._replace(arithmetic=_arithmetic(question, ceiling, claim, 1), ceiling=most)
    if settings.deep:
        times = f"{three_digits(claim.low / most)} times what memory bandwidth allows"
        return changed._replace(verdict="impossible", because=f"{times} with {depth} tokens in the context")
    because = f"only while the context is nearly empty: {rate(most)} at most once it holds {depth}"
    return changed._replace(verdict="unlikely", because=because)


def _arithmetic(question: CeilingQuestion, ceiling: Ceiling, claim: Amount, steps: int) -> tuple[str, str, str]:
    reading, place = question.reading, question.place.for_model(question.reading.weights_bytes)
    parts = [f"a token reads {gb(ceiling.read_bytes)} of {reading.name} ({gb(reading.weights_bytes)})"]
    if reading.expert_bytes and reading.expert_share:
        parts.append(f"{percent(reading.expert_share)} of its experts")
    if ceiling.cache_bytes:
        parts.append(f"of which {gb(ceiling.cache_bytes)} KV cache")
    if not place.bytes_per_s:
        wired = f"{place.label} holds its weights in the chip and reads none from memory"
        return ", ".join(parts), wired, "so bandwidth sets no limit"
    has, most = f"{place.label}: {bandwidth(place.bytes_per_s)}", f"ceiling {rate(ceiling.tokens_per_s * steps)}"
    if place.capacity_bytes:
        has += f", {gib(place.capacity_bytes)}"
    if ceiling.host_bytes:
        host = f"{ceiling.host.label}, {bandwidth(ceiling.host.bytes_per_s)} at most"
        has += f"; {gb(ceiling.host_bytes)} come from {host}"
    elif place.cache_bytes and reading.weights_bytes <= place.cache_bytes:
        has += f"; it all fits in the {gib(place.cache_bytes)} cache, which may be ten times as fast"
    if steps > 1:
        most += f", with {steps} tokens in each of {three_digits(ceiling.tokens_per_s)} steps/s"
    elif ceiling.host_bytes and ceiling.resident_tokens_per_s > ceiling.tokens_per_s:
        most += f" ({three_digits(ceiling.resident_tokens_per_s)} tok/s if it all fit)"
    needed = bandwidth(ceiling.read_bytes * claim.low / steps)
    return ", ".join(parts), has, f"{most}; {rate(claim.low)} would need {needed}"


def judge_prompt(question: CeilingQuestion, claim: Amount) -> Finding:
    """Prompt tokens a second, against the arithmetic of the device."""
    reading, place = question.reading, question.place.for_model(question.reading.weights_bytes)
    most = prefill_ceiling(reading, question.place)
    if most is None:
        because = f"the catalog has no compute figure for {place.label}"
        return Finding("cannot_tell", because, (), subject_of(question))
    trillions = place.operations_per_s / 1e12
    lines = (
        f"each prompt token takes 2 operations for each of the {three_digits(reading.active / 1e9)}B active parameters",
        f"{place.label}: {three_digits(trillions)} trillion operations/s at most, in 8 bits",
        f"ceiling {rate(most)}; {rate(claim.low)} would need {three_digits(claim.low / most * trillions)} trillion",
    )
    return _judge_limit(question, claim, most, lines, "its compute allows")


def judge_streams(question: CeilingQuestion, claim: Amount, users: int) -> Finding:
    """Tokens a second of all streams together; with none counted, only arithmetic limits them."""
    one, arithmetic = one_stream_ceiling(question), prefill_ceiling(question.reading, question.place)
    by_memory = one.tokens_per_s * users if users else None
    most = min((limit for limit in (arithmetic, by_memory) if limit is not None), default=None)
    if most is None:
        return Finding("cannot_tell", "it does not say how many streams", (), subject_of(question))
    shared = f"{users} streams share each read: {rate(one.tokens_per_s * users)} by memory alone"
    single, place = f"{rate(one.tokens_per_s)} for one stream", subject_of(question).device
    lines = (
        f"a token reads {gb(one.read_bytes)} of {question.reading.name}: {single} on {place}",
        shared if users else "however many streams share a read, each token has its own compute",
        f"ceiling {rate(most)}" + (f"; compute allows {rate(arithmetic)}" if arithmetic else ""),
    )
    return _judge_limit(question, claim, most, lines, "all streams together can reach")


def _judge_limit(question: CeilingQuestion, claim: Amount, most: float, lines: tuple[str, ...], limit: str) -> Finding:
    because, subject = f"{percent(claim.low / most)} of what {limit}", subject_of(question)
    found = Finding("possible", because, lines, subject, question.reading.assumed, most, most)
    if claim.low > most * BOOST:
        found = found._replace(verdict="impossible", because=f"{three_digits(claim.low / most)} times what {limit}")
    return found


def subject_of(question: CeilingQuestion) -> Subject:
    """What was understood."""
    reading, place = question.reading, question.place.for_model(question.reading.weights_bytes)
    return Subject(model=reading.model, quant=reading.quant, device=place.label, context=question.context)


def one_stream_ceiling(question: CeilingQuestion) -> Ceiling:
    """The most tokens a second of a single stream; both memories are taken to be read at the same time."""
    reading = question.reading
    place = question.place.for_model(reading.weights_bytes)
    cache = reading.cache_bytes(question.depth) or 0.0 if question.depth else 0.0
    total = reading.read_bytes + cache
    # The least of the weights that the device can't hold, or is told not to
    kept = (reading.cache_bytes(question.context) or 0.0) if question.context else 0.0
    away = 0.0
    if place.capacity_bytes:
        away = max(0.0, reading.weights_bytes - reading.table_bytes + kept - place.capacity_bytes)
    if question.gpu_layers is not None and reading.layers and question.gpu_layers < reading.layers:
        away = max(away, (reading.layers - question.gpu_layers) * reading.layer_bytes)
    # Processors and chips that share the host's memory have no other beside it
    spills_to_disk = away > 0 and place.device is not None and place.device.kind in ("cpu", "unified")
    host = DISK if spills_to_disk else host_for(away, place.number, question.host)
    if not place.bytes_per_s:
        return Ceiling(math.inf, total, 0.0, math.inf, host, cache)
    # What a token reads of weights that are away: experts are put away first, of which it reads a few
    of_experts = min(away, reading.expert_bytes)
    share = reading.expert_share if reading.expert_bytes else 0.0
    from_host = of_experts * share + (away - of_experts)
    in_cache = place.cache_bytes and reading.weights_bytes <= place.cache_bytes
    bytes_per_s = place.bytes_per_s * (_CACHE_GAIN if in_cache else 1.0) / (place.number if question.by_layer else 1)
    rate = 1 / max((total - from_host) / bytes_per_s, from_host / host.bytes_per_s)
    on_disk = away if spills_to_disk else 0.0
    return Ceiling(rate, total - from_host, from_host, bytes_per_s / total, host, cache, on_disk)


def prefill_ceiling(reading: Reading, place: Place) -> float | None:
    """The most prompt tokens a second: two operations for each active parameter; None where nothing is known."""
    place = place.for_model(reading.weights_bytes)
    if not place.operations_per_s:
        return None
    # The output matrix is used for the last token of a prompt alone
    active = reading.active
    if not reading.expert_bytes:
        active -= reading.active * reading.output_bytes / max(1.0, reading.read_bytes)
    return place.operations_per_s / (2 * max(1.0, active))


_ROUNDED = 1.03
_MUCH_LESS = 0.75
_TIMES_FROM = 10  # From here on a claim is so many times the truth, below a percentage of it
_BEFORE, _AFTER, _BESIDE = 60, 30, 40  # Letters: how far from the number what it belongs to may stand


def judge_bandwidth(said: SentenceReading, claim: Amount) -> JudgedClaim:
    """So many bytes a second, of what stands nearest."""
    device, what = said.device_at(claim.start), bandwidth(claim.low)
    near = said.text[max(0, claim.start - _BEFORE) : claim.end + _AFTER]
    host = host_said(near)
    if host and (not device or abs(device.start - claim.start) > _BESIDE):
        how = "(8 bytes per transfer and channel)"
        return judged_claim(said, what, "bandwidth", _judge_rate(claim, host.label, host.bytes_per_s, how))
    if device:
        how = "according to its datasheet"
        found = [_judge_rate(claim, place.label, place.bytes_per_s, how) for place in places(device)]
        return judged_claim(said, what, "bandwidth", best_finding(found))
    kind = next((k for k in memory_kinds() if any(re.search(rf"\b{word}\b", near) for word in k.words)), None)
    if not kind:
        return cannot_tell(said, what, "bandwidth", ["for which device or kind of memory"])
    return judged_claim(said, what, "bandwidth", _judge_memory_kind(claim, kind))


def _judge_rate(claim: Amount, label: str, truth: float, how: str) -> Finding:
    subject = Subject(device=label)
    if not truth:
        return Finding("cannot_tell", f"the catalog has no bandwidth for {label}", (), subject)
    part = claim.low / truth
    times = f"{percent(part)} of" if part < _TIMES_FROM else f"{three_digits(part)} times"
    lines = (f"{label}: {bandwidth(truth)} {how}", f"claimed {bandwidth(claim.low)}", f"the claim is {times} that")
    found = Finding("possible", f"it has {bandwidth(truth)}", lines, subject, nearness=truth)
    if part > BOOST * _ROUNDED:
        return found._replace(verdict="impossible")
    if claim.high < truth * _MUCH_LESS:
        because = f"it has {bandwidth(truth)}; a value this low suggests a fault or another device"
        return found._replace(verdict="unlikely", because=because)
    return found


def _judge_memory_kind(claim: Amount, kind: MemoryKind) -> Finding:
    lines = (
        f"{kind.name}: {bandwidth(kind.low_bytes_per_s)} to {bandwidth(kind.high_bytes_per_s)}",
        f"from {kind.source}",
        f"claimed {bandwidth(claim.low)}",
    )
    found = Finding("possible", f"within the range of {kind.name}", lines, Subject(device=kind.name))
    if claim.low > kind.high_bytes_per_s * BOOST:
        return found._replace(verdict="impossible", because=f"no product with {kind.name} has that much")
    if claim.high < kind.low_bytes_per_s * _MUCH_LESS:
        return found._replace(verdict="unlikely", because=f"products with {kind.name} have more")
    return found


_EFFICIENCY = any_phrase(
    r"efficien\w+", "of (?:the |its |peak |theoretical |memory )*bandwidth", "bandwidth (?:use|utili[sz]ation)", "mbu"
)
_EFFICIENCY_BEFORE, _EFFICIENCY_AFTER = 30, 40
_NEAR = 0.12


def judge_efficiency(said: SentenceReading, claim: Amount) -> JudgedClaim | None:
    """A share of the bandwidth, against what the speed beside it comes to; None where it is of anything else."""
    if not _EFFICIENCY.search(said.rest[max(0, claim.start - _EFFICIENCY_BEFORE) : claim.end + _EFFICIENCY_AFTER]):
        return None
    what = f"{percent(claim.low)} of the bandwidth"
    if claim.low > 1:
        more = f"{percent(claim.low)} is more than 100 %"
        lines = (more, "every byte read crosses the bus once")
        found = Finding("impossible", "nothing reads faster than its full bandwidth", lines)
        return judged_claim(said, what, "bandwidth", found)
    speed = next((a for a in said.amounts if a.kind == "speed"), None)
    model, device = said.model_at(claim.start), said.device_at(claim.start)
    findings = [Finding("possible", "60 to 95 % is usual for large models", ())]
    if speed and model and device:
        in_quant, where = readings(model, said.quant_at(claim.start)), [p for p in places(device) if p.bytes_per_s]
        findings = [_efficiency(r, place, claim, speed.low) for place in where for r in in_quant] or findings
    return judged_claim(said, what, "bandwidth", best_finding(findings))


def _efficiency(reading: Reading, place: Place, claim: Amount, tokens_per_s: float) -> Finding:
    each, said = one_stream_ceiling(CeilingQuestion(reading, place)).read_bytes, rate(tokens_per_s)
    used_bytes = tokens_per_s * each
    used = used_bytes / place.bytes_per_s
    lines = (
        f"a token reads {gb(each)} of {reading.name}",
        f"{said} x {gb(each)} = {bandwidth(used_bytes)}, of {bandwidth(place.bytes_per_s)}",
        f"that is {percent(used)} on {place.label}; claimed {percent(claim.low)}",
    )
    right = claim.low - _NEAR <= used <= claim.high + _NEAR
    subject = Subject(model=reading.model, quant=reading.quant, device=place.label)
    because = f"the speed implies {percent(used)}"
    return Finding("possible" if right else "impossible", because, lines, subject, reading.assumed)
