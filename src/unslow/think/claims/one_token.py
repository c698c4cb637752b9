"""The speed of one stream against the bytes that each of its tokens reads."""

from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.ceilings import MOST_GUESSED, USUALLY_GUESSED, Ceiling, Question, one_stream
from unslow.think.claims.places import BOOST, Place
from unslow.think.claims.report import Range, Subject
from unslow.think.claims.settings_in_text import Settings
from unslow.think.claims.verdicts import Expected, Finding

_BEST_MEASURED = 0.95
"""Of the bandwidth: the most that a published measurement of one stream without guessing reaches."""
_FAR_ABOVE, _FAR_BELOW = 1.4, 3.0
_LIMIT_TOLERANCE = 1.12
"""For a ceiling that somebody worked out from rounded sizes."""
_LEAST_SHOWN = 0.01
_UNBOUND = float("inf")


def judge_stream(question: Question, claim: Amount, settings: Settings, expected: Expected) -> Finding:
    """The claim against the ceiling, then against what is expected below it."""
    ceiling = one_stream(question)
    steps = MOST_GUESSED if settings.guessing else 1
    most = ceiling.tokens_per_s * steps
    lines = _lines(question, ceiling, claim, steps)
    found = Finding(
        "possible", "", lines, subject_of(question), question.reading.assumed, most, most, notes=_notes(question)
    )
    if claim.low > most * (_LIMIT_TOLERANCE if settings.limit else BOOST):
        because = f"{w.digits(claim.low / most)} times what memory bandwidth allows"
        return found._replace(verdict="impossible", because=because)
    if settings.limit:
        return found._replace(because=f"memory bandwidth allows {w.rate(most)}")
    known = _expected(question, expected) if steps == 1 else None
    doubt = _doubt(question.place, claim, ceiling, steps, known)
    if doubt:
        return found._replace(verdict="unlikely", because=doubt, expected=known)
    return found._replace(because=_below(claim, most, known), expected=known)


def _doubt(place: Place, claim: Amount, ceiling: Ceiling, steps: int, known: Range | None) -> str:
    """Why a speed that is not impossible is not likely; empty where it is."""
    part = claim.low / ceiling.tokens_per_s
    if ceiling.disk_bytes:
        return f"does not fit in {w.gib(place.capacity_bytes)}: {w.gb(ceiling.disk_bytes)} of it would stay on a disk"
    if steps > 1:
        return (
            f"needs {w.digits(part)} tokens a step; {USUALLY_GUESSED} are a good average"
            if part > USUALLY_GUESSED
            else ""
        )
    if part > _BEST_MEASURED and place.device and place.device.kind != "asic":
        return f"{w.share(part)} of the ceiling; no published measurement beats {w.share(_BEST_MEASURED)}"
    if known and claim.low > known.high * _FAR_ABOVE:
        return f"below the ceiling, but {w.digits(claim.low / known.mid)} times the expected {w.rate(known.mid)}"
    return ""


def _below(claim: Amount, most: float, known: Range | None) -> str:
    if known and claim.high * _FAR_BELOW < known.low:
        return f"possible, but slow: {w.digits(known.mid / claim.high)} times slower than expected"
    if most == _UNBOUND:
        return "no memory is read: the weights are part of the chip"
    part = claim.low / most
    return (
        f"{w.share(part)} of what memory bandwidth allows"
        if part >= _LEAST_SHOWN
        else "far below what bandwidth allows"
    )


def deep_enough(finding: Finding, questions: list[Question], claim: Amount, settings: Settings) -> Finding:
    """The same at the stated context, where that is filled or where the claim holds only while it is not."""
    if finding.verdict != "possible" or not settings.context or settings.limit or settings.guessing:
        return finding
    question = next(q for q in questions if subject_of(q) == finding.subject)._replace(depth=settings.context)
    ceiling = one_stream(question)
    if claim.low <= ceiling.tokens_per_s * BOOST:
        return finding
    tokens, most = w.tokens(settings.context), ceiling.tokens_per_s
    changed = finding._replace(arithmetic=_lines(question, ceiling, claim, 1), ceiling=most)
    if settings.deep:
        because = f"{w.digits(claim.low / most)} times what memory bandwidth allows with {tokens} tokens in the context"
        return changed._replace(verdict="impossible", because=because)
    because = f"only while the context is nearly empty: {w.rate(most)} at most once it holds {tokens}"
    return changed._replace(verdict="unlikely", because=because)


def _lines(question: Question, ceiling: Ceiling, claim: Amount, steps: int) -> tuple[str, str, str]:
    """What a token reads, how quickly that can be read, and what the claim would need."""
    reading, place = question.reading, question.place.for_model(question.reading.weights_bytes)
    parts = [f"a token reads {w.gb(ceiling.read_bytes)} of {reading.name} ({w.gb(reading.weights_bytes)})"]
    if reading.expert_bytes and reading.expert_share:
        parts.append(f"{w.share(reading.expert_share)} of its experts")
    if ceiling.cache_bytes:
        parts.append(f"{w.gb(ceiling.cache_bytes)} of that the KV cache")
    if not place.bytes_per_s:
        wired = f"{place.label} has its weights in the chip: they are not read from a memory"
        return ", ".join(parts), wired, "so bandwidth sets no limit"
    needed = w.bandwidth(ceiling.read_bytes * claim.low / steps)
    end = f"{_limit(ceiling, steps)}; {w.rate(claim.low)} would need {needed}"
    return ", ".join(parts), _memory(question, place, ceiling), end


def _memory(question: Question, place: Place, ceiling: Ceiling) -> str:
    has = f"{place.label}: {w.bandwidth(place.bytes_per_s)}"
    if place.capacity_bytes:
        has += f", {w.gib(place.capacity_bytes)}"
    if ceiling.host_bytes:
        host = f"{ceiling.host.label}, {w.bandwidth(ceiling.host.bytes_per_s)} at most"
        return f"{has}; {w.gb(ceiling.host_bytes)} of it come from {host}"
    if place.cache_bytes and question.reading.weights_bytes <= place.cache_bytes:
        return f"{has}; its cache of {w.gib(place.cache_bytes)} holds all of it, and may be ten times as fast"
    return has


def _limit(ceiling: Ceiling, steps: int) -> str:
    if steps > 1:
        each = w.digits(ceiling.tokens_per_s)
        return f"ceiling {w.rate(ceiling.tokens_per_s * steps)}, with {steps} tokens in each of {each} steps"
    if ceiling.host_bytes and ceiling.resident_tokens_per_s > ceiling.tokens_per_s:
        return f"ceiling {w.rate(ceiling.tokens_per_s)} ({w.digits(ceiling.resident_tokens_per_s)} if it all fitted)"
    return f"ceiling {w.rate(ceiling.tokens_per_s)}"


def _notes(question: Question) -> tuple[str, ...]:
    return (f"no quant is named: {question.reading.quant} is assumed",) if question.reading.assumed else ()


def subject_of(question: Question) -> Subject:
    """What was understood."""
    reading, place = question.reading, question.place.for_model(question.reading.weights_bytes)
    return Subject(model=reading.model, quant=reading.quant, device=place.label, context=question.context)


def _expected(question: Question, expected: Expected) -> Range | None:
    place, reading = question.place, question.reading
    if not reading.shaped or not place.device:
        return None
    found = expected(reading.model, reading.quant, place.device.name, place.number, question.context)
    return Range(low=found.low, mid=found.mid, high=found.high) if found else None
