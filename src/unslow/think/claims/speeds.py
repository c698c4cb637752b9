"""Claims of speed: what kind it is, and every reading of the model and the device that it is held against."""

from collections.abc import Iterator

from unslow.catalog.mixes import estimated_mix
from unslow.catalog.model_names import same_shape_as
from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.ceilings import Question
from unslow.think.claims.hosts import desktop
from unslow.think.claims.many_tokens import judge_prompt, judge_streams
from unslow.think.claims.one_token import deep_enough, judge_stream
from unslow.think.claims.places import Place, on_host, places
from unslow.think.claims.readings import readings
from unslow.think.claims.report import Judged, Kind
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Expected, Finding, best, cannot_tell, judged

_WORDS: dict[Kind, str] = {"prefill": " of a prompt", "throughput": " in all", "ceiling": " at most"}


def judge_speed(said: Said, claim: Amount, expected: Expected) -> Judged:
    """A number of tokens a second."""
    kind = _kind(said)
    what = _what(claim, kind)
    if claim.is_limit:
        return judged(said, what, kind, Finding("possible", "nothing keeps a machine from being slow", ()))
    model, where = said.model_at(claim.start), _places(said, claim)
    if not model or not where:
        missing = ["which model (name or size, and quant)"] * (not model) + ["on which device"] * (not where)
        return cannot_tell(said, what, kind, missing, _needed(said, claim) if kind == "speed" else ())
    found = _finding(kind, list(_questions(said, claim)), claim, said, expected)
    if found.verdict == "impossible" and model.stranger:
        found = _perhaps_with_experts(found, model.label)
    return judged(said, what, kind, found._replace(notes=(*found.notes, *_taken_as(said, claim, found))))


def _taken_as(said: Said, claim: Amount, found: Finding) -> Iterator[str]:
    """Where another model of the same shape, or the nearest mix, stands for what was named."""
    model, quant = said.model_at(claim.start), said.quant_at(claim.start)
    subject = found.subject
    for known in model.models if model and subject else ():
        written = said.text[model.start : model.end] if model and subject and known.name == subject.model else ""
        if other := same_shape_as(written, known):
            yield f"{other} has the shape of {known.name}: computed with that"
    if quant and subject and estimated_mix(quant.label):
        yield f"{quant.label} is an estimate by {subject.quant}"


def _finding(kind: Kind, questions: list[Question], claim: Amount, said: Said, expected: Expected) -> Finding:
    if kind == "prefill":
        return best([judge_prompt(question, claim) for question in questions])
    if kind == "throughput":
        return best([judge_streams(question, claim, said.settings.users) for question in questions])
    found = best([judge_stream(question, claim, said.settings, expected) for question in questions])
    return deep_enough(found, questions, claim, said.settings)


def _needed(said: Said, claim: Amount) -> tuple[str, ...]:
    """What a device must have for the claim, where only the model is known."""
    model = said.model_at(claim.start)
    if not model:
        return ()
    reading = readings(model, said.quant_at(claim.start))[0]
    needed = w.bandwidth(reading.read_bytes * claim.low)
    return (
        f"a token reads {w.gb(reading.read_bytes)} of {reading.name} ({w.gb(reading.weights_bytes)})",
        f"{w.rate(claim.low)} would need {needed} of memory bandwidth, all of it used",
        f"and {w.gib(reading.weights_bytes)} of memory, without the KV cache",
    )


def _perhaps_with_experts(finding: Finding, name: str) -> Finding:
    """What the catalogue does not know may read less than all of itself."""
    because = f"{finding.because}, if it has no experts"
    notes = (f"{name} is not in the catalogue: only its size counts",)
    return finding._replace(verdict="unlikely", because=because, notes=notes)


def _kind(said: Said) -> Kind:
    s = said.settings
    if s.prefill:
        return "prefill"
    if s.users > 1 or s.all_streams:
        return "throughput"
    return "ceiling" if s.limit else "speed"


def _what(claim: Amount, kind: Kind) -> str:
    ends = w.rate(claim.high) if claim.low == claim.high else f"{w.digits(claim.low)}-{w.rate(claim.high)}"
    return f"{'under ' if claim.is_limit else ''}{ends}{_WORDS.get(kind, '')}"


def _questions(said: Said, claim: Amount) -> Iterator[Question]:
    """Every reading of the model on every reading of the device."""
    model, s = said.model_at(claim.start), said.settings
    if not model:
        return
    found = [r for quant in said.quants_at(claim.start) for r in readings(model, quant)]
    for place in _places(said, claim):
        yield from (Question(r, place, 0, s.context, s.gpu_layers, said.host, s.by_layer) for r in found)


def _places(said: Said, claim: Amount) -> list[Place]:
    device = said.device_at(claim.start)
    if device:
        return places(device)
    stated = next((a for a in said.amounts if a.kind == "bandwidth"), None)
    if stated and not said.on_cpu:
        return [Place(f"a memory of {w.bandwidth(stated.high)}", stated.high)]
    return [on_host(said.host or desktop())] if said.on_cpu else []
