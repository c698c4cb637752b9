"""The diagnosis, top down: which phase, where its time goes, which causes are there, and what they cost."""

import contextlib
from functools import reduce

import msgspec

from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import MissingFactError
from unslow.think.case.instructions import spelled_out
from unslow.think.case.prediction import DECODE, Prediction, predict
from unslow.think.case.vram import available_vram_bytes, runtime_sees_gpu
from unslow.think.case.work import Cure
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Cause, Found, Suspected, missing_need, ruled_out_at_once
from unslow.think.judge.budget import budget
from unslow.think.judge.chains import can_fail_a_load, settled
from unslow.think.judge.checklist import checklist
from unslow.think.judge.expected import expected_figures, first_token_now, measured_figures
from unslow.think.judge.findings import beyond_physics, promising_no_more, worthy_findings
from unslow.think.judge.phases import outlook, reported_phase
from unslow.think.judge.quotes import with_quotes
from unslow.think.judge.subject import device_names, machine_line, notes_on, subject_name
from unslow.think.judge.summary import summary
from unslow.think.judge.verdict import verdict_on
from unslow.think.memo import one_judgement
from unslow.think.report import Contradicted, Report, RuledOut, SubjectReport, Untold, Verdict

_WORST_FIRST: tuple[Verdict, ...] = ("failed", "slow", "cannot_tell", "normal")


def diagnose(snapshot: Snapshot) -> Report:
    """The report on every subject of a snapshot, the slowest against its achievable speed first."""
    judged = [judge(case) for case in snapshot.cases()]
    subjects = [msgspec.structs.replace(subject, number=number) for number, subject in enumerate(judged)]

    def share_reached(subject: SubjectReport) -> tuple[int, float]:
        achievable, measured = subject.expected.achievable.get(DECODE), subject.measured.get(DECODE)
        return _WORST_FIRST.index(subject.verdict), measured / achievable.mid if achievable and measured else 0.0

    worst_first = tuple(sorted(subjects, key=share_reached))
    return Report(unslow_version=snapshot.unslow_version, machine=machine_line(snapshot), subjects=worst_first)


@one_judgement()
def judge(case: Case, *, brief: bool = False) -> SubjectReport:
    """The report on one subject; a brief one has no checklist, and where all is normal no words for what to look at."""
    now = predict(case)
    answers = {name: _answer(case, cause) for name, cause in all_causes().items()}
    answers = settled(case, answers, now if isinstance(now, Prediction) else None)
    found = {name: a for name, a in answers.items() if isinstance(a, Found)}
    cures = _all_cures(case, found)
    seen = outlook(case, cures)
    findings, costless = worthy_findings(case, found, seen)
    verdict = verdict_on(case, findings, seen)
    if not (brief and verdict == "normal"):
        answers = {name: _spelled(case, answer) for name, answer in answers.items()}
    too_small = (*costless, *(findings if verdict == "normal" else ()))
    told = () if verdict == "normal" else findings
    causes, beyond = [f.cause for f in told], beyond_physics(case, found, told, seen)
    runtime, model = subject_name(case)
    best, expected = seen.decode.best, expected_figures(case, seen, verdict, findings, cures)
    report = SubjectReport(
        url=case.runtime.url.value_or(""),
        pid=case.runtime.pid.value_or(None),
        runtime=runtime,
        version=case.runtime.version.value_or(""),
        model=model,
        quant=case.model.quant.value_or(""),
        devices=device_names(case),
        verdict=verdict,
        summary="",
        phase=reported_phase(case, seen, findings),
        measured=measured_figures(case, seen, first_token_now(case, causes)),
        expected=expected,
        budget=() if verdict == "failed" else budget(case, seen, causes, beyond),
        findings=tuple(promising_no_more(f, expected) for f in told),
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
            Contradicted(about=c.about, meaning=c.meaning, says=tuple(f"{s.says} [{s.source}]" for s in c.statements))
            for c in case.contradictions
        ),
        notes=notes_on(case),
    )
    return summary(case, with_quotes(case, report))


def _answer(case: Case, cause: Cause) -> Found | Absent | CannotTell:
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


def _spelled(case: Case, answer: Found | Absent | CannotTell) -> Found | Absent | CannotTell:
    if isinstance(answer, CannotTell):
        return answer._replace(how_to_get=spelled_out(answer.how_to_get, case))
    return answer


def _all_cures(case: Case, found: dict[str, Found]) -> Cure | None:
    """Every found cause cured, and all that fits placed on the GPU: what is left out without a reason is no norm."""
    cures = [f.cure for f in found.values() if f.cure]
    if runtime_sees_gpu(case) and not case.runtime.embedded:
        with contextlib.suppress(MissingFactError):
            cures.append(Cure(vram_bytes=available_vram_bytes(case)))
    return reduce(Cure.and_also, cures) if cures else None
