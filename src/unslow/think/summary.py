"""The diagnosis in one paragraph that a person can act on."""

import re

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Unknown
from unslow.think.budget import UNEXPLAINED
from unslow.think.causes import all_causes
from unslow.think.predict import DECODE, measured_rate
from unslow.think.report import Finding, SubjectReport, Untold
from unslow.think.verdict import told_normal

_FEELS = (
    (5, "Below 5 tok/s you wait for it."),
    (10, "That is slower than most people read."),
    (15, "That is about reading speed."),
)
AS_MUCH_AS_FITS = "with as much on the GPU as fits"
_LEVERS = (
    "What would move it: a smaller quant or a model with fewer active parameters, several requests at once, "
    "a draft model, or memory with more bandwidth."
)
_TOOLS = (
    (re.compile(r"\bollama\b", re.IGNORECASE), "Ollama"),
    (re.compile(r"\bllama-(?:bench|server|cli)\b|-lv 4"), "llama.cpp"),
    (re.compile(r"\bvllm\b", re.IGNORECASE), "vLLM"),
    (re.compile(r"\blms\b|LM Studio"), "LM Studio"),
)
"""Tools that belong to one runtime, by the words of an advice."""


def summary(case: Case, report: SubjectReport, advice: str | None = None) -> SubjectReport:
    """The report with its summary filled in; `advice` says what to do next, empty for nothing, None to choose it."""
    if report.verdict == "failed":
        return msgspec.structs.replace(report, summary=_failed(case, report))
    if report.verdict == "normal":
        sentence = _normal(case, report)
    else:
        sentence = (_slow if report.verdict == "slow" else _cannot_tell)(case, report, advice)
    felt = _felt(case, report) if report.verdict != "cannot_tell" else ""
    return msgspec.structs.replace(report, summary=" ".join(s for s in (sentence, felt) if s))


def _failed(case: Case, report: SubjectReport) -> str:
    causes = "; ".join(f.because for f in report.findings[:2])
    return f"The model could not be loaded: {causes or case.runtime.load_error.value_or('the log does not say why')}."


def _slow(case: Case, report: SubjectReport, advice: str | None) -> str:
    achievable = report.expected.achievable.get(DECODE)
    should = _should(report, achievable.mid) if achievable else ""
    rate = report.measured.get(DECODE)
    is_now = f"{_speed(case, rate)}{should}." if rate else "It is set up to be slow."
    if not report.findings:
        look = _next(case, report) if advice is None else advice
        return f"{is_now} No cause could be proven.{_unexplained(report)}" + (f" Look next: {look}." if look else "")
    return f"{is_now} Slow because {_because(report.findings)}."


def _speed(case: Case, rate: float) -> str:
    """The speed and whose it is: a measurement's, or that of all requests so far."""
    if isinstance(case.run.decode_tokens_per_s, Known):
        return f"It generates {_rounded(rate)} tokens per second"
    return f"On average since it started it generated {_rounded(rate)} tokens per second"


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 (three digits)


def _should(report: SubjectReport, speed: float) -> str:
    """What to hold the speed against; a model that is too large for the GPU will not reach it here."""
    if report.expected.because == AS_MUCH_AS_FITS:
        return f"; {AS_MUCH_AS_FITS} about {_rounded(speed)} are usual"
    if roots(report.findings) == ["weights_spill_to_ram"]:
        return f"; all in the memory of such a GPU it would be about {_rounded(speed)}, but it does not fit"
    return f"; this hardware should give about {_rounded(speed)}"


def roots(findings: tuple[Finding, ...]) -> list[str]:
    """The causes that no other finding explains."""
    return [f.cause for f in findings if not any(f.cause in g.explains for g in findings)]


def _unexplained(report: SubjectReport) -> str:
    total = sum(b.seconds for b in report.budget)
    share = sum(b.seconds for b in report.budget if b.part == UNEXPLAINED) / total if total else 0.0
    return f" {share:.0%} of the time of a token is explained by nothing that was seen." if share else ""


def _next(case: Case, report: SubjectReport) -> str:
    """What to collect next: what a cause asked for, else what usually hides behind an unexplained remainder."""
    if asked := _asked(case, report):
        return asked
    if len(report.devices) > 1:
        return "who else computes on the GPU (`nvidia-smi pmon -c 3`), and its clocks while it generates"
    return "what else reads memory on this machine, and the CPU's clock while it generates"


def _asked(case: Case, report: SubjectReport) -> str:
    """What settles the first suspicion, else a cause of the slow phase, in words that this runtime understands."""
    relevant = sorted(report.cannot_tell, key=lambda one: (not one.suspected, not _is_of_phase(one, report.phase)))
    runtime = case.runtime.name.value_or("")
    fitting = (c for c in relevant if c.how_to_get and (c.suspected or _is_of_phase(c, report.phase)))
    return next((c.how_to_get for c in fitting if _is_for(c.how_to_get, runtime)), "")


def _is_of_phase(one: Untold, phase: str) -> bool:
    cause = all_causes().get(one.cause)
    return cause is not None and cause.phase == phase


def _is_for(advice: str, runtime: str) -> bool:
    """Whether an advice names no tool of another runtime."""
    named = {name for pattern, name in _TOOLS if pattern.search(advice)}
    return not named or runtime in named


def _because(findings: tuple[Finding, ...]) -> str:
    explained = {e for f in findings for e in f.explains}
    unexplained = [f for f in findings if f.cause not in explained]
    return "; and because ".join(f.because for f in unexplained[:2])


def _normal(case: Case, report: SubjectReport) -> str:
    if not report.measured.get(DECODE):
        return f"This is normal for the hardware: {told_normal(case)}. {_LEVERS}"
    rate, ceiling = report.measured.get(DECODE), report.expected.ceiling_tokens_per_s
    share = f" That is {rate / ceiling:.0%} of what the memory bandwidth allows." if rate and ceiling else ""
    return f"{_speed(case, rate or 0)}, which is normal for this hardware.{share} {_LEVERS}"


def _cannot_tell(case: Case, report: SubjectReport, advice: str | None) -> str:
    why, how, unmeasured = report.expected.because, "", measured_rate(case)
    if isinstance(unmeasured, Unknown):
        why, how = f"it was not measured, because {unmeasured.why}", unmeasured.how_to_get
    how = advice if advice is not None else how or _asked(case, report)
    look = f" To find out: {how}." if how else ""
    return f"It can't be told whether this is slow: {_as_lack(why)}.{look}"


def _as_lack(why: str) -> str:
    """A missing fact as words that can follow a colon."""
    if why in ("", NOT_LOOKED.why):
        return "too little is known to say how fast it should be"
    return f"it is not known {why}" if why.startswith(("where ", "which ", "whether ", "what ", "the ")) else why


def _felt(case: Case, report: SubjectReport) -> str:
    """How the speed feels, against the user's own goal or reading speed."""
    rate, goal = report.measured.get(DECODE), case.wish.tokens_per_s.value_or(0)
    if not rate:
        return ""
    if goal:
        return f"Your goal of {goal:g} tok/s is {'reached' if rate >= goal else 'not reached'}."
    for limit, words in _FEELS:
        if rate < limit:
            return words
    return "That is faster than most people read." if report.verdict == "normal" else ""
