"""The speed that named hardware should give a named model: for a text that says no more than that.

A report rarely holds what the exact prediction needs (tensors, placement, bandwidth measured). It often says "RTX 3090"
and "Llama 3 8B Q4_K_M", and the catalogue knows both.
"""

from typing import NamedTuple

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.vram import gpus_of
from unslow.think.checklist import AS_FAST
from unslow.think.headline import AS_MUCH_AS_FITS, roots
from unslow.think.report import ChecklistItem, Expected, Range, SubjectReport
from unslow.think.suspects import suspects_in_words
from unslow.think.verdict import CONTRADICTION, TOO_FAST, lost_speed
from unslow.think.verdicts.normal_for_this_hardware import reached

DECODE = "decode_tokens_per_s"
CPU_UNTOLD = "a part of the model is on the CPU, and the text does not tell how fast that reads memory"
_USUAL_QUANTS = {"Ollama": "Q4_K_M", "LM Studio": "Q4_K_M"}


class Usual(NamedTuple):
    """What is usual, the most that bandwidth allows, and whether only a part of the model finds room on the GPU."""

    speed: Range
    ceiling: float
    in_part: bool


def with_expectation(subject: SubjectReport, case: Case) -> SubjectReport:
    """The report with the catalogue's expectation, and the verdict that follows where nothing else decided one.

    A prediction that rests on more than names stands, unless it is of a model that all fits where it can't.
    """
    if subject.verdict == "failed":
        return subject
    known, usual = DECODE in subject.expected.achievable, _usual(case)
    if usual is None or (known and not usual.in_part):
        return _unpredicted(subject) if known and roots(subject.findings) == ["weights_spill_to_ram"] else subject
    most = usual.speed.mid if subject.findings else usual.speed.high
    if usual.in_part and subject.measured.get(DECODE, 0.0) > most:
        return _unpredicted(subject)
    expected = Expected(achievable={DECODE: usual.speed}, because=AS_MUCH_AS_FITS if usual.in_part else "")
    subject = msgspec.structs.replace(subject, expected=expected, checklist=_answered(subject, usual.speed))
    return subject if known else _judged(subject, usual, was_faster=lost_speed(case))


def _unpredicted(subject: SubjectReport) -> SubjectReport:
    """Where it is faster than a part on a usual CPU would be, its CPU is not a usual one."""
    asked = ChecklistItem(item=AS_FAST, state="unknown", because=CPU_UNTOLD)
    checklist = tuple(asked if item.item == AS_FAST else item for item in subject.checklist)
    return msgspec.structs.replace(subject, expected=Expected(because=CPU_UNTOLD), checklist=checklist)


def _answered(subject: SubjectReport, speed: Range) -> tuple[ChecklistItem, ...]:
    """The checklist, its question about the speed answered by this expectation."""
    rate = subject.measured.get(DECODE)
    if rate is None:
        return subject.checklist
    because = f"{_rounded(rate)} tok/s, {_rounded(speed.low)} to {_rounded(speed.high)} expected"
    answered = ChecklistItem(item=AS_FAST, state="ok" if reached(rate, speed.low) else "bad", because=because)
    return tuple(answered if item.item == AS_FAST else item for item in subject.checklist)


def _usual(case: Case) -> Usual | None:
    """Of one GPU: several are placed in ways that a text seldom tells, and of a CPU it leaves out what decides."""
    gpus = gpus_of(case)
    device = gpus[0].name.value_or("") if len(gpus) == 1 else ""
    quant = case.model.quant.value_or(_USUAL_QUANTS.get(case.runtime.name.value_or(""), ""))
    several = case.runtime.running_requests.value_or(1) > 1  # their speeds add up
    if several or not device or not quant or not isinstance(case.model.name, Known):
        return None
    from unslow.app.predict.expected import expected  # noqa: PLC0415 (the whole predictor: only where it can be asked)

    found = expected(case.model.name.value, quant, device)
    if isinstance(found, Unknown):
        return None
    rate = found.decode
    speed = Range(low=rate.low, mid=rate.mid, high=rate.high)
    return Usual(speed, found.ceiling_tokens_per_s, in_part=found.gpu_layers is not None)


def _judged(subject: SubjectReport, usual: Usual, *, was_faster: bool) -> SubjectReport:
    """Normal where the speed is as expected and nothing speaks against it; slow where it is below."""
    rate = subject.measured.get(DECODE)
    if rate is None or subject.findings or subject.verdict != "cannot_tell":
        return subject
    expected, fitting = usual.speed, f" {AS_MUCH_AS_FITS}" if usual.in_part else ""
    between = f"{_rounded(expected.low)} to {_rounded(expected.high)}"
    if rate > CONTRADICTION * usual.ceiling and not usual.in_part:
        too_fast = msgspec.structs.replace(subject.expected, because=TOO_FAST)
        return msgspec.structs.replace(subject, expected=too_fast)
    if not reached(rate, expected.low):
        less = f"{1 - rate / expected.mid:.0%} less than the {_rounded(expected.mid)} that are usual{fitting}"
        said = (f"It generates {_rounded(rate)} tokens per second, {less} ({between}).", "The text does not prove why.")
        summary = " ".join(s for s in (*said, suspects_in_words(subject)) if s)
        return msgspec.structs.replace(subject, verdict="slow", summary=summary)
    if was_faster or any(item.suspected for item in subject.cannot_tell):
        return subject
    should = f"{_rounded(expected.mid)} tokens per second are usual{fitting} ({between})"
    above = " It is faster than that: the prediction was low." if rate > expected.high else ""
    summary = f"It generates {_rounded(rate)} tokens per second, which is normal for this hardware: {should}.{above}"
    return msgspec.structs.replace(subject, verdict="normal", summary=summary)


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 (three digits)
