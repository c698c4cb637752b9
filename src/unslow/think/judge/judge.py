"""The diagnosis, top down: which phase, where its time goes, which causes are there, and what they cost."""

import contextlib
from functools import reduce

import msgspec

from unslow.facts.snapshot import Snapshot
from unslow.facts.values import MissingFactError
from unslow.think.case.cure import Cure
from unslow.think.case.speed import DECODE, Prediction
from unslow.think.case.view import CaseView, views_of
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Cause, Found, Suspected, missing_need, ruled_out_at_once
from unslow.think.judge.checklist import checklist
from unslow.think.judge.findings import (
    beyond_physics,
    expected_figures,
    measured_figures,
    promising_what_is_achievable,
    worthy_findings,
)
from unslow.think.judge.phases import outlook, reported_phase
from unslow.think.judge.pricing import budget
from unslow.think.judge.subject import device_names, machine_line, notes_on, subject_name, with_quotes
from unslow.think.judge.summary import summary
from unslow.think.judge.verdict import can_fail_a_load, settle_answers, verdict_on
from unslow.think.memo import one_judgement
from unslow.think.report import ContradictionShown, Report, RuledOut, SubjectReport, Untold, Verdict

_WORST_FIRST: tuple[Verdict, ...] = ("failed", "slow", "cannot_tell", "normal")


def diagnose(snapshot: Snapshot) -> Report:
    """The report on every subject of a snapshot, the slowest against its achievable speed first."""
    judged = [judge(case) for case in views_of(snapshot)]
    subjects = [msgspec.structs.replace(subject, number=number) for number, subject in enumerate(judged)]

    def share_reached(subject: SubjectReport) -> tuple[int, float]:
        achievable, measured = subject.expected.achievable.get(DECODE), subject.measured.get(DECODE)
        return _WORST_FIRST.index(subject.verdict), measured / achievable.mid if achievable and measured else 0.0

    worst_first = tuple(sorted(subjects, key=share_reached))
    return Report(unslow_version=snapshot.unslow_version, machine=machine_line(snapshot), subjects=worst_first)


@one_judgement()
def judge(case: CaseView, *, brief: bool = False) -> SubjectReport:
    """The report on one subject; a brief one has no checklist, and where all is normal no words for what to look at."""
    now = case.speed.predict()
    answers = {name: _answer(case, cause) for name, cause in all_causes().items()}
    answers = settle_answers(case, answers, now if isinstance(now, Prediction) else None)
    found = {name: a for name, a in answers.items() if isinstance(a, Found)}
    cures = _all_cures(case, found)
    seen = outlook(case, cures)
    findings, costless = worthy_findings(case, found, seen)
    verdict = verdict_on(case, findings, seen)
    if not (brief and verdict == "normal"):
        answers = {name: _spell_answer(case, answer) for name, answer in answers.items()}
    too_small = (*costless, *(findings if verdict == "normal" else ()))
    told = () if verdict == "normal" else findings
    causes, beyond = [f.cause for f in told], beyond_physics(case, found, told, seen)
    runtime, model = subject_name(case)
    best, expected = seen.decode.best, expected_figures(case, seen, verdict, findings, cures)
    report = SubjectReport(
        url=case.runtime.process.url.value_or(""),
        pid=case.runtime.process.pid.value_or(None),
        runtime=runtime,
        version=case.runtime.version.value_or(""),
        model=model,
        quant=case.model.quant.value_or(""),
        devices=device_names(case),
        verdict=verdict,
        summary="",
        phase=reported_phase(case, seen, findings),
        measured=measured_figures(case, seen, causes),
        expected=expected,
        budget=() if verdict == "failed" else budget(case, seen, causes, beyond),
        findings=tuple(promising_what_is_achievable(f, expected) for f in told),
        ruled_out=(
            *(RuledOut(cause=f.cause, because=f"costs little here: {f.because}") for f in too_small),
            *(RuledOut(cause=n, because=a.because) for n, a in answers.items() if isinstance(a, Absent)),
        ),
        cannot_tell=tuple(
            Untold(cause=n, missing=a.missing, because=a.why, how_to_get=a.how_to_get, suspected=bool(a.suspected))
            for n, a in answers.items()
            if isinstance(a, CannotTell) and (verdict != "failed" or can_fail_a_load(n))
        ),
        checklist=() if brief else checklist(case, best if isinstance(best, Prediction) else None),
        contradictions=tuple(
            ContradictionShown(
                about=c.about, meaning=c.meaning, says=tuple(f"{s.says} [{s.source}]" for s in c.statements)
            )
            for c in case.contradictions
        ),
        notes=notes_on(case),
    )
    return summary(case, with_quotes(case, report))


def _answer(case: CaseView, cause: Cause) -> Found | Absent | CannotTell:
    ruled_out = ruled_out_at_once(case, cause)
    if ruled_out:
        return ruled_out
    lacking = missing_need(case, cause.needs)
    if lacking:
        return lacking if lacking.how_to_get else lacking._replace(how_to_get=cause.ask)
    try:
        answer = cause.check(case)
    except MissingFactError as error:
        unknown = error.unknown
        return CannotTell(error.path or unknown.why, unknown.why, unknown.how_to_get or cause.ask)
    if isinstance(answer, Suspected):
        return CannotTell(answer.missing, answer.because, answer.how_to_get or cause.ask, answer.because)
    return answer


def _spell_answer(case: CaseView, answer: Found | Absent | CannotTell) -> Found | Absent | CannotTell:
    if isinstance(answer, CannotTell):
        return answer._replace(how_to_get=case.system.spell_out(answer.how_to_get))
    return answer


def _all_cures(case: CaseView, found: dict[str, Found]) -> Cure | None:
    """Every found cause cured, and all that fits placed on the GPU: what is left out without a reason is no norm."""
    cures = [f.cure for f in found.values() if f.cure]
    if case.gpus.visible_to_runtime and not case.runtime.embedded:
        with contextlib.suppress(MissingFactError):
            cures.append(Cure(vram_bytes=case.vram.available_bytes))
    return reduce(Cure.and_also, cures) if cures else None
