"""What the causes and the budget say of a server that is only watched, in as few words as fit a line."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.think.adapt.remembered import one_judgement
from unslow.think.causes import all_causes
from unslow.think.judge import judge
from unslow.think.phases import PER
from unslow.think.predict import DECODE, predict, predict_prefill
from unslow.think.report import Finding, Range, SubjectReport, Untold
from unslow.think.view.live import Suspicion, Wall, WallPart

NORMAL = "nothing: it is as fast as this hardware allows"
NOTHING = "nothing stands out"
NO_SPEED, UNSURE = "no speed was seen yet", "it can't be told yet"
_COMPUTES = ("prefill", "decode")
_MATTERS = 0.1
"""Of the time that it computed: what is only suspected of a phase that took less is not the answer."""


class Judgement(NamedTuple):
    """All that is drawn from one judgement."""

    suspicion: Suspicion
    walls: dict[str, Wall]
    """By phase."""
    expected: Range | None
    ceiling: float | None


def as_judged(report: SubjectReport, _case: Case) -> SubjectReport:
    """Fixes without a runtime's words for them."""
    return report


@one_judgement()
def judgement(
    case: Case,
    at: str = "",
    shares: Mapping[str, float] | None = None,
    spell: Callable[[SubjectReport, Case], SubjectReport] = as_judged,
) -> Judgement:
    """Judge what was seen so far; `shares` are the phases of the last minute, `spell` puts fixes into commands."""
    report = spell(judge(case), case)
    expected = report.expected
    return Judgement(
        suspicion_of(report, at, shares or {}), walls_of(case, report), expected.as_configured.get(DECODE),
        expected.ceiling_tokens_per_s,
    )  # fmt: skip


def suspicion_of(report: SubjectReport, at: str = "", shares: Mapping[str, float] | None = None) -> Suspicion:
    """The first finding; else what is suspected; else that it is normal, or that it can't be told."""
    if report.findings:
        return _found(report.findings, at)
    suspected = [untold for untold in report.cannot_tell if untold.suspected and _matters(untold, shares or {})]
    if suspected:
        return _suspected(suspected, at)
    if report.verdict == "normal":
        return Suspicion(kind="nothing", title=NORMAL, at=at)
    if DECODE not in report.measured:
        return Suspicion(kind="cannot_tell", title=NO_SPEED, because=report.summary, at=at)
    if report.verdict == "cannot_tell":
        return Suspicion(kind="cannot_tell", title=_against(report) or UNSURE, because=report.summary, at=at)
    return Suspicion(kind="nothing", title=NOTHING, because=report.summary, at=at)


def _matters(untold: Untold, shares: Mapping[str, float]) -> bool:
    """Whether the phase that it would slow down took a part of the last minute that is worth a word."""
    phase, computed = all_causes()[untold.cause].phase, sum(shares.get(name, 0.0) for name in _COMPUTES)
    return phase not in _COMPUTES or not computed or shares.get(phase, 0.0) >= _MATTERS * computed


def _against(report: SubjectReport) -> str:
    """The first question of the checklist that has a bad answer; empty where none has."""
    return next((f"{item.item} No: {item.because}" for item in report.checklist if item.state == "bad"), "")


def _found(findings: tuple[Finding, ...], at: str) -> Suspicion:
    first = findings[0]
    fix, command = next(((fix.why, fix.commands[0]) for fix in first.fixes if fix.commands), ("", ""))
    fix = fix or (first.fixes[0].why if first.fixes and not command else "")
    return Suspicion(
        kind="found", title=first.title, because=first.because, cause=first.cause, cost=first.cost,
        speedup=first.speedup, more=len(findings) - 1, fix=fix, command=command, at=at,
    )  # fmt: skip


def _suspected(suspected: list[Untold], at: str) -> Suspicion:
    first = suspected[0]
    return Suspicion(
        kind="suspected",
        title=all_causes()[first.cause].title,
        because=first.because,
        cause=first.cause,
        more=len(suspected) - 1,
        fix=first.how_to_get,
        at=at,
    )


def walls_of(case: Case, report: SubjectReport) -> dict[str, Wall]:
    """What binds in each phase that computes: as measured, else as predicted."""
    walls = {}
    for phase, predictor in (("decode", predict), ("prefill", predict_prefill)):
        parts = [(b.part, b.seconds) for b in report.budget if b.phase == phase]
        measured = bool(parts)
        if not measured:
            known = predictor(case)
            parts = [] if isinstance(known, Unknown) else [(p.name, p.seconds) for p in known.parts]
        if found := _parts(parts):
            walls[phase] = Wall(phase=phase, per=PER[phase], parts=found, measured=measured)
    return walls


def _parts(parts: Iterable[tuple[str, float]]) -> tuple[WallPart, ...]:
    """The parts that take any time, the largest first."""
    known = sorted(((name, seconds) for name, seconds in parts if seconds > 0), key=lambda part: -part[1])
    total = sum(seconds for _, seconds in known)
    return tuple(WallPart(part=name, seconds=seconds, share=seconds / total) for name, seconds in known)
