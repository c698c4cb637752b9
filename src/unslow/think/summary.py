"""The diagnosis in one paragraph that a person can act on."""

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.budget import UNEXPLAINED
from unslow.think.predict import DECODE, measured_rate
from unslow.think.report import Finding, SubjectReport
from unslow.think.verdict import told_normal

_FEELS = (
    (5, "Below 5 tok/s you wait for it."),
    (10, "That is slower than most people read."),
    (15, "That is about reading speed."),
)
_LEVERS = (
    "What would move it: a smaller quant or a model with fewer active parameters, several requests at once, "
    "a draft model, or memory with more bandwidth."
)


def summary(case: Case, report: SubjectReport) -> SubjectReport:
    """The report with its summary filled in."""
    if report.verdict == "failed":
        return msgspec.structs.replace(report, summary=_failed(case, report))
    sentence = {"slow": _slow, "normal": _normal, "cannot_tell": _cannot_tell}[report.verdict](case, report)
    felt = _felt(case, report) if report.verdict != "cannot_tell" else ""
    return msgspec.structs.replace(report, summary=" ".join(s for s in (sentence, felt) if s))


def _failed(case: Case, report: SubjectReport) -> str:
    causes = "; ".join(f.because for f in report.findings[:2])
    return f"The model could not be loaded: {causes or case.runtime.load_error.value_or('the log does not say why')}."


def _slow(case: Case, report: SubjectReport) -> str:
    achievable = report.expected.achievable.get(DECODE)
    should = _should(report, achievable.mid) if achievable else ""
    rate = report.measured.get(DECODE)
    is_now = f"{_speed(case, rate)}{should}." if rate else "It is set up to be slow."
    if not report.findings:
        return f"{is_now} No cause could be proven.{_unexplained(report)} Look next: {_next(report)}."
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
    roots = [f.cause for f in report.findings if not any(f.cause in g.explains for g in report.findings)]
    if roots == ["weights_spill_to_ram"]:
        return f"; all in the memory of such a GPU it would be about {_rounded(speed)}, but it does not fit"
    return f"; this hardware should give about {_rounded(speed)}"


def _unexplained(report: SubjectReport) -> str:
    total = sum(b.seconds for b in report.budget)
    share = sum(b.seconds for b in report.budget if b.part == UNEXPLAINED) / total if total else 0.0
    return f" {share:.0%} of the time of a token is explained by nothing that was seen." if share else ""


def _next(report: SubjectReport) -> str:
    """What to collect next: what a cause asked for, else what usually hides behind an unexplained remainder."""
    if report.cannot_tell and (asked := _asked(report)):
        return asked
    if len(report.devices) > 1:
        return "who else computes on the GPU (`nvidia-smi pmon -c 3`), and its clocks while it generates"
    return "what else reads memory on this machine, and the CPU's clock while it generates"


def _asked(report: SubjectReport) -> str:
    """What settles the first suspicion, else what a fact that is missing says of itself."""
    advice = [c.how_to_get for c in sorted(report.cannot_tell, key=lambda c: not c.suspected) if c.how_to_get]
    return advice[0] if advice else ""


def _because(findings: tuple[Finding, ...]) -> str:
    explained = {e for f in findings for e in f.explains}
    roots = [f for f in findings if f.cause not in explained]
    return "; and because ".join(f.because for f in roots[:2])


def _normal(case: Case, report: SubjectReport) -> str:
    if not report.measured.get(DECODE):
        return f"This is normal for the hardware: {told_normal(case)}. {_LEVERS}"
    rate, ceiling = report.measured.get(DECODE), report.expected.ceiling_tokens_per_s
    share = f" That is {rate / ceiling:.0%} of what the memory bandwidth allows." if rate and ceiling else ""
    return f"{_speed(case, rate or 0)}, which is normal for this hardware.{share} {_LEVERS}"


def _cannot_tell(case: Case, report: SubjectReport) -> str:
    why, how, unmeasured = report.expected.because, "", measured_rate(case)
    if isinstance(unmeasured, Unknown):
        why, how = f"it was not measured, because {unmeasured.why}", unmeasured.how_to_get
    how = how or _asked(report)
    look = f" To find out: {how}." if how else ""
    return f"It can't be told whether this is slow: {_as_lack(why)}.{look}"


def _as_lack(why: str) -> str:
    """A missing fact as words that can follow a colon."""
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
