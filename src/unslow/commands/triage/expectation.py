"""The speed that named hardware should give a named model: for a text that says no more than that.

A report rarely holds what the exact prediction needs (tensors, placement, bandwidth measured). It often says "RTX
3090" and "Llama 3 8B Q4_K_M", and the catalog knows both.
"""

from typing import TYPE_CHECKING, Literal

import msgspec

from unslow.facts.values import Known, Unknown
from unslow.think.case.view import CaseView
from unslow.think.judge.checklist import AS_FAST
from unslow.think.judge.headline import AS_MUCH_AS_FITS, root_causes, suspects_in_words
from unslow.think.judge.normal_for_this_hardware import reaches_achievable
from unslow.think.judge.verdict import CONTRADICTION, TOO_FAST, lost_speed
from unslow.think.report import ChecklistItem, Expectation, Range, SubjectReport
from unslow.think.speed.question import rounded_rate

if TYPE_CHECKING:
    from unslow.commands.predict.cases import ExpectedSpeeds

DECODE = "decode_tokens_per_s"
CPU_UNTOLD = "part of the model is on the CPU, and the text does not give its memory bandwidth"
_USUAL_QUANTS = {"Ollama": "Q4_K_M", "LM Studio": "Q4_K_M"}


def with_expectation(subject: SubjectReport, case: CaseView) -> SubjectReport:
    """The report with the catalog's expectation, and the verdict that follows where nothing else decided one.

    A prediction that rests on more than names stands, unless it is of a model that all fits where it can't.
    """
    if subject.verdict == "failed":
        return subject
    known, usual = DECODE in subject.expected.achievable, _usual(case)
    if usual is None or (known and not usual.in_part):
        spills = known and root_causes(subject.findings) == ["weights_spill_to_ram"]
        return _without_prediction(subject) if spills else subject
    speed = usual.decode
    most = speed.mid if subject.findings else speed.high
    if usual.in_part and subject.measured.get(DECODE, 0.0) > most:
        return _without_prediction(subject)
    usual_range = Range(low=speed.low, mid=speed.mid, high=speed.high)
    expected = Expectation(achievable={DECODE: usual_range}, because=AS_MUCH_AS_FITS if usual.in_part else "")
    checklist, rate = subject.checklist, subject.measured.get(DECODE)
    if rate is not None:
        because = f"{rounded_rate(rate)} tok/s, {rounded_rate(speed.low)} to {rounded_rate(speed.high)} expected"
        state: Literal["ok", "bad"] = "ok" if reaches_achievable(rate, speed.low) else "bad"
        answered = ChecklistItem(item=AS_FAST, state=state, because=because)
        checklist = tuple(answered if item.item == AS_FAST else item for item in checklist)
    subject = msgspec.structs.replace(subject, expected=expected, checklist=checklist)
    return subject if known else _judge_by_expectation(subject, usual, was_faster=lost_speed(case))


def _usual(case: CaseView) -> "ExpectedSpeeds | None":
    """Of one GPU: several are placed in ways that a text seldom tells, and of a CPU it leaves out what decides."""
    gpus = case.gpus.usable
    device = gpus[0].name.value_or("") if len(gpus) == 1 else ""
    quant = case.model.quant.value_or(_USUAL_QUANTS.get(case.runtime.name.value_or(""), ""))
    several = case.runtime.scheduling.running_requests.value_or(1) > 1  # their speeds add up
    if several or not device or not quant or not isinstance(case.model.name, Known):
        return None
    from unslow.commands.predict.cases import catalog_expectation

    found = catalog_expectation(case.model.name.value, quant, device)
    return None if isinstance(found, Unknown) else found


def _without_prediction(subject: SubjectReport) -> SubjectReport:
    """Where it is faster than a part on a usual CPU would be, its CPU is not a usual one."""
    asked = ChecklistItem(item=AS_FAST, state="unknown", because=CPU_UNTOLD)
    checklist = tuple(asked if item.item == AS_FAST else item for item in subject.checklist)
    return msgspec.structs.replace(subject, expected=Expectation(because=CPU_UNTOLD), checklist=checklist)


def _judge_by_expectation(subject: SubjectReport, usual: "ExpectedSpeeds", *, was_faster: bool) -> SubjectReport:
    """Normal where the speed is as expected and nothing speaks against it; slow where it is below."""
    rate = subject.measured.get(DECODE)
    if rate is None or subject.findings or subject.verdict != "cannot_tell":
        return subject
    expected, fitting = usual.decode, f" {AS_MUCH_AS_FITS}" if usual.in_part else ""
    now, between = rounded_rate(rate), f"{rounded_rate(expected.low)} to {rounded_rate(expected.high)}"
    if rate > CONTRADICTION * usual.ceiling_tokens_per_s and not usual.in_part:
        too_fast = msgspec.structs.replace(subject.expected, because=TOO_FAST)
        return msgspec.structs.replace(subject, expected=too_fast)
    if not reaches_achievable(rate, expected.low):
        less = f"{1 - rate / expected.mid:.0%} below the expected {rounded_rate(expected.mid)}{fitting}"
        said = (f"{now} tok/s: {less} ({between}).", "The text does not prove why.")
        summary = " ".join(s for s in (*said, suspects_in_words(subject)) if s)
        return msgspec.structs.replace(subject, verdict="slow", summary=summary)
    if was_faster or any(item.suspected for item in subject.cannot_tell):
        return subject
    above = " It is faster than expected: the prediction was low." if rate > expected.high else ""
    should = f"Expected: {rounded_rate(expected.mid)}{fitting} ({between})"
    summary = f"{now} tok/s: normal for this hardware. {should}.{above}"
    return msgspec.structs.replace(subject, verdict="normal", summary=summary)
