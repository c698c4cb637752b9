"""What the causes and the budget say of a server that is only watched, in as few words as fit a line."""

from collections.abc import Iterable
from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.think.causes import all_causes
from unslow.think.judge import judge
from unslow.think.phases import PER
from unslow.think.predict import DECODE, predict, predict_prefill
from unslow.think.report import Finding, Range, SubjectReport, Untold
from unslow.think.view.live import Suspicion, Wall, WallPart

NORMAL = "nothing: it is as fast as this hardware allows"
NOTHING = "nothing stands out"


class Judgement(NamedTuple):
    """All that is drawn from one judgement."""

    suspicion: Suspicion
    walls: dict[str, Wall]
    """By phase."""
    expected: Range | None
    ceiling: float | None


def judgement(case: Case, at: str = "") -> Judgement:
    """Judge what was seen so far."""
    report = judge(case)
    expected = report.expected
    return Judgement(
        suspicion_of(report, at), walls_of(case, report), expected.as_configured.get(DECODE),
        expected.ceiling_tokens_per_s,
    )  # fmt: skip


def suspicion_of(report: SubjectReport, at: str = "") -> Suspicion:
    """The first finding; else what is suspected; else that it is normal, or that it can't be told."""
    if report.findings:
        return _found(report.findings, at)
    suspected = [untold for untold in report.cannot_tell if untold.suspected]
    if suspected:
        return _suspected(suspected, at)
    if report.verdict == "normal":
        return Suspicion(kind="nothing", title=NORMAL, at=at)
    if DECODE in report.measured:
        return Suspicion(kind="nothing", title=NOTHING, because=report.summary, at=at)
    return Suspicion(kind="cannot_tell", title="no speed was seen yet", because=report.summary, at=at)


def _found(findings: tuple[Finding, ...], at: str) -> Suspicion:
    first = findings[0]
    commands = (command for fix in first.fixes for command in fix.commands)
    fix = next(commands, "") or (first.fixes[0].why if first.fixes else "")
    return Suspicion(
        kind="found", title=first.title, because=first.because, cause=first.cause, cost=first.cost,
        speedup=first.speedup, more=len(findings) - 1, fix=fix, at=at,
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
