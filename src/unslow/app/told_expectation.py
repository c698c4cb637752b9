"""The speed that named hardware should give a named model: for a text that says no more than that.

A report rarely holds what the exact prediction needs (tensors, placement, bandwidth measured). It often says "RTX 3090"
and "Llama 3 8B Q4_K_M", and the catalogue knows both.
"""

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.vram import gpus_of
from unslow.think.report import Expected, Range, SubjectReport
from unslow.think.verdict import lost_speed

DECODE = "decode_tokens_per_s"
CLEARLY_SLOWER = 1.5
"""So much below the interval no difference of builds or settings explains it."""
_USUAL_QUANTS = {"Ollama": "Q4_K_M", "LM Studio": "Q4_K_M"}


def with_expectation(subject: SubjectReport, case: Case) -> SubjectReport:
    """The report with the catalogue's expectation, and the verdict that follows where nothing else decided one."""
    if DECODE in subject.expected.achievable or subject.verdict == "failed":
        return subject
    expected = _expected(case)
    if expected is None:
        return subject
    subject = msgspec.structs.replace(subject, expected=Expected(achievable={DECODE: expected}))
    return subject if lost_speed(case) else _judged(subject, expected)


def _expected(case: Case) -> Range | None:
    """Of one GPU: several are placed in ways that a text seldom tells, and of a CPU it leaves out what decides."""
    gpus = gpus_of(case)
    device = gpus[0].name.value_or("") if len(gpus) == 1 else ""
    quant = case.model.quant.value_or(_USUAL_QUANTS.get(case.runtime.name.value_or(""), ""))
    if not device or not quant or not isinstance(case.model.name, Known):
        return None
    from unslow.app.check import expected_speed  # noqa: PLC0415 (the whole predictor: only where it can be asked)

    found = expected_speed(case.model.name.value, quant, device, 1, 0)
    return Range(low=found.low, mid=found.mid, high=found.high) if found else None


def _judged(subject: SubjectReport, expected: Range) -> SubjectReport:
    """Normal where the speed is as expected and nothing speaks against it; slow where it is far below."""
    rate = subject.measured.get(DECODE)
    if rate is None or subject.findings or subject.verdict != "cannot_tell":
        return subject
    should = (
        f"{_rounded(expected.mid)} tokens per second are usual ({_rounded(expected.low)} to {_rounded(expected.high)})"
    )
    if rate >= expected.low and not any(item.suspected for item in subject.cannot_tell):
        summary = f"It generates {_rounded(rate)} tokens per second, which is normal for this hardware: {should}."
        return msgspec.structs.replace(subject, verdict="normal", summary=summary)
    if rate * CLEARLY_SLOWER < expected.low:
        summary = f"It generates {_rounded(rate)} tokens per second, where {should}. The text does not prove why."
        return msgspec.structs.replace(subject, verdict="slow", summary=summary)
    return subject


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 (three digits)
